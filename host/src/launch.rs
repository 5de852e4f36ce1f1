//! Launching: from a team file, or from what is saved, to a run that is ready to go.

mod components;
mod resume;
mod saved;
mod send;
mod start;

use std::path::{Path, PathBuf};

use strata_core::event::Status;
use strata_core::stepper::Stepper;

use crate::driver::{Driver, DriverError, Journal, Stop};
use crate::manifest::{Definition, Diagnostics, OverrideError};
use crate::sandbox::SandboxError;
use crate::services::http::HttpError;
use crate::services::llm::config::ConfigError;
use crate::store::team_json::{self, ImportError};
use crate::store::{Durability, SavedDefinition, StoreError};

pub use components::Components;
pub use resume::{Notes, Resume, Resumed, resume};
pub use saved::{SavedTeam, reader, saved};
pub use send::send;
pub use start::{Start, Started, start};

/// A team that is ready to run, or ran.
pub struct Run {
    driver: Driver,
    definition: SavedDefinition,
    path: PathBuf,
}

/// Why a run cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The team file is wrong, or a component does not fit it.
    #[error("{0}")]
    Definition(#[from] Diagnostics),
    /// A flag does not fit the team.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// Something needed was not given.
    #[error("{0}")]
    Missing(String),
    /// A language model cannot be set up.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// The client for http cannot be set up.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The storage cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A `team.json` cannot be read.
    #[error("cannot go on from `{}`: {source}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImportError,
    },
    /// The saved state is that of another team, or (`--strict`) of other components.
    #[error("the saved team does not fit:{}", lines(.0))]
    Unfit(Vec<String>),
    /// The sandbox cannot be set up on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The run could not begin.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

fn lines(differences: &[String]) -> String {
    differences.iter().map(|line| format!("\n  {line}")).collect()
}

impl Run {
    /// Runs until the team halts or is stopped, and saves it.
    pub async fn run(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        let status = self.driver.run(stop).await?;
        self.save()?;
        Ok(status)
    }

    /// The team and its state.
    pub fn stepper(&self) -> &Stepper {
        self.driver.journal().stepper()
    }

    /// The storage directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn save(&mut self) -> Result<(), StoreError> {
        save(self.driver.journal_mut(), &self.definition)
    }
}

/// Writes `team.json`.
fn save(journal: &mut Journal, definition: &SavedDefinition) -> Result<(), StoreError> {
    let text = team_json::export(journal.stepper().team(), journal.env(), definition);
    journal.store().write_team_json(&text)
}

fn saved_definition(definition: &Definition) -> SavedDefinition {
    let source = &definition.source;
    SavedDefinition {
        name: source.name.clone(),
        base: source.base.clone(),
        text: source.text.clone(),
        components: definition.given_components(),
    }
}

fn durability(definition: &Definition) -> Durability {
    match definition.run.durability {
        crate::manifest::Durability::Full => Durability::Full,
        crate::manifest::Durability::Process => Durability::Process,
    }
}

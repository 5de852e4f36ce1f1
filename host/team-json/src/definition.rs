//! The team file of a run, as it is saved with it.

use std::path::{Path, PathBuf};

use strata_base::text::component_replacement::ComponentReplacement;

/// The team file of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDefinition {
    /// Its name in messages: its path as the operator gave it.
    pub name: String,
    /// The absolute directory against which its relative paths are resolved.
    pub base: PathBuf,
    /// Its text.
    pub text: String,
    /// The components that replace those in the team file, with absolute paths. They are stored as
    /// texts, `ROLE.ACTION=FILE`.
    pub components: Vec<ComponentReplacement>,
}

impl SavedDefinition {
    /// Returns the path of the file that it was read from. The file may have changed since, or may
    /// not exist any more.
    pub fn file(&self) -> PathBuf {
        self.base
            .join(Path::new(&self.name).file_name().unwrap_or_default())
    }
}

#[cfg(any(test, feature = "test-support"))]
impl SavedDefinition {
    /// A definition for tests, whose text is not read.
    pub fn example() -> Self {
        Self {
            name: "team.toml".into(),
            base: "/somewhere".into(),
            text: "[team]\nname = \"t\"\n".into(),
            components: vec!["A.p=/p.wasm".into()],
        }
    }
}

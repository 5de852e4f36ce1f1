//! A saved team that was opened, together with the right to change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{ComponentChanged, ConsentWithdrawn, Event};
use strata_core::record::id::{Digest, Slot};
use strata_core::record::money::Usd;
use strata_core::record::questions::AskedQuestions;
use strata_core::record::shape::Shape;
use strata_core::state::environment::Environment;
use strata_core::team::Team;
use strata_driver::{
    DriverError, HumanReply, Journal, RequestResolution, RevisedCalls, check_replies,
};
use strata_manifest::Definition;
use strata_storage::{
    FIRST_LINE, Lease, OpenedRun, SavedDefinition, SavedForm, StorageLocation, StoreError,
};

use super::beside::run_beside;
use super::saved::{definition_in_team_json, import_team_json};
use super::{Components, LaunchError, saved_definition};
use crate::storage_mark::{self, MarkError};

/// A saved team that was read and can be resumed. Nothing was changed yet.
pub(super) struct OpenedTeam {
    pub(super) location: StorageLocation,
    pub(super) definition: Definition,
    pub(super) stepper: Stepper,
    pub(super) next_line: u64,
    pub(super) origin: StateOrigin,
    pub(super) plan: ResumePlan,
    pub(super) author: StateAuthor,
}

/// Who wrote a saved state.
pub(super) enum StateAuthor {
    /// This user's host.
    Own,
    /// Maybe somebody else. Contains the reason if it cannot be found out.
    Unknown(Option<MarkError>),
}

impl StateAuthor {
    fn of(location: &StorageLocation) -> Self {
        match storage_mark::is_own_state(location) {
            Ok(true) => Self::Own,
            Ok(false) => Self::Unknown(None),
            Err(error) => Self::Unknown(Some(error)),
        }
    }
}

/// A function that reads the saved team file.
pub(super) type ReadSavedDefinition<'a> =
    Box<dyn FnOnce() -> Result<SavedDefinition, LaunchError> + 'a>;

/// Where a saved state comes from.
pub(super) enum StateOrigin {
    /// The records.
    Records {
        lease: Box<dyn Lease>,
        team_json_differs: bool,
    },
    /// A `team.json` without records.
    TeamJson(Vec<u8>),
}

/// How a run continues.
pub(super) enum ResumePlan {
    /// In the current lineage.
    Continue,
    /// In another lineage, from its newest state.
    SwitchLineage {
        /// The name of the lineage.
        lineage: String,
        /// The amount spent in all lineages, less what this lineage has reserved: that is settled
        /// once it continues.
        total_spent: Usd,
        /// The questions that were asked in the lineage that is left, and in those before it.
        questions: AskedQuestions,
    },
    /// In a new lineage, which this event begins.
    Fork(Box<Event>),
}

impl ResumePlan {
    /// Returns the total spent in all lineages, if the resumed state may not know it, else zero. The
    /// account of a new lineage contains everything.
    pub(super) fn total_spent(&self) -> Usd {
        if let Self::SwitchLineage { total_spent, .. } = self {
            *total_spent
        } else {
            Usd::ZERO
        }
    }

    /// Returns the questions that were asked in other lineages, if the resumed state may not know them.
    pub(super) fn asked_elsewhere(&self) -> AskedQuestions {
        match self {
            Self::SwitchLineage { questions, .. } => questions.clone(),
            Self::Continue | Self::Fork(_) => AskedQuestions::default(),
        }
    }
}

/// The withdrawal of what people decided.
pub(super) struct ConsentWithdrawal {
    event: Event,
    /// The state after it.
    stepper: Stepper,
}

impl OpenedTeam {
    /// Opens what is saved at a path in order to change it without running anything. The files that
    /// the team file names need not exist.
    pub(super) fn open_without_running(location: &StorageLocation) -> Result<Self, LaunchError> {
        Self::open_with(location, StorageLocation::open_if_free, |saved| {
            super::parse_saved_definition(&saved()?, Definition::parse_without_files)
        })
    }

    /// Opens what is saved. `open` takes a lease of records, and `define` returns the definition, for
    /// which it may read the saved one.
    pub(super) fn open_with(
        location: &StorageLocation,
        open: fn(&StorageLocation) -> Result<OpenedRun, StoreError>,
        define: impl FnOnce(ReadSavedDefinition<'_>) -> Result<Definition, LaunchError>,
    ) -> Result<Self, LaunchError> {
        match location.saved_form()? {
            SavedForm::Records => Self::open_records(location, open(location)?, define),
            SavedForm::TeamJson => {
                let bytes = location.read_team_json()?;
                let definition = define(Box::new(|| definition_in_team_json(location, &bytes)))?;
                let env = import_team_json(location, &definition.team, &bytes)?;
                check_shape(&env, &definition.team)?;
                let stepper = Stepper::new(Arc::new(definition.team.clone()), env);
                let origin = StateOrigin::TeamJson(bytes);
                Ok(Self {
                    location: location.normalized(),
                    definition,
                    stepper,
                    next_line: FIRST_LINE,
                    origin,
                    plan: ResumePlan::Continue,
                    author: StateAuthor::of(location),
                })
            }
        }
    }

    /// Opens records of which a lease was taken.
    pub(super) fn open_records(
        location: &StorageLocation,
        opened: OpenedRun,
        define: impl FnOnce(ReadSavedDefinition<'_>) -> Result<Definition, LaunchError>,
    ) -> Result<Self, LaunchError> {
        let (mut lease, team_json_differs) = (opened.lease, opened.team_json_differs);
        let saved = lease.definition();
        // Parsing a large team file takes about as long as reading its state.
        let reading = lease.as_mut();
        let (saved, definition) = run_beside(
            move || reading.recorded().load_to_continue(),
            || define(Box::new(|| Ok(saved?))),
        );
        let (definition, saved) = (definition?, saved?);
        check_shape(&saved.base, &definition.team)?;
        let mut stepper = Stepper::new(Arc::new(definition.team.clone()), saved.base);
        let mut events = saved.tail.iter().map(|record| &record.event);
        let applied = events.try_for_each(|event| stepper.apply(event));
        // Events do not fit a state in which messages are damaged.
        lease.recorded().check_loaded()?;
        applied.map_err(DriverError::from)?;
        let origin = StateOrigin::Records {
            lease,
            team_json_differs,
        };
        Ok(Self {
            location: location.normalized(),
            definition,
            stepper,
            next_line: saved.next_line,
            origin,
            plan: ResumePlan::Continue,
            author: StateAuthor::of(location),
        })
    }

    /// Returns the state that is answered and continued: what people are said to have decided counts only
    /// if this user's host wrote it.
    pub(super) fn stepper_to_continue(&self) -> Result<Stepper, DriverError> {
        let withdrawal = self.consent_withdrawal()?;
        Ok(withdrawal.map_or_else(|| self.stepper.clone(), |withdrawal| withdrawal.stepper))
    }

    /// Returns the withdrawal of what people decided in a state that somebody else may have written, if
    /// there is anything of that kind in it.
    pub(super) fn consent_withdrawal(&self) -> Result<Option<ConsentWithdrawal>, DriverError> {
        if matches!(self.author, StateAuthor::Own) || !self.has_begun() {
            return Ok(None);
        }
        let event = Event::ConsentWithdrawn(ConsentWithdrawn {});
        let mut stepper = self.stepper.clone();
        stepper.apply(&event)?;
        let changes = stepper.env() != self.stepper.env();
        Ok(changes.then_some(ConsentWithdrawal { event, stepper }))
    }

    /// Returns which open tool calls are decided again.
    pub(super) fn revised_calls(&self) -> RevisedCalls {
        match self.author {
            StateAuthor::Own => RevisedCalls::NotBegun,
            StateAuthor::Unknown(_) => RevisedCalls::All,
        }
    }

    /// Opens a journal that continues at the end of the records, according to the resume plan. A
    /// `team.json` alone is converted to a database here.
    pub(super) fn into_journal(self) -> Result<(Journal, StorageLocation), LaunchError> {
        let withdrawal = self
            .consent_withdrawal()?
            .map(|withdrawal| withdrawal.event);
        let lease = match self.origin {
            StateOrigin::Records { lease, .. } => lease,
            StateOrigin::TeamJson(bytes) => self.location.import_team_json(
                &bytes,
                self.stepper.env(),
                &saved_definition(&self.definition),
            )?,
        };
        let durability = self.definition.run.durability;
        let mut journal = Journal::new(self.stepper, lease, self.next_line, durability)
            .with_team_json(self.location.team_json())
            .with_kept_checkpoints(self.definition.run.checkpoints_kept);
        match self.plan {
            ResumePlan::Continue => {}
            ResumePlan::SwitchLineage { lineage, .. } => {
                journal.store().switch_lineage(&lineage)?
            }
            ResumePlan::Fork(event) => journal.stage(*event)?,
        }
        if let Some(event) = withdrawal {
            journal.stage(event)?;
        }
        Ok((journal, self.location))
    }

    /// Returns whether anything was recorded. Nothing was if the run was killed just after its
    /// database was created.
    pub(super) fn has_begun(&self) -> bool {
        !self.stepper.env().run.0.is_empty()
    }

    /// Checks answers against the open requests.
    pub(super) fn check_answers(
        &self,
        replies: &[HumanReply],
    ) -> Result<Vec<RequestResolution>, LaunchError> {
        let stepper = self.stepper_to_continue()?;
        Ok(check_replies(stepper.env(), replies)?)
    }

    /// Returns the events for the components that differ from the saved ones.
    pub(super) fn changed_components(&self, components: &Components) -> Vec<Event> {
        if self.has_begun() {
            changed_components(self.stepper.env(), components.digests())
        } else {
            Vec::new()
        }
    }
}

/// Fails if a state is that of another team.
pub(super) fn check_shape(env: &Environment, team: &Team) -> Result<(), LaunchError> {
    let differences = env.shape.differences(&Shape::from_team(team));
    if differences.is_empty() {
        Ok(())
    } else {
        Err(LaunchError::Mismatch(differences))
    }
}

/// Returns an event for each component that was replaced.
fn changed_components(env: &Environment, now: BTreeMap<Slot, Digest>) -> Vec<Event> {
    let changed = now
        .into_iter()
        .filter(|(slot, digest)| env.components.get(slot) != Some(digest));
    changed
        .map(|(slot, new)| {
            Event::ComponentChanged(ComponentChanged {
                slot,
                old: env.components.get(&slot).cloned(),
                new,
            })
        })
        .collect()
}

//! Describes joins: which messages each holds and which it waits for. The core decides when a join
//! fires.

use strata_core::id::RoleId;
use strata_core::stepper::Stepper;
use strata_core::team::{Join, JoinMode};

/// The state of a join.
pub(super) struct JoinStatus<'a> {
    /// The join.
    pub(super) join: &'a Join,
    /// How many messages of each source it holds, by the sources' names.
    pub(super) waiting: Vec<(&'a str, usize)>,
    /// The sources that it still waits for; empty if it holds nothing.
    pub(super) missing: Vec<&'a str>,
}

/// Returns the states of all joins of a team.
pub(super) fn join_statuses(stepper: &Stepper) -> impl Iterator<Item = JoinStatus<'_>> {
    let team = stepper.team();
    team.joins
        .iter()
        .zip(&stepper.env().joins)
        .map(|(join, state)| {
            let name = |id: &RoleId| team.role(*id).name.as_str();
            let waiting = join
                .from
                .iter()
                .map(name)
                .zip(state.queues.iter().map(|queue| queue.len()))
                .collect();
            let waits = join.mode == JoinMode::All && !state.is_empty();
            let missing = if waits {
                state.missing_sources(join).map(|id| name(&id)).collect()
            } else {
                Vec::new()
            };
            JoinStatus {
                join,
                waiting,
                missing,
            }
        })
}

impl JoinStatus<'_> {
    /// Describes on one line what it holds and what it waits for.
    pub(super) fn describe(&self) -> String {
        if self.missing.is_empty() {
            return self.describe_held();
        }
        format!(
            "{}; waits for {}",
            self.describe_held(),
            self.describe_missing()
        )
    }

    /// Describes what it holds.
    pub(super) fn describe_held(&self) -> String {
        let waiting = self.waiting.iter().filter(|(_, count)| *count > 0);
        let held: Vec<String> = waiting
            .map(|(name, count)| format!("{count} from `{name}`"))
            .collect();
        if held.is_empty() {
            "nothing".into()
        } else {
            held.join(", ")
        }
    }

    /// Returns the names of the sources that it waits for.
    pub(super) fn describe_missing(&self) -> String {
        let names: Vec<String> = self
            .missing
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        names.join(" and ")
    }
}

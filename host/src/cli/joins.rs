//! Describes joins: which messages each holds and which it waits for. The core decides when a join
//! fires.

use strata_core::id::RoleId;
use strata_core::stepper::Stepper;
use strata_core::team::{Join, Mode};

/// The state of a join.
pub(super) struct Standing<'a> {
    /// The join.
    pub(super) join: &'a Join,
    /// How many messages of each source it holds, by the sources' names.
    pub(super) waiting: Vec<(&'a str, usize)>,
    /// The sources that it still waits for; empty if it holds nothing.
    pub(super) missing: Vec<&'a str>,
}

/// Returns the states of all joins of a team.
pub(super) fn standings(stepper: &Stepper) -> impl Iterator<Item = Standing<'_>> {
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
            let waits = join.mode == Mode::All && !state.is_empty();
            let missing = if waits {
                state.missing(join).map(|id| name(&id)).collect()
            } else {
                Vec::new()
            };
            Standing {
                join,
                waiting,
                missing,
            }
        })
}

impl Standing<'_> {
    /// Describes on one line what it holds and what it waits for.
    pub(super) fn text(&self) -> String {
        if self.missing.is_empty() {
            return self.held();
        }
        format!("{}; waits for {}", self.held(), self.missing_text())
    }

    /// Describes what it holds.
    pub(super) fn held(&self) -> String {
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
    pub(super) fn missing_text(&self) -> String {
        let names: Vec<String> = self
            .missing
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        names.join(" and ")
    }
}

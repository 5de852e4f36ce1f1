//! What a list shows of a run: some numbers of its state, and where it is in its life.
//!
//! A server keeps the numbers in columns that change with the events (`postgres/overview`), so that listing
//! runs does not read their states.

use strata_core::record::event::{Event, Status};
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use super::work::RunSchedule;
use super::{Append, Record};

/// The state of a run after events that are appended, from which a list is kept.
#[derive(Clone, Copy, Debug)]
pub struct AppendedState<'a> {
    /// The team.
    pub team: &'a Team,
    /// The state after these events and those before.
    pub env: &'a Environment,
}

/// What a list shows of the state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOverview {
    /// The id of the run; empty if it has not begun.
    pub run: String,
    /// The name of its team; empty if nothing was recorded yet of a run that was not submitted.
    pub team: String,
    /// Its status.
    pub status: Status,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// What it spent.
    pub spent: Usd,
    /// What it may spend; `None` if there is no limit.
    pub budget: Option<Usd>,
    /// How many requests to people are open.
    pub requests: u64,
    /// How many faults are open.
    pub faults: u64,
}

impl RunOverview {
    /// Returns what a list shows of a state.
    pub fn of(state: AppendedState<'_>) -> Self {
        let AppendedState { team, env } = state;
        Self {
            run: env.run.0.clone(),
            team: team.name.clone(),
            status: env.status,
            step: env.step,
            spent: env.spent,
            budget: env.budget,
            requests: env.open_requests().count() as u64,
            faults: env.open_faults(team).count() as u64,
        }
    }

    /// Returns that of a run of a team with this name which starts from a state.
    pub fn of_new(team: &str, base: &Environment) -> Self {
        Self {
            run: base.run.0.clone(),
            team: team.into(),
            status: base.status,
            step: base.step,
            spent: base.spent,
            budget: base.budget,
            requests: base.open_requests().count() as u64,
            faults: 0,
        }
    }
}

/// When a run ended, as far as events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndTime {
    /// It goes on.
    None,
    /// Then, in milliseconds since 1970.
    At(i64),
    /// When it did before: these events do not end it.
    Unchanged,
}

impl EndTime {
    /// Returns when a run ended that has this status after these events.
    pub fn after(records: &[Record], status: Status) -> Self {
        if !has_ended(status) {
            return Self::None;
        }
        let ended = |record: &&Record| matches!(record.event, Event::RunEnded(_));
        records
            .iter()
            .rfind(ended)
            .map_or(Self::Unchanged, |record| Self::At(record.time_ms))
    }
}

/// What becomes of what a list shows of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverviewChange {
    /// `None` if it is not known any more what the state is.
    pub overview: Option<RunOverview>,
    /// When the run ended.
    pub ended: EndTime,
    /// The time of the newest event, in milliseconds since 1970; `None` if that stays as it is.
    pub changed_ms: Option<i64>,
}

impl OverviewChange {
    /// Returns the change after events that are appended to the current lineage.
    pub fn after(append: Append<'_>) -> Self {
        Self {
            overview: append.state.map(RunOverview::of),
            ended: match append.state {
                Some(state) => EndTime::after(append.records, state.env.status),
                None => EndTime::Unchanged,
            },
            changed_ms: append.records.last().map(|record| record.time_ms),
        }
    }

    /// Returns the change after these events if the last one ends the run, and the state is known.
    pub(crate) fn after_end(append: Append<'_>) -> Option<Self> {
        let last = append.records.last()?;
        let is_end = append.state.is_some() && matches!(last.event, Event::RunEnded(_));
        is_end.then(|| Self::after(append))
    }

    /// Returns the change after which it is not known what the state is.
    pub fn unknown() -> Self {
        Self {
            overview: None,
            ended: EndTime::Unchanged,
            changed_ms: None,
        }
    }

    /// Returns the change of a run that is copied from elsewhere, where it changed last at this time.
    pub fn of_copy(overview: RunOverview, changed_ms: Option<i64>) -> Self {
        Self {
            ended: if has_ended(overview.status) {
                EndTime::At(changed_ms.unwrap_or_default())
            } else {
                EndTime::None
            },
            overview: Some(overview),
            changed_ms,
        }
    }
}

/// Whether a run with this status goes on only if somebody asks for it.
pub fn has_ended(status: Status) -> bool {
    match status {
        Status::Running | Status::Waiting | Status::Interrupted | Status::Paused => false,
        Status::Done
        | Status::Failed
        | Status::OutOfBudget
        | Status::Stalled
        | Status::StepLimit
        | Status::InDoubt
        | Status::Cancelled => true,
    }
}

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifecycleState {
    /// A worker may take it.
    Queued,
    /// A worker could not run it, so none takes it until somebody asks for it.
    Refused,
    /// A process works on it.
    Running,
    /// Nobody works on it, and it goes on: when a person answers, at a time, or when it is resumed.
    Resting,
    /// It goes on only if somebody asks for it.
    Ended,
    /// It is in a server, has not ended, and is never handed to workers.
    Detached,
}

impl LifecycleState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Refused,
        Self::Running,
        Self::Resting,
        Self::Ended,
        Self::Detached,
    ];

    /// Returns the name that is shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Refused => "refused",
            Self::Running => "running",
            Self::Resting => "resting",
            Self::Ended => "ended",
            Self::Detached => "detached",
        }
    }

    /// Returns the state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns the state of a run outside of a server.
    pub fn of_local(is_owned: bool, status: Status) -> Self {
        match (is_owned, has_ended(status)) {
            (true, _) => Self::Running,
            (false, true) => Self::Ended,
            (false, false) => Self::Resting,
        }
    }

    /// Returns the state of a run in a server. `is_owned` says whether a process owns it that was heard of
    /// lately.
    pub fn of_queued(
        is_owned: bool,
        schedule: Option<RunSchedule>,
        has_problem: bool,
        status: Status,
    ) -> Self {
        match schedule {
            _ if is_owned => Self::Running,
            _ if has_problem => Self::Refused,
            None if has_ended(status) => Self::Ended,
            None => Self::Detached,
            Some(RunSchedule::Now) => Self::Queued,
            Some(RunSchedule::Later(_)) => Self::Resting,
            Some(RunSchedule::OnRequest) => Self::of_local(false, status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_name_of_its_own() {
        for state in LifecycleState::ALL {
            assert_eq!(LifecycleState::from_name(state.name()), Some(state));
        }
        assert_eq!(LifecycleState::from_name("done"), None);
    }
}

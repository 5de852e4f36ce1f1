//! The records of scripted runs, for tests.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use strata_base::scripted_run::{scripted_events, team};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::state::environment::Environment;

use crate::{FIRST_LINE, LoadedState, Record};

/// Turns an event into a record that differs from all others.
pub fn record(n: usize, event: &Event) -> Record {
    let lines = (n % 3) as u32;
    let before = (n / 3) * 3 + [0, 0, 1][n % 3];
    Record {
        line: FIRST_LINE + before as u64,
        lines,
        time_ms: 1_000_000 + n as i64,
        event: event.clone(),
    }
}

/// Returns the records of a run of at most `limit` events, and the state after them.
pub fn scripted_run(turns: &[u8], limit: usize) -> (Vec<Record>, Environment) {
    let (events, env) = scripted_events(turns, limit);
    let records = events.iter().enumerate();
    let records = records.map(|(n, event)| record(n, event)).collect();
    (records, env)
}

/// Returns the state that was loaded.
pub fn loaded_state(saved: &LoadedState) -> Environment {
    let mut stepper = Stepper::new(team(), saved.base.clone());
    for record in &saved.tail {
        stepper.apply(&record.event).unwrap();
    }
    stepper.env().clone()
}

/// Returns the state after records of a run from its beginning.
pub fn replay(records: &[Record]) -> Environment {
    loaded_state(&LoadedState {
        base: Environment::new(&team()),
        tail: records.to_vec(),
        next_line: 0,
    })
}

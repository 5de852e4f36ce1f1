//! When open requests to people were made. The state of a run does not tell: its events do, and what was found is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use strata_host::launch::EventReader;
use strata_host::public_event::PublicEvent;
use strata_host::storage::ServedRun;

use crate::problem::Problem;

/// How many runs are remembered.
const MAX_RUNS: usize = 4096;

/// The times of the open requests of a run, by their ids; `None` if the event was pruned.
type Times = BTreeMap<String, Option<i64>>;

/// When open requests were made, as far as that was asked for.
#[derive(Debug, Default)]
pub struct RequestTimes {
    known: Mutex<BTreeMap<String, Times>>,
}

impl RequestTimes {
    /// Returns when these open requests of a run were made, in milliseconds since 1970. The events of the run are read
    /// only if a request is new. Blocks.
    pub fn of_run<'a>(
        &self,
        run: &ServedRun,
        ids: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Times, Problem> {
        if let Some(times) = self.find(&run.id, ids.clone()) {
            return Ok(times);
        }
        let mut times: Times = ids.map(|id| (id.to_owned(), None)).collect();
        let mut reader = EventReader::open(&run.listing.location)?;
        while let Some(lines) = reader.next_lines()? {
            for line in lines {
                if let PublicEvent::RequestOpened { request, .. } = &line.event
                    && let Some(time) = times.get_mut(request)
                {
                    *time = Some(line.time_ms);
                }
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_RUNS {
            known.pop_first();
        }
        known.insert(run.id.clone(), times.clone());
        Ok(times)
    }

    /// Returns what is known of a run if that is all of these requests.
    fn find<'a>(&self, run: &str, mut ids: impl Iterator<Item = &'a str>) -> Option<Times> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let times = known.get(run)?;
        ids.all(|id| times.contains_key(id)).then(|| times.clone())
    }
}

//! Which of the runs at a server a command means. A filter selects the same runs as in a database.

use serde_json::Value;

use super::{Remote, not_understood};
use crate::CommandFailure;
use crate::args::{FilterArgs, SelectionArgs};
use crate::run_at_server::found_run;

impl Remote<'_> {
    /// Returns the runs that a filter accepts, as the server describes them, the newest first.
    pub(super) fn find_runs(&self, filter: &FilterArgs) -> Result<Vec<Value>, CommandFailure> {
        let query = filter.to_query().map_err(CommandFailure::usage)?;
        let filter = filter.to_filter();
        let mut found = Vec::new();
        for document in self.list("/v1/runs", &query)? {
            let run = found_run(&document).ok_or_else(|| not_understood("a run"))?;
            if filter.accepts(&run.listing) {
                found.push(document);
            }
        }
        Ok(found)
    }

    /// Returns the names of the runs that are meant.
    pub(super) fn selected(
        &self,
        selection: &SelectionArgs,
    ) -> Result<Vec<String>, CommandFailure> {
        let is_open = selection.filter.to_filter().is_open();
        match (is_open, &selection.places[..]) {
            (true, places) if !places.is_empty() => Ok(places
                .iter()
                .map(|place| place.path().to_string_lossy().into_owned())
                .collect()),
            (false, []) => {
                let found = self.find_runs(&selection.filter)?;
                let name = |run: &Value| Some(run["name"].as_str()?.to_owned());
                Ok(found.iter().filter_map(name).collect())
            }
            _ => {
                let text = "through a server, give either names of runs or filters";
                Err(CommandFailure::usage(text))
            }
        }
    }
}

//! Which of the runs at a server a command means. A filter selects the same runs as in a database.

use std::collections::BTreeSet;

use serde_json::Value;
use strata_host::Advice;
use strata_host::launch::LaunchError;
use strata_host::operate::{RunDeed, check_deed};
use strata_host::storage::DEFAULT_TENANT;
use strata_host::view::{CommandArgument, SuggestedCommand};
use strata_host::wording::shell_command;
use strata_server::client::{ApiRequest, ClientError};

use super::{Remote, not_understood};
use crate::CommandFailure;
use crate::args::{FilterArgs, SelectionArgs};
use crate::run_at_server::{add_server, found_run};

/// A run that a server lists.
pub(super) struct ListedRun {
    /// What the server says of it.
    pub(super) document: Value,
    /// How commands name it: `TENANT/NAME` if its tenant is not that of the token.
    pub(super) place: String,
}

/// A run that a command means.
pub(super) struct NamedRun {
    /// What requests name it by. A run that was listed is named by its id, which no other run ever has.
    pub(super) address: String,
    /// How commands name it.
    pub(super) place: String,
    /// What the server said of it, if it was just listed.
    listed: Option<Value>,
}

/// Finds the runs that a command means.
#[derive(Clone, Copy)]
pub(super) struct RunFinder<'a> {
    pub(super) remote: &'a Remote<'a>,
}

impl RunFinder<'_> {
    /// Returns the runs that a filter accepts, the newest first.
    pub(super) fn find_runs(&self, filter: &FilterArgs) -> Result<Vec<ListedRun>, CommandFailure> {
        let query = filter.to_query().map_err(CommandFailure::usage)?;
        let filter = filter.to_filter();
        let documents = self.remote.list("/v1/runs", &query)?;
        let own = self.own_tenant(&documents)?;
        let mut runs = Vec::new();
        for document in documents {
            let not_understood = || not_understood("a run");
            let place = place_of(&document, &own).ok_or_else(not_understood)?;
            let found = found_run(&document, &place).ok_or_else(not_understood)?;
            if filter.accepts(&found.listing) {
                runs.push(ListedRun { document, place });
            }
        }
        Ok(runs)
    }

    /// Fails if something cannot be done with a run, as it would fail in a database.
    pub(super) fn check(&self, run: &NamedRun, deed: RunDeed) -> Result<(), CommandFailure> {
        let document = self.remote.get(&run.address, "")?;
        self.check_document(&document, &run.place, deed)
    }

    /// Does what `check` does, without a request for a run that was just listed.
    pub(super) fn check_listed(&self, run: &NamedRun, deed: RunDeed) -> Result<(), CommandFailure> {
        match &run.listed {
            Some(document) => self.check_document(document, &run.place, deed),
            None => self.check(run, deed),
        }
    }

    fn check_document(
        &self,
        document: &Value,
        place: &str,
        deed: RunDeed,
    ) -> Result<(), CommandFailure> {
        let found = found_run(document, place).ok_or_else(|| not_understood("a run"))?;
        match check_deed(&found, deed) {
            Err(LaunchError::Unsuitable {
                message,
                advice: Advice::ForceDeletion { storage },
            }) => {
                let arguments = [
                    CommandArgument::Path(storage),
                    CommandArgument::word("--force"),
                ];
                let mut delete = SuggestedCommand::from_subcommand("delete", arguments);
                add_server(&mut delete, self.remote.client.url());
                let delete = shell_command(&delete);
                Err(CommandFailure::usage(format!(
                    "{message}; `{delete}` cancels it first"
                )))
            }
            checked => Ok(checked?),
        }
    }

    /// Returns the tenant whose runs the token names by their names alone, as far as that matters for these runs.
    fn own_tenant(&self, runs: &[Value]) -> Result<String, CommandFailure> {
        let tenants = runs.iter().filter_map(|run| run["tenant"].as_str());
        let tenants: BTreeSet<&str> = tenants.collect();
        let mut others = tenants.iter().filter(|tenant| **tenant != DEFAULT_TENANT);
        let (Some(other), 1, Some(run)) = (others.next(), tenants.len(), runs.first()) else {
            // Only a token of all tenants sees several.
            return Ok(DEFAULT_TENANT.into());
        };
        // A token of all tenants does not find the run by its name alone.
        let path = Remote::path_of(run["name"].as_str().unwrap_or_default(), "");
        let is_own = match self.remote.client.send(ApiRequest::new("GET", &path)) {
            Err(ClientError::Refused {
                status: 403 | 404, ..
            }) => false,
            answer => answer?.value()["id"] == run["id"],
        };
        Ok(if is_own { *other } else { DEFAULT_TENANT }.to_owned())
    }

    /// Returns how commands name a run that the server describes.
    pub(super) fn place_of(&self, document: &Value) -> Result<String, CommandFailure> {
        let own = self.own_tenant(std::slice::from_ref(document))?;
        place_of(document, &own).ok_or_else(|| not_understood("a run"))
    }

    /// Returns the runs that are meant.
    pub(super) fn selected(
        &self,
        selection: &SelectionArgs,
    ) -> Result<Vec<NamedRun>, CommandFailure> {
        let is_open = selection.filter.to_filter().is_open();
        match (is_open, &selection.places[..]) {
            (true, places) if !places.is_empty() => {
                let names = places.iter().map(|place| place.path().to_string_lossy());
                let named = names.map(|name| NamedRun {
                    address: name.clone().into_owned(),
                    place: name.into_owned(),
                    listed: None,
                });
                Ok(named.collect())
            }
            (false, []) => {
                let found = self.find_runs(&selection.filter)?;
                let named = found.into_iter().map(|run| NamedRun {
                    address: run.address().to_owned(),
                    place: run.place,
                    listed: Some(run.document),
                });
                Ok(named.collect())
            }
            _ => {
                let text = "through a server, give either names of runs or filters";
                Err(CommandFailure::usage(text))
            }
        }
    }
}

impl ListedRun {
    /// Returns what requests name it by.
    fn address(&self) -> &str {
        self.document["id"].as_str().unwrap_or(&self.place)
    }

    /// Returns when it last changed, in a form whose order is that of the times.
    pub(super) fn changed(&self) -> Option<&str> {
        self.document["updated"].as_str()
    }
}

/// Returns how commands name a run that a server describes, if the token has this tenant.
fn place_of(document: &Value, own_tenant: &str) -> Option<String> {
    let name = document["name"].as_str()?;
    Some(match document["tenant"].as_str() {
        Some(tenant) if tenant != own_tenant => format!("{tenant}/{name}"),
        _ => name.to_owned(),
    })
}

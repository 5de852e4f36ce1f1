//! The runs of a server, as its clients know them: by ids, in tenants, in the order of their submission.

use std::any::Any;
use std::collections::BTreeSet;

use tokio::sync::broadcast;

use super::listing::RunListing;
use super::overview::LifecycleState;
use super::work::DEFAULT_TENANT;

/// Returns the name under which a run of a tenant is stored.
pub fn stored_run_name(tenant: &str, name: &str) -> String {
    match tenant {
        DEFAULT_TENANT => name.into(),
        _ => format!("{tenant}/{name}"),
    }
}

/// A run of a server, and where it is kept, as in `RunListing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedRun<L> {
    /// The id by which clients know it. It never changes.
    pub id: String,
    /// The key that it has in its database.
    pub key: i64,
    /// Its tenant.
    pub tenant: String,
    /// Who submitted it.
    pub submitter: String,
    /// What is listed of it.
    pub listing: RunListing<L>,
    /// When it is taken up by itself, in milliseconds since 1970.
    pub due_ms: Option<i64>,
}

impl<L> ServedRun<L> {
    /// Returns it with another form of its address.
    pub fn map_location<M>(self, form: impl FnOnce(L) -> M) -> ServedRun<M> {
        ServedRun {
            id: self.id,
            key: self.key,
            tenant: self.tenant,
            submitter: self.submitter,
            listing: self.listing.map_location(form),
            due_ms: self.due_ms,
        }
    }

    /// Returns its name within its tenant.
    pub fn name(&self) -> &str {
        let name = &self.listing.name;
        let rest = name.strip_prefix(&self.tenant);
        match rest.and_then(|rest| rest.strip_prefix('/')) {
            Some(rest) if self.tenant != DEFAULT_TENANT => rest,
            _ => name,
        }
    }
}

/// How a run of a server is looked for.
#[derive(Clone, Copy, Debug)]
pub enum ServedKey<'a> {
    /// By its id.
    Id(&'a str),
    /// By the name under which it is stored.
    Name(&'a str),
    /// By its key.
    Key(i64),
}

/// The position after a run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPosition {
    /// When the run was submitted, in milliseconds since 1970.
    pub created_ms: i64,
    /// Its id.
    pub id: String,
}

/// Which runs of a server are listed. What is empty excludes none; several values of one field are alternatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedFilter {
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those that this one submitted.
    pub owner: Option<String>,
    /// Only those that one of these submitted.
    pub submitters: Vec<String>,
    /// The names of teams.
    pub teams: Vec<String>,
    /// The names of statuses, `queued` among them.
    pub statuses: Vec<String>,
    /// The states.
    pub states: Vec<LifecycleState>,
    /// What names begin with.
    pub prefixes: Vec<String>,
    /// What was noted with them.
    pub tags: Vec<(String, String)>,
    /// The earliest time of the last change, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The latest time of the last change.
    pub until_ms: Option<i64>,
    /// Only those with open requests to people.
    pub is_asking: bool,
    /// Only those that come after this position, the newest first.
    pub after: Option<ServedPosition>,
}

impl ServedFilter {
    /// Whether a run is listed, its position aside.
    pub fn accepts<L>(&self, run: &ServedRun<L>) -> bool {
        let listing = &run.listing;
        let team = listing.overview.as_ref().map(|one| one.team.as_str());
        let tags = listing.queued.as_ref().map(|queued| &queued.tags);
        let keys: BTreeSet<&String> = self.tags.iter().map(|(key, _)| key).collect();
        let has_key = |key: &&String| {
            let value = tags.and_then(|tags| tags.get(*key));
            let mut wanted = self.tags.iter().filter(|(name, _)| name == *key);
            wanted.any(|(_, wanted)| value == Some(wanted))
        };
        let any = |wanted: &[String], value: Option<&str>| {
            wanted.is_empty() || wanted.iter().any(|one| Some(one.as_str()) == value)
        };
        self.tenant.as_ref().is_none_or(|one| *one == run.tenant)
            && self.owner.as_ref().is_none_or(|one| *one == run.submitter)
            && any(&self.submitters, Some(&run.submitter))
            && any(&self.teams, team)
            && (!self.is_asking || listing.overview.as_ref().is_none_or(|one| one.requests > 0))
            && any(&self.statuses, listing.status_name())
            && (self.states.is_empty() || self.states.contains(&listing.state))
            && (self.prefixes.is_empty()
                || self.prefixes.iter().any(|one| run.name().starts_with(one)))
            && keys.iter().all(has_key)
            && self
                .since_ms
                .is_none_or(|since| listing.changed_ms.is_some_and(|changed| changed >= since))
            && self
                .until_ms
                .is_none_or(|until| listing.changed_ms.is_some_and(|changed| changed <= until))
    }
}

/// Tells which runs have changed.
pub struct RunChanges {
    changed: broadcast::Receiver<ChangedRun>,
    /// Keeps the database open.
    _open: Box<dyn Any + Send + Sync>,
}

/// What is known of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedRun {
    /// The run with this key has changed.
    Key(i64),
    /// More has changed than is known.
    Unknown,
}

impl RunChanges {
    /// Returns what tells of the changes of a database, which is open as long as `open` exists.
    pub fn new(changed: broadcast::Receiver<ChangedRun>, open: impl Any + Send + Sync) -> Self {
        Self {
            changed,
            _open: Box::new(open),
        }
    }

    /// Waits until a run has changed. Returns `None` once no run can change any more.
    pub async fn next(&mut self) -> Option<ChangedRun> {
        match self.changed.recv().await {
            Ok(changed) => Some(changed),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ChangedRun::Unknown),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

//! Runs as they are listed, and which of them are.

use std::collections::BTreeMap;

use strata_base::process::machine;

use super::overview::{LifecycleState, RunOverview, has_ended};

/// A run, as it is listed without reading its state, and where it is kept: `L` is the address of a run in the kind of place
/// that lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing<L> {
    /// Where it is kept.
    pub location: L,
    /// Its name there.
    pub name: String,
    /// What its state is; `None` if only the state itself tells.
    pub overview: Option<RunOverview>,
    /// Where it is in its life, as far as that does not depend on a state that has to be read.
    pub state: LifecycleState,
    /// Which process works on it.
    pub owner: Option<ListedOwner>,
    /// What a server knows of it.
    pub queued: Option<QueuedRun>,
    /// When it was created, in milliseconds since 1970, if that is known.
    pub created_ms: Option<i64>,
    /// When it last changed, in the same way.
    pub changed_ms: Option<i64>,
    /// When it ended, in the same way.
    pub ended_ms: Option<i64>,
}

impl<L> RunListing<L> {
    /// Returns it with another form of its address.
    pub fn map_location<M>(self, form: impl FnOnce(L) -> M) -> RunListing<M> {
        RunListing {
            location: form(self.location),
            name: self.name,
            overview: self.overview,
            state: self.state,
            owner: self.owner,
            queued: self.queued,
            created_ms: self.created_ms,
            changed_ms: self.changed_ms,
            ended_ms: self.ended_ms,
        }
    }

    /// Adds what the state of the run is, which was read.
    pub fn with_overview(mut self, overview: RunOverview) -> Self {
        let is_open = matches!(
            self.state,
            LifecycleState::Resting | LifecycleState::Detached
        );
        if is_open && has_ended(overview.status) {
            self.state = LifecycleState::Ended;
        }
        self.overview = Some(overview);
        self
    }

    /// Returns the name of its status: `queued` before it begins.
    pub fn status_name(&self) -> Option<&'static str> {
        let overview = self.overview.as_ref()?;
        let is_waiting = matches!(self.state, LifecycleState::Queued | LifecycleState::Refused);
        Some(if is_waiting && overview.run.is_empty() {
            LifecycleState::Queued.name()
        } else {
            overview.status.name()
        })
    }
}

/// The process that works on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedOwner {
    /// The id of the worker, or of the process on this machine.
    pub worker: String,
    /// The name of its machine; empty if it is not known.
    pub host: String,
    /// Since when, in milliseconds since 1970, if that is known.
    pub since_ms: Option<i64>,
}

/// What a server knows of a run besides its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedRun {
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<String>,
    /// What was noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// Why a worker could not run it.
    pub problem: Option<String>,
}

/// Which runs are listed. What is empty excludes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// The names of statuses, `queued` among them.
    pub statuses: Vec<String>,
    /// The states.
    pub states: Vec<LifecycleState>,
    /// The name of the team.
    pub team: Option<String>,
    /// The cap that applies besides that of all runs.
    pub scope: Option<String>,
    /// What was noted with them.
    pub tags: Vec<(String, String)>,
    /// The name, in which `*` stands for any characters and `?` for any one.
    pub name: Option<String>,
    /// The earliest time of the last change, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The latest time of the last change.
    pub until_ms: Option<i64>,
    /// How many are listed at most: those that changed last.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self {
            statuses: Vec::new(),
            states: Vec::new(),
            team: None,
            scope: None,
            tags: Vec::new(),
            name: None,
            since_ms: None,
            until_ms: None,
            limit: usize::MAX,
        }
    }
}

impl RunFilter {
    /// Whether nothing is excluded but by number.
    pub fn is_open(&self) -> bool {
        *self
            == Self {
                limit: self.limit,
                ..Self::default()
            }
    }

    /// Whether a run is listed.
    pub fn accepts<L>(&self, run: &RunListing<L>) -> bool {
        let status = run.status_name();
        let has_status = |name: &String| status == Some(name.as_str());
        let queued = run.queued.as_ref();
        let has_tag = |(key, value): &(String, String)| {
            queued.is_some_and(|queued| queued.tags.get(key) == Some(value))
        };
        (self.statuses.is_empty() || self.statuses.iter().any(has_status))
            && (self.states.is_empty() || self.states.contains(&run.state))
            && self.team.as_ref().is_none_or(|team| {
                run.overview
                    .as_ref()
                    .is_some_and(|overview| overview.team == *team)
            })
            && self
                .scope
                .as_ref()
                .is_none_or(|scope| queued.and_then(|queued| queued.scope.as_ref()) == Some(scope))
            && self.tags.iter().all(has_tag)
            && self
                .name
                .as_ref()
                .is_none_or(|pattern| matches_pattern(pattern, &run.name))
            && self
                .since_ms
                .is_none_or(|since| run.changed_ms.is_some_and(|changed| changed >= since))
            && self
                .until_ms
                .is_none_or(|until| run.changed_ms.is_some_and(|changed| changed <= until))
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters and `?` for any one.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Where the last `*` is, and how much of the name it stands for.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((position, taken)) => {
                    star = Some((position, taken + 1));
                    at = position + 1;
                    read = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

impl ListedOwner {
    /// Returns a process of this machine.
    pub fn local(pid: Option<u32>, since_ms: Option<i64>) -> Self {
        Self {
            worker: pid.map_or_else(String::new, |pid| pid.to_string()),
            host: machine::name(),
            since_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        };
        check("night*", "nightly", true);
        check("night*", "a-nightly", false);
        check("*a*b", "xaxbab", true);
        check("*a*b", "xaxba", false);
        check("n?ght", "night", true);
        check("n?ght", "nght", false);
        check("", "", true);
        check("**", "", true);
        check("n_ght", "night", false);
    }
}

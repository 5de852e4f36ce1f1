//! What a run lacks that waits for a worker, if no worker takes it.

use super::{ListedWorker, RunNeeds};
use crate::LEASE_TIME;

/// What is missing for a worker to take a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A program that reads what was recorded of it: that is in this format, which this program does not know.
    Format(i64),
    /// A worker: none is there.
    Worker,
    /// Labels: those that no worker has or, if each is there, those that none has together.
    Labels(Vec<String>),
    /// Secrets, by their names, in the same way, of the workers that have its labels.
    Secrets(Vec<String>),
    /// Room: all workers that could take it run as many runs as they take.
    Room,
}

impl Shortage {
    /// Returns what is missing for one of these workers to take a run that needs this.
    pub fn find(needs: &RunNeeds, workers: &[ListedWorker]) -> Option<Self> {
        let is_there = |worker: &&ListedWorker| {
            let age = u128::from(worker.beat_age_ms.unsigned_abs());
            !worker.is_draining && age < LEASE_TIME.as_millis()
        };
        let there: Vec<&ListedWorker> = workers.iter().filter(is_there).collect();
        if there.is_empty() {
            return Some(Self::Worker);
        }
        let labelled = match those_with_all(&needs.labels, &there, |worker| &worker.profile.labels)
        {
            Ok(labelled) => labelled,
            Err(missing) => return Some(Self::Labels(missing)),
        };
        let secrets = &needs.secrets;
        match those_with_all(secrets, &labelled, |worker| &worker.profile.secrets) {
            Ok(able) => {
                let is_full = |worker: &&ListedWorker| worker.runs >= worker.profile.room as u64;
                able.iter().all(is_full).then_some(Self::Room)
            }
            Err(missing) => Some(Self::Secrets(missing)),
        }
    }
}

/// Returns the workers that have all of these, or else those of them that none has; if there is none of these, all.
fn those_with_all<'a>(
    needed: &[String],
    workers: &[&'a ListedWorker],
    has: impl Fn(&'a ListedWorker) -> &'a Vec<String>,
) -> Result<Vec<&'a ListedWorker>, Vec<String>> {
    let mut able = workers.to_vec();
    able.retain(|&worker| needed.iter().all(|one| has(worker).contains(one)));
    if !able.is_empty() {
        return Ok(able);
    }
    let mut missing = needed.to_vec();
    missing.retain(|one| !workers.iter().any(|&worker| has(worker).contains(one)));
    Err(if missing.is_empty() {
        needed.to_vec()
    } else {
        missing
    })
}

#[cfg(test)]
mod tests {
    use super::super::WorkerProfile;
    use super::*;

    fn worker(labels: &[&str], secrets: &[&str], runs: u64) -> ListedWorker {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ListedWorker {
            id: "worker".into(),
            profile: WorkerProfile {
                labels: owned(labels),
                secrets: owned(secrets),
                room: 2,
                ..WorkerProfile::default()
            },
            version: "1".into(),
            runs,
            beat_age_ms: 0,
            is_draining: false,
        }
    }

    #[test]
    fn what_is_missing_is_named_with_what_no_worker_has() {
        let needs = RunNeeds {
            labels: vec!["gpu".into(), "big".into()],
            secrets: vec!["KEY".into()],
        };
        let check = |workers: &[ListedWorker], expected: Option<Shortage>| {
            assert_eq!(Shortage::find(&needs, workers), expected, "{workers:?}");
        };
        let labels = |names: &[&str]| {
            Some(Shortage::Labels(
                names.iter().map(|name| (*name).into()).collect(),
            ))
        };
        check(&[], Some(Shortage::Worker));
        check(&[worker(&["gpu"], &["KEY"], 0)], labels(&["big"]));
        let apart = [worker(&["gpu"], &[], 0), worker(&["big"], &[], 0)];
        check(&apart, labels(&["gpu", "big"]));
        let able = worker(&["gpu", "big"], &["KEY"], 1);
        // A secret of a worker without the labels does not count.
        let keyless = [worker(&["gpu", "big"], &[], 0), worker(&[], &["KEY"], 0)];
        check(&keyless, Some(Shortage::Secrets(vec!["KEY".into()])));
        check(&[keyless[0].clone(), able.clone()], None);
        let full = worker(&["gpu", "big"], &["KEY"], 2);
        check(&[full.clone(), worker(&[], &[], 0)], Some(Shortage::Room));
        check(&[full, able.clone()], None);
        let ending = ListedWorker {
            is_draining: true,
            ..able.clone()
        };
        let silent = ListedWorker {
            beat_age_ms: 60_000,
            ..able
        };
        check(&[ending, silent], Some(Shortage::Worker));
    }
}

//! Lineages: which line of checkpoints an environment belongs to, and how two lineages are related.
//!
//! A run starts on one lineage. Going back to a checkpoint starts another one, which shares
//! everything up to and including that checkpoint and continues its numbering. How lineages are
//! stored is decided in the host's `storage/lineage.rs`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::CheckpointId;

/// The name of the lineage that a run starts on.
pub const MAIN_LINEAGE: &str = "main";

/// A line of checkpoints, beginning with the first of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Its name: `main`, or `main.` and letters or digits that say nothing about its parent.
    pub name: String,
    /// The checkpoints at which its ancestors and it branched off from their parents, oldest first.
    /// The last one is its own.
    pub forks: Vec<CheckpointId>,
}

impl Default for Lineage {
    fn default() -> Self {
        Self {
            name: MAIN_LINEAGE.into(),
            forks: Vec::new(),
        }
    }
}

impl Lineage {
    /// Returns a lineage that branches off this one at a checkpoint.
    pub fn fork(&self, name: &str, from: &CheckpointId) -> Self {
        let mut forks = self.forks.clone();
        forks.push(from.clone());
        Self {
            name: name.into(),
            forks,
        }
    }

    /// Returns whether `name` is the name of this lineage or of one of its ancestors.
    pub fn is_self_or_ancestor(&self, name: &str) -> bool {
        self.name == name
            || self
                .forks
                .iter()
                .filter_map(parse_checkpoint_id)
                .any(|(lineage, _)| lineage == name)
    }

    /// Returns the id of its checkpoint with this number, which must be greater than that of the
    /// checkpoint at which it branched off. Numbers count from the start of the run.
    pub fn checkpoint_id(&self, number: u64) -> CheckpointId {
        CheckpointId(alloc::format!("{}-{number}", self.name))
    }

    /// Returns the first checkpoint that it does not share with an ancestor.
    pub fn first_own_checkpoint(&self) -> CheckpointId {
        let left = self.forks.last().and_then(parse_checkpoint_id);
        self.checkpoint_id(left.map_or(0, |(_, number)| number + 1))
    }

    /// Returns the part of its idempotency keys that names the run. It differs between lineages, so
    /// that a service does not take a write of a fork for a repetition of the original's.
    pub fn idempotency_run(&self, run_id: &str) -> String {
        if self.name == MAIN_LINEAGE {
            run_id.into()
        } else {
            alloc::format!("{run_id}@{}", self.name)
        }
    }
}

/// Returns the lineage of a checkpoint and its number, or `None` if the id does not have the form
/// `LINEAGE-NUMBER`.
pub fn parse_checkpoint_id(id: &CheckpointId) -> Option<(&str, u64)> {
    let (lineage, number) = id.0.rsplit_once('-')?;
    Some((lineage, number.parse().ok()?))
}

/// Returns the last checkpoint that two states have in common, each given by its lineage and its
/// newest checkpoint. Only the ids are compared: in copies of a storage that were continued
/// separately, equal ids may have different content. Returns `None` if an id does not have the form
/// `LINEAGE-NUMBER`, or if the oldest lineages of the two have different names.
pub fn last_common_checkpoint(
    one: &Lineage,
    one_head: &CheckpointId,
    other: &Lineage,
    other_head: &CheckpointId,
) -> Option<CheckpointId> {
    let path = |lineage: &Lineage, head: &CheckpointId| -> Option<Vec<(String, u64)>> {
        let all = lineage.forks.iter().chain([head]);
        all.map(|id| parse_checkpoint_id(id).map(|(name, number)| (name.into(), number)))
            .collect()
    };
    let (one, other) = (path(one, one_head)?, path(other, other_head)?);
    let mut last = None;
    for ((name, number), (other_name, other_number)) in one.into_iter().zip(other) {
        if name != other_name {
            break;
        }
        let shared = number.min(other_number);
        last = Some(CheckpointId(alloc::format!("{name}-{shared}")));
        if number != other_number {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &[&str], other: &[&str], expected: Option<&str>) {
        let lineage_of = |path: &[&str]| {
            let ids: Vec<CheckpointId> = path.iter().map(|id| CheckpointId::from(*id)).collect();
            let (head, forks) = ids.split_last().expect("a head");
            let name = parse_checkpoint_id(head)
                .map_or("", |(name, _)| name)
                .into();
            (
                Lineage {
                    name,
                    forks: forks.to_vec(),
                },
                head.clone(),
            )
        };
        let (one, other) = (lineage_of(one), lineage_of(other));
        let expected = expected.map(CheckpointId::from);
        assert_eq!(
            last_common_checkpoint(&one.0, &one.1, &other.0, &other.1),
            expected
        );
        assert_eq!(
            last_common_checkpoint(&other.0, &other.1, &one.0, &one.1),
            expected
        );
    }

    #[test]
    fn what_two_lineages_share_is_derived_from_the_ids_of_checkpoints() {
        check(&["main-4"], &["main-4"], Some("main-4"));
        check(&["main-4"], &["main-7"], Some("main-4"));
        check(&["main-7"], &["main-3", "main.1-5"], Some("main-3"));
        check(&["main-2"], &["main-3", "main.1-5"], Some("main-2"));
        check(
            &["main-3", "main.1-5"],
            &["main-3", "main.2-9"],
            Some("main-3"),
        );
        check(
            &["main-3", "main.1-5"],
            &["main-1", "main.2-9"],
            Some("main-1"),
        );
        check(
            &["main-3", "main.1-6", "main.3-9"],
            &["main-3", "main.1-5"],
            Some("main.1-5"),
        );
        check(
            &["main-3", "main.1-6", "main.3-9"],
            &["main-3", "main.1-5", "main.2-8"],
            Some("main.1-5"),
        );
        check(&["a-b-3"], &["a-b-2"], Some("a-b-2"));
        check(&["main-1"], &["other-1"], None);
        check(&["main-1"], &["made elsewhere"], None);
    }

    #[test]
    fn keys_of_the_first_lineage_are_those_of_the_run() {
        let first = Lineage::default();
        let second = first.fork("main.1", &"main-2".into());
        assert_eq!(
            (
                first.idempotency_run("r").as_str(),
                second.idempotency_run("r").as_str()
            ),
            ("r", "r@main.1")
        );
        assert_eq!(
            (
                first.checkpoint_id(3).0.as_str(),
                second.checkpoint_id(3).0.as_str()
            ),
            ("main-3", "main.1-3")
        );
    }
}

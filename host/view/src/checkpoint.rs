//! Checkpoints of a saved run.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use strata_base::clock::rfc3339;
use strata_core::record::event::Status;
use strata_core::record::id::CheckpointId;

use strata_storage::{CheckpointOrigin, CheckpointRow};

/// A checkpoint of a saved run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckpointView {
    /// Its id.
    #[serde(serialize_with = "serialize_id")]
    #[schemars(with = "String")]
    pub id: CheckpointId,
    /// The lineage that it belongs to.
    pub lineage: String,
    /// Whether it is the newest one of the current lineage, from which a resume continues by
    /// default.
    pub newest: bool,
    /// The previous checkpoint, if the storage knows it.
    #[serde(serialize_with = "serialize_parent")]
    #[schemars(with = "Option<String>")]
    pub parent: Option<CheckpointId>,
    /// What made it.
    #[serde(serialize_with = "serialize_origin")]
    #[schemars(with = "String")]
    pub source: CheckpointOrigin,
    /// The status of the run when this was its newest checkpoint.
    #[serde(serialize_with = "strata_driver::serialize_name::status")]
    #[schemars(with = "String")]
    pub status: Status,
    /// The step after which, or within which, it was made.
    pub step: u64,
    /// When it was made, in UTC (RFC 3339); `None` for a state that was read from a file.
    pub time: Option<String>,
}

impl CheckpointView {
    /// Returns the views of all checkpoints of a run, in the same order. `current` is the name of
    /// its current lineage.
    pub fn list(rows: &[CheckpointRow], current: &str) -> Vec<Self> {
        let newest = rows.iter().rev().find(|row| row.lineage == current);
        let view = |row: &CheckpointRow| Self {
            id: row.id.clone(),
            lineage: row.lineage.clone(),
            newest: newest.is_some_and(|newest| newest.id == row.id),
            parent: row.parent.clone(),
            source: row.source,
            status: row.status,
            step: row.step,
            time: row.time_ms.map(rfc3339),
        };
        rows.iter().map(view).collect()
    }
}

fn serialize_id<S: Serializer>(id: &CheckpointId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&id.0)
}

fn serialize_parent<S: Serializer>(
    id: &Option<CheckpointId>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    id.as_ref().map(|id| &id.0).serialize(serializer)
}

fn serialize_origin<S: Serializer>(
    origin: &CheckpointOrigin,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.name())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(id: &str, lineage: &str) -> CheckpointRow {
        CheckpointRow {
            id: id.into(),
            lineage: lineage.into(),
            step: 2,
            parent: Some("main-1".into()),
            source: CheckpointOrigin::Entry,
            status: Status::Done,
            time_ms: Some(0),
        }
    }

    #[test]
    fn the_checkpoint_that_a_resume_continues_from_is_the_newest_of_the_current_lineage() {
        let rows = [
            row("main-1", "main"),
            row("main-2", "main"),
            row("fork-3", "fork"),
        ];
        let newest = |current: &str| {
            let views = CheckpointView::list(&rows, current);
            views
                .into_iter()
                .map(|view| view.newest)
                .collect::<Vec<_>>()
        };
        assert_eq!(newest("main"), [false, true, false]);
        assert_eq!(newest("fork"), [false, false, true]);
        assert_eq!(newest("other"), [false; 3]);
    }

    #[test]
    fn a_checkpoint_is_serialised_under_public_names() {
        let [view] = &CheckpointView::list(&[row("main-2", "main")], "main")[..] else {
            panic!("there is one");
        };
        let expected = json!({
            "id": "main-2", "lineage": "main", "newest": true, "parent": "main-1", "source": "entry",
            "status": "done", "step": 2, "time": "1970-01-01T00:00:00.000Z",
        });
        assert_eq!(serde_json::to_value(view).unwrap(), expected);
    }
}

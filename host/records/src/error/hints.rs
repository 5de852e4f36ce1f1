//! The parts of messages that list what there is, and say what was probably meant.

use std::path::Path;

use strata_base::text::suggest::{closest, suggest};
use strata_core::record::id::CheckpointId;
use strata_core::record::lineage::parse_checkpoint_id;

use crate::TEAM_JSON;
use crate::deleted_run::DeletedRun;

/// What the URL of a file of many runs begins with.
const FILE_SCHEME: &str = "sqlite:";

/// Lists the names of runs, as the rest of a sentence.
pub(crate) fn list_names(known: &[String]) -> String {
    match known {
        [] => "; there is none in it yet".into(),
        known => format!("; in it are: {}", known.join(", ")),
    }
}

/// Says what to give instead of a path at which nothing is. The URL of a file of many runs may be right, and the file is
/// created with its first run.
pub(crate) fn place_hint(path: &Path) -> &'static str {
    if path
        .to_str()
        .is_some_and(|url| url.starts_with(FILE_SCHEME))
    {
        "; a file of many runs is created with its first run"
    } else {
        "; give a storage directory or its `team.json`"
    }
}

/// Says why there is no run of a name, or which was probably meant.
pub(crate) fn absence_hint(wanted: &str, known: &[String], deleted: Option<&DeletedRun>) -> String {
    match deleted {
        Some(deleted) => format!(": {deleted}"),
        None => run_hint(wanted, known),
    }
}

fn run_hint(wanted: &str, known: &[String]) -> String {
    match closest(wanted, known.iter().map(String::as_str)) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => list_names(known),
    }
}

pub(crate) fn describe_holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

pub(crate) fn checkpoint_hint(wanted: &str, known: &[String]) -> String {
    let Some(newest) = known.last() else {
        return "; the run has none yet".into();
    };
    let all = format!("the newest is `{newest}`, and `checkpoints` lists all");
    match closest(wanted, known.iter().map(String::as_str)) {
        _ if is_before(wanted, newest) => {
            format!(" any more: it was pruned, or left out of a copy; {all}")
        }
        Some(meant) => format!("; did you mean `{meant}`? {all}"),
        None => format!("; {all}"),
    }
}

pub(crate) fn lineage_hint(wanted: &str, known: &[String]) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    suggest(wanted, &known).map_or_else(
        || "; `checkpoints` lists them".into(),
        |hint| format!("; {hint}"),
    )
}

/// Whether `one` was made before `other` in the same lineage. Their ids contain a counter.
fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (CheckpointId::from(one), CheckpointId::from(other));
    matches!((parse_checkpoint_id(&one), parse_checkpoint_id(&other)), (Some((name, one)), Some((of, other))) if name == of && one < other)
}

/// What helps against a damaged or incomplete file.
pub(crate) fn remedy(path: &Path) -> &'static str {
    if path.with_file_name(TEAM_JSON).exists() && !path.ends_with(TEAM_JSON) {
        // Whoever makes a database anew removes the log of the one that was there.
        "restore it from a backup; or move it away, together with its `team.db-wal` and `team.db-progress` if they are \
             there, to go on from `team.json` beside it: what was done after that was written is done again"
    } else {
        "restore it from a backup"
    }
}

//! The files that actions wrote, by name and digest. Their content is in the database and in the
//! directories of the actions; `team.json` contains neither.

use serde_json::{Map, Value, json};

use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::id::RoleId;
use strata_core::state::environment::Environment;
use strata_core::state::environment::files::{CommittedFile, FileRecords, Placement};
use strata_core::team::Team;

use super::activation::parse_work;
use super::located_value::{ImportResult, LocatedValue};
use super::saved_names::work_name;

/// Returns what is known of files as JSON.
pub(super) fn write(team: &Team, env: &Environment) -> Value {
    let FileRecords {
        committed: kept,
        intended: decided,
        pending,
    } = &env.files;
    let kept: Map<String, Value> = kept
        .iter()
        .map(|(path, kept)| {
            let (role, work) = (&team.role(kept.role).name, work_name(kept.work));
            (path.clone(), json!({ "content": content_json(&kept.content), "role": role, "work": work, "step": kept.step }))
        })
        .collect();
    let decided: Map<String, Value> = decided
        .iter()
        .map(|(path, decided)| (path.clone(), content_json(decided)))
        .collect();
    let pending = pending.iter().map(|placement| {
        let (expected, is) = (
            content_json(&placement.expected),
            content_json(&placement.content),
        );
        json!({ "path": placement.path, "expected": expected, "content": is })
    });
    json!({ "kept": kept, "decided": decided, "pending": pending.collect::<Vec<_>>() })
}

/// Returns the changes that an action made as JSON.
pub(super) fn write_changes(changes: &[FileChange]) -> Vec<Value> {
    let change = |change: &FileChange| json!({ "path": change.path, "before": content_json(&change.before), "after": content_json(&change.after) });
    changes.iter().map(change).collect()
}

fn content_json(content: &PathContent) -> Value {
    match content {
        PathContent::Absent => Value::Null,
        PathContent::Directory => json!({ "directory": true }),
        PathContent::File { digest, bytes } => json!({ "sha256": digest.0, "bytes": bytes }),
    }
}

/// Reads what is known of files.
pub(super) fn read(team: &Team, strata: &LocatedValue<'_>) -> ImportResult<FileRecords> {
    let Some(place) = strata.get_object("files")? else {
        return Ok(FileRecords::default());
    };
    let mut files = FileRecords::default();
    if let Some(kept) = place.get_object("kept")? {
        for (path, kept) in kept.fields()? {
            files.committed.insert(path.into(), read_kept(team, &kept)?);
        }
    }
    if let Some(decided) = place.get_object("decided")? {
        for (path, decided) in decided.fields()? {
            files
                .intended
                .insert(path.into(), read_content(Some(&decided))?);
        }
    }
    files.pending = place.read_items("pending", |place| {
        place.object()?;
        let content = |name| read_content(place.get(name).as_ref());
        Ok(Placement {
            path: place.get_text("path")?,
            expected: content("expected")?,
            content: content("content")?,
        })
    })?;
    Ok(files)
}

fn read_kept(team: &Team, place: &LocatedValue<'_>) -> ImportResult<CommittedFile> {
    place.object()?;
    let name = place.get_text("role")?;
    let id = team
        .role_ids()
        .find(|id: &RoleId| team.role(*id).name == name);
    let role = id.ok_or_else(|| place.invalid("names a role that the team does not have"))?;
    let done = place.keyword("work", |name| parse_work(team.role(role), usize::MAX, name))?;
    let work = done.ok_or_else(|| place.invalid("does not say what `work` it was"))?;
    Ok(CommittedFile {
        content: read_content(place.get("content").as_ref())?,
        role,
        work,
        step: place.count("step")?,
    })
}

/// Reads the changes that an action made.
pub(super) fn read_changes(place: &LocatedValue<'_>) -> ImportResult<Vec<FileChange>> {
    place.read_items("files", |place| {
        place.object()?;
        let content = |name| read_content(place.get(name).as_ref());
        Ok(FileChange {
            path: place.get_text("path")?,
            before: content("before")?,
            after: content("after")?,
        })
    })
}

fn read_content(place: Option<&LocatedValue<'_>>) -> ImportResult<PathContent> {
    let Some(place) = place.filter(|place| !place.value().is_null()) else {
        return Ok(PathContent::Absent);
    };
    place.object()?;
    if place.flag("directory")? {
        return Ok(PathContent::Directory);
    }
    Ok(PathContent::File {
        digest: place.get_digest("sha256")?,
        bytes: place.count("bytes")?,
    })
}

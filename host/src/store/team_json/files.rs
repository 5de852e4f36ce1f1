//! The files that actions wrote, by name and digest. Their content is in the database and in the
//! directories of the actions; `team.json` contains neither.

use serde_json::{Map, Value, json};

use strata_core::environment::Environment;
use strata_core::file::{Content, FileChange, Files, Kept, Placement};
use strata_core::id::{Digest, RoleId};
use strata_core::team::Team;

use super::activation::work;
use super::names::work_name;
use super::place::{Place, Read};

/// Returns what is known of files as JSON.
pub(super) fn write(team: &Team, env: &Environment) -> Value {
    let Files {
        kept,
        decided,
        pending,
    } = &env.files;
    let kept: Map<String, Value> = kept
        .iter()
        .map(|(path, kept)| {
            let (role, work) = (&team.role(kept.role).name, work_name(kept.work));
            (path.clone(), json!({ "content": content(&kept.content), "role": role, "work": work, "step": kept.step }))
        })
        .collect();
    let decided: Map<String, Value> = decided
        .iter()
        .map(|(path, decided)| (path.clone(), content(decided)))
        .collect();
    let pending = pending.iter().map(|placement| {
        let (expected, is) = (content(&placement.expected), content(&placement.content));
        json!({ "path": placement.path, "expected": expected, "content": is })
    });
    json!({ "kept": kept, "decided": decided, "pending": pending.collect::<Vec<_>>() })
}

/// Returns the changes that an action made as JSON.
pub(super) fn write_changes(changes: &[FileChange]) -> Vec<Value> {
    let change = |change: &FileChange| json!({ "path": change.path, "before": content(&change.before), "after": content(&change.after) });
    changes.iter().map(change).collect()
}

fn content(content: &Content) -> Value {
    match content {
        Content::Absent => Value::Null,
        Content::Directory => json!({ "directory": true }),
        Content::File { digest, bytes } => json!({ "sha256": digest.0, "bytes": bytes }),
    }
}

/// Reads what is known of files.
pub(super) fn read(team: &Team, strata: &Place<'_>) -> Read<Files> {
    let Some(place) = strata.get_object("files")? else {
        return Ok(Files::default());
    };
    let mut files = Files::default();
    if let Some(kept) = place.get_object("kept")? {
        for (path, kept) in kept.fields()? {
            files.kept.insert(path.into(), read_kept(team, &kept)?);
        }
    }
    if let Some(decided) = place.get_object("decided")? {
        for (path, decided) in decided.fields()? {
            files
                .decided
                .insert(path.into(), read_content(Some(&decided))?);
        }
    }
    files.pending = place.each("pending", |place| {
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

fn read_kept(team: &Team, place: &Place<'_>) -> Read<Kept> {
    place.object()?;
    let name = place.get_text("role")?;
    let id = team
        .role_ids()
        .find(|id: &RoleId| team.role(*id).name == name);
    let role = id.ok_or_else(|| place.invalid("names a role that the team does not have"))?;
    let done = place.word("work", |name| work(team.role(role), usize::MAX, name))?;
    let work = done.ok_or_else(|| place.invalid("does not say what `work` it was"))?;
    Ok(Kept {
        content: read_content(place.get("content").as_ref())?,
        role,
        work,
        step: place.count("step")?,
    })
}

/// Reads the changes that an action made.
pub(super) fn read_changes(place: &Place<'_>) -> Read<Vec<FileChange>> {
    place.each("files", |place| {
        place.object()?;
        let content = |name| read_content(place.get(name).as_ref());
        Ok(FileChange {
            path: place.get_text("path")?,
            before: content("before")?,
            after: content("after")?,
        })
    })
}

fn read_content(place: Option<&Place<'_>>) -> Read<Content> {
    let Some(place) = place.filter(|place| !place.value().is_null()) else {
        return Ok(Content::Absent);
    };
    place.object()?;
    if place.flag("directory")? {
        return Ok(Content::Directory);
    }
    let digest = place.get_text("sha256")?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_digest {
        true => Ok(Content::File {
            digest: Digest(digest),
            bytes: place.count("bytes")?,
        }),
        false => Err(place.invalid("has no `sha256` of 64 hexadecimal digits")),
    }
}

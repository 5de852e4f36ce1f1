//! `skill`: manages the components on the shelf.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::{ShelfArgs, SkillCommand};
use super::describe::load;
use super::{Failure, note, preview, print, show_document, show_line, show_text, warn};
use crate::interface::component::manifest_document as document;
use crate::manifest::units::show_size;
use crate::sandbox::WasmSandbox;
use crate::skills::{Added, Listing, Removed, Shelf, Skill, SkillError};
use crate::trust::signature;

/// The maximum number of characters shown of a description in a list.
const PREVIEW: usize = 70;

pub(super) fn skill(command: &SkillCommand) -> Result<u8, Failure> {
    match command {
        SkillCommand::Add { components, shelf } => add(components, &open(shelf)?),
        SkillCommand::List { json, shelf } => {
            list(open(shelf)?.list()?, *json, "the shelf is empty")
        }
        SkillCommand::Search { words, json, shelf } => list(
            open(shelf)?.search(words)?,
            *json,
            "no skill on the shelf matches",
        ),
        SkillCommand::Show { name, json, shelf } => show(name, *json, &open(shelf)?),
        SkillCommand::Remove { name, shelf } => {
            let removed = open(shelf)?.remove(&name.parse()?)?;
            tell(&removed);
            Ok(0)
        }
    }
}

/// Opens the shelf that the arguments name.
pub(super) fn open(args: &ShelfArgs) -> Result<Shelf, SkillError> {
    args.shelf
        .as_ref()
        .map_or_else(Shelf::of_user, |dir| Ok(Shelf::at(dir)))
}

fn tell(removed: &Removed) {
    note(format_args!("`{}` is no longer on the shelf", removed.name));
    for error in &removed.damaged {
        warn(error);
    }
    if !removed.damaged.is_empty() {
        let meanwhile =
            "until then all components stay, since a damaged skill may need any of them";
        note(format_args!(
            "{meanwhile}; what cannot be added again can be removed: `strata-host skill remove NAME`"
        ));
    }
}

fn add(components: &[PathBuf], shelf: &Shelf) -> Result<u8, Failure> {
    let sandbox = WasmSandbox::one_shot().map_err(|error| Failure::internal(error.to_string()))?;
    for path in components {
        let (file, bytes, loaded) = load(path, &sandbox)?;
        let refused = |error: SkillError| {
            let failure = Failure::from(error);
            Failure {
                message: format!("cannot add `{}`: {}", path.display(), failure.message),
                ..failure
            }
        };
        let signature =
            signature::beside(&file).map_err(|error| Failure::usage(error.to_string()))?;
        let (skill, added) = shelf.add(&bytes, &loaded.manifest).map_err(refused)?;
        if let Some(signature) = signature {
            shelf.sign(&skill, &signature).map_err(refused)?;
        }
        if added == Added::Already {
            note(format_args!("`{}` is on the shelf already", skill.name()));
        }
        print(&skill.name());
    }
    Ok(0)
}

/// Lists skills; `none` is the note if there are none.
fn list(listing: Listing, json: bool, none: &str) -> Result<u8, Failure> {
    for error in &listing.damaged {
        warn(error);
    }
    if json {
        show_document(&Value::Array(listing.skills.iter().map(json_of).collect()))?;
        return Ok(0);
    }
    if listing.skills.is_empty() && listing.damaged.is_empty() {
        note(none);
    }
    let width = listing
        .skills
        .iter()
        .map(|skill| skill.name().len())
        .max()
        .unwrap_or_default();
    for skill in &listing.skills {
        show_line(&format!(
            "{:<width$}  {}",
            skill.name(),
            preview(&skill.manifest.description, PREVIEW)
        ));
    }
    Ok(0)
}

fn show(name: &str, json: bool, shelf: &Shelf) -> Result<u8, Failure> {
    let skill = shelf.find(&name.parse()?)?;
    // This fails for a damaged skill, which must not be shown as usable.
    shelf.component(&skill)?;
    if json {
        show_document(&json_of(&skill))?;
    } else {
        describe(&skill, &shelf.file(&skill));
    }
    Ok(0)
}

fn describe(skill: &Skill, file: &Path) {
    let manifest = &skill.manifest;
    show_line(&format!("name         {}", skill.name()));
    show_text(&format!("description  {}", manifest.description));
    let needs = if manifest.needs.is_empty() {
        "nothing".into()
    } else {
        manifest.needs.join(", ")
    };
    show_line(&format!("needs        {needs}"));
    show_line(&format!(
        "component    {} ({})",
        file.display(),
        show_size(skill.size)
    ));
    show_line(&format!("sha256       {}", skill.digest));
    for (what, schema) in [
        ("config", &manifest.config_schema),
        ("output", &manifest.output_schema),
    ] {
        if let Some(schema) = schema {
            show_line(&format!("{what:<12} {schema}"));
        }
    }
}

fn json_of(skill: &Skill) -> Value {
    document(&skill.digest, &skill.manifest)
}

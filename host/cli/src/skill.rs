//! `skill`: manages the components on the shelf.

use std::path::{Path, PathBuf};

use serde_json::Value;
use strata_host::interface::component::manifest_document as document;
use strata_host::sandbox::WasmSandbox;
use strata_host::skills::{AddOutcome, RemovedSkill, Shelf, Skill, SkillError, SkillListing};
use strata_host::trust::signature;
use strata_host::units::format_size;

use super::args::{ShelfArgs, SkillCommand};
use super::describe::load_component;
use super::{CommandFailure, Printer, preview};

/// The maximum number of characters shown of a description in a list.
const PREVIEW_CHARS: usize = 70;

pub(super) fn skill(command: &SkillCommand, printer: &Printer) -> Result<u8, CommandFailure> {
    match command {
        SkillCommand::Add { components, shelf } => add(components, &open_shelf(shelf)?, printer),
        SkillCommand::List { json, shelf } => list(
            open_shelf(shelf)?.list()?,
            *json,
            "the shelf is empty",
            printer,
        ),
        SkillCommand::Search { words, json, shelf } => list(
            open_shelf(shelf)?.search(words)?,
            *json,
            "no skill on the shelf matches",
            printer,
        ),
        SkillCommand::Show { name, json, shelf } => show(name, *json, &open_shelf(shelf)?, printer),
        SkillCommand::Remove { name, shelf } => {
            let removed = open_shelf(shelf)?.remove(&name.parse()?)?;
            report_removed(&removed, printer);
            Ok(0)
        }
    }
}

/// Opens the shelf that the arguments name.
pub(super) fn open_shelf(args: &ShelfArgs) -> Result<Shelf, SkillError> {
    args.shelf
        .as_ref()
        .map_or_else(Shelf::for_user, |dir| Ok(Shelf::in_directory(dir)))
}

fn report_removed(removed: &RemovedSkill, printer: &Printer) {
    printer.note(format_args!("`{}` is no longer on the shelf", removed.name));
    for error in &removed.damaged {
        printer.warn(error);
    }
    if !removed.damaged.is_empty() {
        let meanwhile =
            "until then all components stay, since a damaged skill may need any of them";
        printer.note(format_args!(
            "{meanwhile}; what cannot be added again can be removed: `strata-host shelf remove NAME`"
        ));
    }
}

fn add(components: &[PathBuf], shelf: &Shelf, printer: &Printer) -> Result<u8, CommandFailure> {
    let sandbox =
        WasmSandbox::one_shot().map_err(|error| CommandFailure::internal(error.to_string()))?;
    for path in components {
        let (file, bytes, loaded) = load_component(path, &sandbox, printer)?;
        let refused = |error: SkillError| {
            CommandFailure::from(error).within(format_args!("cannot add `{}`", path.display()))
        };
        let signature = signature::read_signature_of(&file)
            .map_err(|error| CommandFailure::usage(error.to_string()))?;
        let (skill, added) = shelf.add(&bytes, &loaded.manifest).map_err(refused)?;
        if let Some(signature) = signature {
            shelf.sign(&skill, &signature).map_err(refused)?;
        }
        if added == AddOutcome::Unchanged {
            printer.note(format_args!("`{}` is on the shelf already", skill.name()));
        }
        printer.print(&skill.name());
    }
    Ok(0)
}

/// Lists skills; `none` is the note if there are none.
fn list(
    listing: SkillListing,
    json: bool,
    none: &str,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    for error in &listing.damaged {
        printer.warn(error);
    }
    if json {
        printer.print_document(&Value::Array(
            listing.skills.iter().map(skill_json).collect(),
        ))?;
        return Ok(0);
    }
    if listing.skills.is_empty() && listing.damaged.is_empty() {
        printer.note(none);
    }
    let width = listing
        .skills
        .iter()
        .map(|skill| skill.name().len())
        .max()
        .unwrap_or_default();
    for skill in &listing.skills {
        printer.print_line(&format!(
            "{:<width$}  {}",
            skill.name(),
            preview(&skill.manifest.description, PREVIEW_CHARS)
        ));
    }
    Ok(0)
}

fn show(name: &str, json: bool, shelf: &Shelf, printer: &Printer) -> Result<u8, CommandFailure> {
    let skill = shelf.find(&name.parse()?)?;
    // This fails for a damaged skill, which must not be shown as usable.
    shelf.component(&skill)?;
    if json {
        printer.print_document(&skill_json(&skill))?;
    } else {
        describe(&skill, &shelf.file(&skill), printer);
    }
    Ok(0)
}

fn describe(skill: &Skill, file: &Path, printer: &Printer) {
    let manifest = &skill.manifest;
    printer.print_line(&format!("name         {}", skill.name()));
    printer.print_text(&format!("description  {}", manifest.description));
    let needs = if manifest.needs.is_empty() {
        "nothing".into()
    } else {
        manifest.needs.join(", ")
    };
    printer.print_line(&format!("needs        {needs}"));
    printer.print_line(&format!(
        "component    {} ({})",
        file.display(),
        format_size(skill.size)
    ));
    printer.print_line(&format!("sha256       {}", skill.digest));
    for (what, schema) in [
        ("config", &manifest.config_schema),
        ("input", &manifest.input_schema),
        ("output", &manifest.output_schema),
    ] {
        if let Some(schema) = schema {
            printer.print_line(&format!("{what:<12} {schema}"));
        }
    }
}

fn skill_json(skill: &Skill) -> Value {
    document(&skill.digest, &skill.manifest)
}

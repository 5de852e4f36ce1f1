//! `describe` and `schema`: describe as JSON, for models, editors and scripts, which interfaces
//! actions can call, what components declare, and what a team file or a policy may contain.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strata_host::blob::digest_of;
use strata_host::interface::component;
use strata_host::interface::component::manifest_document as document;
use strata_host::interface::host_interfaces;
use strata_host::launch::{load_script, read_component};
use strata_host::manifest;
use strata_host::manifest::did_you_mean_path;
use strata_host::manifest::schema::FileKind;
use strata_host::plugin::Limits;
use strata_host::sandbox::{ComponentInfo, LoadError, Metering, ScriptProblem, WasmSandbox};
use strata_host::skills::Shelf;

use super::args::{DescribeArgs, DescribedFile};
use super::{CommandFailure, Printer, skill};
use crate::progress::ProgressDisplay;

pub(super) fn describe(args: &DescribeArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let document = match &args.component {
        None => describe_host(&skill::open_shelf(&args.shelf)?, printer)?,
        Some(path) => describe_component(path, args, printer)?,
    };
    print_description(&document, printer)
}

/// Runs `schema`.
pub(super) fn schema(file: DescribedFile, printer: &Printer) -> Result<u8, CommandFailure> {
    let file = match file {
        DescribedFile::Team => FileKind::Team,
        DescribedFile::Policy => FileKind::Policy,
        DescribedFile::Replies => FileKind::Replies,
    };
    print_description(&manifest::schema::document(file), printer)
}

fn print_description(document: &Value, printer: &Printer) -> Result<u8, CommandFailure> {
    printer.print_document(document)?;
    Ok(0)
}

/// Returns the host's interfaces and the skills on the shelf.
fn describe_host(shelf: &Shelf, printer: &Printer) -> Result<Value, CommandFailure> {
    let mut all = host_interfaces::document();
    let listing = shelf.list()?;
    for damaged in &listing.damaged {
        printer.warn(damaged);
    }
    all["skills"] = listing
        .skills
        .iter()
        .map(|skill| document(&skill.digest, &skill.manifest))
        .collect();
    Ok(all)
}

/// Returns the description of a component or a skill. A name that exists as a file is a file; names
/// of skills contain an `@`.
fn describe_component(
    path: &Path,
    args: &DescribeArgs,
    printer: &Printer,
) -> Result<Value, CommandFailure> {
    let name = path
        .to_str()
        .filter(|name| name.contains('@') && !path.exists());
    if let Some(name) = name {
        let shelf = skill::open_shelf(&args.shelf)?;
        let skill = shelf.find(&name.parse()?)?;
        shelf.component(&skill)?;
        return Ok(document(&skill.digest, &skill.manifest));
    }
    let sandbox =
        WasmSandbox::one_shot().map_err(|error| CommandFailure::internal(error.to_string()))?;
    if let Some(script) = load_interpreted(path, &sandbox, printer)? {
        return Ok(document(&script.digest, &script.manifest));
    }
    let (file, bytes) = read_or_build(path, printer)?;
    let digest = digest_of(&bytes);
    let loaded = sandbox.load_without_handler(digest, &bytes, Metering::Plain, &Limits::default());
    let loaded = loaded.map_err(|error| load_failure(&file, &error))?;
    let mut description = if loaded.exports.handler {
        document(&loaded.digest, &loaded.manifest)
    } else {
        json!({ "sha256": loaded.digest.0 })
    };
    let functions = component::functions_document(&bytes).map_err(|error| {
        CommandFailure::usage(format!(
            "cannot describe the functions of `{}`: {error}",
            file.display()
        ))
    })?;
    if let (Value::Object(all), Value::Object(functions)) = (&mut description, functions) {
        all.extend(functions);
    }
    Ok(description)
}

/// Loads a script, or the source in a directory that needs no build. Returns `None` for everything else.
fn load_interpreted(
    path: &Path,
    sandbox: &WasmSandbox,
    printer: &Printer,
) -> Result<Option<ComponentInfo>, CommandFailure> {
    let mut progress = ProgressDisplay::start(printer);
    let loaded = load_script(path, sandbox, &mut |line| progress.set_activity(line));
    drop(progress);
    let loaded = loaded.map_err(|error| unreadable(path, &error))?;
    let problem = loaded.as_ref().and_then(|info| info.problem.as_deref());
    if let Some(ScriptProblem::Undescribed(problem)) = problem {
        printer.warn(format_args!("it cannot be described completely: {problem}"));
    }
    Ok(loaded)
}

/// Returns a component's file and its bytes. Source is built first.
fn read_or_build(path: &Path, printer: &Printer) -> Result<(PathBuf, Vec<u8>), CommandFailure> {
    let mut progress = ProgressDisplay::start(printer);
    let read = read_component(path, &mut |line| progress.set_activity(line));
    read.map_err(|error| unreadable(path, &error))
}

/// Returns the failure of a command for a component that cannot be read.
fn unreadable(path: &Path, error: &str) -> CommandFailure {
    CommandFailure::usage(format!("{error}{}", did_you_mean_path(path)))
}

/// Returns a component's file, its bytes, and its manifest and exports.
pub(super) fn load_component(
    path: &Path,
    sandbox: &WasmSandbox,
    printer: &Printer,
) -> Result<(PathBuf, Vec<u8>, ComponentInfo), CommandFailure> {
    let (file, bytes) = read_or_build(path, printer)?;
    let loaded = sandbox
        .load(&bytes, Metering::Plain)
        .map_err(|error| load_failure(&file, &error))?;
    Ok((file, bytes, loaded))
}

fn load_failure(file: &Path, error: &LoadError) -> CommandFailure {
    CommandFailure::usage(format!(
        "cannot load the component `{}`: {error}",
        file.display()
    ))
    .advised(error.advice())
}

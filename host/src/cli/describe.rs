//! `describe` and `schema`: describe as JSON, for models, editors and scripts, which interfaces
//! actions can call, what components declare, and what a team file may contain.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::DescribeArgs;
use super::{Failure, show_document, skill, warn};
use crate::blob::digest_of;
use crate::cli::progress::Progress;
use crate::interface::component;
use crate::interface::component::manifest_document as document;
use crate::interface::own;
use crate::launch::read_component;
use crate::manifest;
use crate::plugin::Limits;
use crate::sandbox::{LoadError, Loaded, Metering, WasmSandbox};
use crate::skills::Shelf;

pub(super) fn describe(args: &DescribeArgs) -> Result<u8, Failure> {
    let document = match &args.component {
        None => everything(&skill::open(&args.shelf)?)?,
        Some(path) => one(path, args)?,
    };
    show(&document)
}

/// Runs `schema`.
pub(super) fn schema() -> Result<u8, Failure> {
    show(&manifest::schema::document())
}

fn show(document: &Value) -> Result<u8, Failure> {
    show_document(document)?;
    Ok(0)
}

/// Returns the host's interfaces and the skills on the shelf.
fn everything(shelf: &Shelf) -> Result<Value, Failure> {
    let mut all = own::document();
    let listing = shelf.list()?;
    for damaged in &listing.damaged {
        warn(damaged);
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
fn one(path: &Path, args: &DescribeArgs) -> Result<Value, Failure> {
    let name = path
        .to_str()
        .filter(|name| name.contains('@') && !path.exists());
    if let Some(name) = name {
        let shelf = skill::open(&args.shelf)?;
        let skill = shelf.find(&name.parse()?)?;
        shelf.component(&skill)?;
        return Ok(document(&skill.digest, &skill.manifest));
    }
    let sandbox = WasmSandbox::one_shot().map_err(|error| Failure::internal(error.to_string()))?;
    let (file, bytes) = read(path)?;
    let digest = digest_of(&bytes);
    let loaded = sandbox.load_plain(digest, &bytes, Metering::Plain, &Limits::default());
    let loaded = loaded.map_err(|error| unfit(&file, &error))?;
    let mut description = match loaded.exports.handler {
        true => document(&loaded.digest, &loaded.manifest),
        false => json!({ "sha256": loaded.digest.0 }),
    };
    let functions = component::document(&bytes).map_err(|error| {
        Failure::usage(format!(
            "cannot describe the functions of `{}`: {error}",
            file.display()
        ))
    })?;
    if let (Value::Object(all), Value::Object(functions)) = (&mut description, functions) {
        all.extend(functions);
    }
    Ok(description)
}

/// Returns a component's file and its bytes. Source is built first.
fn read(path: &Path) -> Result<(PathBuf, Vec<u8>), Failure> {
    let mut progress = Progress::begin();
    read_component(path, &mut |line| progress.note(line)).map_err(Failure::usage)
}

/// Returns a component's file, its bytes, and its manifest and exports.
pub(super) fn load(
    path: &Path,
    sandbox: &WasmSandbox,
) -> Result<(PathBuf, Vec<u8>, Loaded), Failure> {
    let (file, bytes) = read(path)?;
    let loaded = sandbox
        .load(&bytes, Metering::Plain)
        .map_err(|error| unfit(&file, &error))?;
    Ok((file, bytes, loaded))
}

fn unfit(file: &Path, error: &LoadError) -> Failure {
    Failure::usage(format!(
        "cannot load the component `{}`: {error}",
        file.display()
    ))
}

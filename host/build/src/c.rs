//! Builds C actions: links the action's files and the SDK to a core module. The type of the
//! component follows from what the action's files export.
//!
//! The compiler and the SDK as a library are provided by `compiler`.

mod compiler;

use super::core_module::LineTables;
use super::sdk::{self, C};
use super::sources::{BuildOutput, fingerprint};
use super::{BuildError, Built, component, with_path};
use compiler::Compiler;
use std::fs;
use std::path::Path;

/// Builds the action in `dir` from all C files directly in it. Files in subdirectories, such as
/// tests, are not included.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let name = dir
        .file_name()
        .map_or("action".into(), |name| name.to_string_lossy());
    let output = BuildOutput::lock(dir, &name)?;
    let made_with = [
        C.digest(),
        sdk::WIT.digest(),
        compiler::PACKAGES.into(),
        env!("CARGO_PKG_VERSION").into(),
    ];
    let fingerprint = fingerprint(dir, &made_with.each_ref().map(String::as_str))?;
    if let Some(component) = output.up_to_date_component(&fingerprint) {
        return Ok(Built {
            component,
            fresh: true,
        });
    }
    let compiler = Compiler::prepare(report)?;
    report(&format!("building {name}"));
    let sources = list_c_files(dir)?;
    let (module, warnings) = compiler.link(dir, &sources, &name)?;
    for warning in warnings.lines() {
        report(warning);
    }
    let bytes = component::encode_component(&module, LineTables::Dropped).map_err(|details| {
        BuildError::Component {
            module: dir.to_owned(),
            details,
        }
    })?;
    with_path(
        &output.temporary_path(),
        fs::write(output.temporary_path(), bytes),
    )?;
    Ok(Built {
        component: output.install(&fingerprint, &compiler.included_files(dir, &sources)?)?,
        fresh: false,
    })
}

/// Returns the names of the C files in a directory, sorted.
fn list_c_files(dir: &Path) -> Result<Vec<String>, BuildError> {
    let mut names = Vec::new();
    for entry in with_path(dir, fs::read_dir(dir))? {
        let name = with_path(dir, entry)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".c") && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

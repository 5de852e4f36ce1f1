//! Builds Python actions: componentize-py makes a component from the action's modules, the SDK, the
//! packages it needs, and CPython for WebAssembly.
//!
//! `project` reads `pyproject.toml`; `environment` installs the tools and the packages; `interpreted`
//! decides whether an action needs a build.

mod environment;
mod interpreted;
mod project;

use strata_base::files::user;

use super::sdk::{self, INTERPRETER_WIT, PYTHON};
use super::sources::{BuildOutput, SourceKind, component_path, fingerprint};
use super::{BuildError, Built, component, pypi, tool, with_path};
use environment::PythonEnvironment;
pub use interpreted::source_use;
use project::PythonProject;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module that the component is made from. It connects the author's module to the SDK.
const ENTRY_MODULE: &str = "strata_entry";

/// How paths of the entry module and of the SDK begin in tracebacks: with the index of their
/// directory in the search path.
const SDK_TRACEBACK_PREFIXES: [&str; 2] = ["\"/1/", "\"/2/"];

/// The world of an interpreter: the imports of every action, and those of `sdk::INTERPRETER_WIT`.
const INTERPRETER_WORLD: &str = "strata:interpreter/interpreter";

/// Builds the action in `dir`.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    build_source(SourceKind::Action, dir, report)
}

/// Builds the interpreter of scripts in `dir`.
pub fn build_interpreter(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    build_source(SourceKind::Interpreter, dir, report)
}

/// Returns the component that was built from the present source in `dir`, if there is one.
pub fn up_to_date_component(dir: &Path) -> Result<Option<PathBuf>, BuildError> {
    let project = PythonProject::read(dir)?;
    if !component_path(dir, &project.name).is_file() {
        return Ok(None);
    }
    let output = BuildOutput::lock(dir, &project.name)?;
    Ok(output.up_to_date_component(&fingerprint_of(dir)?))
}

/// Returns the fingerprint of everything that a component is made from.
fn fingerprint_of(dir: &Path) -> Result<String, BuildError> {
    let also = [
        &sdk::WIT.digest(),
        &INTERPRETER_WIT.digest(),
        &PYTHON.digest(),
        env!("CARGO_PKG_VERSION"),
    ];
    fingerprint(dir, &also)
}

fn build_source(
    kind: SourceKind,
    dir: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let project = PythonProject::read(dir)?;
    let output = BuildOutput::lock(dir, &project.name)?;
    let fingerprint = fingerprint_of(dir)?;
    if let Some(component) = output.up_to_date_component(&fingerprint) {
        return Ok(Built {
            component,
            fresh: true,
        });
    }
    let environment = PythonEnvironment::prepare(dir, &project, &fingerprint, report)?;
    report(&format!("building {}", project.name));
    let mut command = environment.componentize_command();
    command.arg("--wit-path").arg(sdk::WIT.unpack()?);
    match kind {
        SourceKind::Action => command.args(["--world", project.world()]),
        SourceKind::Interpreter => command
            .arg("--wit-path")
            .arg(INTERPRETER_WIT.unpack()?)
            .args(["--world", INTERPRETER_WORLD]),
    };
    let entry = project.entry_source(kind);
    componentize(command, dir, &entry, &environment, &output.temporary_path())?;
    Ok(Built {
        component: output.install(&fingerprint, &[])?,
        fresh: false,
    })
}

/// Runs componentize-py, which has been told the world of the component, for an entry module with
/// this source.
fn componentize(
    mut command: Command,
    dir: &Path,
    entry_source: &str,
    environment: &PythonEnvironment,
    to: &Path,
) -> Result<(), BuildError> {
    let entry = tempfile::tempdir().map_err(|error| BuildError::File {
        path: std::env::temp_dir(),
        source: user::temporary_dir_error(&error),
    })?;
    let path = entry.path().join(ENTRY_MODULE).with_extension("py");
    with_path(&path, fs::write(&path, entry_source))?;
    let sdk = PYTHON.unpack()?;

    command.current_dir(entry.path()).arg("componentize");
    // The order determines how paths begin in tracebacks; see `plain`.
    let paths: [Option<PathBuf>; 4] = [
        Some(dir.into()),
        Some(entry.path().into()),
        Some(sdk),
        environment.packages.clone(),
    ];
    for path in paths.iter().flatten() {
        command.arg("--python-path").arg(path);
    }
    command.arg(ENTRY_MODULE).arg("--output").arg(to);
    let ended = tool::run(&mut command).map_err(pypi::python_missing)?;
    let refused = |details: String| BuildError::Compile {
        dir: dir.to_owned(),
        details,
    };
    if !ended.success {
        return Err(refused(author_traceback(&ended.details)));
    }
    let bytes = with_path(to, fs::read(to))?;
    if component::is_action(&bytes) {
        Ok(())
    } else {
        Err(refused(
            "the component that componentize-py made is no action".into(),
        ))
    }
}

/// Extracts from the output of componentize-py the traceback of the author's code, with the paths
/// of its files. Frames of the SDK and internal errors are removed.
fn author_traceback(details: &str) -> String {
    // componentize-py is a Python program itself; its own traceback ends with the guest's output.
    let of_guest = details
        .split_once("AssertionError: ")
        .map_or(details, |(_, rest)| rest);
    let mut lines = Vec::new();
    let mut left_out = false;
    for line in of_guest.lines() {
        if line.starts_with("Caused by:") || line.starts_with("Stack backtrace:") {
            break;
        }
        let begins = line.trim_start().starts_with("File \"");
        left_out = if begins {
            SDK_TRACEBACK_PREFIXES.iter().any(|own| line.contains(own))
        } else {
            left_out && line.starts_with("    ")
        };
        if !left_out {
            lines.push(line.replace("\"/0/", "\""));
        }
    }
    lines.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::author_traceback;

    #[test]
    fn of_a_failure_the_author_s_part_is_told() {
        let details = "Traceback (most recent call last):\n  File \"/cache/bin/componentize-py\", line 8, in <module>\n    \
            sys.exit(script())\nAssertionError: Traceback (most recent call last):\n  \
            File \"/1/strata_entry.py\", line 2, in <module>\n    import action as author\n  \
            File \"/0/action.py\", line 3, in <module>\n    assert False\n           ^^^^^\nAssertionError: odd\n\n\n\
            Caused by:\n    AssertionError: odd\n";
        let expected = "Traceback (most recent call last):\n  File \"action.py\", line 3, in <module>\n    \
            assert False\n           ^^^^^\nAssertionError: odd";
        assert_eq!(author_traceback(details), expected);
        assert_eq!(author_traceback("error: disk full\n"), "error: disk full");
    }
}

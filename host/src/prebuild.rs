//! Makes the files that are installed with the program: interpreters of scripts with their compiled code,
//! and the components of example actions. What they are used for is in `strata_build::prebuilt`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use strata_build::prebuilt::{InterpreterParts, PrebuiltCollector};
use strata_build::{BuildError, script};
use strata_sandbox::{LoadError, Metering, SandboxError, WasmSandbox};
use strata_services::plugin::script::ScriptLanguage;
use thiserror::Error;

/// Why the files could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrebuildError {
    /// A component could not be built or copied.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no engine that compiles interpreters.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// An interpreter could not be compiled.
    #[error("compiling the interpreter `{}`: {source}", component.display())]
    Load {
        /// The component.
        component: PathBuf,
        /// Why not.
        source: LoadError,
    },
    /// A file could not be read or written.
    #[error("accessing `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Builds the interpreters of these languages and the actions in these directories, and writes them and
/// their index to `files`. `report` is called with progress messages.
///
/// # Errors
/// Fails if something cannot be built, compiled or written.
pub fn prebuild(
    files: &Path,
    languages: &[ScriptLanguage],
    actions: &[PathBuf],
    report: &mut dyn FnMut(&str),
) -> Result<(), PrebuildError> {
    let mut collector = PrebuiltCollector::begin(files)?;
    for &language in languages {
        let interpreter = script::interpreter(language, report)?;
        report(&format!(
            "compiling the interpreter for {}",
            language.name()
        ));
        let (_kept, code) = compile_portable(&interpreter.component)?;
        collector.add_interpreter(InterpreterParts {
            component: &interpreter.component,
            sources: &interpreter.source_digest,
            code: &code,
        })?;
    }
    for action in actions {
        collector.add_action(action, report)?;
    }
    Ok(collector.finish()?)
}

/// Compiles a component, and returns the file with its code, and the temporary directory of the file.
fn compile_portable(component: &Path) -> Result<(tempfile::TempDir, PathBuf), PrebuildError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PrebuildError::File { path, source }
    };
    let dir = tempfile::tempdir().map_err(at(&std::env::temp_dir()))?;
    let bytes = fs::read(component).map_err(at(component))?;
    let loaded = WasmSandbox::portable(dir.path())?.load(&bytes, Metering::Plain);
    let loaded = loaded.map_err(|source| PrebuildError::Load {
        component: component.to_owned(),
        source,
    })?;
    let code = dir
        .path()
        .join(WasmSandbox::portable_code_name(&loaded.digest));
    Ok((dir, code))
}

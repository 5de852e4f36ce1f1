//! Replaces the builds if the library is compiled without the feature `build`: components have to be
//! built by another program, and scripts have no interpreter.

use std::path::{Path, PathBuf};

use strata_services::plugin::script::ScriptLanguage;
use thiserror::Error;

use strata_sandbox::ScriptFile;

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The component's file.
    pub component: PathBuf,
}

/// Nothing is built.
#[derive(Debug, Error)]
#[error(
    "building {what}: this program was compiled without the feature `build`; name a component that is built already"
)]
pub struct BuildError {
    what: String,
}

/// Fails.
///
/// # Errors
/// Always fails.
pub fn build(dir: &Path, _report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    Err(BuildError {
        what: format!("`{}`", dir.display()),
    })
}

/// How the source in a directory is run.
#[derive(Debug)]
pub enum SourceUse {
    /// By an interpreter of scripts, of which there is none.
    Interpreted {
        /// The language of the interpreter.
        language: ScriptLanguage,
        /// What the interpreter runs.
        script: ScriptFile,
        /// The files that it comes from.
        files: Vec<PathBuf>,
    },
    /// As a component, which is built from it.
    Built {
        /// Why, if the source could also be interpreted.
        because: Option<String>,
    },
}

/// Returns that the source has to be built.
///
/// # Errors
/// Never fails.
pub fn source_use(_dir: &Path) -> Result<SourceUse, BuildError> {
    Ok(SourceUse::Built { because: None })
}

/// Returns whether a path is that of a directory.
pub fn is_built(component: &Path) -> bool {
    component.is_dir()
}

/// Returns no component.
///
/// # Errors
/// Never fails.
pub fn up_to_date_component(_dir: &Path) -> Result<Option<PathBuf>, BuildError> {
    Ok(None)
}

/// Returns no files, since nothing is built from them.
pub fn source_files(_dir: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// The interpreters of scripts.
pub mod script {
    use std::path::PathBuf;

    use strata_core::record::id::Digest;
    use strata_services::plugin::script::ScriptLanguage;

    use super::BuildError;

    /// The interpreter of a script.
    #[derive(Debug)]
    pub struct BuiltInterpreter {
        /// The component.
        pub component: PathBuf,
        /// The digest of its sources.
        pub source_digest: Digest,
    }

    /// Fails.
    ///
    /// # Errors
    /// Always fails.
    pub fn interpreter(
        language: ScriptLanguage,
        _report: &mut dyn FnMut(&str),
    ) -> Result<BuiltInterpreter, BuildError> {
        Err(BuildError {
            what: format!("the interpreter of {language:?}"),
        })
    }
}

//! Replaces the builds if the library is compiled without the feature `build`: components have to be
//! built by another program, and scripts have no interpreter.

use std::path::{Path, PathBuf};

use thiserror::Error;

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

/// Returns no files, since nothing is built from them.
pub fn source_files(_dir: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// The interpreters of scripts.
pub mod script {
    use std::path::PathBuf;

    use strata_core::record::id::Digest;

    use super::BuildError;
    use crate::plugin::script::ScriptLanguage;

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

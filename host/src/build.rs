//! Turns a directory of source into a component: `strata-host build`, and `component = "…"` entries that name a
//! directory.
//!
//! Here the language is told from what lies in the directory; each language has a module of its own below. Making
//! a component of a core module is in `component`. What is done with a component is the sandbox's business.

mod c;
mod cache;
mod cargo;
pub mod clean;
mod component;
mod core_module;
pub mod inventory;
mod javascript;
mod pypi;
mod python;
mod recipe;
mod rust;
pub mod script;
pub(crate) mod sdk;
pub(crate) mod sources;
#[cfg(test)]
mod tests;
mod tool;
mod toolchain;

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use sdk::Kit;

/// What came of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The component's file.
    pub component: PathBuf,
    /// Whether it was there already and nothing had to be done.
    pub fresh: bool,
}

/// Why there is no component.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The path is no directory.
    #[error("building `{}`: it is not a directory", dir.display())]
    NotADirectory {
        /// The path.
        dir: PathBuf,
    },
    /// Nothing in the directory tells its language.
    #[error("building `{}`: no source of an action was found; looked for {}", dir.display(), looked_for())]
    UnknownLanguage {
        /// The directory.
        dir: PathBuf,
    },
    /// A program that the build needs does not run.
    #[error("running `{program}`: {source}; {hint}")]
    Program {
        /// The program.
        program: &'static str,
        /// What to do about it.
        hint: &'static str,
        /// Why it does not run.
        source: io::Error,
    },
    /// No compiler for WebAssembly.
    #[error(
        "looking for a rust compiler with the target wasm32-unknown-unknown: there is none, and none could be had; \
         add one: `rustup target add wasm32-unknown-unknown`\n{details}"
    )]
    NoToolchain {
        /// What was tried.
        details: String,
    },
    /// The user has no place for what builds need.
    #[error(
        "looking for the cache directory: neither `XDG_CACHE_HOME` nor `HOME` names a directory; set one of them"
    )]
    NoCache,
    /// The user's place for what builds need cannot be used, or not trusted.
    #[error("using the cache directory `{}`: {why}", dir.display())]
    Cache {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// What a language's actions are built with could not be had.
    #[error("setting up {what}: {hint}\n{details}")]
    Setup {
        /// What could not be had.
        what: &'static str,
        /// What to do about it.
        hint: &'static str,
        /// What was said by the program that failed.
        details: String,
    },
    /// The directory holds more than an action is made from.
    #[error("building `{}`: more than {limit} lie in it; give an action a directory of its own", dir.display())]
    TooMuch {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: &'static str,
    },
    /// The package is not made to become a component.
    #[error("building `{}`: the package is no dynamic library; {hint}", manifest.display())]
    NotALibrary {
        /// The package's manifest.
        manifest: PathBuf,
        /// What to add to it.
        hint: &'static str,
    },
    /// The compiler, or the tool that drives it, refused the source.
    #[error("compiling `{}`:\n{details}", dir.display())]
    Compile {
        /// The directory.
        dir: PathBuf,
        /// What the compiler said.
        details: String,
    },
    /// The compiled module cannot become a component.
    #[error("making a component of `{}`: {details}", module.display())]
    Component {
        /// The compiled module.
        module: PathBuf,
        /// What is wrong with it, and what to do.
        details: String,
    },
    /// A file could not be read or written.
    #[error("building: accessing `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A language that actions can be written in.
struct Language {
    name: &'static str,
    /// Files that tell the language; one of them is enough.
    markers: &'static [&'static str],
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
}

/// The first whose marker lies in a directory is its language.
const LANGUAGES: [Language; 5] = [
    Language {
        name: "rust",
        markers: &["Cargo.toml"],
        build: rust::build,
    },
    Language {
        name: "python",
        markers: &["pyproject.toml", "action.py"],
        build: python::build,
    },
    Language {
        name: "javascript",
        markers: &["package.json"],
        build: javascript::build,
    },
    Language {
        name: "c",
        markers: &["action.c"],
        build: c::build,
    },
    Language {
        name: "any other, by a recipe",
        markers: &["build.sh"],
        build: recipe::build,
    },
];

/// Builds the action in a directory, unless its component is up to date.
///
/// Lines that tell a waiting user what takes long go to `report`; when nothing has to be done there are none.
/// Concurrent builds, also by other processes, wait for each other.
///
/// # Errors
/// Fails if the directory holds no action, a tool is missing, or the source does not compile to a component.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let dir = match dir.canonicalize() {
        Ok(found) if found.is_dir() => found,
        _ => {
            return Err(BuildError::NotADirectory {
                dir: dir.to_owned(),
            });
        }
    };
    let tells = |language: &&Language| {
        language
            .markers
            .iter()
            .any(|marker| dir.join(marker).is_file())
    };
    match LANGUAGES.iter().find(tells) {
        Some(language) => (language.build)(&dir, report),
        None => Err(BuildError::UnknownLanguage { dir }),
    }
}

/// The files that lie in the directory of an action and that it is made from. None where it holds more than an action,
/// or cannot be read.
pub fn own_files(dir: &Path) -> Vec<PathBuf> {
    sources::of(dir).unwrap_or_default()
}

/// Files that lie elsewhere and that the last build of the action in a directory was made from.
pub fn files_elsewhere(dir: &Path) -> Vec<PathBuf> {
    if dir.join("Cargo.toml").is_file() {
        rust::elsewhere(dir)
    } else {
        sources::elsewhere(dir)
    }
}

fn looked_for() -> String {
    let one = |language: &Language| {
        let markers: Vec<String> = language
            .markers
            .iter()
            .map(|marker| format!("`{marker}`"))
            .collect();
        format!("{} ({})", markers.join(" or "), language.name)
    };
    LANGUAGES.each_ref().map(one).join(", ")
}

/// Names the file that an operation failed on.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|source| BuildError::File {
        path: path.to_owned(),
        source,
    })
}

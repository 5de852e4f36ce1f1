//! Builds a component from a directory of source: for `strata-host build`, and for `component =
//! "…"` entries that name a directory.
//!
//! This module determines the language from the files in the directory; each language has a
//! submodule. `component` makes a component from a core module. Components are loaded and run by
//! `strata-sandbox`. New actions and teams come from templates ([`scaffold`]).
//!
//! ```no_run
//! use std::path::Path;
//!
//! # fn main() -> Result<(), strata_build::BuildError> {
//! let built = strata_build::build(Path::new("actions/write"), &mut |line| println!("{line}"))?;
//! println!("{}", built.component.display());
//! # Ok(())
//! # }
//! ```
//!
//! This crate starts compilers and package managers, and writes to the directory of the source and to the user's
//! cache. They may use the package registries; a build that needs nothing new uses no network.

mod c;
mod cache;
mod cargo;
mod component;
mod core_module;
mod embedded;
pub mod inventory;
mod javascript;
pub mod prebuilt;
mod pypi;
mod python;
mod recipe;
mod rust;
pub mod scaffold;
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

use strata_base::files::installation::{Installation, installation};
use strata_base::files::user::UnusableDirectory;
use strata_services::plugin::script::ScriptLanguage;

use strata_sandbox::ScriptFile;

use prebuilt::PrebuiltComponents;
pub use sdk::Kit;

/// How the source in a directory is run.
#[derive(Debug)]
pub enum SourceUse {
    /// By an interpreter of scripts, without a build.
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

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The component's file.
    pub component: PathBuf,
    /// Whether the component was up to date, so that nothing had to be done.
    pub fresh: bool,
}

/// Why a build failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The path is not a directory.
    #[error("building `{}`: it is not a directory", dir.display())]
    NotADirectory {
        /// The path.
        dir: PathBuf,
    },
    /// The directory contains no file that determines the language.
    #[error("building `{}`: no source of an action was found; looked for {}", dir.display(), list_markers())]
    UnknownLanguage {
        /// The directory.
        dir: PathBuf,
    },
    /// A program that the build needs could not be started.
    #[error("running `{program}`: {source}; {hint}")]
    Program {
        /// The program.
        program: &'static str,
        /// What to do about it.
        hint: &'static str,
        /// Why it does not run.
        source: io::Error,
    },
    /// There is no compiler for WebAssembly.
    #[error(
        "looking for a rust compiler with the target wasm32-unknown-unknown: there is none, and none could be had; \
         add one: `rustup target add wasm32-unknown-unknown`\n{details}"
    )]
    NoToolchain {
        /// What was tried.
        details: String,
    },
    /// The user has no cache directory.
    #[error(
        "looking for the cache directory: neither `XDG_CACHE_HOME` nor `HOME` names a directory; set one of them: \
         `export XDG_CACHE_HOME=DIRECTORY`"
    )]
    NoCache,
    /// The user's cache directory cannot be used or is not private.
    #[error("using the cache directory `{}`: {why}{}", dir.display(), cache::advice_for(why))]
    Cache {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: UnusableDirectory,
    },
    /// Neither the user's cache nor a temporary directory has room for what was installed with the program.
    #[error(
        "unpacking an interpreter of scripts: {user_cache}; among the temporary files: {temporary}; {}",
        cache::USE_ANOTHER
    )]
    NoRoom {
        /// Why the user's cache cannot be used.
        user_cache: String,
        /// Why no temporary directory can be used.
        temporary: String,
    },
    /// The tools of a language, or the packages of an action, could not be installed.
    #[error("setting up {what}: {hint}\n{details}")]
    Setup {
        /// What could not be installed.
        what: &'static str,
        /// What to do about it.
        hint: &'static str,
        /// The output of the program that failed.
        details: String,
    },
    /// The directory contains more than the source of an action.
    #[error("building `{}`: more than {limit} lie in it; give an action a directory of its own", dir.display())]
    TooMuch {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: &'static str,
    },
    /// The package is not a dynamic library, so it cannot become a component.
    #[error("building `{}`: the package is no dynamic library; {hint}", manifest.display())]
    NotALibrary {
        /// The package's manifest.
        manifest: PathBuf,
        /// What to add to it.
        hint: &'static str,
    },
    /// The compiler or the build tool rejected the source.
    #[error("compiling `{}`:\n{details}", dir.display())]
    Compile {
        /// The directory.
        dir: PathBuf,
        /// The output of the compiler.
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
    /// What was installed with the program cannot be unpacked.
    #[error("unpacking `{}`, which was installed with strata-host: {source}; {}", path.display(), how_to_reinstall())]
    Installed {
        /// The installed file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
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
struct SourceLanguage {
    name: &'static str,
    /// Files that identify the language. One of them is enough.
    markers: &'static [&'static str],
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
    /// Returns whether everything that compiles it is installed, so that nothing is downloaded for that.
    is_set_up: fn() -> bool,
    /// How its interpreter of scripts runs the source in directories, if it has one.
    interpretation: Option<Interpretation>,
}

/// How the interpreter of scripts of a language runs the source in directories.
struct Interpretation {
    source_use: fn(&Path) -> Result<SourceUse, BuildError>,
    up_to_date_component: fn(&Path) -> Result<Option<PathBuf>, BuildError>,
}

/// The languages. The first one with a marker in a directory is the language of that directory.
static LANGUAGES: [SourceLanguage; 5] = [
    SourceLanguage {
        name: "rust",
        markers: &["Cargo.toml"],
        build: rust::build,
        is_set_up: rust::is_set_up,
        interpretation: None,
    },
    SourceLanguage {
        name: "python",
        markers: &["pyproject.toml", "action.py"],
        build: python::build,
        is_set_up: || true,
        interpretation: Some(Interpretation {
            source_use: python::source_use,
            up_to_date_component: python::up_to_date_component,
        }),
    },
    SourceLanguage {
        name: "javascript",
        markers: &["package.json"],
        build: javascript::build,
        is_set_up: || true,
        interpretation: Some(Interpretation {
            source_use: javascript::source_use,
            up_to_date_component: javascript::up_to_date_component,
        }),
    },
    SourceLanguage {
        name: "c",
        markers: &["action.c"],
        build: c::build,
        is_set_up: || true,
        interpretation: None,
    },
    SourceLanguage {
        name: "any other, by a recipe",
        markers: &["build.sh"],
        build: recipe::build,
        is_set_up: || true,
        interpretation: None,
    },
];

/// Builds the action in a directory, unless its component is up to date.
///
/// `report` is called with progress messages for the user, and not at all if the component is up to
/// date. Concurrent builds of the same action, also by other processes, wait for each other.
///
/// # Errors
/// Fails if the directory contains no action, if a tool is missing, or if the source cannot be
/// compiled to a component.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let dir = resolve(dir)?;
    let Some(language) = SourceLanguage::of(&dir) else {
        return Err(BuildError::UnknownLanguage { dir });
    };
    let installed = PrebuiltComponents::installed();
    let Some(component) = installed.and_then(|installed| installed.action(&dir)) else {
        return (language.build)(&dir, report);
    };
    // The same source was built before, so if it fails now, that is because of the machine.
    if (language.is_set_up)()
        && let Ok(built) = (language.build)(&dir, report)
    {
        return Ok(built);
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    report(&format!(
        "using the component of {name} that is installed with strata-host: its source is unchanged, and the tools \
         that build it are not here"
    ));
    Ok(Built {
        component,
        fresh: true,
    })
}

/// Returns how the source in a directory is run if a team file names the directory.
///
/// # Errors
/// Fails if the directory cannot be read, or its manifest is not valid.
pub fn source_use(dir: &Path) -> Result<SourceUse, BuildError> {
    let dir = resolve(dir)?;
    match Interpretation::of(&dir) {
        Some(interpretation) => (interpretation.source_use)(&dir),
        None => Ok(SourceUse::Built { because: None }),
    }
}

/// Returns whether a path is that of a directory whose source has to be built, which runs code of its
/// author outside of every sandbox.
pub fn is_built(component: &Path) -> bool {
    component.is_dir() && !matches!(source_use(component), Ok(SourceUse::Interpreted { .. }))
}

/// Returns the component that was built from the present source in a directory which needs no build,
/// if there is one.
///
/// # Errors
/// Fails if the directory cannot be read.
pub fn up_to_date_component(dir: &Path) -> Result<Option<PathBuf>, BuildError> {
    let dir = resolve(dir)?;
    match Interpretation::of(&dir) {
        Some(interpretation) => (interpretation.up_to_date_component)(&dir),
        None => Ok(None),
    }
}

/// Returns the absolute path of the directory of an action.
fn resolve(dir: &Path) -> Result<PathBuf, BuildError> {
    match dir.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found),
        _ => Err(BuildError::NotADirectory {
            dir: dir.to_owned(),
        }),
    }
}

impl SourceLanguage {
    /// Returns the language of the source in a directory.
    fn of(dir: &Path) -> Option<&'static Self> {
        let tells = |language: &&Self| {
            let mut markers = language.markers.iter();
            markers.any(|marker| dir.join(marker).is_file())
        };
        LANGUAGES.iter().find(tells)
    }
}

impl Interpretation {
    /// Returns how the interpreter of the language of the source in a directory runs it, if it can run
    /// directories.
    fn of(dir: &Path) -> Option<&'static Self> {
        SourceLanguage::of(dir)?.interpretation.as_ref()
    }
}

/// Returns the files in the directory of an action that the action is built from. Returns none if
/// the directory contains more than an action or cannot be read.
pub fn source_files(dir: &Path) -> Vec<PathBuf> {
    sources::list_sources(dir).unwrap_or_default()
}

/// Returns the files outside of the directory of an action that its last build used.
pub fn external_inputs(dir: &Path) -> Vec<PathBuf> {
    if dir.join("Cargo.toml").is_file() {
        rust::external_inputs(dir)
    } else {
        sources::external_inputs(dir)
    }
}

/// Returns how to install the program again with everything that belongs to it.
fn how_to_reinstall() -> &'static str {
    match installation() {
        Installation::Packaged { package, .. } => package.how_to_reinstall(),
        Installation::ProgramOnly | Installation::OtherVersions { .. } => "install it again",
    }
}

fn list_markers() -> String {
    let one = |language: &SourceLanguage| {
        let markers: Vec<String> = language
            .markers
            .iter()
            .map(|marker| format!("`{marker}`"))
            .collect();
        format!("{} ({})", markers.join(" or "), language.name)
    };
    LANGUAGES.each_ref().map(one).join(", ")
}

/// Adds the path to the error of a failed file operation.
fn with_path<T>(path: &Path, result: io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|source| BuildError::File {
        path: path.to_owned(),
        source,
    })
}

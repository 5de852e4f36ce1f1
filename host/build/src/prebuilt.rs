//! Components that were built before and were installed with the program: the interpreters of scripts,
//! and the example actions. With them, nothing has to be compiled to start.
//!
//! An index lists them with what they were made from. A component is used only for exactly that source:
//! an interpreter for the sources in this program, an action for a directory whose files, and the files
//! that its build read elsewhere, are unchanged.

mod collector;

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use strata_base::files::caches::{CacheName, INSTALLED_CODE};
use strata_base::files::installation::{Installation, VERSION, installation};
use strata_base::files::replace::{Replacement, replace};
use strata_base::files::sha256::sha256;
use strata_base::files::{open, process_cache};
use strata_core::record::id::{Digest, to_hex};

use super::sdk::{Kit, combined_digest};
use super::sources::fingerprint;
use super::{BuildError, cache, with_path};

pub use collector::{InterpreterParts, PrebuiltCollector};

/// The file with the index, in the directory of the installed files.
const INDEX_FILE: &str = "index.json";
/// The directory of the components of actions, beside the index. Copied examples have them in one of this name.
pub(crate) const ACTION_DIRECTORY: &str = "components";
/// The directory of the interpreters, beside the index.
const INTERPRETER_DIRECTORY: &str = "interpreters";
/// The base-2 logarithm of the distance over which an interpreter is compressed, and so of the memory
/// that unpacking it takes: 128 MiB. The code of an interpreter repeats the data of its component.
const WINDOW_LOG: u32 = 27;
/// How much is copied at once.
const COPIED_BYTES: usize = 256 << 10;

/// The list of what is installed.
#[derive(Debug, Serialize, Deserialize)]
struct PrebuiltIndex {
    /// The version of the program that it belongs to.
    version: String,
    interpreters: Vec<PrebuiltInterpreter>,
    actions: Vec<PrebuiltAction>,
}

/// An interpreter of scripts: its component, and the component's code for every processor of the
/// architecture, one after the other, compressed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PrebuiltInterpreter {
    /// The name of its file, without the extension.
    name: String,
    /// The size of this file, which tells one that was cut short.
    bytes: u64,
    /// The digest of its sources and of the list of its tools.
    sources: String,
    component_bytes: u64,
    /// The name of the file with the code in the cache.
    code_name: String,
    code_bytes: u64,
}

/// The component of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PrebuiltAction {
    /// The name of its file, without the extension.
    name: String,
    /// The size of this file, which tells one that was cut short.
    bytes: u64,
    /// The digest of the files in its directory.
    directory: String,
    /// The files elsewhere that its build read.
    elsewhere: Vec<ExternalInput>,
}

/// A file outside of an action's directory that its build read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ExternalInput {
    /// Its path, relative to the directory.
    path: String,
    sha256: String,
}

/// An interpreter that is ready to be loaded.
#[derive(Debug)]
pub struct UnpackedInterpreter {
    /// The component.
    pub component: PathBuf,
    /// What the user should know: why it is not kept, if it is the first that is not.
    pub warning: Option<String>,
}

/// The components that are installed with a program.
#[derive(Debug)]
pub struct PrebuiltComponents {
    files: PathBuf,
    index: PrebuiltIndex,
}

impl PrebuiltComponents {
    /// Returns those that are installed with this program. Returns none if nothing is, or if the index
    /// cannot be read, which [`describe_installation`] reports.
    pub fn installed() -> Option<&'static Self> {
        static INSTALLED: OnceLock<Option<PrebuiltComponents>> = OnceLock::new();
        let read = || Self::read(installation().files()?).ok();
        INSTALLED.get_or_init(read).as_ref()
    }

    /// Reads the index in a directory. Fails if there is none, or if it is that of another version.
    fn read(files: &Path) -> io::Result<Self> {
        let index: PrebuiltIndex = serde_json::from_slice(&open::read(&files.join(INDEX_FILE))?)?;
        if index.version != VERSION {
            let message = format!("it is that of version {}", index.version);
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        Ok(Self {
            files: files.to_owned(),
            index,
        })
    }

    /// Returns the interpreter that was made from sources with this digest, if it is installed. It is
    /// unpacked into the user's cache, with its code, or into that of this process if the user's cannot
    /// be used.
    ///
    /// # Errors
    /// Fails if there is room for it in neither, or if the installed file is damaged.
    pub fn interpreter(&self, sources: &Digest) -> Result<Option<UnpackedInterpreter>, BuildError> {
        let mut interpreters = self.index.interpreters.iter();
        let is_it = |interpreter: &&PrebuiltInterpreter| interpreter.sources == sources.0;
        let Some(interpreter) = interpreters.find(is_it) else {
            return Ok(None);
        };
        let unpacked = cache::directory_of(CacheName::Installed)
            .and_then(|installed| self.unpack(interpreter, &installed));
        let unpacked = match unpacked {
            Ok(component) => UnpackedInterpreter {
                component,
                warning: None,
            },
            Err(damaged @ BuildError::Installed { .. }) => return Err(damaged),
            Err(unusable) => self.unpack_for_process(interpreter, &unusable)?,
        };
        Ok(Some(unpacked))
    }

    /// Unpacks an interpreter into the cache of this process, because the user's cannot be used.
    fn unpack_for_process(
        &self,
        interpreter: &PrebuiltInterpreter,
        unusable: &BuildError,
    ) -> Result<UnpackedInterpreter, BuildError> {
        let why = describe_unusable_cache(unusable);
        let no_room = |error: &dyn Display| BuildError::NoRoom {
            user_cache: why.clone(),
            temporary: error.to_string(),
        };
        let temporary = process_cache::create().map_err(|error| no_room(&error))?;
        let unpacked = self.unpack(interpreter, &CacheName::Installed.path_in(&temporary.path));
        let component = unpacked.map_err(|error| match error {
            damaged @ BuildError::Installed { .. } => damaged,
            error => no_room(&error),
        })?;
        let warning = format!(
            "{why}; interpreters of scripts are unpacked for this run alone, and again at the next start; {}",
            cache::USE_ANOTHER
        );
        Ok(UnpackedInterpreter {
            component,
            warning: temporary.is_new.then_some(warning),
        })
    }

    /// Unpacks an interpreter into the part `installed` of a cache, unless that was done before, and
    /// returns its component.
    fn unpack(
        &self,
        interpreter: &PrebuiltInterpreter,
        installed: &Path,
    ) -> Result<PathBuf, BuildError> {
        let key = interpreter.sources.get(..16).unwrap_or_default();
        let file_name = format!("{}.wasm", interpreter.name);
        let name = format!("{}-{key}", interpreter.name);
        let dir = cache::create_once_at(installed.join(name), |dir| {
            let archive = self.interpreter_path(interpreter);
            let damaged = |source: io::Error| BuildError::Installed {
                path: archive.clone(),
                source,
            };
            let file = open::regular(&archive).map_err(damaged)?;
            let mut content = zstd::Decoder::new(file).map_err(damaged)?;
            content.window_log_max(WINDOW_LOG).map_err(damaged)?;
            let mut copy = |to: &Path, bytes: u64| {
                let mut unreadable = None;
                let written = replace(to, Replacement::Cached, |file| {
                    copy_exactly(&mut content, file, bytes, &mut unreadable)
                });
                match unreadable {
                    Some(error) => Err(damaged(error)),
                    None => with_path(to, written),
                }
            };
            copy(&dir.join(&file_name), interpreter.component_bytes)?;
            // Not where it belongs: what a killed process leaves in this directory is removed by the next.
            let unplaced = dir.join(&interpreter.code_name);
            copy(&unplaced, interpreter.code_bytes)?;
            let code = installed.join(INSTALLED_CODE);
            with_path(&code, fs::create_dir_all(&code))?;
            with_path(
                &code,
                fs::rename(&unplaced, code.join(&interpreter.code_name)),
            )
        })?;
        Ok(dir.join(file_name))
    }

    /// Returns the component that was made from the source which is now in a directory.
    pub fn action(&self, dir: &Path) -> Option<PathBuf> {
        let now = directory_fingerprint(dir).ok()?;
        let is_it = |action: &&PrebuiltAction| {
            let mut elsewhere = action.elsewhere.iter();
            action.directory == now
                && elsewhere.all(|input| {
                    digest_file(&dir.join(&input.path)).is_ok_and(|now| now == input.sha256)
                })
        };
        let action = self.index.actions.iter().find(is_it)?;
        let path = self.action_path(action);
        has_size(&path, action.bytes).then_some(path)
    }

    fn action_path(&self, action: &PrebuiltAction) -> PathBuf {
        let name = format!("{}.wasm", action.name);
        self.files.join(ACTION_DIRECTORY).join(name)
    }

    fn interpreter_path(&self, interpreter: &PrebuiltInterpreter) -> PathBuf {
        let name = format!("{}.zst", interpreter.name);
        self.files.join(INTERPRETER_DIRECTORY).join(name)
    }

    /// Returns the names of what is missing or was cut short.
    fn incomplete(&self) -> Vec<&str> {
        let interpreters = self.index.interpreters.iter().map(|interpreter| {
            let path = self.interpreter_path(interpreter);
            (&*interpreter.name, has_size(&path, interpreter.bytes))
        });
        let actions = self.index.actions.iter().map(|action| {
            let is_complete = has_size(&self.action_path(action), action.bytes);
            (&*action.name, is_complete)
        });
        let all = interpreters.chain(actions);
        all.filter_map(|(name, is_complete)| (!is_complete).then_some(name))
            .collect()
    }
}

/// Says why the user's cache cannot be used.
fn describe_unusable_cache(error: &BuildError) -> String {
    match error {
        BuildError::NoCache => {
            "neither `XDG_CACHE_HOME` nor `HOME` names a directory for the cache".into()
        }
        BuildError::Cache { dir, why } => {
            format!(
                "the cache directory `{}` cannot be used: {why}",
                dir.display()
            )
        }
        BuildError::File { path, source } => {
            format!(
                "`{}` in the cache cannot be written: {source}",
                path.display()
            )
        }
        other => other.to_string(),
    }
}

/// Copies this many bytes. Fails if there are fewer. `unreadable` is set if reading failed, rather than
/// writing.
fn copy_exactly(
    from: &mut impl Read,
    to: &mut File,
    bytes: u64,
    unreadable: &mut Option<io::Error>,
) -> io::Result<()> {
    let mut chunk = vec![0; COPIED_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).map_or(COPIED_BYTES, |left| left.min(COPIED_BYTES));
        if let Err(error) = from.read_exact(&mut chunk[..most]) {
            *unreadable = Some(error);
            return Err(ErrorKind::InvalidData.into());
        }
        to.write_all(&chunk[..most])?;
        left -= most as u64;
    }
    Ok(())
}

fn has_size(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

/// Describes what is installed with the program, for people. The error says what is wrong with it.
///
/// # Errors
/// Fails if the installed files are incomplete or belong to another version.
pub fn describe_installation() -> Result<String, String> {
    match installation() {
        Installation::ProgramOnly => {
            Ok("the program alone, without components that were built before".into())
        }
        Installation::OtherVersions {
            directory,
            versions,
        } => Err(format!(
            "the files of version {VERSION} are not installed; `{}` contains those of {}",
            directory.display(),
            versions.join(", ")
        )),
        Installation::Packaged { package, files } => {
            let found = PrebuiltComponents::read(files).map_err(|error| {
                format!(
                    "the index of the installed files in `{}` cannot be used: {error}",
                    files.display()
                )
            })?;
            let missing = found.incomplete();
            if missing.is_empty() {
                Ok(format!(
                    "from the package `{}`, with {} interpreters of scripts and {} actions that were built before, in `{}`",
                    package.name(),
                    found.index.interpreters.len(),
                    found.index.actions.len(),
                    files.display()
                ))
            } else {
                Err(format!(
                    "these components are missing or incomplete in `{}`: {}",
                    files.display(),
                    missing.join(", ")
                ))
            }
        }
    }
}

/// Returns the digest of the files of an action, and of everything in this program that it is built
/// with.
fn directory_fingerprint(dir: &Path) -> Result<String, BuildError> {
    fingerprint(dir, &[&combined_digest(&Kit::ALL)])
}

fn digest_file(file: &Path) -> io::Result<String> {
    open::read(file).map(|content| to_hex(&sha256(content)))
}

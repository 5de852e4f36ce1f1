//! Components that were built before and were installed with the program: the interpreters of scripts,
//! and the example actions. With them, nothing has to be compiled to start.
//!
//! An index lists them with what they were made from. A component is used only for exactly that source:
//! an interpreter for the sources in this program, an action for a directory whose files, and the files
//! that its build read elsewhere, are unchanged.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component as PathPart, Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use strata_base::files::caches::{CacheName, INSTALLED_CODE};
use strata_base::files::installation::{Installation, VERSION, installation};
use strata_base::files::replace::{Replacement, replace};
use strata_base::files::sha256::sha256;
use strata_base::files::{open, user};
use strata_core::record::id::{Digest, to_hex};

use super::sdk::{Kit, combined_digest};
use super::sources::fingerprint;
use super::{BuildError, cache, external_inputs, with_path};

/// The file with the index, in the directory of the installed files.
const INDEX_FILE: &str = "index.json";
/// The directory of the components of actions, beside the index. Copied examples have them in one of this name.
pub(crate) const ACTION_DIRECTORY: &str = "components";
/// The directory of the interpreters, beside the index.
const INTERPRETER_DIRECTORY: &str = "interpreters";
/// How well interpreters are compressed: as well as possible. Unpacking takes the same time and memory.
const COMPRESSION_LEVEL: i32 = 22;
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
    /// unpacked into the cache, with its code.
    ///
    /// # Errors
    /// Fails if there is no cache, or if the installed file is damaged.
    pub fn interpreter(&self, sources: &Digest) -> Result<Option<PathBuf>, BuildError> {
        let mut interpreters = self.index.interpreters.iter();
        match interpreters.find(|interpreter| interpreter.sources == sources.0) {
            Some(interpreter) => self
                .unpack(interpreter)
                .map(Some)
                .map_err(describe_unusable_cache),
            None => Ok(None),
        }
    }

    /// Unpacks an interpreter, unless that was done before, and returns its component.
    fn unpack(&self, interpreter: &PrebuiltInterpreter) -> Result<PathBuf, BuildError> {
        let key = interpreter.sources.get(..16).unwrap_or_default();
        let file_name = format!("{}.wasm", interpreter.name);
        let name = format!("{}-{key}", interpreter.name);
        let dir = cache::create_once(CacheName::Installed, &name, |dir| {
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
            let code = cache::directory_of(CacheName::Installed)?.join(INSTALLED_CODE);
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

/// Says what to do if the cache cannot be written.
fn describe_unusable_cache(error: BuildError) -> BuildError {
    match error {
        BuildError::File { path, source } => BuildError::Cache {
            dir: path,
            why: format!(
                "{source}; interpreters of scripts are unpacked there once, which takes 100 MB: make room, or {}",
                cache::USE_ANOTHER
            ),
        },
        other => other,
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
            match missing.is_empty() {
                true => Ok(format!(
                    "from the package `{}`, with {} interpreters of scripts and {} actions that were built before, in `{}`",
                    package.name(),
                    found.index.interpreters.len(),
                    found.index.actions.len(),
                    files.display()
                )),
                false => Err(format!(
                    "these components are missing or incomplete in `{}`: {}",
                    files.display(),
                    missing.join(", ")
                )),
            }
        }
    }
}

/// Collects components for a package.
#[derive(Debug)]
pub struct PrebuiltCollector {
    files: PathBuf,
    index: PrebuiltIndex,
}

/// A built interpreter, and its code.
#[derive(Clone, Copy, Debug)]
pub struct InterpreterParts<'a> {
    /// The component.
    pub component: &'a Path,
    /// The digest of the sources that it was made from.
    pub sources: &'a Digest,
    /// The file with its code, which has the name that it gets in the cache.
    pub code: &'a Path,
}

impl PrebuiltCollector {
    /// Begins a collection in a directory, which is created.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn begin(files: &Path) -> Result<Self, BuildError> {
        for directory in [ACTION_DIRECTORY, INTERPRETER_DIRECTORY] {
            let directory = files.join(directory);
            with_path(&directory, fs::create_dir_all(&directory))?;
        }
        Ok(Self {
            files: files.to_owned(),
            index: PrebuiltIndex {
                version: VERSION.into(),
                interpreters: Vec::new(),
                actions: Vec::new(),
            },
        })
    }

    /// Adds an interpreter, compressed.
    ///
    /// # Errors
    /// Fails if one of its files cannot be read, or if the result cannot be written.
    pub fn add_interpreter(&mut self, parts: InterpreterParts<'_>) -> Result<(), BuildError> {
        let name = file_stem(parts.component);
        let path = self
            .files
            .join(INTERPRETER_DIRECTORY)
            .join(format!("{name}.zst"));
        let [component, code] =
            [parts.component, parts.code].map(|file| with_path(file, fs::read(file)));
        let (component, code) = (component?, code?);
        let compressed = compress(&[&component, &code]);
        let compressed = with_path(&path, compressed)?;
        with_path(&path, fs::write(&path, &compressed))?;
        let code_name = parts.code.file_name().unwrap_or_default();
        self.index.interpreters.push(PrebuiltInterpreter {
            name,
            bytes: compressed.len() as u64,
            sources: parts.sources.0.clone(),
            component_bytes: component.len() as u64,
            code_name: code_name.to_string_lossy().into_owned(),
            code_bytes: code.len() as u64,
        });
        Ok(())
    }

    /// Builds the action in a directory and adds it.
    ///
    /// # Errors
    /// Fails if it cannot be built or copied.
    pub fn add_action(
        &mut self,
        dir: &Path,
        report: &mut dyn FnMut(&str),
    ) -> Result<(), BuildError> {
        let dir = super::resolve(dir)?;
        let built = super::build(&dir, report)?;
        let own = super::source_files(&dir);
        let cache = user::cache_dir();
        let mut elsewhere = Vec::new();
        for file in external_inputs(&dir) {
            let file = with_path(&file, file.canonicalize())?;
            // The SDKs in the cache are those of this program, which the fingerprint covers.
            let is_cached = cache.as_ref().is_some_and(|cache| file.starts_with(cache));
            if !is_cached && own.binary_search(&file).is_err() {
                elsewhere.push(ExternalInput {
                    path: relative_path(&dir, &file).to_string_lossy().into_owned(),
                    sha256: with_path(&file, digest_file(&file))?,
                });
            }
        }
        let directory = directory_fingerprint(&dir)?;
        self.copy_action(&built.component, directory, elsewhere)
    }

    fn copy_action(
        &mut self,
        component: &Path,
        directory: String,
        elsewhere: Vec<ExternalInput>,
    ) -> Result<(), BuildError> {
        let name = file_stem(component);
        let to = self
            .files
            .join(ACTION_DIRECTORY)
            .join(format!("{name}.wasm"));
        let bytes = with_path(component, fs::copy(component, &to))?;
        self.index.actions.push(PrebuiltAction {
            name,
            bytes,
            directory,
            elsewhere,
        });
        Ok(())
    }

    /// Writes the index.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn finish(self) -> Result<(), BuildError> {
        let path = self.files.join(INDEX_FILE);
        let text = serde_json::to_string_pretty(&self.index).map_err(io::Error::other);
        with_path(&path, text.and_then(|text| fs::write(&path, text + "\n")))
    }
}

/// Compresses contents, one after the other.
fn compress(contents: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.include_checksum(true)?;
    for content in contents {
        encoder.write_all(content)?;
    }
    encoder.finish()
}

fn file_stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the digest of the files of an action, and of everything in this program that it is built
/// with.
fn directory_fingerprint(dir: &Path) -> Result<String, BuildError> {
    fingerprint(dir, &[&combined_digest(&Kit::ALL)])
}

fn digest_file(file: &Path) -> io::Result<String> {
    open::read(file).map(|content| to_hex(&sha256(content)))
}

/// Returns the path from a directory to a file. Both must be absolute, without links.
fn relative_path(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(shared).map(|_| PathPart::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_from_a_directory_to_a_file() {
        let check = |from: &str, to: &str, expected: &str| {
            let found = relative_path(Path::new(from), Path::new(to));
            assert_eq!(found, Path::new(expected), "{from} to {to}");
        };
        check("/a/b", "/a/b/c", "c");
        check("/a/b", "/a/c/d", "../c/d");
        check("/a", "/b/c", "../b/c");
    }

    /// An installation with the component of the action in `action`, whose build read `shared` beside it.
    fn collect(home: &Path) -> PrebuiltComponents {
        let action = home.join("action");
        fs::create_dir_all(&action).expect("a directory");
        fs::write(action.join("action.zig"), "source").expect("a file");
        fs::write(home.join("shared"), "shared").expect("a file");
        fs::write(home.join("made.wasm"), "component").expect("a file");
        let files = home.join("files");
        let mut collector = PrebuiltCollector::begin(&files).expect("a directory");
        let directory = directory_fingerprint(&action).expect("it is read");
        let elsewhere = vec![ExternalInput {
            path: "../shared".into(),
            sha256: digest_file(&home.join("shared")).expect("it is read"),
        }];
        let copied = collector.copy_action(&home.join("made.wasm"), directory, elsewhere);
        copied.expect("it is copied");
        collector.finish().expect("it is written");
        PrebuiltComponents::read(&files).expect("it is read")
    }

    #[test]
    fn a_component_is_used_only_for_what_it_was_made_from() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path();
        let found = collect(home);
        let (action, shared) = (home.join("action"), home.join("shared"));
        let component = home.join("files/components/made.wasm");
        assert_eq!(found.action(&action), Some(component.clone()));
        fs::write(&shared, "other").expect("a file");
        assert_eq!(found.action(&action), None);
        fs::write(&shared, "shared").expect("a file");
        assert!(found.action(&action).is_some() && found.incomplete().is_empty());
        fs::write(&component, "compo").expect("a file");
        assert_eq!(
            (found.action(&action), found.incomplete()),
            (None, vec!["made"])
        );
        fs::write(&component, "component").expect("a file");
        fs::write(action.join("more"), "").expect("a file");
        assert_eq!(found.action(&action), None);
    }

    #[test]
    fn the_index_of_another_version_is_not_used() {
        let home = tempfile::tempdir().expect("a directory");
        collect(home.path());
        let index = home.path().join("files").join(INDEX_FILE);
        let text = fs::read_to_string(&index).expect("it is read");
        fs::write(&index, text.replace(VERSION, "9.9.9")).expect("a file");
        let error = PrebuiltComponents::read(&home.path().join("files"));
        let error = error.expect_err("it is that of another version");
        assert!(error.to_string().contains("9.9.9"), "{error}");
    }

    #[test]
    fn what_was_compressed_can_be_read_again_and_damage_is_found() {
        let contents: [&[u8]; 2] = [&[7; 100_000], b"code"];
        let compressed = compress(&contents).expect("it is compressed");
        let home = tempfile::tempdir().expect("a directory");
        let (first, second) = (home.path().join("1"), home.path().join("2"));
        let unpack = |compressed: &[u8]| -> Result<(), Option<io::Error>> {
            let mut content = zstd::Decoder::new(compressed).map_err(Some)?;
            let mut unreadable = None;
            for (path, content_bytes) in [(&first, 100_000), (&second, 4)] {
                let mut file = File::create(path).expect("a file");
                let copied = copy_exactly(&mut content, &mut file, content_bytes, &mut unreadable);
                if copied.is_err() {
                    return Err(unreadable);
                }
            }
            Ok(())
        };
        unpack(&compressed).expect("it is whole");
        assert_eq!(fs::read(&second).expect("a file"), b"code");
        for end in 0..compressed.len() - 8 {
            assert!(unpack(&compressed[..end]).is_err(), "cut at {end}");
        }
    }
}

//! Collects components for a package, with their index.

use std::fs;
use std::io::{self, Write};
use std::path::{Component as PathPart, Path, PathBuf};

use strata_base::files::installation::VERSION;
use strata_base::files::user;
use strata_core::record::id::Digest;

use super::{
    ACTION_DIRECTORY, ExternalInput, INDEX_FILE, INTERPRETER_DIRECTORY, PrebuiltAction,
    PrebuiltIndex, PrebuiltInterpreter, WINDOW_LOG, digest_file, directory_fingerprint,
};
use crate::{BuildError, build, external_inputs, resolve, source_files, with_path};

/// How well interpreters are compressed: as well as possible. Unpacking takes the same time and memory.
const COMPRESSION_LEVEL: i32 = 22;
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
        let dir = resolve(dir)?;
        let built = build(&dir, report)?;
        let own = source_files(&dir);
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
    use std::fs::File;

    use super::super::{PrebuiltComponents, copy_exactly};
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

//! Determines whether an action is up to date, for languages whose tools do not. A fingerprint over
//! the files of the action's directory is stored beside the component, together with the digests of
//! inputs outside of the directory, which only the tools know.

use strata_base::files::open;
use strata_base::files::sha256::{Sha256, sha256};
use strata_core::record::id::to_hex;

use super::{BuildError, cache, with_path};
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories with generated files, which are not part of the source. Hidden directories are
/// excluded as well.
const GENERATED_DIRS: [&str; 2] = ["__pycache__", "node_modules"];
/// Directories with generated files, if they are directly in the action's directory. Deeper ones,
/// such as `build`, may contain source.
const TOP_LEVEL_GENERATED_DIRS: [&str; 4] = ["build", "dist", "target", "venv"];
/// The largest number of files of an action. A directory with more is something else, such as a
/// home directory.
const MAX_FILES: usize = 10_000;
/// The largest total size of an action's files in bytes. They are read at each build. This is far
/// more than a component may have.
const MAX_BYTES: u64 = 256 << 20;

/// The file extension of records, which describe what a component was made from.
const RECORD_EXTENSION: &str = "made-from";

/// What a directory of sources is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Action,
    /// An interpreter of scripts, which imports more than an action.
    Interpreter,
}

/// Returns a digest over the names and contents of the files in `dir`, and over `also`: everything
/// else that the component is made with.
pub fn fingerprint(dir: &Path, also: &[&str]) -> Result<String, BuildError> {
    let files = list_sources(dir)?;
    let mut hasher = Sha256::new();
    let mut take = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    for part in also {
        take(part.as_bytes());
    }
    let mut bytes = 0;
    for path in files {
        bytes += with_path(&path, fs::metadata(&path))?.len();
        if bytes > MAX_BYTES {
            return Err(BuildError::TooMuch {
                dir: dir.to_owned(),
                limit: "256 MiB",
            });
        }
        let content = with_path(&path, open::read(&path))?;
        take(
            path.strip_prefix(dir)
                .unwrap_or(&path)
                .as_os_str()
                .as_encoded_bytes(),
        );
        take(&content);
    }
    Ok(to_hex(&hasher.finish()))
}

/// Returns the files that an action in `dir` is made from, sorted.
pub fn list_sources(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in with_path(&next, fs::read_dir(&next))? {
            let entry = with_path(&next, entry)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Links are followed only to files, because links to directories can form a cycle.
            let kind = with_path(&entry.path(), entry.file_type())?;
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                let is_generated = GENERATED_DIRS.contains(&&*name)
                    || (next == dir && TOP_LEVEL_GENERATED_DIRS.contains(&&*name));
                if !is_generated {
                    open.push(entry.path());
                }
            } else if kind.is_file() || entry.path().is_file() {
                files.push(entry.path());
            }
            if files.len() > MAX_FILES {
                return Err(BuildError::TooMuch {
                    dir: dir.to_owned(),
                    limit: "10000 files",
                });
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The output location of an action's component. It is locked: no other build of the same action
/// runs while this exists.
#[derive(Debug)]
pub struct BuildOutput {
    dir: PathBuf,
    component: PathBuf,
    /// When the build began, as a file timestamp. Files that are modified later may differ from
    /// what was built.
    started_at: (i64, i64),
    _lock: File,
}

impl BuildOutput {
    /// Locks the output location of an action's component, which is in `target/guest`, as for other
    /// languages.
    pub fn lock(dir: &Path, name: &str) -> Result<Self, BuildError> {
        let base = output_dir(dir);
        let at_lock = base.join(name).with_added_extension("lock");
        let lock = cache::lock(&at_lock)?;
        with_path(
            &at_lock,
            lock.set_len(0).and_then(|()| (&lock).write_all(b".")),
        )?;
        let started_at = modified_at(&with_path(&at_lock, lock.metadata())?);
        Ok(Self {
            dir: dir.to_owned(),
            component: component_path(dir, name),
            started_at,
            _lock: lock,
        })
    }

    /// Returns the component if it was made from sources with this fingerprint, and no external
    /// input has changed since.
    pub fn up_to_date_component(&self, fingerprint: &str) -> Option<PathBuf> {
        let record = fs::read_to_string(self.record_path()).ok()?;
        let (found, elsewhere) = record.split_once('\n').unwrap_or((&record, ""));
        let same = found == fingerprint
            && parse_external_inputs(elsewhere)
                .all(|(digest, file)| digest_file(&file).ok() == Some(digest));
        (same && self.component.is_file()).then(|| self.component.clone())
    }

    /// Returns a path in the same directory to which a tool can write the component.
    pub fn temporary_path(&self) -> PathBuf {
        self.component.with_extension("unfinished")
    }

    /// Installs the file at [`temporary_path`](Self::temporary_path) as the component, and records the
    /// fingerprint and the external inputs: those of `files` that are not in the action's
    /// directory.
    pub fn install(&self, fingerprint: &str, files: &[PathBuf]) -> Result<PathBuf, BuildError> {
        let unfinished = self.temporary_path();
        let own = list_sources(&self.dir)?;
        let mut record = fingerprint.to_owned();
        for file in files.iter().filter(|file| own.binary_search(file).is_err()) {
            // A file that is missing or was modified during the build is recorded without digest,
            // so that the next build does not consider the component up to date.
            let changed =
                fs::metadata(file).map_or(true, |meta| modified_at(&meta) > self.started_at);
            let digest = if changed {
                String::new()
            } else {
                digest_file(file).unwrap_or_default()
            };
            record.push_str(&format!("\n{digest} {}", file.display()));
        }
        // The old record is removed first and the new one written last, so that a component never
        // has the record of another one.
        match fs::remove_file(self.record_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                with_path(&self.record_path(), Err(error))?
            }
            _ => {}
        }
        with_path(
            &unfinished,
            File::open(&unfinished).and_then(|file| file.sync_all()),
        )?;
        with_path(&self.component, fs::rename(&unfinished, &self.component))?;
        with_path(&self.record_path(), fs::write(self.record_path(), record))?;
        Ok(self.component.clone())
    }

    fn record_path(&self) -> PathBuf {
        self.component.with_extension(RECORD_EXTENSION)
    }
}

/// Returns the external inputs of the last build of the action in a directory.
pub fn external_inputs(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(output_dir(dir))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let records = found.filter(|path| {
        path.extension()
            .is_some_and(|ending| ending == RECORD_EXTENSION)
    });
    let text = |record: PathBuf| fs::read_to_string(record).unwrap_or_default();
    let files = |text: String| {
        let elsewhere = text.split_once('\n').map_or("", |(_, elsewhere)| elsewhere);
        parse_external_inputs(elsewhere)
            .map(|(_, file)| file)
            .collect::<Vec<_>>()
    };
    records.map(text).flat_map(files).collect()
}

/// Returns the inputs in makefile rules, in which compilers list the files that they have read:
/// `object: file file`.
pub fn parse_make_rule(rule: &str) -> Vec<PathBuf> {
    /// Replaces spaces within a path while the paths are split.
    const BLANK: &str = "\0";
    let files = rule.replace("\\\n", " ").replace("\\ ", BLANK);
    let files = files
        .lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(_, files)| files.split_whitespace());
    files.map(|file| file.replace(BLANK, " ").into()).collect()
}

/// Returns the path of the component of the action with this name.
pub fn component_path(dir: &Path, name: &str) -> PathBuf {
    output_dir(dir).join(name).with_added_extension("wasm")
}

/// Returns the directory of an action's components.
fn output_dir(dir: &Path) -> PathBuf {
    dir.join("target").join("guest")
}

/// Parses the digests and paths of the external inputs in a record.
fn parse_external_inputs(elsewhere: &str) -> impl Iterator<Item = (String, PathBuf)> {
    elsewhere
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(digest, file)| (digest.to_owned(), file.into()))
}

/// Returns when a file was last modified, in seconds and nanoseconds.
fn modified_at(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

fn digest_file(file: &Path) -> io::Result<String> {
    open::read(file).map(|content| to_hex(&sha256(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_fingerprint_changes_with_what_an_action_is_made_from_and_with_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let taken = || fingerprint(dir, &["1"]).expect("it can be taken");
        write(dir, "action.py", "a");
        let mut known = vec![taken(), fingerprint(dir, &["2"]).expect("it can be taken")];
        let changes = [
            ("action.py", "b", true),
            ("more/x", "", true),
            ("more/xy", "", true),
            ("more/x", "y", true),
        ];
        let outputs = [
            (".git/x", "1", false),
            ("target/x", "1", false),
            ("more/__pycache__/x", "1", false),
        ];
        let outputs = outputs
            .into_iter()
            .chain([("build/x", "1", false), ("more/build/x", "1", true)]);
        for (name, text, counts) in changes.into_iter().chain(outputs) {
            write(dir, name, text);
            assert_eq!(!known.contains(&taken()), counts, "{name}");
            known.push(taken());
        }
    }

    #[test]
    fn a_component_counts_for_what_it_was_made_from_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = BuildOutput::lock(dir.path(), "x.y").expect("a place");
        assert_eq!(place.up_to_date_component("1"), None);
        fs::write(place.temporary_path(), "component").expect("a file");
        assert_eq!(place.up_to_date_component("1"), None);
        let component = place.install("1", &[]).expect("it is kept");
        assert_eq!(component, dir.path().join("target/guest/x.y.wasm"));
        assert_eq!(
            (
                place.up_to_date_component("1"),
                place.up_to_date_component("2")
            ),
            (Some(component.clone()), None)
        );
        fs::remove_file(component).expect("it is there");
        assert_eq!(place.up_to_date_component("1"), None);
    }

    #[test]
    fn a_component_counts_only_as_long_as_what_lies_elsewhere_is_as_it_was() {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("action");
        write(&dir, "action.js", "own");
        write(home.path(), "shared file.js", "a");
        let files = [dir.join("action.js"), home.path().join("shared file.js")];
        let place = BuildOutput::lock(&dir, "x").expect("a place");
        let make = |place: &BuildOutput| {
            fs::write(place.temporary_path(), "component").expect("a file");
            place.install("1", &files).expect("it is kept");
        };
        make(&place);
        assert_eq!(external_inputs(&dir), files[1..]);
        assert!(
            place.up_to_date_component("1").is_some() && place.up_to_date_component("2").is_none()
        );
        write(home.path(), "shared file.js", "b");
        assert_eq!(place.up_to_date_component("1"), None);
        // It was changed while the component was made.
        let changed = |time| {
            File::options()
                .write(true)
                .open(&files[1])
                .and_then(|file| file.set_modified(time))
        };
        let later = fs::metadata(&files[1])
            .and_then(|meta| meta.modified())
            .expect("a time");
        changed(later + std::time::Duration::from_secs(60)).expect("a time");
        make(&place);
        assert_eq!(place.up_to_date_component("1"), None);
        changed(later - std::time::Duration::from_secs(60)).expect("a time");
        drop(place);
        let place = BuildOutput::lock(&dir, "x").expect("a place");
        make(&place);
        assert!(place.up_to_date_component("1").is_some());
        fs::remove_file(&files[1]).expect("it is there");
        assert_eq!(place.up_to_date_component("1"), None);
    }

    #[test]
    fn the_files_of_a_rule_may_have_blanks_and_take_several_lines() {
        let check = |rule: &str, expected: &[&str]| {
            assert_eq!(
                parse_make_rule(rule),
                expected.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{rule:?}"
            );
        };
        check("a.o: a.c ../b.h\n", &["a.c", "../b.h"]);
        check(
            "a.o: a.c \\\n  my\\ b.h\nb.o: b.c\n\na.c:\n",
            &["a.c", "my b.h", "b.c"],
        );
    }

    #[test]
    fn a_directory_that_is_no_action_is_not_read_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..=MAX_FILES {
            write(dir.path(), &format!("{number}"), "");
        }
        let error = fingerprint(dir.path(), &[])
            .expect_err("it is too much")
            .to_string();
        assert!(error.contains("more than 10000 files"), "{error}");
    }
}

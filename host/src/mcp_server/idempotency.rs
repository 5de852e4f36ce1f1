//! Idempotency keys: which run belongs to a key, kept in files beside the runs.
//!
//! A key is recorded before its run is created, so that a call which is repeated after this process
//! was killed finds the same run, or creates it under the same name.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strata_base::files::replace::{Replacement, replace};
use strata_base::files::sha256::Sha256;
use strata_core::record::id::to_hex;

use super::Principal;
use super::arguments::RunName;

/// The directory of the keys, within that of the runs. No run has such a name.
const DIRECTORY: &str = ".keys";
/// The maximum size of the file of a key, in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// The keys of one directory of runs.
#[derive(Debug)]
pub(super) struct IdempotencyKeys {
    directory: PathBuf,
}

/// A key of a principal, for one tool.
pub(super) struct ScopedKey<'a> {
    pub(super) principal: &'a Principal,
    pub(super) tool: &'a str,
    pub(super) key: &'a str,
}

/// What is recorded for a key.
#[derive(Serialize, Deserialize)]
struct KeyRecord {
    run: String,
    arguments: String,
}

/// What belongs to a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyOwner {
    /// The key is new, and belongs to this run from now on.
    New(RunName),
    /// The key was used with the same arguments, for this run.
    Known(RunName),
    /// The key was used with other arguments.
    OtherArguments,
}

impl IdempotencyKeys {
    /// Opens the keys of a directory of runs.
    pub(super) fn open(runs: &Path) -> io::Result<Self> {
        let directory = runs.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Returns which run belongs to a key. If it is new, `run` is recorded for it, durably. Calls
    /// must not overlap.
    pub(super) fn claim(
        &self,
        key: &ScopedKey<'_>,
        arguments: &str,
        run: RunName,
    ) -> io::Result<KeyOwner> {
        let file = self.directory.join(key.file_name());
        if let Some(known) = read_record(&file)? {
            let same = known.arguments == arguments;
            let name = RunName::parse(&known.run).filter(|_| same);
            return Ok(name.map_or(KeyOwner::OtherArguments, KeyOwner::Known));
        }
        let record = KeyRecord {
            run: run.as_str().to_owned(),
            arguments: arguments.to_owned(),
        };
        let text = serde_json::to_vec(&record)?;
        replace(&file, Replacement::Private, |new| new.write_all(&text))?;
        Ok(KeyOwner::New(run))
    }
}

/// Reads the file of a key. Returns `None` if there is none.
fn read_record(file: &Path) -> io::Result<Option<KeyRecord>> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_BYTES => {}
        Ok(_) => return Err(damaged(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let text = fs::read(file)?;
    let record = serde_json::from_slice(&text);
    record.map(Some).map_err(|_| damaged(file))
}

fn damaged(file: &Path) -> io::Error {
    let text = format!("`{}` is damaged; remove it", file.display());
    io::Error::new(ErrorKind::InvalidData, text)
}

impl ScopedKey<'_> {
    /// Returns the name of the key's file. It does not contain the key.
    fn file_name(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.principal.0, self.tool, self.key] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        to_hex(&digest.finish()) + ".json"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RunName {
        RunName::parse(text).expect("a name")
    }

    #[test]
    fn a_key_belongs_to_one_run_for_one_principal_tool_and_set_of_arguments() {
        let runs = tempfile::tempdir().expect("a directory");
        let keys = IdempotencyKeys::open(runs.path()).expect("keys");
        let (local, other) = (Principal::local(), Principal::of_token("ci"));
        let key = |principal, tool, key| ScopedKey {
            principal,
            tool,
            key,
        };
        let claim = |key: ScopedKey<'_>, arguments: &str, run: &str| {
            keys.claim(&key, arguments, name(run)).expect("claimed")
        };
        assert_eq!(
            claim(key(&local, "t", "k"), "a", "r1"),
            KeyOwner::New(name("r1"))
        );
        assert_eq!(
            claim(key(&local, "t", "k"), "a", "r2"),
            KeyOwner::Known(name("r1"))
        );
        assert_eq!(
            claim(key(&local, "t", "k"), "b", "r2"),
            KeyOwner::OtherArguments
        );
        assert_eq!(
            claim(key(&other, "t", "k"), "a", "r3"),
            KeyOwner::New(name("r3"))
        );
        assert_eq!(
            claim(key(&local, "u", "k"), "a", "r4"),
            KeyOwner::New(name("r4"))
        );
    }

    #[test]
    fn a_damaged_file_of_a_key_is_an_error_that_names_it() {
        let runs = tempfile::tempdir().expect("a directory");
        let keys = IdempotencyKeys::open(runs.path()).expect("keys");
        let key = ScopedKey {
            principal: &Principal::local(),
            tool: "t",
            key: "k",
        };
        let file = runs.path().join(DIRECTORY).join(key.file_name());
        fs::write(&file, "{").expect("written");
        let error = keys.claim(&key, "a", name("r1")).unwrap_err().to_string();
        assert!(error.contains("is damaged; remove it"), "{error}");
    }
}

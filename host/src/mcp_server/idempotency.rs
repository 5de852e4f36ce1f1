//! Idempotency keys: which run belongs to a key.
//!
//! A key is recorded before its run is created, so that a call which is repeated after this process
//! was killed finds the same run, or creates it under the same name.

use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};
use strata_base::files::sha256::Sha256;
use strata_core::record::id::to_hex;

use super::Principal;
use super::arguments::RunName;
use super::call_store::{CallStore, KEYS};

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

/// Returns which run belongs to a key. If it is new, `run` is recorded for it, durably. Blocks.
pub(super) fn claim(
    store: &dyn CallStore,
    key: &ScopedKey<'_>,
    arguments: &str,
    run: RunName,
) -> io::Result<KeyOwner> {
    let name = key.name();
    let record = KeyRecord {
        run: run.as_str().to_owned(),
        arguments: arguments.to_owned(),
    };
    let Some(present) = store.keep(&name, &serde_json::to_vec(&record)?)? else {
        return Ok(KeyOwner::New(run));
    };
    let known: KeyRecord = serde_json::from_slice(&present).map_err(|_| {
        let text = format!("`{name}` is damaged; remove it");
        io::Error::new(ErrorKind::InvalidData, text)
    })?;
    let same = known.arguments == arguments;
    let run = RunName::parse(&known.run).filter(|_| same);
    Ok(run.map_or(KeyOwner::OtherArguments, KeyOwner::Known))
}

impl ScopedKey<'_> {
    /// Returns the name under which it is kept. It does not contain the key.
    fn name(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.principal.0, self.tool, self.key] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        format!("{KEYS}/{}.json", to_hex(&digest.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_store::CallFiles;
    use super::*;

    fn name(text: &str) -> RunName {
        RunName::parse(text).expect("a name")
    }

    #[test]
    fn a_key_belongs_to_one_run_for_one_principal_tool_and_set_of_arguments() {
        let runs = tempfile::tempdir().expect("a directory");
        let keys = CallFiles::open(runs.path()).expect("keys");
        let (local, other) = (Principal::local(), Principal::of_token("ci"));
        let key = |principal, tool, key| ScopedKey {
            principal,
            tool,
            key,
        };
        let claim = |key: ScopedKey<'_>, arguments: &str, run: &str| {
            claim(&keys, &key, arguments, name(run)).expect("claimed")
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
        let keys = CallFiles::open(runs.path()).expect("keys");
        let key = ScopedKey {
            principal: &Principal::local(),
            tool: "t",
            key: "k",
        };
        std::fs::write(runs.path().join(key.name()), "{").expect("written");
        let error = claim(&keys, &key, "a", name("r1")).unwrap_err().to_string();
        assert!(error.contains("is damaged; remove it"), "{error}");
    }
}

//! All inputs that the host receives from strangers, as functions of bytes that must never panic.
//!
//! This module lists the targets and their corpora. Each target has a module of its own. `mutate`
//! creates more inputs without an instrumented build, for the regular tests; `engine.rs` runs the
//! same targets guided by coverage.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is a test: what does not hold has to fail"
)]

mod boundary;
mod files;
mod letter;
pub mod mutate;
mod seal;
mod storage;

use std::fs;
use std::path::{Path, PathBuf};

/// Processes an input, and asserts what must be true. It owns what it needs.
pub type Taker = Box<dyn Fn(&[u8])>;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its directory in the corpus.
    pub name: &'static str,
    /// Creates the function that processes inputs.
    pub start: fn() -> Taker,
    /// The number of generated inputs in the regular tests, which take a few seconds.
    pub share: usize,
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "team-toml",
        start: files::team_toml,
        share: 2000,
    },
    Target {
        name: "team-json",
        start: files::team_json,
        share: 1500,
    },
    Target {
        name: "machine-part",
        start: files::machine_part,
        share: 3000,
    },
    Target {
        name: "letter",
        start: letter::letter,
        share: 10_000,
    },
    Target {
        name: "storage",
        start: storage::storage,
        share: 150,
    },
    Target {
        name: "component",
        start: boundary::component,
        share: 500,
    },
    Target {
        name: "guest",
        start: boundary::guest,
        share: 800,
    },
];

/// Returns the target with a name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

impl Target {
    /// Returns the directory of its corpus.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
    }

    /// Returns the files of its corpus, sorted by name, so that the same inputs are generated
    /// everywhere.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.folder())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths
            .into_iter()
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .collect()
    }
}

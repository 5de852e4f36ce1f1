//! Everything that strangers hand to the host, as functions of bytes that must never panic.
//!
//! Here are the targets by name, and their corpus; what each does with its bytes is in a module of its own. `mutate`
//! makes up more bytes without an instrumented build, for the tests of every day; `engine.rs` drives the same targets
//! by coverage.

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

/// Takes whatever there is. What must hold it asserts by itself. It owns what it needs for that.
pub type Taker = Box<dyn Fn(&[u8])>;

/// Something that takes whatever there is.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Makes it ready.
    pub start: fn() -> Taker,
    /// How many made-up inputs it is given in the tests of every day: what a few seconds are enough for.
    pub share: usize,
}

/// All of them.
pub const TARGETS: [Target; 6] = [
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

/// The target of a name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

impl Target {
    /// Where its corpus lies.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
    }

    /// What is kept for it: by name, so that the same inputs are made of it everywhere.
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

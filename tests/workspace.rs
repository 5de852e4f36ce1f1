//! The directory of a test: a team file, the probe, a storage directory `store`, and functions that
//! run the host there. `process` contains functions for a running process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, Process};
use crate::{probe, stream};

/// A directory that is removed when this is dropped.
pub struct Workspace {
    dir: TempDir,
}

impl Workspace {
    /// Creates a directory with the files of `fixtures/<name>` and the probe.
    pub fn of(fixture: &str) -> Self {
        let place = Self::empty();
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(fixture);
        for entry in
            fs::read_dir(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()))
        {
            let entry = entry.unwrap();
            fs::copy(
                entry.path(),
                place.path(&entry.file_name().to_string_lossy()),
            )
            .unwrap();
        }
        place
    }

    /// Creates a directory with this team file and the probe.
    pub fn with(team: &str) -> Self {
        let place = Self::empty();
        place.write("team.toml", team);
        place
    }

    /// Creates a directory with the probe.
    pub fn empty() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::copy(probe::component(), place.path("probe.wasm")).unwrap();
        place
    }

    /// Returns the path of a name in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns a command of the host that runs in the directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata-host-under-test"));
        command.args(args).current_dir(self.dir.path());
        // The compile cache is separate from the user's, but the compiler for guests is shared.
        let cache = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let home = || cache("XDG_CACHE_HOME").or_else(|| Some(cache("HOME")?.join(".cache")));
        if let Some(wasm) =
            cache("STRATA_WASM_HOME").or_else(|| Some(home()?.join("strata/rust-wasm")))
        {
            command.env("STRATA_WASM_HOME", wasm);
        }
        command.env(
            "XDG_CACHE_HOME",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
        );
        command.env(
            "XDG_STATE_HOME",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"),
        );
        // Policies of this machine's user have no effect on the tests.
        command
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("STRATA_POLICY");
        command
            .env("NO_COLOR", "1")
            .env_remove("STRATA_LOG")
            .env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs the host to its end.
    pub fn host(&self, args: &[&str]) -> Ended {
        Process::spawn(self.command(args)).end()
    }

    /// Starts the host.
    pub fn start(&self, args: &[&str]) -> Process {
        Process::spawn(self.command(args))
    }

    /// Runs `team.toml` from the beginning, saved in `store`, to its end.
    pub fn run(&self) -> Ended {
        self.start_run(&[]).end()
    }

    /// Starts such a run with these arguments.
    pub fn start_run(&self, arguments: &[&str]) -> Process {
        let run = ["run", "team.toml", "--storage", "store", "--events", "-"];
        self.start(&[&run[..], arguments].concat())
    }

    /// Starts such a run that stays, and waits until its first step is saved.
    pub fn start_resting(&self) -> Process {
        self.start_resting_in("store")
    }

    /// Does the same in another storage.
    pub fn start_resting_in(&self, storage: &str) -> Process {
        let run = [
            "run",
            "team.toml",
            "--storage",
            storage,
            "--events",
            "-",
            "--keep-alive",
        ];
        let mut process = self.start(&run);
        process.until("step-committed", None);
        process
    }

    /// Resumes the run in `store` to its end.
    pub fn resume(&self) -> Ended {
        self.host(&["run", "--recover_path", "store", "--events", "-"])
    }

    /// Returns the saved `team.json`.
    pub fn team_json(&self) -> Value {
        serde_json::from_slice(&self.read("store/team.json")).expect("team.json is JSON")
    }

    /// Returns all recorded events, as `events` prints them.
    pub fn recorded(&self) -> Vec<Value> {
        let ended = self.host(&["events", "store"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        stream::parse(&ended.stdout)
    }
}

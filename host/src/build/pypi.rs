//! Tools from PyPI: a private Python environment with pinned packages, made once per machine.

use super::tool::Caller;
use super::{BuildError, at, cache, tool};
use crate::sha256::sha256;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_core::id::hex;

/// The oldest Python that the tools run on.
pub const OLDEST: (u32, u32) = (3, 9);

const NO_PYTHON: &str = "it sets up the tools for this language: install python 3.9 or later, e.g. `apt install python3 python3-venv`";
const NO_VENV: &str = "python needs its modules venv and pip to set up its tools: install them, e.g. \
                       `apt install python3-venv`";
const NO_TOOLS: &str = "they come from PyPI, once: see that it can be reached (pip's own settings hold, e.g. \
                        PIP_INDEX_URL and HTTPS_PROXY)";

/// The tools of a language.
#[derive(Clone, Copy, Debug)]
pub struct Tools {
    /// The language.
    pub language: &'static str,
    /// What they are, for an error.
    pub what: &'static str,
    /// What is told while they are set up.
    pub told: &'static str,
    /// The packages, with their digests, as pip takes them.
    pub packages: &'static str,
}

impl Tools {
    /// The directory with the environment (`venv`). It is made if it is not there.
    pub fn ready(&self, report: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
        // Another Python, or another version of it, gets an environment of its own: the old one leans on the old Python.
        let mut command = python(Path::new("python3"));
        command.args([
            "-c",
            "import sys; print(*sys.version_info[:2], sys.base_prefix)",
        ]);
        let asked = tool::run(&mut command).map_err(no_python)?;
        let mut words = asked.details.split_whitespace().map(str::parse);
        let version = (
            words.next().and_then(Result::ok),
            words.next().and_then(Result::ok),
        );
        match version {
            (Some(major), Some(minor)) if asked.success && (major, minor) >= OLDEST => {}
            _ => return Err(setup("python3", NO_PYTHON, asked.details)),
        }
        let key = hex(&sha256(format!("{}\n{}", asked.details, self.packages))[..8]);
        cache::once(&format!("{}/tools-{key}", self.language), |dir| {
            report(self.told);
            self.install(dir)
        })
    }

    fn install(&self, dir: &Path) -> Result<(), BuildError> {
        let made = run(python(Path::new("python3"))
            .args(["-m", "venv"])
            .arg(dir.join("venv")))?;
        if !made.success {
            return Err(setup("a python environment", NO_VENV, made.details));
        }
        let list = dir.join("toolchain.txt");
        at(&list, fs::write(&list, self.packages))?;
        let mut install = pip(dir);
        install
            .args([
                "install",
                "--quiet",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--no-deps",
                "-r",
            ])
            .arg(&list);
        let got = run(&mut install)?;
        if !got.success {
            return Err(setup(self.what, NO_TOOLS, got.details));
        }
        Ok(())
    }
}

/// A Python that is run with nothing of the caller's environment that bends it.
pub fn python(program: &Path) -> Command {
    let bends: &[&str] = &["PYTHON", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"];
    let mut command = Caller {
        bends,
        kept: &["PIP_"],
    }
    .program(program);
    command
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_NO_INPUT", "1")
        .env("NO_COLOR", "1");
    command
}

/// The pip of an environment that is [`ready`](Tools::ready).
pub fn pip(tools: &Path) -> Command {
    let mut command = python(&tools.join("venv/bin/python"));
    command.args(["-m", "pip"]);
    command
}

/// Runs a Python to its end.
pub fn run(command: &mut Command) -> Result<tool::Ended, BuildError> {
    tool::run(command).map_err(no_python)
}

/// Names the error of a machine without Python.
pub fn no_python(source: io::Error) -> BuildError {
    BuildError::Program {
        program: "python3",
        hint: NO_PYTHON,
        source,
    }
}

/// Tools or packages that could not be had.
pub fn setup(what: &'static str, hint: &'static str, details: String) -> BuildError {
    BuildError::Setup {
        what,
        hint,
        details: details.trim_end().to_owned(),
    }
}

//! Installs tools from PyPI: a private Python environment with pinned packages, created once per
//! machine.

use strata_base::files::caches::CacheName;
use strata_base::files::sha256::sha256;
use strata_core::record::id::to_hex;

use super::tool::CallerEnvironment;
use super::{BuildError, cache, tool, with_path};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version of Python that the tools support.
pub const MINIMUM_VERSION: (u32, u32) = (3, 9);

const NO_PYTHON: &str = "it sets up the tools for this language: install python 3.9 or later, e.g. `apt install python3 python3-venv`";
const NO_VENV: &str = "python needs its modules venv and pip to set up its tools: install them, e.g. \
                       `apt install python3-venv`";
const NO_TOOLS: &str = "they come from PyPI, once: see that it can be reached (pip's own settings hold, e.g. \
                        PIP_INDEX_URL and HTTPS_PROXY)";

/// The tools of a language.
#[derive(Clone, Copy, Debug)]
pub struct PypiTools {
    /// The part of the cache in which they are installed.
    pub cache: CacheName,
    /// A description for errors.
    pub what: &'static str,
    /// The progress message while they are installed.
    pub progress_message: &'static str,
    /// The packages with their digests, in the format of pip's requirement files.
    pub packages: &'static str,
}

impl PypiTools {
    /// Returns the directory that contains the environment (`venv`). It is created if it does not
    /// exist.
    pub fn ensure_installed(&self, report: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
        // Each Python installation and version has an environment of its own, because an
        // environment refers to the Python that created it.
        let mut command = python_command(Path::new("python3"));
        command.args([
            "-c",
            "import sys; print(*sys.version_info[:2], sys.base_prefix)",
        ]);
        let output = tool::run(&mut command).map_err(python_missing)?;
        let mut words = output.details.split_whitespace().map(str::parse);
        let version = (
            words.next().and_then(Result::ok),
            words.next().and_then(Result::ok),
        );
        match version {
            (Some(major), Some(minor)) if output.success && (major, minor) >= MINIMUM_VERSION => {}
            _ => return Err(setup_error("python3", NO_PYTHON, output.details)),
        }
        let key = to_hex(&sha256(format!("{}\n{}", output.details, self.packages))[..8]);
        cache::create_once(self.cache, &format!("tools-{key}"), |dir| {
            report(self.progress_message);
            self.install(dir)
        })
    }

    fn install(&self, dir: &Path) -> Result<(), BuildError> {
        let output = run_python(
            python_command(Path::new("python3"))
                .args(["-m", "venv"])
                .arg(dir.join("venv")),
        )?;
        if !output.success {
            return Err(setup_error("a python environment", NO_VENV, output.details));
        }
        let list = dir.join("toolchain.txt");
        with_path(&list, fs::write(&list, self.packages))?;
        let mut install = pip_command(dir);
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
        let got = run_python(&mut install)?;
        if !got.success {
            return Err(setup_error(self.what, NO_TOOLS, got.details));
        }
        Ok(())
    }
}

/// Returns a command that runs a Python program without being influenced by the caller's
/// environment.
pub fn python_command(program: &Path) -> Command {
    let bends: &[&str] = &["PYTHON", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"];
    let mut command = CallerEnvironment {
        withheld: bends,
        passed: &["PIP_"],
    }
    .command(program);
    command
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_NO_INPUT", "1")
        .env("NO_COLOR", "1");
    command
}

/// Returns a pip command in an environment that [`PypiTools::ensure_installed`] returned.
pub fn pip_command(tools: &Path) -> Command {
    let mut command = python_command(&tools.join("venv/bin/python"));
    command.args(["-m", "pip"]);
    command
}

/// Runs a Python command to its end.
pub fn run_python(command: &mut Command) -> Result<tool::ToolOutput, BuildError> {
    tool::run(command).map_err(python_missing)
}

/// Returns the error for a machine without Python.
pub fn python_missing(source: io::Error) -> BuildError {
    BuildError::Program {
        program: "python3",
        hint: NO_PYTHON,
        source,
    }
}

/// Returns the error for tools or packages that could not be installed.
pub fn setup_error(what: &'static str, hint: &'static str, details: String) -> BuildError {
    BuildError::Setup {
        what,
        hint,
        details: details.trim_end().to_owned(),
    }
}

//! The Python that builds actions: the machine's own, in a private environment with componentize-py, made once per
//! machine; and the packages that an action needs.

use super::project::{Project, Requirements};
use crate::build::{BuildError, at, cache, tool};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_core::id::hex;

/// The packages with which components are made, with their digests.
const TOOLS: &str = include_str!("../../../../guest-sdk/python/toolchain.txt");
/// The oldest Python that the tools run on.
const OLDEST: (u32, u32) = (3, 9);
/// The Python that actions run on, for which their packages are chosen.
const GUEST_PYTHON: &str = "3.14";

const NO_PYTHON: &str =
    "python actions are built by python 3.9 or later: install it, e.g. `apt install python3 python3-venv`";
const NO_VENV: &str = "python needs its modules venv and pip to set up its tools: install them, e.g. \
                       `apt install python3-venv`";
const NO_TOOLS: &str = "they come from PyPI, once: see that it can be reached (pip's own settings hold, e.g. \
                        PIP_INDEX_URL and HTTPS_PROXY)";
const NO_PACKAGES: &str = "packages must be pure python (`py3-none-any` wheels): there are no compilers for others";

/// What an action is built with.
#[derive(Debug)]
pub struct Environment {
    dir: PathBuf,
    /// Where the packages lie that the action needs; none if it needs none.
    pub packages: Option<PathBuf>,
}

impl Environment {
    /// Finds what is needed to build an action, and gets what is not there.
    pub fn ready(dir: &Path, project: &Project, report: &mut dyn FnMut(&str)) -> Result<Self, BuildError> {
        let tools = tools(report)?;
        let packages = packages(&tools, dir, project, report)?;
        Ok(Self { dir: tools, packages })
    }

    /// componentize-py, to be given its arguments. Nothing of the caller's own Python bends it.
    pub fn componentize(&self) -> Command {
        python(&self.dir.join("venv/bin/componentize-py"))
    }
}

/// A Python that is run with nothing of the caller's environment that bends it.
fn python(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let bends = name.to_string_lossy().starts_with("PYTHON");
        if bends || name == "VIRTUAL_ENV" || name == "__PYVENV_LAUNCHER__" {
            command.env_remove(&name);
        }
    }
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_NO_INPUT", "1").env("NO_COLOR", "1");
    command
}

/// Names the error of a machine without Python.
pub fn no_python(source: io::Error) -> BuildError {
    BuildError::Program { program: "python3", hint: NO_PYTHON, source }
}

/// The environment with the tools.
fn tools(report: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    // Another Python, or another version of it, gets an environment of its own: the old one leans on the old Python.
    let mut command = python(Path::new("python3"));
    command.args(["-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)"]);
    let asked = tool::run(&mut command).map_err(no_python)?;
    let mut words = asked.details.split_whitespace().map(str::parse);
    let version = (words.next().and_then(Result::ok), words.next().and_then(Result::ok));
    match version {
        (Some(major), Some(minor)) if asked.success && (major, minor) >= OLDEST => {}
        _ => return Err(setup("python3", NO_PYTHON, asked.details)),
    }
    let key = hex(&Sha256::digest(format!("{}\n{TOOLS}", asked.details))[..8]);
    cache::once(&format!("python/tools-{key}"), |dir| {
        report("setting up the tools for python actions: componentize-py, 45 MB from PyPI, once");
        let made = run(python(Path::new("python3")).args(["-m", "venv"]).arg(dir.join("venv")))?;
        if !made.success {
            return Err(setup("a python environment", NO_VENV, made.details));
        }
        let list = dir.join("toolchain.txt");
        at(&list, fs::write(&list, TOOLS))?;
        let mut install = pip(dir);
        install
            .args(["install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps", "-r"])
            .arg(&list);
        let got = run(&mut install)?;
        if !got.success {
            return Err(setup("the tools for python actions", NO_TOOLS, got.details));
        }
        Ok(())
    })
}

/// The packages that the action needs, chosen for the Python it runs on.
fn packages(
    tools: &Path,
    dir: &Path,
    project: &Project,
    report: &mut dyn FnMut(&str),
) -> Result<Option<PathBuf>, BuildError> {
    let text = match &project.requirements {
        Requirements::Listed(listed) if listed.is_empty() => return Ok(None),
        Requirements::Listed(listed) => listed.join("\n"),
        Requirements::File(path) => at(path, fs::read_to_string(path))?,
    };
    // A file may name others beside it, so the same text elsewhere may mean something else.
    let key = hex(&Sha256::digest(format!("{}\n{GUEST_PYTHON}\n{text}", dir.display()))[..8]);
    let made = cache::once(&format!("python/packages-{key}"), |made| {
        report(&format!("getting the packages that {} needs", project.name));
        let mut install = pip(tools);
        install.current_dir(dir).args(["install", "--quiet", "--no-compile", "--only-binary", ":all:"]);
        install.args(["--platform", "any", "--implementation", "py", "--python-version", GUEST_PYTHON]);
        install.arg("--target").arg(made.join("packages"));
        match &project.requirements {
            Requirements::File(path) => install.arg("-r").arg(path),
            Requirements::Listed(listed) => install.arg("--").args(listed),
        };
        let got = run(&mut install)?;
        if !got.success {
            return Err(setup("the packages of the action", NO_PACKAGES, got.details));
        }
        Ok(())
    })?;
    Ok(Some(made.join("packages")))
}

fn pip(tools: &Path) -> Command {
    let mut command = python(&tools.join("venv/bin/python"));
    command.args(["-m", "pip"]);
    command
}

fn run(command: &mut Command) -> Result<tool::Ended, BuildError> {
    tool::run(command).map_err(no_python)
}

fn setup(what: &'static str, hint: &'static str, details: String) -> BuildError {
    BuildError::Setup { what, hint, details: details.trim_end().to_owned() }
}

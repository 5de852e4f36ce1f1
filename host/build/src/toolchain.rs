//! Finds a Rust compiler for guests, or installs one, with the script that ships with the Rust SDK.
//!
//! The script is embedded in this program, so that actions can be built without a checkout of the
//! project.

use strata_base::process::children::spawn_build;

use super::BuildError;
use super::tool::CallerEnvironment;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The target that guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

const SCRIPT: &str = include_str!("../../../guest-sdk/rust/toolchain.sh");

/// The compiler for guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The compiler that cargo uses by default.
    Default,
    /// The compiler at this path.
    At(PathBuf),
}

/// Returns the compiler that is already installed, if there is one.
pub fn find_installed() -> Option<Toolchain> {
    let mut command = CallerEnvironment::default().command("sh");
    let looked = command
        .args(["-c", SCRIPT])
        .env("STRATA_WASM_MODE", "look")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let path = String::from_utf8_lossy(&looked.stdout).trim().to_owned();
    looked.status.success().then(|| {
        if path.is_empty() {
            Toolchain::Default
        } else {
            Toolchain::At(path.into())
        }
    })
}

/// Finds the compiler for the package in `dir`, and installs one if necessary. The progress of an
/// installation is reported line by line.
pub fn find_or_install(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Toolchain, BuildError> {
    let no_shell = |source| BuildError::Program {
        program: "sh",
        hint: "a posix shell finds the compiler for guests",
        source,
    };
    let mut command = CallerEnvironment::default().command("sh");
    command
        .args(["-c", SCRIPT])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = spawn_build(&mut command).map_err(no_shell)?;
    let mut details = String::new();
    if let Some(pipe) = child.stderr.take() {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            report(&line);
            details.push_str(&line);
            details.push('\n');
        }
    }
    let mut found = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut found).map_err(no_shell)?;
    }
    let status = child.wait().map_err(no_shell)?;
    match (status.success(), found.trim()) {
        (false, _) => Err(BuildError::NoToolchain { details }),
        (true, "") => Ok(Toolchain::Default),
        (true, path) => Ok(Toolchain::At(path.into())),
    }
}

//! Finds other versions of this program in the path, such as one of pip beside one of npm. Which of them a command starts
//! depends on the order of the path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use strata_base::files::installation::VERSION;

/// The name under which the program is installed.
const PROGRAM: &str = "strata-host";

/// A program of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProgram {
    /// Its path, without links.
    pub path: PathBuf,
    /// What it says its version is.
    pub version: String,
}

/// Returns the programs of other versions to which `PATH` leads, in its order.
pub fn other_programs() -> Vec<OtherProgram> {
    let own = std::env::current_exe().and_then(|own| own.canonicalize());
    let own = own.unwrap_or_default();
    let mut others: Vec<OtherProgram> = Vec::new();
    for directory in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        let Ok(path) = directory.join(PROGRAM).canonicalize() else {
            continue;
        };
        if path != own
            && !others.iter().any(|other| other.path == path)
            && let Some(version) = other_version(&path)
        {
            others.push(OtherProgram { path, version });
        }
    }
    others
}

/// Returns the version of a program, if it says that it is this one in another version.
fn other_version(program: &Path) -> Option<String> {
    let output = Command::new(program)
        .arg("-V")
        .stdin(Stdio::null())
        .output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let version = text.trim().strip_prefix(PROGRAM)?.trim().to_owned();
    (version != VERSION).then_some(version)
}

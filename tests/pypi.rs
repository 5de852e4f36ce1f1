//! Programs that others wrote, from PyPI: each in an environment of its own, which is made once for all
//! tests. Where there is no Python or no registry, the tests that need them are skipped, and say so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::skipped::skip;

/// Environments are made one after the other.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Returns the directory of an environment with a package, or says why the test is skipped. `check` is a
/// line of Python that fails if the package is not installed.
pub fn environment_with(package: &str, check: &str) -> Option<PathBuf> {
    let _alone = INSTALLING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match install(package, check) {
        Ok(place) => Some(place),
        Err(why) => {
            skip(format_args!(
                "`{package}` cannot be installed from PyPI: {why}"
            ));
            None
        }
    }
}

fn install(package: &str, check: &str) -> Result<PathBuf, String> {
    let name = format!("pypi-{package}");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = place.join("bin/python");
    let has_package = || run(Command::new(&python).args(["-c", check]));
    if has_package().is_err() {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&place))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
        has_package()?;
    }
    Ok(place)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(())
}

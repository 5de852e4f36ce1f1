//! The component of the probe, which is built once for all tests.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static PROBE: LazyLock<PathBuf> = LazyLock::new(|| build("plugins/probe"));

/// Returns the path of the probe's component.
pub fn component() -> &'static Path {
    &PROBE
}

/// Builds the action in a directory of the project, and returns the path of its component.
pub fn build(dir: &str) -> PathBuf {
    let built = strata_host::build::build(&project().join(dir), &mut |line| eprintln!("{line}"));
    built.unwrap_or_else(|error| panic!("{error}")).component
}

/// Returns the root of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie in the project")
}

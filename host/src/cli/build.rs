//! `build`: builds the source in a directory into a component. Only the component's path is written
//! to stdout.

use std::path::Path;

use super::progress::Progress;
use super::{Failure, print};

pub(super) fn build(dir: &Path) -> Result<u8, Failure> {
    let mut progress = Progress::begin();
    let built = crate::build::build(dir, &mut |line| progress.note(line));
    drop(progress);
    let built = built.map_err(|error| Failure::usage(error.to_string()))?;
    print(&built.component.display().to_string());
    Ok(0)
}

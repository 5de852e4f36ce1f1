//! `events`: what was recorded, told again from the beginning.

use std::path::Path;

use super::{Failure, note, print};
use crate::launch::Telling;
use crate::store::StoreError;

pub(super) fn events(at: &str, lineage: Option<&str>) -> Result<u8, Failure> {
    let mut telling = match lineage {
        Some(_) => Telling::of(Path::new(at), lineage)?,
        None => Telling::at(at)?,
    };
    let (dropped, all) = telling.dropped()?;
    if dropped > 0 {
        note(format_args!("{dropped} of {all} recorded events were pruned and are not told"));
    }
    while let Some(lines) = telling.more()? {
        lines.iter().for_each(|line| print(&line.to_json()));
    }
    Ok(0)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Locked { .. } => 9,
            StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Database { .. } => 1,
            StoreError::Permission { .. } | StoreError::Corrupt { .. } => 1,
            _ => 2,
        };
        Self { code, message: error.to_string() }
    }
}

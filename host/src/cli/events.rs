//! `events`: what was recorded, told again from the beginning.

use std::path::Path;

use super::{Failure, note, show_json};
use crate::launch::Telling;

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
        lines.iter().for_each(|line| show_json(&line.to_json()));
    }
    Ok(0)
}

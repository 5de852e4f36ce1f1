//! Answers of people, given to a team: to the process which runs it, else to what is saved, to be taken up when the
//! team is resumed.

use std::path::Path;

use super::resume::Opened;
use super::{LaunchError, control};
use crate::driver::{Answered, Given};
use crate::manifest::Overrides;
use crate::store::StoreError;

/// Records answers for a team, durably: all of them, or none.
pub fn answer(path: &Path, given: &[Given]) -> Result<Vec<Answered>, LaunchError> {
    let opened = match Opened::open(path, None, &Overrides::default()) {
        Ok(opened) => opened,
        Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => {
            return control::answer(path, given).unwrap_or(Err(in_use.into()));
        }
        Err(error) => return Err(error),
    };
    // Before a `team.json` alone is given a database.
    opened.judge(given)?;
    let (mut journal, _) = opened.journal()?;
    let answered = journal.reply(given)?;
    journal.save()?;
    Ok(answered)
}

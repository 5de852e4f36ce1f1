//! Answers of people, given to a team: to the process which runs it, else to what is saved, to be taken up when the
//! team is resumed.

use std::path::Path;

use super::reach::reach;
use super::resume::Opened;
use super::{LaunchError, control};
use crate::driver::{Answered, Given};

/// Records answers for a team, durably: all of them, or none.
pub fn answer(path: &Path, given: &[Given]) -> Result<Vec<Answered>, LaunchError> {
    let record = |opened: Opened| {
        // Before a `team.json` alone is given a database.
        opened.judge(given)?;
        let (mut journal, _) = opened.journal()?;
        let answered = journal.reply(given)?;
        journal.save()?;
        Ok(answered)
    };
    reach(path, record, || control::answer(path, given))
}

//! Answers of people, given to a team: to the process which runs it, else to what is saved, to be taken up when the
//! team is resumed.

use std::path::Path;

use super::reach::reach;
use super::resume::Opened;
use super::{LaunchError, control};
use crate::driver::{Answered, Given};

/// Answers that were taken.
#[derive(Debug)]
pub struct Taken {
    /// What they answer, in the order in which they were given.
    pub answers: Vec<Answered>,
    /// Who took them.
    pub taker: Taker,
}

/// Who takes answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// What is saved: a resume goes on with them.
    Saved,
    /// The process that runs the team, which goes on by itself.
    Process,
}

/// Records answers for a team, durably: all of them, or none.
///
/// # Errors
/// Fails if one of them answers nothing that is asked, or not as it was asked; if nothing is saved there, or it cannot be
/// read or written; or if a process that runs the team cannot be reached.
pub fn answer(path: &Path, given: &[Given]) -> Result<Taken, LaunchError> {
    let record = |opened: Opened| {
        // Before a `team.json` alone is given a database.
        opened.judge(given)?;
        let (mut journal, _) = opened.journal(None)?;
        let answers = journal.reply(given)?;
        journal.save_if_possible();
        Ok(Taken {
            answers,
            taker: Taker::Saved,
        })
    };
    let taken = |answers| Taken {
        answers,
        taker: Taker::Process,
    };
    reach(path, record, || control::answer(path, given).map(taken))
}

//! Operations on a saved team that work whoever owns it: answers and messages from outside. They
//! are sent to the process that runs the team, or else recorded in what is saved, to be handled
//! when the team is resumed.

use std::path::Path;
use std::time::Duration;

use strata_core::message::Message;

use super::control::Reached;
use super::resume::Opened;
use super::{LaunchError, control};
use crate::driver::{Answered, Given, Sent};
use crate::shell::path_word;
use crate::store::StoreError;

/// The number of attempts if the team changes its owner in between.
const TRIES: u32 = 10;
/// The number of times that a process may own the storage without listening. It may be about to
/// release the storage.
const UNREACHABLE: u32 = 4;
/// The delay after the first attempt. It grows linearly: twice that after the second, and so on.
const PAUSE: Duration = Duration::from_millis(20);

/// Answers that were accepted.
#[derive(Debug)]
pub struct Taken {
    /// The requests that they answer, in the order in which they were given.
    pub answers: Vec<Answered>,
    /// Where the answers went.
    pub taker: Taker,
}

/// Where answers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Into the storage. A resume uses them.
    Saved,
    /// To the process that runs the team, which continues by itself.
    Process,
}

/// Durably records answers for a team: all of them, or none.
///
/// # Errors
/// Fails if one of them answers no open request, or is not valid for its request; if nothing is
/// saved there, or it cannot be read or written; or if a process that runs the team cannot be
/// reached.
pub fn answer(path: &Path, given: &[Given]) -> Result<Taken, LaunchError> {
    let record = |opened: Opened| {
        // Checked before a `team.json` alone is converted to a database.
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

/// Durably puts a message into a team's mailboxes. Assigns its id.
pub fn send(path: &Path, message: Message) -> Result<Sent, LaunchError> {
    let put = |opened: Opened| {
        if !opened.has_begun() {
            let (place, path) = (path.display(), path_word(path));
            let what = format!("the run in `{place}` was killed before it began; resume it first");
            return Err(LaunchError::Missing(format!(
                "{what}: `strata-host run --recover_path {path}`"
            )));
        }
        let (mut journal, _) = opened.journal(None)?;
        let sent = journal.take_in(message.clone())?;
        journal.flush()?;
        journal.save_if_possible();
        Ok(sent)
    };
    reach(path, put, || control::hand_over(path, &message))
}

/// Calls `ours` with the storage or, if another process owns that, `theirs`, which asks that
/// process.
fn reach<T>(
    path: &Path,
    ours: impl Fn(Opened) -> Result<T, LaunchError>,
    theirs: impl Fn() -> Reached<T>,
) -> Result<T, LaunchError> {
    let (mut tried, mut unreachable) = (1, 0);
    loop {
        let in_use = match Opened::at_rest(path) {
            Ok(opened) => match ours(opened) {
                // Another process converted the `team.json` to a database first.
                Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => in_use,
                done => return done,
            },
            Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => match theirs() {
                Reached::Told(told) => return told,
                Reached::Nobody => {
                    unreachable += 1;
                    in_use
                }
                Reached::Ended => in_use,
            },
            Err(error) => return Err(error),
        };
        if tried == TRIES || unreachable == UNREACHABLE {
            return Err(in_use.into());
        }
        std::thread::sleep(PAUSE * tried);
        tried += 1;
    }
}

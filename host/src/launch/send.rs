//! A message from outside, put into a team's environment: into that of the process which runs it, else into what is
//! saved, to be handled when the team is resumed.

use std::path::Path;

use strata_core::message::Message;

use super::reach::reach;
use super::resume::Opened;
use super::{LaunchError, control};
use crate::driver::Sent;
use crate::shell::path_word;

/// Puts a message into a team's mailboxes, durably. Its id is given here.
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

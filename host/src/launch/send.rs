//! A message from outside, put into a saved team's environment. The team handles it when it is resumed.

use std::path::Path;

use strata_core::message::Message;

use super::resume::Opened;
use super::{LaunchError, save};
use crate::driver::OnLine;
use crate::manifest::Overrides;

/// Puts a message into a saved team's mailboxes, durably. Its id is given here.
pub fn send(path: &Path, message: Message, on_line: OnLine) -> Result<(), LaunchError> {
    let opened = Opened::open(path, None, &Overrides::default())?;
    if !opened.has_begun() {
        let path = path.display();
        let what = format!("the run in `{path}` was killed before it began; go on with it first");
        return Err(LaunchError::Missing(format!("{what}: `run --recover_path {path}`")));
    }
    let (journal, _, definition) = opened.journal()?;
    let mut journal = journal.on_line(on_line);
    let event = journal.stepper().sent(message);
    journal.stage(event)?;
    journal.flush()?;
    Ok(save(&mut journal, &definition)?)
}

//! Operations on a saved team that work whoever owns it: answers and messages from outside. They
//! are sent to the process that runs the team, or else recorded in what is saved, to be handled
//! when the team is resumed.

use std::path::PathBuf;
use std::time::Duration;

use strata_base::advice::Advice;
use strata_base::clock::stopwatch;
use strata_base::files::blob::Blobs;
use strata_base::process::wait::wait;
use strata_base::random_id::random_id;
use strata_core::record::message::Message;
use strata_core::state::environment::Environment;
use strata_driver::{AnsweredRequest, DriverError, Halt, HumanReply, Journal, SendReceipt};
use strata_storage::{RunSchedule, StorageLocation, StoreError, has_ended};

use super::attached_files::{AttachedFiles, NamedFile};
use super::control::ControlOutcome;
use super::opened_team::OpenedTeam;
use super::saved_team_file::mark_state_as_own;
use super::start::first_event;
use super::{Author, LaunchError, control};
use crate::bundle::is_saved_base;

/// How long an operation is tried again if the team changes its owner in between, or if its owner does not listen: it
/// may be loading the components of the team, or about to release the storage.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The shortest delay before it is tried again, and by how many milliseconds it may be longer. It is random, so that of
/// several processes that try, each has its turn.
const MIN_DELAY: Duration = Duration::from_millis(10);
const MAX_MORE_MS: u128 = 60;

/// Answers that were accepted.
#[derive(Debug)]
pub struct AcceptedAnswers {
    /// The requests that they answer, in the order in which they were given.
    pub answers: Vec<AnsweredRequest>,
    /// Where the answers went.
    pub recipient: AnswerRecipient,
}

/// Where answers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRecipient {
    /// Into the storage. A resume uses them.
    Storage,
    /// To the process that runs the team, which continues by itself.
    Process,
}

/// Durably records answers for a team: all of them, or none.
///
/// # Errors
/// Fails if one of them answers no open request, or is not valid for its request; if nothing is
/// saved there, or it cannot be read or written; or if a process that runs the team cannot be
/// reached.
pub fn answer(
    location: &StorageLocation,
    replies: &[HumanReply],
) -> Result<AcceptedAnswers, LaunchError> {
    let record = |opened: OpenedTeam| {
        // Checked before a `team.json` alone is converted to a database.
        opened.check_answers(replies)?;
        let (mut journal, _) = opened.into_journal()?;
        let answers = wait(journal.record_replies(replies))?;
        journal.save_if_possible();
        mark_state_as_own(location);
        location.request_work()?;
        Ok(AcceptedAnswers {
            answers,
            recipient: AnswerRecipient::Storage,
        })
    };
    via_owner(location, record, || {
        control::send_answers(location, replies).map(|answers| AcceptedAnswers {
            answers,
            recipient: AnswerRecipient::Process,
        })
    })
}

/// Durably puts a message into a team's mailboxes, with these files as images and files of it.
/// Assigns its id. A submitted run that nobody has taken yet begins with it, without being run.
///
/// # Errors
/// Fails if a file cannot be read, is not what its name says or is too large; if nothing is saved
/// there, it cannot be read or written, or it was killed before it began; or if a process that runs
/// the team cannot be reached.
pub fn send(
    location: &StorageLocation,
    message: Message,
    files: &[PathBuf],
) -> Result<SendReceipt, LaunchError> {
    send_attached(location, message, AttachedFiles::read(files)?)
}

/// Puts a message into a team's mailboxes, as `send` does, with files that were read already.
///
/// # Errors
/// Fails in the same cases, except that no file is read.
pub fn send_with_files(
    location: &StorageLocation,
    message: Message,
    files: Vec<NamedFile>,
) -> Result<SendReceipt, LaunchError> {
    send_attached(location, message, AttachedFiles::from_named(files)?)
}

fn send_attached(
    location: &StorageLocation,
    mut message: Message,
    files: AttachedFiles,
) -> Result<SendReceipt, LaunchError> {
    message.parts.extend(files.parts);
    send_decoded(location, &message, &files.blobs)
}

/// Puts a message into a team's mailboxes, with the bytes of its images and files.
pub(super) fn send_decoded(
    location: &StorageLocation,
    message: &Message,
    files: &Blobs,
) -> Result<SendReceipt, LaunchError> {
    let put = |opened: OpenedTeam| {
        let has_begun = opened.has_begun();
        let is_submitted = is_saved_base(&opened.definition.source.base);
        if !has_begun && !is_submitted {
            return Err(LaunchError::Unsuitable {
                message: format!("the run in `{location}` was killed before it began"),
                advice: Advice::ResumeFirst {
                    storage: location.path().to_owned(),
                },
            });
        }
        let (mut journal, _) = opened.into_journal()?;
        if !has_begun {
            // The message follows the idea. Whoever takes the run continues it.
            begin(&mut journal, location)?;
        }
        let room = journal.stepper().check_room_for(message);
        room.map_err(|full| LaunchError::InvalidInput(full.message))?;
        let sent = journal.publish_external_with_files(message.clone(), files.clone())?;
        journal.flush_blocking()?;
        journal.save_if_possible();
        mark_state_as_own(location);
        location.request_work()?;
        Ok(sent)
    };
    via_owner(location, put, || {
        control::send_message(location, message, files)
    })
}

/// Ends a run for good or for a while, wherever it runs. One that does not run, or has not begun, gets
/// the status without being continued.
///
/// # Errors
/// Fails if the team is done.
pub fn halt(location: &StorageLocation, halt: Halt) -> Result<(), LaunchError> {
    halt_by(location, halt, None)
}

/// Ends a run as `halt` does, and records who says so.
///
/// # Errors
/// Fails if the team is done.
pub fn halt_by(
    location: &StorageLocation,
    halt: Halt,
    by: Option<&Author>,
) -> Result<(), LaunchError> {
    let end = |opened: OpenedTeam| {
        require_haltable(opened.stepper.env(), halt)?;
        let has_begun = opened.has_begun();
        let (mut journal, _) = opened.into_journal()?;
        // Only a run that is going on can end.
        if has_begun {
            journal.resume()?
        } else {
            begin(&mut journal, location)?
        }
        let ended = journal.stepper().run_ended_event(halt.status());
        journal.stage(ended.with_author(by.cloned().map(String::from)))?;
        journal.flush_blocking()?;
        journal.save_if_possible();
        mark_state_as_own(location);
        journal.store().set_schedule(RunSchedule::OnRequest)?;
        Ok(())
    };
    via_owner(location, end, || control::send_halt(location, halt, by))
}

/// Fails if there is nothing to end or to suspend.
fn require_haltable(env: &Environment, halt: Halt) -> Result<(), LaunchError> {
    let refuse = |text: String| Err(LaunchError::InvalidInput(text));
    match halt {
        Halt::Cancel if env.is_finished() => {
            refuse("the team is done, so there is nothing to end".into())
        }
        Halt::Pause if env.is_finished() => {
            refuse("the team is done, so there is nothing to suspend".into())
        }
        // Suspending it would replace what it ended with.
        Halt::Pause if has_ended(env.status) => refuse(format!(
            "the run has ended ({}), so there is nothing to suspend",
            env.status.name()
        )),
        Halt::Cancel | Halt::Pause => Ok(()),
    }
}

/// Stages the beginning of a run that was submitted, or killed, before it began. Its team is not run, so
/// its components are those with which it was submitted; if none are known, whoever continues it notes
/// them.
fn begin(journal: &mut Journal, location: &StorageLocation) -> Result<(), DriverError> {
    let components = journal.env().components.clone();
    let started = first_event(journal.stepper(), location, components);
    journal.stage(started)
}

/// Calls `ours` with the storage or, if another process owns that, `theirs`, which asks that
/// process.
pub(super) fn via_owner<T>(
    location: &StorageLocation,
    ours: impl Fn(OpenedTeam) -> Result<T, LaunchError>,
    theirs: impl Fn() -> ControlOutcome<T>,
) -> Result<T, LaunchError> {
    let start = stopwatch();
    loop {
        let in_use = match OpenedTeam::open_without_running(location) {
            Ok(opened) => match ours(opened) {
                // Another process converted the `team.json` to a database first.
                Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => in_use,
                done => return done,
            },
            Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => match theirs() {
                ControlOutcome::Answered(result) => return result,
                ControlOutcome::Nobody | ControlOutcome::Ended => in_use,
            },
            Err(error) => return Err(error),
        };
        if start.elapsed() >= MAX_WAIT {
            return Err(in_use.into());
        }
        let more_ms = (random_id() % MAX_MORE_MS) as u64;
        std::thread::sleep(MIN_DELAY + Duration::from_millis(more_ms));
    }
}

//! The failure of a command: maps each error to its exit code and its message.

use std::fmt::Display;
use std::path::Path;

use strata_core::record::event::Status;
use strata_host::Advice;
use strata_host::driver::DriverError;
use strata_host::launch::{LaunchError, UnrecognizedReason};
use strata_host::manifest::{Diagnostics, similar_path};
use strata_host::skills::SkillError;
use strata_host::storage::StoreError;

use super::advice::describe_advice;
use super::printer::{FAILURE, Printer};
use super::shell_path;

/// The exit code if another process holds the storage.
const IN_USE: u8 = 9;
/// The exit code if the database lost what it had acknowledged.
const LOST: u8 = 11;

/// The reason why a command failed, with its exit code.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(super) code: u8,
    message: FailureMessage,
}

/// What is wrong.
#[derive(Debug)]
enum FailureMessage {
    Text(String),
    /// Problems of a file, which are shown with their locations.
    Problems(Diagnostics),
}

impl CommandFailure {
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: FailureMessage::Text(message.into()),
        }
    }

    /// The command line or a file is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    /// The machine or this program failed.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(1, message)
    }

    /// The saved state does not fit the team.
    pub(super) fn incompatible(message: impl Into<String>) -> Self {
        Self::new(8, message)
    }

    /// Somebody else does something with the run at the same time, or its state does not allow it.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::in_use(message)
    }

    /// Another process holds the storage.
    fn in_use(message: impl Into<String>) -> Self {
        Self::new(IN_USE, message)
    }

    /// Stdout could not be written.
    pub(super) fn stdout_error(error: std::io::Error) -> Self {
        Self::internal(format!("cannot write to stdout: {error}"))
    }

    /// Adds what was attempted to the message. Problems of a file say that themselves.
    pub(super) fn within(self, attempt: impl Display) -> Self {
        match self.message {
            FailureMessage::Text(text) => Self::new(self.code, format!("{attempt}: {text}")),
            FailureMessage::Problems(_) => self,
        }
    }

    /// Adds what the user can do about it to the message. Problems of a file have their own hints.
    pub(super) fn advised(self, advice: Option<Advice>) -> Self {
        match (self.message, advice) {
            (FailureMessage::Text(text), Some(advice)) => {
                Self::new(self.code, format!("{text}; {}", describe_advice(&advice)))
            }
            (message, _) => Self { message, ..self },
        }
    }

    /// Returns the problems of a file, if that is what is wrong.
    pub(super) fn problems(&self) -> Option<&Diagnostics> {
        match &self.message {
            FailureMessage::Problems(problems) => Some(problems),
            FailureMessage::Text(_) => None,
        }
    }

    /// Returns what is wrong as a text on its own.
    pub(super) fn to_text(&self) -> String {
        match &self.message {
            FailureMessage::Text(text) => text.trim_end().to_owned(),
            FailureMessage::Problems(problems) => problems.to_string(),
        }
    }

    /// Writes it to stderr.
    pub(super) fn print(&self, printer: &Printer) {
        match &self.message {
            FailureMessage::Text(text) => {
                let head = printer.styled(FAILURE, "error:");
                printer.note(format_args!("{head} {}", text.trim_end()));
            }
            FailureMessage::Problems(problems) => printer.note(printer.render(problems).trim_end()),
        }
    }
}

impl From<Diagnostics> for CommandFailure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self {
            code: 2,
            message: FailureMessage::Problems(diagnostics),
        }
    }
}

impl From<SkillError> for CommandFailure {
    fn from(error: SkillError) -> Self {
        let failure = match error {
            SkillError::File { .. } => Self::internal(error.to_string()),
            _ => Self::usage(error.to_string()),
        };
        failure.advised(error.advice())
    }
}

impl From<DriverError> for CommandFailure {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Store(error) => error.into(),
            DriverError::Illegal(error) => Self::internal(error.to_string()),
            DriverError::Closed => Self::internal(error.to_string()),
            DriverError::Files(error) => Self::internal(error.to_string()),
        }
    }
}

impl From<LaunchError> for CommandFailure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Store(error) => error.into(),
            LaunchError::Driver(error) => error.into(),
            LaunchError::Definition(diagnostics) => diagnostics.into(),
            LaunchError::Unrecognized(refused) => {
                let path = shell_path(&refused.path);
                let trusted = match refused.why {
                    UnrecognizedReason::OtherTeamFile => "whoever changed the saved one".to_owned(),
                    _ => format!("whoever wrote `{}`", refused.path.display()),
                };
                Self::usage(format!(
                    "{refused}. Name a team file of your own: `strata-host run TEAM.toml --recover_path {path}`; or, if you \
                     trust {trusted}, add `--trust`"
                ))
            }
            LaunchError::Mismatch(_) => Self::incompatible(error.to_string()),
            LaunchError::Unconfirmed(_) => Self::in_use(error.to_string()),
            LaunchError::Sandbox(_) | LaunchError::Http(_) | LaunchError::Place(_) => {
                Self::internal(error.to_string())
            }
            _ => Self::usage(error.to_string()).advised(error.advice()),
        }
    }
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Locked { .. } | StoreError::Fenced { .. } => IN_USE,
            StoreError::Lost { .. } | StoreError::Restored { .. } => LOST,
            error if error.is_of_path() => 2,
            StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Database { .. } => 1,
            StoreError::Permission { .. } | StoreError::Corrupt { .. } => 1,
            StoreError::Unreachable { .. } | StoreError::RolledBack { .. } => 1,
            StoreError::WriteFailed { .. } | StoreError::Displaced { .. } => 1,
            _ => 2,
        };
        let hint = match &error {
            StoreError::Absent { path } => {
                no_position_hint(path).or_else(|| similar_directory_hint(path))
            }
            _ => None,
        };
        Self::new(code, format!("{error}{}", hint.unwrap_or_default())).advised(error.advice())
    }
}

/// Returns a hint for `PATH@ID` in a command that does not accept it, if `PATH` exists.
fn no_position_hint(path: &Path) -> Option<String> {
    let (team, _) = path.to_str()?.rsplit_once('@')?;
    Path::new(team)
        .exists()
        .then(|| format!("; `{team}` is there, and this command takes no `@` with an id behind it"))
}

/// Returns a hint that names a directory with a similar name.
fn similar_directory_hint(path: &Path) -> Option<String> {
    similar_path(path)
        .filter(|near| near.is_dir())
        .map(|near| format!("; did you mean `{}`?", near.display()))
}

/// Returns the exit code of a run that ended with this status.
pub(super) fn exit_code(status: Status) -> u8 {
    match status {
        Status::Done => 0,
        Status::Running => 1,
        Status::Failed => 3,
        Status::Waiting => 4,
        Status::OutOfBudget => 5,
        Status::Stalled => 6,
        Status::StepLimit => 7,
        Status::InDoubt => 10,
        Status::Cancelled => 12,
        // A run that is suspended did not come to its end.
        Status::Interrupted | Status::Paused => 130,
    }
}

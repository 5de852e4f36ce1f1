//! Commands that a person is advised to run, as data. Quoting them for a shell, and shortening the
//! paths in them, is left to what renders them.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// The name of the program.
const PROGRAM: &str = "strata-host";

/// A command to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuggestedCommand {
    /// The program.
    pub program: String,
    /// Its arguments, beginning with the name of the subcommand.
    pub arguments: Vec<CommandArgument>,
    /// When to use the command, or what it does; in a shell, what follows a `#`.
    pub comment: Option<String>,
}

/// Arguments to add to a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuggestedArguments {
    /// The arguments.
    pub arguments: Vec<CommandArgument>,
    /// What the person has to choose or to change.
    pub comment: Option<String>,
}

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "kebab-case")]
pub enum CommandArgument {
    /// An argument to pass as it is.
    Word(String),
    /// A path to pass as it is, but not so that it is taken for an option.
    Path(#[serde(serialize_with = "super::serialize_path")] PathBuf),
    /// The absolute path of a team file. A relative path may be shown instead.
    TeamFile(#[serde(serialize_with = "super::serialize_path")] PathBuf),
    /// What the person has to fill in, for example `USD`. It is not quoted.
    Placeholder(String),
    /// An argument in which the person replaces the part in capitals, for example
    /// `ask-0-0-0-0=ANSWER`. It is always quoted, since what replaces the part may need it.
    Template(String),
    /// `NAME=VALUE`, where the person fills in the value.
    Assignment {
        /// The name, to pass as it is.
        name: String,
        /// What the person has to fill in.
        placeholder: String,
    },
}

impl SuggestedCommand {
    /// Returns a command of this program.
    pub fn from_subcommand(
        subcommand: &str,
        arguments: impl IntoIterator<Item = CommandArgument>,
    ) -> Self {
        let mut all = vec![CommandArgument::word(subcommand)];
        all.extend(arguments);
        Self {
            program: PROGRAM.into(),
            arguments: all,
            comment: None,
        }
    }

    /// Returns the command with more arguments.
    pub fn with(mut self, arguments: impl IntoIterator<Item = CommandArgument>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Returns the command with these arguments, and with their comment if they have one.
    pub fn with_suggested(self, more: SuggestedArguments) -> Self {
        let comment = more.comment.or(self.comment.clone());
        Self {
            comment,
            ..self.with(more.arguments)
        }
    }

    /// Returns the command with a comment.
    pub fn commented(self, comment: impl Into<String>) -> Self {
        Self {
            comment: Some(comment.into()),
            ..self
        }
    }
}

impl CommandArgument {
    /// Returns an argument to pass as it is.
    pub fn word(text: &str) -> Self {
        Self::Word(text.to_owned())
    }

    /// Returns what the person has to fill in.
    pub fn placeholder(text: &str) -> Self {
        Self::Placeholder(text.to_owned())
    }
}

/// Who continues a run, and so which command does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuation {
    /// A process of its operator, with `run --recover_path`.
    #[default]
    OwnProcess,
    /// Workers, once `resume` has asked them to.
    Workers,
    /// Workers, without being asked: now, or when a question was answered or its time is over.
    Itself,
}

/// How a run is continued that is saved somewhere.
#[derive(Clone, Copy, Debug)]
pub struct ResumeTarget<'a> {
    /// Where it is saved.
    pub path: &'a Path,
    /// The policy that was named for it, which a resume does not remember. Workers have their own.
    pub policy: Option<&'a Path>,
    /// Who continues it.
    pub continuation: Continuation,
}

impl ResumeTarget<'_> {
    /// Returns the command that continues the run, with this team file if there is one.
    pub fn command(self, team: Option<CommandArgument>) -> SuggestedCommand {
        let place = CommandArgument::Path(self.path.to_owned());
        match self.continuation {
            Continuation::OwnProcess => SuggestedCommand::from_subcommand("run", team)
                .with(resume_arguments(self.path, self.policy)),
            Continuation::Workers | Continuation::Itself => {
                SuggestedCommand::from_subcommand("resume", [place]).with(team)
            }
        }
    }
}

/// Returns the arguments that resume the team saved at `path`. They name `policy` again, since a
/// resume does not remember it.
pub fn resume_arguments(path: &Path, policy: Option<&Path>) -> Vec<CommandArgument> {
    let mut arguments = vec![
        CommandArgument::word("--recover_path"),
        CommandArgument::Path(path.to_owned()),
    ];
    if let Some(policy) = policy {
        arguments.push(CommandArgument::word("--policy"));
        arguments.push(CommandArgument::Path(policy.to_owned()));
    }
    arguments
}

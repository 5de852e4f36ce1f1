//! What a user can do about an error, as a value. A library's error says what is wrong and carries
//! the advice; which command carries it out is known to the program that shows the error.

use std::fmt;
use std::path::PathBuf;

/// What a user can do about an error. [`Display`](fmt::Display) names the remedy in words, without
/// a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advice {
    /// A core module is no component: build one from its source.
    BuildComponent,
    /// The component is no action: see how an action begins.
    SeeNewAction,
    /// The policy of this name allows no builds: name a built component, or allow builds there.
    BuildOrAllow {
        /// The name of the policy.
        policy: String,
    },
    /// Source cannot be signed: build its component and sign that.
    BuildAndSign,
    /// The component is not in the lock file of this team: add it, if it is meant.
    LockComponent {
        /// The team file.
        team_file: PathBuf,
    },
    /// The component is another than the locked one: put that back, or lock this one.
    RestoreOrLock {
        /// The team file.
        team_file: PathBuf,
    },
    /// The lock file cannot be read: correct it, or write it anew.
    RewriteLock,
    /// See which skills there are.
    ListSkills,
    /// Put a skill on the shelf.
    AddSkill,
    /// Put the components of damaged skills on the shelf again.
    AddSkillAgain,
    /// Another skill has this name and version: give the new one another version, or remove that one.
    ReplaceSkill {
        /// Its name and version.
        name: String,
    },
    /// The saved team has no team file: give one.
    GiveTeamFile {
        /// Where the team is saved.
        storage: PathBuf,
    },
    /// Use another team file for a saved team, which is near it.
    UseTeamFile {
        /// The team file.
        team_file: PathBuf,
        /// Where the team is saved.
        storage: PathBuf,
    },
    /// Resume the saved run before anything else.
    ResumeFirst {
        /// Where the run is saved.
        storage: PathBuf,
    },
    /// The storage holds an unfinished run: resume it, replace it, or save the new one elsewhere.
    ResumeOrReplace {
        /// Where the run is saved.
        storage: PathBuf,
    },
    /// Keep a fork in a place of its own.
    ChooseForkStorage,
    /// Give the run another name.
    ChooseRunName,
    /// The database is closed: name another one, or open it.
    OpenDatabase {
        /// Its URL.
        database: PathBuf,
    },
    /// The tables of a database are those of an earlier program: bring them to the version of this one.
    MigrateDatabase {
        /// Its URL.
        database: PathBuf,
    },
    /// A copy has the identity of its original: name one of the two, or give the copy its own.
    FenceDatabase {
        /// The URL of one of them.
        database: PathBuf,
    },
    /// A worker has the file of many runs open in which the run is: let it continue the run.
    ResumeThroughWorker {
        /// Where the run is saved.
        storage: PathBuf,
    },
    /// A worker has the file of many runs open: let it run the team.
    SubmitToWorker {
        /// The team file.
        team_file: PathBuf,
        /// The URL of the file.
        database: String,
        /// The name of the run.
        name: String,
    },
    /// The run has not ended: cancel it, and delete it then.
    ForceDeletion {
        /// Where the run is saved.
        storage: PathBuf,
    },
    /// Remove what is in the caches.
    CleanCaches,
    /// Save teams in another directory.
    ChooseStorage,
    /// Save teams in another directory, or make room in this one.
    ChooseStorageOrFreeSpace,
    /// A team is too large to be laid out: write a format that is laid out by another program.
    WriteDot,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::BuildComponent => "build a component of its source",
            Self::SeeNewAction => "see the template of an action",
            Self::BuildOrAllow { policy } => {
                return write!(
                    f,
                    "name a component that was built of it, or set `build = true` in `[allow]` of `{policy}`"
                );
            }
            Self::BuildAndSign => "build it, and sign the component",
            Self::LockComponent { .. } => "if it is meant, lock it",
            Self::RestoreOrLock { .. } => "put the locked one back, or, if it is meant, lock it",
            Self::RewriteLock => "put it right, or remove it and write it anew",
            Self::ListSkills => "see which skills there are",
            Self::AddSkill => "add its component to the shelf",
            Self::AddSkillAgain => "add their components to the shelf again",
            Self::ReplaceSkill { .. } => "give the new one another version, or remove the old one",
            Self::GiveTeamFile { .. } => "give it",
            Self::UseTeamFile { team_file, .. } => {
                return write!(f, "to go by `{}`, name it", team_file.display());
            }
            Self::ResumeFirst { .. } => "resume it first",
            Self::ResumeOrReplace { .. } => {
                "resume it, start anew in its place, or save this run elsewhere"
            }
            Self::ChooseForkStorage => "a fork is kept in a place of its own, name another",
            Self::ChooseRunName => "give this one another name",
            Self::OpenDatabase { .. } => "name another database, or open it",
            Self::MigrateDatabase { .. } => "bring its tables to the version of this program",
            Self::FenceDatabase { .. } => {
                "name one of them, or make the copy a database of its own"
            }
            Self::ResumeThroughWorker { .. } => "let its worker continue the run",
            Self::SubmitToWorker { .. } => "let its worker run the team",
            Self::ForceDeletion { .. } => "cancel it first",
            Self::CleanCaches => "they can be removed",
            Self::ChooseStorage => "choose another directory",
            Self::ChooseStorageOrFreeSpace => "choose another directory, or free some room",
            Self::WriteDot => "try the format dot",
        };
        f.write_str(text)
    }
}

/// How to correct a problem: a text that says all, or advice that a program can make a command of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A text for people.
    Text(String),
    /// Advice.
    Advice(Advice),
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Advice(advice) => advice.fmt(f),
        }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Advice> for Hint {
    fn from(advice: Advice) -> Self {
        Self::Advice(advice)
    }
}

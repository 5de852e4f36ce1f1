//! Advice as what to type: the commands and options that carry out what an error advises.

use std::path::Path;

use strata_host::Advice;
use strata_host::storage::RunDatabase;

use super::{shell_path, shell_word};

/// Returns the advice with the command that carries it out.
pub(super) fn describe_advice(advice: &Advice) -> String {
    match advice {
        Advice::BuildComponent => "`strata-host build` makes components".into(),
        Advice::SeeNewAction => "`strata-host new action` shows how an action begins".into(),
        Advice::BuildOrAllow { policy } => format!(
            "name a component that `strata-host build` made of it, or set `build = true` in `[allow]` of `{policy}`"
        ),
        Advice::BuildAndSign => "build it with `strata-host build`, and sign the component".into(),
        Advice::LockComponent { team_file } => {
            let team = shell_path(team_file);
            format!("if it is meant, lock it: `strata-host lock {team}`")
        }
        Advice::RestoreOrLock { team_file } => {
            let team = shell_path(team_file);
            format!(
                "put the locked one back, or, if it is meant, lock it: `strata-host lock {team}`"
            )
        }
        Advice::RewriteLock => {
            "put it right, or remove it and write it anew with `strata-host lock`".into()
        }
        Advice::ListSkills => "`strata-host shelf list` shows what there is".into(),
        Advice::AddSkill => "add one with `strata-host shelf add COMPONENT`".into(),
        Advice::AddSkillAgain => "`strata-host shelf add COMPONENT` mends them".into(),
        Advice::ReplaceSkill { name } => {
            let name = shell_word(name);
            format!(
                "give the new one another version, or remove the old one: `strata-host shelf remove {name}`"
            )
        }
        Advice::GiveTeamFile { storage }
        | Advice::UseTeamFile { storage, .. }
        | Advice::ResumeFirst { storage }
        | Advice::ResumeOrReplace { storage } => describe_resume(advice, &shell_path(storage)),
        Advice::ChooseForkStorage => {
            "a fork is kept in a place of its own, name another with `--to`".into()
        }
        Advice::ChooseRunName => "give this one another name with `--name`".into(),
        Advice::OpenDatabase { .. }
        | Advice::MigrateDatabase { .. }
        | Advice::FenceDatabase { .. }
        | Advice::SubmitToWorker { .. } => describe_database_advice(advice),
        Advice::ResumeThroughWorker { storage } => {
            let storage = shell_path(storage);
            format!("its worker continues the run: `strata-host resume {storage}`")
        }
        Advice::ForceDeletion { storage } => {
            let storage = shell_path(storage);
            format!("`strata-host delete {storage} --force` cancels it first")
        }
        Advice::CleanCaches => "`strata-host clean` removes them".into(),
        Advice::ChooseStorage => "choose another directory with `--storage`".into(),
        Advice::ChooseStorageOrFreeSpace => {
            "choose another directory with `--storage`, or free some room".into()
        }
        Advice::WriteDot => "try `--format dot`".into(),
    }
}

/// Returns advice about a database.
fn describe_database_advice(advice: &Advice) -> String {
    match advice {
        Advice::OpenDatabase { database } => {
            let database = database_word(database);
            format!("name another database, or open it with `strata-host database open {database}`")
        }
        Advice::MigrateDatabase { database } => {
            let database = database_word(database);
            format!(
                "bring its tables to the version of this program with `strata-host database migrate {database}`"
            )
        }
        Advice::FenceDatabase { database } => {
            let database = database_word(database);
            format!(
                "name one of them, or, if this is the copy, make it a database of its own with \
                 `strata-host database fence {database}`"
            )
        }
        Advice::SubmitToWorker {
            team_file,
            database,
            name,
        } => format!(
            "its worker runs the team: `strata-host submit {} --database {} --name {}`",
            shell_path(team_file),
            shell_word(database),
            shell_word(name)
        ),
        _ => advice.to_string(),
    }
}

/// Returns the URL of a database without the run that it may name, quoted for a shell.
fn database_word(url: &Path) -> String {
    let parsed = url.to_str().and_then(|url| RunDatabase::parse(url).ok());
    match parsed {
        Some(database) => shell_word(&database.to_string()),
        None => shell_path(url),
    }
}

/// Returns advice to resume what is saved in `storage`, which is quoted for a shell.
fn describe_resume(advice: &Advice, storage: &str) -> String {
    match advice {
        Advice::GiveTeamFile { .. } => {
            format!("give it: `strata-host run TEAM.toml --recover_path {storage}`")
        }
        Advice::UseTeamFile { team_file, .. } => format!(
            "to go by `{}`: `strata-host run {} --recover_path {storage}`",
            team_file.display(),
            shell_path(team_file)
        ),
        Advice::ResumeFirst { .. } => {
            format!("resume it first: `strata-host run --recover_path {storage}`")
        }
        _ => format!(
            "resume it with `strata-host run --recover_path {storage}`, start anew with `--force`, which moves it \
             aside, or save this run elsewhere with `--storage DIR`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_advice_can_be_copied_whatever_its_paths_are() {
        let check = |advice: Advice, expected: &str| {
            let text = describe_advice(&advice);
            assert!(text.contains(expected), "{text}");
        };
        let storage = || "the team's".into();
        check(
            Advice::ResumeOrReplace { storage: storage() },
            r"resume it with `strata-host run --recover_path 'the team'\''s'`, start anew with `--force`",
        );
        check(
            Advice::OpenDatabase {
                database: "postgres://host/teams?run=one&prepare=off".into(),
            },
            "`strata-host database open 'postgres://host/teams?prepare=off'`",
        );
        check(
            Advice::ForceDeletion { storage: storage() },
            r"`strata-host delete 'the team'\''s' --force` cancels it first",
        );
        check(
            Advice::ResumeFirst { storage: storage() },
            r"resume it first: `strata-host run --recover_path 'the team'\''s'`",
        );
        check(
            Advice::UseTeamFile {
                team_file: "a team.toml".into(),
                storage: "-s".into(),
            },
            "to go by `a team.toml`: `strata-host run 'a team.toml' --recover_path ./-s`",
        );
        check(
            Advice::LockComponent {
                team_file: "a b.toml".into(),
            },
            "`strata-host lock 'a b.toml'`",
        );
    }
}

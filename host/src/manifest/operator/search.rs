//! Finds the operators' policies that apply to a team that is started on this machine by this user.

use std::path::{Path, PathBuf};

use super::Operator;
use crate::manifest::Diagnostics;
use crate::user;

/// The policy for every user of this machine.
const OF_MACHINE: &str = "/etc/strata-host/policy.toml";
/// The policy of one user, relative to the user's configuration directory.
const OF_USER: &str = "strata-host/policy.toml";
/// The environment variable that names another policy.
const POLICY_VARIABLE: &str = "STRATA_POLICY";

/// Reads all policies that are in force: the machine's, the user's, the one named by
/// `$STRATA_POLICY`, and one that the caller names. All of them apply, so none can relax another.
///
/// The command line restricts every team by them. A program that embeds teams can do the same with
/// `Overrides::operators`; otherwise no policy applies to its teams.
///
/// # Errors
/// Fails if one of the files cannot be read or is not a valid policy.
pub fn in_force(named: Option<&Path>) -> Result<Vec<Operator>, Diagnostics> {
    let by_variable = of_variable().into_iter().map(|file| {
        // The path is not on the command line, so the message tells where it comes from.
        Operator::read(&file)
            .map_err(|problems| problems.remark(&format!("`${POLICY_VARIABLE}` names this policy")))
    });
    let usual = usual();
    let usual = usual.iter().map(|file| Operator::read(file));
    usual
        .chain(by_variable)
        .chain(named.map(Operator::read))
        .collect()
}

/// Returns the files of the policies that are in force.
pub fn files(named: Option<&Path>) -> Vec<PathBuf> {
    usual()
        .into_iter()
        .chain(of_variable())
        .chain(named.map(Path::to_owned))
        .collect()
}

fn of_variable() -> Option<PathBuf> {
    std::env::var_os(POLICY_VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Returns the policies of the machine and of the user, as far as they exist.
fn usual() -> Vec<PathBuf> {
    let usual = [
        Some(PathBuf::from(OF_MACHINE)),
        user::config().map(|config| config.join(OF_USER)),
    ];
    // A file that cannot be checked is kept: reading it fails with the reason, instead of ignoring
    // a policy.
    let there = |path: &PathBuf| {
        path.try_exists()
            .unwrap_or_else(|error| !user::is_absent(&error))
    };
    usual.into_iter().flatten().filter(there).collect()
}

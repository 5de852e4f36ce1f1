//! Which policies bind a team that is started here.

use std::path::{Path, PathBuf};

use super::Operator;
use crate::manifest::Diagnostics;
use crate::user;

/// The file that holds for everyone on this machine.
const OF_MACHINE: &str = "/etc/strata-host/policy.toml";
/// The same for one user, below the directory of configuration.
const OF_USER: &str = "strata-host/policy.toml";
/// The variable that names one more.
const VARIABLE: &str = "STRATA_POLICY";

/// Reads all policies that are in force here: the machine's, the user's, that of `$STRATA_POLICY`, and one that the caller
/// names. All of them hold, so that none can widen another.
///
/// The command line binds every team by them. A program that embeds teams does what it means to: these, as
/// `Overrides::operators`, bind its teams in the same way; without them no policy does.
///
/// # Errors
/// Fails if one of the files cannot be read, or is no policy.
pub fn in_force(named: Option<&Path>) -> Result<Vec<Operator>, Diagnostics> {
    let by_variable = of_variable().into_iter().map(|file| {
        // Nothing on the command line says where it comes from.
        Operator::read(&file)
            .map_err(|problems| problems.remark(&format!("`${VARIABLE}` names this policy")))
    });
    let usual = usual();
    let usual = usual.iter().map(|file| Operator::read(file));
    usual
        .chain(by_variable)
        .chain(named.map(Operator::read))
        .collect()
}

/// The files of the policies that are in force here.
pub fn files(named: Option<&Path>) -> Vec<PathBuf> {
    usual()
        .into_iter()
        .chain(of_variable())
        .chain(named.map(Path::to_owned))
        .collect()
}

fn of_variable() -> Option<PathBuf> {
    std::env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Those of the machine and of the user.
fn usual() -> Vec<PathBuf> {
    let usual = [
        Some(PathBuf::from(OF_MACHINE)),
        user::config().map(|config| config.join(OF_USER)),
    ];
    // One that cannot be looked at may hold all the same: reading it says why.
    let there = |path: &PathBuf| {
        path.try_exists()
            .unwrap_or_else(|error| !user::is_absent(&error))
    };
    usual.into_iter().flatten().filter(there).collect()
}

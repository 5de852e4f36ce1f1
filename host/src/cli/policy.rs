//! Which policies bind a team that is started here: the machine's, the user's, and one that is named. All of them hold, so
//! that none can widen another.

use std::path::{Path, PathBuf};

use crate::manifest::Diagnostics;
use crate::manifest::operator::Operator;
use crate::user;

/// The file that holds for everyone on this machine.
const OF_MACHINE: &str = "/etc/strata-host/policy.toml";
/// The same for one user, below the directory of configuration.
const OF_USER: &str = "strata-host/policy.toml";
/// The variable that names one more where the command line does not.
const VARIABLE: &str = "STRATA_POLICY";

/// Reads all policies that hold here.
pub(super) fn find(named: Option<&Path>) -> Result<Vec<Operator>, Diagnostics> {
    let usual = [Some(PathBuf::from(OF_MACHINE)), user::config().map(|config| config.join(OF_USER))];
    // One that cannot be looked at may hold all the same: reading it says why.
    let there = |path: &PathBuf| path.try_exists().unwrap_or(true);
    let mut files: Vec<PathBuf> = usual.into_iter().flatten().filter(there).collect();
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    files.extend(named.map(Path::to_owned).or(variable));
    files.iter().map(|file| Operator::read(file)).collect()
}

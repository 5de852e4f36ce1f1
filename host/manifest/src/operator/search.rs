//! Finds the operators' policies that apply to a team that is started on this machine by this user.

use std::path::{Path, PathBuf};

use strata_base::files::user;
use strata_base::text::unexpanded_path::UnexpandedPath;

use super::OperatorPolicy;
use crate::{Diagnostic, Diagnostics};

/// The policy for every user of this machine.
const MACHINE_POLICY: &str = "/etc/strata-host/policy.toml";
/// The policy of one user, relative to the user's configuration directory.
const USER_POLICY: &str = "strata-host/policy.toml";
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
pub fn in_force(named: Option<&Path>) -> Result<Vec<OperatorPolicy>, Diagnostics> {
    let by_variable = policy_from_environment().into_iter().map(|file| {
        // The path is not on the command line, so the message tells where it comes from.
        read_expanded(&file).map_err(|problems| {
            problems.with_note(&format!("`${POLICY_VARIABLE}` names this policy"))
        })
    });
    let usual = default_policies();
    let usual = usual.iter().map(|file| OperatorPolicy::read(file));
    usual
        .chain(by_variable)
        .chain(named.map(OperatorPolicy::read))
        .collect()
}

/// Reads a policy. Fails if a shell would have replaced something in its path: not all programs that
/// set variables are shells.
fn read_expanded(file: &Path) -> Result<OperatorPolicy, Diagnostics> {
    match UnexpandedPath::find(&file.to_string_lossy()) {
        Some(unexpanded) => {
            let problem = Diagnostic::new(unexpanded.to_string());
            Err(problem.hint(unexpanded.hint()).into())
        }
        None => OperatorPolicy::read(file),
    }
}

/// Returns the files of the policies that are in force.
pub fn policy_files(named: Option<&Path>) -> Vec<PathBuf> {
    default_policies()
        .into_iter()
        .chain(policy_from_environment())
        .chain(named.map(Path::to_owned))
        .collect()
}

fn policy_from_environment() -> Option<PathBuf> {
    std::env::var_os(POLICY_VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Returns the policies of the machine and of the user, as far as they exist.
fn default_policies() -> Vec<PathBuf> {
    let usual = [
        Some(PathBuf::from(MACHINE_POLICY)),
        user::config_dir().map(|config| config.join(USER_POLICY)),
    ];
    // A file that cannot be checked is kept: reading it fails with the reason, instead of ignoring
    // a policy.
    let there = |path: &PathBuf| {
        path.try_exists()
            .unwrap_or_else(|error| !user::is_not_found(&error))
    };
    usual.into_iter().flatten().filter(there).collect()
}

//! Checks whether this machine has what teams need, and advises what to do where something is
//! missing. Nothing is created or repaired.
//!
//! The checks themselves are in the modules concerned: `build` for toolchains, `sandbox` for
//! compiled code, `skills` for skills, `store` for the disk. This module turns their results into
//! findings.

mod servers;

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use strata_base::advice::{Advice, Hint};
use strata_base::clock::now_ms;
use strata_base::files::caches::list_parts;
use strata_base::files::installation::{Installation, installation};
use strata_base::text::shell::shell_path;
use strata_base::text::units::format_bytes;
use strata_build::inventory::{ToolchainStatus, inventory, other_programs};
use strata_build::prebuilt::describe_installation;
use strata_sandbox::{Allocation, WasmSandbox};
use strata_storage::{
    DatabaseReport, DatabaseRights, FileReport, Intake, LockHolder, StorageLocation, measure_sync,
};

use strata_manifest::interface::host_interfaces;
use strata_manifest::skills::Shelf;

pub use servers::examine_servers;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check.
    pub about: &'static str,
    /// The severity.
    pub state: FindingState,
    /// What was found, in one line.
    pub found: String,
    /// What to do about it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_hint"
    )]
    pub advice: Option<Hint>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingState {
    /// Everything is in order.
    Good,
    /// Something is missing or wrong that only some teams need.
    Doubtful,
    /// No team can run.
    Bad,
}

impl Finding {
    fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self {
            about,
            state: FindingState::Good,
            found: found.into(),
            advice: None,
        }
    }

    fn doubtful(about: &'static str, found: impl Into<String>, advice: impl Into<Hint>) -> Self {
        Self {
            state: FindingState::Doubtful,
            advice: Some(advice.into()),
            ..Self::good(about, found)
        }
    }

    fn bad(about: &'static str, found: impl Into<String>, advice: impl Into<Hint>) -> Self {
        Self {
            state: FindingState::Bad,
            ..Self::doubtful(about, found, advice)
        }
    }
}

/// Serializes a hint as its text.
fn serialize_hint<S: Serializer>(hint: &Option<Hint>, serializer: S) -> Result<S::Ok, S::Error> {
    hint.as_ref().map(Hint::to_string).serialize(serializer)
}

/// Runs all checks. `storage` is the directory in which teams would be saved, and `database` the
/// URL of a database, if they would be saved in one.
pub fn examine(storage: &Path, database: Option<&StorageLocation>) -> Vec<Finding> {
    let version = env!("CARGO_PKG_VERSION");
    let mut findings = vec![Finding::good(
        "host",
        format!(
            "strata-host {version}, for actions of {}",
            host_interfaces::package_name()
        ),
    )];
    findings.push(check_installation());
    findings.extend(check_other_programs());
    findings.extend(check_sandbox());
    findings.extend(check_caches());
    findings.push(check_shelf());
    match database {
        Some(database) => findings.extend(check_database(database)),
        None => findings.push(check_disk(storage)),
    }
    findings.extend(inventory().into_iter().map(toolchain_finding));
    findings
}

/// What a finding about installed programs and files is about.
const INSTALLED: &str = "installed";

/// Says what is installed with the program.
fn check_installation() -> Finding {
    match describe_installation() {
        Ok(found) => Finding::good(INSTALLED, found),
        Err(problem) => {
            let advice = match installation() {
                Installation::Packaged { package, .. } => package.how_to_reinstall(),
                Installation::ProgramOnly | Installation::OtherVersions { .. } => {
                    "install this version as a whole; until then, interpreters of scripts are built at their first use"
                }
            };
            Finding::doubtful(INSTALLED, problem, advice)
        }
    }
}

/// Names the programs of other versions in the path, if there are any.
fn check_other_programs() -> Option<Finding> {
    let others: Vec<String> = other_programs()
        .iter()
        .map(|other| format!("`{}` is version {}", other.path.display(), other.version))
        .collect();
    let found = format!(
        "this program is version {}, and in the path {}",
        env!("CARGO_PKG_VERSION"),
        others.join(", ")
    );
    let advice = "remove the version that is not meant, or start this one by its whole path";
    (!others.is_empty()).then(|| Finding::doubtful(INSTALLED, found, advice))
}

fn check_sandbox() -> Vec<Finding> {
    let sandbox = match WasmSandbox::new() {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![Finding::bad("sandbox", error.reason(), error.advice())],
    };
    let room = match sandbox.allocation() {
        Allocation::Pool { attempts } => {
            let found = format!(
                "runs use a memory pool for {attempts} concurrent attempts, `check` and similar commands one for a single attempt"
            );
            Finding::good("sandbox", found)
        }
        Allocation::OnDemand => Finding::doubtful(
            "sandbox",
            "no room for a pool: each attempt gets its memory when it begins, which takes longer",
            "raise the limit of address space (`ulimit -v`), or of the container's memory",
        ),
    };
    vec![room, check_compile_cache(&sandbox)]
}

fn check_compile_cache(sandbox: &WasmSandbox) -> Finding {
    let health = sandbox.cache_health();
    let Some(place) = health.directory else {
        let advice = "set XDG_CACHE_HOME or HOME to a directory that only you can enter (mode 700)";
        return Finding::doubtful(
            "cache",
            "nothing is kept: there is no private directory for compiled code and interpreters, so each start takes longer",
            advice,
        );
    };
    let (place, word) = (place.display(), shell_path(&place));
    let foreign = match health.other_layout {
        0 => String::new(),
        some => format!(" ({some} of another build)"),
    };
    let found = format!(
        "{} compiled components{foreign}, {} in `{place}`",
        health.files,
        format_bytes(health.bytes)
    );
    if health.damaged > 0 {
        let found = format!("{found}, {} of them damaged", health.damaged);
        return Finding::doubtful(
            "cache",
            found,
            format!("they are compiled again when needed; or: `rm -r {word}`"),
        );
    }
    Finding::good("cache", found)
}

/// Returns the sizes of all caches, if there are any.
fn check_caches() -> Option<Finding> {
    let parts = list_parts();
    let all: u64 = parts.iter().map(|part| part.bytes).sum();
    let parts: Vec<String> = parts
        .iter()
        .filter(|part| part.bytes > 0)
        .map(|part| format!("{} {}", part.name, format_bytes(part.bytes)))
        .collect();
    let found = format!("{} in all ({})", format_bytes(all), parts.join(", "));
    (!parts.is_empty()).then(|| Finding {
        advice: Some(Advice::CleanCaches.into()),
        ..Finding::good("caches", found)
    })
}

fn check_shelf() -> Finding {
    let listed = Shelf::for_user().and_then(|shelf| shelf.list().map(|listing| (shelf, listing)));
    let (shelf, listing) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            return Finding::doubtful(
                "skills",
                error.to_string(),
                "choose another shelf with `STRATA_SHELF`",
            );
        }
    };
    let broken = listing
        .skills
        .iter()
        .filter_map(|skill| shelf.component(skill).err());
    let damaged: Vec<String> = listing
        .damaged
        .into_iter()
        .chain(broken)
        .map(|error| error.to_string())
        .collect();
    if !damaged.is_empty() {
        return Finding::doubtful("skills", damaged.join("; "), Advice::AddSkillAgain);
    }
    Finding::good(
        "skills",
        format!("{} in `{}`", listing.skills.len(), shelf.dir().display()),
    )
}

fn check_disk(storage: &Path) -> Finding {
    if let Some(error) = StorageLocation::new(storage).obstacle() {
        return Finding::bad("disk", error.to_string(), Advice::ChooseStorage);
    }
    let dir = existing_ancestor(storage);
    match measure_sync(&dir) {
        Ok(time) => {
            let (us, dir) = (time.as_micros(), dir.display());
            Finding::good(
                "disk",
                format!("a write is safe after {us} µs in `{dir}` (with `durability = \"full\"`)"),
            )
        }
        Err(error) => {
            let found = format!("cannot write to `{}`: {error}", dir.display());
            Finding::bad("disk", found, Advice::ChooseStorageOrFreeSpace)
        }
    }
}

/// What a finding about a database is about.
const DATABASE: &str = "database";

/// Examines a file of many runs.
fn check_file(location: &StorageLocation, report: &FileReport) -> Finding {
    let mut found = match report.runs {
        Some(runs) => format!("`{location}` has {runs} runs"),
        None => format!("`{location}` is not there; its first run creates it"),
    };
    if report.runs.is_some() {
        found += describe_intake(report.intake);
    }
    if let Some(incarnation) = &report.incarnation {
        found += &format!(", incarnation {incarnation}");
    }
    if let LockHolder::Process { pid } = report.holder {
        let process = pid.map_or_else(|| "a process".into(), |pid| format!("process {pid}"));
        found += &format!(", and {process} has it open");
    }
    found += describe_rights(Some(report.rights));
    match report.rights {
        DatabaseRights::Read => {
            let advice =
                "to run teams, give this user write access to the file and to its directory";
            Finding::bad(DATABASE, found, advice)
        }
        DatabaseRights::Run | DatabaseRights::Administer => Finding::good(DATABASE, found),
    }
}

fn describe_intake(intake: Intake) -> &'static str {
    match intake {
        Intake::Open => ", open for new runs",
        Intake::Closed => ", closed for new runs",
    }
}

fn check_database(location: &StorageLocation) -> Vec<Finding> {
    let examined = match location.examine_file() {
        Ok(Some(report)) => return vec![check_file(location, &report)],
        Ok(None) => location.examine_database(),
        Err(error) => Err(error),
    };
    match examined {
        Ok(Some(report)) => check_server(&report),
        Ok(None) => {
            let found = format!("`{location}` is no URL of a database");
            let advice = "write `postgres://HOST/DATABASE`, or `sqlite:PATH` for a file";
            vec![Finding::bad(DATABASE, found, advice)]
        }
        Err(error) => {
            let advice =
                "the message says what to do; the page \"Runs in a database\" describes the URL";
            vec![Finding::bad(DATABASE, error.to_string(), advice)]
        }
    }
}

/// Examines a server.
fn check_server(report: &DatabaseReport) -> Vec<Finding> {
    const ABOUT: &str = DATABASE;
    /// The oldest version that is tested.
    const MIN_VERSION: i64 = 14;
    /// After that time, an open transaction keeps the server from reusing space.
    const LONG_TRANSACTION_S: i64 = 600;
    let mut found = format!("PostgreSQL {}, {} runs", report.version, report.runs);
    if let Some(settings) = &report.settings {
        found += describe_intake(settings.intake);
        found += &format!(", incarnation {}", settings.incarnation);
    }
    found += describe_rights(report.rights);
    let mut findings = vec![if report.rights == Some(DatabaseRights::Read) {
        let advice = "to run teams: `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA strata` to this user";
        Finding::bad(ABOUT, found, advice)
    } else if report.version < MIN_VERSION {
        let advice = format!("use version {MIN_VERSION} or later");
        Finding::doubtful(ABOUT, found, advice)
    } else {
        Finding::good(ABOUT, found)
    }];
    let mut doubt = |is_bad: bool, found: &str, advice: &str| {
        findings.push(if is_bad {
            Finding::bad(ABOUT, found, advice)
        } else {
            Finding::doubtful(ABOUT, found, advice)
        });
    };
    if report.is_read_only {
        doubt(true, "it is read-only", "name the primary server");
    } else if !report.can_create_tables {
        let advice = "`GRANT CREATE ON DATABASE` to this user";
        doubt(true, "this user cannot create the schema `strata`", advice);
    }
    if !report.is_synced {
        let found = "`fsync` is off: a loss of power can damage all runs";
        doubt(false, found, "switch it on in the server's configuration");
    }
    if report.synchronous_commit == "local" {
        let found = "`synchronous_commit` is `local`: commits do not wait for standbys";
        doubt(
            false,
            found,
            "set it to `on`, if there is a synchronous standby",
        );
    }
    if report.longest_transaction_s > LONG_TRANSACTION_S {
        let seconds = report.longest_transaction_s;
        let found = format!("a transaction has been open for {seconds} s");
        doubt(false, &found, "`pg_stat_activity` shows whose it is");
    }
    findings.extend(check_clock(report.server_time_ms, now_ms()));
    findings
}

/// Returns what this user may do in a database, as the end of a sentence about it.
fn describe_rights(rights: Option<DatabaseRights>) -> &'static str {
    match rights {
        Some(DatabaseRights::Administer) => "; this user may read, run and administer",
        Some(DatabaseRights::Run) => "; this user may read and run",
        Some(DatabaseRights::Read) => "; this user may only read",
        None => "",
    }
}

/// Says so if the clock of a database's server and that of this machine differ. Nobody's runs depend on it,
/// but each machine decides by its own clock when a request expires.
fn check_clock(server_ms: i64, here_ms: i64) -> Option<Finding> {
    /// What is less than this may be the time that the answer took.
    const MAX_DIFFERENCE_MS: i64 = 5_000;
    let difference_ms = here_ms.saturating_sub(server_ms);
    if difference_ms.abs() <= MAX_DIFFERENCE_MS {
        return None;
    }
    let (seconds, direction) = (
        difference_ms.abs() / 1000,
        if difference_ms > 0 {
            "ahead of"
        } else {
            "behind"
        },
    );
    let found = format!("this machine's clock is {seconds} s {direction} that of the server");
    let advice = "set both by NTP; until then, requests expire early or late";
    Some(Finding::doubtful("clock", found, advice))
}

/// Returns the nearest existing ancestor of a path that may not exist.
fn existing_ancestor(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find(|dir| dir.is_dir());
    there.unwrap_or(Path::new("/")).to_owned()
}

fn toolchain_finding(tool: ToolchainStatus) -> Finding {
    match tool.found {
        Ok(found) => Finding::good(tool.language, found),
        Err(missing) => Finding::doubtful(tool.language, missing, tool.advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_from_the_server_s_is_reported() {
        let check = |here_ms: i64, expected: Option<&str>| {
            let found = check_clock(100_000, here_ms);
            let found = found.map(|finding| finding.found);
            let expected = expected.map(|rest| format!("this machine's clock is {rest}"));
            assert_eq!(found, expected);
        };
        check(100_000, None);
        check(104_000, None);
        check(96_000, None);
        check(107_000, Some("7 s ahead of that of the server"));
        check(40_000, Some("60 s behind that of the server"));
    }
}

//! The arguments of the commands about several runs.

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use strata_core::record::event::Status;
use strata_host::clock::now_ms;
use strata_host::launch::Author;
use strata_host::storage::{LifecycleState, RunDatabase, RunFilter, StorageLocation};

use super::saved_path;
use super::work::parse_database;

/// Where runs are looked for if no place is given.
const DEFAULT_PLACE: &str = "workspace/storage";
/// How many runs are listed if nothing else is asked for.
const DEFAULT_LIMIT: usize = 1000;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host runs\n  strata-host runs postgres://host/teams --state refused,resting\n  \
    strata-host runs postgres://host/teams --status failed --since 24h --json | jq -r .name\n\n\
    States: queued, refused, running, resting, ended, detached (in a database, but never handed to workers)."
)]
pub(crate) struct RunsArgs {
    /// Storage directories, directories that contain some, or URLs of databases or of runs in them; `workspace/storage` by
    /// default. A database without `run=` stands for all of its runs.
    #[arg(value_name = "PLACE", value_parser = saved_path())]
    places: Vec<StorageLocation>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// List at most so many.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunsArgs {
    /// Returns the places where runs are looked for; `None` if none is given and nothing was ever saved.
    pub(crate) fn places(&self) -> Option<Vec<StorageLocation>> {
        if self.places.is_empty() {
            Path::new(DEFAULT_PLACE)
                .exists()
                .then(|| vec![StorageLocation::new(DEFAULT_PLACE)])
        } else {
            Some(self.places.clone())
        }
    }

    /// Whether places are given.
    pub(crate) fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns which runs are listed.
    pub(crate) fn filter(&self) -> RunFilter {
        RunFilter {
            limit: self.limit,
            ..self.filter.to_filter()
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host wait 'postgres://host/teams?run=nightly'\n  \
    strata-host wait one two --any --timeout 15m\n\n\
    The exit code is 124 if the time is over first."
)]
pub(crate) struct WaitArgs {
    /// Storage directories, directories that contain some, or URLs of databases or of runs in them.
    #[arg(value_name = "PLACE", required = true, value_parser = saved_path())]
    pub(crate) places: Vec<StorageLocation>,
    /// Wait for the first of them only.
    #[arg(long)]
    pub(crate) any: bool,
    /// Wait at most so long: `90s`, `15m`, `24h` or `7d`.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON object a line for each run that rests.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors, faults and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Parses a span of time such as `90s`.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_span(text).map(|span| Duration::from_millis(span.unsigned_abs()))
}

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strata-host workers postgres://host/teams\n  \
    strata-host workers drain postgres://host/teams 1f0e9d8c7b6a5948"
)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WorkersCommand>,
    /// The database.
    #[arg(value_name = "URL", value_parser = parse_database)]
    pub(crate) database: Option<RunDatabase>,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum WorkersCommand {
    /// Tell a worker to take no more runs and to end, as SIGTERM does.
    #[command(
        after_help = "Examples:\n  strata-host workers drain postgres://host/teams 1f0e9d8c7b6a5948"
    )]
    Drain {
        /// The database.
        #[arg(value_name = "URL", value_parser = parse_database)]
        database: RunDatabase,
        /// The id of the worker, which `workers` prints.
        #[arg(value_name = "ID")]
        id: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The runs with which something is done.
#[derive(Args)]
pub(crate) struct SelectionArgs {
    /// Storage directories or URLs of runs in a database; with a filter, also directories that contain some, or URLs of
    /// databases. Through a server, names of runs or a filter.
    #[arg(value_name = "PLACE", value_parser = saved_path())]
    pub(crate) places: Vec<StorageLocation>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Say what would be done with which runs, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Who does it; the user and the machine by default. It is recorded in the event of a run that is cancelled, paused or
    /// resumed, noted with one that is pruned, and remembered for 90 days of one that is deleted.
    #[arg(long, value_name = "NAME", value_parser = Author::parse)]
    pub(crate) by: Option<Author>,
    /// Print one JSON object a line for each run.
    #[arg(long)]
    pub(crate) json: bool,
}

impl SelectionArgs {
    /// Whether a result is printed for each run, even if it is only one.
    pub(crate) fn is_plural(&self) -> bool {
        self.is_many() || self.dry_run || self.json
    }

    /// Whether more than one run may be meant.
    pub(crate) fn is_many(&self) -> bool {
        self.places.len() != 1 || !self.filter.to_filter().is_open()
    }

    /// Returns who does it.
    pub(crate) fn author(&self) -> Author {
        self.by.clone().unwrap_or_else(Author::of_process)
    }
}

/// Which of several runs are meant.
#[derive(Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilterArgs {
    /// Only runs with one of these statuses.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = parse_status)]
    status: Vec<String>,
    /// Only runs in one of these states.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = parse_state)]
    state: Vec<LifecycleState>,
    /// Only runs of the team with this name.
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    /// Only runs that were submitted with this `--scope`.
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// Only runs that were submitted with this `--label`.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Only runs whose name matches: `*` stands for any characters, `?` for any one.
    #[arg(long, value_name = "GLOB")]
    name: Option<String>,
    /// Only runs that changed at this time or later: `2026-01-31T12:00:00Z`, or how long ago: `90s`, `15m`, `24h`, `7d`.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    since: Option<i64>,
    /// Only runs that have not changed after this time, given in the same way.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    until: Option<i64>,
}

impl FilterArgs {
    pub(crate) fn to_filter(&self) -> RunFilter {
        RunFilter {
            statuses: self.status.clone(),
            states: self.state.clone(),
            team: self.team.clone(),
            scope: self.scope.clone(),
            tags: self.label.clone(),
            name: self.name.clone(),
            since_ms: self.since,
            until_ms: self.until,
            ..RunFilter::default()
        }
    }
}

impl FilterArgs {
    /// Returns the parameters of a query whose answer has all runs that the filter accepts, and perhaps others. Fails if a
    /// server has no such filter.
    pub(crate) fn to_query(&self) -> Result<Vec<(String, String)>, String> {
        let mut query: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: String| query.push((name.to_owned(), value));
        self.status
            .iter()
            .for_each(|status| add("status", status.clone()));
        self.state
            .iter()
            .for_each(|state| add("state", state.name().into()));
        self.team.iter().for_each(|team| add("team", team.clone()));
        for (key, value) in &self.label {
            add("label", format!("{key}={value}"));
        }
        for (name, time) in [("since", self.since), ("until", self.until)] {
            time.into_iter()
                .for_each(|time| add(name, strata_host::clock::rfc3339(time)));
        }
        self.name
            .as_deref()
            .and_then(prefix_of)
            .into_iter()
            .for_each(|prefix| add("prefix", prefix.into()));
        match self.scope {
            Some(_) => Err("a server knows tenants instead of `--scope`".into()),
            None => Ok(query),
        }
    }
}

/// Returns what the name of each run begins with whose name, or `TENANT/NAME`, matches a pattern.
fn prefix_of(pattern: &str) -> Option<&str> {
    let is_wildcard = |c: char| matches!(c, '*' | '?');
    let (literal, rest) = pattern.split_at(pattern.find(is_wildcard).unwrap_or(pattern.len()));
    let name = literal.rsplit('/').next().unwrap_or_default();
    (!rest.contains('/') && !name.is_empty()).then_some(name)
}

fn parse_status(text: &str) -> Result<String, String> {
    let queued = LifecycleState::Queued.name();
    if text == queued || Status::from_name(text).is_some() {
        Ok(text.into())
    } else {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
        Err(format!("the statuses are: {queued}, {}", names.join(", ")))
    }
}

fn parse_state(text: &str) -> Result<LifecycleState, String> {
    LifecycleState::from_name(text).ok_or_else(|| {
        let names = LifecycleState::ALL.map(LifecycleState::name);
        format!("the states are: {}", names.join(", "))
    })
}

/// Parses `KEY=VALUE`.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("give KEY=VALUE".into()),
    }
}

/// Parses a time, or how long ago it was, and returns it in milliseconds since 1970.
fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(ago) = parse_span(text) {
        return Ok(now_ms().saturating_sub(ago));
    }
    strata_host::clock::parse_rfc3339(text).ok_or_else(|| {
        "give a time such as `2026-01-31T12:00:00Z`, or how long ago it was: `90s`, `15m`, `24h`, `7d`"
            .into()
    })
}

/// Parses a span of time such as `90s`, and returns it in milliseconds.
pub(crate) fn parse_span(text: &str) -> Result<i64, String> {
    let wrong = || "give a span of time: `90s`, `15m`, `24h` or `7d`".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number
        .checked_mul(seconds * 1000)
        .filter(|span| *span >= 0)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_what_a_name_within_a_tenant_begins_with() {
        let check = |pattern: &str, expected: Option<&str>| {
            assert_eq!(prefix_of(pattern), expected, "{pattern}");
        };
        check("job1", Some("job1"));
        check("job*1?", Some("job"));
        check("*q0", None);
        check("", None);
        check("red/job*", Some("job"));
        check("red/*", None);
        check("r*/job", None);
    }

    #[test]
    fn spans_of_time_have_a_unit() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(parse_span(text).ok(), expected, "{text}");
        };
        check("90s", Some(90_000));
        check("2h", Some(7_200_000));
        check("1d", Some(86_400_000));
        check("-1s", None);
        check("5", None);
        check("", None);
        check("9223372036854775807d", None);
        check("5é", None);
    }
}

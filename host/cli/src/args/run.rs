//! The arguments of `run` and `resume`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use strata_core::record::host_call::CallPolicy;
use strata_host::ComponentReplacement;
use strata_host::driver::WhenIdle;
use strata_host::launch::{Author, DoubtDecision};
use strata_host::storage::{StorageLocation, resolve_link};
use strata_host::telemetry::TelemetryExport;

use super::operate::{FilterArgs, parse_timeout};
use super::{SelectionArgs, parse_expanded, parse_replacement, saved_path};
use crate::metrics;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host run team.toml \"write a snake game\"\n  \
    strata-host run team.toml \"what is wrong here?\" --file screenshot.png --file server.log\n  \
    strata-host run --recover_path workspace/storage/team\n  \
    strata-host run team.toml --recover_path store --component Engineer.WriteCode=fixed.wasm"
)]
pub(crate) struct RunArgs {
    /// The team file (ends in .toml; `team.toml` by default) and the idea (anything else; a word that looks like a file
    /// only after the team file; `-` reads it from stdin). On a resume both may be left out.
    #[arg(value_name = "TEAM.toml | IDEA", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Resume the team saved in this directory (or in its team.json), or at the URL of a run in a database.
    #[arg(long = "recover_path", alias = "recover-path", value_name = "PATH", value_parser = saved_path())]
    pub(crate) recover_path: Option<StorageLocation>,
    /// Where a fresh run is saved: a directory, or the URL of a run in a database; `workspace/storage/NAME` by default, by
    /// the team's name. `workspace/storage/team` is then a link to it, unless something else has that name.
    #[arg(long, value_name = "DIR")]
    pub(crate) storage: Option<PathBuf>,
    /// Start a new run even though the storage holds an unfinished team. That team is moved aside, not deleted.
    #[arg(long, conflicts_with = "recover_path")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// The export of telemetry. It is no argument.
    #[arg(skip)]
    pub(crate) telemetry: TelemetryExport,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host resume workspace/storage/team\n  \
    strata-host resume store team.toml --component Engineer.WriteCode=fixed.wasm\n  \
    strata-host resume 'postgres://host/teams?run=nightly'\n  \
    strata-host resume postgres://host/teams --state refused --team crawler\n\n\
    A run that was submitted is continued by a worker, with a team file, --component, --investment, --max-steps, \
    --checkpoint, --in-doubt and --calls, which are stored with it."
)]
pub(crate) struct ResumeArgs {
    /// The storage directory, its team.json or the URL of a run in a database; with a filter, also directories that contain
    /// some, or URLs of databases. Several are resumed one after another. Last, the definition to continue with, if it is
    /// not the saved one. Through a server, names of runs or a filter.
    #[arg(
        id = "recover_path", value_name = "PLACE | TEAM.toml", num_args = 0..,
        value_parser = parse_expanded
    )]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Say which runs would be resumed, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// The export of telemetry. It is no argument.
    #[arg(skip)]
    pub(crate) telemetry: TelemetryExport,
}

impl ResumeArgs {
    /// Returns the runs that are meant.
    pub(crate) fn selection(&self) -> SelectionArgs {
        let places = self.words.len() - usize::from(self.team().is_some());
        let places = self.words[..places].iter();
        SelectionArgs {
            places: places
                .map(|place| StorageLocation::new(resolve_link(place.as_ref())))
                .collect(),
            filter: self.filter.clone(),
            dry_run: self.dry_run,
            by: self.options.by.clone(),
            json: self.options.json,
        }
    }

    /// Returns the team file to continue with.
    pub(crate) fn team(&self) -> Option<&str> {
        self.possible_team().filter(|last| last.ends_with(".toml"))
    }

    /// Returns the last of several words, which is the team file if it ends in `.toml`.
    pub(crate) fn possible_team(&self) -> Option<&str> {
        let [_, .., last] = &self.words[..] else {
            return None;
        };
        Some(last)
    }
}

/// What `run` and `resume` have in common. Those that require `recover_path` apply to resumes only.
#[derive(Args, Clone, Default, PartialEq)]
pub(crate) struct RunOptions {
    /// Add an image or a file to the idea. Actions and models receive it as a part of the message. On a resume of a
    /// `team.json` alone: save again what it does not contain.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// The most that may be spent in total, in USD; 0 for no limit.
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub(crate) investment: Option<f64>,
    /// The most steps in total, resumes included; 0 for no limit. Applies to this call, not to later resumes.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_steps: Option<u64>,
    /// The most actions to run at once. Applies to this call.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_parallel: Option<usize>,
    /// Write events to this file as they happen, one JSON object per line; `-` is stdout. A resume appends to the file,
    /// a fresh run replaces it.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) events: Option<PathBuf>,
    /// Record exchanges with language models, for `[llm] provider = "recorded"` to serve again.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Whether a new attempt reuses recorded host calls.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) calls: CallReuseArg,
    /// Use another component for an action (or for `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION=FILE", allow_hyphen_values = true, value_parser = parse_replacement)]
    pub(crate) component: Vec<ComponentReplacement>,
    /// Answer a question of the saved team before resuming it, as `answer` does.
    #[arg(long, value_name = "REQUEST=JSON", requires = "recover_path")]
    pub(crate) answer: Vec<String>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Who resumes it, as it is recorded in the run; the user and the machine by default.
    #[arg(long, value_name = "NAME", requires = "recover_path", value_parser = Author::parse)]
    pub(crate) by: Option<Author>,
    /// How long the run waits for a database that is away: `90s`, `15m`, `1h`. A minute by default.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) patience: Option<Duration>,
    /// Refuse to resume with changed components.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Resume from this checkpoint instead of the newest state. What came after it stays saved, in its own lineage.
    #[arg(long, value_name = "ID", requires = "recover_path")]
    pub(crate) checkpoint: Option<String>,
    /// When nothing is left to do, wait for messages (see `send`) until stopped. If it is stopped while waiting, the exit
    /// code is the one it would have had without waiting: 0, or 3, 4, 6, 10.
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// Use the team file that is saved at PATH, whoever wrote it. It decides which programs are started, which servers are
    /// contacted and which directories, variables and secrets actions may use.
    #[arg(long, requires = "recover_path")]
    pub(crate) trust: bool,
    /// How to handle writes whose result is unknown: repeat them (`redo`), continue without them (`skip`), tell the model
    /// that called the tool of an MCP server (`unknown`), or take this JSON as the response or the tool's result. For one
    /// of several: `ROLE.ACTION=…`, as `inspect` names it.
    #[arg(
        long,
        value_name = "redo|skip|unknown|VALUE",
        requires = "recover_path"
    )]
    pub(crate) in_doubt: Vec<DoubtDecision>,
    /// Serve Prometheus metrics at `/metrics` on this address: a local port, or `ADDRESS:PORT`.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Print nothing but errors, faults and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print a summary as JSON to stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallReuseArg {
    /// Decide by how the last attempt ended.
    #[default]
    Auto,
    /// Reuse all of them.
    Reuse,
    /// Reuse none.
    Fresh,
}

impl RunOptions {
    /// Returns who resumes the run.
    pub(crate) fn author(&self) -> Author {
        self.by.clone().unwrap_or_else(Author::of_process)
    }

    pub(crate) fn when_idle(&self) -> WhenIdle {
        if self.keep_alive {
            WhenIdle::Stay
        } else {
            WhenIdle::End
        }
    }
}

impl From<CallReuseArg> for CallPolicy {
    fn from(calls: CallReuseArg) -> Self {
        match calls {
            CallReuseArg::Auto => Self::Auto,
            CallReuseArg::Reuse => Self::Reuse,
            CallReuseArg::Fresh => Self::Fresh,
        }
    }
}

//! The arguments of the commands about submitted runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use strata_core::record::money::Usd;
use strata_host::ComponentReplacement;
use strata_host::operate::DeleteRuns;
use strata_host::storage::{CapScope, MAX_CAP_DOLLARS, Retention, RunDatabase, StorageLocation};

use super::operate::{SelectionArgs, parse_label, parse_timeout};
use super::{parse_replacement, saved_path};
use crate::metrics;
use crate::worker_log::LogFormat;

/// Parses the URL of a database.
pub(super) fn parse_database(text: &str) -> Result<RunDatabase, String> {
    RunDatabase::parse_whole(text).map_err(|error| error.to_string())
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host worker --database postgres://host/teams\n  \
    strata-host worker --database postgres://host/teams --room 32 --label gpu --policy teams.toml\n\n\
    Without a policy, submitted teams may use their own files, scripted models, and public servers without secrets."
)]
pub(crate) struct WorkerArgs {
    /// The database from which runs are taken; several times for several databases.
    #[arg(long, value_name = "URL", required = true, value_parser = parse_database)]
    pub(crate) database: Vec<RunDatabase>,
    /// How many runs it runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_room)]
    pub(crate) room: usize,
    /// After SIGTERM or Ctrl-C, how many seconds runs may take to end by themselves before they are stopped. Nothing more
    /// is taken meanwhile. A second signal ends the process at once.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_drain)]
    pub(crate) drain: Duration,
    /// How long runs keep the answers that they have while their database is away, and wait for it: `90s`, `15m`, `1h`. Ten
    /// minutes by default.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) patience: Option<Duration>,
    /// Take runs, too, that were submitted for workers with this label.
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Vec<String>,
    /// The policy that says what submitted teams may use, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Where each run has a directory for its files while it runs.
    #[arg(long, value_name = "DIR", default_value = "workspaces")]
    pub(crate) workspaces: PathBuf,
    /// Serve Prometheus metrics at `/metrics` on this address, and `/health` and `/ready`: a local port, or `ADDRESS:PORT`.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write what happens to stderr as lines with time, level, worker and run.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log: Option<LogFormat>,
    /// Print nothing but errors and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

pub(super) fn parse_room(text: &str) -> Result<usize, String> {
    /// Each run has a thread of its own.
    const MAX_ROOM: usize = 1024;
    let room = text.parse().ok();
    let room = room.filter(|room| (1..=MAX_ROOM).contains(room));
    room.ok_or_else(|| format!("give a number from 1 to {MAX_ROOM}"))
}

pub(super) fn parse_drain(text: &str) -> Result<Duration, String> {
    /// A day: the process should end at some time.
    const MAX_SECONDS: u64 = 86_400;
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds <= MAX_SECONDS);
    let seconds =
        seconds.ok_or_else(|| format!("give a number of seconds, at most {MAX_SECONDS}"))?;
    Ok(Duration::from_secs(seconds))
}

#[derive(Args)]
#[command(
    after_help = "Everything that the team needs is stored with it: its file, components, replies, and the directories \
    beside its file that actions may use.\n\nExamples:\n  \
    strata-host submit team.toml \"write a snake game\" --database postgres://host/teams --wait\n  \
    strata-host submit team.toml --database postgres://host/teams --name nightly --needs gpu"
)]
pub(crate) struct SubmitArgs {
    /// The team file (ends in .toml; `team.toml` by default) and the idea (anything else; a word that looks like a file
    /// only after the team file; `-` reads it from stdin).
    #[arg(value_name = "TEAM.toml | IDEA", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// The database in which the run is kept. Of several, it is one that is open for new runs, selected by the run's name.
    #[arg(long, value_name = "URL", value_parser = parse_database)]
    pub(crate) database: Vec<RunDatabase>,
    /// The name of the run; by default that of the team with a random number.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Let only workers take it that have this label.
    #[arg(long, value_name = "LABEL")]
    pub(crate) needs: Vec<String>,
    /// Note this with it, so that `runs --label` finds it.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    /// Count what it costs against the cap of this name, too: `strata-host database cap URL --scope NAME`.
    #[arg(long, value_name = "NAME", value_parser = CapScope::parse_named)]
    pub(crate) scope: Option<CapScope>,
    /// Add an image or a file to the idea.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// Use another component for an action (or for `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION=FILE", allow_hyphen_values = true, value_parser = parse_replacement)]
    pub(crate) component: Vec<ComponentReplacement>,
    /// Wait until the run ends or needs a person, and print its output. The exit code is that of `run`.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print where the run is as JSON; with `--wait`, also how it ended.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors, faults and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(
    after_help = "The run keeps its records, its files and what it has spent. What its team file names is stored with it, under \
    the rules for submitted teams.\n\nExamples:\n  \
    strata-host adopt workspace/storage/team --to postgres://host/teams --name nightly\n  \
    strata-host adopt 'postgres://old/teams?run=nightly' --to postgres://new/teams --copy"
)]
pub(crate) struct AdoptArgs {
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_name = "PLACE", value_parser = saved_path())]
    pub(crate) place: StorageLocation,
    /// The database whose workers continue it.
    #[arg(long, value_name = "URL", value_parser = parse_database)]
    pub(crate) to: RunDatabase,
    /// The name of the run there; by default that which it has, or that of its directory.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Leave the run where it is, too. Otherwise it is deleted there, once the database has it.
    #[arg(long)]
    pub(crate) copy: bool,
    /// Let only workers take it that have this label.
    #[arg(long, value_name = "LABEL")]
    pub(crate) needs: Vec<String>,
    /// Note this with it, so that `runs --label` finds it.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    /// Count what it costs against the cap of this name, too: `strata-host database cap URL --scope NAME`.
    #[arg(long, value_name = "NAME", value_parser = CapScope::parse_named)]
    pub(crate) scope: Option<CapScope>,
    /// Use the team file that is saved there, whoever wrote it.
    #[arg(long)]
    pub(crate) trust: bool,
    /// Print where the run is as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors and warnings, and where the run is.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Create the tables, or bring them to the version of this program. Runs do it, too, if their user may create tables.
    #[command(after_help = "Examples:\n  strata-host database migrate postgres://admin@host/teams")]
    Migrate(DatabaseArgs),
    /// Take no new runs into a database. What is in there continues.
    #[command(after_help = "Examples:\n  strata-host database close postgres://host/teams")]
    Close(DatabaseArgs),
    /// Take new runs into a database again.
    #[command(after_help = "Examples:\n  strata-host database open postgres://host/teams")]
    Open(DatabaseArgs),
    /// Limit what runs cost together: all of them, or those that were submitted with the same `--scope`. Without an
    /// option, the caps are printed, with what is spent of each.
    #[command(
        after_help = "Examples:\n  strata-host database cap postgres://host/teams --set 500\n  \
        strata-host database cap postgres://host/teams --scope tenant-7 --set 20\n  \
        strata-host database cap postgres://host/teams\n\n\
        A run that finds a cap used up ends as out of budget. Raise the cap, then continue it with `strata-host resume URL`."
    )]
    Cap(CapArgs),
    /// Declare that a database was restored from a backup, before anybody uses it. All its runs lose their owners, and
    /// processes that used it before stop.
    #[command(after_help = "Examples:\n  strata-host database fence postgres://host/teams")]
    Fence(DatabaseArgs),
    /// Say for how long runs are kept that have ended; workers delete them then. Without `--keep`, print what is said.
    #[command(
        after_help = "Examples:\n  strata-host database retention postgres://host/teams --keep \"done=30d,failed=90d\"\n  \
        strata-host database retention postgres://host/teams --keep ''      # all are kept\n\n\
        Statuses: done, failed, out-of-budget, stalled, step-limit, in-doubt, cancelled. A run with an open question is never deleted."
    )]
    Retention(RetentionArgs),
    /// Print the URL of a run by its name, whichever of several databases has it.
    #[command(
        after_help = "Examples:\n  strata-host inspect \"$(strata-host database find nightly postgres://one/teams postgres://two/teams)\""
    )]
    Find {
        /// The name of the run.
        run: String,
        /// The databases.
        #[arg(value_name = "URL", required = true, value_parser = parse_database)]
        databases: Vec<RunDatabase>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// The database.
    #[arg(value_name = "URL", value_parser = parse_database)]
    pub(crate) database: RunDatabase,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RetentionArgs {
    /// The database.
    #[arg(value_name = "URL", value_parser = parse_database)]
    pub(crate) database: RunDatabase,
    /// For how long runs with these statuses are kept after their end. Others are kept for ever.
    #[arg(long, value_name = "STATUS=TIME,…", value_parser = Retention::parse)]
    pub(crate) keep: Option<Retention>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number of dollars.
fn parse_cap(text: &str) -> Result<Usd, String> {
    let dollars: Option<f64> = text.parse().ok();
    dollars
        .filter(|dollars| (0.0..=MAX_CAP_DOLLARS).contains(dollars))
        .map(Usd::from_dollars)
        .ok_or_else(|| format!("give a number of US dollars, at most {MAX_CAP_DOLLARS}"))
}

#[derive(Args)]
pub(crate) struct CapArgs {
    /// The database. Of several that share their runs, the one that workers name first.
    #[arg(value_name = "URL", value_parser = parse_database)]
    pub(crate) database: RunDatabase,
    /// The runs: those that were submitted with this `--scope`; `all` by default.
    #[arg(long, value_name = "NAME", value_parser = CapScope::parse)]
    pub(crate) scope: Option<CapScope>,
    /// Let the runs cost at most this, in US dollars, since the cap was first set or reset.
    #[arg(long, value_name = "USD", value_parser = parse_cap)]
    pub(crate) set: Option<Usd>,
    /// Count what is spent from zero again.
    #[arg(long)]
    pub(crate) reset: bool,
    /// Remove the cap.
    #[arg(long, conflicts_with_all = ["set", "reset"])]
    pub(crate) remove: bool,
    /// Print one JSON object a line for each cap.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct HaltArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host delete 'postgres://host/teams?run=nightly'\n  \
    strata-host delete postgres://host/teams --status done --until 30d --dry-run"
)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Delete runs that have not ended, too: they are cancelled first.
    #[arg(long)]
    pub(crate) force: bool,
}

impl DeleteArgs {
    /// Returns which runs may be deleted.
    pub(crate) fn which(&self) -> DeleteRuns {
        if self.force {
            DeleteRuns::All
        } else {
            DeleteRuns::Ended
        }
    }
}

//! The command line's arguments: commands, flags and their help. What they do is in a file each.

mod dev;
mod doctor;
mod files;
mod inspect;
mod replay;
mod report;
mod skill;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use strata_core::event::CallPolicy;

use super::new::NewArgs;
use crate::driver::WhenIdle;

pub(super) use dev::DevArgs;
pub(super) use doctor::DoctorArgs;
pub(super) use files::FilesArgs;
pub(super) use inspect::InspectArgs;
pub(super) use replay::ReplayArgs;
pub(super) use report::ReportArgs;
pub(super) use skill::{ShelfArgs, SkillCommand};

/// Runs teams of agents whose every action is a sandboxed WebAssembly component.
#[derive(Parser)]
#[command(name = "strata-host", version, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Log more to stderr; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run a team, or go on with a saved one.
    Run(RunArgs),
    /// Run a team while it is written: watch its file and the sources of its actions, build what changes, go on.
    Dev(DevArgs),
    /// Validate a team and print what each of its actions may do. No action is run; sources are built.
    Check(CheckArgs),
    /// Write down which components a team has, in `strata.lock` beside its file. From then on others are refused.
    Lock(LockArgs),
    /// Show what is saved: status, step, faults, mailboxes, joins, budget.
    Inspect(InspectArgs),
    /// List the checkpoints of a saved team, of all its lineages, oldest first.
    #[command(
        after_help = "Examples:\n  strata-host checkpoints store\n  strata-host checkpoints store --json | jq -r '.[].id'"
    )]
    Checkpoints(SavedArgs),
    /// Print the recorded events of a saved team, one JSON object a line, oldest first.
    ///
    /// Told is what led to where the team stands. What happened in other lineages after they were left is told where they
    /// are named: `PATH@LINEAGE`.
    #[command(
        after_help = "Examples:\n  strata-host events store | jq -c 'select(.kind == \"host-call\")'\n  strata-host events store@main.1\n  strata-host events store --follow"
    )]
    Events {
        /// The storage directory or its team.json, perhaps with @LINEAGE.
        #[arg(value_name = "PATH[@LINEAGE]")]
        path: String,
        /// Those that lead to the newest state of this lineage instead of the current one.
        #[arg(long, value_name = "NAME")]
        lineage: Option<String>,
        /// Go on with what is recorded from now on, until no process is at the team any more.
        #[arg(short, long)]
        follow: bool,
    },
    /// Show which files actions wrote, as they are in a saved state, or lay them out in a directory.
    Files(FilesArgs),
    /// Begin another lineage at a checkpoint. What there is stays as it is.
    Fork(ForkArgs),
    /// Show where two lineages part, and how their states differ.
    Diff(DiffArgs),
    /// Forget old checkpoints and free the room that only they need.
    Prune(PruneArgs),
    /// Run recorded attempts again, with the network off, and compare what they do with the record. Nothing is saved.
    Replay(ReplayArgs),
    /// Write a saved run as one HTML page: graph, timeline, messages, host calls, costs, faults, states.
    Report(ReportArgs),
    /// Put a message into a saved team's environment.
    Send(SendArgs),
    /// Record answers for what a saved team asks people. `run --recover_path` then goes on.
    Answer(AnswerArgs),
    /// Draw a team: roles, what they hear of, routes, joins. Its components need not be there.
    Graph(GraphArgs),
    /// Build the action in a directory to a component and print its path.
    #[command(
        after_help = "Examples:\n  strata-host build plugins/probe\n  strata-host run team.toml --recover_path store --component Bob.Write=$(strata-host build write)"
    )]
    Build {
        /// The directory of its source.
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Print what an action can call, or what a component says about itself, as JSON that a model can read.
    Describe(DescribeArgs),
    /// Print the JSON Schema of team files, for editors.
    #[command(after_help = "Examples:\n  strata-host schema > team.schema.json\n\n\
        Editors that know TOML schemas (Taplo, Even Better TOML) find it by the first line of a team file:\n  \
        #:schema ./team.schema.json")]
    Schema,
    /// Keep components on this machine under their names and versions, for teams to name: `skill = "name@version"`.
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Look at what this machine has of what teams need: toolchains, the cache, the shelf, the disk.
    Doctor(DoctorArgs),
    /// Print what completes this command line in a shell.
    #[command(after_help = "Examples:\n  \
        strata-host completions bash > ~/.local/share/bash-completion/completions/strata-host\n  \
        strata-host completions fish > ~/.config/fish/completions/strata-host.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command.
    #[command(after_help = "Examples:\n  strata-host man ~/.local/share/man/man1 && man strata-host-run")]
    Man {
        /// Where to. It is made if it is missing.
        dir: PathBuf,
    },
    /// Begin an action or a team: something small that builds and runs as it is.
    New(NewArgs),
    /// Print where the SDK of a language is, for tests, editors and other build tools.
    #[command(after_help = "Examples:\n  strata-host sdk wit")]
    Sdk {
        /// The language: `rust`, `python`, `js` (`ts` has the same) or `c`; or `wit` for the interfaces that all
        /// languages share.
        #[arg(value_name = "LANG")]
        name: String,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host run team.toml \"write a snake game\"\n  \
    strata-host run --recover_path workspace/storage/team\n  \
    strata-host run team.toml --recover_path store --component Engineer.WriteCode=mended.wasm")]
pub(super) struct RunArgs {
    /// The team file (ends in .toml; `team.toml` where none is named) and the idea (anything else). On resume both may be
    /// left out.
    #[arg(value_name = "TEAM.toml | IDEA", num_args = 0..=2)]
    pub(super) words: Vec<String>,
    /// Go on with the team saved in this directory (or in its team.json).
    #[arg(long = "recover_path", alias = "recover-path", value_name = "PATH")]
    pub(super) recover_path: Option<PathBuf>,
    /// Where a fresh run is saved: `./workspace/storage/team` by default.
    #[arg(long, value_name = "DIR")]
    pub(super) storage: Option<PathBuf>,
    /// What may be spent in all, in USD; 0 for no limit.
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub(super) investment: Option<f64>,
    /// How many steps may be made in all, resumes included; 0 for no limit. Holds for this call, not for later resumes.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) max_steps: Option<u64>,
    /// How many actions may run at once. Holds for this call.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) max_parallel: Option<usize>,
    /// Write events there as they happen, one JSON object a line; `-` is stdout. A resume writes after what the file
    /// holds, a fresh run begins it anew.
    #[arg(long, value_name = "FILE|-")]
    pub(super) events: Option<PathBuf>,
    /// Record exchanges with language models, to be served again by `[llm] provider = "recorded"`.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Which recorded host calls a new attempt is served.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) calls: Calls,
    /// Use another component for an action (or for `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION=FILE")]
    pub(super) component: Vec<String>,
    /// Answer what the saved team asks a person, then go on; as `answer` does.
    #[arg(long, value_name = "REQUEST=JSON", requires = "recover_path")]
    pub(super) answer: Vec<String>,
    /// One more policy that binds the team, beside those of the machine, of the user and of `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Refuse to resume with changed components.
    #[arg(long)]
    pub(super) strict: bool,
    /// Go on from this checkpoint instead of the newest state. What came after it stays saved, in a lineage of its own.
    #[arg(long, value_name = "ID", requires = "recover_path")]
    pub(super) checkpoint: Option<String>,
    /// When nothing is left to do, wait for messages (see `send`) until stopped. Stopped while it waits, it ends with the
    /// exit code that it would have ended with without waiting: 0, or 3, 4, 6, 10.
    #[arg(long)]
    pub(super) keep_alive: bool,
    /// What becomes of writes whose result is unknown: make them again (`redo`), go on without (`skip`), or take this
    /// response, in JSON, for theirs. For one of several: `ROLE.ACTION=…`, as `inspect` names it.
    #[arg(long, value_name = "redo|skip|VALUE", requires = "recover_path")]
    pub(super) in_doubt: Vec<String>,
    /// Start anew although the storage holds an unfinished team. That one is set aside, not deleted.
    #[arg(long, conflicts_with = "recover_path")]
    pub(super) force: bool,
    /// Serve metrics for Prometheus there: a port of this machine, or `ADDRESS:PORT`. See `GET /metrics`.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = super::metrics::address)]
    pub(super) metrics: Option<SocketAddr>,
    /// Print nothing but errors, faults and warnings.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print a summary as JSON to stdout.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Calls {
    /// It depends on how the earlier attempt ended.
    Auto,
    /// All of them.
    Reuse,
    /// None.
    Fresh,
}

impl RunArgs {
    pub(super) fn when_idle(&self) -> WhenIdle {
        if self.keep_alive { WhenIdle::Stay } else { WhenIdle::End }
    }
}

impl From<Calls> for CallPolicy {
    fn from(calls: Calls) -> Self {
        match calls {
            Calls::Auto => Self::Auto,
            Calls::Reuse => Self::Reuse,
            Calls::Fresh => Self::Fresh,
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host check team.toml\n  strata-host check team.toml --json | jq '.[].host_calls'"
)]
pub(super) struct CheckArgs {
    /// The team file.
    pub(super) team: PathBuf,
    /// One more policy that binds the team, beside those of the machine, of the user and of `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Print the policy as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host lock team.toml\n\n\
    A team file and those beside it share one strata.lock. After a change that is meant, lock again.")]
pub(super) struct LockArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(super) team: PathBuf,
    /// One more policy that binds the team, beside those of the machine, of the user and of `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host graph team.toml --format svg > team.svg\n  \
    strata-host graph team.toml --format dot | dot -Tpng > team.png")]
pub(super) struct GraphArgs {
    /// The team file.
    pub(super) team: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value = "mermaid")]
    pub(super) format: GraphFormat,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum GraphFormat {
    /// A flowchart, as Markdown pages show it.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture.
    Svg,
}

#[derive(Args)]
pub(super) struct SavedArgs {
    /// The storage directory or its team.json.
    pub(super) path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host fork store --at main-1 --set tracking/k=9 --to branch\n  \
    strata-host fork store --at main-1 --set 'role/Engineer/plan=\"shorter\"'")]
pub(super) struct ForkArgs {
    /// The storage directory or its team.json.
    pub(super) path: PathBuf,
    /// The checkpoint it begins at.
    #[arg(long, value_name = "ID")]
    pub(super) at: String,
    /// Put a value into a scope of the new lineage. A scope is that of the team file, or `role/NAME` for a role's own.
    #[arg(long, value_name = "SCOPE/KEY=JSON")]
    pub(super) set: Vec<String>,
    /// Write it as a team of its own into this directory, instead of beside the others.
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Print what was made as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(after_help = "Each side is PATH for its newest state, or PATH@ID for a checkpoint or a lineage of it.\n\n\
    Examples:\n  strata-host diff store@main store@main.1\n  strata-host diff store branch\n\n\
    The exit code is 0 whether or not they differ.")]
pub(super) struct DiffArgs {
    /// One side: a storage directory or its team.json, perhaps with @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]")]
    pub(super) one: String,
    /// The other.
    #[arg(value_name = "PATH[@ID]")]
    pub(super) other: String,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host prune store --keep 3")]
pub(super) struct PruneArgs {
    /// The storage directory or its team.json.
    pub(super) path: PathBuf,
    /// How many checkpoints to keep of each lineage, beside its first, where others leave it, and where somebody is
    /// waited for. Without it, what the team file says; where that keeps all, 10.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,
    /// Print what was freed as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host send store --cause UserRequirement \"another idea\"\n  strata-host send store --cause Review --to Editor \"looks good\"\n  strata-host send store --cause Order --idempotency-key order-17 - < order.json"
)]
pub(super) struct SendArgs {
    /// The storage directory or its team.json.
    pub(super) path: PathBuf,
    /// The message's label.
    #[arg(long, value_name = "LABEL")]
    pub(super) cause: String,
    /// A recipient; everyone who watches the label where none is named.
    #[arg(long, value_name = "NAME")]
    pub(super) to: Vec<String>,
    /// A name of your own for this message: sent again under it, it is not published again.
    #[arg(long, value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) idempotency_key: Option<String>,
    /// Print what became of it as JSON: `id`, `to`, `dead`, `known`.
    #[arg(long)]
    pub(super) json: bool,
    /// The text; `-` reads it from stdin.
    pub(super) content: String,
}

#[derive(Args)]
#[command(
    after_help = "An answer is a JSON document. Where a text answers the question it may be given as it is. All answers are taken, \
    or none.\n\nExamples:\n  strata-host answer store ask-1-1-0-0=42 'ask-1-2-0-0=looks good'"
)]
pub(super) struct AnswerArgs {
    /// The storage directory or its team.json.
    pub(super) path: PathBuf,
    /// What is answered, and how. `inspect` shows what is asked.
    #[arg(value_name = "REQUEST=JSON", required = true)]
    pub(super) answers: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host describe                     # every interface of the host\n  \
    strata-host describe plugins/probe       # a directory of source, which is built first\n  \
    strata-host describe write-code@1.0.0    # a skill\n  \
    strata-host describe | jq '.interfaces.llm.functions.complete.parameters'")]
pub(super) struct DescribeArgs {
    /// A component, a directory with the source of one, or a skill (`name@1.0.0`). Without it, the interfaces of the
    /// host and every skill.
    pub(super) component: Option<PathBuf>,
    #[command(flatten)]
    pub(super) shelf: ShelfArgs,
}

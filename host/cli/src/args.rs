//! Declares the command line's arguments: commands, flags and their help. Each command is implemented
//! in a file of its own, one level up.

mod lineages;
mod mcp;
mod operate;
mod replay;
mod run;
mod serve;
mod skill;
mod team_and_idea;
mod trial;
mod work;

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use strata_host::ComponentReplacement;
use strata_host::plugin::script::ScriptLanguage;
use strata_host::storage::{StorageLocation, resolve_link};
use strata_host::unexpanded_path::UnexpandedPath;

use super::new::NewArgs;

pub(super) use lineages::{DiffArgs, ForkArgs, PruneArgs};
pub(super) use mcp::McpArgs;
pub(super) use operate::{
    FilterArgs, RunsArgs, SelectionArgs, WaitArgs, WorkersArgs, WorkersCommand,
};
pub(super) use replay::ReplayArgs;
pub(super) use run::{ResumeArgs, RunArgs, RunOptions};
pub(super) use serve::{ServeArgs, TokenCommand, TokenPlaceArgs};
pub(super) use skill::{ShelfArgs, SkillCommand};
pub(super) use team_and_idea::{DEFAULT_TEAM, IdeaUse, TeamAndIdea, refuse_misspelled_team};
pub(super) use trial::TryArgs;
pub(super) use work::{
    AdoptArgs, CapArgs, DatabaseArgs, DatabaseCommand, DeleteArgs, HaltArgs, RetentionArgs,
    SubmitArgs, WorkerArgs,
};

/// Runs teams of agents whose every action is a sandboxed WebAssembly component.
#[derive(Parser)]
#[command(name = "strata-host", version, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    /// More log output on stderr, and models' replies line by line as they come; `-vv` for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// Work through the server at this address: runs are given by their names or ids. The token is that in `$STRATA_TOKEN`.
    #[arg(long, global = true, value_name = "URL")]
    pub(super) server: Option<String>,
}

/// Parses the name of a language that has an interpreter of scripts.
fn parse_script_language(name: &str) -> Result<ScriptLanguage, String> {
    let mut languages = ScriptLanguage::ALL.into_iter();
    languages
        .find(|language| language.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| "it is `javascript` or `python`".into())
}

/// Parses the location of a saved team. A link such as `workspace/storage/team` is replaced by its target.
fn saved_path() -> impl TypedValueParser<Value = StorageLocation> {
    expanded_path().map(|path| StorageLocation::new(resolve_link(&path)))
}

/// Parses a path, or the URL of a database. Fails if a shell would have replaced something in it.
pub(super) fn expanded_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| check_expanded(&path.to_string_lossy()).map(|()| path))
}

/// Parses a text that begins with a path, or is the URL of a database. Fails if a shell would have
/// replaced something in it.
pub(super) fn parse_expanded(text: &str) -> Result<String, String> {
    check_expanded(text).map(|()| text.to_owned())
}

/// Parses `SLOT=FILE`. Both may contain `=`. Fails if a shell would have replaced something in what may
/// be the file.
pub(super) fn parse_replacement(text: &str) -> Result<ComponentReplacement, String> {
    for (at, _) in text.match_indices('=') {
        check_expanded(&text[at + 1..])?;
    }
    Ok(ComponentReplacement::from(text))
}

fn check_expanded(path: &str) -> Result<(), String> {
    let is_url = path.contains("://");
    match UnexpandedPath::find(path).filter(|_| !is_url) {
        Some(unexpanded) => Err(format!("{unexpanded}: {}", unexpanded.hint())),
        None => Ok(()),
    }
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run a team, or resume a saved one.
    Run(RunArgs),
    /// Run a team while you write it: watch its file and its actions' sources, rebuild what changes, and continue.
    Dev(DevArgs),
    /// Run one action without a team, with the default limits and nothing granted. Nothing is saved.
    Try(TryArgs),
    /// Validate a team and print what each of its actions may do. Sources are built, but no action runs.
    Check(CheckArgs),
    /// Record a team's components in `strata.lock` beside its file. From then on, any others are refused.
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
    /// These are the events that led to the current state. For those of another lineage, use `PATH@LINEAGE`.
    #[command(
        after_help = "Examples:\n  strata-host events store | jq -c 'select(.kind == \"host-call\")'\n  strata-host events store@main.1\n  strata-host events store --follow"
    )]
    Events {
        /// The storage directory, its team.json or the URL of a run in a database, optionally followed by @LINEAGE.
        #[arg(value_name = "PATH[@LINEAGE]", value_parser = parse_expanded)]
        path: String,
        /// Use the events that led to the newest state of this lineage instead of the current one.
        #[arg(long, value_name = "NAME")]
        lineage: Option<String>,
        /// Keep printing new events until the run ends, also while it waits for workers or people.
        #[arg(short, long)]
        follow: bool,
        /// With `--follow`: stop as soon as no process works on the run.
        #[arg(long, requires = "follow")]
        until_rest: bool,
    },
    /// List the files that actions wrote, as of a saved state, or extract them into a directory.
    Files(FilesArgs),
    /// Start a new lineage from a checkpoint. Existing ones are unchanged.
    Fork(ForkArgs),
    /// Show where two lineages part, and how their states differ.
    Diff(DiffArgs),
    /// Delete old checkpoints and free the space that only they needed.
    Prune(PruneArgs),
    /// Repeat recorded attempts with the network off and compare them with the record. Nothing is saved.
    Replay(ReplayArgs),
    /// Write a saved run as one HTML page: graph, timeline, messages, host calls, costs, faults, states.
    Report(ReportArgs),
    /// Send a message to a saved or running team.
    Send(SendArgs),
    /// Answer the questions that a saved team has put to people. `run --recover_path` then resumes it.
    Answer(AnswerArgs),
    /// Submit a team to a database, from which a worker takes it.
    Submit(SubmitArgs),
    /// Hand a saved run over to the workers of a database, with everything that it needs.
    Adopt(AdoptArgs),
    /// Run submitted teams, until stopped. Any number of workers can share a database.
    Worker(WorkerArgs),
    /// Offer a team, or components, as tools to clients of the Model Context Protocol (MCP).
    ///
    /// The client is at standard input and output, or connects over HTTP. The server ends when its input does.
    Mcp(McpArgs),
    /// Run submitted teams, and serve an HTTP API and a page for them.
    Serve(ServeArgs),
    /// Make, list and revoke the tokens of a server.
    #[command(subcommand)]
    Token(TokenCommand),
    /// End a run, wherever it runs. Only a resume, an answer or a message continues it.
    #[command(
        after_help = "Examples:\n  strata-host cancel store\n  strata-host cancel 'postgres://host/teams?run=nightly'"
    )]
    Cancel(HaltArgs),
    /// Delete runs that have ended, with all that is stored of them.
    Delete(DeleteArgs),
    /// Suspend a run, wherever it runs, until a resume, an answer or a message continues it.
    #[command(
        after_help = "Examples:\n  strata-host pause store\n  strata-host pause 'postgres://host/teams?run=nightly'"
    )]
    Pause(HaltArgs),
    /// Resume a saved team, as `run --recover_path` does; if it was submitted, let a worker do it.
    Resume(ResumeArgs),
    /// Wait until runs have ended or need a person. The exit code is that of `run`; of several runs, the greatest.
    Wait(WaitArgs),
    /// List workers, or tell one to end.
    Workers(WorkersArgs),
    /// List runs, the one that changed last first: name, team, state, status, step, money, open requests and faults.
    Runs(RunsArgs),
    /// Manage a database of runs as a whole.
    #[command(subcommand)]
    Database(DatabaseCommand),
    /// Draw a team: its roles, what they watch, routes and joins. Its components need not exist.
    Graph(GraphArgs),
    /// Build the action in a directory to a component and print its path.
    #[command(
        after_help = "Examples:\n  strata-host build plugins/probe\n  strata-host run team.toml --recover_path store --component Bob.Write=$(strata-host build write)"
    )]
    Build {
        /// The directory that holds its source.
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Print what an action can call, or how a component describes itself, as JSON that a model can read.
    Describe(DescribeArgs),
    /// Print the JSON Schema of team files, policies or scripted replies, for editors.
    #[command(after_help = "Examples:\n  strata-host schema > team.schema.json\n\n\
        Editors that know TOML schemas (Taplo, Even Better TOML) find it by the first line of a team file:\n  \
        #:schema ./team.schema.json")]
    Schema {
        /// The kind of file.
        #[arg(value_enum, default_value_t = DescribedFile::Team)]
        file: DescribedFile,
    },
    /// Manage the shelf: components that teams refer to by name and version, `skill = "name@version"`.
    #[command(subcommand, name = "shelf", alias = "skill")]
    Skill(SkillCommand),
    /// Check this machine for what teams need: toolchains, the cache, the shelf, the disk.
    Doctor(DoctorArgs),
    /// List the caches with their sizes, or remove what is in them.
    Clean(CleanArgs),
    /// Print a shell completion script.
    #[command(after_help = "Examples:\n  \
        strata-host completions bash > ~/.local/share/bash-completion/completions/strata-host\n  \
        strata-host completions fish > ~/.config/fish/completions/strata-host.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command.
    #[command(
        after_help = "Examples:\n  strata-host man ~/.local/share/man/man1 && man strata-host-run"
    )]
    Man {
        /// The directory to write to. It is created if it is missing.
        dir: PathBuf,
    },
    /// Create a small action or team that builds and runs as it is.
    New(NewArgs),
    /// Make the files that are installed with the program, for those who package it.
    #[command(hide = true)]
    Prebuild(PrebuildArgs),
    /// Print where the SDK of a language is, for tests, editors and other build tools.
    #[command(after_help = "Examples:\n  strata-host sdk wit")]
    Sdk {
        /// The language: `rust`, `python`, `js` (`ts` has the same) or `c`; or `wit` for the interfaces that all
        /// languages share.
        #[arg(value_name = "LANG")]
        name: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DescribedFile {
    /// A team file.
    Team,
    /// An operator's policy.
    Policy,
    /// Scripted replies of a model.
    Replies,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host check team.toml\n  strata-host check team.toml --deny-warnings\n  strata-host check team.toml --json | jq '.[].host_calls'"
)]
pub(super) struct CheckArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(super) team: PathBuf,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Print the policy as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Fail, with exit code 2, if there is a warning.
    #[arg(long)]
    pub(super) deny_warnings: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host lock team.toml\n\n\
    A team file and those beside it share one strata.lock. After an intended change, run `lock` again.")]
pub(super) struct LockArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(super) team: PathBuf,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host graph team.toml --format svg > team.svg\n  \
    strata-host graph team.toml --format dot | dot -Tpng > team.png"
)]
pub(super) struct GraphArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(super) team: PathBuf,
    /// The output format.
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
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_parser = saved_path())]
    pub(super) path: StorageLocation,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host send store --cause UserRequirement \"another idea\"\n  strata-host send store --cause Review --to Editor \"looks good\"\n  strata-host send store --cause Review --file page.png \"what about this?\"\n  strata-host send store --cause Order --idempotency-key order-17 - < order.json"
)]
pub(super) struct SendArgs {
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_parser = saved_path())]
    pub(super) path: StorageLocation,
    /// The message's label.
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub(super) cause: String,
    /// A recipient; without any, every role that watches the label.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(super) to: Vec<String>,
    /// A key of your choice for this message: a message sent again with the same key is not published again.
    #[arg(long, value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) idempotency_key: Option<String>,
    /// Add an image or a file to the message. Actions and models receive it as a part of it.
    #[arg(long, value_name = "PATH")]
    pub(super) file: Vec<PathBuf>,
    /// Print the result as JSON: `id`, `to`, `dead`, `known`.
    #[arg(long)]
    pub(super) json: bool,
    /// The text; `-` reads it from stdin.
    pub(super) content: String,
}

#[derive(Args)]
#[command(
    after_help = "An answer is a JSON document. Where the question is answered by text, plain text will do. All answers are taken, \
    or none.\n\nExamples:\n  strata-host answer store ask-1-1-0-0=42 'ask-1-2-0-0=looks good'"
)]
pub(super) struct AnswerArgs {
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_parser = saved_path())]
    pub(super) path: StorageLocation,
    /// The request and its answer. `inspect` shows the open requests.
    #[arg(value_name = "REQUEST=JSON", required = true)]
    pub(super) answers: Vec<String>,
    /// Print one JSON object a line for each answer: `request`, `role`, `place`.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host describe                     # every interface of the host\n  \
    strata-host describe plugins/probe       # a directory of source\n  \
    strata-host describe count_words.py      # a script\n  \
    strata-host describe write-code@1.0.0    # a skill\n  \
    strata-host describe | jq '.interfaces.llm.functions.complete.parameters'"
)]
pub(super) struct DescribeArgs {
    /// A component, a directory with the source of one, a script, a skill (`name@1.0.0`), or a built-in component
    /// (`builtin:probe`). Without it, the interfaces of the host and every skill.
    pub(super) component: Option<PathBuf>,
    #[command(flatten)]
    pub(super) shelf: ShelfArgs,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host inspect workspace/storage/team\n  strata-host inspect store@main-1 --json | jq .env.roles\n  \
        strata-host inspect store --action Coder.Write\n  strata-host inspect store --calls\n  strata-host inspect store --message idea"
)]
pub(super) struct InspectArgs {
    /// The storage directory, its team.json or the URL of a run in a database, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]", value_parser = parse_expanded)]
    pub(super) path: String,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Show this checkpoint instead of the newest state.
    #[arg(long, value_name = "ID")]
    pub(super) checkpoint: Option<String>,
    /// Show one action: its state, what it used, its last output, its fault. `ROLE.think` is what chooses for a role,
    /// `ROLE.turn` and `ROLE.summary` are its model and what summarises, `ROLE.TOOL` is a tool without a component.
    #[arg(long, value_name = "ROLE.ACTION", allow_hyphen_values = true)]
    pub(super) action: Option<String>,
    /// Show the recorded host calls and their results, oldest first; with `--action`, those of one action.
    #[arg(long, conflicts_with = "checkpoint")]
    pub(super) calls: bool,
    /// Show one message in full.
    #[arg(long, value_name = "ID", conflicts_with_all = ["action", "calls"])]
    pub(super) message: Option<String>,
    /// Show the newest conversation of a role whose model works with tools: turns, tool calls, results. With `--json`, all
    /// of them, oldest first, one JSON object per line.
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["action", "calls", "message"])]
    pub(super) conversation: Option<String>,
    /// Print the state as a `team.json`, from which a run can be resumed elsewhere. A database has no such file.
    #[arg(long, conflicts_with_all = ["action", "calls", "message", "conversation", "json"])]
    pub(super) team_json: bool,
}

#[derive(Args)]
#[command(
    after_help = "A role at fault is tried again with the fixed component. For any other change, the run goes back to the \
    checkpoint before its first use; what came after stays saved, in its own lineage. A change of roles, routes or the \
    idea starts a new run.\n\nExamples:\n  strata-host dev team.toml\n  strata-host dev team.toml \"write a snake game\"\n  \
    strata-host dev team.toml --storage workspace/storage/hello --until-done"
)]
pub(super) struct DevArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(super) team: PathBuf,
    /// The idea, instead of the one in the file; `-` reads it from stdin.
    pub(super) idea: Option<String>,
    /// The storage directory; `workspace/storage/NAME.dev` by default, by the team's name. A team saved there is resumed.
    #[arg(long, value_name = "DIR")]
    pub(super) storage: Option<PathBuf>,
    /// Write events to this file as they happen, one JSON object per line; `-` is stdout.
    #[arg(long, value_name = "FILE|-")]
    pub(super) events: Option<PathBuf>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// End as soon as the team is done, instead of waiting for the next change.
    #[arg(long)]
    pub(super) until_done: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host files store@main-3\n  strata-host files store@main-3 --to before\n\n\
    Files that no action ever wrote are not saved."
)]
pub(super) struct FilesArgs {
    /// The storage directory, its team.json or the URL of a run in a database, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]", value_parser = parse_expanded)]
    pub(super) path: String,
    /// Extract the files into this directory, which is created. Other files in it are left alone.
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host report store -o report.html\n  \
    strata-host report store@main-3 > then.html\n\n\
    The page is self-contained (no network, no server, no scripts but its own few lines) and can be e-mailed. It \
    shows what roles said and were told."
)]
pub(super) struct ReportArgs {
    /// The storage directory, its team.json or the URL of a run in a database, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]", value_parser = parse_expanded)]
    pub(super) path: String,
    /// The file to write; stdout by default.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct PrebuildArgs {
    /// The directory for the files, which is created.
    #[arg(long, value_name = "DIR")]
    pub(super) to: PathBuf,
    /// A language whose interpreter of scripts is included: `javascript` or `python`.
    #[arg(long, value_name = "LANG", value_parser = parse_script_language)]
    pub(super) interpreter: Vec<ScriptLanguage>,
    /// Directories with the sources of actions.
    #[arg(value_name = "ACTION")]
    pub(super) actions: Vec<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "The exit code is 0 if everything that every team needs is present, otherwise 1.\n\nExamples:\n  strata-host doctor\n  \
    strata-host doctor --json | jq '.[] | select(.state != \"good\")'"
)]
pub(super) struct DoctorArgs {
    /// A team file, whose MCP servers are looked for as well.
    #[arg(value_name = "TEAM")]
    pub(super) team: Option<PathBuf>,
    /// Where teams would be saved; the speed of its disk is measured.
    #[arg(long, value_name = "DIR", default_value = "workspace/storage")]
    pub(super) storage: PathBuf,
    /// A database in which runs would be kept, instead of the disk: `postgres://HOST/DATABASE`.
    #[arg(long, value_name = "URL", value_parser = saved_path())]
    pub(super) database: Option<StorageLocation>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "All of it is made again when it is needed, which takes time and perhaps a download.\n\n\
    Examples:\n  strata-host clean\n  strata-host clean python javascript\n  strata-host clean --all --dry-run"
)]
pub(super) struct CleanArgs {
    /// The parts to remove, by the names in the list. Without any, the list alone is printed.
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub(super) parts: Vec<String>,
    /// Remove all parts.
    #[arg(long)]
    pub(super) all: bool,
    /// Say how much would be removed, and remove nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print the list as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

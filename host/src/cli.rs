//! The command line: arguments, exit codes, and which command does what. A command a file, below.
//!
//! Data goes to stdout, everything else to stderr.

mod answer;
mod build;
mod check;
mod checkpoints;
mod diff;
mod events;
mod fork;
mod inspect;
mod joins;
mod prompt;
mod prune;
mod reporter;
mod requests;
mod run;
mod send;
mod signals;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use strata_core::event::{CallPolicy, Status};

use crate::driver::{DriverError, WhenIdle};
use crate::manifest::{Diagnostics, Paint};

/// Runs teams of agents whose every action is a sandboxed WebAssembly component.
#[derive(Parser)]
#[command(name = "strata-host", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log more to stderr; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Run a team, or go on with a saved one.
    Run(RunArgs),
    /// Validate a team and print what each of its actions may do. Nothing is run.
    Check(CheckArgs),
    /// Show what is saved: status, step, faults, mailboxes, joins, budget.
    Inspect(InspectArgs),
    /// List the checkpoints of a saved team, of all its lineages, oldest first.
    Checkpoints(SavedArgs),
    /// Print the recorded events of a saved team, one JSON object a line, oldest first.
    Events {
        /// The storage directory or its team.json.
        path: PathBuf,
        /// Those that lead to the newest state of this lineage instead of the current one.
        #[arg(long, value_name = "NAME")]
        lineage: Option<String>,
    },
    /// Begin another lineage at a checkpoint. What there is stays as it is.
    Fork(ForkArgs),
    /// Show where two lineages part, and how their states differ.
    Diff(DiffArgs),
    /// Forget old checkpoints and free the room that only they need.
    Prune(PruneArgs),
    /// Put a message into a saved team's environment.
    Send(SendArgs),
    /// Record answers for what a saved team asks people. `run --recover_path` then goes on.
    Answer(AnswerArgs),
    /// Build the action in a directory to a component and print its path.
    Build {
        /// The directory of its source.
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host run team.toml \"write a snake game\"\n  \
    strata-host run --recover_path workspace/storage/team\n  \
    strata-host run team.toml --recover_path store --component Engineer.WriteCode=mended.wasm")]
struct RunArgs {
    /// The team file (ends in .toml) and the idea (anything else). On resume both may be left out.
    #[arg(value_name = "TEAM.toml | IDEA", num_args = 0..=2)]
    words: Vec<String>,
    /// Go on with the team saved in this directory (or in its team.json).
    #[arg(long = "recover_path", alias = "recover-path", value_name = "PATH")]
    recover_path: Option<PathBuf>,
    /// Where a fresh run is saved.
    #[arg(long, value_name = "DIR", default_value = "./workspace/storage/team")]
    storage: PathBuf,
    /// What may be spent in all, in USD; 0 for no limit.
    #[arg(long, value_name = "USD")]
    investment: Option<f64>,
    /// How many steps may be made in all, resumes included; 0 for no limit. Holds for this call, not for later resumes.
    #[arg(long, value_name = "N")]
    max_steps: Option<u64>,
    /// How many actions may run at once. Holds for this call.
    #[arg(long, value_name = "N")]
    max_parallel: Option<usize>,
    /// Write events there as they happen, one JSON object a line; `-` is stdout.
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
    /// Record exchanges with language models, to be served again by `[llm] provider = "recorded"`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Which recorded host calls a new attempt is served.
    #[arg(long, value_enum, default_value = "auto")]
    calls: Calls,
    /// Use another component for an action (or for `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION=FILE")]
    component: Vec<String>,
    /// Answer what the saved team asks a person, then go on; as `answer` does.
    #[arg(long, value_name = "REQUEST=JSON", requires = "recover_path")]
    answer: Vec<String>,
    /// Refuse to resume with changed components.
    #[arg(long)]
    strict: bool,
    /// Go on from this checkpoint instead of the newest state. What came after it stays saved, in a lineage of its own.
    #[arg(long, value_name = "ID", requires = "recover_path")]
    checkpoint: Option<String>,
    /// When nothing is left to do, wait for messages (see `send`) until stopped.
    #[arg(long)]
    keep_alive: bool,
    /// What becomes of writes whose result is unknown: make them again (`redo`), go on without (`skip`), or take this
    /// response, in JSON, for theirs. For one of several: `ROLE.ACTION=…`, as `inspect` names it.
    #[arg(long, value_name = "redo|skip|VALUE", requires = "recover_path")]
    in_doubt: Vec<String>,
    /// Start anew although the storage holds an unfinished team. That one is set aside, not deleted.
    #[arg(long, conflicts_with = "recover_path")]
    force: bool,
    /// Print nothing but errors and faults.
    #[arg(short, long)]
    quiet: bool,
    /// Print a summary as JSON to stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Calls {
    /// It depends on how the earlier attempt ended.
    Auto,
    /// All of them.
    Reuse,
    /// None.
    Fresh,
}

impl RunArgs {
    fn when_idle(&self) -> WhenIdle {
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
struct CheckArgs {
    /// The team file.
    team: PathBuf,
    /// Print the policy as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SavedArgs {
    /// The storage directory or its team.json.
    path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct InspectArgs {
    #[command(flatten)]
    saved: SavedArgs,
    /// Show this checkpoint instead of the newest state.
    #[arg(long, value_name = "ID")]
    checkpoint: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host fork store --at main-1 --set tracking/k=9 --to branch\n  \
    strata-host fork store --at main-1 --set 'role/Engineer/plan=\"shorter\"'")]
struct ForkArgs {
    /// The storage directory or its team.json.
    path: PathBuf,
    /// The checkpoint it begins at.
    #[arg(long, value_name = "ID")]
    at: String,
    /// Put a value into a scope of the new lineage. A scope is that of the team file, or `role/NAME` for a role's own.
    #[arg(long, value_name = "SCOPE/KEY=JSON")]
    set: Vec<String>,
    /// Write it as a team of its own into this directory, instead of beside the others.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = "Each side is PATH for its newest state, or PATH@ID for a checkpoint or a lineage of it.\n\n\
    Examples:\n  strata-host diff store@main store@main.1\n  strata-host diff store branch\n\n\
    The exit code is 0 whether or not they differ.")]
struct DiffArgs {
    /// One side: a storage directory or its team.json, perhaps with @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]")]
    one: String,
    /// The other.
    #[arg(value_name = "PATH[@ID]")]
    other: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PruneArgs {
    /// The storage directory or its team.json.
    path: PathBuf,
    /// How many checkpoints to keep of each lineage, beside its first, where others leave it, and where somebody is
    /// waited for. Without it, what the team file says; where that keeps all, 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Print what was freed as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SendArgs {
    /// The storage directory or its team.json.
    path: PathBuf,
    /// The message's label.
    #[arg(long, value_name = "LABEL")]
    cause: String,
    /// A recipient; everyone who watches the label where none is named.
    #[arg(long, value_name = "NAME")]
    to: Vec<String>,
    /// The text.
    content: String,
}

#[derive(Args)]
#[command(after_help = "An answer is a JSON document. Where a text answers the question it may be given as it is:\n  \
    strata-host answer store ask-1-1-0-0=42 'ask-1-2-0-0=looks good'\n\
    All answers are taken, or none.")]
struct AnswerArgs {
    /// The storage directory or its team.json.
    path: PathBuf,
    /// What is answered, and how. `inspect` shows what is asked.
    #[arg(value_name = "REQUEST=JSON", required = true)]
    answers: Vec<String>,
}

/// Why a command failed, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command line or a file is wrong.
    fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// The machine failed us.
    fn internal(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// The saved state does not fit the team.
    fn unfit(message: impl Into<String>) -> Self {
        Self { code: 8, message: message.into() }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::usage(diagnostics.render(Paint::for_stderr()))
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Store(error) => error.into(),
            DriverError::Illegal(error) => Self::internal(error.to_string()),
        }
    }
}

/// The exit code of a run that ended with this status.
fn exit_code(status: Status) -> u8 {
    match status {
        Status::Done => 0,
        Status::Running => 1,
        Status::Failed => 3,
        Status::Waiting => 4,
        Status::OutOfBudget => 5,
        Status::Stalled => 6,
        Status::StepLimit => 7,
        Status::InDoubt => 10,
        Status::Interrupted => 130,
    }
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no error; clap knows.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    init_log(cli.verbose);
    let done = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::check(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Checkpoints(args) => checkpoints::checkpoints(&args),
        Command::Events { path, lineage } => events::events(&path, lineage.as_deref()),
        Command::Fork(args) => fork::fork(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Prune(args) => prune::prune(&args),
        Command::Send(args) => send::send(args),
        Command::Answer(args) => answer::answer(&args),
        Command::Build { dir } => build::build(&dir),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // What is rendered with its place in a file says so itself, perhaps in colour.
            let first = failure.message.lines().next().unwrap_or_default();
            let rendered = first.contains("error:") || first.starts_with('\u{1b}');
            let prefix = if rendered { "" } else { "error: " };
            note(format_args!("{prefix}{}", failure.message.trim_end()));
            ExitCode::from(failure.code)
        }
    }
}

fn init_log(verbose: u8) {
    let default = ["warn", "strata_host=debug,info", "trace"][usize::from(verbose.min(2))];
    let filter = tracing_subscriber::EnvFilter::try_from_env("STRATA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let ansi = std::env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
}

/// Writes a line of data to stdout. A reader that has gone away is no error.
fn print(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Tells the operator something, on stderr. That nobody listens any more stops no run.
fn note(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A text as one word of a shell's.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The beginning of a text, on one line, at most so many characters.
fn preview(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

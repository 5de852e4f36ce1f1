//! The command line of strata-host: dispatches commands and sets the exit code. Each command has a
//! file of its own; arguments are declared in `args`. What commands do is in the library
//! `strata-host`; its views are rendered here.
//!
//! Data is written to stdout, everything else to stderr.

mod answer;
mod args;
mod build;
mod check;
mod checkpoints;
mod clean;
mod describe;
mod dev;
mod diff;
mod doctor;
mod edit_notices;
mod end_report;
mod events;
mod events_sink;
mod failure;
mod fault_report;
mod files;
mod fork;
mod graph;
mod help;
mod inspect;
mod joins;
mod live_view;
mod lock;
mod manual;
mod metrics;
mod new;
mod progress;
mod prompt;
mod prune;
mod replay;
mod reply_view;
mod report;
mod reporter;
mod requests;
mod result;
mod run;
mod sanitize;
mod send;
mod signals;
mod skill;
mod suggested_command;
mod terminal;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use args::{
    AnswerArgs, CheckArgs, Command, DiffArgs, FilesArgs, ForkArgs, GraphArgs, GraphFormat,
    InspectArgs, LockArgs, PruneArgs, ReplayArgs, ReportArgs, RunArgs, SavedArgs, SendArgs,
};
use failure::{CommandFailure, exit_code};
use strata_host::children;
use strata_host::display_path::display_path;
use strata_host::excerpt::excerpt;
use strata_host::manifest::Paint;
use strata_host::shell::{shell_path, shell_word};
use strata_host::telemetry::SpanExport;
use strata_host::view::resume_arguments;
use suggested_command::shell_arguments;
use terminal::{Stream, note, print, print_json, print_line, print_text, report_notice, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Runs the command given by the arguments of the process, and returns its exit code.
pub fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == children::WATCH_ARGUMENT)
    {
        let storage = std::env::args_os().nth(2).map(PathBuf::from);
        children::run_watcher(storage, std::io::stdin(), std::io::stdout());
        return ExitCode::SUCCESS;
    }
    children::enable_watcher();
    let cli = match help::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are written to stdout and are not errors; clap distinguishes them.
            let printed = error.print().or_else(terminal::ignore_broken_pipe);
            return to_exit_code(if error.use_stderr() {
                Ok(2)
            } else {
                printed.map(|()| 0).map_err(CommandFailure::stdout_error)
            });
        }
    };
    let exporting = init_log(cli.verbose);
    let _ = raise_open_file_limit();
    let done = match cli.command {
        Command::Run(args) => run::run(args, cli.verbose),
        Command::Dev(args) => dev::dev(&args),
        Command::Check(args) => check::check(&args),
        Command::Lock(args) => lock::lock(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Checkpoints(args) => checkpoints::checkpoints(&args),
        Command::Events {
            path,
            lineage,
            follow,
        } => events::events(&path, lineage.as_deref(), follow),
        Command::Files(args) => files::files(&args),
        Command::Fork(args) => fork::fork(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Prune(args) => prune::prune(&args),
        Command::Replay(args) => replay::replay(args),
        Command::Report(args) => report::report(&args),
        Command::Send(args) => send::send(args),
        Command::Answer(args) => answer::answer(&args),
        Command::Graph(args) => graph::graph(&args),
        Command::Build { dir } => build::build(&dir),
        Command::Describe(args) => describe::describe(&args),
        Command::Schema => describe::schema(),
        Command::Skill(command) => skill::skill(&command),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Clean(args) => clean::clean(&args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { dir } => manual::pages(&dir),
        Command::New(args) => new::new(&args),
        Command::Sdk { name } => new::sdk(&name),
    };
    exporting.finish();
    to_exit_code(done.and_then(|code| {
        terminal::take_stdout_error()
            .map(|()| code)
            .map_err(CommandFailure::stdout_error)
    }))
}

/// Raises the soft limit of open files if the hard limit permits it. All concurrent attempts and
/// their guests share the limit.
fn raise_open_file_limit() -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// A higher limit slows down programs that iterate over all possible descriptors.
    const ENOUGH: u64 = 1 << 16;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match current {
        Some(current) if current < ENOUGH => {
            let more = maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
            setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(more),
                    maximum,
                },
            )
        }
        _ => Ok(()),
    }
}

/// Reports the failure of a command, if there is one, and returns the exit code.
fn to_exit_code(done: Result<u8, CommandFailure>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code)
        }
    }
}

fn init_log(verbose: u8) -> SpanExport {
    // Spans are for collectors; on stderr, lines suffice.
    let default =
        ["warn", "strata_host=debug,info,strata=off", "trace"][usize::from(verbose.min(2))];
    let filter = EnvFilter::try_from_env("STRATA_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let ansi = terminal::paint() == Paint::Colour;
    let log = tracing_subscriber::fmt::layer()
        .with_writer(|| Stream::Log)
        .with_ansi(ansi)
        .with_filter(filter);
    let exporting = SpanExport::start().unwrap_or_else(|why| {
        warn(why);
        SpanExport::default()
    });
    tracing_subscriber::registry()
        .with(log)
        .with(exporting.layer())
        .init();
    exporting
}

/// Writes a document to stdout as indented JSON.
fn print_json_document(document: &impl serde::Serialize) -> Result<(), CommandFailure> {
    print_json(
        &serde_json::to_string_pretty(document)
            .map_err(|error| CommandFailure::internal(error.to_string()))?,
    );
    Ok(())
}

/// Returns the arguments that resume the team saved at `path`, for a shell.
fn recover_args(path: &Path, policy: Option<&Path>) -> String {
    shell_arguments(&resume_arguments(path, policy))
}

/// Formats a number with a noun in the singular or plural.
fn pluralize(n: impl Into<u64>, what: &str) -> String {
    let n = n.into();
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// Returns a path for display: relative to the current directory if it is below it.
fn display_relative_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = PathBuf::from(display_path(path));
    path.strip_prefix(&here)
        .unwrap_or(&path)
        .display()
        .to_string()
}

/// Returns at most the first `most` characters of a text, on one line and without control
/// characters.
fn preview(text: &str, most: usize) -> String {
    sanitize::sanitize(&excerpt(text, most))
}

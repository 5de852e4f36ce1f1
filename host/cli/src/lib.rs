//! The command line of strata-host: dispatches commands and sets the exit code. Each command has a
//! file of its own; arguments are declared in `args`. What commands do is in the library
//! `strata-host`; its views are rendered here.
//!
//! Data is written to stdout, everything else to stderr.

mod adopt;
mod advice;
mod answer;
mod args;
mod build;
mod bulk;
mod check;
mod checkpoints;
mod clean;
mod database;
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
mod given_text;
mod graph;
mod guest_lines;
mod help;
mod in_use;
mod inspect;
mod joins;
mod live_view;
mod lock;
mod manual;
mod mcp;
mod metrics;
mod missing_worker;
mod new;
mod prebuild;
mod printer;
mod progress;
mod prompt;
mod prune;
mod remote;
mod replay;
mod reply_view;
mod report;
mod reporter;
mod requests;
mod result;
mod resume;
mod run;
mod run_at_server;
mod runs;
mod sanitize;
mod send;
mod serve;
mod signals;
mod skill;
mod submit;
mod token;
mod trial;
mod wait;
mod watch;
mod worker;
mod worker_log;
mod workers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strata_host::children;
use strata_host::driver::Halt;
use strata_host::excerpt::excerpt;
use strata_host::operate::FollowUntil;
use strata_host::process_cache;
use strata_host::shell::{shell_path, shell_word};
use strata_host::telemetry::TelemetryExport;
use strata_host::view::resume_arguments;
use strata_host::wording::shell_arguments;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use args::{
    AnswerArgs, CheckArgs, Cli, Command, DiffArgs, FilesArgs, ForkArgs, GraphArgs, GraphFormat,
    InspectArgs, LockArgs, PruneArgs, ReplayArgs, ReportArgs, RunArgs, SavedArgs, SendArgs,
};
use failure::{CommandFailure, exit_code};
use guest_lines::GuestLines;
use printer::{LogWriter, Printer};

/// Why a part of what was spent is an estimate.
const LOST_ANSWERS: &str = "calls whose answers were lost are charged as they were estimated";

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
    let printer = &Printer::for_process();
    let cli = match help::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are written to stdout and are not errors; clap distinguishes them.
            let printed = error.print().or_else(printer::ignore_broken_pipe);
            let done = if error.use_stderr() {
                Ok(2)
            } else {
                printed.map(|()| 0).map_err(CommandFailure::stdout_error)
            };
            return to_exit_code(done, printer);
        }
    };
    let exporting = init_log(&cli, printer);
    let _ = raise_open_file_limit();
    let done = run_command(with_telemetry(cli, &exporting), printer);
    exporting.finish();
    process_cache::remove();
    let done = done.and_then(|code| {
        let printed = printer.take_stdout_error();
        printed.map(|()| code).map_err(CommandFailure::stdout_error)
    });
    to_exit_code(done, printer)
}

/// Lets a command that runs a team apply what the team says about telemetry.
fn with_telemetry(mut cli: Cli, export: &TelemetryExport) -> Cli {
    let telemetry = match &mut cli.command {
        Command::Run(args) => &mut args.telemetry,
        Command::Resume(args) => &mut args.telemetry,
        Command::Mcp(args) => &mut args.telemetry,
        _ => return cli,
    };
    *telemetry = export.clone();
    cli
}

/// Runs a command, and returns its exit code.
fn run_command(cli: Cli, printer: &Printer) -> Result<u8, CommandFailure> {
    if let Some(url) = &cli.server {
        return remote::run(cli.command, url, printer);
    }
    match cli.command {
        Command::Run(args) => run::run(args, cli.verbose, printer),
        Command::Dev(args) => dev::dev(args, printer),
        Command::Try(args) => trial::run(&args, cli.verbose, printer),
        Command::Check(args) => check::check(&args, printer),
        Command::Lock(args) => lock::lock(&args, printer),
        Command::Inspect(args) => inspect::inspect(&args, printer),
        Command::Checkpoints(args) => checkpoints::checkpoints(&args, printer),
        Command::Events {
            path,
            lineage,
            follow,
            until_rest,
        } => {
            let until = if until_rest {
                FollowUntil::Rest
            } else {
                FollowUntil::End
            };
            let until = follow.then_some(until);
            events::events(&path, lineage.as_deref(), until, printer)
        }
        Command::Files(args) => files::files(&args, printer),
        Command::Fork(args) => fork::fork(&args, printer),
        Command::Diff(args) => diff::diff(&args, printer),
        Command::Prune(args) => prune::prune(&args, printer),
        Command::Replay(args) => replay::replay(args, printer),
        Command::Report(args) => report::report(&args, printer),
        Command::Send(args) => send::send(args, printer),
        Command::Answer(args) => answer::answer(&args, printer),
        Command::Submit(args) => submit::submit(args, printer),
        Command::Adopt(args) => adopt::adopt(args, printer),
        Command::Worker(args) => worker::worker(args, printer),
        Command::Mcp(args) => mcp::mcp(args, printer),
        Command::Serve(args) => serve::serve_runs(args, printer),
        Command::Token(command) => token::token(command, printer),
        Command::Delete(args) => bulk::delete(&args, printer),
        Command::Cancel(args) => bulk::halt(&args, Halt::Cancel, printer),
        Command::Pause(args) => bulk::halt(&args, Halt::Pause, printer),
        Command::Resume(args) => resume::resume(args, cli.verbose, printer),
        Command::Wait(args) => wait::wait(&args, printer),
        Command::Workers(args) => workers::workers(&args, printer),
        Command::Runs(args) => runs::runs(&args, printer),
        Command::Database(command) => database::database(command, printer),
        Command::Graph(args) => graph::graph(&args, printer),
        Command::Build { dir } => build::build(&dir, printer),
        Command::Describe(args) => describe::describe(&args, printer),
        Command::Schema { file } => describe::schema(file, printer),
        Command::Skill(command) => skill::skill(&command, printer),
        Command::Doctor(args) => doctor::doctor(&args, printer),
        Command::Clean(args) => clean::clean(&args, printer),
        Command::Completions { shell } => manual::completions(shell, printer),
        Command::Man { dir } => manual::pages(&dir, printer),
        Command::New(args) => new::new(&args, printer),
        Command::Sdk { name } => new::sdk(&name, printer),
        Command::Prebuild(args) => prebuild::run(&args, printer),
    }
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
fn to_exit_code(done: Result<u8, CommandFailure>, printer: &Printer) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print(printer);
            ExitCode::from(failure.code)
        }
    }
}

fn init_log(cli: &Cli, printer: &Printer) -> TelemetryExport {
    // Who tries an action wants to see what it prints while it runs.
    let shows_guests = match &cli.command {
        Command::Dev(_) => true,
        Command::Try(args) => !args.quiet,
        _ => false,
    };
    // Spans are for collectors; on stderr, lines suffice.
    let default = match cli.verbose {
        // What clients of this program do wrong is told to them.
        0 => "warn,rmcp=error",
        1 => "strata_=debug,info,strata=off",
        _ => "trace",
    };
    let own = EnvFilter::try_from_env("STRATA_LOG").ok();
    let guests = (shows_guests && cli.verbose == 0 && own.is_none()).then(|| guest_log(printer));
    let others = if guests.is_some() {
        "warn,rmcp=error,guest=off"
    } else {
        default
    };
    let structured = match &cli.command {
        Command::Worker(args) => args.log,
        _ => None,
    };
    let lines = structured.map(|format| {
        let most = match cli.verbose {
            0 => Level::WARN,
            1 => Level::DEBUG,
            _ => Level::TRACE,
        };
        worker_log::traced_lines(format, most, printer)
    });
    let writer = printer.clone();
    let log = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter(writer.clone()))
        .with_ansi(printer.has_colours())
        .with_filter(own.unwrap_or_else(|| EnvFilter::new(others)));
    let log = structured.is_none().then_some(log);
    let exporting = TelemetryExport::from_environment().unwrap_or_else(|why| {
        printer.warn(why);
        TelemetryExport::default()
    });
    tracing_subscriber::registry()
        .with(log)
        .with(lines)
        .with(guests)
        .with(exporting.layer())
        .init();
    exporting
}

/// Returns what shows the lines of guests.
fn guest_log<S>(printer: &Printer) -> impl Layer<S> + use<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let writer = printer.clone();
    tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter(writer.clone()))
        .event_format(GuestLines)
        .with_filter(Targets::new().with_target(guest_lines::TARGET, Level::INFO))
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

/// Returns at most the first `most` characters of a text, on one line and without control
/// characters.
fn preview(text: &str, most: usize) -> String {
    sanitize::sanitize(&excerpt(text, most))
}

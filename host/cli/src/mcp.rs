//! `mcp`: offers a team, or components, as tools to clients of the Model Context Protocol.
//!
//! Over standard input and output, these two belong to the protocol alone: everything else that this
//! process and its children write or read goes elsewhere.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_host::launch::{Notice, storage_by_name};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::mcp_server::{
    HttpAccess, Offer, OfferedTeam, Principal, ReportNotice, serve_http, serve_streams,
};

use super::args::McpArgs;
use super::printer::Verbosity;
use super::run::block_on_run;
use super::signals::Signals;
use super::{CommandFailure, Printer};

/// The directory in which the runs of teams are kept, each team in one of its own.
const RUNS_PARENT: &str = "workspace/mcp";
/// How long runs may take to be saved after the input has ended. Calls have waited for theirs by then, so
/// these are runs of calls that were cancelled. What is recorded is durable in any case.
const INPUT_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long runs may take to be saved after a signal.
const SIGNAL_CLOSE_TIMEOUT: Duration = Duration::from_millis(4500);

pub(super) fn mcp(args: McpArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = printer.with_verbosity(verbosity);
    block_on_run(|_| async move {
        let signals = Signals::subscribe()?;
        let streams = match args.listen {
            None => Some(ProtocolStreams::take().map_err(|error| {
                CommandFailure::internal(format!(
                    "standard input and output cannot be used: {error}"
                ))
            })?),
            Some(_) => None,
        };
        let offer = offer(&args, &printer)?;
        signals.set_runs_started(Duration::ZERO);
        let mut stop = signals.stop.clone();
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let timeout = match (streams, args.listen) {
            (Some(streams), _) => serve_stdio(&offer, streams, stopped).await?,
            (None, Some(address)) => {
                serve_on_network(&offer, address, &args, stopped, &printer).await?
            }
            (None, None) => Duration::ZERO,
        };
        // What is not saved by then goes on from its last event.
        let _ = tokio::time::timeout(timeout, offer.close()).await;
        Ok(0)
    })
}

/// Serves the client that started this process. Returns how long runs may then take to be saved.
async fn serve_stdio(
    offer: &Offer,
    streams: ProtocolStreams,
    stopped: impl Future<Output = ()>,
) -> Result<Duration, CommandFailure> {
    let (input, output) = streams.into_async();
    let serving = serve_streams(offer, Principal::local(), input, output);
    tokio::select! {
        served = serving => served
            .map(|()| INPUT_CLOSE_TIMEOUT)
            .map_err(|error| CommandFailure::internal(format!("the client cannot be answered: {error}"))),
        () = stopped => Ok(SIGNAL_CLOSE_TIMEOUT),
    }
}

/// Serves HTTP until a signal. Returns how long runs may then take to be saved.
async fn serve_on_network(
    offer: &Offer,
    address: SocketAddr,
    args: &McpArgs,
    stopped: impl Future<Output = ()>,
    printer: &Printer,
) -> Result<Duration, CommandFailure> {
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let access = HttpAccess::new(address, token, args.host.clone())
        .map_err(|error| CommandFailure::usage(error.to_string()))?;
    let server = serve_http(offer, address, access).await;
    let server = server
        .map_err(|error| CommandFailure::usage(format!("cannot listen on `{address}`: {error}")))?;
    if !printer.is_quiet() {
        printer.note(format_args!(
            "serving MCP at http://{}/mcp",
            server.address()
        ));
    }
    stopped.await;
    // Results of calls that end now are still sent.
    let _ = tokio::time::timeout(SIGNAL_CLOSE_TIMEOUT, offer.close()).await;
    server.close().await;
    Ok(Duration::ZERO)
}

/// Reads a token: the first line of a file.
fn read_token(file: &Path) -> Result<String, CommandFailure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandFailure::usage(format!("cannot read `{name}`: {error}")))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        Err(CommandFailure::usage(format!(
            "`{name}` has no token in its first line"
        )))
    } else {
        Ok(token.to_owned())
    }
}

/// Prepares what is offered.
fn offer(args: &McpArgs, printer: &Printer) -> Result<Offer, CommandFailure> {
    let operators = in_force(args.policy.as_deref())?;
    let report: ReportNotice = {
        let printer = printer.clone();
        Arc::new(move |notice: Notice<'_>| match notice {
            Notice::Note(_) | Notice::Busy(_) if printer.is_quiet() => {}
            notice => printer.notice(notice),
        })
    };
    let (teams, components): (Vec<_>, Vec<_>) =
        args.words.iter().partition(|word| word.ends_with(".toml"));
    match (teams.as_slice(), components.as_slice()) {
        ([team], []) => {
            let team = PathBuf::from(team);
            let offered = OfferedTeam {
                storage: args.storage.clone().unwrap_or_else(|| runs_of(&team)),
                team,
                overrides: Overrides {
                    operators,
                    ..Overrides::default()
                },
                policy: args.policy.clone(),
                telemetry: args.telemetry.clone(),
            };
            Ok(Offer::team(offered, report)?)
        }
        ([], _) if args.storage.is_some() => Err(CommandFailure::usage(
            "`--storage` is for a team; nothing is kept of calls of components",
        )),
        ([], _) => Ok(Offer::components(&args.words, &operators, &report)?),
        _ => Err(CommandFailure::usage(
            "give one team file, or components; a server offers either",
        )),
    }
}

/// Returns the directory in which the runs of a team are kept if none is named.
fn runs_of(team: &Path) -> PathBuf {
    let by_name = storage_by_name(team);
    Path::new(RUNS_PARENT).join(by_name.file_name().unwrap_or_default())
}

/// Standard input and output of this process, taken from everything else.
struct ProtocolStreams {
    input: OwnedFd,
    output: OwnedFd,
}

impl ProtocolStreams {
    /// Takes the streams: from now on, what is printed goes to standard error, and whoever reads
    /// standard input finds its end.
    fn take() -> io::Result<Self> {
        let duplicate = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let input = duplicate(rustix::stdio::stdin())?;
        let output = duplicate(rustix::stdio::stdout())?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Self { input, output })
    }

    fn into_async(self) -> (tokio::fs::File, tokio::fs::File) {
        let file = |fd: OwnedFd| tokio::fs::File::from_std(File::from(fd));
        (file(self.input), file(self.output))
    }
}

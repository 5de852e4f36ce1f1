//! `--server`: commands that work through a server. What they print and their exit codes are those of the same commands
//! on a storage; runs are given by their names or ids.

mod control;
mod patience;
mod read;
mod selection;
mod submit;

use serde_json::Value;
use strata_host::driver::Halt;
use strata_server::client::{ApiAnswer, ApiRequest, ClientError, ServerClient, encode_name};

use super::args::Command;
use super::printer::Verbosity;
use super::{CommandFailure, Printer};
use patience::ServerPatience;
use selection::RunFinder;

/// The name of the option with the address of a server.
pub(super) const OPTION: &str = "server";
/// The commands that work through a server. [`run`] dispatches them.
const COMMANDS: [&str; 18] = [
    "answer",
    "cancel",
    "checkpoints",
    "delete",
    "diff",
    "events",
    "files",
    "fork",
    "inspect",
    "pause",
    "prune",
    "report",
    "resume",
    "runs",
    "send",
    "submit",
    "wait",
    "workers",
];
/// The variable with the token.
const TOKEN_VARIABLE: &str = "STRATA_TOKEN";

/// Returns whether the command with this name works through a server.
pub(super) fn works_remotely(command: &str) -> bool {
    COMMANDS.contains(&command)
}

/// Runs a command through the server at an address.
pub(super) fn run(command: Command, url: &str, printer: &Printer) -> Result<u8, CommandFailure> {
    let token = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    let is_text = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.as_ref().is_some_and(|token| !is_text(token)) {
        return Err(CommandFailure::usage(format!(
            "`${TOKEN_VARIABLE}` is no token: it has a space, a line break or another character that no token has"
        )));
    }
    let is_quiet = match &command {
        Command::Wait(args) => args.quiet,
        Command::Submit(args) => args.quiet,
        _ => false,
    };
    let quiet_printer = printer.with_verbosity(Verbosity::Quiet);
    let remote = Remote {
        client: ServerClient::new(url, token)?,
        printer: if is_quiet { &quiet_printer } else { printer },
    };
    match command {
        Command::Submit(args) => submit::submit(&remote, args),
        Command::Inspect(args) => remote.inspect(&args),
        Command::Events {
            path,
            lineage,
            follow,
            until_rest,
        } => {
            if lineage.is_some() || until_rest {
                let text = "a server streams the current lineage until the run has ended";
                return Err(CommandFailure::usage(text));
            }
            remote.events(&path, follow)
        }
        Command::Checkpoints(args) => remote.checkpoints(&args),
        Command::Runs(args) => remote.runs(&args),
        Command::Wait(args) => remote.wait(&args),
        Command::Files(args) => remote.files(&args),
        Command::Diff(args) => remote.diff(&args),
        Command::Report(args) => remote.report(&args),
        Command::Workers(args) => remote.workers(&args),
        Command::Answer(args) => remote.answer(&args),
        Command::Send(args) => remote.send(args),
        Command::Cancel(args) => remote.halt(Halt::Cancel, &args.selection),
        Command::Pause(args) => remote.halt(Halt::Pause, &args.selection),
        Command::Delete(args) => remote.delete(&args),
        Command::Resume(args) => remote.resume(&args),
        Command::Prune(args) => remote.prune(&args),
        Command::Fork(args) => remote.fork(&args),
        Command::Run(_) => Err(CommandFailure::usage(
            "`run` does not work through a server; `submit --wait` runs a team there",
        )),
        _ => Err(CommandFailure::usage(
            "this command does not work through a server; leave `--server` away",
        )),
    }
}

/// A server, and where what is found there is printed.
struct Remote<'a> {
    client: ServerClient,
    printer: &'a Printer,
}

impl Remote<'_> {
    /// Returns the path of what belongs to a run.
    fn path_of(run: &str, rest: &str) -> String {
        format!("/v1/runs/{}{rest}", encode_name(run))
    }

    /// Returns a document about a run.
    fn get(&self, run: &str, rest: &str) -> Result<Value, CommandFailure> {
        let path = Self::path_of(run, rest);
        Ok(self.client.send(ApiRequest::new("GET", &path))?.value())
    }

    /// Sends a request that changes nothing, and again while the server is away.
    fn send_patiently(&self, path: &str) -> Result<ApiAnswer, ClientError> {
        let mut patience = ServerPatience::default();
        loop {
            let answer = self.client.send(ApiRequest::new("GET", path));
            if let Some(answer) = patience.accept(answer)? {
                return Ok(answer);
            }
        }
    }

    /// Returns what finds the runs that a command means.
    fn finder(&self) -> RunFinder<'_> {
        RunFinder { remote: self }
    }

    /// Returns all entries of a list.
    fn list(&self, path: &str, query: &[(String, String)]) -> Result<Vec<Value>, CommandFailure> {
        let (mut items, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut request = ApiRequest::new("GET", path).with("limit", "500");
            for (name, value) in query {
                request = request.with(name, value);
            }
            if let Some(after) = &after {
                request = request.with("after", after);
            }
            let page = self.client.send(request)?.value();
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(items);
            }
        }
    }
}

/// Returns the failure for an answer of the server that this program does not understand.
fn not_understood(what: &str) -> CommandFailure {
    CommandFailure::internal(format!(
        "the server describes {what} otherwise than this program understands; use its version of strata-host"
    ))
}

/// Whether a server refuses to make a run because another one has its name.
fn is_name_taken(problem: &Value) -> bool {
    let kind = problem["type"].as_str();
    kind.is_some_and(|kind| kind.ends_with(":name-taken"))
}

/// Returns the answer to a request that makes a run. If it was refused because of the name, the failure says that.
fn answer_for_name(
    sent: Result<ApiAnswer, ClientError>,
    name: Option<&str>,
) -> Result<ApiAnswer, CommandFailure> {
    match (sent, name) {
        (Err(ClientError::Refused { problem, .. }), Some(name)) if is_name_taken(&problem) => {
            Err(CommandFailure::usage(format!(
                "the server has a run of the name `{name}` already; give this one another name"
            )))
        }
        (sent, _) => Ok(sent?),
    }
}

impl From<ClientError> for CommandFailure {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Refused { status: 401, .. } => Self::usage(format!(
                "{text}; put the token into `${TOKEN_VARIABLE}`, or note it in `servers.toml`"
            )),
            // What a process works on, or somebody does at the same time.
            ClientError::Refused { status: 409, .. } => Self::conflict(text),
            ClientError::Refused { status, .. } if status < 500 => Self::usage(text),
            ClientError::Address { .. } | ClientError::Tokens { .. } => Self::usage(text),
            ClientError::Refused { .. }
            | ClientError::Unreachable { .. }
            | ClientError::NotUnderstood(_)
            | ClientError::System(_) => Self::internal(text),
        }
    }
}

//! Commands that read.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use strata_core::record::event::Status;
use strata_host::clock::stopwatch;
use strata_host::difference::StateDifference;
use strata_host::launch::load_saved_with_provenance;
use strata_host::open;
use strata_host::storage::{ListedWorker, StateSelector, StorageLocation, WorkerProfile};
use strata_host::view::{EndedRun, FileChangeView, RunOutput, RunRow, calls_command};
use strata_server::client::{ApiRequest, ClientError, StreamEnd};

use super::patience::{RETRY_DELAY, ServerPatience};
use super::selection::ListedRun;
use super::{Remote, not_understood};
use crate::args::{
    DiffArgs, FilesArgs, InspectArgs, ReportArgs, RunsArgs, SavedArgs, WaitArgs, WorkersArgs,
};
use crate::diff::ComparedSide;
use crate::end_report::EndReport;
use crate::inspect::{inspect_copy, is_call_of, show_calls};
use crate::result::show_output;
use crate::run_at_server::{RunAtServer, add_server, cap_reached, continuation_at_server, row_of};
use crate::sanitize::sanitize;
use crate::{CommandFailure, checkpoints, diff, exit_code, files, runs, workers};

/// How often it is looked at whether a run rests.
const WAIT_INTERVAL: Duration = Duration::from_millis(250);
/// The exit code if the time is over first, as that of `timeout`.
const TIME_OVER: u8 = 124;
/// The exit code of a run that workers refuse.
const REFUSED: u8 = 2;
/// The state of a run that was deleted while it was waited for.
const DELETED: &str = "deleted";

/// A copy of the state of a run, in a directory that is removed afterwards.
struct StateCopy {
    directory: tempfile::TempDir,
}

impl StateCopy {
    /// Returns a copy of a state from the document in which a server gives it.
    fn of_document(bytes: Vec<u8>) -> Result<Self, CommandFailure> {
        let failed = |error: std::io::Error| {
            CommandFailure::internal(format!("cannot copy the state of the run: {error}"))
        };
        let directory = tempfile::tempdir().map_err(failed)?;
        let copy = Self { directory };
        let text = String::from_utf8(bytes)
            .map_err(|_| CommandFailure::internal("the state of the run is not UTF-8"))?;
        copy.location().place_team_json(&text)?;
        Ok(copy)
    }

    fn location(&self) -> StorageLocation {
        StorageLocation::new(self.directory.path())
    }
}

impl Remote<'_> {
    /// Copies the state of a run, the newest one or that of a checkpoint.
    fn copy_state(&self, run: &str, at: Option<&str>) -> Result<StateCopy, CommandFailure> {
        let rest = match at {
            Some(at) => format!("/checkpoints/{}", strata_server::client::encode_name(at)),
            None => "/team.json".to_owned(),
        };
        let path = Self::path_of(run, &rest);
        let bytes = self.client.send(ApiRequest::new("GET", &path))?.body;
        StateCopy::of_document(bytes)
    }

    pub(super) fn inspect(&self, args: &InspectArgs) -> Result<u8, CommandFailure> {
        let (run, at) = split_at(&args.path, args.checkpoint.as_deref());
        if args.calls {
            return self.inspect_calls(run, args);
        }
        if let (Some(id), true) = (&args.message, args.json) {
            let id = strata_server::client::encode_name(id);
            let message = self.get(run, &format!("/messages/{id}"))?;
            self.printer.print_json_line(&message)?;
            return Ok(0);
        }
        if let (Some(role), true) = (&args.conversation, args.json) {
            let query = [("role".to_owned(), role.clone())];
            for one in self.list(&Self::path_of(run, "/conversations"), &query)? {
                self.printer.print_json_line(&one)?;
            }
            return Ok(0);
        }
        let copy = self.copy_state(run, at)?;
        if args.json && args.action.is_none() {
            let document = std::fs::read_to_string(copy.location().team_json_path());
            let mut document: Value = document
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default();
            document["run"] = self.get(run, "")?;
            self.printer.print_document(&document)?;
            return Ok(0);
        }
        let document = self.get(run, "")?;
        let served = RunAtServer::new(run, at, self.client.url(), &document)
            .ok_or_else(|| not_understood("a run"))?;
        inspect_copy(&copy.location(), &served, args, self.printer)
    }

    fn inspect_calls(&self, run: &str, args: &InspectArgs) -> Result<u8, CommandFailure> {
        let calls = self.list(&Self::path_of(run, "/calls"), &[])?;
        let action = args.action.as_deref();
        if !args.json {
            let mut in_full = calls_command(Path::new(run), action);
            add_server(&mut in_full, self.client.url());
            return show_calls(calls, action, &in_full, self.printer).map(|()| 0);
        }
        for call in calls.iter().filter(|call| is_call_of(call, action)) {
            self.printer.print_json_line(call)?;
        }
        Ok(0)
    }

    pub(super) fn events(&self, run: &str, is_followed: bool) -> Result<u8, CommandFailure> {
        let path = Self::path_of(run, "/events");
        if !is_followed {
            for event in self.list(&path, &[])? {
                self.printer.print_json(&event.to_string());
            }
            return Ok(0);
        }
        let mut last = String::new();
        let mut patience = ServerPatience::default();
        loop {
            let mut request = ApiRequest::new("GET", &path);
            if !last.is_empty() {
                request = request.header("last-event-id", &last);
            }
            let printer = self.printer;
            let read = self.client.read_stream(request, &mut |message| {
                patience.reset();
                if message.name.is_empty() {
                    last.clone_from(&message.id);
                    printer.print_json(&message.data);
                }
                !printer.is_stdout_closed()
            });
            match patience.accept(read)? {
                Some(StreamEnd::Over) => return Ok(0),
                Some(StreamEnd::BrokenOff) => sleep(RETRY_DELAY),
                None => {}
            }
        }
    }

    pub(super) fn checkpoints(&self, args: &SavedArgs) -> Result<u8, CommandFailure> {
        let run = args.path.path().to_string_lossy();
        let items = self.list(&Self::path_of(&run, "/checkpoints"), &[])?;
        if args.json {
            self.printer.print_json_line(&items)?;
        } else {
            checkpoints::show(&items, self.printer);
        }
        Ok(0)
    }

    pub(super) fn runs(&self, args: &RunsArgs) -> Result<u8, CommandFailure> {
        if args.has_places() {
            let text = "through a server, `runs` lists the runs of that; leave the places away";
            return Err(CommandFailure::usage(text));
        }
        let mut items = self.finder().find_runs(&args.filter)?;
        // A server lists the runs in the order in which they were created.
        items.sort_by(|one, other| other.changed().cmp(&one.changed()));
        items.truncate(args.filter().limit);
        let describe = |run: ListedRun| {
            let row = row_of(&run.document, &run.place);
            Ok((run, row.ok_or_else(|| not_understood("a run"))?))
        };
        let rows: Result<Vec<(ListedRun, RunRow)>, CommandFailure> =
            items.into_iter().map(describe).collect();
        if args.json {
            for (run, row) in rows? {
                self.printer
                    .print_json_line(&with_row(run.document, &row))?;
            }
            return Ok(0);
        }
        let rows = rows?.into_iter().map(|(run, row)| {
            let by = run.document["by"].as_str().map(str::to_owned);
            let name = run.place;
            (RunRow { name, ..row }, by.unwrap_or_else(runs::none))
        });
        runs::show("by", rows, self.printer);
        Ok(0)
    }

    pub(super) fn wait(&self, args: &WaitArgs) -> Result<u8, CommandFailure> {
        let start = stopwatch();
        let mut waiting: Vec<String> = args
            .places
            .iter()
            .map(|place| place.path().to_string_lossy().into_owned())
            .collect();
        let is_single = waiting.len() == 1;
        let (mut code, mut seen) = (0, BTreeSet::new());
        let mut patience = ServerPatience::default();
        loop {
            let mut rested = Vec::new();
            for run in &waiting {
                let path = Self::path_of(run, "");
                let view = match self.client.send(ApiRequest::new("GET", &path)) {
                    // It was there.
                    Err(ClientError::Refused { status: 404, .. }) if seen.contains(run) => {
                        json!({ "name": run, "state": DELETED, "status": null })
                    }
                    // The address may be wrong.
                    Err(error @ ClientError::Unreachable { .. }) if seen.is_empty() => {
                        return Err(error.into());
                    }
                    answer => match patience.accept(answer)? {
                        Some(answer) => answer.value(),
                        None => break,
                    },
                };
                seen.insert(run.clone());
                if is_at_rest(&view) {
                    rested.push((run.clone(), view));
                }
            }
            for (run, view) in rested {
                waiting.retain(|one| *one != run);
                if args.json {
                    self.printer.print_json_line(&view)?;
                } else if is_single {
                    return self.report_end(&run, &view);
                } else {
                    let status = view["status"].as_str().or(view["state"].as_str());
                    let status = status.unwrap_or("-");
                    self.printer
                        .print_text(&format!("{run}: {}", sanitize(status)));
                }
                code = code.max(code_of(&view));
                if args.any {
                    return Ok(code);
                }
            }
            if waiting.is_empty() {
                return Ok(code);
            }
            if args.timeout.is_some_and(|time| start.elapsed() >= time) {
                self.printer.note("the time is over");
                return Ok(TIME_OVER);
            }
            sleep(WAIT_INTERVAL);
        }
    }

    /// Reports the end of a run, like `run`.
    pub(super) fn report_end(&self, run: &str, view: &Value) -> Result<u8, CommandFailure> {
        if view["state"] == DELETED {
            let text = format!("there is no `{run}` any more: it is deleted");
            return Err(CommandFailure::usage(text));
        }
        if let Some(problem) = view["problem"].as_str() {
            return Err(CommandFailure::usage(format!(
                "`{run}` could not be run: {}",
                sanitize(problem)
            )));
        }
        let document = self.send_patiently(&Self::path_of(run, "/team.json"))?;
        let copy = StateCopy::of_document(document.body)?;
        let location = copy.location();
        let (saved, provenance) = load_saved_with_provenance(&location, &StateSelector::Head)?;
        let status = saved.stepper.env().status;
        // The document of the state does not have the cap above the run that stopped it.
        let mut env = saved.stepper.env().clone();
        env.cap_reached = cap_reached(view);
        let stepper = saved.stepper.with_env(env);
        let ended = EndedRun {
            stepper: &stepper,
            provenance: &provenance,
            storage: Path::new(run),
            policy: None,
            continuation: continuation_at_server(status),
        };
        EndReport::of_server(ended, status, self.client.url()).write(self.printer);
        if let Some(output) = RunOutput::from_stepper(&saved.stepper)
            && exit_code(status) == 0
        {
            show_output(&output.content, self.printer);
        }
        Ok(exit_code(status))
    }

    pub(super) fn files(&self, args: &FilesArgs) -> Result<u8, CommandFailure> {
        let (run, at) = split_at(&args.path, None);
        if args.to.is_some() {
            let text =
                "a server gives files one by one: `GET /v1/runs/RUN/files/PATH`; leave `--to` away";
            return Err(CommandFailure::usage(text));
        }
        let query: Vec<(String, String)> =
            at.map(|at| ("at".into(), at.into())).into_iter().collect();
        let path = Self::path_of(run, "/files");
        let mut request = ApiRequest::new("GET", &path);
        for (name, value) in &query {
            request = request.with(name, value);
        }
        let document = self.client.send(request)?.value();
        let items = document["items"].clone();
        if args.json {
            self.printer.print_json(&items.to_string());
            return Ok(0);
        }
        let changes: Vec<FileChangeView> =
            serde_json::from_value(items).map_err(|_| not_understood("files"))?;
        files::show(&changes, self.printer);
        Ok(0)
    }

    pub(super) fn diff(&self, args: &DiffArgs) -> Result<u8, CommandFailure> {
        let (run, at) = split_at(&args.one, None);
        let path = Self::path_of(run, "/diff");
        let mut request = ApiRequest::new("GET", &path).with("with", &args.other);
        if let Some(at) = at {
            request = request.with("at", at);
        }
        let document = self.client.send(request)?.value();
        if args.json {
            self.printer.print_json(&document.to_string());
            return Ok(0);
        }
        let served: ServedComparison =
            serde_json::from_value(document).map_err(|_| not_understood("a difference"))?;
        let [mut one, mut other] = [served.one, served.other];
        one.place = run.to_owned();
        other.place = split_at(&args.other, None).0.to_owned();
        let common = served.common.as_deref();
        diff::show(&[one, other], common, &served.difference, self.printer);
        Ok(0)
    }

    pub(super) fn report(&self, args: &ReportArgs) -> Result<u8, CommandFailure> {
        let (run, at) = split_at(&args.path, None);
        let path = Self::path_of(run, "/report");
        let mut request = ApiRequest::new("GET", &path);
        if let Some(at) = at {
            request = request.with("at", at);
        }
        let page = self.client.send(request)?.body;
        match &args.output {
            Some(file) => {
                let written = open::to_replace(file).and_then(|mut out| out.write_all(&page));
                written.map_err(|error| {
                    CommandFailure::internal(format!("cannot write `{}`: {error}", file.display()))
                })?;
                self.printer
                    .note(format_args!("the report is in `{}`", file.display()));
            }
            None => self
                .printer
                .print(String::from_utf8_lossy(&page).trim_end()),
        }
        Ok(0)
    }

    pub(super) fn workers(&self, args: &WorkersArgs) -> Result<u8, CommandFailure> {
        if args.command.is_some() || args.database.is_some() {
            let text = "through a server, `workers` lists those that work for it";
            return Err(CommandFailure::usage(text));
        }
        let mut document = self
            .client
            .send(ApiRequest::new("GET", "/v1/workers"))?
            .value();
        let served: Result<Vec<ServedWorker>, _> = serde_json::from_value(document["items"].take());
        let served = served.map_err(|error| {
            CommandFailure::internal(format!("the list of workers is not understood: {error}"))
        })?;
        let workers: Vec<ListedWorker> = served.into_iter().map(ListedWorker::from).collect();
        workers::show(&workers, args.json, self.printer)
    }
}

/// How two states differ, as a server describes it.
#[derive(Deserialize)]
struct ServedComparison {
    one: ComparedSide,
    other: ComparedSide,
    common: Option<String>,
    difference: StateDifference,
}

/// A worker, as a server lists it.
#[derive(Deserialize)]
struct ServedWorker {
    id: String,
    host: String,
    version: String,
    labels: Vec<String>,
    secrets: Vec<String>,
    room: usize,
    runs: u64,
    beat_age_ms: i64,
    draining: bool,
}

impl From<ServedWorker> for ListedWorker {
    fn from(served: ServedWorker) -> Self {
        Self {
            id: served.id,
            profile: WorkerProfile {
                host: served.host,
                labels: served.labels,
                secrets: served.secrets,
                room: served.room,
            },
            version: served.version,
            runs: served.runs,
            beat_age_ms: served.beat_age_ms,
            is_draining: served.draining,
        }
    }
}

/// Returns the document in which a server describes a run, with everything that `runs --json` prints of a run elsewhere.
fn with_row(item: Value, row: &RunRow) -> Value {
    let mut document = item;
    if let (Value::Object(fields), Ok(Value::Object(row))) =
        (&mut document, serde_json::to_value(row))
    {
        for (key, value) in row {
            fields.entry(key).or_insert(value);
        }
    }
    document
}

/// Splits the checkpoint or the lineage off a run.
fn split_at<'a>(text: &'a str, checkpoint: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match (text.rsplit_once('@'), checkpoint) {
        (_, Some(id)) => (text, Some(id)),
        (Some((run, at)), None) => (run, Some(at)),
        (None, None) => (text, None),
    }
}

/// Whether a run has ended, or goes on only if somebody does something.
pub(super) fn is_at_rest(view: &Value) -> bool {
    let state = &view["state"];
    ["ended", "resting", "refused", DELETED]
        .iter()
        .any(|one| *state == json!(one))
}

/// Returns the exit code that `run` would have.
pub(super) fn code_of(view: &Value) -> u8 {
    let status = view["status"].as_str().and_then(Status::from_name);
    match (view["state"].as_str(), status) {
        (Some("refused"), _) | (_, None) => REFUSED,
        (_, Some(status)) => exit_code(status),
    }
}

//! Commands that do something with runs.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Map, Value, json};
use strata_host::blob::digest_of;
use strata_host::clock::stopwatch;
use strata_host::driver::Halt;
use strata_host::launch::{PruneResult, StateEdit};
use strata_host::operate::{DeleteRuns, RunDeed};
use strata_host::storage::{Pruned, check_run_name};
use strata_server::client::{ApiRequest, ClientError};

use super::selection::NamedRun;
use super::{Remote, answer_for_name};
use crate::CommandFailure;
use crate::args::{
    AnswerArgs, DeleteArgs, ForkArgs, PruneArgs, ResumeArgs, RunOptions, SelectionArgs, SendArgs,
};
use crate::bulk::BulkTask;
use crate::given_text::read_content;
use crate::prune;
use crate::requests::parse_answer;
use crate::send::check_names;

/// For how long it is waited until a run that was cancelled has been given up, and how often that is looked at.
const GIVE_UP_TIME: Duration = Duration::from_secs(15);
const DELETE_INTERVAL: Duration = Duration::from_millis(100);

impl Remote<'_> {
    pub(super) fn answer(&self, args: &AnswerArgs) -> Result<u8, CommandFailure> {
        let mut answers = Map::new();
        for text in &args.answers {
            let reply = parse_answer(text)?;
            // A text is given as it is where the question takes one.
            let value = serde_json::from_str(&reply.text).unwrap_or(Value::String(reply.text));
            answers.insert(reply.request, value);
        }
        let run = args.path.path().to_string_lossy();
        let path = Self::path_of(&run, "/answers");
        let request = ApiRequest::new("POST", &path).json(Value::Object(answers));
        let answered = match self.client.send(request) {
            // An answer that is not taken is the user's.
            Err(error @ ClientError::Refused { status: 409, .. }) => {
                return Err(CommandFailure::usage(error.to_string()));
            }
            answered => answered?.value(),
        };
        for one in answered["answered"].as_array().into_iter().flatten() {
            if args.json {
                self.printer.print_json_line(&json!({
                    "request": one["request"], "role": one["role"], "place": run,
                }))?;
                continue;
            }
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            self.printer.note(format_args!(
                "request {} of {} is answered",
                text("request"),
                text("role")
            ));
        }
        Ok(0)
    }

    pub(super) fn send(&self, args: SendArgs) -> Result<u8, CommandFailure> {
        check_names(&args)?;
        let mut parts = Vec::new();
        for file in &args.file {
            let failed =
                |error| CommandFailure::usage(format!("cannot read `{}`: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(failed)?;
            let digest = format!("sha256:{}", digest_of(&bytes));
            self.upload(&digest, bytes)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            parts.push(json!({ "name": name, "digest": digest }));
        }
        let run = args.path.path().to_string_lossy().into_owned();
        let path = Self::path_of(&run, "/messages");
        let content = read_content(args.content)?;
        let mut request = ApiRequest::new("POST", &path).json(json!({
            "content": content, "cause": args.cause, "to": args.to, "parts": parts,
        }));
        if let Some(key) = args.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let sent = self.client.send(request)?.value();
        let names = |name: &str| -> Vec<String> {
            let list = sent[name].as_array().cloned().unwrap_or_default();
            list.iter()
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        let id = sent["id"].as_str().unwrap_or_default();
        match &names("to")[..] {
            _ if sent["known"] == true => self.printer.note(format_args!(
                "already received under this key as message {id}; it is not sent again"
            )),
            // Of recipients that were named and do not exist, a warning follows.
            [] if !args.to.is_empty() => {}
            [] => self.printer.warn(format_args!(
                "nobody watches `{}`: the message reached no mailbox",
                args.cause
            )),
            to => self.printer.note(format_args!(
                "message {id} is in the mailbox of {}",
                to.join(", ")
            )),
        }
        if args.json {
            self.printer.print_json(&sent.to_string());
        }
        for name in names("dead") {
            self.printer.warn(format_args!(
                "`{name}` takes no messages from outside: it is no role, alias or group of the team"
            ));
        }
        Ok(0)
    }

    /// Uploads a file, unless the server has it.
    pub(super) fn upload(&self, digest: &str, bytes: Vec<u8>) -> Result<(), CommandFailure> {
        let path = format!("/v1/blobs/{digest}");
        self.client
            .send(ApiRequest::new("PUT", &path).bytes(bytes))?;
        Ok(())
    }

    /// Ends or suspends each of the runs that are meant.
    pub(super) fn halt(&self, halt: Halt, selection: &SelectionArgs) -> Result<u8, CommandFailure> {
        let what = match halt {
            Halt::Cancel => "cancel",
            Halt::Pause => "pause",
        };
        let task = BulkTask::halt(selection, halt);
        self.for_each(task, &|run| {
            let path = Self::path_of(&run.address, &format!("/{what}"));
            match self.client.send(ApiRequest::new("POST", &path)) {
                Err(error @ ClientError::Refused { status: 409, .. }) => Err(
                    CommandFailure::usage(format!("cannot {what} `{}`: {error}", run.place)),
                ),
                done => Ok(done.map(drop)?),
            }
        })
    }

    pub(super) fn delete(&self, args: &DeleteArgs) -> Result<u8, CommandFailure> {
        let which = args.which();
        let task = BulkTask::delete(&args.selection, which);
        self.for_each(task, &|run| {
            match which {
                // A server deletes whatever is not worked on.
                DeleteRuns::Ended => self.finder().check(run, task.deed)?,
                DeleteRuns::All => {
                    let cancel = Self::path_of(&run.address, "/cancel");
                    match self.client.send(ApiRequest::new("POST", &cancel)) {
                        Err(ClientError::Refused { status: 409, .. }) | Ok(_) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            self.delete_one(run, args.force)
        })
    }

    /// Deletes a run. If it was cancelled, it is waited until whoever worked on it has given it up.
    fn delete_one(&self, run: &NamedRun, is_cancelled: bool) -> Result<(), CommandFailure> {
        let path = Self::path_of(&run.address, "");
        let start = stopwatch();
        loop {
            match self.client.send(ApiRequest::new("DELETE", &path)) {
                Err(ClientError::Refused { status: 409, .. })
                    if is_cancelled && start.elapsed() < GIVE_UP_TIME =>
                {
                    sleep(DELETE_INTERVAL);
                }
                done => return Ok(done.map(drop)?),
            }
        }
    }

    /// Does something with each of the runs that are meant, and prints what became of each.
    fn for_each(
        &self,
        task: BulkTask<'_>,
        act: &dyn Fn(&NamedRun) -> Result<(), CommandFailure>,
    ) -> Result<u8, CommandFailure> {
        let (selection, result) = (task.selection, task.result);
        if selection.by.is_some() {
            let text = "through a server, it is noted to whom the token belongs; leave out `--by`";
            return Err(CommandFailure::usage(text));
        }
        let mut code = 0;
        let runs = self.finder().selected(selection)?;
        if runs.is_empty() {
            self.printer.note("there is no such run");
        }
        for run in runs {
            let done = if selection.dry_run {
                self.finder().check_listed(&run, task.deed)
            } else {
                act(&run)
            };
            let place = run.place;
            if !selection.is_plural() {
                done?;
                self.printer.note(format_args!("`{place}` is {result}"));
                return Ok(0);
            }
            let failure = done.err();
            code = code.max(failure.as_ref().map_or(0, |failure| failure.code));
            let error = failure.map(|failure| failure.to_text());
            if selection.json {
                self.printer.print_json_line(&json!({
                    "place": place, "result": error.is_none().then_some(result), "error": error,
                    "dry_run": selection.dry_run,
                }))?;
                continue;
            }
            self.printer.print_text(&match error {
                Some(error) => format!("{place}: {error}"),
                None if selection.dry_run => format!("{place}: would be {result}"),
                None => format!("{place}: {result}"),
            });
        }
        Ok(code)
    }

    pub(super) fn resume(&self, args: &ResumeArgs) -> Result<u8, CommandFailure> {
        let options = &args.options;
        let rest = RunOptions {
            investment: options.investment,
            max_steps: options.max_steps,
            checkpoint: options.checkpoint.clone(),
            in_doubt: options.in_doubt.clone(),
            quiet: options.quiet,
            json: options.json,
            ..RunOptions::default()
        };
        if args.team().is_some() || *options != rest {
            let text = "through a server, a run is resumed with `--investment`, `--max-steps`, `--checkpoint` and `--in-doubt` \
                        only";
            return Err(CommandFailure::usage(text));
        }
        let decisions: Vec<String> = options.in_doubt.iter().map(ToString::to_string).collect();
        let terms = json!({
            "investment": options.investment, "max_steps": options.max_steps, "checkpoint": options.checkpoint,
            "in_doubt": decisions,
        });
        let selection = args.selection();
        let ask = |run: &str| {
            let path = Self::path_of(run, "/resume");
            let request = ApiRequest::new("POST", &path).json(terms.clone());
            self.client.send(request)
        };
        let ([only], false) = (&selection.places[..], selection.is_plural()) else {
            let task = BulkTask {
                selection: &selection,
                deed: RunDeed::Resume,
                result: "resumed",
            };
            return self.for_each(task, &|run| {
                ask(&run.address)?;
                Ok(())
            });
        };
        let run = only.path().to_string_lossy();
        match ask(&run)?.status {
            202 => self
                .printer
                .note(format_args!("a worker continues `{run}`")),
            _ => self
                .printer
                .note(format_args!("`{run}` goes on by itself, or is done")),
        }
        Ok(0)
    }

    pub(super) fn prune(&self, args: &PruneArgs) -> Result<u8, CommandFailure> {
        let selection = &args.selection;
        let how = json!({ "keep": args.keep });
        let ([only], false, false) = (
            &selection.places[..],
            selection.is_many(),
            selection.dry_run,
        ) else {
            let task = BulkTask {
                selection,
                deed: RunDeed::Prune,
                result: "pruned",
            };
            return self.for_each(task, &|run| {
                let path = Self::path_of(&run.address, "/prune");
                let request = ApiRequest::new("POST", &path).json(how.clone());
                self.client.send(request)?;
                Ok(())
            });
        };
        let run = only.path().to_string_lossy();
        let path = Self::path_of(&run, "/prune");
        let done = self
            .client
            .send(ApiRequest::new("POST", &path).json(how))?
            .value();
        let number = |name: &str| done[name].as_u64().unwrap_or_default();
        let result = PruneResult {
            keep: u32::try_from(number("kept")).unwrap_or(u32::MAX),
            pruned: Pruned {
                checkpoints: number("checkpoints"),
                events: number("events"),
                bytes: number("bytes"),
            },
        };
        prune::show(&result, selection.json, self.printer);
        Ok(0)
    }

    pub(super) fn fork(&self, args: &ForkArgs) -> Result<u8, CommandFailure> {
        let mut set = Map::new();
        for edit in &args.set {
            let StateEdit::Text(text) = edit else {
                continue;
            };
            let (place, value) = text.split_once('=').ok_or_else(|| {
                CommandFailure::usage(format!("`{text}` changes nothing; write SCOPE/KEY=JSON"))
            })?;
            let value = serde_json::from_str(value).unwrap_or(Value::String(value.to_owned()));
            set.insert(place.to_owned(), value);
        }
        let run = args.path.path().to_string_lossy();
        let name = args.to.as_ref().map(|name| name.to_string_lossy());
        if let Some(name) = &name {
            check_run_name(name).map_err(CommandFailure::usage)?;
        }
        let path = Self::path_of(&run, "/fork");
        let body = json!({ "at": args.at, "set": set, "name": name });
        let request = ApiRequest::new("POST", &path).json(body);
        let fork = answer_for_name(self.client.send(request), name.as_deref())?.value();
        if args.json {
            self.printer.print_json(&fork.to_string());
        } else {
            self.printer.print_line(&self.finder().place_of(&fork)?);
        }
        Ok(0)
    }
}

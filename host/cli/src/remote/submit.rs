//! Submits a team to a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strata_host::blob::{Blobs, digest_of};
use strata_host::launch::{Notice, collect_team};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::storage::check_run_name;
use strata_server::client::{ApiAnswer, ApiRequest, ClientError};

use super::read::{code_of, is_at_rest};
use super::{Remote, answer_for_name};
use crate::CommandFailure;
use crate::args::{DEFAULT_TEAM, IdeaUse, SubmitArgs, TeamAndIdea};
use crate::given_text::read_idea;
use crate::progress::ProgressDisplay;

/// Submits a team, and returns the exit code.
pub(super) fn submit(remote: &Remote<'_>, args: SubmitArgs) -> Result<u8, CommandFailure> {
    if !args.database.is_empty() || args.scope.is_some() {
        let text = "a run is submitted to a server or to a database; leave `--database` and `--scope` away";
        return Err(CommandFailure::usage(text));
    }
    if let Some(name) = &args.name {
        check_run_name(name).map_err(CommandFailure::usage)?;
    }
    let idea_use = IdeaUse::Start { command: "submit" };
    let TeamAndIdea { team, idea } = TeamAndIdea::parse(&args.words, idea_use)?;
    let idea = read_idea(idea)?;
    let overrides = Overrides {
        operators: in_force(None)?,
        components: args.component,
        ..Overrides::default()
    };
    let team = team.unwrap_or_else(|| PathBuf::from(DEFAULT_TEAM));
    let collected = {
        let mut progress = ProgressDisplay::start(remote.printer);
        let mut report = |notice: Notice<'_>| progress.show_notice(notice);
        collect_team(&team, idea, &[], &overrides, &mut report)?
    };
    let idea = collected.base.idea.clone();
    let (files, contents) = collected.into_bundle();
    let named: BTreeMap<&String, String> = files
        .iter()
        .map(|(path, digest)| (path, format!("sha256:{digest}")))
        .collect();
    let bundle = json!({ "files": named });
    let created = create_bundle(remote, &bundle, &contents)?;
    let mut attached = BTreeMap::new();
    for file in &args.file {
        let (name, digest) = attach(remote, file)?;
        attached.insert(name, digest);
    }
    let labels: BTreeMap<String, String> = args.label.into_iter().collect();
    let request = ApiRequest::new("POST", "/v1/runs").json(json!({
        "bundle": created.value()["digest"], "idea": idea, "name": args.name, "labels": labels, "needs": args.needs,
        "files": attached,
    }));
    let sent = remote.client.send(request);
    let mut run = answer_for_name(sent, args.name.as_deref())?.value();
    let id = run["id"].as_str().unwrap_or_default().to_owned();
    if !args.wait {
        let name = run["name"].as_str().unwrap_or(&id);
        if args.json {
            remote
                .printer
                .print_json_line(&json!({ "name": name, "place": name }))?;
        } else {
            remote.printer.print_text(name);
        }
        return Ok(0);
    }
    // The answer above does not wait for that: if it were lost, so would be which run was made.
    while !is_at_rest(&run) {
        std::thread::sleep(std::time::Duration::from_millis(250));
        run = remote.send_patiently(&Remote::path_of(&id, ""))?.value();
    }
    if args.json {
        remote.printer.print_json_line(&run)?;
        return Ok(code_of(&run));
    }
    let name = run["name"].as_str().unwrap_or(&id).to_owned();
    remote.report_end(&name, &run)
}

/// Makes a bundle. Only the files travel that the server does not have.
fn create_bundle(
    remote: &Remote<'_>,
    bundle: &Value,
    contents: &Blobs,
) -> Result<ApiAnswer, CommandFailure> {
    let create = || {
        remote
            .client
            .send(ApiRequest::new("POST", "/v1/bundles").json(bundle.clone()))
    };
    match create() {
        Err(ClientError::Refused { problem, .. }) if problem["missing"].is_array() => {
            let missing = problem["missing"].as_array().cloned().unwrap_or_default();
            for digest in missing.iter().filter_map(Value::as_str) {
                let found = contents
                    .iter()
                    .find(|(one, _)| digest == format!("sha256:{one}"));
                if let Some((_, bytes)) = found {
                    remote.upload(digest, bytes.to_vec())?;
                }
            }
            Ok(create()?)
        }
        created => Ok(created?),
    }
}

/// Uploads a file that belongs to the idea, and returns its name and its digest.
fn attach(remote: &Remote<'_>, file: &Path) -> Result<(String, String), CommandFailure> {
    let failed =
        |error| CommandFailure::usage(format!("cannot read `{}`: {error}", file.display()));
    let bytes = std::fs::read(file).map_err(failed)?;
    let digest = format!("sha256:{}", digest_of(&bytes));
    remote.upload(&digest, bytes)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok((name.into_owned(), digest))
}

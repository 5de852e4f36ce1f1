//! Submits a team to a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use strata_host::blob::digest_of;
use strata_host::launch::{Notice, collect_team};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_server::client::{ApiRequest, ClientError};

use super::Remote;
use super::read::is_at_rest;
use crate::CommandFailure;
use crate::args::SubmitArgs;
use crate::progress::ProgressDisplay;
use crate::run::{DEFAULT_TEAM, PositionalArgs};

/// For how many seconds the server answers at once.
const WAIT_SECONDS: u64 = 30;

impl Remote<'_> {
    pub(super) fn submit(&self, args: SubmitArgs) -> Result<u8, CommandFailure> {
        if !args.database.is_empty() || args.scope.is_some() {
            let text = "a run is submitted to a server or to a database; leave `--database` and `--scope` away";
            return Err(CommandFailure::usage(text));
        }
        let PositionalArgs { team, idea } = PositionalArgs::parse(&args.words)?;
        let overrides = Overrides {
            operators: in_force(None)?,
            components: args.component,
            ..Overrides::default()
        };
        let team = team.unwrap_or_else(|| PathBuf::from(DEFAULT_TEAM));
        let collected = {
            let mut progress = ProgressDisplay::start(self.printer);
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
        let create = || {
            self.client
                .send(ApiRequest::new("POST", "/v1/bundles").json(bundle.clone()))
        };
        let created = match create() {
            // Only what is missing travels.
            Err(ClientError::Refused { problem, .. }) if problem["missing"].is_array() => {
                let missing = problem["missing"].as_array().cloned().unwrap_or_default();
                for digest in missing.iter().filter_map(|digest| digest.as_str()) {
                    let found = contents
                        .iter()
                        .find(|(one, _)| digest == format!("sha256:{one}"));
                    if let Some((_, bytes)) = found {
                        self.upload(digest, bytes.to_vec())?;
                    }
                }
                create()?
            }
            created => created?,
        };
        let mut attached = BTreeMap::new();
        for file in &args.file {
            let failed =
                |error| CommandFailure::usage(format!("cannot read `{}`: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(failed)?;
            let digest = format!("sha256:{}", digest_of(&bytes));
            self.upload(&digest, bytes)?;
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            attached.insert(name, digest);
        }
        let labels: BTreeMap<String, String> = args.label.into_iter().collect();
        let mut request = ApiRequest::new("POST", "/v1/runs").json(json!({
            "bundle": created.value()["digest"], "idea": idea, "name": args.name, "labels": labels, "needs": args.needs,
            "files": attached,
        }));
        if args.wait {
            request = request.header("prefer", format!("wait={WAIT_SECONDS}"));
        }
        let mut run = self.client.send(request)?.value();
        let id = run["id"].as_str().unwrap_or_default().to_owned();
        if !args.wait {
            self.printer.print_text(run["name"].as_str().unwrap_or(&id));
            return Ok(0);
        }
        while !is_at_rest(&run) {
            std::thread::sleep(std::time::Duration::from_millis(250));
            run = self.get(&id, "")?;
        }
        let name = run["name"].as_str().unwrap_or(&id).to_owned();
        self.report_end(&name, &run)
    }
}

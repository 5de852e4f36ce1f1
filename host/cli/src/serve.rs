//! `serve`: runs submitted teams, and serves an HTTP API and a page for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use strata_host::manifest::Overrides;
use strata_host::manifest::operator::{OperatorPolicy, in_force};
use strata_host::manifest::submission::{SubmissionGrants, allowed_secrets};
use strata_host::storage::{DEFAULT_TENANT, WorkerProfile};
use strata_host::worker::{
    RunObserver, TenantPolicy, WORKER_PATIENCE, WorkerReport, WorkerSettings, machine_name,
};
use strata_server::tokens::check_token_name;
use strata_server::{ServeError, ServeSettings, database_in, serve};

use super::args::ServeArgs;
use super::printer::Verbosity;
use super::run::block_on_run;
use super::signals::Signals;
use super::worker::show_report;
use super::{CommandFailure, Printer, shell_path, shell_word};

pub(super) fn serve_runs(args: ServeArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = printer.with_verbosity(verbosity);
    let (policy, tenants) = policies(&args.policy, &printer)?;
    let worker = (!args.no_work).then(|| WorkerSettings {
        databases: Vec::new(),
        room: args.room,
        drain: args.drain,
        patience: WORKER_PATIENCE,
        profile: WorkerProfile {
            host: machine_name(),
            labels: args.label.clone(),
            secrets: secrets_of(&policy, &tenants),
            room: args.room,
        },
        workspaces: args.storage.join("workspaces"),
        overrides: Overrides {
            operators: policy.operators.clone(),
            ..Overrides::default()
        },
        grants: policy.grants,
        tenants: tenants.clone(),
        observer: RunObserver::default(),
    });
    let place = match args.database.first() {
        Some(database) => format!("--database {}", shell_word(&database.to_string())),
        None => format!("--storage {}", shell_path(&args.storage)),
    };
    let mut databases = args.database.into_iter();
    let home = databases.next();
    let settings = ServeSettings {
        home: home.unwrap_or_else(|| database_in(&args.storage)),
        others: databases.collect(),
        directory: args.storage,
        address: args.listen,
        tls: args.tls_cert.zip(args.tls_key),
        is_behind_proxy: args.behind_proxy,
        hosts: args.host,
        worker,
        policy,
        tenants,
        routes: Default::default(),
    };
    let (room, drain) = (args.room, args.drain);
    block_on_run(|_| async move {
        let signals = Signals::subscribe()?;
        signals.set_runs_started(drain);
        let report = {
            let printer = printer.clone();
            Arc::new(move |report: WorkerReport<'_>| show_report(&report, room, &printer))
        };
        serve(settings, signals.stop.clone(), report, |started| {
            printer.print_line(&started.url);
            if !started.has_token {
                printer.warn(format_args!(
                    "nobody can use the server, because there is no token; stop it, make one with \
                     `strata-host token create NAME --rights RIGHTS {place}`, and start it again"
                ));
            }
        })
        .await?;
        Ok(0)
    })
}

/// Reads the policy for all tenants, and those of some.
fn policies(
    named: &[String],
    printer: &Printer,
) -> Result<(TenantPolicy, BTreeMap<String, TenantPolicy>), CommandFailure> {
    let (mut all, mut tenants) = (None, BTreeMap::new());
    for text in named {
        // A path may contain `=`, too.
        let tenant = text
            .split_once('=')
            .filter(|(name, _)| check_token_name(name).is_ok());
        match tenant.filter(|_| !Path::new(text).exists()) {
            Some((tenant, file)) => {
                let policy = read_policy(Some(Path::new(file)), printer)?;
                tenants.insert(tenant.to_owned(), policy);
            }
            None if all.is_some() => {
                let text = "`--policy FILE` is given twice; name the tenant of one: `--policy TENANT=FILE`";
                return Err(CommandFailure::usage(text));
            }
            None => all = Some(read_policy(Some(Path::new(text)), printer)?),
        }
    }
    let all = match (all, tenants.get(DEFAULT_TENANT)) {
        (Some(all), _) => all,
        (None, _) => read_policy(None, printer)?,
    };
    Ok((all, tenants))
}

fn read_policy(file: Option<&Path>, printer: &Printer) -> Result<TenantPolicy, CommandFailure> {
    let named = file.map(OperatorPolicy::read).transpose()?;
    let grants = SubmissionGrants::from_policy(named.as_ref());
    if let (Some(file), SubmissionGrants::None) = (file, grants) {
        printer.warn(format_args!(
            "the policy `{}` has no `[allow]`, so it grants nothing to submitted teams",
            file.display()
        ));
    }
    Ok(TenantPolicy {
        operators: in_force(file)?,
        grants,
    })
}

/// Returns the secrets that the teams of some tenant may name.
fn secrets_of(policy: &TenantPolicy, tenants: &BTreeMap<String, TenantPolicy>) -> Vec<String> {
    let all = tenants.values().chain([policy]);
    let mut names: Vec<String> = all
        .flat_map(|policy| allowed_secrets(&policy.operators, policy.grants))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl From<ServeError> for CommandFailure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Store(error) => error.into(),
            ServeError::Unencrypted(_) => Self::usage(format!(
                "{error}; give `--tls-cert FILE --tls-key FILE`, or `--behind-proxy` if a proxy encrypts it"
            )),
            ServeError::Listen { .. } => Self::internal(error.to_string()),
            ServeError::Tls(_) | ServeError::Token { .. } => Self::usage(error.to_string()),
        }
    }
}

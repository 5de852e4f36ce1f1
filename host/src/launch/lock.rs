//! Writes the digests of a team's current components into the lock file of its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::files::known_files::KnownFiles;
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::trust::lock::{ComponentLock, LockedComponent, LockedName};
use strata_manifest::{Definition, Diagnostics};
use strata_services::http::HttpClient;
use strata_services::mcp::ToolDigests;
use strata_services::plugin::Plugin;

use super::LaunchError;
use super::components::{demanded_digest, load_servers, read_secrets};
use super::skill_lock::skill_entries;
use super::source::ComponentFinder;

/// The result of locking.
pub struct LockResult {
    /// The lock file.
    pub path: PathBuf,
    /// The number of components that the team has.
    pub components: usize,
    /// The components that were locked with other contents before: the name, the previous entry,
    /// the new entry.
    pub changed: Vec<(String, LockedComponent, LockedComponent)>,
}

/// Locks a team's components, as far as these policies allow them. Entries of other teams in the
/// same directory stay. `report` receives the slow operations that begin.
pub fn lock_components(
    team: &Path,
    operators: &[OperatorPolicy],
    report: &mut dyn FnMut(&str),
) -> Result<LockResult, LaunchError> {
    let mut definition = Definition::read(team)?;
    definition.apply_policies(operators)?;
    definition.check_ready()?;
    let base = &definition.source.base;
    let mut lock = ComponentLock::read_in(base)?.unwrap_or_else(|| ComponentLock::new(base));
    lock.remove_missing();
    let mut changed = Vec::new();
    let mut problems: Vec<Diagnostics> = Vec::new();
    let mut seen = BTreeSet::new();
    let name = |slot, plugin: &Plugin| {
        LockedName::for_component(&plugin.component, definition.skill_name(slot), base)
    };
    for (slot, plugin) in definition
        .plugins
        .iter()
        .filter(|(slot, plugin)| seen.insert(name(**slot, plugin)))
    {
        let finder = ComponentFinder {
            limit: plugin.limits.component_bytes,
            trusted: &definition.trust,
            // What is locked is computed from the bytes.
            known: &KnownFiles::none(),
            demanded: demanded_digest(&definition, *slot, plugin, Some(&lock)),
        };
        let source = match finder.find(&plugin.component, report) {
            Ok(source) => source,
            Err(why) => {
                let problem = definition.component_diagnostic(*slot, why.message_for(plugin));
                problems.push(problem.with_optional_hint(why.advice).into());
                continue;
            }
        };
        if let Err(untrusted) = &source.signed {
            problems.push(definition.component_refusal(
                *slot,
                untrusted.to_string(),
                untrusted.hint(),
            ));
        }
        let now = source.lock_entry();
        let name = name(*slot, plugin);
        match lock.set(name.clone(), now.clone()) {
            Some(before) if before != now => changed.push((name.to_string(), before, now)),
            _ => {}
        }
    }
    let skills = skill_entries(&definition)?;
    let components = seen.len() + skills.len();
    for (name, now) in skills {
        match lock.set(name.clone(), now.clone()) {
            Some(before) if before != now => changed.push((name.to_string(), before, now)),
            _ => {}
        }
    }
    if let Some(problems) = problems.into_iter().reduce(Diagnostics::and) {
        return Err(problems.into());
    }
    for (server, tools) in list_server_tools(&definition)? {
        lock.set_server_tools(server, tools);
    }
    lock.write()?;
    Ok(LockResult {
        path: lock.path().to_owned(),
        components,
        changed,
    })
}

/// Starts the MCP servers of a team, and returns the digests of the tools that it grants, by server.
fn list_server_tools(
    definition: &Definition,
) -> Result<BTreeMap<String, ToolDigests>, LaunchError> {
    if definition.mcp.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut unlocked = definition.clone();
    for server in unlocked.mcp.values_mut() {
        server.locked = None;
    }
    let http = Arc::new(HttpClient::new(read_secrets(definition)?)?);
    let Some(servers) = load_servers(&unlocked, &http, None) else {
        return Ok(BTreeMap::new());
    };
    let granted = definition.granted_server_tools();
    let list = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let found = servers.digests(&granted).await;
            servers.close().await;
            found.map_err(|error| error.message)
        })
    };
    // A thread of its own, since this one may drive other tasks.
    let listed = std::thread::scope(|scope| scope.spawn(list).join());
    match listed {
        Ok(listed) => listed.map_err(LaunchError::InvalidInput),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

//! Writes the digests of a team's current components into the lock file of its directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::LaunchError;
use super::source::Source;
use crate::manifest::operator::Operator;
use crate::manifest::{Definition, Diagnostics};
use crate::plugin::Plugin;
use crate::trust::lock::{Lock, Locked, Name};

/// The result of locking.
pub struct Written {
    /// The lock file.
    pub path: PathBuf,
    /// The number of components that the team has.
    pub components: usize,
    /// The components that were locked with other contents before: the name, the previous entry,
    /// the new entry.
    pub changed: Vec<(String, Locked, Locked)>,
}

/// Locks a team's components, as far as these policies allow them. Entries of other teams in the
/// same directory stay. `report` receives the slow operations that begin.
pub fn lock(
    team: &Path,
    operators: &[Operator],
    report: &mut dyn FnMut(&str),
) -> Result<Written, LaunchError> {
    let mut definition = Definition::read(team)?;
    definition.bind(operators)?;
    definition.check_ready()?;
    let base = &definition.source.base;
    let mut lock = Lock::beside(base)?.unwrap_or_else(|| Lock::new(base));
    lock.forget_missing();
    let mut changed = Vec::new();
    let mut problems: Vec<Diagnostics> = Vec::new();
    let mut seen = BTreeSet::new();
    let name = |slot, plugin: &Plugin| Name::of(&plugin.component, definition.skill(slot), base);
    for (slot, plugin) in definition
        .plugins
        .iter()
        .filter(|(slot, plugin)| seen.insert(name(**slot, plugin)))
    {
        let source = match Source::read(
            &plugin.component,
            plugin.limits.component_bytes,
            &definition.trust,
            report,
        ) {
            Ok(source) => source,
            Err(why) => {
                problems.push(definition.at_component(*slot, why.told(plugin)));
                continue;
            }
        };
        if let Err(untrusted) = &source.signed {
            problems.push(definition.refused(*slot, untrusted.to_string(), untrusted.hint()));
        }
        let now = source.locked();
        let name = name(*slot, plugin);
        match lock.set(name.clone(), now.clone()) {
            Some(before) if before != now => changed.push((name.to_string(), before, now)),
            _ => {}
        }
    }
    if let Some(problems) = problems.into_iter().reduce(Diagnostics::and) {
        return Err(problems.into());
    }
    lock.write()?;
    Ok(Written {
        path: lock.path().to_owned(),
        components: seen.len(),
        changed,
    })
}

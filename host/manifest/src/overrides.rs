//! Applies the overrides of the command line to a team: limits of the run, and components that
//! replace the ones in the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_base::text::component_replacement::{ComponentReplacement, ReplacementReading};
use strata_base::text::suggest::suggest;
use strata_base::text::units::AMOUNTS;
use strata_core::record::id::Slot;
use strata_core::team::Team;
use strata_services::plugin::builtin::{BuiltinComponent, UnknownBuiltin, is_builtin};
use strata_services::variables::Variables;

use super::Definition;
use super::authored::{MAX_PARALLEL, budget_from_dollars};
use super::component_location::{ComponentOverride, OverrideOrigin};
use super::diagnostic::Diagnostics;
use super::operator::OperatorPolicy;

/// The overrides of the command line. By default nothing is overridden.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Replaces `run.max_steps`; 0 means no limit.
    pub max_steps: Option<u64>,
    /// Replaces `run.max_parallel`.
    pub max_parallel: Option<usize>,
    /// Replaces `team.investment`, in USD; 0 means no limit.
    pub investment: Option<f64>,
    /// The file to which requests to language models and their replies are recorded.
    pub record: Option<PathBuf>,
    /// Where the environment variables that the team file names, such as API keys and secrets, are
    /// looked up. By default they are read from the environment of this process.
    pub variables: Variables,
    /// The operators' policies that restrict the team. All of them apply.
    pub operators: Vec<OperatorPolicy>,
    /// Components that replace the ones in the file.
    pub components: Vec<ComponentReplacement>,
}

/// An override that does not fit the team.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// A limit that is not valid.
    #[error("`{flag}` cannot be `{value}`: expected {expected}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The team contains something that an operator's policy does not allow.
    #[error("{0}")]
    Policy(Diagnostics),
    /// A component for an action that the team does not have.
    #[error("`--component {argument}` names no action of the team; {hint}")]
    Unknown {
        /// What was given.
        argument: String,
        /// What may have been meant.
        hint: String,
    },
    /// A built-in component that this program does not have.
    #[error("`--component {argument}`: {unknown}")]
    Builtin {
        /// What was given.
        argument: String,
        /// What is wrong with it.
        unknown: UnknownBuiltin,
    },
    /// An action without a component for it.
    #[error("`--component {argument}` names no file; expected `{name}=FILE`")]
    NoFile {
        /// What was given.
        argument: String,
        /// The place.
        name: String,
    },
    /// A component whose name refers to two actions.
    #[error("`--component {argument}` can mean two actions; rename one in the team file")]
    Ambiguous {
        /// What was given.
        argument: String,
    },
    /// The working directory cannot be determined.
    #[error("cannot find the file of `--component {argument}`: {source}")]
    Path {
        /// What was given.
        argument: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl Definition {
    /// Applies the overrides. They take precedence over the file. A `sha256` in the file pins the
    /// component that the file names, and does not apply to a component that is given here.
    pub fn apply_overrides(&mut self, overrides: &Overrides) -> Result<(), OverrideError> {
        let policy = &mut self.team.policy;
        if let Some(steps) = overrides.max_steps {
            policy.max_steps = Some(steps).filter(|steps| *steps > 0);
        }
        if let Some(parallel) = overrides.max_parallel {
            if !(1..=MAX_PARALLEL).contains(&parallel) {
                return Err(OverrideError::Value {
                    flag: "--max-parallel",
                    value: parallel.to_string(),
                    expected: "a number from 1 to 1024",
                });
            }
            policy.max_parallel = parallel;
        }
        if let Some(dollars) = overrides.investment {
            if !AMOUNTS.contains(&dollars) {
                return Err(OverrideError::Value {
                    flag: "--investment",
                    value: dollars.to_string(),
                    expected: "an amount in USD, not negative and at most 18 million",
                });
            }
            policy.budget = budget_from_dollars(dollars);
        }
        if let (Some(llm), Some(record)) = (&mut self.llm, &overrides.record) {
            llm.record = Some(record.clone());
        }
        self.variables = overrides.variables.clone();
        for plugin in self.plugins.values_mut() {
            plugin.variables = overrides.variables.clone();
        }
        self.override_components(&overrides.components, OverrideOrigin::Current)?;
        self.apply_policies(&overrides.operators)?;
        Ok(())
    }

    /// Applies the components that an earlier command line gave, as
    /// [`overridden_components`](Self::overridden_components) returned them then. Call this before `apply`,
    /// so that the current command line takes precedence.
    pub fn restore_overridden_components(
        &mut self,
        components: &[ComponentReplacement],
    ) -> Result<(), OverrideError> {
        self.override_components(components, OverrideOrigin::Earlier)
    }

    fn override_components(
        &mut self,
        components: &[ComponentReplacement],
        from: OverrideOrigin,
    ) -> Result<(), OverrideError> {
        let slots = slots_by_name(&self.team, self.plugins.keys());
        for replacement in components {
            let (slot, file) = find_replaced_slot(&slots, replacement, from)?;
            let file = component_path(file, replacement)?;
            if let Some(plugin) = self.plugins.get_mut(&slot) {
                plugin.component = file;
                plugin.pin = None;
            }
            self.component_overrides
                .insert(slot, ComponentOverride::new(replacement, from));
        }
        Ok(())
    }

    /// Returns the components that replace the ones in the file, with absolute paths.
    pub fn overridden_components(&self) -> Vec<ComponentReplacement> {
        let components = self
            .component_overrides
            .keys()
            .filter_map(|slot| Some((slot, self.plugins.get(slot)?)));
        components
            .map(|(slot, plugin)| {
                ComponentReplacement::new(self.team.slot_name(*slot), &plugin.component)
            })
            .collect()
    }
}

/// Returns the absolute path of a component that was given, or the name of a built-in one.
fn component_path(
    file: &Path,
    replacement: &ComponentReplacement,
) -> Result<PathBuf, OverrideError> {
    let argument = || replacement.to_string();
    let builtin = file.to_str().map_or(Ok(None), BuiltinComponent::parse);
    match builtin {
        Ok(Some(builtin)) => Ok(builtin.name().into()),
        Ok(None) => std::path::absolute(file).map_err(|source| OverrideError::Path {
            argument: argument(),
            source,
        }),
        Err(unknown) => Err(OverrideError::Builtin {
            argument: argument(),
            unknown,
        }),
    }
}

fn slots_by_name<'a>(
    team: &Team,
    slots: impl Iterator<Item = &'a Slot>,
) -> BTreeMap<String, Vec<Slot>> {
    let mut names: BTreeMap<String, Vec<Slot>> = BTreeMap::new();
    for slot in slots {
        names.entry(team.slot_name(*slot)).or_default().push(*slot);
    }
    names
}

/// Returns the slot that a replacement is about, and the file. Of several readings, the one with the
/// longest name of a slot of the team is meant. Paths are absolute when they are saved, so readings
/// with an absolute path, or the name of a built-in component, take precedence in what an earlier command
/// line gave.
fn find_replaced_slot<'a>(
    slots: &BTreeMap<String, Vec<Slot>>,
    replacement: &'a ComponentReplacement,
    from: OverrideOrigin,
) -> Result<(Slot, &'a Path), OverrideError> {
    let argument = replacement.to_string();
    let is_likely = |reading: &ReplacementReading<'_>| match from {
        OverrideOrigin::Current => true,
        OverrideOrigin::Earlier => reading.file.is_absolute() || is_builtin(reading.file),
    };
    let likely = replacement.readings().filter(is_likely);
    let others = replacement.readings().filter(|reading| !is_likely(reading));
    for reading in likely.chain(others) {
        match slots.get(reading.slot).map(Vec::as_slice) {
            Some([slot]) if !reading.file.as_os_str().is_empty() => {
                return Ok((*slot, reading.file));
            }
            Some([_, _, ..]) => return Err(OverrideError::Ambiguous { argument }),
            _ => {}
        }
    }
    let whole = argument.strip_suffix('=').unwrap_or(&argument);
    if slots.contains_key(whole) {
        return Err(OverrideError::NoFile {
            name: whole.to_owned(),
            argument,
        });
    }
    let name = replacement
        .readings()
        .last()
        .map_or(argument.as_str(), |reading| reading.slot);
    let known: Vec<&str> = slots.keys().map(String::as_str).collect();
    let hint = match suggest(name, &known) {
        Some(hint) if !slots.contains_key(name) => hint,
        _ => "expected `ROLE.ACTION=FILE`".into(),
    };
    Err(OverrideError::Unknown { argument, hint })
}

#[cfg(test)]
mod tests {
    use strata_core::record::id::{ActionId, RoleId, SlotKind};

    use super::*;

    #[test]
    fn the_longest_name_of_a_slot_is_meant_unless_an_absolute_path_was_saved() {
        let names = ["A.p", "A.p=x", "A.p=/x"];
        let slot = |at: u16| Slot {
            role: RoleId(0),
            kind: SlotKind::Action(ActionId(at)),
        };
        let slots: BTreeMap<String, Vec<Slot>> = (0..)
            .zip(names)
            .map(|(at, name)| (name.to_owned(), vec![slot(at)]))
            .collect();
        let check = |text: &str, from: OverrideOrigin, expected: (u16, &str)| {
            let found = find_replaced_slot(&slots, &text.into(), from)
                .map(|(slot, file)| (slot, file.to_owned()))
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found, (slot(expected.0), expected.1.into()), "{text}");
        };
        use OverrideOrigin::{Current, Earlier};
        check("A.p=p.wasm", Current, (0, "p.wasm"));
        check("A.p=y=z", Current, (0, "y=z"));
        check("A.p=x=p.wasm", Current, (1, "p.wasm"));
        check("A.p=./x=p.wasm", Current, (0, "./x=p.wasm"));
        check("A.p=/x=p.wasm", Current, (2, "p.wasm"));
        check("A.p=x=/p.wasm", Earlier, (1, "/p.wasm"));
        check("A.p=/x=p.wasm", Earlier, (0, "/x=p.wasm"));
        check("A.p=x=p.wasm", Earlier, (1, "p.wasm"));
        check("A.p=x=builtin:probe", Earlier, (1, "builtin:probe"));
    }
}

//! What the command line changes of a team file: caps, and components tried in place of the written ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use strata_core::id::Slot;
use strata_core::team::Team;

use super::Definition;
use super::authored::{MAX_PARALLEL, budget};
use super::diagnostic::Diagnostics;
use super::operator::Operator;
use super::place::{CommandLine, Given};
use super::units::AMOUNTS;
use crate::services::variables::Variables;
use crate::suggest::suggest;

/// What the command line changes. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// In place of `run.max_steps`; 0 for no limit.
    pub max_steps: Option<u64>,
    /// In place of `run.max_parallel`.
    pub max_parallel: Option<usize>,
    /// In place of `team.investment`, in USD; 0 for no cap.
    pub investment: Option<f64>,
    /// Where exchanges with language models are recorded.
    pub record: Option<PathBuf>,
    /// Where the variables are looked up that the team file names, such as API keys and secrets: in the environment of
    /// this process by default.
    pub variables: Variables,
    /// Policies that bind the team. All of them hold.
    pub operators: Vec<Operator>,
    /// `ROLE.ACTION=FILE` each; `ROLE.think` is what a role thinks with. Files are relative to the working directory.
    pub components: Vec<String>,
}

/// An override that does not fit the team.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// A cap that makes no sense.
    #[error("`{flag}` cannot be `{value}`: expected {expected}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The team has what its operator does not allow.
    #[error("{0}")]
    Policy(Diagnostics),
    /// A component for no place in the team.
    #[error("`--component {argument}` names no action of the team; {hint}")]
    Unknown {
        /// What was given.
        argument: String,
        /// What may have been meant.
        hint: String,
    },
    /// A place, and no component for it.
    #[error("`--component {argument}` names no file; expected `{name}=FILE`")]
    NoFile {
        /// What was given.
        argument: String,
        /// The place.
        name: String,
    },
    /// A component for two places at once.
    #[error("`--component {argument}` can mean two actions; rename one in the team file")]
    Ambiguous {
        /// What was given.
        argument: String,
    },
    /// The working directory is gone.
    #[error("cannot find the file of `--component {argument}`: {source}")]
    Path {
        /// What was given.
        argument: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl Definition {
    /// Puts the command line's word above the file's. A written `sha256` is for the written component: it does not
    /// bind one that is given here.
    pub fn apply(&mut self, overrides: &Overrides) -> Result<(), OverrideError> {
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
            policy.budget = budget(dollars);
        }
        if let (Some(llm), Some(record)) = (&mut self.llm, &overrides.record) {
            llm.record = Some(record.clone());
        }
        self.variables = overrides.variables.clone();
        self.plugins
            .values_mut()
            .for_each(|plugin| plugin.variables = overrides.variables.clone());
        self.give(&overrides.components, CommandLine::Current)?;
        self.bind(&overrides.operators)?;
        Ok(())
    }

    /// Puts the components in place that an earlier command line gave, as [`given_components`](Self::given_components)
    /// told them then. The command line at hand comes on top of it.
    pub(crate) fn give_again(&mut self, components: &[String]) -> Result<(), OverrideError> {
        self.give(components, CommandLine::Earlier)
    }

    fn give(&mut self, components: &[String], from: CommandLine) -> Result<(), OverrideError> {
        let slots = slots_by_name(&self.team, self.plugins.keys());
        for argument in components {
            let (slot, file) = resolve(&slots, argument)?;
            let file = std::path::absolute(&file).map_err(|source| OverrideError::Path {
                argument: argument.clone(),
                source,
            })?;
            if let Some(plugin) = self.plugins.get_mut(&slot) {
                plugin.component = file;
                plugin.pin = None;
            }
            self.given.insert(slot, Given::new(argument, from));
        }
        Ok(())
    }

    /// The components that were put in place of the written ones, as `--component` takes them, with absolute files.
    pub fn given_components(&self) -> Vec<String> {
        let given = self
            .given
            .keys()
            .filter_map(|slot| Some((slot, self.plugins.get(slot)?)));
        given
            .map(|(slot, plugin)| {
                format!(
                    "{}={}",
                    self.team.slot_name(*slot),
                    plugin.component.display()
                )
            })
            .collect()
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

/// Names and files may hold dots and equals signs: what is left of one of them must be a known name.
fn resolve(
    slots: &BTreeMap<String, Vec<Slot>>,
    argument: &str,
) -> Result<(Slot, PathBuf), OverrideError> {
    for (at, _) in argument.match_indices('=') {
        let (name, file) = (&argument[..at], &argument[at + 1..]);
        match slots.get(name).map(Vec::as_slice) {
            Some([slot]) if !file.is_empty() => return Ok((*slot, PathBuf::from(file))),
            Some([_, _, ..]) => {
                return Err(OverrideError::Ambiguous {
                    argument: argument.to_owned(),
                });
            }
            _ => {}
        }
    }
    let whole = argument.strip_suffix('=').unwrap_or(argument);
    if slots.contains_key(whole) {
        return Err(OverrideError::NoFile {
            argument: argument.to_owned(),
            name: whole.to_owned(),
        });
    }
    let name = argument.split('=').next().unwrap_or_default();
    let known: Vec<&str> = slots.keys().map(String::as_str).collect();
    let hint = match suggest(name, &known) {
        Some(hint) if !slots.contains_key(name) => hint,
        _ => "expected `ROLE.ACTION=FILE`".into(),
    };
    Err(OverrideError::Unknown {
        argument: argument.to_owned(),
        hint,
    })
}

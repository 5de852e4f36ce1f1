//! The provenance of a team: the files of the team and of its components, and the lines that define
//! them, for messages that say what to correct.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_core::record::host_call::Grant;
use strata_core::record::id::Slot;
use strata_core::record::money::Usd;
use strata_manifest::Definition;
use strata_services::plugin::builtin::is_builtin;

/// Where a team comes from.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The team file.
    pub file: PathBuf,
    /// The most that the operator allows the team to spend, and the policy that says so.
    pub max_spend: Option<(Usd, String)>,
    /// The line that configures how the external program is reached.
    pub external: Option<String>,
    components: BTreeMap<Slot, ComponentOrigin>,
}

/// Where a component comes from.
#[derive(Clone, Debug)]
pub struct ComponentOrigin {
    /// A `.wasm` file, a directory of source, a script, or the name of a built-in component.
    pub from: PathBuf,
    /// The line of the team file that names it: `team.toml:17`.
    pub line: String,
    /// The grants that the operator's policies removed, each with the policy.
    pub withheld: Vec<(Grant, String)>,
}

impl ComponentOrigin {
    /// Returns whether it is a compiled component, rather than source that the host builds or
    /// interprets.
    pub fn is_compiled(&self) -> bool {
        let extension = self.from.extension();
        is_builtin(&self.from) || extension.is_some_and(|extension| extension == "wasm")
    }
}

impl Provenance {
    /// Returns the provenance of a team as its file is now. `known_path` returns the path by which people know a
    /// file of the team.
    pub fn new(definition: &Definition, known_path: impl Fn(&Path) -> PathBuf) -> Self {
        let origin_of = |slot: &Slot| ComponentOrigin {
            from: known_path(&definition.plugins[slot].component),
            line: definition.location(*slot),
            withheld: definition.withheld_grants(*slot),
        };
        let components = definition
            .plugins
            .keys()
            .map(|slot| (*slot, origin_of(slot)))
            .collect();
        let name = Path::new(&definition.source.name).file_name();
        Self {
            file: known_path(&definition.source.base.join(name.unwrap_or_default())),
            max_spend: definition.budget_ceiling().cloned(),
            external: definition.external_location(),
            components,
        }
    }

    /// Returns where the component of a slot comes from.
    pub fn component_origin(&self, slot: Slot) -> Option<&ComponentOrigin> {
        self.components.get(&slot)
    }
}

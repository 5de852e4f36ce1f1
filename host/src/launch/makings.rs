//! What a team was made from, for whoever has to mend it: its file, its components, the lines about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_core::fault::Grant;
use strata_core::id::Slot;
use strata_core::money::Usd;

use crate::manifest::Definition;

/// What a team was made from.
#[derive(Clone, Debug)]
pub struct Makings {
    /// The team file.
    pub file: PathBuf,
    /// What its operator lets it spend at most, and the policy that says so.
    pub most: Option<(Usd, String)>,
    /// Where it is said how the outside of the team is reached.
    pub external: Option<String>,
    parts: BTreeMap<Slot, Made>,
}

/// What a component was made from.
#[derive(Clone, Debug)]
pub struct Made {
    /// A `.wasm` file, a directory of source or a script.
    pub from: PathBuf,
    /// Where the team file speaks of it: `team.toml:17`.
    pub place: String,
    /// Which of its grants the operator's policies took away.
    pub withheld: Vec<(Grant, String)>,
}

impl Makings {
    /// Of a team as it is written.
    pub(super) fn of(definition: &Definition) -> Self {
        let source = &definition.source;
        let made = |slot: &Slot| Made {
            from: definition.plugins[slot].component.clone(),
            place: definition.place(*slot),
            withheld: definition.withheld(*slot),
        };
        let parts = definition
            .plugins
            .keys()
            .map(|slot| (*slot, made(slot)))
            .collect();
        let name = Path::new(&source.name).file_name().unwrap_or_default();
        Self {
            file: source.base.join(name),
            most: definition.most().cloned(),
            external: definition.place_of_external(),
            parts,
        }
    }

    /// What is in this place of the team was made from.
    pub fn made(&self, slot: Slot) -> Option<&Made> {
        self.parts.get(&slot)
    }
}

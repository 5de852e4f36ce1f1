//! The loaded components. Each team owns those it has loaded. `SharedComponents` finds those of other teams
//! of the process without owning them, so the code is freed with the last team that uses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use strata_core::record::id::Digest;

use super::{LinkedComponent, LoadedComponent, Metering, ScriptFile};

/// A loaded component.
pub(super) struct ReadyComponent {
    pub(super) ready: Arc<LinkedComponent>,
    pub(super) loaded: LoadedComponent,
    /// The script to run, if the component is an interpreter.
    pub(super) script: Option<ScriptFile>,
}

type ComponentKey = (Digest, Metering);

/// The components of one team.
#[derive(Default)]
pub(super) struct TeamComponents(RwLock<HashMap<ComponentKey, Arc<ReadyComponent>>>);

/// The components of all teams of the process.
#[derive(Default)]
pub(super) struct SharedComponents(Mutex<HashMap<ComponentKey, Weak<ReadyComponent>>>);

impl TeamComponents {
    pub(super) fn get(&self, digest: &Digest, metering: Metering) -> Option<Arc<ReadyComponent>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.get(&(digest.clone(), metering)).cloned()
    }

    pub(super) fn put(&self, metering: Metering, shelved: &Arc<ReadyComponent>) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(
            (shelved.loaded.digest.clone(), metering),
            Arc::clone(shelved),
        );
    }
}

impl SharedComponents {
    pub(super) fn get(&self, digest: &Digest, metering: Metering) -> Option<Arc<ReadyComponent>> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared
            .get(&(digest.clone(), metering))
            .and_then(Weak::upgrade)
    }

    /// Makes a component available to other teams. If two teams have loaded it at the same time,
    /// both get the first one.
    pub(super) fn put(&self, metering: Metering, shelved: ReadyComponent) -> Arc<ReadyComponent> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes the entries of freed components.
        shared.retain(|_, shelved| shelved.strong_count() > 0);
        let key = (shelved.loaded.digest.clone(), metering);
        if let Some(existing) = shared.get(&key).and_then(Weak::upgrade) {
            return existing;
        }
        let shelved = Arc::new(shelved);
        shared.insert(key, Arc::downgrade(&shelved));
        shelved
    }
}

#[cfg(test)]
mod tests {
    use super::super::WasmSandbox;
    use super::*;
    use crate::blob::digest_of;
    use crate::plugin::Limits;

    /// The magic number and version of a component without content.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    /// Returns the same with a custom section that only has a name.
    fn component(name: u8) -> Vec<u8> {
        [EMPTY, &[0, 2, 1, name]].concat()
    }

    fn load(sandbox: &WasmSandbox, bytes: &[u8]) -> Arc<ReadyComponent> {
        let digest = digest_of(bytes);
        sandbox
            .load_functions(digest.clone(), bytes, Metering::Plain, &Limits::default())
            .expect("it is loaded");
        sandbox
            .team_components
            .get(&digest, Metering::Plain)
            .expect("it is held")
    }

    #[test]
    fn a_component_is_shared_by_teams_and_gone_with_the_last_that_has_it() {
        let one = WasmSandbox::uncached().expect("a sandbox");
        let [first, second] = [(); 2].map(|()| WasmSandbox::from_inner(Arc::clone(&one.inner)));
        let shared = || {
            one.inner
                .shared_components
                .0
                .lock()
                .expect("no panic")
                .values()
                .filter(|w| w.strong_count() > 0)
                .count()
        };
        let ready = Arc::downgrade(&load(&first, &component(b'a')));
        assert!(
            ready.ptr_eq(&Arc::downgrade(&load(&second, &component(b'a')))),
            "it is made ready once"
        );
        load(&second, &component(b'b'));
        assert_eq!(shared(), 2);
        drop(second.clone());
        drop(second);
        assert_eq!(shared(), 1);
        drop(first);
        assert!(ready.upgrade().is_none());
        load(&one, &component(b'c'));
        assert_eq!(
            one.inner
                .shared_components
                .0
                .lock()
                .expect("no panic")
                .len(),
            1,
            "their names are gone, too"
        );
    }
}

//! The loaded components. Each team owns those it has loaded. `SharedComponents` finds those of
//! other teams of the process without owning them, so the code is freed with the last team that
//! uses it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use strata_core::record::id::Digest;

use super::{ComponentInfo, LinkedComponent, LoadedScript, Metering};

/// A component that is ready to be called.
pub(super) struct LoadedComponent {
    pub(super) linked: Arc<LinkedComponent>,
    pub(super) info: ComponentInfo,
    /// If this is a script: its source; `linked` is then its interpreter.
    pub(super) script: Option<LoadedScript>,
}

/// Components by their digests.
struct ComponentMap<T> {
    /// Those that do not count fuel.
    plain: BTreeMap<Digest, T>,
    /// Those that do.
    fuel: BTreeMap<Digest, T>,
}

/// The components of one team.
#[derive(Default)]
pub(super) struct TeamComponents(RwLock<ComponentMap<Arc<LoadedComponent>>>);

/// The components of all teams of the process.
#[derive(Default)]
pub(super) struct SharedComponents(Mutex<ComponentMap<Weak<LoadedComponent>>>);

impl<T> Default for ComponentMap<T> {
    fn default() -> Self {
        Self {
            plain: BTreeMap::new(),
            fuel: BTreeMap::new(),
        }
    }
}

impl<T> ComponentMap<T> {
    fn of(&self, metering: Metering) -> &BTreeMap<Digest, T> {
        match metering {
            Metering::Plain => &self.plain,
            Metering::Fuel => &self.fuel,
        }
    }

    fn of_mut(&mut self, metering: Metering) -> &mut BTreeMap<Digest, T> {
        match metering {
            Metering::Plain => &mut self.plain,
            Metering::Fuel => &mut self.fuel,
        }
    }
}

impl TeamComponents {
    pub(super) fn get(&self, digest: &Digest, metering: Metering) -> Option<Arc<LoadedComponent>> {
        let components = self.0.read().unwrap_or_else(PoisonError::into_inner);
        components.of(metering).get(digest).cloned()
    }

    pub(super) fn insert(&self, metering: Metering, component: &Arc<LoadedComponent>) {
        let mut components = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let digest = component.info.digest.clone();
        components
            .of_mut(metering)
            .insert(digest, Arc::clone(component));
    }
}

impl SharedComponents {
    pub(super) fn get(&self, digest: &Digest, metering: Metering) -> Option<Arc<LoadedComponent>> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.of(metering).get(digest).and_then(Weak::upgrade)
    }

    /// Makes a component available to other teams. If two teams have loaded it at the same time,
    /// both get the one registered first.
    pub(super) fn get_or_insert(
        &self,
        metering: Metering,
        component: LoadedComponent,
    ) -> Arc<LoadedComponent> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes the entries of freed components.
        let is_alive = |component: &Weak<LoadedComponent>| component.strong_count() > 0;
        shared.plain.retain(|_, component| is_alive(component));
        shared.fuel.retain(|_, component| is_alive(component));
        let shared = shared.of_mut(metering);
        let digest = component.info.digest.clone();
        if let Some(existing) = shared.get(&digest).and_then(Weak::upgrade) {
            return existing;
        }
        let component = Arc::new(component);
        shared.insert(digest, Arc::downgrade(&component));
        component
    }
}

#[cfg(test)]
mod tests {
    use strata_base::files::blob::digest_of;
    use strata_services::plugin::Limits;

    use super::super::WasmSandbox;
    use super::*;

    /// The magic number and version of a component without content.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    /// Returns an empty component with a custom section that only has a name.
    fn named_component(name: u8) -> Vec<u8> {
        [EMPTY, &[0, 2, 1, name]].concat()
    }

    fn load(sandbox: &WasmSandbox, bytes: &[u8]) -> Arc<LoadedComponent> {
        let digest = digest_of(bytes);
        sandbox
            .load_without_handler(digest.clone(), &bytes, Metering::Plain, &Limits::default())
            .expect("it is loaded");
        sandbox
            .team_components
            .get(&digest, Metering::Plain)
            .expect("it is loaded")
    }

    #[test]
    fn a_component_is_shared_by_teams_and_gone_with_the_last_that_has_it() {
        let owner = WasmSandbox::uncached().expect("a sandbox");
        let [first, second] = [(); 2].map(|()| WasmSandbox::from_inner(Arc::clone(&owner.inner)));
        let shared = || {
            owner
                .inner
                .shared_components
                .0
                .lock()
                .expect("no panic")
                .plain
                .values()
                .filter(|w| w.strong_count() > 0)
                .count()
        };
        let linked = Arc::downgrade(&load(&first, &named_component(b'a')));
        assert!(
            linked.ptr_eq(&Arc::downgrade(&load(&second, &named_component(b'a')))),
            "it is linked once"
        );
        load(&second, &named_component(b'b'));
        assert_eq!(shared(), 2);
        drop(second.clone());
        drop(second);
        assert_eq!(shared(), 1);
        drop(first);
        assert!(linked.upgrade().is_none());
        load(&owner, &named_component(b'c'));
        assert_eq!(
            owner
                .inner
                .shared_components
                .0
                .lock()
                .expect("no panic")
                .plain
                .len(),
            1,
            "the entries of freed components are removed"
        );
    }
}

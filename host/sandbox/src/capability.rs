//! What an attempt is granted and has used, the files that it sees, and WASI for components that import
//! it. Everything is denied by default: the host functions in `interfaces` check the grants, and
//! refusals name what to add to the team file.

use std::sync::{Arc, LazyLock};

use strata_services::gateway::Gateway;
use strata_services::plugin::{Grants, Plugin};
use strata_services::variables::Variables;

use super::SandboxCall;
use files::AttemptFiles;
use wasi::WasiState;

pub(super) mod files;
mod quota;
pub(super) mod wasi;

/// The grants of one attempt, and how much of them is used.
pub(super) struct Capabilities {
    /// What is granted, and where variables are looked up. `None` while a component describes itself:
    /// nothing is granted then, and the limits are the host's.
    pub(super) plugin: Option<Arc<Plugin>>,
    /// How many requests it has made to language models.
    pub(super) llm_calls: u32,
    pub(super) files: AttemptFiles,
    wasi: Option<Box<WasiState>>,
}

impl Capabilities {
    /// Creates the capabilities of an attempt.
    pub(super) fn new(call: &SandboxCall, gateway: &Gateway) -> Self {
        let dirs = &call.plugin.grants.dirs;
        Self {
            plugin: Some(Arc::clone(&call.plugin)),
            llm_calls: 0,
            files: AttemptFiles::new(dirs, &call.view, Some(gateway.clone())),
            wasi: None,
        }
    }

    pub(super) fn none() -> Self {
        Self {
            plugin: None,
            llm_calls: 0,
            files: AttemptFiles::new(&[], &Arc::default(), None),
            wasi: None,
        }
    }

    /// Returns what is granted.
    pub(super) fn grants(&self) -> &Grants {
        static NOTHING: LazyLock<Grants> = LazyLock::new(Grants::default);
        match &self.plugin {
            Some(plugin) => &plugin.grants,
            None => &NOTHING,
        }
    }

    /// Returns where variables are looked up.
    pub(super) fn variables(&self) -> Variables {
        match &self.plugin {
            Some(plugin) => plugin.variables.clone(),
            None => Variables::default(),
        }
    }

    /// Adds WASI, for a component that imports it.
    pub(super) fn add_wasi(&mut self, wasi: WasiState) {
        self.wasi = Some(Box::new(wasi));
    }

    fn wasi(&mut self) -> &mut WasiState {
        self.wasi
            .as_mut()
            .expect("a component that imports WASI was given it")
    }

    /// Logs what the guest wrote to its streams without ending the line.
    pub(super) fn flush(&self) {
        if let Some(wasi) = &self.wasi {
            wasi.flush();
        }
    }
}

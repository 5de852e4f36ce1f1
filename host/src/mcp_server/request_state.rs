//! The signed state of a call that is interrupted by questions: which run it belongs to, and what was
//! asked. The client returns it with the answers; one that was changed, or belongs to another
//! principal or another call, is not accepted.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

use rmcp::model::{ErrorData, RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use strata_base::random_id::random_id;

use super::Principal;
use super::arguments::invalid;
use super::call_store::CallStore;

/// The name of the key. It is kept, so that a state is accepted by the next process, too.
const KEY: &str = ".state-key";

/// What a state says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestState {
    /// The name of the run.
    pub(super) run: String,
    /// The requests that were put to the client.
    pub(super) asked: BTreeSet<String>,
    /// The requests that people declined to answer.
    pub(super) declined: BTreeSet<String>,
}

/// What a state is bound to.
pub(super) struct StateOwner<'a> {
    pub(super) principal: &'a Principal,
    pub(super) tool: &'a str,
    /// The digest of the arguments of the call.
    pub(super) arguments: &'a str,
}

/// Signs states, and checks them.
pub(super) struct StateSigner(RequestStateCodec);

impl StateSigner {
    /// Reads the key that is kept. It is made if there is none.
    pub(super) fn open(store: &dyn CallStore) -> io::Result<Self> {
        let new = [random_id().to_le_bytes(), random_id().to_le_bytes()].concat();
        let key = store.keep(KEY, &new)?.unwrap_or(new);
        let codec = RequestStateCodec::try_new(key);
        codec.map(Self).map_err(|error| {
            let text = format!("`{KEY}` is damaged ({error}); remove it");
            io::Error::new(ErrorKind::InvalidData, text)
        })
    }

    /// Returns a state as the client gets it.
    pub(super) fn seal(&self, state: &RequestState, owner: &StateOwner<'_>) -> String {
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        let payload = serde_json::to_vec(state).unwrap_or_default();
        let bound = owner.associated_data();
        self.0
            .seal_with(&payload, &SealOptions::new().associated_data(&bound))
    }

    /// Returns what a state says. Fails if it is not one that this signer gave to the same owner.
    pub(super) fn open_state(
        &self,
        sealed: &str,
        owner: &StateOwner<'_>,
    ) -> Result<RequestState, ErrorData> {
        let refused = || {
            invalid("the `requestState` was changed, or belongs to another client or another call")
        };
        let opened = self.0.open_with(sealed, &owner.associated_data());
        let payload = opened.map_err(|_| refused())?;
        serde_json::from_slice(&payload).map_err(|_| refused())
    }
}

impl StateOwner<'_> {
    fn associated_data(&self) -> Vec<u8> {
        let mut bound = Vec::new();
        for part in [&self.principal.0, self.tool, self.arguments] {
            bound.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bound.extend_from_slice(part.as_bytes());
        }
        bound
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_store::CallFiles;
    use super::*;

    #[test]
    fn a_state_is_accepted_only_unchanged_and_from_its_owner() {
        let runs = tempfile::tempdir().expect("a directory");
        let files = CallFiles::open(runs.path()).expect("files");
        let signer = StateSigner::open(&files).expect("a signer");
        let state = RequestState {
            run: "r".into(),
            asked: ["ask-0".to_owned()].into(),
            declined: BTreeSet::new(),
        };
        let (local, other) = (Principal::local(), Principal::of_token("ci"));
        let owner = |principal, arguments| StateOwner {
            principal,
            tool: "t",
            arguments,
        };
        let sealed = signer.seal(&state, &owner(&local, "a"));
        // The key is kept.
        let later = StateSigner::open(&files).expect("a signer");
        assert_eq!(
            later
                .open_state(&sealed, &owner(&local, "a"))
                .expect("accepted"),
            state
        );
        let refused = |sealed: &str, owner: StateOwner<'_>| {
            let error = later.open_state(sealed, &owner).unwrap_err();
            assert_eq!(error.code.0, -32602, "{sealed}");
        };
        refused(&sealed, owner(&other, "a"));
        refused(&sealed, owner(&local, "b"));
        refused(&format!("x{sealed}"), owner(&local, "a"));
        refused(&sealed[..sealed.len() - 2], owner(&local, "a"));
        refused("", owner(&local, "a"));
    }
}

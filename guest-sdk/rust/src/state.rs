//! State that outlasts a call: values in scopes.
//!
//! An attempt sees its own writes at once; other roles see them after the step has committed. The
//! writes of a failed attempt are discarded.
//!
//! ```
//! # use strata_action::{state, Failure};
//! # strata_action::testing::Host::new().scope("tracking").within(|| -> Result<(), Failure> {
//! let seen: u32 = state::role().get("seen")?.unwrap_or(0);
//! state::role().set("seen", &(seen + 1))?;
//! state::scope("tracking").set("open", &["a", "b"])?;
//! # Ok(()) }).unwrap();
//! ```

use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A set of keys with one owner.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    name: &'a str,
}

/// Returns the scope that is private to the acting role.
pub fn role() -> Scope<'static> {
    Scope { name: "role" }
}

/// Returns a scope that the team file declares under `[env.scope]`.
pub fn scope(name: &str) -> Scope<'_> {
    Scope { name }
}

impl Scope<'_> {
    /// Returns the value of a key, or `None` if the key is absent.
    ///
    /// # Errors
    /// Fails if there is no such scope, or if the value is not a `T`.
    pub fn get<T: DeserializeOwned>(self, key: &str) -> Result<Option<T>, Failure> {
        let what = || format!("key `{key}` of scope `{}`", self.name);
        host::state::get(self.name, key)?
            .map(|text| json::parse(&what(), &text))
            .transpose()
    }

    /// Writes a value. In a scope with a reducer, the value is passed to the reducer.
    ///
    /// # Errors
    /// Fails if there is no such scope or the value cannot be written as JSON.
    pub fn set<T: Serialize + ?Sized>(self, key: &str, value: &T) -> Result<(), Failure> {
        let what = format!("key `{key}` of scope `{}`", self.name);
        Ok(host::state::set(
            self.name,
            key,
            &json::write(&what, value)?,
        )?)
    }

    /// Removes a key. It is not an error if the key is absent.
    ///
    /// # Errors
    /// Fails if there is no such scope.
    pub fn delete(self, key: &str) -> Result<(), HostError> {
        host::state::delete(self.name, key)
    }

    /// Returns the keys, sorted.
    ///
    /// # Errors
    /// Fails if there is no such scope.
    pub fn keys(self) -> Result<Vec<String>, HostError> {
        host::state::keys(self.name)
    }
}

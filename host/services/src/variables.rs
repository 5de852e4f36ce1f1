//! The environment variables that a team file names: the API key of its model, secrets, and
//! variables that actions may read.

use std::env::VarError;
use std::fmt;
use std::sync::Arc;

/// A function that returns the value of a variable.
type VariableLookup = dyn Fn(&str) -> Result<String, VarError> + Send + Sync;

/// A source of variables, by default the environment of this process. A program that runs teams of
/// several owners can give each team a source of its own.
#[derive(Clone)]
pub struct Variables(Arc<VariableLookup>);

impl Variables {
    /// Returns variables that are looked up by a function. It is called when a team is started, and
    /// whenever an action reads a granted variable. It should not block.
    pub fn from_fn(find: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| find(name).ok_or(VarError::NotPresent)))
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Result<String, VarError> {
        (self.0)(name)
    }

    /// Returns the value of a variable that must not be empty, or what is wrong with it.
    pub fn require(&self, name: &str) -> Result<String, &'static str> {
        match self.get(name) {
            Ok(value) if value.is_empty() => Err("is empty"),
            Ok(value) => Ok(value),
            Err(VarError::NotPresent) => Err("is not set"),
            Err(VarError::NotUnicode(_)) => Err("is not UTF-8"),
        }
    }
}

/// Returns the names of the variables of this process that are not empty.
pub fn variable_names() -> Vec<String> {
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = set.map(|(name, _)| name.into_string());
    names.filter_map(Result::ok).collect()
}

impl Default for Variables {
    fn default() -> Self {
        Self(Arc::new(|name| std::env::var(name)))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their values are secret.
        f.write_str("Variables")
    }
}

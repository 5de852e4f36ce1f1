//! Where the variables are looked up that a team file names: the API key of its model, secrets, and what actions may read.

use std::env::VarError;
use std::fmt;
use std::sync::Arc;

/// Finds the value of a variable.
type Lookup = dyn Fn(&str) -> Result<String, VarError> + Send + Sync;

/// Variables by their names: by default those of this process's environment. A program that runs teams of several owners
/// gives each those of its own.
#[derive(Clone)]
pub struct Variables(Arc<Lookup>);

impl Variables {
    /// Those that a function knows. It is asked when a team is taken up, and where an action reads a granted variable
    /// whenever it does; it should not block.
    pub fn of(find: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| find(name).ok_or(VarError::NotPresent)))
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Result<String, VarError> {
        (self.0)(name)
    }

    /// The value of one that is to hold something, or what is wrong with it.
    pub(crate) fn require(&self, name: &str) -> Result<String, &'static str> {
        match self.get(name) {
            Ok(value) if value.is_empty() => Err("is empty"),
            Ok(value) => Ok(value),
            Err(VarError::NotPresent) => Err("is not set"),
            Err(VarError::NotUnicode(_)) => Err("is not UTF-8"),
        }
    }
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

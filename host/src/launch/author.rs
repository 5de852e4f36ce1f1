//! Who asks for a change of a run, as it is recorded with the change. The name proves nothing: it is what somebody who
//! may change the run says.

use serde::{Deserialize, Serialize};
use strata_base::files::user;
use strata_base::process::machine;
use strata_core::text::find_unfit_for_name;

/// The maximum length of a name. It is recorded and shown.
const MAX_CHARS: usize = 200;

/// Who asks for a change of a run.
///
/// ```
/// use strata_host::launch::Author;
///
/// assert_eq!(Author::parse("anna@desk").unwrap().name(), "anna@desk");
/// assert!(Author::parse("").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Author(String);

impl Author {
    /// Takes a name that somebody gives.
    ///
    /// # Errors
    /// Fails with a text that says what a name may be.
    pub fn parse(name: &str) -> Result<Self, String> {
        let length = name.chars().count();
        if (1..=MAX_CHARS).contains(&length) && find_unfit_for_name(name).is_none() {
            Ok(Self(name.into()))
        } else {
            Err(format!("a name has 1 to {MAX_CHARS} visible characters"))
        }
    }

    /// Returns the user of this process and the machine: `anna@desk`.
    pub fn of_process() -> Self {
        let user = user::name().unwrap_or_else(|| "unknown".into());
        let name = format!("{user}@{}", machine::name());
        Self::parse(&name).unwrap_or_else(|_| Self("unknown".into()))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Author {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name)
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_can_be_seen() {
        let check = |name: &str, is_name: bool| {
            assert_eq!(Author::parse(name).is_ok(), is_name, "{name:?}");
            let read: Result<Author, _> = serde_json::from_value(serde_json::json!(name));
            assert_eq!(read.is_ok(), is_name, "{name:?}");
        };
        check("anna", true);
        check("Anna Müller", true);
        check("", false);
        check("a\u{202e}b", false);
        check("a\nb", false);
        check(&"x".repeat(201), false);
        assert!(Author::parse(Author::of_process().name()).is_ok());
    }
}

//! The API key: read once, sent in one header, shown nowhere.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::services::llm::config::ConfigError;

/// Shorter keys are not looked for in texts: they are placeholders of endpoints that want none, and hiding them would
/// tear ordinary words apart.
const HIDDEN_FROM: usize = 8;
const INSTEAD: &str = "[api key]";

/// A key and the environment variable it came from.
pub(super) struct Key {
    variable: String,
    secret: String,
    bearer: HeaderValue,
}

impl Key {
    /// The key in an environment variable.
    pub(super) fn from_env(variable: &str) -> Result<Self, ConfigError> {
        let wrong = |problem| ConfigError::ApiKey { name: variable.to_owned(), problem };
        match std::env::var(variable) {
            Ok(secret) => Self::new(variable, secret).map_err(wrong),
            Err(std::env::VarError::NotPresent) => Err(wrong("is not set")),
            Err(std::env::VarError::NotUnicode(_)) => Err(wrong("is not UTF-8")),
        }
    }

    fn new(variable: &str, secret: String) -> Result<Self, &'static str> {
        if secret.is_empty() {
            return Err("is empty");
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {secret}"))
            .map_err(|_| "holds a character that no HTTP header can carry, such as a line break")?;
        bearer.set_sensitive(true);
        Ok(Self { variable: variable.to_owned(), secret, bearer })
    }

    /// The variable's name.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// The header that shows the key to the endpoint.
    pub(super) fn bearer(&self) -> HeaderValue {
        self.bearer.clone()
    }

    /// A text without the key in it.
    pub(super) fn hide(&self, text: String) -> String {
        if self.secret.len() < HIDDEN_FROM {
            return text;
        }
        text.replace(&self.secret, INSTEAD)
    }

    /// How many bytes at the end of a text may be the beginning of the key.
    pub(super) fn begun_in(&self, text: &str) -> usize {
        if self.secret.len() < HIDDEN_FROM {
            return 0;
        }
        let begins = |length: &usize| self.secret.get(..*length).is_some_and(|begin| text.ends_with(begin));
        (1..self.secret.len()).rev().find(begins).unwrap_or(0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, [redacted])", self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-0123456789";

    #[test]
    fn a_key_is_in_its_header_and_in_no_debug_output() {
        let key = Key::new("KEY", SECRET.to_owned()).expect("a usable key");
        assert_eq!(key.bearer().to_str().ok(), Some("Bearer sk-0123456789"));
        assert_eq!(format!("{key:?} {:?}", key.bearer()), "Key(\"KEY\", [redacted]) Sensitive");
    }

    #[test]
    fn a_key_is_taken_out_of_texts() {
        let check = |secret: &str, text: &str, expected: &str| {
            let key = Key::new("KEY", secret.to_owned()).expect("a usable key");
            assert_eq!(key.hide(text.to_owned()), expected);
        };
        check(SECRET, "wrong key sk-0123456789!", "wrong key [api key]!");
        check(SECRET, "nothing", "nothing");
        check("k", "broken", "broken");
    }

    #[test]
    fn unusable_keys_are_refused_without_being_shown() {
        let check = |secret: &str, expected: &str| {
            let problem = Key::new("KEY", secret.to_owned()).expect_err("an unusable key");
            assert!(problem.contains(expected), "{problem}");
            assert!(secret.is_empty() || !problem.contains(secret));
        };
        check("", "is empty");
        check("sk-0123456789\n", "line break");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Key::from_env("STRATA_TEST_NO_SUCH_KEY").expect_err("no such variable");
        let text = error.to_string();
        assert!(text.contains("`STRATA_TEST_NO_SUCH_KEY`: it is not set"), "{text}");
    }
}

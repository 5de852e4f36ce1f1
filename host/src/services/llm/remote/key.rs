//! The API key: read once, sent in one header, shown nowhere. It is taken out of what an endpoint says once that is
//! decoded, and out of what is quoted of it as it came; in which forms it is found there is in `services::trace`.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::services::llm::config::ConfigError;
use crate::services::llm::models::excerpt;
use crate::services::llm::{Reply, ToolCall};
use crate::services::trace::{Trace, hidden, hidden_so_far};
use crate::services::variables::Variables;

/// Shorter keys are not looked for in texts: they are placeholders of endpoints that want none, and hiding them would
/// tear ordinary words apart.
const HIDDEN_FROM: usize = 8;

/// A key and the environment variable it came from.
pub(super) struct Key {
    variable: String,
    bearer: HeaderValue,
    /// None for one that is not looked for.
    trace: Option<Box<Trace>>,
}

/// Takes a key out of what an endpoint says, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Hush<'a>(Option<&'a Trace>);

impl Key {
    /// The key in a variable.
    pub(super) fn read(variables: &Variables, variable: &str) -> Result<Self, ConfigError> {
        let key = variables
            .require(variable)
            .and_then(|secret| Self::new(variable, secret));
        key.map_err(|problem| ConfigError::ApiKey {
            name: variable.to_owned(),
            problem,
        })
    }

    fn new(variable: &str, secret: String) -> Result<Self, &'static str> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {secret}"))
            .map_err(|_| "holds a character that no HTTP header can carry, such as a line break")?;
        bearer.set_sensitive(true);
        let trace = Some(secret).filter(|secret| secret.len() >= HIDDEN_FROM);
        let trace = trace
            .and_then(|secret| Trace::of(variable, &secret))
            .map(Box::new);
        Ok(Self {
            variable: variable.to_owned(),
            bearer,
            trace,
        })
    }

    /// The variable's name.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// The header that shows the key to the endpoint.
    pub(super) fn bearer(&self) -> HeaderValue {
        self.bearer.clone()
    }
}

impl<'a> Hush<'a> {
    /// Of the key that an endpoint is shown.
    pub(super) fn of(key: Option<&'a Key>) -> Self {
        Self(key.and_then(|key| key.trace.as_deref()))
    }

    /// A text without the key in it.
    pub(super) fn text(self, text: String) -> String {
        match self.0 {
            Some(trace) => String::from_utf8_lossy(&hidden(text.as_bytes(), &[trace])).into_owned(),
            None => text,
        }
    }

    /// What is certain of a text that goes on; it is taken away from it.
    pub(super) fn begun(self, text: &mut String) -> String {
        let Some(trace) = self.0 else {
            return std::mem::take(text);
        };
        let (clear, left) = hidden_so_far(text.as_bytes(), &[trace]);
        text.drain(..text.len() - left);
        String::from_utf8_lossy(&clear).into_owned()
    }

    /// A reply without the key in it.
    pub(super) fn reply(self, reply: Reply) -> Reply {
        let call = |ToolCall {
                        id,
                        name,
                        arguments,
                    }| ToolCall {
            id: self.text(id),
            name: self.text(name),
            arguments: self.text(arguments),
        };
        Reply {
            text: self.text(reply.text),
            data: reply.data.map(|data| self.text(data)),
            tool_calls: reply.tool_calls.into_iter().map(call).collect(),
            model: self.text(reply.model),
            ..reply
        }
    }

    /// The beginning of what an endpoint sent, for an error. Without the key before it is cut, since a part of one is
    /// not found.
    pub(super) fn excerpt(self, text: &str) -> String {
        excerpt(&self.text(text.to_owned()))
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
        assert_eq!(
            format!("{key:?} {:?}", key.bearer()),
            "Key(\"KEY\", [redacted]) Sensitive"
        );
    }

    #[test]
    fn a_key_is_taken_out_of_texts() {
        let check = |secret: &str, text: &str, expected: &str| {
            let key = Key::new("KEY", secret.to_owned()).expect("a usable key");
            assert_eq!(Hush::of(Some(&key)).text(text.to_owned()), expected);
        };
        check(
            SECRET,
            "wrong key sk-0123456789!",
            "wrong key [secret KEY]!",
        );
        check(
            SECRET,
            r"wrong key \u0073k\u002d0123456789!",
            "wrong key [secret KEY]!",
        );
        check(SECRET, "nothing", "nothing");
        check("broken", "broken", "broken");
    }

    #[test]
    fn unusable_keys_are_refused_without_being_shown() {
        let check = |secret: &str, expected: &str| {
            let value = secret.to_owned();
            let variables = Variables::of(move |name| (name == "KEY").then(|| value.clone()));
            let problem = Key::read(&variables, "KEY")
                .expect_err("an unusable key")
                .to_string();
            assert!(problem.contains(expected), "{problem}");
            assert!(secret.is_empty() || !problem.contains(secret));
        };
        check("", "is empty");
        check("sk-0123456789\n", "line break");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Key::read(&Variables::default(), "STRATA_TEST_NO_SUCH_KEY")
            .expect_err("no such variable");
        let text = error.to_string();
        assert!(
            text.contains("`STRATA_TEST_NO_SUCH_KEY`: it is not set"),
            "{text}"
        );
    }
}

//! The API key: read once, sent in one header, never displayed. It is removed from the decoded
//! contents of replies and from quotations of raw responses. `services::redaction` finds it there in
//! all its encodings.

use std::fmt;

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;
use strata_core::record::conversation::{AssistantPart, OpaquePart, ToolCall};
use strata_core::record::json::Json;

use super::failure::AttemptFailure;
use crate::models::config::ConfigError;
use crate::models::error_text::excerpt;
use crate::models::protocol::KeyHeader;
use crate::models::{Embeddings, ModelReply};
use crate::redaction::{SecretRedactor, redact, redact_prefix};
use crate::variables::Variables;

/// The minimum length of a key in bytes to be redacted. Shorter keys are placeholders for endpoints
/// that require none, and redacting them would destroy ordinary words.
const MIN_REDACTED_KEY_BYTES: usize = 8;

/// A key and the environment variable that it was read from.
pub(super) struct ApiKey {
    variable: String,
    header: HeaderName,
    value: HeaderValue,
    /// `None` for a key that is too short to be redacted.
    redactor: Option<Box<SecretRedactor>>,
}

/// Removes the key, if there is one, from what an endpoint sends.
#[derive(Clone, Copy)]
pub(super) struct KeyRedactor<'a>(Option<&'a SecretRedactor>);

impl ApiKey {
    /// Reads the key of the model with this name from an environment variable.
    pub(super) fn read(
        variables: &Variables,
        variable: &str,
        header: KeyHeader,
        model: &str,
    ) -> Result<Self, ConfigError> {
        let key = variables
            .require(variable)
            .and_then(|secret| Self::new(variable, header, secret));
        key.map_err(|problem| ConfigError::ApiKey {
            model: model.to_owned(),
            name: variable.to_owned(),
            problem,
        })
    }

    fn new(variable: &str, header: KeyHeader, secret: String) -> Result<Self, &'static str> {
        let mut value = HeaderValue::from_str(&format!("{}{secret}", header.prefix))
            .map_err(|_| "holds a character that no HTTP header can carry, such as a line break")?;
        value.set_sensitive(true);
        let redactor = Some(secret).filter(|secret| secret.len() >= MIN_REDACTED_KEY_BYTES);
        let redactor = redactor
            .and_then(|secret| SecretRedactor::for_secret(variable, &secret))
            .map(Box::new);
        Ok(Self {
            variable: variable.to_owned(),
            header: HeaderName::from_static(header.name),
            value,
            redactor,
        })
    }

    /// Returns the variable's name.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// Returns the name of the header that authenticates requests.
    pub(super) fn header(&self) -> HeaderName {
        self.header.clone()
    }

    /// Returns the value of the header that authenticates requests.
    pub(super) fn value(&self) -> HeaderValue {
        self.value.clone()
    }
}

impl<'a> KeyRedactor<'a> {
    /// Returns a redactor for a key.
    pub(super) fn for_key(key: Option<&'a ApiKey>) -> Self {
        Self(key.and_then(|key| key.redactor.as_deref()))
    }

    /// Returns a text without the key.
    pub(super) fn text(self, text: String) -> String {
        match self.0 {
            Some(trace) => String::from_utf8_lossy(&redact(text.as_bytes(), &[trace])).into_owned(),
            None => text,
        }
    }

    /// Removes and returns the beginning of a text that cannot be part of a key, whatever follows.
    pub(super) fn take_redacted_prefix(self, text: &mut String) -> String {
        let Some(trace) = self.0 else {
            return std::mem::take(text);
        };
        let (clear, left) = redact_prefix(text.as_bytes(), &[trace]);
        text.drain(..text.len() - left);
        String::from_utf8_lossy(&clear).into_owned()
    }

    // What an endpoint sends is taken apart field by field, without `..`: a field that is added has to
    // be decided about here.

    /// Returns a reply without the key.
    pub(super) fn reply(self, reply: ModelReply) -> ModelReply {
        let ModelReply {
            parts,
            data,
            model,
            finish,
            usage,
        } = reply;
        ModelReply {
            parts: parts.into_iter().map(|part| self.part(part)).collect(),
            data: data.map(|data| self.text(data)),
            model: self.text(model),
            finish,
            usage,
        }
    }

    /// Returns vectors without the key.
    pub(super) fn embeddings(self, embeddings: Embeddings) -> Embeddings {
        let Embeddings {
            vectors,
            model,
            input_tokens,
        } = embeddings;
        Embeddings {
            vectors,
            model: self.text(model),
            input_tokens,
        }
    }

    /// Returns a failure without the key. Libraries quote what they cannot read in their messages.
    pub(super) fn failure(self, failure: AttemptFailure) -> AttemptFailure {
        let AttemptFailure {
            message,
            retry,
            outlook,
            usage,
            finish,
            answered,
            is_too_long,
        } = failure;
        AttemptFailure {
            message: self.text(message),
            retry,
            outlook,
            usage,
            finish,
            answered: answered.map(|model| self.text(model)),
            is_too_long,
        }
    }

    fn part(self, part: AssistantPart) -> AssistantPart {
        match part {
            AssistantPart::Text(text) => AssistantPart::Text(self.text(text)),
            // The bytes of media are kept by their digest, and endpoints send none.
            AssistantPart::Media(media) => AssistantPart::Media(media),
            AssistantPart::ToolCall(ToolCall {
                id,
                name,
                arguments,
            }) => AssistantPart::ToolCall(ToolCall {
                id: self.text(id),
                name: self.text(name),
                arguments: self.text(arguments),
            }),
            AssistantPart::Opaque(OpaquePart {
                provider,
                model,
                data,
                reasoning,
            }) => AssistantPart::Opaque(OpaquePart {
                // The host's own names.
                provider,
                model,
                data: self.document(data),
                reasoning: self.text(reasoning),
            }),
        }
    }

    fn document(self, data: Json) -> Json {
        if self.0.is_none() {
            return data;
        }
        let text = self.text(data.as_str().to_owned());
        // A key that contains quotation marks is escaped in the text.
        Json::parse(&text).unwrap_or_else(|_| Value::from(text).into())
    }

    /// Returns the beginning of what an endpoint sent, for an error message. The key is removed
    /// before the text is cut, because a part of a key would not be recognized.
    pub(super) fn excerpt(self, text: &str) -> String {
        excerpt(&self.text(text.to_owned()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, [redacted])", self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-0123456789";

    fn key(secret: &str) -> ApiKey {
        ApiKey::new("KEY", KeyHeader::BEARER, secret.to_owned()).expect("a usable key")
    }

    #[test]
    fn a_key_is_in_its_header_and_in_no_debug_output() {
        let key = key(SECRET);
        assert_eq!(key.value().to_str().ok(), Some("Bearer sk-0123456789"));
        assert_eq!(
            format!("{key:?} {:?}", key.value()),
            "Key(\"KEY\", [redacted]) Sensitive"
        );
    }

    #[test]
    fn a_key_is_taken_out_of_texts() {
        let check = |secret: &str, text: &str, expected: &str| {
            let key = key(secret);
            assert_eq!(
                KeyRedactor::for_key(Some(&key)).text(text.to_owned()),
                expected
            );
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
            let variables = Variables::from_fn(move |name| (name == "KEY").then(|| value.clone()));
            let problem = ApiKey::read(&variables, "KEY", KeyHeader::BEARER, "default")
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
        let error = ApiKey::read(
            &Variables::default(),
            "STRATA_TEST_NO_SUCH_KEY",
            KeyHeader::BEARER,
            "default",
        )
        .expect_err("no such variable");
        let text = error.to_string();
        assert!(
            text.contains("`STRATA_TEST_NO_SUCH_KEY`: it is not set"),
            "{text}"
        );
    }
}

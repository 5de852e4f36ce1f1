//! The secrets of a team: read once from the operator's environment, inserted when a request leaves
//! the host, and removed from what comes back. No other module holds their values.
//! `services::redaction` knows the encodings in which they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::redaction::{SecretRedactor, redact};
use crate::variables::Variables;

/// The beginning of a placeholder. The name and `PLACEHOLDER_END` follow.
const PLACEHOLDER_START: &str = "{{secret:";
const PLACEHOLDER_END: &str = "}}";

/// Returns the placeholder of a secret in a request.
pub fn placeholder(name: &str) -> String {
    format!("{PLACEHOLDER_START}{name}{PLACEHOLDER_END}")
}

/// Returns the names of the secrets whose placeholders a text contains, in order.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let after_starts = text.split(PLACEHOLDER_START).skip(1);
    after_starts.filter_map(|rest| Some(rest.split_once(PLACEHOLDER_END)?.0))
}

/// The secrets of a team.
#[derive(Default)]
pub struct Secrets {
    values: BTreeMap<String, String>,
    /// A redactor for each secret, by name.
    redactors: BTreeMap<String, SecretRedactor>,
}

/// A secret that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret `{name}` is read from the environment variable of that name, which {problem}")]
pub struct MissingSecret {
    /// Its name.
    pub name: String,
    /// What is wrong with its variable.
    pub problem: &'static str,
}

impl Secrets {
    /// Reads the environment variables with these names. Returns all that cannot be read.
    pub fn read<'a>(
        variables: &Variables,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Vec<MissingSecret>> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for name in names {
            match variables.require(name) {
                Ok(value) => {
                    values.insert(name.to_owned(), value);
                }
                Err(problem) => missing.push(MissingSecret {
                    name: name.to_owned(),
                    problem,
                }),
            }
        }
        if missing.is_empty() {
            Ok(Self::new(values))
        } else {
            Err(missing)
        }
    }

    /// Returns secrets with these values.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        let trace = |(name, value): (&String, &String)| {
            Some((name.clone(), SecretRedactor::for_secret(name, value)?))
        };
        let redactors = values.iter().filter_map(trace).collect();
        Self { values, redactors }
    }

    /// Returns the value of a secret, for a program that gets it as a variable.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns a text in which the placeholders of the secrets in `names` are replaced by their
    /// values. Returns `None` if the result would be longer than `limit` bytes, because a short
    /// text may contain a placeholder many times.
    pub(super) fn fill(&self, text: &str, names: &[String], limit: usize) -> Option<String> {
        self.fill_with(text, names, str::to_owned, limit)
    }

    /// Fills the query of an address: the values are percent-encoded.
    pub(super) fn fill_encoded(
        &self,
        text: &str,
        names: &[String],
        limit: usize,
    ) -> Option<String> {
        self.fill_with(text, names, percent_encode, limit)
    }

    /// Replaces the placeholders in bytes. Returns `None` if the result would be longer than `limit`.
    pub(super) fn fill_bytes(
        &self,
        bytes: &[u8],
        names: &[String],
        limit: usize,
    ) -> Option<Vec<u8>> {
        let mut changes: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (name, value) in self.values_named(names) {
            changes.push((placeholder(name).into_bytes(), value.as_bytes().to_vec()));
        }
        replace_bytes(bytes, &changes, limit)
    }

    fn values_named(&self, names: &[String]) -> impl Iterator<Item = (&String, &String)> {
        self.values.iter().filter(|(name, _)| names.contains(name))
    }

    fn fill_with(
        &self,
        text: &str,
        names: &[String],
        form: impl Fn(&str) -> String,
        limit: usize,
    ) -> Option<String> {
        let mut filled = String::new();
        let mut rest = text;
        // Inserted values are not scanned again.
        while let Some(at) = rest.find(PLACEHOLDER_START) {
            let after = &rest[at + PLACEHOLDER_START.len()..];
            let name = after.find(PLACEHOLDER_END).map(|end| &after[..end]);
            match name.and_then(|name| self.values_named(names).find(|(known, _)| *known == name)) {
                Some((name, value)) => {
                    filled.push_str(&rest[..at]);
                    filled.push_str(&form(value));
                    rest = &after[name.len() + PLACEHOLDER_END.len()..];
                }
                None => {
                    filled.push_str(&rest[..at + PLACEHOLDER_START.len()]);
                    rest = after;
                }
            }
            if filled.len() > limit {
                return None;
            }
        }
        Some(filled + rest).filter(|filled| filled.len() <= limit)
    }

    /// Returns a text in which the values of these secrets are replaced by their names.
    pub(super) fn redact(&self, text: &str, names: &BTreeSet<String>) -> String {
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes(), names)).into_owned()
    }

    /// Returns bytes in which the values of these secrets are replaced by their names.
    pub(super) fn redact_bytes(&self, bytes: &[u8], names: &BTreeSet<String>) -> Vec<u8> {
        redact(bytes, &self.redactors_named(names).collect::<Vec<_>>())
    }

    /// Returns whether the name of a header contains one of these secrets.
    pub(super) fn is_in_header_name(&self, header: &str, names: &BTreeSet<String>) -> bool {
        self.redactors_named(names)
            .any(|redactor| redactor.is_in_header_name(header))
    }

    fn redactors_named(&self, names: &BTreeSet<String>) -> impl Iterator<Item = &SecretRedactor> {
        names.iter().filter_map(|name| self.redactors.get(name))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Returns whether a text contains a placeholder of one of these secrets.
pub(super) fn contains_placeholder(bytes: &[u8], names: &[String]) -> bool {
    names
        .iter()
        .any(|name| find_bytes(bytes, placeholder(name).as_bytes()).is_some())
}

fn percent_encode(value: &str) -> String {
    utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
}

fn find_bytes(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Replaces byte sequences in one pass. At each position, the first one that matches is replaced.
/// Returns `None` if the result would be longer than `limit` bytes.
fn replace_bytes(bytes: &[u8], changes: &[(Vec<u8>, Vec<u8>)], limit: usize) -> Option<Vec<u8>> {
    // Most bytes begin none of the sequences and are skipped quickly.
    let mut begins = [false; 256];
    for (from, _) in changes {
        if let Some(first) = from.first() {
            begins[usize::from(*first)] = true;
        }
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let change = changes
            .iter()
            .find(|(from, _)| begins[usize::from(*first)] && rest.starts_with(from));
        match change {
            Some((from, to)) => {
                out.extend_from_slice(to);
                rest = &rest[from.len()..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
        if out.len() > limit {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let pairs = [
            ("TOKEN", "s3cr3t/\"value\""),
            ("OTHER", "another one"),
            ("PIN", "12"),
        ];
        Secrets::new(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn placeholders_of_named_secrets_are_filled_in_once_and_others_stay() {
        let check = |text: &str, names: &[&str], expected: &str| {
            let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
            let length = expected.len();
            assert_eq!(
                secrets().fill(text, &names, length).as_deref(),
                Some(expected),
                "{text}"
            );
            let filled = secrets().fill_bytes(text.as_bytes(), &names, length);
            assert_eq!(filled.as_deref(), Some(expected.as_bytes()), "{text}");
            if let Some(shorter) = length.checked_sub(1) {
                assert_eq!(secrets().fill(text, &names, shorter), None, "{text}");
                assert_eq!(
                    secrets().fill_bytes(text.as_bytes(), &names, shorter),
                    None,
                    "{text}"
                );
            }
        };
        check(
            "Bearer {{secret:TOKEN}}",
            &["TOKEN"],
            "Bearer s3cr3t/\"value\"",
        );
        check(
            "{{secret:TOKEN}}{{secret:OTHER}}",
            &["TOKEN", "OTHER"],
            "s3cr3t/\"value\"another one",
        );
        check(
            "{{secret:TOKEN}}{{secret:OTHER}}",
            &["OTHER"],
            "{{secret:TOKEN}}another one",
        );
        check("{{secret:{{secret:PIN}}}}", &["PIN"], "{{secret:12}}");
        check("{{secret:TOKEN", &["TOKEN"], "{{secret:TOKEN");
        check(
            "{{secret:NONE}} {{x}}",
            &["TOKEN", "NONE"],
            "{{secret:NONE}} {{x}}",
        );
        check("", &["TOKEN"], "");
    }

    #[test]
    fn values_are_hidden_where_they_are_looked_for_and_others_are_not() {
        let check = |text: &str, names: &[&str], expected: &str| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(secrets().redact(text, &names), expected);
        };
        check(
            "you said s3cr3t/\"value\"!",
            &["TOKEN"],
            "you said [secret TOKEN]!",
        );
        check(
            "another one, s3cr3t%2F%22value%22",
            &["TOKEN", "OTHER"],
            "[secret OTHER], [secret TOKEN]",
        );
        check(
            "another one, s3cr3t%2F%22value%22",
            &["OTHER"],
            "[secret OTHER], s3cr3t%2F%22value%22",
        );
        check("another one", &["NONE"], "another one");
        check(
            "12 is too short to be looked for",
            &["PIN"],
            "12 is too short to be looked for",
        );
        let filled = secrets().fill_encoded("k={{secret:TOKEN}}", &["TOKEN".into()], 100);
        assert_eq!(filled.as_deref(), Some("k=s3cr3t%2F%22value%22"));
        assert_eq!(format!("{:?}", secrets()), r#"{"OTHER", "PIN", "TOKEN"}"#);
    }

    #[test]
    fn variables_that_are_not_there_are_all_told() {
        let missing = Secrets::read(
            &Variables::default(),
            ["STRATA_TEST_NONE_B", "STRATA_TEST_NONE_A"],
        )
        .unwrap_err();
        let told: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let line = |name| {
            format!(
                "the secret `{name}` is read from the environment variable of that name, which is not set"
            )
        };
        assert_eq!(
            told,
            [line("STRATA_TEST_NONE_A"), line("STRATA_TEST_NONE_B")]
        );
    }
}

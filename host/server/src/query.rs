//! The parameters of a request's query.

use serde::de::DeserializeOwned;
use strata_host::clock::parse_rfc3339;
use url::form_urlencoded;

use crate::problem::Problem;

/// How many entries a list has by default, and at most.
pub const DEFAULT_LIMIT: usize = 50;
pub const MAX_LIMIT: usize = 500;

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Self {
        let parsed = form_urlencoded::parse(text.as_bytes());
        Self(
            parsed
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// Returns how many bytes its parameters have.
    pub fn bytes(&self) -> usize {
        let parameters = self.0.iter();
        parameters
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// Fails if it has a parameter that is not among these. A token in a query is refused in any case: it would be
    /// written into logs.
    pub fn allow(&self, names: &[&str]) -> Result<(), Problem> {
        let unknown = self
            .0
            .iter()
            .find(|(name, _)| !names.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, _)) => Err(Problem::refused(format!(
                "there is no parameter `{}`",
                name.escape_debug()
            ))
            .named("parameter")
            .with_hint(if names.is_empty() {
                "this request has no parameters".into()
            } else {
                format!("the parameters are: {}", names.join(", "))
            })),
        }
    }

    /// Returns the values of a parameter.
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(one, _)| one == name);
        values.map(|(_, value)| value.clone()).collect()
    }

    /// Returns the value of a parameter. Fails if it has several.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(one, _)| one == name);
        let value = values.next().map(|(_, value)| value.as_str());
        match values.next() {
            None => Ok(value),
            Some(_) => Err(wrong(name, "it is given more than once")),
        }
    }

    /// Returns how many entries are asked for.
    pub fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.one("limit")? else {
            return Ok(DEFAULT_LIMIT);
        };
        let limit = text.parse().ok();
        limit
            .filter(|limit| (1..=MAX_LIMIT).contains(limit))
            .ok_or_else(|| wrong("limit", &format!("give a number from 1 to {MAX_LIMIT}")))
    }

    /// Returns a time, in milliseconds since 1970.
    pub fn time_ms(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.one(name)? else {
            return Ok(None);
        };
        let parsed = parse_rfc3339(text);
        let parsed = parsed.ok_or_else(|| wrong(name, "give a time such as 2026-01-31T12:00:00Z"));
        parsed.map(Some)
    }

    /// Returns a whole number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.one(name)? else {
            return Ok(None);
        };
        let parsed = text.parse().ok();
        parsed
            .map(Some)
            .ok_or_else(|| wrong(name, "give a whole number"))
    }
}

/// Returns the problem of a parameter.
pub fn wrong(name: &str, detail: &str) -> Problem {
    Problem::refused(format!("the parameter `{name}`: {detail}")).named("parameter")
}

/// Encodes the position after an entry of a list. Clients do not look into it.
pub fn encode_cursor(position: &impl serde::Serialize) -> String {
    use base64::Engine as _;
    let text = serde_json::to_vec(position).unwrap_or_default();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

/// Decodes the position after an entry of a list.
pub fn decode_cursor<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text);
    let position = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    position.ok_or_else(|| wrong("after", "it is no position that a list gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_may_be_repeated_where_its_values_are_alternatives() {
        let query = Query::parse("status=done&status=waiting&team=a+b&x=%C3%A9");
        assert_eq!(query.all("status"), ["done", "waiting"]);
        assert_eq!(query.one("team").unwrap(), Some("a b"));
        assert_eq!(query.one("x").unwrap(), Some("é"));
        assert_eq!(query.one("status").unwrap_err().status.as_u16(), 422);
        assert!(query.allow(&["status", "team", "x"]).is_ok());
        assert!(query.allow(&["status"]).is_err());
    }

    #[test]
    fn a_limit_is_a_number_of_entries() {
        let check = |query: &str, expected: Option<usize>| {
            assert_eq!(Query::parse(query).limit().ok(), expected, "{query}");
        };
        check("", Some(50));
        check("limit=1", Some(1));
        check("limit=500", Some(500));
        check("limit=0", None);
        check("limit=501", None);
        check("limit=-1", None);
        check("limit=x", None);
        check("limit=1&limit=2", None);
    }

    #[test]
    fn a_cursor_is_what_a_list_gave() {
        let cursor = encode_cursor(&(5_i64, "id".to_owned()));
        assert_eq!(
            decode_cursor::<(i64, String)>(&cursor).unwrap(),
            (5, "id".into())
        );
        for wrong in ["", "x", "bnVsbA", &cursor[1..], "../.."] {
            assert!(decode_cursor::<(i64, String)>(wrong).is_err(), "{wrong}");
        }
    }
}

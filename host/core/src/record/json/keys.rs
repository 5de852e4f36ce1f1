//! Repeated keys in the objects of a JSON document.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// Returns the first key that is repeated within an object of a document, if there is one.
pub(super) fn first_repeated(text: &str) -> Result<Option<String>, serde_json::Error> {
    serde_json::from_str::<RepeatedKey>(text).map(|found| found.0)
}

struct RepeatedKey(Option<String>);

impl<'de> Deserialize<'de> for RepeatedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = RepeatedKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RepeatedKey, A::Error> {
        let mut known = BTreeSet::new();
        let mut repeated = None;
        while let Some(key) = map.next_key::<String>()? {
            let RepeatedKey(within) = map.next_value()?;
            if repeated.is_none() {
                repeated = known.contains(&key).then(|| key.clone()).or(within);
            }
            known.insert(key);
        }
        Ok(RepeatedKey(repeated))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RepeatedKey, A::Error> {
        let mut repeated = None;
        while let Some(RepeatedKey(within)) = list.next_element()? {
            repeated = repeated.or(within);
        }
        Ok(RepeatedKey(repeated))
    }

    fn visit_bool<E>(self, _: bool) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }

    fn visit_unit<E>(self) -> Result<RepeatedKey, E> {
        Ok(RepeatedKey(None))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{JsonError, parse_decision};

    #[test]
    fn a_decision_names_each_key_once() {
        let check = |text: &str, repeated: Option<&str>| match parse_decision(text) {
            Err(JsonError::RepeatedKey(key)) => assert_eq!(Some(&*key), repeated, "{text}"),
            parsed => assert_eq!((parsed.is_ok(), repeated), (true, None), "{text}"),
        };
        check(r#"{"approve":false,"approve":true}"#, Some("approve"));
        check(r#"{"approve":true,"\u0061pprove":true}"#, Some("approve"));
        check(r#"[1,{"a":[{"b":null,"b":1.5}]}]"#, Some("b"));
        check(r#"{"a":{"a":{"a":true}},"b":[{"a":-1},{"a":"a"}]}"#, None);
        check("\u{feff}{\"a\":\"\\ud800\"}", None);
        check("null", None);
    }
}

//! Scopes of state: what is in them, and how concurrent writes become one value.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::json::Json;
use crate::team::Reducer;

/// The name of the scope that is private to the acting role.
pub const ROLE_SCOPE: &str = "role";

/// The values of one scope by key.
pub type Scope = BTreeMap<String, Json>;

/// One change of one key, in the order in which the guest made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// `role` or the name of a shared scope.
    pub scope: String,
    /// The key.
    pub key: String,
    /// What happens to it.
    pub change: Change,
}

/// What happens to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It gets this value, or offers it to the scope's reducer.
    Set(Json),
    /// It is removed.
    Delete,
}

/// Applies one change to the value a key has.
pub fn reduce(reducer: Option<Reducer>, old: Option<Json>, change: &Change) -> Option<Json> {
    let Change::Set(new) = change else {
        return None;
    };
    Some(match (reducer, old) {
        (Some(Reducer::Append), None) => new.clone().into_list(),
        (Some(Reducer::Append), Some(old)) => old.into_list().join(&new.clone().into_list()),
        (Some(Reducer::Add), Some(old)) => add(&old, new),
        (Some(Reducer::Max), Some(old)) => max(old, new),
        (Some(Reducer::Merge), Some(old)) => merge(&old, new),
        (None | Some(Reducer::Last), _) | (_, None) => new.clone(),
    })
}

/// Whole numbers add exactly while they fit; texts are joined; what cannot be added is replaced.
fn add(old: &Json, new: &Json) -> Json {
    match (old.value(), new.value()) {
        (Value::Number(a), Value::Number(b)) => {
            let exact = whole(&a).zip(whole(&b)).and_then(|(a, b)| Number::from_i128(a + b));
            let rounded = || Number::from_f64(a.as_f64()? + b.as_f64()?);
            exact.or_else(rounded).map_or_else(|| new.clone(), |sum| Json::from(Value::Number(sum)))
        }
        (Value::String(a), Value::String(b)) => Json::from(Value::String(a + &b)),
        _ => new.clone(),
    }
}

/// A number without a fraction. The widest, `u64` and `i64`, have room for their sum.
fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// The greater of two numbers or texts; what cannot be compared is replaced.
fn max(old: Json, new: &Json) -> Json {
    let keep_old = match (old.value(), new.value()) {
        (Value::Number(a), Value::Number(b)) => match (whole(&a), whole(&b)) {
            (Some(a), Some(b)) => a >= b,
            _ => a.as_f64() >= b.as_f64(),
        },
        (Value::String(a), Value::String(b)) => a >= b,
        _ => false,
    };
    if keep_old { old } else { new.clone() }
}

/// One object with the keys of both, the newer value where both have one; other values are replaced.
fn merge(old: &Json, new: &Json) -> Json {
    match (old.value(), new.value()) {
        (Value::Object(mut a), Value::Object(b)) => {
            a.extend(b);
            Json::from(Value::Object(a))
        }
        _ => new.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds the writes of several roles, in their order, into an empty key.
    fn check(reducer: Option<Reducer>, writes: &[&str], expected: &str) {
        let text = |text: &str| Json::parse(text).expect("a document");
        let value = writes.iter().fold(None, |old, new| reduce(reducer, old, &Change::Set(text(new))));
        assert_eq!(value, Some(text(expected)), "{reducer:?} {writes:?}");
    }

    #[test]
    fn writes_are_united_as_the_scope_says() {
        check(Some(Reducer::Append), &["1", "2", "3"], "[1,2,3]");
        check(Some(Reducer::Append), &["[]"], "[]");
        check(Some(Reducer::Append), &["[]", "[]", "[[]]"], "[[]]");
        check(Some(Reducer::Append), &["null", "{}"], "[null,{}]");
        check(Some(Reducer::Append), &["[1,2]", "3", r#""x""#, "[]", "[[4]]"], r#"[1,2,3,"x",[4]]"#);
        check(Some(Reducer::Add), &["1", "2", "3"], "6");
        check(Some(Reducer::Max), &["1", "3", "2"], "3");
        check(Some(Reducer::Last), &["1", "2", "3"], "3");
        check(Some(Reducer::Merge), &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":3}"#], r#"{"a":3,"b":2}"#);
        check(None, &["1", "2"], "2");
    }

    #[test]
    fn whole_numbers_are_added_and_compared_exactly_while_they_fit() {
        check(Some(Reducer::Add), &["9223372036854775807", "1"], "9223372036854775808");
        check(Some(Reducer::Add), &["18446744073709551615", "-1"], "18446744073709551614");
        check(Some(Reducer::Add), &["18446744073709551615", "1"], "18446744073709551616.0");
        check(Some(Reducer::Add), &["-9223372036854775808", "9223372036854775808"], "0");
        check(Some(Reducer::Add), &["0.5", "1"], "1.5");
        check(Some(Reducer::Add), &["1e308", "1e308"], "1e308");
        check(Some(Reducer::Max), &["18446744073709551615", "18446744073709551614"], "18446744073709551615");
        check(Some(Reducer::Max), &["-1", "18446744073709551615", "3"], "18446744073709551615");
        check(Some(Reducer::Max), &["2.5", "2"], "2.5");
    }

    #[test]
    fn what_cannot_be_united_is_replaced_by_the_newer() {
        check(Some(Reducer::Add), &["1", r#""x""#], r#""x""#);
        check(Some(Reducer::Add), &[r#""x""#, r#""y""#], r#""xy""#);
        check(Some(Reducer::Max), &[r#""b""#, r#""a""#], r#""b""#);
        check(Some(Reducer::Max), &["1", "null"], "null");
        check(Some(Reducer::Merge), &[r#"{"a":1}"#, "1", r#"{"b":2}"#], r#"{"b":2}"#);
    }

    #[test]
    fn a_deleted_key_is_gone_whatever_the_reducer() {
        let one = Some(Json::from(Value::from(1)));
        for reducer in [None, Some(Reducer::Append), Some(Reducer::Add), Some(Reducer::Last)] {
            assert_eq!(reduce(reducer, one.clone(), &Change::Delete), None);
            assert_eq!(reduce(reducer, None, &Change::Delete), None);
        }
    }
}

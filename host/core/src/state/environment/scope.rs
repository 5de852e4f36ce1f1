//! Scopes of state: their values, and how concurrent writes become one value.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde_json::{Number, Value};

use crate::record::json::Json;
use crate::record::rules::Reducer;
use crate::record::scope_write::ScopeChange;

/// The values of a scope by key.
pub type Scope = BTreeMap<String, Json>;

/// A key of a scope, by names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeKey<'a> {
    /// `role` or the name of a shared scope.
    pub scope: &'a str,
    /// The key.
    pub key: &'a str,
}

/// Applies changes to the value of a key, in order, and returns the new value. The cost grows with
/// the size of all texts together, not with how often a large value is changed.
pub fn apply_changes<'a>(
    reducer: Option<Reducer>,
    old: Option<Json>,
    changes: impl IntoIterator<Item = &'a ScopeChange>,
) -> Option<Json> {
    let combine: Option<fn(Value, Value) -> Value> = match reducer {
        Some(Reducer::Add) => Some(add),
        Some(Reducer::Max) => Some(max),
        Some(Reducer::Merge) => Some(merge),
        None | Some(Reducer::Append | Reducer::Last) => None,
    };
    // The value as text, or as a parsed value once a change was combined with it.
    let (mut text, mut apart) = (old, None);
    for change in changes {
        match (change, combine) {
            (ScopeChange::Delete, _) => (text, apart) = (None, None),
            (ScopeChange::Set(new), Some(combine)) => {
                match apart.take().or_else(|| Some(text.take()?.value())) {
                    Some(before) => apart = Some(combine(before, new.value())),
                    None => text = Some(new.clone()),
                }
            }
            (ScopeChange::Set(new), None) if reducer == Some(Reducer::Append) => {
                let new = new.clone().into_list();
                text = Some(if let Some(old) = text {
                    old.into_list().concat(&new)
                } else {
                    new
                });
            }
            (ScopeChange::Set(new), None) => text = Some(new.clone()),
        }
    }
    apart.map(Json::from).or(text)
}

/// Integers are added exactly while the sum fits; strings are concatenated; what cannot be added is
/// replaced.
fn add(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Number(a), Value::Number(b)) => {
            let exact = as_integer(&a)
                .zip(as_integer(&b))
                .and_then(|(a, b)| Number::from_i128(a + b));
            let rounded = || Number::from_f64(a.as_f64()? + b.as_f64()?);
            Value::Number(exact.or_else(rounded).unwrap_or(b))
        }
        (Value::String(a), Value::String(b)) => Value::String(a + &b),
        (_, new) => new,
    }
}

/// Returns a number without a fraction. `i128` can hold the sum of any two of type `u64` or `i64`.
fn as_integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// Returns the larger of two numbers or strings; what cannot be compared is replaced.
fn max(old: Value, new: Value) -> Value {
    let keep_old = match (&old, &new) {
        (Value::Number(a), Value::Number(b)) => match (as_integer(a), as_integer(b)) {
            (Some(a), Some(b)) => a >= b,
            _ => a.as_f64() >= b.as_f64(),
        },
        (Value::String(a), Value::String(b)) => a >= b,
        _ => false,
    };
    if keep_old { old } else { new }
}

/// Returns one object with the keys of both, and the newer value if both have a key; other values
/// are replaced.
fn merge(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Object(mut a), Value::Object(b)) => {
            a.extend(b);
            Value::Object(a)
        }
        (_, new) => new,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Folds the writes of several roles, in their order, into an empty key.
    fn check(reducer: Option<Reducer>, writes: &[&str], expected: &str) {
        let text = |text: &str| Json::parse(text).expect("a document");
        let writes: Vec<ScopeChange> = writes
            .iter()
            .map(|new| ScopeChange::Set(text(new)))
            .collect();
        let one_by_one = writes
            .iter()
            .fold(None, |old, new| apply_changes(reducer, old, [new]));
        for value in [one_by_one, apply_changes(reducer, None, &writes)] {
            assert_eq!(value, Some(text(expected)), "{reducer:?} {writes:?}");
        }
    }

    #[test]
    fn writes_are_united_as_the_scope_says() {
        check(Some(Reducer::Append), &["1", "2", "3"], "[1,2,3]");
        check(Some(Reducer::Append), &["[]"], "[]");
        check(Some(Reducer::Append), &["[]", "[]", "[[]]"], "[[]]");
        check(Some(Reducer::Append), &["null", "{}"], "[null,{}]");
        check(
            Some(Reducer::Append),
            &["[1,2]", "3", r#""x""#, "[]", "[[4]]"],
            r#"[1,2,3,"x",[4]]"#,
        );
        check(Some(Reducer::Add), &["1", "2", "3"], "6");
        check(Some(Reducer::Max), &["1", "3", "2"], "3");
        check(Some(Reducer::Last), &["1", "2", "3"], "3");
        check(
            Some(Reducer::Merge),
            &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":3}"#],
            r#"{"a":3,"b":2}"#,
        );
        check(None, &["1", "2"], "2");
    }

    #[test]
    fn whole_numbers_are_added_and_compared_exactly_while_they_fit() {
        check(
            Some(Reducer::Add),
            &["9223372036854775807", "1"],
            "9223372036854775808",
        );
        check(
            Some(Reducer::Add),
            &["18446744073709551615", "-1"],
            "18446744073709551614",
        );
        check(
            Some(Reducer::Add),
            &["18446744073709551615", "1"],
            "18446744073709551616.0",
        );
        check(
            Some(Reducer::Add),
            &["-9223372036854775808", "9223372036854775808"],
            "0",
        );
        check(Some(Reducer::Add), &["0.5", "1"], "1.5");
        check(Some(Reducer::Add), &["1e308", "1e308"], "1e308");
        check(
            Some(Reducer::Max),
            &["18446744073709551615", "18446744073709551614"],
            "18446744073709551615",
        );
        check(
            Some(Reducer::Max),
            &["-1", "18446744073709551615", "3"],
            "18446744073709551615",
        );
        check(Some(Reducer::Max), &["2.5", "2"], "2.5");
    }

    #[test]
    fn what_cannot_be_united_is_replaced_by_the_newer() {
        check(Some(Reducer::Add), &["1", r#""x""#], r#""x""#);
        check(Some(Reducer::Add), &[r#""x""#, r#""y""#], r#""xy""#);
        check(Some(Reducer::Max), &[r#""b""#, r#""a""#], r#""b""#);
        check(Some(Reducer::Max), &["1", "null"], "null");
        check(
            Some(Reducer::Merge),
            &[r#"{"a":1}"#, "1", r#"{"b":2}"#],
            r#"{"b":2}"#,
        );
    }

    #[test]
    fn a_deleted_key_is_gone_whatever_the_reducer() {
        let one = Some(Json::from(Value::from(1)));
        for reducer in [
            None,
            Some(Reducer::Append),
            Some(Reducer::Add),
            Some(Reducer::Last),
        ] {
            assert_eq!(
                apply_changes(reducer, one.clone(), [&ScopeChange::Delete]),
                None
            );
            assert_eq!(apply_changes(reducer, None, [&ScopeChange::Delete]), None);
            let again = [
                ScopeChange::Delete,
                ScopeChange::Set(Json::from(Value::from(2))),
            ];
            assert_eq!(
                apply_changes(reducer, one.clone(), &again),
                apply_changes(reducer, None, &again[1..])
            );
        }
    }
}

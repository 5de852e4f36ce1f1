//! Scopes of state: what is in them, and how concurrent writes become one value.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

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
    let (Some(reducer), Some(old)) = (reducer, &old) else {
        return Some(match reducer {
            Some(Reducer::Append) => Json::from(Value::Array(as_list(new.value()))),
            _ => new.clone(),
        });
    };
    match reducer {
        Reducer::Last => Some(new.clone()),
        Reducer::Append => {
            let mut list = as_list(old.value());
            list.append(&mut as_list(new.value()));
            Some(Json::from(Value::Array(list)))
        }
        Reducer::Add => Some(add(old, new)),
        Reducer::Max => Some(max(old, new)),
        Reducer::Merge => Some(merge(old, new)),
    }
}

/// A value as a list: a list is itself, anything else a list of one.
fn as_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        other => alloc::vec![other],
    }
}

/// Whole numbers add exactly while they fit; texts are joined; what cannot be added is replaced.
fn add(old: &Json, new: &Json) -> Json {
    match (old.value(), new.value()) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) if a.checked_add(b).is_some() => Json::from(Value::from(a + b)),
            _ => {
                let sum = a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0);
                Number::from_f64(sum).map_or_else(|| new.clone(), |n| Json::from(Value::Number(n)))
            }
        },
        (Value::String(a), Value::String(b)) => Json::from(Value::String(a + &b)),
        _ => new.clone(),
    }
}

/// The greater of two numbers or texts; what cannot be compared is replaced.
fn max(old: &Json, new: &Json) -> Json {
    let keep_old = match (old.value(), new.value()) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a >= b,
            _ => a.as_f64() >= b.as_f64(),
        },
        (Value::String(a), Value::String(b)) => a >= b,
        _ => false,
    };
    if keep_old { old.clone() } else { new.clone() }
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

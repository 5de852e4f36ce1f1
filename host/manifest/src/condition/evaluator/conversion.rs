//! The functions that convert a value to another type.

use std::str::FromStr;

use super::{EvaluationError, Outcome};
use crate::condition::tree::Function;
use crate::condition::value::{Text, Value};

/// 2^63 and 2^64. Doubles from these on do not fit into an `int` or a `uint`.
const INT_END: f64 = 9_223_372_036_854_775_808.0;
const UINT_END: f64 = 18_446_744_073_709_551_616.0;

/// Returns the value in the type that the function is named after.
pub(super) fn convert<'a>(function: Function, value: &Value<'a>) -> Outcome<'a> {
    let converted = match function {
        Function::Int => to_int(value)?.map(Value::Int),
        Function::UInt => to_uint(value)?.map(Value::UInt),
        Function::Double => to_double(value)?.map(Value::Double),
        Function::String => to_text(value).map(Value::Text),
        Function::Bool => to_bool(value)?.map(Value::Bool),
        Function::Size | Function::Contains | Function::StartsWith | Function::EndsWith => None,
    };
    converted.ok_or_else(|| EvaluationError::no_overload(function.name(), &[value]))
}

fn to_int(value: &Value<'_>) -> Result<Option<i64>, EvaluationError> {
    Ok(Some(match value {
        Value::Int(value) => *value,
        Value::UInt(value) => i64::try_from(*value).map_err(|_| out_of_range("int"))?,
        // Both ends are excluded, because a double there may stand for an integer beyond it.
        Value::Double(value) if *value > -INT_END && *value < INT_END => *value as i64,
        Value::Double(_) => return Err(out_of_range("int")),
        Value::Text(text) => parse(text, "int")?,
        _ => return Ok(None),
    }))
}

fn to_uint(value: &Value<'_>) -> Result<Option<u64>, EvaluationError> {
    Ok(Some(match value {
        Value::UInt(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| out_of_range("uint"))?,
        Value::Double(value) if *value >= 0.0 && *value < UINT_END => *value as u64,
        Value::Double(_) => return Err(out_of_range("uint")),
        Value::Text(text) => parse(text, "uint")?,
        _ => return Ok(None),
    }))
}

fn to_double(value: &Value<'_>) -> Result<Option<f64>, EvaluationError> {
    Ok(Some(match value {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::UInt(value) => *value as f64,
        Value::Text(text) => parse(text, "double")?,
        _ => return Ok(None),
    }))
}

fn to_text<'a>(value: &Value<'a>) -> Option<Text<'a>> {
    let built = match value {
        Value::Text(text) => return Some(text.clone()),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Null | Value::List(_) | Value::Map(_) => return None,
    };
    Some(Text::Built(built.into()))
}

fn to_bool(value: &Value<'_>) -> Result<Option<bool>, EvaluationError> {
    match value {
        Value::Bool(value) => Ok(Some(*value)),
        Value::Text(text) => match text.as_str() {
            "1" | "t" | "true" | "TRUE" | "True" => Ok(Some(true)),
            "0" | "f" | "false" | "FALSE" | "False" => Ok(Some(false)),
            _ => Err(not_readable("bool")),
        },
        _ => Ok(None),
    }
}

fn parse<T: FromStr>(text: &Text<'_>, name: &str) -> Result<T, EvaluationError> {
    text.as_str().parse().map_err(|_| not_readable(name))
}

fn out_of_range(name: &str) -> EvaluationError {
    EvaluationError::Invalid(format!("a number does not fit into `{name}`"))
}

fn not_readable(name: &str) -> EvaluationError {
    EvaluationError::Invalid(format!("a text is no `{name}`"))
}

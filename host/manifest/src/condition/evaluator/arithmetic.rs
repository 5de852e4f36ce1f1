//! Arithmetic on numbers of one type. An integer that does not fit into 64 bits is an error.

use super::{EvaluationError, Outcome};
use crate::condition::tree::BinaryOperator;
use crate::condition::value::Value;

/// Returns the result of an arithmetic operator.
pub(super) fn compute<'a>(
    operator: BinaryOperator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Outcome<'a> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(operator, *left, *right).map(Value::Int),
        (Value::UInt(left), Value::UInt(right)) => uint(operator, *left, *right).map(Value::UInt),
        (Value::Double(left), Value::Double(right)) if operator != BinaryOperator::Modulo => {
            Ok(Value::Double(double(operator, *left, *right)))
        }
        _ => Err(EvaluationError::no_overload(
            operator.symbol(),
            &[left, right],
        )),
    }
}

/// Returns a number with the opposite sign.
pub(super) fn negate<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        other => Err(EvaluationError::no_overload("-", &[other])),
    }
}

fn int(operator: BinaryOperator, left: i64, right: i64) -> Result<i64, EvaluationError> {
    let result = match operator {
        BinaryOperator::Add => left.checked_add(right),
        BinaryOperator::Subtract => left.checked_sub(right),
        BinaryOperator::Multiply => left.checked_mul(right),
        _ if right == 0 => return Err(division_by_zero()),
        BinaryOperator::Divide => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    result.ok_or_else(overflow)
}

fn uint(operator: BinaryOperator, left: u64, right: u64) -> Result<u64, EvaluationError> {
    let result = match operator {
        BinaryOperator::Add => left.checked_add(right),
        BinaryOperator::Subtract => left.checked_sub(right),
        BinaryOperator::Multiply => left.checked_mul(right),
        _ if right == 0 => return Err(division_by_zero()),
        BinaryOperator::Divide => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    result.ok_or_else(overflow)
}

fn double(operator: BinaryOperator, left: f64, right: f64) -> f64 {
    match operator {
        BinaryOperator::Add => left + right,
        BinaryOperator::Subtract => left - right,
        BinaryOperator::Multiply => left * right,
        _ => left / right,
    }
}

fn overflow() -> EvaluationError {
    EvaluationError::Invalid("an integer is too large".to_owned())
}

fn division_by_zero() -> EvaluationError {
    EvaluationError::Invalid("it divides by zero".to_owned())
}

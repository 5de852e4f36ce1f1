//! Converts WIT values to JSON and back, in the format that `interface` describes as schemas.
//! Converting in both directions returns the same value. Both directions limit the size of the
//! result: `fits` checks a value before it is converted to JSON, and converting from JSON counts
//! the size on the way, because a record of options needs almost no JSON. JSON that does not fit
//! its type is a `JsonMismatch`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};
use strata_core::record::json::JsonError;
use strata_core::record::json::size_budget::SizeBudget;
use wasmtime::component::{Type, Val};

use super::mismatch::JsonMismatch;

/// The names of numbers that JSON does not have.
const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const NEGATIVE_INFINITY: &str = "-Infinity";
/// Above this, not every integer has a floating-point value.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Returns the part of a type that has no JSON form, if there is one.
pub(super) fn type_without_json(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Own(_) | Type::Borrow(_) => Some("a resource"),
        Type::Future(_) => Some("a future"),
        Type::Stream(_) => Some("a stream"),
        Type::ErrorContext => Some("an error context"),
        Type::Map(_) => Some("a map"),
        Type::FixedLengthList(_) => Some("a list of fixed length"),
        Type::List(list) => type_without_json(&list.ty()),
        Type::Option(option) => type_without_json(&option.ty()),
        Type::Tuple(tuple) => tuple.types().find_map(|ty| type_without_json(&ty)),
        Type::Record(record) => record
            .fields()
            .find_map(|field| type_without_json(&field.ty)),
        Type::Variant(variant) => variant
            .cases()
            .find_map(|case| type_without_json(&case.ty?)),
        Type::Result(result) => result
            .ok()
            .into_iter()
            .chain(result.err())
            .find_map(|ty| type_without_json(&ty)),
        _ => None,
    }
}

/// Converts JSON to a value of a type, within the remaining size. The error has the location and
/// the expected type.
pub(super) fn from_json(
    ty: &Type,
    value: &Value,
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let expected = |what: &str| JsonMismatch::new(what, value);
    match ty {
        Type::Bool => value
            .as_bool()
            .map(Val::Bool)
            .ok_or_else(|| expected("`true` or `false`")),
        Type::U8 => in_range(value, u8::MIN, u8::MAX).map(Val::U8),
        Type::U16 => in_range(value, u16::MIN, u16::MAX).map(Val::U16),
        Type::U32 => in_range(value, u32::MIN, u32::MAX).map(Val::U32),
        Type::U64 => in_range(value, u64::MIN, u64::MAX).map(Val::U64),
        Type::S8 => in_range(value, i8::MIN, i8::MAX).map(Val::S8),
        Type::S16 => in_range(value, i16::MIN, i16::MAX).map(Val::S16),
        Type::S32 => in_range(value, i32::MIN, i32::MAX).map(Val::S32),
        Type::S64 => in_range(value, i64::MIN, i64::MAX).map(Val::S64),
        Type::Float32 => float32(value).map(Val::Float32),
        Type::Float64 => float_from_json(value).map(Val::Float64),
        Type::Char => {
            let mut chars = string_from_json(value, "a string of one character")?.chars();
            match (chars.next(), chars.next()) {
                (Some(char), None) => Ok(Val::Char(char)),
                _ => Err(expected("a string of one character")),
            }
        }
        Type::String => {
            let text = string_from_json(value, "a string")?;
            budget.take_string(text.len())?;
            Ok(Val::String(text.to_owned()))
        }
        Type::Enum(ty) => {
            enum_case_from_json(value, &ty.names().collect::<Vec<_>>(), budget).map(Val::Enum)
        }
        Type::Flags(ty) => flags_from_json(value, &ty.names().collect::<Vec<_>>(), budget),
        Type::List(ty) if ty.ty() == Type::U8 => byte_list(value, budget),
        Type::List(ty) => {
            let ty = ty.ty();
            let items = value.as_array().ok_or_else(|| expected("an array"))?;
            let items = items.iter().enumerate().map(|(at, item)| {
                budget.take_item(at)?;
                from_json(&ty, item, budget).map_err(|error| error.at_index(at))
            });
            items.collect::<Result<_, _>>().map(Val::List)
        }
        Type::Tuple(ty) => tuple_from_json(value, &ty.types().collect::<Vec<_>>(), budget),
        Type::Record(ty) => record_from_json(
            value,
            &ty.fields()
                .map(|field| (field.name, field.ty))
                .collect::<Vec<_>>(),
            budget,
        ),
        Type::Variant(ty) => variant_from_json(
            value,
            &ty.cases()
                .map(|case| (case.name, case.ty))
                .collect::<Vec<_>>(),
            budget,
        ),
        Type::Option(ty) => option_from_json(value, &ty.ty(), budget),
        Type::Result(ty) => result(value, ty.ok(), ty.err(), budget),
        _ => Err(expected("something that can be written as JSON")),
    }
}

/// Fails if a value would be too large as JSON: an object takes many times the memory of a record
/// in a guest.
pub(super) fn check_size(value: &Val) -> Result<(), JsonError> {
    count_size(value, &mut SizeBudget::for_document())
}

fn count_size(value: &Val, budget: &mut SizeBudget) -> Result<(), JsonError> {
    match value {
        Val::String(text) | Val::Enum(text) | Val::Variant(text, None) => {
            budget.take_string(text.len())
        }
        // Bytes are encoded in base64.
        Val::List(items) if matches!(items.first(), Some(Val::U8(_))) => {
            budget.take_string(items.len().div_ceil(3) * 4)
        }
        Val::List(items) | Val::Tuple(items) => {
            for (at, item) in items.iter().enumerate() {
                budget.take_item(at)?;
                count_size(item, budget)?;
            }
            Ok(())
        }
        Val::Flags(names) => {
            for (at, name) in names.iter().enumerate() {
                budget.take_item(at)?;
                budget.take_string(name.len())?;
            }
            Ok(())
        }
        Val::Record(fields) => {
            for (at, (name, value)) in fields.iter().enumerate() {
                budget.take_entry(at, name)?;
                count_size(value, budget)?;
            }
            Ok(())
        }
        Val::Variant(case, Some(inner)) => {
            budget.take_entry(0, case)?;
            count_size(inner, budget)
        }
        Val::Result(result) => {
            budget.take_entry(0, "err")?;
            let (Ok(inner) | Err(inner)) = result;
            match inner {
                Some(inner) => count_size(inner, budget),
                None => Ok(()),
            }
        }
        Val::Option(Some(inner)) => {
            if matches!(**inner, Val::Option(_)) {
                budget.take_entry(0, "some")?;
            }
            count_size(inner, budget)
        }
        _ => Ok(()),
    }
}

/// Converts a value of a type to JSON.
pub(super) fn to_json(ty: &Type, value: Val) -> Value {
    match (ty, value) {
        (_, Val::Bool(value)) => value.into(),
        (_, Val::U8(value)) => value.into(),
        (_, Val::U16(value)) => value.into(),
        (_, Val::U32(value)) => value.into(),
        (_, Val::U64(value)) => value.into(),
        (_, Val::S8(value)) => value.into(),
        (_, Val::S16(value)) => value.into(),
        (_, Val::S32(value)) => value.into(),
        (_, Val::S64(value)) => value.into(),
        // Uses the shortest text that denotes this float, instead of the digits that widening adds.
        (_, Val::Float32(value)) => {
            float_to_json(value.to_string().parse().unwrap_or(f64::from(value)))
        }
        (_, Val::Float64(value)) => float_to_json(value),
        (_, Val::Char(value)) => value.to_string().into(),
        (_, Val::String(value) | Val::Enum(value)) => value.into(),
        (_, Val::Flags(names)) => names.into(),
        (Type::List(ty), Val::List(items)) if ty.ty() == Type::U8 => base64_of(items).into(),
        (Type::List(ty), Val::List(items)) => {
            let ty = ty.ty();
            items.into_iter().map(|item| to_json(&ty, item)).collect()
        }
        (Type::Tuple(ty), Val::Tuple(items)) => ty
            .types()
            .zip(items)
            .map(|(ty, item)| to_json(&ty, item))
            .collect(),
        (Type::Record(ty), Val::Record(fields)) => {
            let fields = ty
                .fields()
                .zip(fields)
                .map(|(field, (name, value))| (name, to_json(&field.ty, value)));
            Value::Object(fields.collect())
        }
        (Type::Variant(ty), Val::Variant(case, inner)) => {
            let ty = ty
                .cases()
                .find(|known| known.name == case)
                .and_then(|known| known.ty);
            match (ty, inner) {
                (Some(ty), Some(inner)) => single_key_object(&case, to_json(&ty, *inner)),
                _ => case.into(),
            }
        }
        (Type::Option(ty), Val::Option(Some(inner))) => {
            let ty = ty.ty();
            let inner = to_json(&ty, *inner);
            if matches!(ty, Type::Option(_)) {
                single_key_object("some", inner)
            } else {
                inner
            }
        }
        (Type::Result(ty), Val::Result(result)) => {
            let (case, ty, inner) = match result {
                Ok(inner) => ("ok", ty.ok(), inner),
                Err(inner) => ("err", ty.err(), inner),
            };
            let inner = ty
                .zip(inner)
                .map_or(Value::Null, |(ty, inner)| to_json(&ty, *inner));
            single_key_object(case, inner)
        }
        // `none`, and values that no checked function returns.
        _ => Value::Null,
    }
}

/// Encodes a list of bytes.
fn base64_of(items: Vec<Val>) -> String {
    let bytes = items.into_iter().filter_map(|item| match item {
        Val::U8(byte) => Some(byte),
        _ => None,
    });
    STANDARD.encode(bytes.collect::<Vec<u8>>())
}

fn single_key_object(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn float_to_json(float: f64) -> Value {
    match Number::from_f64(float) {
        Some(number) => Value::Number(number),
        None if float.is_nan() => NAN.into(),
        None if float > 0.0 => INFINITY.into(),
        None => NEGATIVE_INFINITY.into(),
    }
}

fn float_from_json(value: &Value) -> Result<f64, JsonMismatch> {
    match value {
        Value::String(word) if word == NAN => Ok(f64::NAN),
        Value::String(word) if word == INFINITY => Ok(f64::INFINITY),
        Value::String(word) if word == NEGATIVE_INFINITY => Ok(f64::NEG_INFINITY),
        other => other
            .as_f64()
            .ok_or_else(|| JsonMismatch::new("a number", value)),
    }
}

fn float32(value: &Value) -> Result<f32, JsonMismatch> {
    let wide = float_from_json(value)?;
    let narrow = wide as f32;
    if narrow.is_finite() || !wide.is_finite() {
        Ok(narrow)
    } else {
        Err(JsonMismatch::new("a number that fits 32 bits", value))
    }
}

/// Parses a list of bytes, which is a string in base64.
fn byte_list(value: &Value, budget: &mut SizeBudget) -> Result<Val, JsonMismatch> {
    const EXPECTED: &str = "a string in base64";
    let text = string_from_json(value, EXPECTED)?;
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| JsonMismatch::new(EXPECTED, value))?;
    // Each byte is a `Val` of its own.
    budget.take_string(bytes.len().saturating_mul(size_of::<Val>()))?;
    Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
}

/// Parses an integer in the range of its type. As in JSON Schema, 1.0 is an integer.
/// Returns a whole number in a range, as its type.
fn in_range<T: Into<i128> + TryFrom<i128>>(
    value: &Value,
    least: T,
    most: T,
) -> Result<T, JsonMismatch> {
    let (least, most) = (least.into(), most.into());
    let whole = |float: f64| {
        (float.fract() == 0.0 && float.abs() <= MAX_EXACT_INTEGER).then_some(float as i128)
    };
    let number = match value {
        Value::Number(number) => number.as_i128().or_else(|| number.as_f64().and_then(whole)),
        _ => None,
    };
    let number = number.filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| JsonMismatch::new(&format!("a whole number from {least} to {most}"), value))
}

fn string_from_json<'v>(value: &'v Value, what: &str) -> Result<&'v str, JsonMismatch> {
    value.as_str().ok_or_else(|| JsonMismatch::new(what, value))
}

fn enum_case_from_json(
    value: &Value,
    names: &[&str],
    budget: &mut SizeBudget,
) -> Result<String, JsonMismatch> {
    let found = value.as_str().filter(|word| names.contains(word));
    let word = found.ok_or_else(|| JsonMismatch::new(&join_quoted(names, " or "), value))?;
    budget.take_string(word.len())?;
    Ok(word.to_owned())
}

fn flags_from_json(
    value: &Value,
    names: &[&str],
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let items = value
        .as_array()
        .ok_or_else(|| JsonMismatch::new("an array of flags", value))?;
    let mut set = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        budget.take_item(at)?;
        let flag = enum_case_from_json(item, names, budget).map_err(|error| error.at_index(at))?;
        if set.contains(&flag) {
            return Err(JsonMismatch::new("each flag only once", item).at_index(at));
        }
        set.push(flag);
    }
    Ok(Val::Flags(set))
}

fn tuple_from_json(
    value: &Value,
    types: &[Type],
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let items = value.as_array().filter(|items| items.len() == types.len());
    let items =
        items.ok_or_else(|| JsonMismatch::new(&format!("an array of {}", types.len()), value))?;
    let items = types.iter().zip(items).enumerate().map(|(at, (ty, item))| {
        budget.take_item(at)?;
        from_json(ty, item, budget).map_err(|error| error.at_index(at))
    });
    items.collect::<Result<_, _>>().map(Val::Tuple)
}

fn record_from_json(
    value: &Value,
    fields: &[(&str, Type)],
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let object = value
        .as_object()
        .ok_or_else(|| JsonMismatch::new("an object", value))?;
    if let Some(stranger) = object
        .keys()
        .find(|key| !fields.iter().any(|(name, _)| name == key))
    {
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        let expected = format!("no other keys than {}", join_quoted(&names, ", "));
        return Err(JsonMismatch::new(
            &expected,
            &Value::String(stranger.clone()),
        ));
    }
    let field = |(at, (name, ty)): (usize, &(&str, Type))| {
        budget.take_entry(at, name)?;
        let value = match object.get(*name) {
            Some(value) => from_json(ty, value, budget).map_err(|error| error.in_key(name))?,
            None if matches!(ty, Type::Option(_)) => Val::Option(None),
            None => return Err(JsonMismatch::new(&format!("the key `{name}`"), value)),
        };
        Ok(((*name).to_owned(), value))
    };
    fields
        .iter()
        .enumerate()
        .map(field)
        .collect::<Result<_, _>>()
        .map(Val::Record)
}

fn variant_from_json(
    value: &Value,
    cases: &[(&str, Option<Type>)],
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    if let Some(word) = value.as_str() {
        if !cases.iter().any(|(name, ty)| *name == word && ty.is_none()) {
            return Err(JsonMismatch::new(&describe_cases(cases), value));
        }
        budget.take_string(word.len())?;
        return Ok(Val::Variant(word.to_owned(), None));
    }
    let (case, inner) = single_entry(value, &names)
        .map_err(|_| JsonMismatch::new(&describe_cases(cases), value))?;
    let ty = cases
        .iter()
        .find(|(name, _)| *name == case)
        .and_then(|(_, ty)| ty.as_ref());
    let ty = ty.ok_or_else(|| JsonMismatch::new(&describe_cases(cases), value))?;
    budget.take_entry(0, case)?;
    let inner = from_json(ty, inner, budget).map_err(|error| error.in_key(case))?;
    Ok(Val::Variant(case.to_owned(), Some(Box::new(inner))))
}

fn option_from_json(
    value: &Value,
    ty: &Type,
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    if value.is_null() {
        return Ok(Val::Option(None));
    }
    let inner = match ty {
        Type::Option(_) => {
            let (some, inner) = single_entry(value, &["some"])?;
            budget.take_entry(0, some)?;
            from_json(ty, inner, budget).map_err(|error| error.in_key(some))?
        }
        _ => from_json(ty, value, budget)?,
    };
    Ok(Val::Option(Some(Box::new(inner))))
}

fn result(
    value: &Value,
    ok: Option<Type>,
    err: Option<Type>,
    budget: &mut SizeBudget,
) -> Result<Val, JsonMismatch> {
    let (case, inner) = single_entry(value, &["ok", "err"])?;
    let ty = if case == "ok" { ok } else { err };
    budget.take_entry(0, case)?;
    let part = payload_from_json(ty, inner, budget).map_err(|error| error.in_key(case))?;
    Ok(Val::Result(if case == "ok" { Ok(part) } else { Err(part) }))
}

/// Returns the only key of an object, which must be one of `keys`, and its value.
fn single_entry<'v>(value: &'v Value, keys: &[&str]) -> Result<(&'v str, &'v Value), JsonMismatch> {
    let object = value.as_object().filter(|object| object.len() == 1);
    let entry = object
        .and_then(|object| object.iter().next())
        .filter(|(key, _)| keys.contains(&key.as_str()));
    let expected = || {
        JsonMismatch::new(
            &format!("an object with one key, {}", join_quoted(keys, " or ")),
            value,
        )
    };
    entry
        .map(|(key, value)| (key.as_str(), value))
        .ok_or_else(expected)
}

/// Converts the payload of a case of a `result`, which is `null` if the case has none.
fn payload_from_json(
    ty: Option<Type>,
    value: &Value,
    budget: &mut SizeBudget,
) -> Result<Option<Box<Val>>, JsonMismatch> {
    match ty {
        Some(ty) => from_json(&ty, value, budget).map(|value| Some(Box::new(value))),
        None if value.is_null() => Ok(None),
        None => Err(JsonMismatch::new("`null`", value)),
    }
}

fn describe_cases(cases: &[(&str, Option<Type>)]) -> String {
    let forms: Vec<String> = cases
        .iter()
        .map(|(name, ty)| {
            if ty.is_some() {
                format!("`{{\"{name}\": …}}`")
            } else {
                format!("`\"{name}\"`")
            }
        })
        .collect();
    forms.join(" or ")
}

fn join_quoted(names: &[&str], between: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(between)
}

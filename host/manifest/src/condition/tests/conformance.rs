//! CEL's published conformance cases, as far as they use what conditions can use. Each line of
//! `tests/cel/cases.jsonl` has an expression and its value; `README.md` beside it says where they come from.

use serde_json::Value as Json;

use super::super::*;

/// Cases that do not hold here, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "basic/variables/unbound_is_runtime_error",
    "an unknown name is found before the run",
)];

#[test]
fn expressions_have_the_values_that_the_specification_publishes() {
    let cases = include_str!("../../../tests/cel/cases.jsonl");
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let (name, source) = (
            case["name"].as_str().unwrap(),
            case["expr"].as_str().unwrap(),
        );
        let found = value_of(source);
        let expected = &case["result"];
        let is_exception = EXCEPTIONS.iter().any(|(other, _)| *other == name);
        if is_same(&found, expected) == is_exception {
            wrong.push(format!("{name}: `{source}` gives {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the value of an expression in the form of the cases.
fn value_of(source: &str) -> Json {
    let parsed = catch_panic(|| match Program::compile(source) {
        Ok(program) => check::check_expression(program.expression()),
        Err(errors) => Err(check::explain_parse_error(&errors, source)),
    });
    let tree = match parsed {
        Ok(Ok(tree)) => tree,
        Ok(Err(refusal)) | Err(refusal) => return serde_json::json!({ "error": refusal.reason }),
    };
    let variables = MessageVariables::default();
    let mut budget = WorkBudget::default();
    match evaluator::evaluate(&tree, &variables, &mut budget) {
        Ok(value) => to_json(&value),
        Err(error) => serde_json::json!({ "error": format!("{error:?}") }),
    }
}

fn to_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => serde_json::json!({ "null": null }),
        Value::Bool(value) => serde_json::json!({ "bool": value }),
        Value::Int(value) => serde_json::json!({ "int": value }),
        Value::UInt(value) => serde_json::json!({ "uint": value }),
        Value::Double(value) => serde_json::json!({ "double": value.to_string() }),
        Value::Text(text) => serde_json::json!({ "string": text.as_str() }),
        Value::List(items) => {
            let items: Vec<Json> = (0..items.len())
                .map(|index| to_json(&items.get(index).unwrap()))
                .collect();
            serde_json::json!({ "list": items })
        }
        Value::Map(map) => {
            let entries: Vec<Json> = map
                .entries()
                .iter()
                .map(|entry| entry.iter().map(to_json).collect())
                .collect();
            serde_json::json!({ "map": entries })
        }
    }
}

/// Compares a value with the expected one. Any error is as good as another.
fn is_same(found: &Json, expected: &Json) -> bool {
    let number = |value: &Json| value.get("double")?.as_str()?.parse::<f64>().ok();
    if expected.get("error").is_some() {
        return found.get("error").is_some();
    }
    if let (Some(found), Some(expected)) = (number(found), number(expected)) {
        return found == expected || (found.is_nan() && expected.is_nan());
    }
    if let (Some(found), Some(expected)) = (found["list"].as_array(), expected["list"].as_array()) {
        let pairs = found.iter().zip(expected);
        return found.len() == expected.len()
            && pairs
                .into_iter()
                .all(|(found, expected)| is_same(found, expected));
    }
    if let (Some(found), Some(expected)) = (found["map"].as_array(), expected["map"].as_array()) {
        let has = |entry: &Json| {
            let mut entries = found.iter();
            entries.any(|other| is_same(&other[0], &entry[0]) && is_same(&other[1], &entry[1]))
        };
        return found.len() == expected.len() && expected.iter().all(has);
    }
    found == expected
}

#[test]
fn what_is_built_is_bounded() {
    // Each of the lists would take more memory than a message.
    let message = MessageVariables {
        data: serde_json::json!({ "l": vec![1; 4096] }),
        ..MessageVariables::default()
    };
    for source in [
        "size(data.l.map(x, data.l)) > 0 && size(data.l.map(x, data.l + data.l)) > 0",
        "data.l.map(x, data.l.map(y, string(y) + 'xxxxxxxxxxxxxxxx')) == []",
    ] {
        let program = Program::compile(source).unwrap();
        let tree = check::check_expression(program.expression()).unwrap();
        let found = evaluator::evaluate(&tree, &message, &mut WorkBudget::default());
        assert!(
            matches!(found, Err(EvaluationError::Exhausted)),
            "{source}: {found:?}"
        );
    }
}

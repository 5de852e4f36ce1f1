//! Tests the action as a tool and with news, and its expressions.

use calculate::expression::evaluate;
use calculate::{Arguments, Calculate};
use serde_json::json;
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind};

#[test]
fn expressions_follow_the_rules_of_arithmetic() {
    let cases = [
        ("1 + 2 * 3", 7.0),
        ("(1+2)*3", 9.0),
        ("7 - 2 - 1", 4.0),
        ("12 / 4 / 3", 1.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ^ -1", 0.5),
        (" 2.5 ", 2.5),
        ("--1", 1.0),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn expressions_without_a_value_are_rejected_with_the_reason() {
    let deep = "(".repeat(1000);
    let cases = [
        ("", "a number is missing at character 1"),
        ("1 +", "a number is missing at character 4"),
        ("(1", "a closing parenthesis is missing"),
        ("1 2", "an operator is missing at character 3"),
        ("1 / 0", "the value is not a finite number"),
        ("two", "a number is missing"),
        ("1.2.3", "a number is missing"),
        (&deep, "it is nested too deep"),
    ];
    for (text, expected) in cases {
        let why = evaluate(text).expect_err(text);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn it_takes_arguments_as_a_tool_and_else_its_news() {
    let mut host = Host::new();
    let call = Call::new().arguments(json!({ "expression": "6 * 7" }));
    let output = host.run::<Calculate>(call).expect("a value");
    assert_eq!((output.content.as_str(), output.data), ("42", Some(42.0)));
    let output = host.run::<Calculate>(Call::new().news("1/4"));
    assert_eq!(output.expect("a value").content, "0.25");
    let odd = Call::new().arguments(json!({ "expression": "1", "precision": 2 }));
    let failure = host
        .run::<Calculate>(odd)
        .expect_err("an argument too many");
    assert_eq!(failure.kind, FailureKind::Error);
}

#[test]
fn the_schema_describes_the_arguments() {
    let schema = Calculate::input_schema().expect("a schema");
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("json");
    assert_eq!(schema["required"], json!(["expression"]));
    assert_eq!(schema["additionalProperties"], false);
    let described = schema["properties"]["expression"]["description"].as_str();
    assert!(described.is_some_and(|text| text.contains("2 * (3 + 4.5)")));
    let _ = Arguments {
        expression: String::new(),
    };
}

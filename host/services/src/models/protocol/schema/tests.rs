//! Schemas in the forms that providers accept.

use serde_json::{Value, json};

use super::*;

fn ordered(text: &str) -> OrderedJson {
    OrderedJson::parse(text).expect("a document")
}

#[test]
fn a_schema_that_can_be_enforced_is_recognised() {
    let check = |schema: Value, expected: bool| {
        assert_eq!(is_strict(&OrderedJson::from(&schema)), expected, "{schema}");
    };
    let object = |properties: Value, required: Value| {
        json!({ "type": "object", "properties": properties, "required": required,
            "additionalProperties": false })
    };
    let integer = json!({ "type": "integer", "description": "a number" });
    check(object(json!({}), json!([])), true);
    check(object(json!({ "a": integer }), json!(["a"])), true);
    check(object(json!({ "a": integer }), json!([])), false);
    check(json!({ "type": "object" }), false);
    check(
        json!({ "type": "object", "additionalProperties": true }),
        false,
    );
    let list = |items: Value| {
        object(
            json!({ "a": { "type": "array", "items": items } }),
            json!(["a"]),
        )
    };
    check(list(integer), true);
    check(list(json!({})), false);
    check(list(json!({ "type": ["object", "null"] })), false);
    check(
        object(
            json!({ "a": { "type": "string", "minLength": 1 } }),
            json!(["a"]),
        ),
        false,
    );
    check(json!(true), false);
}

#[test]
fn arguments_are_described_as_an_object_in_the_order_of_the_author() {
    let check = |schema: &str, expected: &str| {
        let sent = arguments_schema(&ordered(schema)).expect("a schema of arguments");
        assert_eq!(sent.to_string(), expected, "{schema}");
        assert_eq!(arguments_schema(&sent), Ok(sent.clone()), "{schema}");
    };
    let any = r#"{"type":"object","properties":{}}"#;
    check("true", any);
    check("{}", any);
    check(r#"{"type": ["null", "object"]}"#, any);
    check(
        r#"{"properties": {"b": {"type": "string"}, "a": true}, "type": "object"}"#,
        r#"{"properties":{"b":{"type":"string"},"a":{}},"type":"object"}"#,
    );
    check(
        r#"{"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": ["array", "null"], "items": true},
            "c": {"anyOf": [{"type": "array", "prefixItems": [{"type": "array"}]}]}, "d": {"items": [{}]},
            "e": {"default": {"type": "array"}}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}},"c":{"anyOf":[{"type":"array","prefixItems":[{"type":"array","items":{}}],"items":{}}]},"d":{"items":{}},"e":{"default":{"type":"array"}}}}"#,
    );
}

#[test]
fn alternatives_at_the_top_are_joined_and_told_in_words() {
    let check = |schema: &str, properties: &str, required: &[&str]| {
        let sent = arguments_schema(&ordered(schema)).expect("a schema of arguments");
        assert!(is_object_at_top(&sent), "{sent}");
        let value = sent.to_value();
        assert_eq!(
            sent.get("properties").expect("properties").to_string(),
            properties,
            "{sent}"
        );
        let demanded: Vec<&str> = names(sent.get("required")).collect();
        assert_eq!(demanded, required, "{sent}");
        let words = value["description"].as_str().expect("words");
        assert!(words.ends_with(&ordered(schema).to_string()), "{words}");
    };
    check(
        r##"{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": {}}, "required": ["x"]}}}"##,
        r#"{"x":{}}"#,
        &["x"],
    );
    check(
        r#"{"anyOf": [
            {"properties": {"kind": {"const": "a"}, "x": {}}, "required": ["kind", "x"]},
            {"properties": {"kind": {"const": "b"}, "y": {}}, "required": ["kind"]},
            {"type": "null"}]}"#,
        r#"{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]},"x":{},"y":{}}"#,
        &["kind"],
    );
    check(
        r#"{"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false,
            "allOf": [{"properties": {"b": {}}, "required": ["b"]}], "not": {"required": ["c"]}}"#,
        r#"{"a":{},"b":{}}"#,
        &["a", "b"],
    );
    // A schema that contains itself ends somewhere.
    check(r##"{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}"##, "{}", &[]);
}

#[test]
fn a_schema_that_allows_no_object_is_not_one_of_arguments() {
    for schema in [
        "false",
        r#"{"type": "string"}"#,
        r#"{"type": ["array", "null"]}"#,
        r#"{"enum": ["a", 1]}"#,
        r#"{"const": null}"#,
        r#"{"anyOf": [{"type": "string"}, false]}"#,
        r#"{"allOf": [{"type": "array"}]}"#,
        r##"{"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}"##,
    ] {
        assert_eq!(
            arguments_schema(&ordered(schema)),
            Err(NotAnObject),
            "{schema}"
        );
    }
}

#[test]
fn what_a_provider_rejects_is_removed_from_a_schema() {
    let check = |schema: Value, expected: Option<Value>| {
        let basic = basic_schema(&OrderedJson::from(&schema));
        assert_eq!(basic.map(|basic| basic.to_value()), expected, "{schema}");
    };
    let object = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    let closed = |schema: Value| {
        Some(
            json!({ "type": "object", "properties": { "a": schema }, "additionalProperties": false }),
        )
    };
    let within = |schema: Value, expected: Option<Value>| {
        check(object(schema), expected.and_then(closed));
    };
    within(
        json!({ "type": "integer", "minimum": 1 }),
        Some(json!({ "type": "integer" })),
    );
    within(
        json!({ "oneOf": [{ "type": "string", "maxLength": 3 }, { "enum": ["x", 1] }] }),
        Some(json!({ "anyOf": [{ "type": "string" }, { "enum": ["x", 1] }] })),
    );
    within(
        json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        Some(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
    );
    // Maps.
    within(json!({ "type": "object" }), None);
    within(
        json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
        None,
    );
    within(
        json!({ "type": ["object", "null"], "additionalProperties": true }),
        None,
    );
    within(
        json!({ "properties": { "b": { "type": "string" } }, "additionalProperties": true }),
        None,
    );
    within(
        json!({ "type": "object", "patternProperties": { "^x": {} } }),
        None,
    );
    within(
        json!({ "type": "array", "items": { "type": "object" } }),
        None,
    );
    // Anything.
    within(json!({}), None);
    within(json!(true), None);
    within(json!({ "type": "array" }), None);
    within(json!({ "description": "anything" }), None);
    within(json!({ "enum": [{ "maxLength": 1 }] }), None);
    within(json!({ "const": [1] }), None);
    within(json!({ "const": 1 }), Some(json!({ "const": 1 })));
    check(json!(true), None);
}

#[test]
fn a_schema_that_contains_itself_is_not_basic() {
    let check = |schema: &str, is_basic: bool| {
        assert_eq!(
            basic_schema(&ordered(schema)).is_some(),
            is_basic,
            "{schema}"
        );
    };
    let node = |next: &str| {
        format!(
            r##"{{"$ref": "#/$defs/node", "$defs": {{
                "node": {{"type": "object", "properties": {{"a": {next}, "b": {next}}}}},
                "leaf": {{"type": "string"}}}}}}"##
        )
    };
    check(&node(r##"{"$ref": "#/$defs/leaf"}"##), true);
    check(&node(r##"{"$ref": "#/$defs/node"}"##), false);
    check(&node(r##"{"$ref": "#/$defs/none"}"##), false);
    check(&node(r##"{"$ref": "https://a.example/schema"}"##), false);
}

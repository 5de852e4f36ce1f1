//! Tests the schemas of the types of an example package, with values that match them and values
//! that do not, and the host's own interfaces.

use wit_parser::SourceMap;

use super::*;

const PACKAGE: &str = "package test:shapes;
interface shapes {
    /// A point,
    /// somewhere.
    record point { x: s32, y: s32, /// What it is called.
    label: option<string> }
    enum colour { /// Like blood.
    red, green }
    flags rights { read, write }
    /// One of them.
    variant shape { empty, dot(point), line(tuple<point, point>) }
    type points = list<point>;
    type nested = option<option<u8>>;
    type pair = result<u8, string>;
    type bytes = list<u8>;
    type numbers = tuple<u8, s8, u16, s64, u64>;
    type letter = char;
    resource file;
    type unit = result;
    /// Draws.
    draw: func(shape: shape, colour: option<colour>) -> result<points, string>;
    stop: func();
    count: func() -> u32;
    fails: func() -> result;
    opens: func() -> own<file>;
}";

fn resolve() -> Resolve {
    let mut map = SourceMap::new();
    map.push_str("shapes.wit", PACKAGE);
    let mut resolve = Resolve::default();
    resolve
        .push_group(map.parse().map_err(|(_, error)| error).unwrap())
        .unwrap();
    resolve
}

/// Returns the complete schema of a named type.
fn schema(name: &str) -> Value {
    let resolve = resolve();
    let (_, interface) = resolve.interfaces.iter().next().unwrap();
    let mut schemas = SchemaWriter::new(&resolve);
    let mut schema = schemas.type_schema(&Type::Id(interface.types[name]));
    schema["$defs"] = schemas.definitions().unwrap().into();
    schema
}

fn function(name: &str) -> Value {
    let resolve = resolve();
    let (_, interface) = resolve.interfaces.iter().next().unwrap();
    SchemaWriter::new(&resolve).function_schema(&interface.functions[name])
}

/// Checks that all `good` values and no `bad` values match the schema of a type.
fn check(name: &str, good: &[Value], bad: &[Value]) {
    let schema = schema(name);
    let fits = |value: &Value| jsonschema::is_valid(&schema, value);
    for value in good {
        assert!(fits(value), "{name}: {value}");
    }
    for value in bad {
        assert!(!fits(value), "{name}: {value}");
    }
}

#[test]
fn values_fit_records_enums_and_variants_and_others_do_not() {
    let point = json!({ "x": 1, "y": -2 });
    check(
        "point",
        &[
            point.clone(),
            json!({ "x": 1, "y": 2, "label": "p" }),
            json!({ "x": 1, "y": 2, "label": null }),
        ],
        &[
            json!({ "x": 1 }),
            json!({ "x": 1, "y": 2.5 }),
            json!({ "x": 1, "y": 2, "z": 3 }),
            json!([1, 2]),
        ],
    );
    check(
        "colour",
        &[json!("red"), json!("green")],
        &[json!("blue"), json!(0)],
    );
    check(
        "rights",
        &[json!([]), json!(["write", "read"])],
        &[json!(["read", "read"]), json!("read"), json!(["run"])],
    );
    check(
        "shape",
        &[
            json!("empty"),
            json!({ "dot": point }),
            json!({ "line": [point, point] }),
        ],
        &[
            json!("dot"),
            json!({ "empty": null }),
            json!({ "line": [point] }),
            json!({ "dot": point, "line": [] }),
        ],
    );
}

#[test]
fn values_fit_their_types_and_others_do_not() {
    let point = json!({ "x": 1, "y": -2 });
    check(
        "points",
        &[json!([]), json!([point])],
        &[json!(point), json!([1])],
    );
    check(
        "nested",
        &[json!(null), json!({ "some": null }), json!({ "some": 3 })],
        &[json!(3), json!({})],
    );
    check(
        "pair",
        &[json!({ "ok": 1 }), json!({ "err": "x" })],
        &[json!({ "ok": "x" }), json!({}), json!(1)],
    );
    check(
        "unit",
        &[json!({ "ok": null }), json!({ "err": null })],
        &[json!(null)],
    );
    check("bytes", &[json!("AAEC")], &[json!([0, 1, 2])]);
    check(
        "numbers",
        &[json!([255, -128, 65535, i64::MIN, u64::MAX])],
        &[
            json!([256, 0, 0, 0, 0]),
            json!([0, -129, 0, 0, 0]),
            json!([0, 0, 0, 0, -1]),
            json!([0, 0, 0, 0]),
        ],
    );
    check("letter", &[json!("ä")], &[json!(""), json!("ab")]);
    check("file", &[], &[json!(0), json!(null), json!({})]);
}

#[test]
fn functions_say_what_they_take_return_and_how_they_fail() {
    let draw = function("draw");
    assert_eq!(draw["description"], "Draws.");
    assert_eq!(draw["parameters"]["required"], json!(["shape"]));
    assert_eq!(
        draw["parameters"]["properties"]["shape"],
        json!({ "$ref": "#/$defs/shapes.shape" })
    );
    assert_eq!(draw["returns"], json!({ "$ref": "#/$defs/shapes.points" }));
    assert_eq!(draw["fails"], json!({ "type": "string" }));
    let ends = |name: &str| {
        let function = function(name);
        (
            function.get("returns").cloned(),
            function.get("fails").cloned(),
        )
    };
    assert_eq!(ends("stop"), (None, None));
    assert_eq!(ends("count"), (Some(integer(0, u32::MAX.into())), None));
    assert_eq!(ends("fails"), (None, Some(json!({ "type": "null" }))));
    assert_eq!(ends("opens").0.unwrap()["not"], json!({}));
}

#[test]
fn what_the_author_wrote_is_kept() {
    let point = &schema("point")["$defs"]["shapes.point"];
    assert_eq!(point["description"], "A point, somewhere.");
    assert_eq!(
        point["properties"]["label"]["description"],
        "What it is called."
    );
    assert_eq!(
        schema("colour")["$defs"]["shapes.colour"]["description"],
        "`red`: Like blood."
    );
}

#[test]
fn types_without_names_that_come_to_millions_are_refused() {
    let described = |levels: usize| {
        let twice = |n: usize| format!("(type $t{n} (tuple $t{0} $t{0}))", n - 1);
        let types: String = (1..levels).map(twice).collect();
        let text = format!(
            "(component
                (core module $m (memory (export \"m\") 1) (func (export \"f\") (param i32))
                    (func (export \"r\") (param i32 i32 i32 i32) (result i32) unreachable))
                (core instance $i (instantiate $m))
                (type $t0 (tuple u8 u8)) {types}
                (func (export \"f\") (param \"x\" $t{0})
                    (canon lift (core func $i \"f\") (memory (core memory $i \"m\")) (realloc (core func $i \"r\")))))",
            levels - 1
        );
        component::functions_document(&wat::parse_str(text).unwrap())
    };
    let small = described(5).unwrap();
    let items = &small["functions"]["f"]["parameters"]["properties"]["x"]["prefixItems"];
    assert_eq!(
        (
            items.as_array().map(Vec::len),
            small.to_string().matches("integer").count()
        ),
        (Some(2), 32)
    );
    assert_eq!(described(16), Err(SchemasTooLarge));
}

#[test]
fn the_host_s_own_document_is_whole() {
    let document = host_interfaces::document();
    let interfaces = document["interfaces"].as_object().unwrap();
    for (name, interface) in interfaces {
        for (function, schema) in interface["functions"].as_object().unwrap() {
            assert!(
                schema["description"].is_string(),
                "{name}.{function} says nothing"
            );
            for part in ["parameters", "returns", "fails"]
                .iter()
                .filter_map(|part| schema.get(part))
            {
                let mut part = part.clone();
                part["$defs"] = document["$defs"].clone();
                jsonschema::validator_for(&part)
                    .unwrap_or_else(|error| panic!("{name}.{function}: {error}"));
            }
        }
    }
    let by = |name: &str| interfaces[name]["provided_by"].as_str().unwrap();
    assert_eq!(
        [by("llm"), by("files"), by("handler"), by("thinker")],
        ["host", "host", "action", "action"]
    );
    let mut request = document["interfaces"]["http"]["functions"]["fetch"]["parameters"].clone();
    request["$defs"] = document["$defs"].clone();
    let fetch = json!({ "request": { "method": "GET", "url": "https://example.com", "headers": [], "secrets": [] } });
    assert!(jsonschema::is_valid(&request, &fetch));
    assert!(!jsonschema::is_valid(&request, &json!({ "request": {} })));
}

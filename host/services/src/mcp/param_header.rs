//! Arguments that are sent as headers, too, over HTTP: those that the schema of a tool marks with `x-mcp-header`.

use serde_json::Value;

use super::http::header_text;

/// The keyword that marks an argument.
const KEYWORD: &str = "x-mcp-header";
/// What the names of the headers begin with.
const PREFIX: &str = "mcp-param-";
/// The types that an argument can have which is sent as a header.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];
/// The keywords whose value is a schema or a list of schemas, and those whose value has schemas by name. A mark below
/// them has no one argument to which it belongs.
const SCHEMAS: [&str; 15] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const NAMED_SCHEMAS: [&str; 4] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
];

/// An argument that is sent as a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParamHeader {
    /// The names of the properties that lead to it.
    path: Vec<String>,
    /// The name of the header, without what all of them begin with.
    name: String,
}

impl ParamHeader {
    /// Reads which arguments are sent as headers. Fails if a mark is not valid.
    pub(super) fn read_all(schema: &Value) -> Result<Vec<Self>, String> {
        let mut found = Vec::new();
        collect(schema, Some(&[]), &mut found)?;
        for (at, one) in found.iter().enumerate() {
            let is_same = |other: &Self| other.name.eq_ignore_ascii_case(&one.name);
            if found[..at].iter().any(is_same) {
                return Err(format!(
                    "two of its arguments are the same header (`{KEYWORD}`)"
                ));
            }
        }
        Ok(found)
    }

    /// Returns the header with its value in a call with these arguments, or `None` if they do not have it.
    pub(super) fn of_arguments(&self, arguments: &Value) -> Option<(String, String)> {
        let mut value = arguments;
        for property in &self.path {
            value = value.get(property)?;
        }
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        Some((format!("{PREFIX}{}", self.name), header_text(&text)))
    }
}

/// Collects the marks in a schema. `path` leads to its argument; it is `None` where there may be none or several.
fn collect(
    schema: &Value,
    path: Option<&[String]>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    let Value::Object(fields) = schema else {
        return match schema {
            Value::Array(all) => all.iter().try_for_each(|one| collect(one, None, found)),
            _ => Ok(()),
        };
    };
    if let Some(mark) = fields.get(KEYWORD) {
        found.push(read_mark(mark, schema, path)?);
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let longer = path.map(|path| [path, std::slice::from_ref(name)].concat());
                    collect(property, longer.as_deref(), found)?;
                }
            }
            (keyword, value) if SCHEMAS.contains(&keyword) => collect(value, None, found)?,
            (keyword, Value::Object(named)) if NAMED_SCHEMAS.contains(&keyword) => {
                named
                    .values()
                    .try_for_each(|one| collect(one, None, found))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads the mark of the argument that `schema` is about.
fn read_mark(mark: &Value, schema: &Value, path: Option<&[String]>) -> Result<ParamHeader, String> {
    let Some(path @ [_, ..]) = path else {
        return Err(format!("its `{KEYWORD}` is not at an argument"));
    };
    let name = mark.as_str().unwrap_or_default();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("its `{KEYWORD}` is not the name of a header"));
    }
    let kind = schema.get("type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(format!(
            "its `{KEYWORD}` is at an argument that is no text, integer or truth value"
        ));
    }
    Ok(ParamHeader {
        path: path.to_vec(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marked_arguments_become_headers_and_others_do_not() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "place": { "type": "object", "properties": { "floor": { "type": "integer", "x-mcp-header": "Floor" } } },
            "quiet": { "type": "boolean", "x-mcp-header": "Quiet" },
            "x-mcp-header": { "type": "string", "default": { "x-mcp-header": "" } },
        } });
        let headers = ParamHeader::read_all(&schema).expect("valid");
        let arguments = json!({ "region": "größe", "place": { "floor": 2 }, "quiet": null, "x-mcp-header": "a" });
        let mut sent: Vec<_> = headers
            .iter()
            .filter_map(|header| header.of_arguments(&arguments))
            .collect();
        sent.sort();
        let expected = [
            ("mcp-param-Floor", "2"),
            ("mcp-param-Region", "=?base64?Z3LDtsOfZQ==?="),
        ];
        assert_eq!(
            sent,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }

    #[test]
    fn a_mark_that_is_not_valid_is_refused() {
        let mark = |kind: &str, name: &str| json!({ "type": kind, "x-mcp-header": name });
        let check = |schema: Value, expected: &str| {
            let refused = ParamHeader::read_all(&schema).expect_err("not valid");
            assert!(refused.contains(expected), "{schema}: {refused}");
        };
        for name in ["", "My Region", "Region:Primary", "Région", "Region\t1"] {
            let schema = json!({ "properties": { "a": mark("string", name) } });
            check(schema, "not the name of a header");
        }
        for kind in ["object", "array", "null", "number"] {
            check(json!({ "properties": { "a": mark(kind, "A") } }), "no text");
        }
        let both = json!({ "a": mark("string", "Region"), "b": mark("string", "region") });
        check(json!({ "properties": both }), "the same header");
        for elsewhere in [
            mark("object", "Root"),
            json!({ "properties": { "a": { "type": "array", "items": mark("string", "A") } } }),
            json!({ "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": mark("string", "A") } }),
            json!({ "anyOf": [{ "properties": { "a": mark("string", "A") } }] }),
        ] {
            check(elsewhere, "not at an argument");
        }
    }
}

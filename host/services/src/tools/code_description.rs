//! What a model is told about a tool that runs the code which it writes: how to call other tools, and their
//! signatures.

use std::fmt::Write as _;
use std::path::Path;

use super::RoleTool;
use crate::plugin::script::ScriptLanguage;
use serde_json::Value;

/// How much of the description of a tool is part of its line, in characters. The whole is known to the model if
/// it is offered the tool itself.
const MAX_ABOUT_CHARS: usize = 300;

/// Returns the description of a tool that runs `script`, which may call these tools. `own` is what is said of it
/// elsewhere.
pub fn describe<'a>(
    own: Option<&str>,
    script: &Path,
    granted: impl Iterator<Item = (&'a str, &'a RoleTool)>,
) -> String {
    let language = ScriptLanguage::from_path(script).unwrap_or(ScriptLanguage::Python);
    let mut text = match own.map(str::trim).filter(|own| !own.is_empty()) {
        Some(own) => own.to_owned(),
        None => format!(
            "Runs {} code in a sandbox. The result is what the code returns with a top-level `return`, or else what it \
             prints. Use one script instead of many calls.",
            language.name()
        ),
    };
    let example = match language {
        ScriptLanguage::Python => {
            "`tools.call(name, {\"key\": value})`, and several at once with `tools.call_many([(name, {…}), …])`. A failed \
             call raises an exception"
        }
        ScriptLanguage::JavaScript => {
            "`tools.call(name, { key: value })`, and several at once with `tools.callMany([[name, {…}], …])`. A failed call \
             throws an error"
        }
    };
    text += &format!("\nThe code can call these tools with {example}:");
    for (name, tool) in granted {
        text.push_str(&signature_line(name, tool));
    }
    text
}

/// Returns the line about a tool that code can call, which begins with a line feed.
pub fn signature_line(name: &str, tool: &RoleTool) -> String {
    let schema = tool.input_schema.as_ref().map(|schema| schema.document());
    let mut line = format!("\n- {name}({})", parameters(schema));
    let about = tool.description.as_deref().unwrap_or_default();
    let about: String = about.trim().chars().take(MAX_ABOUT_CHARS).collect();
    if !about.is_empty() {
        let _ = write!(line, ": {}", about.replace('\n', " "));
    }
    line
}

/// Returns the parameters of a tool: `q: string, limit?: integer`. A parameter with `?` may be left out.
fn parameters(schema: Option<&Value>) -> String {
    let Some(schema) = schema else {
        return "…".to_owned();
    };
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return String::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let mut parameters = Vec::new();
    for (name, about) in properties {
        let optional = if is_required(name) { "" } else { "?" };
        parameters.push(format!("{name}{optional}: {}", type_name(about)));
    }
    parameters.join(", ")
}

fn type_name(schema: &Value) -> String {
    if let Some(Value::Array(values)) = schema.get("enum") {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return values.join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" | ")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::plugin::CompiledSchema;
    use crate::tools::{Deferral, Exposure, ToolOffer};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_tool_has_a_line_with_its_signature() {
        let schema = json!({
            "type": "object",
            "properties": { "limit": { "type": "integer" }, "q": { "enum": ["a", "b"] } },
            "required": ["q"],
        });
        let tool = |input_schema| RoleTool {
            model_name: "search".into(),
            description: Some("looks something up\nin a table".into()),
            input_schema,
            approval: None,
            deferral: Deferral::Never,
            exposure: Exposure::Sent,
            offer: ToolOffer::Model,
        };
        let known = tool(CompiledSchema::compile(&schema).ok());
        let unknown = tool(None);
        let granted = [("search", &known), ("any", &unknown)].into_iter();
        let text = describe(None, Path::new("<arguments.code>.py"), granted);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "- search(limit?: integer, q: \"a\" | \"b\"): looks something up in a table",
                "- any(…): looks something up in a table",
            ]
        );
        assert!(text.starts_with("Runs Python code"), "{text}");
    }
}

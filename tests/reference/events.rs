//! The page about events.

use serde_json::Value;
use strata_host::public_event::json_schema;

use super::cell;

const HEAD: &str = "# Events

Everything that happens in a run is told as a line of JSON: by `run --events FILE` (`-` for stdout) while it happens, by
`events PATH` afterwards, the same lines both times. Every line is on record before it is
printed and survives `kill -9`; finished work, answers and payments also survive a power failure. Each has `n`, which
counts lines from 1 over all runs on a storage, `time`, in UTC, `kind`, and the fields below. Fields in *italics* are
present only where they apply. New kinds and fields may be added; those listed here stay. The same as a
[JSON Schema](events.schema.json).

How a run ended (`status` of `run-ended`) is also its [exit code](commands.md#exit-codes).

";

/// Returns the JSON Schema of a line.
pub fn schema() -> String {
    serde_json::to_string_pretty(&json_schema()).unwrap() + "\n"
}

pub fn page() -> String {
    let schema = json_schema();
    let mut page = HEAD.to_owned();
    for event in schema["oneOf"].as_array().unwrap() {
        let kind = event["properties"]["kind"]["const"].as_str().unwrap();
        page += &format!("## `{kind}`\n\n{}\n\n", text(event));
        page += "| field | holds |\n|---|---|\n";
        for (name, about) in fields(event) {
            page += &format!("| {name} | {} |\n", cell(&about));
        }
        page += "\n";
    }
    page.trim_end().to_owned() + "\n"
}

/// Returns the fields of an event but `kind`, each with its description: those that every line has,
/// as they are declared, then the others in italics.
fn fields(event: &Value) -> Vec<(String, String)> {
    let properties = event["properties"].as_object().unwrap();
    let required = event["required"].as_array().unwrap();
    let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
    let always = required.iter().filter(|name| **name != "kind");
    let mut fields: Vec<(String, String)> = always
        .map(|name| (format!("`{name}`"), text(&properties[*name])))
        .collect();
    for (name, property) in properties {
        if !required.contains(&name.as_str()) {
            fields.push((format!("*`{name}`*"), text(property)));
        }
    }
    fields
}

/// Returns a description as one line.
fn text(described: &Value) -> String {
    described["description"]
        .as_str()
        .unwrap()
        .replace('\n', " ")
}

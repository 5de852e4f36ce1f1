//! The pages about team files, policies and scripted replies, with one section per table of such a
//! file. Examples of keys are from team files of other tests.

use std::fs;

use serde_json::{Map, Value};

use super::cell;
use crate::probe::project;
use crate::workspace::Workspace;

const HEAD: &str = "# The team file

A team file is TOML. Keys that are not listed here are refused, as are values of another kind; `strata-host check TEAM.toml`
says so with the place. **Bold** keys have to be there. `strata-host schema` prints the same as a JSON Schema, for editors.

A *size* is a number with its unit, `B`, `KB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`, or a whole number of bytes. A *duration* is
a number with `ms`, `s`, `m` or `h`. Paths are relative to the file.

";

const POLICY_HEAD: &str = "# The policy file

What a policy is for is described in [The operator's policy](policy.md). It is TOML, and its keys are written like those of
the [team file](reference.md). `strata-host schema policy` prints the same as a JSON Schema.

";

const REPLIES_HEAD: &str = "# Scripted replies

What the provider `scripted` answers with, in the file that `replies` names: see [Host calls](host-calls.md#replies-in-a-file).
`strata-host schema replies` prints the same as a JSON Schema.

";

/// The order of the tables, as in team files.
const ORDER: [&str; 13] = [
    "schema", "team", "env", "limits", "run", "trust", "llm", "model", "role", "route", "join",
    "budget", "allow",
];
/// The team files from which the examples are taken.
const EXAMPLES: [&str; 5] = ["whole", "scripted", "models", "skills", "outside"];
/// The maximum length of an example.
const EXAMPLE: usize = 60;

pub fn page() -> String {
    page_of(&["schema"], HEAD, examples())
}

pub fn policy_page() -> String {
    page_of(&["schema", "policy"], POLICY_HEAD, Vec::new())
}

pub fn replies_page() -> String {
    page_of(&["schema", "replies"], REPLIES_HEAD, Vec::new())
}

fn page_of(command: &[&str], head: &str, examples: Vec<toml::Value>) -> String {
    let schema: Value =
        serde_json::from_str(&Workspace::empty().host(command).expect(0).stdout).unwrap();
    let mut pages = Pages {
        schema: schema.clone(),
        examples,
        told: Vec::new(),
        page: head.to_owned(),
    };
    pages.table(&Path::default(), &schema);
    pages.page.trim_end().to_owned() + "\n"
}

fn examples() -> Vec<toml::Value> {
    let file = |name: &str| {
        let path = project()
            .join("host/manifest/tests/manifest/good")
            .join(name)
            .with_extension("toml");
        toml::Value::Table(fs::read_to_string(path).unwrap().parse().unwrap())
    };
    EXAMPLES.map(file).to_vec()
}

/// The position of a table in a file.
#[derive(Clone, Default)]
struct Path {
    keys: Vec<String>,
    /// Whether the file may contain several of them.
    listed: bool,
}

impl Path {
    fn below(&self, key: &str, listed: bool) -> Self {
        let keys = self.keys.iter().cloned().chain([key.to_owned()]).collect();
        Self { keys, listed }
    }

    /// Returns how it is written: `[env.scope.NAME]`.
    fn head(&self) -> String {
        let path = self.keys.join(".");
        if self.listed {
            format!("[[{path}]]")
        } else {
            format!("[{path}]")
        }
    }
}

/// The generated page.
struct Pages {
    schema: Value,
    examples: Vec<toml::Value>,
    /// The tables that have been written, with their positions.
    told: Vec<(Value, Path)>,
    page: String,
}

impl Pages {
    /// Writes a table, and then the tables in it.
    fn table(&mut self, path: &Path, schema: &Value) {
        let title = if path.keys.is_empty() {
            "At the top".to_owned()
        } else {
            format!("`{}`", path.head())
        };
        self.page += &format!("## {title}\n\n");
        if let Some(about) = schema["description"].as_str() {
            self.page += &format!("{about}\n\n");
        }
        self.told.push((schema["properties"].clone(), path.clone()));
        let example = if self.examples.is_empty() {
            ""
        } else {
            " example |"
        };
        self.page += &format!("| key | kind | default | meaning |{example}\n");
        self.page += &format!("|---|---|---|---|{}\n", example.replace(" example ", "---"));
        let keys = sorted(schema["properties"].as_object().expect("a table has keys"));
        let mut below = Vec::new();
        for (key, about) in &keys {
            let whole = self.resolve(about);
            self.row(path, schema, key, &whole);
            below.extend(inner(path, key, &whole));
        }
        self.page += "\n";
        for (path, schema) in below {
            let whole = self.resolve(&schema);
            match self
                .told
                .iter()
                .find(|(keys, _)| *keys == whole["properties"])
            {
                Some((_, elsewhere)) => {
                    let (here, there) = (path.head(), elsewhere.head());
                    self.page += &format!("## `{here}`\n\nAs `{there}`.\n\n");
                }
                None => self.table(&path, &whole),
            }
        }
    }

    fn row(&mut self, path: &Path, table: &Value, key: &str, schema: &Value) {
        let needed = table["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name == key));
        let name = if needed {
            format!("**`{key}`**")
        } else {
            format!("`{key}`")
        };
        let default = schema
            .get("default")
            .map(|value| format!("`{value}`"))
            .unwrap_or_default();
        let about = schema["description"].as_str().unwrap_or_default();
        let example = self
            .example(&path.below(key, false))
            .map(|text| format!("`{text}`"))
            .unwrap_or_default();
        let mut row = vec![
            name,
            kind(&self.schema, schema),
            cell(&default),
            cell(about),
        ];
        if !self.examples.is_empty() {
            row.push(cell(&example));
        }
        self.page += &format!("| {} |\n", row.join(" | "));
    }

    /// Returns the schema that a reference stands for, combined with the keys beside the reference.
    fn resolve(&self, schema: &Value) -> Value {
        resolved(&self.schema, schema)
    }

    /// Returns an example of the value at a path.
    fn example(&self, path: &Path) -> Option<String> {
        let found = self
            .examples
            .iter()
            .flat_map(|file| values(file, &path.keys));
        let simple = found.filter(|value| value.as_table().is_none());
        simple
            .map(|value| format!("{} = {value}", path.keys.last().expect("a key")))
            .find(|text| text.len() < EXAMPLE)
    }
}

/// Returns the keys of a table in the order of the page: at the top level as in files, otherwise by
/// name.
fn sorted(properties: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut keys: Vec<(String, Value)> = properties
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if properties.contains_key("schema") {
        keys.sort_by_key(|(key, _)| {
            ORDER
                .iter()
                .position(|name| name == key)
                .unwrap_or(ORDER.len())
        });
    }
    keys
}

/// Returns the table that a key contains, if it contains one or an array of them.
fn inner(path: &Path, key: &str, schema: &Value) -> Option<(Path, Value)> {
    let of_items = schema["items"]
        .is_object()
        .then(|| (path.below(key, true), schema["items"].clone()));
    let named = &schema["additionalProperties"];
    let of_names = named
        .is_object()
        .then(|| (path.below(key, false).below("NAME", false), named.clone()));
    let own = schema["properties"]
        .is_object()
        .then(|| (path.below(key, false), schema.clone()));
    let found = own.or(of_items).or(of_names)?;
    let is_table = found.1["properties"].is_object() || found.1["$ref"].is_string();
    is_table.then_some(found)
}

fn resolved(whole: &Value, schema: &Value) -> Value {
    let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix("#/$defs/"))
    else {
        return schema.clone();
    };
    let mut found = whole["$defs"][name].clone();
    if let Some(about) = schema.get("description") {
        found["description"] = about.clone();
    }
    found
}

/// Returns the type of a value in words.
fn kind(whole: &Value, schema: &Value) -> String {
    let schema = &resolved(whole, schema);
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let example = schema["examples"][0].as_str();
    match (schema["type"].as_str(), example) {
        (None, Some(_)) => "size".to_owned(),
        (Some("string"), Some(_)) => "duration".to_owned(),
        (Some("integer"), _) => format!("whole number{}", range(schema)),
        (Some("number"), _) => format!("number{}", range(schema)),
        (Some("boolean"), _) => "`true`, `false`".to_owned(),
        (Some("array"), _) if inner(&Path::default(), "", schema).is_some() => "tables".to_owned(),
        (Some("array"), _) => "list of strings".to_owned(),
        (Some("object"), _) => "table".to_owned(),
        (None, None) => "anything".to_owned(),
        (Some(other), _) => other.to_owned(),
    }
}

/// Returns the range of a number. Limits that do not matter in practice are left out.
fn range(schema: &Value) -> String {
    /// Larger limits are those of the integer type.
    const LARGE: u64 = u32::MAX as u64;
    let least = schema["minimum"].as_f64().unwrap_or_default();
    match schema["maximum"].as_u64().filter(|most| *most < LARGE) {
        Some(most) => format!(", {least} to {most}"),
        None => format!(", from {least}"),
    }
}

/// Returns the values at a path of a file, in all of its tables.
fn values<'a>(value: &'a toml::Value, path: &[String]) -> Vec<&'a toml::Value> {
    match (value, path.split_first()) {
        (value, None) => vec![value],
        (toml::Value::Array(items), _) => {
            items.iter().flat_map(|item| values(item, path)).collect()
        }
        (toml::Value::Table(table), Some((key, rest))) if key == "NAME" => table
            .values()
            .flat_map(|value| values(value, rest))
            .collect(),
        (toml::Value::Table(table), Some((key, rest))) => table
            .get(key)
            .map(|value| values(value, rest))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

//! The JSON Schema of team files and of policies, for editors and for programs that write such
//! files: every key with its meaning, its default, its allowed words and its range.
//!
//! Files are not validated with this schema but by the functions that read them, which give better
//! explanations. The schema is what the same functions look up; see `table::key`. A test reads every
//! table of every team file with keys and values of all kinds and compares the result with that of
//! the schema.

pub(super) mod kind;
pub(super) mod table_index;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toml::de::DeTable;

use super::diagnostic::{Problems, ReferencedFiles, SourceText};
use super::table::TomlTable;
use super::{authored, operator, replies};

/// A kind of file whose keys are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `team.toml`.
    Team,
    /// An operator's `policy.toml`.
    Policy,
    /// Scripted replies, `replies.toml`.
    Replies,
}

impl FileKind {
    /// Returns the word for it in messages.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::Policy => "policy",
            Self::Replies => "replies",
        }
    }

    /// Returns the size of the largest file that is read. Such files are written by hand, or, for
    /// replies, cut from records, so a larger file is most likely something else.
    pub(super) fn max_bytes(self) -> u64 {
        match self {
            Self::Team | Self::Policy => 4 << 20,
            Self::Replies => 16 << 20,
        }
    }
}

/// Returns the complete schema of a kind of file.
pub fn document(file: FileKind) -> Value {
    let source = Arc::new(SourceText::new(
        String::new(),
        String::new(),
        PathBuf::new(),
    ));
    let problems = Problems::new(Arc::clone(&source), file, ReferencedFiles::Ignored);
    let empty = DeTable::new();
    let root = TomlTable::described(&empty, &problems);
    let title = match file {
        FileKind::Team => {
            authored::read_team_file(&root);
            "strata-host team file"
        }
        FileKind::Policy => {
            operator::read_policy(&root, source);
            "strata-host policy file"
        }
        FileKind::Replies => {
            replies::read_replies(&root);
            "strata-host scripted replies"
        }
    };
    let mut schema = root.schema().unwrap_or_default();
    let mut definitions = Map::new();
    extract_definitions(&mut schema, &mut definitions);
    schema["$id"] = format!(
        "urn:strata-host:{}:{}",
        env!("CARGO_PKG_VERSION"),
        file.word()
    )
    .into();
    schema["$defs"] = definitions.into();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = title.into();
    schema
}

/// The keyword that marks a schema as a definition, until `extract_definitions` has moved it.
const DEFINITION: &str = "$defs";

/// Moves the marked schemas to `definitions`, and leaves references to them.
fn extract_definitions(schema: &mut Value, definitions: &mut Map<String, Value>) {
    match schema {
        Value::Object(map) => {
            map.values_mut()
                .for_each(|value| extract_definitions(value, definitions));
            if let Some(Value::String(name)) = map.remove(DEFINITION) {
                let description = map.remove("description");
                let reference = json!({ "$ref": format!("#/$defs/{name}") });
                definitions.insert(name, std::mem::replace(schema, reference));
                if let Some(description) = description {
                    schema["description"] = description;
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| extract_definitions(item, definitions)),
        _ => {}
    }
}

/// The schema of a table whose keys are described one after another.
#[derive(Default)]
pub(super) struct TableSchema {
    keys: Map<String, Value>,
    required: Vec<&'static str>,
    rules: Vec<(&'static str, Value)>,
    /// The name under which it stands in the definitions.
    pub(super) definition: Option<&'static str>,
}

/// Whether a key is required.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPresence {
    Optional,
    Required,
}

impl TableSchema {
    pub(super) fn add_key(&mut self, name: &'static str, schema: Value, presence: KeyPresence) {
        self.keys.insert(name.to_owned(), schema);
        if presence == KeyPresence::Required {
            self.required.push(name);
        }
    }

    /// Adds a rule about several keys: a keyword and its value.
    pub(super) fn add_rule(&mut self, keyword: &'static str, value: Value) {
        self.rules.push((keyword, value));
    }

    /// Returns the schema of tables with these keys and no others.
    pub(super) fn into_schema(self) -> Value {
        let mut schema = json!({
            "type": "object", "additionalProperties": false, "properties": self.keys,
        });
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        for (keyword, value) in self.rules {
            schema[keyword] = value;
        }
        if let Some(name) = self.definition {
            schema[DEFINITION] = name.into();
        }
        schema
    }
}

/// Returns the schema of a table whose keys are names that the author chooses.
pub(super) fn map_schema(value: Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

/// Returns the schema of a list.
pub(super) fn list_schema(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// Returns a rule for tables in which `key` has the value `word`: the `needed` keys must be
/// present, the `refused` keys absent.
pub(super) fn conditional(key: &str, word: &str, needed: &[&str], refused: &[&str]) -> Value {
    let mut then = forbidding(refused);
    then["required"] = needed.into();
    json!({ "if": { "properties": { key: { "const": word } }, "required": [key] }, "then": then })
}

/// Returns the schema of a table that has none of these keys.
pub(super) fn forbidding(refused: &[&str]) -> Value {
    let refused = refused
        .iter()
        .map(|key| ((*key).to_owned(), Value::Bool(false)));
    json!({ "properties": refused.collect::<Map<_, _>>() })
}

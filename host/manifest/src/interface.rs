//! Describes the parameters and results of WIT functions as JSON Schema, for models that read it
//! and for programs that pass JSON to such a function. The callers provide the WIT; the host's own
//! is in `own`.
//!
//! | WIT | JSON |
//! |---|---|
//! | integers, `bool`, `string`, `char` | whole numbers within their range, booleans, strings, strings of one character |
//! | `f32`, `f64` | numbers, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `list<u8>` | a string in base64 |
//! | `list`, `tuple` | arrays |
//! | `record` | an object; fields that are options may be absent |
//! | `enum`, `flags` | one of some strings, an array of some strings |
//! | `variant` | the case's name, or an object with it as its only key where the case carries a value |
//! | `option<t>` | what `t` is, or null; `{"some": …}` or null where `t` itself can be null |
//! | `result<t, e>` | `{"ok": …}` or `{"err": …}`; as a function's result, two schemas apart |
//! | maps, lists of fixed length, resources, futures, streams | nothing: they have no JSON |

pub mod component;
pub mod host_interfaces;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use strata_core::record::json::size_budget::SizeBudget;
use wit_parser::{
    Docs, Enum, Flags, Function, Record, Resolve, Result_, Type, TypeDef, TypeDefKind, TypeId,
    TypeOwner, Variant,
};

/// The JSON pointer under which named types are defined.
const DEFINITIONS: &str = "#/$defs/";
/// The largest number of keys in the schema of a type that is written wherever it occurs. Records
/// and enums may have more, but they have names and so are written once.
const MAX_INLINE_KEYS: usize = 4;
/// The largest size of the schemas of one document, in bytes. This is about 28,000 types, a hundred
/// times as many as the host's own interfaces have.
const MAX_BYTES: usize = 32 << 20;

/// The schemas are too large, because types without names are nested many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its types are too large to be written as schemas; give names to those that occur again and again"
)]
pub struct SchemasTooLarge;

/// Writes schemas, and collects the definitions of named types that they refer to.
pub struct SchemaWriter<'a> {
    resolve: &'a Resolve,
    definitions: Map<String, Value>,
    /// The names of the definitions. They are made unique, since two packages may use the same
    /// name.
    names: BTreeMap<TypeId, String>,
    /// What is left of the largest size. A type without a name is written wherever it occurs, so
    /// that twenty nested tuples can amount to millions.
    remaining_size: Result<SizeBudget, SchemasTooLarge>,
}

impl<'a> SchemaWriter<'a> {
    /// Creates a writer without definitions.
    pub fn new(resolve: &'a Resolve) -> Self {
        Self {
            resolve,
            definitions: Map::new(),
            names: BTreeMap::new(),
            remaining_size: Ok(SizeBudget::with_bytes(MAX_BYTES)),
        }
    }

    /// Returns the definitions of the named types that the schemas refer to, to be put under
    /// `$defs` of the same document. Fails if the schemas were too large; they are incomplete then.
    pub fn definitions(self) -> Result<Map<String, Value>, SchemasTooLarge> {
        self.remaining_size.map(|_| self.definitions)
    }

    /// Reserves space for a schema.
    fn reserve(&mut self) -> Result<(), SchemasTooLarge> {
        let room = self.remaining_size.as_mut().map_err(|error| *error)?;
        let taken = (0..MAX_INLINE_KEYS).try_for_each(|before| room.take_entry(before, ""));
        taken.map_err(|_| {
            self.remaining_size = Err(SchemasTooLarge);
            SchemasTooLarge
        })
    }

    /// Returns the schema of a function: its `description`, the schema of its `parameters` as one
    /// object, what it `returns` if anything, and how it `fails` if it can.
    pub fn function_schema(&mut self, function: &Function) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for param in &function.params {
            if !self.is_option(&param.ty) {
                required.push(param.name.clone());
            }
            let schema = self.type_schema(&param.ty);
            properties.insert(param.name.clone(), schema);
        }
        let mut schema = with_description(
            &function.docs,
            json!({ "parameters": object(properties, required) }),
        );
        let (returns, fails) = match &function.result {
            Some(result) => match self.as_result(result) {
                Some(Result_ { ok, err }) => (*ok, Some(*err)),
                None => (Some(*result), None),
            },
            None => (None, None),
        };
        if let Some(returns) = returns {
            schema["returns"] = self.type_schema(&returns);
        }
        if let Some(fails) = fails {
            schema["fails"] = self.optional_type_schema(fails.as_ref());
        }
        schema
    }

    /// Returns the schema of a type, or null if the largest size is exceeded.
    pub fn type_schema(&mut self, ty: &Type) -> Value {
        if self.reserve().is_err() {
            return Value::Null;
        }
        match ty {
            Type::Bool => json!({ "type": "boolean" }),
            Type::U8 => integer(0, u8::MAX.into()),
            Type::U16 => integer(0, u16::MAX.into()),
            Type::U32 => integer(0, u32::MAX.into()),
            Type::U64 => integer(0, u64::MAX),
            Type::S8 => integer(i8::MIN.into(), i8::MAX as u64),
            Type::S16 => integer(i16::MIN.into(), i16::MAX as u64),
            Type::S32 => integer(i32::MIN.into(), i32::MAX as u64),
            Type::S64 => integer(i64::MIN, i64::MAX as u64),
            Type::F32 | Type::F64 => {
                json!({ "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }] })
            }
            Type::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
            Type::String => json!({ "type": "string" }),
            Type::ErrorContext => unrepresentable("an error context"),
            Type::Id(id) => self.type_schema_by_id(*id),
        }
    }

    fn type_schema_by_id(&mut self, id: TypeId) -> Value {
        let def = &self.resolve.types[id];
        // A type that an interface imports by `use` is defined in the interface it comes from.
        if let TypeDefKind::Type(inner @ Type::Id(_)) = &def.kind {
            return self.type_schema(inner);
        }
        let Some(plain) = self.definition_name(def) else {
            return self.kind_schema(&def.kind);
        };
        if let Some(name) = self.names.get(&id) {
            return json!({ "$ref": format!("{DEFINITIONS}{name}") });
        }
        let is_taken = |name: &String| self.names.values().any(|known| known == name);
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let name = std::iter::once(plain.clone())
            .chain(numbered)
            .find(|name| !is_taken(name))
            .unwrap_or(plain);
        self.names.insert(id, name.clone());
        let schema = with_description(&def.docs, self.kind_schema(&def.kind));
        self.definitions.insert(name.clone(), schema);
        json!({ "$ref": format!("{DEFINITIONS}{name}") })
    }

    /// Returns the name of a definition, `interface.type`. The package is omitted, since nearly all
    /// documents have only one.
    fn definition_name(&self, def: &TypeDef) -> Option<String> {
        let name = def.name.as_ref()?;
        let owner = match def.owner {
            TypeOwner::Interface(id) => self.resolve.interfaces[id].name.as_deref(),
            TypeOwner::World(id) => Some(self.resolve.worlds[id].name.as_str()),
            TypeOwner::None => None,
        };
        Some(owner.map_or_else(|| name.clone(), |owner| format!("{owner}.{name}")))
    }

    fn kind_schema(&mut self, kind: &TypeDefKind) -> Value {
        match kind {
            TypeDefKind::Type(ty) => self.type_schema(ty),
            TypeDefKind::Record(record) => self.record_schema(record),
            TypeDefKind::Enum(Enum { cases }) => {
                string_enum(cases.iter().map(|case| (case.name.as_str(), &case.docs)))
            }
            TypeDefKind::Flags(Flags { flags }) => {
                let items = string_enum(flags.iter().map(|flag| (flag.name.as_str(), &flag.docs)));
                json!({ "type": "array", "uniqueItems": true, "items": items })
            }
            TypeDefKind::Variant(variant) => self.variant_schema(variant),
            TypeDefKind::Tuple(tuple) => {
                let items: Vec<Value> = tuple.types.iter().map(|ty| self.type_schema(ty)).collect();
                tuple_schema(items)
            }
            TypeDefKind::List(ty) if self.is_byte(ty) => {
                json!({ "type": "string", "contentEncoding": "base64" })
            }
            TypeDefKind::List(ty) => json!({ "type": "array", "items": self.type_schema(ty) }),
            // Functions with such parameters cannot be called with JSON.
            TypeDefKind::FixedLengthList(..) => unrepresentable("a list of fixed length"),
            TypeDefKind::Map(..) => unrepresentable("a map"),
            TypeDefKind::Option(ty) => {
                let some = self.type_schema(ty);
                // Only options can be null, so a nested option is wrapped.
                let some = if self.is_option(ty) {
                    single_key_object("some", some)
                } else {
                    some
                };
                json!({ "anyOf": [some, { "type": "null" }] })
            }
            TypeDefKind::Result(Result_ { ok, err }) => {
                let (ok, err) = (
                    self.optional_type_schema(ok.as_ref()),
                    self.optional_type_schema(err.as_ref()),
                );
                json!({ "oneOf": [single_key_object("ok", ok), single_key_object("err", err)] })
            }
            TypeDefKind::Resource | TypeDefKind::Handle(_) => unrepresentable("a resource"),
            TypeDefKind::Future(_) => unrepresentable("a future"),
            TypeDefKind::Stream(_) => unrepresentable("a stream"),
            TypeDefKind::Unknown => unrepresentable("a type that is not known"),
        }
    }

    fn record_schema(&mut self, record: &Record) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &record.fields {
            if !self.is_option(&field.ty) {
                required.push(field.name.clone());
            }
            let schema = with_description(&field.docs, self.type_schema(&field.ty));
            properties.insert(field.name.clone(), schema);
        }
        object(properties, required)
    }

    fn variant_schema(&mut self, variant: &Variant) -> Value {
        let cases = variant.cases.iter().map(|case| {
            let schema = match &case.ty {
                None => json!({ "const": case.name }),
                Some(ty) => single_key_object(&case.name, self.type_schema(ty)),
            };
            with_description(&case.docs, schema)
        });
        let cases: Vec<Value> = cases.collect();
        json!({ "oneOf": cases })
    }

    /// Returns the schema of an optional type: a missing one becomes null.
    fn optional_type_schema(&mut self, ty: Option<&Type>) -> Value {
        ty.map_or_else(|| json!({ "type": "null" }), |ty| self.type_schema(ty))
    }

    fn is_option(&self, ty: &Type) -> bool {
        matches!(self.resolve_kind(ty), Some(TypeDefKind::Option(_)))
    }

    fn is_byte(&self, ty: &Type) -> bool {
        matches!(
            (ty, self.resolve_kind(ty)),
            (Type::U8, _) | (_, Some(TypeDefKind::Type(Type::U8)))
        )
    }

    fn as_result(&self, ty: &Type) -> Option<&'a Result_> {
        match self.resolve_kind(ty) {
            Some(TypeDefKind::Result(result)) => Some(result),
            _ => None,
        }
    }

    /// Returns the kind of a type, with aliases resolved.
    fn resolve_kind(&self, ty: &Type) -> Option<&'a TypeDefKind> {
        let Type::Id(id) = ty else { return None };
        match &self.resolve.types[*id].kind {
            TypeDefKind::Type(inner @ Type::Id(_)) => self.resolve_kind(inner),
            kind => Some(kind),
        }
    }
}

fn integer(least: i64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn object(properties: Map<String, Value>, required: Vec<String>) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Returns the schema of an object with exactly one key.
fn single_key_object(key: &str, schema: Value) -> Value {
    object(
        [(key.to_owned(), schema)].into_iter().collect(),
        vec![key.to_owned()],
    )
}

/// Returns the schema of an array with one element for each schema.
fn tuple_schema(items: Vec<Value>) -> Value {
    let length = items.len();
    json!({ "type": "array", "prefixItems": items, "minItems": length, "maxItems": length })
}

/// Returns the schema of an enumeration of strings. JSON Schema cannot describe single values, so
/// their documentation is in the description of the whole.
fn string_enum<'w>(words: impl Iterator<Item = (&'w str, &'w Docs)>) -> Value {
    let (mut names, mut texts) = (Vec::new(), Vec::new());
    for (name, docs) in words {
        names.push(name);
        texts.extend(
            docs.contents
                .as_ref()
                .map(|text| format!("`{name}`: {}", one_line(text))),
        );
    }
    let mut schema = json!({ "type": "string", "enum": names });
    if !texts.is_empty() {
        schema["description"] = texts.join("\n").into();
    }
    schema
}

/// Returns the schema of a type that has no JSON form. No value matches it.
fn unrepresentable(what: &str) -> Value {
    json!({ "not": {}, "description": format!("{what} cannot be written as JSON") })
}

/// Puts the documentation in front of the description of a schema.
fn with_description(docs: &Docs, mut schema: Value) -> Value {
    if let Some(text) = &docs.contents {
        let own = schema["description"]
            .as_str()
            .map(|own| format!("\n{own}"))
            .unwrap_or_default();
        schema["description"] = format!("{}{own}", join_lines(text)).into();
    }
    schema
}

/// Joins the lines of each paragraph of a text.
fn join_lines(text: &str) -> String {
    let paragraphs: Vec<String> = text.trim().split("\n\n").map(one_line).collect();
    paragraphs.join("\n\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

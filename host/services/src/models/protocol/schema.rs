//! JSON Schemas in the forms that providers accept. Each of them refuses a whole request because of
//! one schema in it.
//!
//! What is sent may allow more than the author's schema, never less: the host checks arguments and
//! replies with the whole schema. What cannot be sent as a schema is told in words. The order of
//! properties is kept, because models write them in this order.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;

use indexmap::IndexMap;
use serde_json::Value;

use strata_base::text::ordered_json::{Fields, OrderedJson};

/// The keywords whose value is an object of schemas.
const SCHEMA_MAPS: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// The keywords whose value is a list of schemas.
const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// The keywords whose value is a schema.
const SCHEMAS: [&str; 10] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// The keywords whose value may be a boolean for all providers.
const OPEN_OR_CLOSED: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// The keywords that providers do not accept outside of all properties.
const NOT_AT_TOP: [&str; 10] = [
    "$ref", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then",
];
/// The keywords of schemas that providers accept when they enforce a schema.
const STRICT_KEYWORDS: [&str; 9] = [
    "$schema",
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
];
/// The keywords that remain in a schema for a provider that rejects others.
const BASIC_KEYWORDS: [&str; 15] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "format",
    "items",
    "properties",
    "required",
    "title",
    "type",
];
/// The keywords one of which says what a value is.
const DEFINING_KEYWORDS: [&str; 7] = [
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "properties",
    "type",
];
/// The maximum number of schemas and properties that are visited for the top of one. References and
/// alternatives may lead to the same schema again and again. Those beyond are taken to allow
/// everything.
const MAX_VISITS: usize = 10_000;
/// The maximum depth to which schemas are followed, including references. A document may be nested
/// to half of it.
const MAX_DEPTH: usize = 200;

/// Why a schema cannot be that of arguments: it allows no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not allow an object, and the arguments of a tool are one")]
pub struct NotAnObject;

/// Returns the schema of the arguments of a tool as it is sent: that of an object, without
/// alternatives at its top. Where these are left out, the whole schema is added in words.
pub fn arguments_schema(schema: &OrderedJson) -> Result<OrderedJson, NotAnObject> {
    let mut completed = schema.clone();
    complete(&mut completed);
    let shape = Shapes::of_root(&completed).ok_or(NotAnObject)?;
    // `true` allows any object.
    let mut fields = completed.as_object().cloned().unwrap_or_default();
    let is_whole = !fields
        .keys()
        .any(|keyword| NOT_AT_TOP.contains(&keyword.as_str()));
    if let Some(types) = fields.get_mut("type") {
        *types = text("object");
    } else {
        fields.shift_insert(0, "type".to_owned(), text("object"));
    }
    if is_whole {
        fields
            .entry("properties".to_owned())
            .or_insert_with(OrderedJson::empty_object);
        return Ok(OrderedJson::Object(fields));
    }
    fields.retain(|keyword, _| !NOT_AT_TOP.contains(&keyword.as_str()));
    // A closed object would exclude properties of the parts that are left out.
    for keyword in OPEN_OR_CLOSED {
        fields.shift_remove(keyword);
    }
    let own = fields.get("description").and_then(OrderedJson::as_str);
    let own = own.map(|own| format!("{own}\n\n")).unwrap_or_default();
    let words = format!("{own}The arguments follow this JSON Schema: {schema}");
    fields.insert("description".to_owned(), text(&words));
    let properties = shape.properties.iter();
    let properties = properties.map(|(name, schemas)| ((*name).to_owned(), one_of(schemas)));
    fields.insert(
        "properties".to_owned(),
        OrderedJson::Object(properties.collect()),
    );
    if !shape.required.is_empty() {
        let required = shape.required.iter().map(|name| text(name)).collect();
        fields.insert("required".to_owned(), OrderedJson::List(required));
    }
    Ok(OrderedJson::Object(fields))
}

/// The properties that an object may have according to a schema, and those that it must have.
#[derive(Default)]
struct Shape<'a> {
    /// The schemas by the names of the properties. A property has to match one of them.
    properties: IndexMap<&'a str, Vec<&'a OrderedJson>, RandomState>,
    required: BTreeSet<&'a str>,
}

impl<'a> Shape<'a> {
    /// Adds what another schema requires as well.
    fn add(&mut self, other: Self) {
        for (name, schemas) in other.properties {
            self.properties.entry(name).or_insert(schemas);
        }
        self.required.extend(other.required);
    }

    /// Allows objects that have another shape, too.
    fn or(mut self, other: Self) -> Self {
        self.required.retain(|name| other.required.contains(name));
        for (name, schemas) in other.properties {
            let known = self.properties.entry(name).or_default();
            for schema in schemas {
                if !known.contains(&schema) {
                    known.push(schema);
                }
            }
        }
        self
    }
}

/// Returns a schema that allows what one of these allows.
fn one_of(schemas: &[&OrderedJson]) -> OrderedJson {
    if let [schema] = schemas {
        return (*schema).clone();
    }
    let alternatives = schemas.iter().map(|schema| (*schema).clone()).collect();
    let mut fields = Fields::default();
    fields.insert("anyOf".to_owned(), OrderedJson::List(alternatives));
    OrderedJson::Object(fields)
}

/// Finds shapes in a document.
struct Shapes<'a> {
    root: &'a OrderedJson,
    /// How many schemas and properties were visited.
    visits: usize,
}

impl<'a> Shapes<'a> {
    fn of_root(root: &'a OrderedJson) -> Option<Shape<'a>> {
        Shapes { root, visits: 0 }.of(root, 0)
    }

    /// Returns the shape of the objects that a schema allows. Returns `None` if it allows none.
    fn of(&mut self, schema: &'a OrderedJson, depth: usize) -> Option<Shape<'a>> {
        let Some(fields) = schema.as_object() else {
            return (!schema.is_bool(false)).then(Shape::default);
        };
        if !allows_objects(fields) {
            return None;
        }
        let properties = fields.get("properties").and_then(OrderedJson::as_object);
        self.visits += 1 + properties.map_or(0, IndexMap::len);
        if self.visits > MAX_VISITS || depth > MAX_DEPTH {
            return Some(Shape::default());
        }
        let properties = properties.into_iter().flatten();
        let mut shape = Shape {
            properties: properties
                .map(|(name, schema)| (name.as_str(), vec![schema]))
                .collect(),
            required: names(fields.get("required")).collect(),
        };
        if let Some(target) = fields.get("$ref").and_then(|to| resolve(to, self.root)) {
            shape.add(self.of(target, depth + 1)?);
        }
        for part in items(fields.get("allOf")) {
            shape.add(self.of(part, depth + 1)?);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(parts) = fields.get(keyword).and_then(OrderedJson::as_list) {
                let shapes = parts.iter().filter_map(|part| self.of(part, depth + 1));
                shape.add(shapes.reduce(Shape::or)?);
            }
        }
        Some(shape)
    }
}

/// Returns whether a schema, apart from what it refers to, allows an object.
fn allows_objects(fields: &Fields) -> bool {
    let is_object = |value: &OrderedJson| value.as_object().is_some();
    let values = fields.get("enum").and_then(OrderedJson::as_list);
    fields
        .get("type")
        .is_none_or(|types| has_type(types, "object"))
        && fields.get("const").is_none_or(is_object)
        && values.is_none_or(|values| values.iter().any(is_object))
}

/// Returns what a reference within a document refers to.
fn resolve<'a>(reference: &OrderedJson, root: &'a OrderedJson) -> Option<&'a OrderedJson> {
    let path = reference.as_str()?.strip_prefix('#')?;
    if path.is_empty() {
        return Some(root);
    }
    let mut target = root;
    for step in path.strip_prefix('/')?.split('/') {
        let step = step.replace("~1", "/").replace("~0", "~");
        target = match target {
            OrderedJson::List(items) => items.get(step.parse::<usize>().ok()?)?,
            other => other.get(&step)?,
        };
    }
    Some(target)
}

/// Writes out what a schema leaves open and a provider demands: `items` of arrays, and schemas that
/// are objects. A list of schemas in `items`, an older notation, is left out.
pub(super) fn complete(schema: &mut OrderedJson) {
    let OrderedJson::Object(fields) = schema else {
        return;
    };
    for_each_part(fields, &mut |keyword, part| {
        if part.is_bool(true) && !OPEN_OR_CLOSED.contains(&keyword) {
            *part = OrderedJson::empty_object();
        }
        complete(part);
    });
    let is_array = fields
        .get("type")
        .is_some_and(|types| has_type(types, "array"));
    let items = fields.get("items");
    if items.is_some_and(|items| items.as_list().is_some()) || (is_array && items.is_none()) {
        fields.insert("items".to_owned(), OrderedJson::empty_object());
    }
}

/// Calls a function with each schema directly in a schema, and its keyword.
fn for_each_part(fields: &mut Fields, visit: &mut impl FnMut(&str, &mut OrderedJson)) {
    for (keyword, value) in fields {
        let keyword = keyword.as_str();
        match value {
            OrderedJson::Object(parts) if SCHEMA_MAPS.contains(&keyword) => {
                parts.values_mut().for_each(|part| visit(keyword, part));
            }
            OrderedJson::List(parts) if SCHEMA_LISTS.contains(&keyword) => {
                parts.iter_mut().for_each(|part| visit(keyword, part));
            }
            part if SCHEMAS.contains(&keyword) => visit(keyword, part),
            _ => {}
        }
    }
}

/// Returns whether a provider can enforce a schema: each object lists all its properties as required
/// and allows no others, and nothing else is in it.
pub(super) fn is_strict(schema: &OrderedJson) -> bool {
    let Some(fields) = schema.as_object() else {
        return false;
    };
    let is_known = |keyword: &String| STRICT_KEYWORDS.contains(&keyword.as_str());
    let Some(types) = fields.get("type") else {
        return false;
    };
    if !fields.keys().all(is_known) {
        return false;
    }
    let no_properties = Fields::default();
    let properties = fields.get("properties").and_then(OrderedJson::as_object);
    let properties = properties.unwrap_or(&no_properties);
    if has_type(types, "object") {
        let required: BTreeSet<&str> = names(fields.get("required")).collect();
        let is_closed = fields
            .get("additionalProperties")
            .is_some_and(|more| more.is_bool(false));
        if !is_closed
            || !properties
                .keys()
                .all(|name| required.contains(name.as_str()))
        {
            return false;
        }
    }
    properties.values().all(is_strict) && fields.get("items").is_none_or(is_strict)
}

/// Returns whether a schema says at its top that a value is an object, as OpenAI requires of the
/// schemas of replies.
pub(super) fn is_object_at_top(schema: &OrderedJson) -> bool {
    let is_object = schema.get("type").and_then(OrderedJson::as_str) == Some("object");
    let fields = schema.as_object();
    is_object
        && fields.is_some_and(|fields| {
            !fields
                .keys()
                .any(|keyword| NOT_AT_TOP.contains(&keyword.as_str()))
        })
}

/// Returns a schema without what a provider rejects that enforces it: other keywords than the basic
/// ones, and objects with further properties. Returns `None` if what remains would exclude replies
/// that the schema asks for, or says nothing: a map of any keys, values of any type, schemas that
/// contain themselves.
pub(super) fn basic_schema(schema: &OrderedJson) -> Option<OrderedJson> {
    let mut basic = schema.clone();
    simplify(&mut basic)?;
    let is_finite = References {
        root: &basic,
        open: BTreeSet::new(),
        closed: BTreeSet::new(),
    }
    .end(&basic, 0);
    is_finite.then_some(basic)
}

fn simplify(schema: &mut OrderedJson) -> Option<()> {
    let OrderedJson::Object(fields) = schema else {
        return None;
    };
    if fields.contains_key("patternProperties") {
        return None;
    }
    // Alternatives that exclude each other are still alternatives.
    if !fields.contains_key("anyOf")
        && let Some(alternatives) = fields.get("oneOf").cloned()
    {
        fields.insert("anyOf".to_owned(), alternatives);
    }
    fields.retain(|keyword, _| BASIC_KEYWORDS.contains(&keyword.as_str()));
    if !DEFINING_KEYWORDS
        .iter()
        .any(|keyword| fields.contains_key(*keyword))
    {
        return None;
    }
    let mut values = items(fields.get("enum")).iter().chain(fields.get("const"));
    if values.any(|value| !matches!(value, OrderedJson::Scalar(_))) {
        return None;
    }
    let is_array = fields
        .get("type")
        .is_some_and(|types| has_type(types, "array"));
    if is_array && !fields.contains_key("items") {
        return None;
    }
    close_object(fields)?;
    let mut is_basic = true;
    for_each_part(fields, &mut |keyword, part| {
        is_basic &= OPEN_OR_CLOSED.contains(&keyword) || simplify(part).is_some();
    });
    is_basic.then_some(())
}

/// Excludes further properties if a schema is that of an object. Returns `None` if they are what the
/// object consists of.
fn close_object(fields: &mut Fields) -> Option<()> {
    let properties = fields.get("properties").and_then(OrderedJson::as_object);
    let has_properties = properties.is_some_and(|properties| !properties.is_empty());
    let is_object = fields
        .get("type")
        .is_some_and(|types| has_type(types, "object"));
    if !is_object && properties.is_none() {
        fields.shift_remove("additionalProperties");
        return Some(());
    }
    match fields.get("additionalProperties") {
        None if !has_properties => return None,
        Some(more) if !more.is_bool(false) => return None,
        _ => {}
    }
    fields.insert(
        "additionalProperties".to_owned(),
        OrderedJson::Scalar(false.into()),
    );
    Some(())
}

/// Follows the references in a document.
struct References<'a> {
    root: &'a OrderedJson,
    /// The references that led to the current schema.
    open: BTreeSet<&'a str>,
    /// Those that are known to end.
    closed: BTreeSet<&'a str>,
}

impl<'a> References<'a> {
    /// Returns whether all references in a value lead to schemas of the document, and none to a
    /// schema that contains it.
    fn end(&mut self, value: &'a OrderedJson, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        match value {
            OrderedJson::Scalar(_) => true,
            OrderedJson::List(items) => items.iter().all(|item| self.end(item, depth + 1)),
            OrderedJson::Object(fields) => {
                fields
                    .iter()
                    .all(|(name, value)| match (name.as_str(), value.as_str()) {
                        ("$ref", Some(reference)) => self.ends(value, reference, depth),
                        _ => self.end(value, depth + 1),
                    })
            }
        }
    }

    fn ends(&mut self, value: &'a OrderedJson, reference: &'a str, depth: usize) -> bool {
        if self.closed.contains(reference) {
            return true;
        }
        let Some(target) = resolve(value, self.root) else {
            return false;
        };
        if !self.open.insert(reference) || !self.end(target, depth + 1) {
            return false;
        }
        self.open.remove(reference);
        self.closed.insert(reference)
    }
}

/// Returns whether a value of the keyword `type` contains a type.
fn has_type(types: &OrderedJson, name: &str) -> bool {
    types.as_str() == Some(name) || names(Some(types)).any(|one| one == name)
}

/// Returns the texts in a list.
fn names(list: Option<&OrderedJson>) -> impl Iterator<Item = &str> {
    items(list).iter().filter_map(OrderedJson::as_str)
}

fn items(list: Option<&OrderedJson>) -> &[OrderedJson] {
    list.and_then(OrderedJson::as_list).unwrap_or_default()
}

fn text(text: &str) -> OrderedJson {
    OrderedJson::Scalar(Value::from(text))
}

#[cfg(test)]
mod tests;

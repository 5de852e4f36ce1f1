//! Finds JSON schemas that no value can match, as far as this is easy to see. A positive result is
//! certain. Other schemas may be impossible too, since deciding this in general is intractable.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr, Not};

use serde_json::{Map, Value};

/// The maximum depth to which schemas are visited, including references. Anything deeper is assumed
/// to be possible.
const MAX_DEPTH: usize = 64;
/// The maximum number of visits to schemas. A schema is visited as often as references and lists lead
/// to it, which may grow exponentially with the depth. After that many, everything is assumed to be
/// possible.
const MAX_VISITS: u32 = 10_000;
/// The maximum number of values that are tried one by one.
const MAX_CANDIDATES: usize = 1_000;

/// A set of kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const NONE: Self = Self(0);
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const INTEGER: Self = Self(4);
    /// A number that is not an integer.
    const FRACTION: Self = Self(8);
    const STRING: Self = Self(16);
    const ARRAY: Self = Self(32);
    const OBJECT: Self = Self(64);
    const ALL: Self = Self(127);

    fn from_name(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::INTEGER | Self::FRACTION,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            // `1.0` is an integer too.
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() != 0.0 => Self::FRACTION,
                _ => Self::INTEGER,
            },
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Returns the kinds that the keyword `type` allows.
    fn from_type_keyword(schema: &Map<String, Value>) -> Self {
        match schema.get("type") {
            Some(Value::String(name)) => Self::from_name(name),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .map(Self::from_name)
                .fold(Self::NONE, |all, one| all | one),
            _ => Self::ALL,
        }
    }
}

impl BitAnd for Kinds {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Kinds {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Kinds {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }
}

/// Returns whether it is certain that no value matches a schema. `fits` returns whether a value
/// matches it.
pub(super) fn is_impossible(schema: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    let search = SchemaSearch {
        root: schema,
        visits_left: Cell::new(MAX_VISITS),
    };
    let possible = search.possible_kinds(schema, MAX_DEPTH);
    if possible == Kinds::NONE {
        return true;
    }
    let null_and_booleans = [
        (Kinds::NULL, Value::Null),
        (Kinds::BOOLEAN, true.into()),
        (Kinds::BOOLEAN, false.into()),
    ];
    let candidates = match search.candidates(schema, MAX_DEPTH) {
        Some(candidates) => candidates,
        None if possible & !(Kinds::NULL | Kinds::BOOLEAN) == Kinds::NONE => null_and_booleans
            .iter()
            .filter(|(kind, _)| *kind & possible != Kinds::NONE)
            .map(|(_, value)| value)
            .collect(),
        None => return false,
    };
    candidates.len() <= MAX_CANDIDATES && !candidates.into_iter().any(fits)
}

/// A search for values that match a schema.
struct SchemaSearch<'a> {
    /// The top-level schema, in which references are resolved.
    root: &'a Value,
    /// How many visits are left.
    visits_left: Cell<u32>,
}

impl<'a> SchemaSearch<'a> {
    /// Counts a visit to a schema, and returns the depth that is left below it. Returns `None` if there
    /// were too many visits, or if the schema is too deep.
    fn visit(&self, depth_left: usize) -> Option<usize> {
        self.visits_left.set(self.visits_left.get().checked_sub(1)?);
        depth_left.checked_sub(1)
    }

    /// Returns the schema that a reference points to.
    fn resolve_reference(&self, reference: &Value) -> Option<&'a Value> {
        self.root.pointer(reference.as_str()?.strip_prefix('#')?)
    }

    /// Returns the schemas that a value must match in order to match this one: itself, those in
    /// `allOf`, and what they refer to. Leaves out those beyond the limits.
    fn conjuncts(&self, schema: &'a Value, depth_left: usize) -> Vec<&'a Value> {
        let mut found = Vec::new();
        let mut pending = vec![(schema, depth_left)];
        while let Some((next, depth_left)) = pending.pop() {
            let Some(child_depth) = self.visit(depth_left) else {
                continue;
            };
            let Value::Object(map) = next else {
                found.push(next);
                continue;
            };
            let target = map
                .get("$ref")
                .and_then(|reference| self.resolve_reference(reference));
            pending.extend(target.map(|target| (target, child_depth)));
            // Some drafts ignore keywords next to a reference. If a draft is named, they are ignored,
            // so that the result stays certain.
            if target.is_some() && self.root.get("$schema").is_some() {
                continue;
            }
            found.push(next);
            pending.extend(
                map.get("allOf")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .map(|all| (all, child_depth)),
            );
        }
        found
    }

    /// Returns the kinds of which some value may match a schema.
    fn possible_kinds(&self, schema: &'a Value, depth_left: usize) -> Kinds {
        let Some(child_depth) = self.visit(depth_left) else {
            return Kinds::ALL;
        };
        let conjuncts = self.conjuncts(schema, depth_left);
        let mut kinds = Kinds::ALL;
        for conjunct in &conjuncts {
            let map = match conjunct {
                Value::Bool(false) => return Kinds::NONE,
                Value::Object(map) => map,
                _ => continue,
            };
            kinds = kinds & Kinds::from_type_keyword(map);
            if let Some(values) = listed_values(map) {
                kinds = kinds
                    & values
                        .iter()
                        .map(|value| Kinds::from_value(value))
                        .fold(Kinds::NONE, |all, one| all | one);
            }
            for key in ["anyOf", "oneOf"] {
                if let Some(Value::Array(some)) = map.get(key) {
                    let any = some
                        .iter()
                        .map(|one| self.possible_kinds(one, child_depth))
                        .fold(Kinds::NONE, |all, one| all | one);
                    kinds = kinds & any;
                }
            }
            if let Some(not) = map.get("not") {
                kinds = kinds & !self.certain_kinds(not, child_depth);
            }
        }
        let maps: Vec<_> = conjuncts
            .iter()
            .filter_map(|conjunct| conjunct.as_object())
            .collect();
        kinds & kinds_within_bounds(&maps) & self.kinds_with_possible_parts(&maps, child_depth)
    }

    /// Returns the kinds of which every value matches a schema.
    fn certain_kinds(&self, schema: &'a Value, depth_left: usize) -> Kinds {
        let Some(child_depth) = self.visit(depth_left) else {
            return Kinds::NONE;
        };
        let map = match schema {
            Value::Bool(true) => return Kinds::ALL,
            Value::Object(map) => map,
            _ => return Kinds::NONE,
        };
        let mut kinds = Kinds::ALL;
        for (key, value) in map {
            let all = || value.as_array().into_iter().flatten();
            kinds = kinds
                & match key.as_str() {
                    "title" | "description" | "default" | "examples" | "$comment" | "$schema"
                    | "$id" | "$defs" | "definitions" => Kinds::ALL,
                    "type" => Kinds::from_type_keyword(map),
                    "not" => !self.possible_kinds(value, child_depth),
                    "allOf" => all()
                        .map(|one| self.certain_kinds(one, child_depth))
                        .fold(Kinds::ALL, |all, one| all & one),
                    "anyOf" => all()
                        .map(|one| self.certain_kinds(one, child_depth))
                        .fold(Kinds::NONE, |all, one| all | one),
                    "$ref" => self.resolve_reference(value).map_or(Kinds::NONE, |target| {
                        self.certain_kinds(target, child_depth)
                    }),
                    _ => return Kinds::NONE,
                };
        }
        kinds
    }

    /// Returns all kinds but objects and arrays that must contain something that no value matches.
    fn kinds_with_possible_parts(
        &self,
        maps: &[&'a Map<String, Value>],
        depth_left: usize,
    ) -> Kinds {
        let mut kinds = Kinds::ALL;
        let cannot_match =
            |schema: &'a Value| self.possible_kinds(schema, depth_left) == Kinds::NONE;
        let required: BTreeSet<&str> = string_items(maps, "required").collect();
        let at_least = max_number(maps, "minItems").unwrap_or_default();
        for map in maps {
            let properties = map.get("properties").and_then(Value::as_object);
            let of_key = |key: &str| properties.and_then(|properties| properties.get(key));
            if required
                .iter()
                .any(|key| of_key(key).is_some_and(cannot_match))
            {
                kinds = kinds & !Kinds::OBJECT;
            }
            // The schema of the first item, which must exist.
            let first = map
                .get("prefixItems")
                .and_then(Value::as_array)
                .and_then(|items| items.first());
            let item = first.or_else(|| map.get("items").filter(|items| !items.is_array()));
            if at_least >= 1.0 && item.is_some_and(cannot_match) {
                kinds = kinds & !Kinds::ARRAY;
            }
            let any = map
                .get("minContains")
                .and_then(Value::as_f64)
                .unwrap_or(1.0)
                >= 1.0;
            if any && map.get("contains").is_some_and(cannot_match) {
                kinds = kinds & !Kinds::ARRAY;
            }
        }
        kinds
    }

    /// Returns a list that includes every value that matches a schema, if `enum` or `const` limits
    /// them.
    fn candidates(&self, schema: &'a Value, depth_left: usize) -> Option<Vec<&'a Value>> {
        let child_depth = self.visit(depth_left)?;
        let conjuncts = self.conjuncts(schema, depth_left);
        let maps = conjuncts.iter().filter_map(|conjunct| conjunct.as_object());
        for map in maps {
            if let Some(values) = listed_values(map) {
                return Some(values);
            }
            for key in ["anyOf", "oneOf"] {
                let Some(Value::Array(some)) = map.get(key) else {
                    continue;
                };
                let all: Option<Vec<_>> = some
                    .iter()
                    .map(|one| self.candidates(one, child_depth))
                    .collect();
                if let Some(all) =
                    all.filter(|all| all.iter().map(Vec::len).sum::<usize>() <= MAX_CANDIDATES)
                {
                    return Some(all.concat());
                }
            }
        }
        None
    }
}

/// Returns the values that `enum` or `const` lists.
fn listed_values(map: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Returns the strings in the arrays that the schemas have for a key.
fn string_items<'a>(
    maps: &[&'a Map<String, Value>],
    key: &'static str,
) -> impl Iterator<Item = &'a str> {
    let lists = maps
        .iter()
        .filter_map(|map| map.get(key)?.as_array())
        .collect::<Vec<_>>();
    lists.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the largest number that the schemas have for a key.
fn max_number(maps: &[&Map<String, Value>], key: &str) -> Option<f64> {
    maps.iter()
        .filter_map(|map| map.get(key)?.as_f64())
        .reduce(f64::max)
}

/// Returns the smallest number that the schemas have for a key.
fn min_number(maps: &[&Map<String, Value>], key: &str) -> Option<f64> {
    maps.iter()
        .filter_map(|map| map.get(key)?.as_f64())
        .reduce(f64::min)
}

/// Returns the kinds that remain possible within the combined bounds of the schemas.
fn kinds_within_bounds(maps: &[&Map<String, Value>]) -> Kinds {
    let mut kinds = Kinds::ALL;
    let sizes = [
        ("minLength", "maxLength", Kinds::STRING),
        ("minItems", "maxItems", Kinds::ARRAY),
        ("minProperties", "maxProperties", Kinds::OBJECT),
    ];
    for (from, to, kind) in sizes {
        if max_number(maps, from)
            .zip(min_number(maps, to))
            .is_some_and(|(from, to)| from > to)
        {
            kinds = kinds & !kind;
        }
    }
    let required: BTreeSet<&str> = string_items(maps, "required").collect();
    if min_number(maps, "maxProperties").is_some_and(|most| (required.len() as f64) > most) {
        kinds = kinds & !Kinds::OBJECT;
    }
    let (from, to) = (max_number(maps, "minimum"), min_number(maps, "maximum"));
    let (above, below) = (
        max_number(maps, "exclusiveMinimum"),
        min_number(maps, "exclusiveMaximum"),
    );
    let exceeds =
        |from: Option<f64>, to: Option<f64>| from.zip(to).is_some_and(|(from, to)| from > to);
    let reaches =
        |from: Option<f64>, to: Option<f64>| from.zip(to).is_some_and(|(from, to)| from >= to);
    if exceeds(from, to) || reaches(above, to) || reaches(from, below) || reaches(above, below) {
        kinds = kinds & !(Kinds::INTEGER | Kinds::FRACTION);
    }
    let first = [from.map(f64::ceil), above.map(|above| above.floor() + 1.0)]
        .into_iter()
        .flatten()
        .reduce(f64::max);
    let last = [to.map(f64::floor), below.map(|below| below.ceil() - 1.0)]
        .into_iter()
        .flatten()
        .reduce(f64::min);
    if exceeds(first, last) {
        kinds = kinds & !Kinds::INTEGER;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_leads_to_the_same_places_again_and_again_is_taken_for_possible() {
        let level = |n: usize| {
            let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
            let required =
                json!({ "required": ["a", "b"], "properties": { "a": next, "b": next } });
            json!({ "allOf": vec![required; 8] })
        };
        let mut levels: Map<String, Value> = (0..40).map(|n| (n.to_string(), level(n))).collect();
        levels.insert("40".into(), json!(false));
        let schema = json!({ "$ref": "#/$defs/0", "$defs": levels });
        assert!(!is_impossible(&schema, |_| true));
    }
}

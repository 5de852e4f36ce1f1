//! Compiled JSON Schemas, which validate outputs and answers. `bounded` limits the schemas of
//! guests.

mod cost;
mod impossible;

use std::sync::Arc;

use jsonschema::PatternOptions;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use cost::SchemaCost;
use strata_base::text::excerpt::excerpt;
use strata_base::text::ordered_json::OrderedJson;

/// How many backtracking steps a pattern in an operator's schema may take on one text. Only
/// patterns that are meant to be slow need more.
const MAX_BACKTRACKING_STEPS: usize = 100_000;
/// The cache size for matching a pattern in a guest's schema. With less, matching is slower.
const DFA_CACHE_BYTES: usize = 128 << 10;
/// The format of texts that are regular expressions.
const REGEX_FORMAT: &str = "regex";
/// The maximum length of a pattern in an error, in characters.
const PATTERN_EXCERPT_CHARS: usize = 40;
/// How many violations of a schema an error describes.
const MAX_VIOLATIONS: usize = 8;
/// The maximum length of the description of a violation, without its places, in characters.
const MAX_VIOLATION_CHARS: usize = 400;
/// How many values of a document, times the parts of a schema, are allowed for all violations to be
/// listed; otherwise only the first is described. Each takes some hundred bytes while they are listed.
const MAX_LISTED_PAIRS: usize = 100_000;

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub struct CompiledSchema {
    document: Arc<Value>,
    /// The document in the order of its author.
    ordered: Arc<OrderedJson>,
    validator: Arc<jsonschema::Validator>,
    /// The size of the schema; `None` for an operator's schema, which is not limited.
    cost: Option<SchemaCost>,
}

impl CompiledSchema {
    /// Compiles an operator's schema. References to other documents are not followed.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        Self::compile_ordered(OrderedJson::from(schema))
    }

    /// Compiles an operator's schema, of which models are told the properties in their order.
    pub fn compile_ordered(ordered: OrderedJson) -> Result<Self, String> {
        let schema = ordered.to_value();
        let options = jsonschema::options();
        let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKING_STEPS);
        let validator = options
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            document: Arc::new(schema),
            ordered: Arc::new(ordered),
            validator: Arc::new(validator),
            cost: None,
        })
    }

    /// Compiles a guest's schema. Fails if validating could take unreasonably long. Its patterns
    /// are matched in one pass, without backtracking.
    pub fn compile_bounded(schema: &Value) -> Result<Self, String> {
        Self::compile_bounded_ordered(OrderedJson::from(schema))
    }

    /// Compiles a guest's schema, of which models are told the properties in their order. Fails if
    /// validating could take unreasonably long.
    pub fn compile_bounded_ordered(ordered: OrderedJson) -> Result<Self, String> {
        let schema = ordered.to_value();
        let mut measure = SchemaCost::measure(&schema)?;
        loop {
            let kib = measure.pattern_kib;
            let patterns = PatternOptions::regex()
                .size_limit(kib << 10)
                .dfa_size_limit(DFA_CACHE_BYTES);
            // Texts that are regular expressions are not validated, because their compiled size is
            // not bounded.
            let options = jsonschema::options()
                .with_pattern_options(patterns)
                .with_format(REGEX_FORMAT, |_: &str| true);
            let error = match options.build(&schema) {
                Ok(validator) => {
                    return Ok(Self {
                        document: Arc::new(schema),
                        ordered: Arc::new(ordered),
                        validator: Arc::new(validator),
                        cost: Some(measure),
                    });
                }
                Err(error) if is_pattern_error(&error) => error,
                Err(error) => return Err(error.to_string()),
            };
            let Some(larger) = measure.next_pattern_kib(kib) else {
                let pattern = excerpt(&error.instance().to_string(), PATTERN_EXCERPT_CHARS);
                return Err(format!(
                    "{pattern} is no pattern, or looks around or back, or is larger than {kib} KiB when compiled"
                ));
            };
            measure.pattern_kib = larger;
        }
    }

    /// Returns the schema from which this was compiled.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the schema in the order of its author.
    pub fn ordered(&self) -> &OrderedJson {
        &self.ordered
    }

    /// Returns whether it is certain that no value matches the schema.
    pub fn is_impossible(&self) -> bool {
        impossible::is_impossible(&self.document, |value| self.check(value).is_ok())
    }

    /// Fails if validating a document with a guest's schema could take unreasonably long.
    pub fn check_cost(&self, document: &Value) -> Result<(), String> {
        self.cost
            .map_or(Ok(()), |measure| measure.check_document(document))
    }

    /// Validates a document. The error tells what does not match, where, and by which place of the
    /// schema, or why the document is not validated.
    pub fn check(&self, document: &Value) -> Result<(), String> {
        self.check_cost(document)?;
        let Err(first) = self.validator.validate(document) else {
            return Ok(());
        };
        if !self.may_list_violations(document) {
            return Err(describe_violation(&first));
        }
        let mut violations = self.validator.iter_errors(document);
        let descriptions: Vec<String> = violations
            .by_ref()
            .take(MAX_VIOLATIONS)
            .map(|violation| describe_violation(&violation))
            .collect();
        let text = descriptions.join("; ");
        Err(match violations.count() {
            0 => text,
            more => format!("{text}; and {more} more"),
        })
    }

    /// Returns the JSON pointer of the first part of a document that violates the schema; empty if it is
    /// the whole document, or if nothing does.
    pub fn first_violation(&self, document: &Value) -> String {
        if self.check_cost(document).is_err() {
            return String::new();
        }
        let violation = self.validator.validate(document).err();
        violation.map_or_else(String::new, |one| one.instance_path().to_string())
    }

    /// Returns whether the list of all violations has a reasonable size. It is made as a whole, and
    /// each value of the document can violate each part of the schema.
    fn may_list_violations(&self, document: &Value) -> bool {
        let parts = count_values(&self.document).max(1);
        count_values(document) <= MAX_LISTED_PAIRS / parts
    }
}

/// Returns how many values a document consists of.
fn count_values(document: &Value) -> usize {
    match document {
        Value::Array(items) => items.iter().map(count_values).sum::<usize>() + 1,
        Value::Object(fields) => fields.values().map(count_values).sum::<usize>() + 1,
        _ => 1,
    }
}

/// Describes a violation of a schema with JSON pointers into the document and into the schema. A value
/// that is too long to be shown is not quoted.
fn describe_violation(violation: &jsonschema::ValidationError<'_>) -> String {
    let mut text = violation.to_string();
    if text.chars().count() > MAX_VIOLATION_CHARS {
        text = excerpt(
            &violation.masked_with("the value").to_string(),
            MAX_VIOLATION_CHARS,
        );
    }
    let at = violation.instance_path().to_string();
    if !at.is_empty() {
        text += &format!(" (at `{at}`)");
    }
    match violation.schema_path().as_str() {
        "" => text,
        by => text + &format!(", by `{by}` of the schema"),
    }
}

fn is_pattern_error(error: &jsonschema::ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Format { format } if format == REGEX_FORMAT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fails unless a guest's schema is refused with an error that contains `expected`, or accepted if
    /// that is empty.
    #[track_caller]
    fn check_bounded(schema: Value, expected: &str) {
        let got = CompiledSchema::compile_bounded(&schema)
            .map(|_| ())
            .err()
            .unwrap_or_default();
        assert!(
            got.contains(expected) && got.is_empty() == expected.is_empty(),
            "{schema}: {got}"
        );
    }

    /// A schema in which each definition refers to the next one twice.
    fn doubling(levels: usize) -> Value {
        let twice = |level: usize| {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            (format!("d{level}"), json!({ "allOf": [next, next] }))
        };
        let mut definitions: serde_json::Map<String, Value> = (0..levels).map(twice).collect();
        definitions.insert(format!("d{levels}"), json!({ "type": "integer" }));
        json!({ "$defs": definitions, "$ref": "#/$defs/d0" })
    }

    #[test]
    fn a_guests_schema_that_would_keep_the_host_busy_is_refused() {
        check_bounded(doubling(5), "");
        check_bounded(doubling(60), "more than 4000 parts");
        check_bounded(json!({ "allOf": [{ "$ref": "#" }] }), "refers to itself");
        check_bounded(json!({ "$dynamicRef": "#" }), "refers to itself");
        check_bounded(
            json!({ "$ref": "https://example.com/schema" }),
            "no place in it",
        );
        check_bounded(
            json!({ "$ref": "#name", "$anchor": "name" }),
            "no place in it",
        );
        let person = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        check_bounded(
            json!({ "$defs": { "P": person }, "items": { "$ref": "#/$defs/P" } }),
            "",
        );
        check_bounded(json!({ "enum": vec![0; 5_000] }), "more than 4000 parts");
        assert!(
            CompiledSchema::compile(&doubling(12)).is_ok(),
            "an operator may"
        );
    }

    #[test]
    fn a_guests_patterns_are_counted_before_they_are_compiled_and_small_when_they_are() {
        let one = |pattern: &String| json!({ "pattern": pattern });
        let any_of = |patterns: Vec<String>| json!({ "anyOf": patterns.iter().map(one).collect::<Vec<_>>() });
        let keyed = |count: usize| {
            (0..count)
                .map(|n| (format!("^{n}$"), json!({})))
                .collect::<serde_json::Map<_, _>>()
        };
        for pattern in [
            "^[a-z0-9-]{1,63}$",
            r"^\d{4}-\d{2}-\d{2}$",
            r"^\p{Lu}\p{L}*$",
            "^.{1,200}$",
            r"^[^@\s]+@[^@\s]+$",
        ] {
            check_bounded(json!({ "pattern": pattern }), "");
        }
        check_bounded(any_of(vec!["^[a-z]+$".into(); 1_000]), "");
        check_bounded(
            any_of((0..65).map(|n| format!(r"\p{{L}}{{150}}{n}")).collect()),
            "more than 64 patterns",
        );
        check_bounded(
            json!({ "patternProperties": keyed(65) }),
            "more than 64 patterns",
        );
        check_bounded(
            any_of((0..20).map(|n| format!("{}{n}", "x".repeat(500))).collect()),
            "more than 4096 bytes",
        );
        check_bounded(
            any_of(vec![r"\d\D\w\W\s\S".repeat(680)]),
            "a pattern of more than 512 bytes",
        );
        check_bounded(
            any_of((0..60).map(|n| format!(r"\p{{L}}{{150}}{n}")).collect()),
            "larger than 32 KiB when compiled",
        );
        check_bounded(
            json!({ "pattern": r"\p{L}{150}" }),
            "larger than 512 KiB when compiled",
        );
        check_bounded(
            json!({ "pattern": "^(?=(a|a)*$)b" }),
            "looks around or back",
        );
        check_bounded(json!({ "pattern": "(" }), "is no pattern");
        let again = |below: Value| json!({ "anyOf": [below], "unevaluatedProperties": false });
        check_bounded(again(json!({})), "");
        check_bounded(
            (0..5).fold(json!({}), |below, _| again(below)),
            "more than 4 of `unevaluatedItems`",
        );
    }

    #[test]
    fn a_guests_schema_means_to_its_bounds_what_it_means_to_who_checks_by_it() {
        let check = |schema: Value, expected: &str| {
            let got = CompiledSchema::compile_bounded(&schema)
                .map(|_| ())
                .err()
                .unwrap_or_default();
            assert!(got.contains(expected), "{schema}: {got}");
        };
        let small = json!({ "$defs": { "d0": {}, "%64": {} } });
        let elsewhere = json!({ "$id": "https://example.com/x", "$ref": "#/$defs/d0", "$defs": doubling(60)["$defs"] });
        check(
            json!({ "$defs": small["$defs"], "items": elsewhere }),
            "`$id` below its top",
        );
        check(
            json!({ "items": { "$schema": "http://json-schema.org/draft-04/schema#" } }),
            "`$schema` below its top",
        );
        check(
            json!({ "$defs": small["$defs"], "$ref": "#/$defs/%64" }),
            "no place in it",
        );
        assert!(
            CompiledSchema::compile_bounded(
                &json!({ "$id": "https://example.com/x", "type": "string" })
            )
            .is_ok()
        );
    }

    #[test]
    fn a_document_that_could_not_be_held_against_a_guests_schema_in_time_is_refused() {
        let check = |schema: &Value, document: &Value, expected: &str| {
            let got = CompiledSchema::compile_bounded(schema)
                .and_then(|schema| schema.check(document))
                .err()
                .unwrap_or_default();
            assert!(
                got.contains(expected) && got.is_empty() == expected.is_empty(),
                "{got}"
            );
        };
        let start = std::time::Instant::now();
        let kinds: Vec<Value> = (0..1_000)
            .map(|n| json!({ "const": n }))
            .chain([json!({ "type": "string" })])
            .collect();
        let list = |length: usize| json!(vec!["aaaa"; length]);
        check(&json!({ "items": { "anyOf": kinds } }), &list(100), "");
        check(
            &json!({ "items": { "anyOf": kinds } }),
            &list(10_000),
            "more than 4000000 steps",
        );
        let slow = json!({ "pattern": "(a|b)*a(a|b){400}$" });
        check(&slow, &json!("b".repeat(200)), "does not match");
        check(
            &slow,
            &json!("b".repeat(200_000)),
            "more than 4000000 steps",
        );
        check(
            &json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "regex" }),
            &json!("("),
            "",
        );
        check(
            &json!({ "type": "string" }),
            &json!("b".repeat(1 << 20)),
            "",
        );
        assert!(
            start.elapsed() < std::time::Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn an_error_lists_violations_with_their_places_in_the_document_and_in_the_schema() {
        let schema = json!({
            "properties": { "n": { "$ref": "#/$defs/N" }, "list": { "items": { "type": "string" } } },
            "required": ["n", "title"],
            "$defs": { "N": { "type": "integer" } },
        });
        let schema = CompiledSchema::compile(&schema).expect("a schema");
        let error = |document: Value| schema.check(&document).expect_err("it does not match");
        assert_eq!(
            error(json!({ "n": "x" })),
            "\"title\" is a required property, by `/required` of the schema; \
             \"x\" is not of type \"integer\" (at `/n`), by `/$defs/N/type` of the schema"
        );
        let many = error(json!({ "n": 1, "title": "", "list": vec![0; 20] }));
        assert!(
            many.contains("(at `/list/7`)") && !many.contains("/list/8"),
            "{many}"
        );
        assert!(many.ends_with("; and 12 more"), "{many}");
        let large = error(json!({ "n": "x".repeat(1000), "title": "" }));
        assert_eq!(
            large,
            "the value is not of type \"integer\" (at `/n`), by `/$defs/N/type` of the schema"
        );
        let huge = error(json!({ "n": 1, "title": "", "list": vec![0; MAX_LISTED_PAIRS] }));
        assert_eq!(
            huge,
            "0 is not of type \"string\" (at `/list/0`), by `/properties/list/items/type` of the schema"
        );
    }

    #[test]
    fn a_pattern_that_never_ends_is_ended() {
        let schema = CompiledSchema::compile(&json!({ "pattern": "^(?=(a|a)*$)(a|a)*(?!c)b$" }))
            .expect("a schema");
        assert!(schema.check(&json!("a".repeat(2_000))).is_err());
        assert!(schema.check(&json!("aab")).is_err() || schema.check(&json!("b")).is_ok());
    }
}

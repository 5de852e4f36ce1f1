//! Limits on the schemas of guests. A schema is measured before it is compiled, and a document
//! before it is validated. `plugin::schema` compiles schemas.

use std::collections::BTreeSet;

use serde_json::Value;

/// The maximum number of parts of a guest's schema with all references expanded. A few nested
/// references can stand for more parts than could ever be visited.
const MAX_PARTS: usize = 4_000;
/// The maximum number of different patterns.
const MAX_PATTERNS: usize = 64;
/// The maximum length of a pattern in bytes. The time to compile it grows with its square.
const MAX_PATTERN_BYTES: usize = 512;
/// The maximum length of all patterns together in bytes: they are parsed before their compiled size
/// is known.
const MAX_TOTAL_PATTERN_BYTES: usize = 4 << 10;
/// The maximum number of keywords that evaluate a subschema again. If nested, each multiplies the
/// work below it by `REEVALUATION_FACTOR`.
const MAX_REEVALUATING: usize = 4;
/// How often such a keyword evaluates what is below it.
const REEVALUATION_FACTOR: usize = 3;
/// The maximum number of steps to validate one document: a part of the schema visits a value, or a
/// KiB of compiled patterns reads a byte of text. Either takes at most about 0.1 µs, so validating
/// takes less than a second.
const MAX_STEPS: usize = 4_000_000;
/// The keywords that refer to another schema.
const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The keywords that change the base of references or the meaning of what is below them. At the top
/// level they have no such effect.
const BASE_KEYWORDS: [&str; 2] = ["$id", "$schema"];
/// The keywords that evaluate a subschema again.
const REEVALUATING_KEYWORDS: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

/// The sizes that are tried for compiled patterns, in KiB. The smallest one that fits each pattern
/// is used for all.
const PATTERN_SIZES_KIB: [usize; 4] = [8, 32, 128, 512];
/// The maximum size of all compiled patterns, in KiB: a few may be large, many must be small.
const MAX_PATTERNS_KIB: usize = 4 << 10;

/// The size of a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaCost {
    /// The number of its parts with all references expanded, multiplied by how often they are
    /// evaluated.
    parts: usize,
    /// The number of its patterns, multiplied by how often they are evaluated.
    patterns: usize,
    /// The number of different patterns.
    distinct_patterns: usize,
    /// The size limit of each compiled pattern, in KiB.
    pub(super) pattern_kib: usize,
}

impl SchemaCost {
    /// Measures a schema. Fails if it refers to itself, or is too large to be evaluated in
    /// reasonable time.
    pub(super) fn measure(schema: &Value) -> Result<Self, String> {
        let mut open = vec![schema];
        let mut found = ExpensiveKeywords::default();
        let mut parts = 0;
        while let Some(part) = open.pop() {
            parts += 1;
            if parts > MAX_PARTS {
                return Err(format!(
                    "it refers to itself, or has more than {MAX_PARTS} parts with what it refers to"
                ));
            }
            match part {
                Value::Array(list) => open.extend(list),
                Value::Object(map) => {
                    open.extend(map.values());
                    found.add(map)?;
                    if let Some(key) = BASE_KEYWORDS
                        .iter()
                        .find(|key| parts > 1 && map.get(**key).is_some_and(Value::is_string))
                    {
                        return Err(format!("it has a `{key}` below its top"));
                    }
                    for to in REFERENCE_KEYWORDS
                        .iter()
                        .filter_map(|key| map.get(*key)?.as_str())
                    {
                        open.push(resolve_reference(schema, to)?);
                    }
                }
                _ => {}
            }
        }
        let again = u32::try_from(found.reevaluating).map_or(usize::MAX, |levels| {
            REEVALUATION_FACTOR.saturating_pow(levels)
        });
        Ok(Self {
            parts: parts.saturating_mul(again),
            patterns: found.patterns.saturating_mul(again),
            distinct_patterns: found.distinct.len(),
            pattern_kib: PATTERN_SIZES_KIB[0],
        })
    }

    /// Returns the next size to try for compiled patterns if `kib` was too small.
    pub(super) fn next_pattern_kib(self, kib: usize) -> Option<usize> {
        PATTERN_SIZES_KIB.into_iter().find(|next| {
            *next > kib && next.saturating_mul(self.distinct_patterns) <= MAX_PATTERNS_KIB
        })
    }

    /// Fails if validating a document could take unreasonably long.
    pub(super) fn check_document(self, document: &Value) -> Result<(), String> {
        let mut open = vec![document];
        let (mut values, mut bytes) = (0_usize, 0_usize);
        while let Some(value) = open.pop() {
            values += 1;
            match value {
                Value::String(text) => bytes += text.len(),
                Value::Array(list) => open.extend(list),
                Value::Object(map) => {
                    // Property names are values too: schemas can validate them.
                    values += map.len();
                    bytes += map.keys().map(String::len).sum::<usize>();
                    open.extend(map.values());
                }
                _ => {}
            }
        }
        let matching = self
            .patterns
            .saturating_mul(self.pattern_kib)
            .saturating_mul(bytes);
        if self.parts.saturating_mul(values).saturating_add(matching) <= MAX_STEPS {
            return Ok(());
        }
        Err(format!(
            "holding {values} values with {bytes} bytes of text against a schema of {} parts with {} patterns is more \
             than {MAX_STEPS} steps; make either smaller",
            self.parts, self.patterns
        ))
    }
}

/// The expensive keywords found in a schema.
#[derive(Default)]
struct ExpensiveKeywords<'a> {
    /// The different patterns.
    distinct: BTreeSet<&'a str>,
    bytes: usize,
    patterns: usize,
    reevaluating: usize,
}

impl<'a> ExpensiveKeywords<'a> {
    fn add(&mut self, map: &'a serde_json::Map<String, Value>) -> Result<(), String> {
        let one = map.get("pattern").and_then(Value::as_str);
        let many = map.get("patternProperties").and_then(Value::as_object);
        for pattern in one.into_iter().chain(
            many.into_iter()
                .flat_map(|many| many.keys().map(String::as_str)),
        ) {
            self.patterns += 1;
            if pattern.len() > MAX_PATTERN_BYTES {
                return Err(format!(
                    "it has a pattern of more than {MAX_PATTERN_BYTES} bytes"
                ));
            }
            if self.distinct.insert(pattern) {
                self.bytes += pattern.len();
            }
        }
        self.reevaluating += REEVALUATING_KEYWORDS
            .iter()
            .filter(|key| map.contains_key(**key))
            .count();
        if self.distinct.len() > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} patterns"));
        }
        if self.bytes > MAX_TOTAL_PATTERN_BYTES {
            return Err(format!(
                "its patterns have more than {MAX_TOTAL_PATTERN_BYTES} bytes"
            ));
        }
        if self.reevaluating > MAX_REEVALUATING {
            return Err(format!(
                "it has more than {MAX_REEVALUATING} of `unevaluatedItems` and `unevaluatedProperties`"
            ));
        }
        Ok(())
    }
}

fn resolve_reference<'a>(schema: &'a Value, to: &str) -> Result<&'a Value, String> {
    // An escaped character would make the validator resolve another location than is visited here.
    let pointer = to
        .strip_prefix('#')
        .filter(|pointer| !pointer.contains('%'));
    let found = pointer.and_then(|pointer| schema.pointer(pointer));
    found.ok_or_else(|| {
        format!("it refers to `{to}`, which is no place in it; write `#/$defs/NAME`")
    })
}

//! What a schema of a stranger's may ask for: it is measured before anything is made of it, and what it is held against
//! before it is held against it. How schemas are compiled is in `plugin::schema`.

use std::collections::BTreeSet;

use serde_json::Value;

/// Parts of a guest's schema with everything that it refers to in its place. A few references to references can stand
/// for more parts than could ever be looked at.
const PARTS: usize = 4_000;
/// Different patterns.
const PATTERNS: usize = 64;
/// Bytes of a pattern. To bring it into the engine's own form takes time with their square.
const LONGEST: usize = 512;
/// Bytes of all patterns together: they are parsed before it is known what they come to.
const PATTERN_BYTES: usize = 4 << 10;
/// Parts that look again at what others have looked at. One within the other, each makes all below it `AGAIN` times as
/// much to do.
const UNEVALUATED: usize = 4;
/// How often such a part has what is below it looked at.
const AGAIN: usize = 3;
/// What may be done to hold one document against a schema: a part looking at a value, or a KiB of compiled patterns at
/// a byte of text. Either takes some 0.1 µs where it is slow, so that all of it takes less than a second.
const WORK: usize = 4_000_000;
/// The ways in which a schema refers to one.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// What gives other places to references below it, or another meaning to what is there. Once, at the top, it does not.
const REBASED: [&str; 2] = ["$id", "$schema"];
/// The keys of those parts that look again.
const LOOKING_AGAIN: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

/// The sizes that compiled patterns may have, in KiB: the first that each of them fits in counts.
const PATTERN_KIB: [usize; 4] = [8, 32, 128, 512];
/// What all patterns may come to, in KiB: few may be large, many have to be small.
const PATTERNS_KIB: usize = 4 << 10;

/// How much there is to a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Its parts, with those that it refers to, as often as they are looked at.
    parts: usize,
    /// Its patterns, as often as they are looked for.
    patterns: usize,
    /// How many of them differ.
    different: usize,
    /// The most that any of them takes when compiled.
    pub(super) kib: usize,
}

impl Measure {
    /// Measures a schema. Refuses one that refers to itself, or holds more than could be looked at in reasonable time.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut open = vec![schema];
        let mut found = Found::default();
        let mut parts = 0;
        while let Some(part) = open.pop() {
            parts += 1;
            if parts > PARTS {
                return Err(format!(
                    "it refers to itself, or has more than {PARTS} parts with what it refers to"
                ));
            }
            match part {
                Value::Array(list) => open.extend(list),
                Value::Object(map) => {
                    open.extend(map.values());
                    found.look(map)?;
                    if let Some(key) = REBASED
                        .iter()
                        .find(|key| parts > 1 && map.get(**key).is_some_and(Value::is_string))
                    {
                        return Err(format!("it has a `{key}` below its top"));
                    }
                    for to in REFERENCES.iter().filter_map(|key| map.get(*key)?.as_str()) {
                        open.push(referred(schema, to)?);
                    }
                }
                _ => {}
            }
        }
        let again = u32::try_from(found.looking_again)
            .map_or(usize::MAX, |levels| AGAIN.saturating_pow(levels));
        Ok(Self {
            parts: parts.saturating_mul(again),
            patterns: found.patterns.saturating_mul(again),
            different: found.different.len(),
            kib: PATTERN_KIB[0],
        })
    }

    /// The size to try for its patterns when this one was too small for them.
    pub(super) fn larger(self, kib: usize) -> Option<usize> {
        PATTERN_KIB
            .into_iter()
            .find(|next| *next > kib && next.saturating_mul(self.different) <= PATTERNS_KIB)
    }

    /// Refuses a document that could not be held against the schema in reasonable time.
    pub(super) fn affords(self, document: &Value) -> Result<(), String> {
        let mut open = vec![document];
        let (mut values, mut bytes) = (0_usize, 0_usize);
        while let Some(value) = open.pop() {
            values += 1;
            match value {
                Value::String(text) => bytes += text.len(),
                Value::Array(list) => open.extend(list),
                Value::Object(map) => {
                    // Names are values too: schemas can be held against them.
                    values += map.len();
                    bytes += map.keys().map(String::len).sum::<usize>();
                    open.extend(map.values());
                }
                _ => {}
            }
        }
        let matching = self.patterns.saturating_mul(self.kib).saturating_mul(bytes);
        if self.parts.saturating_mul(values).saturating_add(matching) <= WORK {
            return Ok(());
        }
        Err(format!(
            "holding {values} values with {bytes} bytes of text against a schema of {} parts with {} patterns is more \
             than {WORK} steps; make either smaller",
            self.parts, self.patterns
        ))
    }
}

/// What was found in a schema that costs more than its being there.
#[derive(Default)]
struct Found<'a> {
    /// Patterns, each once.
    different: BTreeSet<&'a str>,
    bytes: usize,
    patterns: usize,
    looking_again: usize,
}

impl<'a> Found<'a> {
    fn look(&mut self, map: &'a serde_json::Map<String, Value>) -> Result<(), String> {
        let one = map.get("pattern").and_then(Value::as_str);
        let many = map.get("patternProperties").and_then(Value::as_object);
        for pattern in one.into_iter().chain(
            many.into_iter()
                .flat_map(|many| many.keys().map(String::as_str)),
        ) {
            self.patterns += 1;
            if pattern.len() > LONGEST {
                return Err(format!("it has a pattern of more than {LONGEST} bytes"));
            }
            if self.different.insert(pattern) {
                self.bytes += pattern.len();
            }
        }
        self.looking_again += LOOKING_AGAIN
            .iter()
            .filter(|key| map.contains_key(**key))
            .count();
        if self.different.len() > PATTERNS {
            return Err(format!("it has more than {PATTERNS} patterns"));
        }
        if self.bytes > PATTERN_BYTES {
            return Err(format!("its patterns have more than {PATTERN_BYTES} bytes"));
        }
        if self.looking_again > UNEVALUATED {
            return Err(format!(
                "it has more than {UNEVALUATED} of `unevaluatedItems` and `unevaluatedProperties`"
            ));
        }
        Ok(())
    }
}

fn referred<'a>(schema: &'a Value, to: &str) -> Result<&'a Value, String> {
    // An escaped character would make of it another place than is looked at here.
    let pointer = to
        .strip_prefix('#')
        .filter(|pointer| !pointer.contains('%'));
    let found = pointer.and_then(|pointer| schema.pointer(pointer));
    found.ok_or_else(|| {
        format!("it refers to `{to}`, which is no place in it; write `#/$defs/NAME`")
    })
}

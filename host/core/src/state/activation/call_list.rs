//! The encoding of the tool calls of a turn: each with the calls that were made within it, at all
//! levels, as one list with their paths. So decoding does not recurse, however deep the calls of
//! bytes that somebody else wrote are said to be nested.

use alloc::vec::Vec;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NestedCall, TurnCall};
use crate::record::nested_path::NestedPath;

/// A tool call, without those within it, and these.
#[derive(Serialize)]
struct CallWithNested<'a> {
    call: &'a TurnCall,
    nested: Vec<(NestedPath, &'a NestedCall)>,
}

/// A tool call and those within it, as they are decoded.
#[derive(Deserialize)]
struct DecodedCall {
    call: TurnCall,
    nested: Vec<(NestedPath, NestedCall)>,
}

pub(super) fn serialize<S: Serializer>(
    calls: &[TurnCall],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(calls.iter().map(|call| {
        let mut nested = Vec::new();
        add_nested(call, NestedPath::EMPTY, &mut nested);
        CallWithNested { call, nested }
    }))
}

/// Adds the calls within a call, each before those within it.
fn add_nested<'a>(
    outer: &'a TurnCall,
    path: NestedPath,
    all: &mut Vec<(NestedPath, &'a NestedCall)>,
) {
    for (nested, number) in outer.progress.nested.iter().zip(0..) {
        if let Some(path) = path.with(number) {
            all.push((path, nested));
            add_nested(&nested.call, path, all);
        }
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<TurnCall>, D::Error> {
    let decoded = Vec::<DecodedCall>::deserialize(deserializer)?;
    let calls = decoded.into_iter().map(|DecodedCall { mut call, nested }| {
        for (path, nested) in nested {
            let place = insert(&mut call, path, nested);
            place.ok_or_else(|| D::Error::custom("a call within one that is not there"))?;
        }
        Ok(call)
    });
    calls.collect()
}

/// Adds a call at its path. Returns `None` if it does not follow the calls that are there.
fn insert(outermost: &mut TurnCall, path: NestedPath, nested: NestedCall) -> Option<()> {
    let number = usize::from(*path.numbers().last()?);
    let calls = &mut outermost.nested_mut(path.outer()?)?.progress.nested;
    (number == calls.len()).then(|| calls.push(nested))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::json::Json;
    use crate::record::nested_path::MAX_NESTED_LEVELS;
    use crate::record::turn::{CallDecision, CallForm};

    fn call(tool: &str) -> TurnCall {
        TurnCall::from_decision(tool, CallForm::Direct, &CallDecision::Reject("no".into()))
    }

    fn nested(tool: &str, within: Vec<NestedCall>) -> NestedCall {
        let mut call = call(tool);
        call.progress.nested = within;
        NestedCall {
            request: "digest".into(),
            arguments: Json::null(),
            made_by: 1,
            call,
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Calls(#[serde(with = "super")] Vec<TurnCall>);

    #[test]
    fn calls_are_read_as_they_were_written_at_all_levels() {
        let deepest = (0..MAX_NESTED_LEVELS).fold(Vec::new(), |within, level| {
            alloc::vec![
                nested("first", within),
                nested(&alloc::format!("level {level}"), Vec::new())
            ]
        });
        let mut outer = call("outer");
        outer.progress.nested = deepest;
        let calls = Calls(alloc::vec![call("before"), outer, call("after")]);
        let bytes = postcard::to_allocvec(&calls).expect("bytes");
        assert_eq!(postcard::from_bytes(&bytes), Ok(calls));
    }

    #[test]
    fn a_call_within_one_that_is_not_there_is_refused() {
        let path = |numbers: &[u16]| {
            let with = |path: NestedPath, number: &u16| path.with(*number).expect("a short path");
            numbers.iter().fold(NestedPath::EMPTY, with)
        };
        let is_read = |paths: &[&[u16]]| {
            let within = nested("within", Vec::new());
            let nested = paths.iter().map(|numbers| (path(numbers), &within));
            let call = CallWithNested {
                call: &call("outer"),
                nested: nested.collect(),
            };
            let bytes = postcard::to_allocvec(&[call][..]).expect("bytes");
            postcard::from_bytes::<Calls>(&bytes).is_ok()
        };
        assert!(is_read(&[]) && is_read(&[&[0], &[0, 0], &[1], &[0, 1]]));
        for wrong in [&[][..], &[1], &[0, 0], &[7, 0]] {
            assert!(!is_read(&[wrong]), "{wrong:?}");
        }
        assert!(!is_read(&[&[0], &[0]]));
    }
}

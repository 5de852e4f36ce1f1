//! Parses the JSON of replies. The arguments of tool calls are kept as models write them: scripts take
//! integers of any size.

use serde_json::Value;
use strata_core::record::json::{JsonError, parse_with_exact_fields};

/// The fields that contain the arguments of a tool call, in any protocol.
const ARGUMENT_FIELDS: [&str; 3] = ["args", "arguments", "input"];

/// Parses a reply, or a chunk of one. Arguments with integers that a value would round are texts.
pub(super) fn parse_reply(text: &str) -> Result<Value, JsonError> {
    parse_with_exact_fields(text, &ARGUMENT_FIELDS)
}

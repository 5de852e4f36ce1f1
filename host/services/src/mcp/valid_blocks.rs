//! Which blocks of a result the protocol allows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Returns the valid blocks of a result, and what is invalid in it, if anything is.
pub(super) fn valid_blocks(
    content: Option<Value>,
    may_be_missing: bool,
) -> (Vec<Value>, Option<String>) {
    let blocks = match content {
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return (Vec::new(), Some("`content` is not a list".into())),
        None if may_be_missing => return (Vec::new(), None),
        None => return (Vec::new(), Some("`content` is missing".into())),
    };
    let (mut valid, mut invalid) = (Vec::new(), None);
    for (position, block) in blocks.into_iter().enumerate() {
        match check_block(&block) {
            Ok(()) => valid.push(block),
            Err(why) if invalid.is_none() => invalid = Some(format!("`content[{position}]{why}")),
            Err(_) => {}
        }
    }
    (valid, invalid)
}

/// Checks the fields of a block that the protocol requires. Blocks of unknown types are valid. The error is the rest of
/// a sentence that begins with a quoted path to the block.
fn check_block(block: &Value) -> Result<(), String> {
    if !block.is_object() {
        return Err("` is not an object".into());
    }
    match required_text(block, "", "type")? {
        "text" => required_text(block, "", "text").map(|_| ()),
        "image" | "audio" => {
            required_text(block, "", "mimeType")?;
            check_base64(block, "", "data")
        }
        "resource_link" => {
            required_text(block, "", "name")?;
            required_text(block, "", "uri").map(|_| ())
        }
        "resource" => {
            let Some(resource) = block.get("resource").filter(|found| found.is_object()) else {
                return Err(".resource` is not an object".into());
            };
            required_text(resource, ".resource", "uri")?;
            match resource.get("blob") {
                Some(_) => check_base64(resource, ".resource", "blob"),
                None => required_text(resource, ".resource", "text").map(|_| ()),
            }
        }
        _ => Ok(()),
    }
}

fn required_text<'a>(within: &'a Value, path: &str, key: &str) -> Result<&'a str, String> {
    match within.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{path}.{key}` is not a string")),
        None => Err(format!("{path}.{key}` is missing")),
    }
}

fn check_base64(within: &Value, path: &str, key: &str) -> Result<(), String> {
    match STANDARD.decode(required_text(within, path, key)?) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{path}.{key}` is not base64")),
    }
}

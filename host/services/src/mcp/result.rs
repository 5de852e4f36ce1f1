//! What a call returned: its record, and the blocks in it as texts and parts.
//!
//! The record is the result as the server sent it, so that nothing of it is lost, or the error of JSON-RPC
//! that it answered with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::text::media_type::raster_image_type;
use strata_base::text::units::format_bytes;
use strata_core::record::conversation::{Media, MediaSource, Part};

use strata_core::record::json::Json;

use super::legible::removed_for_models;
use super::message::RpcError;
use super::valid_blocks::valid_blocks;
use crate::models::NOT_AN_IMAGE;
use crate::plugin::CompiledSchema;

/// The longest name of a type that is shown, in characters.
const MAX_TYPE_CHARS: usize = 100;

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    /// The tool returned something.
    Returned(ToolResult),
    /// The server answered with an error of JSON-RPC.
    Refused {
        /// `CODE: message`.
        error: String,
    },
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The blocks as the server sent them.
    content: Vec<Value>,
    /// The structured data.
    data: Option<Value>,
    /// Whether it says that the call failed.
    pub is_error: bool,
}

/// A block of a result.
enum Block<'a> {
    Text(String),
    /// Bytes with their media type, which may be an image.
    Media {
        media_type: &'a str,
        data: &'a str,
    },
}

impl ToolAnswer {
    /// Reads an answer from its record. The error describes what is wrong.
    pub fn from_record(record: &Json) -> Result<Self, String> {
        let Value::Object(mut fields) = record.value() else {
            return Err("it is not an object".into());
        };
        if let Some(error) = fields.remove("error") {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
            let message = error.get("message").and_then(Value::as_str);
            let error = format!("{code}: {}", message.unwrap_or_default());
            return Ok(Self::Refused { error });
        }
        let content = match fields.remove("content") {
            Some(Value::Array(content)) => content,
            _ => Vec::new(),
        };
        Ok(Self::Returned(ToolResult {
            content,
            data: fields.remove("structuredContent"),
            is_error: fields.get("isError").and_then(Value::as_bool) == Some(true),
        }))
    }

    /// Returns how many bytes it brings to a guest.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Refused { error } => error.len(),
            Self::Returned(result) => {
                let content: usize = result
                    .content
                    .iter()
                    .map(|block| block.to_string().len())
                    .sum();
                let data = result
                    .data
                    .as_ref()
                    .map_or(0, |data| data.to_string().len());
                content + 2 * data
            }
        }
    }
}

impl ToolResult {
    /// Returns the structured data.
    pub fn data(&self) -> Option<&Value> {
        self.data.as_ref()
    }

    /// Returns the blocks as the server sent them.
    pub fn content(&self) -> Value {
        Value::Array(self.content.clone())
    }

    /// Returns all of it as one text. Images and other bytes are named by their type and size.
    pub fn text(&self) -> String {
        let texts = self.blocks().map(|block| match block {
            Block::Text(text) => text,
            Block::Media { media_type, data } => placeholder(media_type, decoded_len(data)),
        });
        let mut texts: Vec<String> = texts.collect();
        texts.extend(self.data_text());
        texts.join("\n")
    }

    /// Returns it as parts for a model: the text before the first image, then everything else in order. The
    /// bytes of the images are added to `blobs`.
    pub fn parts(&self, blobs: &mut Blobs) -> (String, Vec<Part>) {
        let mut parts: Vec<Part> = Vec::new();
        let add_text = |parts: &mut Vec<Part>, text: String| match parts.last_mut() {
            Some(Part::Text(before)) => *before = format!("{before}\n{text}"),
            _ => parts.push(Part::Text(text)),
        };
        for block in self.blocks() {
            match block {
                Block::Text(text) => add_text(&mut parts, text),
                Block::Media { media_type, data } => match image(media_type, data, blobs) {
                    Some(image) => parts.push(Part::Image(image)),
                    None => add_text(&mut parts, describe_unfit(media_type, data)),
                },
            }
        }
        if let Some(text) = self.data_text() {
            add_text(&mut parts, text);
        }
        match parts.first() {
            Some(Part::Text(text)) => {
                let text = text.clone();
                parts.remove(0);
                (text, parts)
            }
            _ => (String::new(), parts),
        }
    }

    /// Returns the data as a text, unless a block says the same.
    fn data_text(&self) -> Option<String> {
        let data = self.data.as_ref()?;
        let says_same = self.content.iter().any(|block| {
            let text = block.get("text").and_then(Value::as_str);
            text.is_some_and(|text| {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value == *data)
            })
        });
        (!says_same).then(|| Json::from(data.clone()).as_str().to_owned())
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.content.iter().map(read_block)
    }
}

fn read_block(block: &Value) -> Block<'_> {
    let text =
        |value: &'_ Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = block
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let unknown = || {
        let kind: String = kind.replace(removed_for_models, "");
        Block::Text(format!(
            "[{}]",
            kind.chars().take(MAX_TYPE_CHARS).collect::<String>()
        ))
    };
    match kind {
        "text" => Block::Text(text(block, "text").unwrap_or_default()),
        "image" | "audio" => read_media(block, "data").unwrap_or_else(unknown),
        "resource_link" => {
            let name = text(block, "name").unwrap_or_default();
            let uri = text(block, "uri").unwrap_or_default();
            Block::Text(format!("{name}: {uri}"))
        }
        "resource" => {
            let Some(resource) = block.get("resource") else {
                return unknown();
            };
            match text(resource, "text") {
                Some(embedded) => {
                    let uri = text(resource, "uri").unwrap_or_default();
                    Block::Text(format!("{uri}:\n{embedded}"))
                }
                None => read_media(resource, "blob").unwrap_or_else(unknown),
            }
        }
        _ => unknown(),
    }
}

fn read_media<'a>(block: &'a Value, key: &str) -> Option<Block<'a>> {
    let media_type = block.get("mimeType").and_then(Value::as_str);
    Some(Block::Media {
        media_type: media_type.unwrap_or("application/octet-stream"),
        data: block.get(key)?.as_str()?,
    })
}

/// Returns an image whose bytes are added to `blobs`, or `None` if this is none that every model with images accepts.
/// With any other, the next request to a model would fail. Its type is that of its content, whatever the server says.
fn image(media_type: &str, data: &str, blobs: &mut Blobs) -> Option<Media> {
    let bytes = STANDARD.decode(data).ok()?;
    let media_type = raster_image_type(&bytes).filter(|_| is_image(media_type))?;
    let digest = digest_of(&bytes);
    let size = bytes.len() as u64;
    blobs.insert(digest.clone(), bytes.into());
    Some(Media {
        media_type: media_type.to_owned(),
        name: None,
        source: MediaSource::Blob { digest, size },
    })
}

fn is_image(media_type: &str) -> bool {
    media_type.starts_with("image/")
}

/// Returns what a model is told in place of bytes that it is not shown.
fn describe_unfit(media_type: &str, data: &str) -> String {
    let text = placeholder(media_type, decoded_len(data));
    if is_image(media_type) {
        format!("{text} {NOT_AN_IMAGE}")
    } else {
        text
    }
}

/// Returns how many bytes a text in base64 stands for.
fn decoded_len(data: &str) -> u64 {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    (data.len() / 4 * 3).saturating_sub(padding) as u64
}

fn placeholder(media_type: &str, bytes: u64) -> String {
    let shown = media_type.replace(removed_for_models, "");
    let shown: String = shown.chars().take(MAX_TYPE_CHARS).collect();
    format!("[{shown}, {}]", format_bytes(bytes))
}

/// Returns the record of a result. One that is invalid, or does not follow the schema of its tool, becomes an error
/// that says where; its valid blocks are kept.
pub(super) fn result_record(
    mut result: Map<String, Value>,
    schema: Option<&CompiledSchema>,
) -> Json {
    let mut kept = Map::new();
    let data = result.remove("structuredContent");
    let (is_error, bad_flag) = match result.remove("isError") {
        None | Some(Value::Null) => (false, None),
        Some(Value::Bool(is_error)) => (is_error, None),
        Some(_) => (
            false,
            Some("`isError` is neither `true` nor `false`".into()),
        ),
    };
    let may_lack_content = data.is_some() || is_error;
    let (mut content, bad_content) = valid_blocks(result.remove("content"), may_lack_content);
    let invalid = bad_content.or(bad_flag);
    let misfit = match (schema, is_error || invalid.is_some()) {
        (Some(schema), false) => match &data {
            None => Some("there is no `structuredContent`".to_owned()),
            Some(data) => schema.check(data).err(),
        },
        _ => None,
    };
    let failure = match (invalid, misfit) {
        (Some(why), _) => Some(format!("the server's result is invalid: {why}")),
        (None, Some(why)) => Some(format!(
            "the result does not follow the `outputSchema` of the tool: {why}"
        )),
        (None, None) => (is_error && says_nothing(&content, data.as_ref()))
            .then(|| "the server reported an error without a text".to_owned()),
    };
    if let Some(text) = &failure {
        content.push(json!({ "type": "text", "text": text }));
    }
    kept.insert("content".into(), Value::Array(content));
    if let Some(data) = data {
        kept.insert("structuredContent".into(), data);
    }
    if is_error || failure.is_some() {
        kept.insert("isError".into(), Value::Bool(true));
    }
    Json::from(Value::Object(kept))
}

/// Returns whether a model would be told nothing.
fn says_nothing(content: &[Value], data: Option<&Value>) -> bool {
    let mut blocks = content.iter().map(read_block);
    let is_blank = |block: Block<'_>| matches!(block, Block::Text(text) if text.trim().is_empty());
    data.is_none_or(Value::is_null) && blocks.all(is_blank)
}

/// Returns the record of an error of JSON-RPC.
pub(super) fn error_record(error: &RpcError) -> Json {
    Json::from(json!({ "error": { "code": error.code, "message": error.message } }))
}

/// Returns the record of a call that the operator answers: a text is its text, an object with `content` a
/// result, and anything else its data.
pub fn operator_answer(value: &Value) -> Json {
    Json::from(match value {
        Value::String(text) => json!({ "content": [{ "type": "text", "text": text }] }),
        Value::Object(fields) if fields.get("content").is_some_and(Value::is_array) => {
            value.clone()
        }
        other => json!({ "content": [], "structuredContent": other }),
    })
}

/// Returns the record of a call that the operator skips.
pub fn skipped_answer() -> Json {
    Json::from(json!({ "content": [] }))
}

/// Returns the record of a call of which its caller is told that its result is unknown.
pub fn unknown_answer() -> Json {
    let text = "the answer was lost: it is not known whether the call took effect";
    Json::from(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(record: Value) -> ToolResult {
        match ToolAnswer::from_record(&Json::from(record)) {
            Ok(ToolAnswer::Returned(result)) => result,
            other => panic!("a result: {other:?}"),
        }
    }

    #[test]
    fn blocks_are_given_in_their_order_and_bytes_never_as_text() {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.resize(12 << 10, 7);
        let data = STANDARD.encode(png);
        let result = result(json!({ "content": [
            { "type": "text", "text": "first" },
            { "type": "image", "data": data, "mimeType": "image/png" },
            { "type": "resource_link", "uri": "note://a", "name": "far" },
            { "type": "resource", "resource": { "uri": "note://b", "text": "near" } },
            { "type": "hologram", "data": "light" },
            { "type": "image" },
            5,
            { "type": "image", "data": "AAAA", "mimeType": "image/tiff" },
        ] }));
        let expected = "first\n[image/png, 12 KiB]\nfar: note://a\nnote://b:\nnear\n[hologram]\n[image]\n[]\n[image/tiff, 3 bytes]";
        assert_eq!(result.text(), expected);
        let mut blobs = Blobs::new();
        let (text, parts) = result.parts(&mut blobs);
        assert_eq!((text.as_str(), parts.len(), blobs.len()), ("first", 2, 1));
        assert!(matches!(&parts[0], Part::Image(image) if image.media_type == "image/png"));
    }

    #[test]
    fn the_content_of_an_image_decides_what_a_model_is_given() {
        let check = |media_type: &str, bytes: &[u8], expected: Result<&str, &str>| {
            let result = result(json!({ "content": [
                { "type": "image", "data": STANDARD.encode(bytes), "mimeType": media_type },
            ] }));
            let mut blobs = Blobs::new();
            let (text, parts) = result.parts(&mut blobs);
            match expected {
                Ok(found) => {
                    let [Part::Image(image)] = &parts[..] else {
                        panic!("{media_type}: {parts:?}");
                    };
                    assert_eq!((text.as_str(), image.media_type.as_str()), ("", found));
                    assert_eq!(blobs.len(), 1);
                }
                Err(told) => {
                    assert_eq!(text, told);
                    assert!(parts.is_empty() && blobs.is_empty(), "{parts:?}");
                }
            }
        };
        check("image/png", b"\xff\xd8\xff\xe0", Ok("image/jpeg"));
        check("image/jpg", b"\xff\xd8\xff\xe0", Ok("image/jpeg"));
        let told =
            "[image/png, 6 bytes] not shown: its content is no image of a type that models accept";
        check("image/png", b"<html>", Err(told));
        // What a server does not call an image is none.
        check(
            "application/pdf",
            b"GIF89a",
            Err("[application/pdf, 6 bytes]"),
        );
    }

    #[test]
    fn data_follows_the_blocks_unless_a_block_says_the_same() {
        let both = result(
            json!({ "content": [{ "type": "text", "text": "t" }], "structuredContent": { "b": 1, "a": 2 } }),
        );
        assert_eq!(both.text(), "t\n{\"a\":2,\"b\":1}");
        let same = json!({ "content": [{ "type": "text", "text": "{\"b\": 1,\n\"a\": 2}" }], "structuredContent": { "a": 2, "b": 1 } });
        assert_eq!(result(same).text(), "{\"b\": 1,\n\"a\": 2}");
        assert_eq!(
            result(json!({ "content": [], "structuredContent": [1] })).text(),
            "[1]"
        );
        assert_eq!(result(json!({})).text(), "");
    }

    #[test]
    fn a_misfit_says_where_and_keeps_the_blocks() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let schema = CompiledSchema::compile_bounded(&schema).expect("a schema");
        let record = |result: Value| {
            let Value::Object(fields) = result else {
                panic!("an object")
            };
            let record = result_record(fields, Some(&schema));
            match ToolAnswer::from_record(&record) {
                Ok(ToolAnswer::Returned(result)) => (result.is_error, result.text()),
                other => panic!("a result: {other:?}"),
            }
        };
        let text = json!([{ "type": "text", "text": "t" }]);
        let (is_error, shown) =
            record(json!({ "content": text, "structuredContent": { "n": "x" } }));
        assert!(
            is_error && shown.contains("t\n") && shown.contains("/n"),
            "{shown}"
        );
        let (is_error, shown) = record(json!({ "content": text }));
        assert!(
            is_error && shown.contains("no `structuredContent`"),
            "{shown}"
        );
        assert_eq!(
            record(json!({ "content": text, "isError": true })),
            (true, "t".into())
        );
        assert!(!record(json!({ "structuredContent": { "n": 5 } })).0);
    }

    #[test]
    fn a_result_that_is_invalid_is_an_error_that_says_what_is_wrong_and_keeps_the_valid_blocks() {
        let check = |result: Value, expected: &str| {
            let Value::Object(fields) = &result else {
                panic!("an object")
            };
            let record = result_record(fields.clone(), None);
            let Ok(ToolAnswer::Returned(read)) = ToolAnswer::from_record(&record) else {
                panic!("a result: {record:?}")
            };
            assert_eq!(
                (read.is_error, read.text().as_str()),
                (true, expected),
                "{result}"
            );
        };
        let invalid = |result: Value, why: &str| {
            check(result, &format!("the server's result is invalid: {why}"));
        };
        invalid(json!({}), "`content` is missing");
        for content in [json!("not a list"), json!(null), json!({})] {
            invalid(json!({ "content": content }), "`content` is not a list");
        }
        let both = json!({ "content": null, "isError": true });
        invalid(both, "`content` is not a list");
        let flag = json!({ "content": [], "isError": "yes" });
        invalid(flag, "`isError` is neither `true` nor `false`");
        let blocks = [
            (json!(5), "` is not an object"),
            (json!({ "text": "t" }), ".type` is missing"),
            (json!({ "type": "text" }), ".text` is missing"),
            (
                json!({ "type": "text", "text": 5 }),
                ".text` is not a string",
            ),
            (
                json!({ "type": "image", "data": "AAAA" }),
                ".mimeType` is missing",
            ),
            (
                json!({ "type": "image", "mimeType": "image/png", "data": "%" }),
                ".data` is not base64",
            ),
            (
                json!({ "type": "audio", "mimeType": "audio/wav" }),
                ".data` is missing",
            ),
            (
                json!({ "type": "resource_link", "name": "n" }),
                ".uri` is missing",
            ),
            (json!({ "type": "resource" }), ".resource` is not an object"),
            (
                json!({ "type": "resource", "resource": { "uri": "u" } }),
                ".resource.text` is missing",
            ),
            (
                json!({ "type": "resource", "resource": { "uri": "u", "blob": "?" } }),
                ".resource.blob` is not base64",
            ),
        ];
        for (block, why) in blocks {
            let text = |text: &str| json!({ "type": "text", "text": text });
            let content = [text("before"), block, text("after"), json!(7)];
            let expected =
                format!("before\nafter\nthe server's result is invalid: `content[1]{why}");
            check(json!({ "content": content }), &expected);
        }
    }

    #[test]
    fn an_error_without_a_text_says_so() {
        let text = |result: Value| {
            let Value::Object(fields) = result else {
                panic!("an object")
            };
            let record = result_record(fields, None);
            match ToolAnswer::from_record(&record) {
                Ok(ToolAnswer::Returned(result)) if result.is_error => result.text(),
                other => panic!("an error: {other:?}"),
            }
        };
        let silent = "the server reported an error without a text";
        assert_eq!(text(json!({ "isError": true })), silent);
        assert_eq!(text(json!({ "content": [], "isError": true })), silent);
        let blank = json!([{ "type": "text", "text": " " }]);
        assert_eq!(
            text(json!({ "content": blank, "isError": true })),
            format!(" \n{silent}")
        );
        let data = json!({ "structuredContent": { "why": "quota" }, "isError": true });
        assert_eq!(text(data), "{\"why\":\"quota\"}");
    }

    #[test]
    fn an_operator_answers_with_a_text_a_result_or_data() {
        let shown = |value: Value| match ToolAnswer::from_record(&operator_answer(&value)) {
            Ok(ToolAnswer::Returned(result)) => result.text(),
            other => panic!("a result: {other:?}"),
        };
        assert_eq!(shown(json!("done")), "done");
        assert_eq!(
            shown(json!({ "content": [{ "type": "text", "text": "x" }] })),
            "x"
        );
        assert_eq!(shown(json!({ "id": 7 })), "{\"id\":7}");
    }
}

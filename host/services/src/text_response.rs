//! A response that the host reads as text, decoded as the response says: by a byte order mark, else
//! by the `charset` of its content type, else as UTF-8. Invalid bytes become U+FFFD. The SDKs decode
//! the responses that guests fetch by the same rule.
//!
//! Nothing is decompressed: the clients of `client::reading_builder` ask for responses that are not
//! compressed. `content_coding` tells a caller that a server compresses nevertheless.

use std::borrow::Cow;

use bytes::Bytes;
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};

/// The content coding that changes nothing.
const IDENTITY: &str = "identity";
/// The maximum number of bytes that a character takes in UTF-8.
const MAX_CHARACTER_BYTES: usize = 4;

/// A response whose body is read as text.
pub(super) struct TextResponse {
    response: Response,
    decoder: TextDecoder,
}

impl TextResponse {
    pub(super) fn new(response: Response) -> Self {
        let decoder = TextDecoder::new(declared_encoding(response.headers()));
        Self { response, decoder }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the next piece of the body in UTF-8, or `None` at its end. A piece may end within a
    /// line, but not within a character.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, reqwest::Error> {
        while let Some(bytes) = self.response.chunk().await? {
            let text = self.decoder.feed(&bytes);
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        let rest = self.decoder.finish();
        Ok((!rest.is_empty()).then(|| rest.into()))
    }
}

/// Returns how the body of a response with these headers is compressed, as the server calls it, or
/// `None` if it is not.
pub(super) fn content_coding(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    let codings = values.iter().flat_map(|value| value.split(','));
    let codings: Vec<&str> = codings
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(IDENTITY))
        .collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

/// Returns the text of the body of a response with these headers. Fails if it has bytes that are
/// invalid in its encoding.
pub(super) fn decode_text<'a>(body: &'a [u8], headers: &HeaderMap) -> Result<Cow<'a, str>, String> {
    let declared = || (declared_encoding(headers), 0);
    let (encoding, mark) = Encoding::for_bom(body).unwrap_or_else(declared);
    let text = encoding.decode_without_bom_handling_and_without_replacement(&body[mark..]);
    text.ok_or_else(|| format!("it is not valid {}", encoding.name()))
}

/// Decodes bytes that arrive in pieces.
pub(super) struct TextDecoder {
    /// `None` once the text has ended.
    decoder: Option<Decoder>,
}

impl TextDecoder {
    /// Returns a decoder for a text in this encoding, unless a byte order mark says otherwise.
    pub(super) fn new(declared: &'static Encoding) -> Self {
        Self {
            decoder: Some(declared.new_decoder()),
        }
    }

    /// Adds bytes. Returns the text of the characters that are complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> String {
        match &mut self.decoder {
            Some(decoder) => decode(decoder, bytes, false),
            None => String::new(),
        }
    }

    /// Ends the text. Returns what stands for a character that is not complete.
    pub(super) fn finish(&mut self) -> String {
        let decoder = self.decoder.take();
        decoder.map_or_else(String::new, |mut decoder| decode(&mut decoder, &[], true))
    }
}

fn decode(decoder: &mut Decoder, mut bytes: &[u8], is_last: bool) -> String {
    let mut text = String::new();
    loop {
        // Without replacements this suffices. Reserving for the worst case takes three times as much.
        let needed = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        text.reserve(needed.unwrap_or(bytes.len()).max(MAX_CHARACTER_BYTES));
        let (result, read, _) = decoder.decode_to_string(bytes, &mut text, is_last);
        bytes = &bytes[read..];
        if result == CoderResult::InputEmpty {
            return text;
        }
    }
}

/// Returns the encoding that the content type of a response names: UTF-8 if it names none, or none
/// that is known.
fn declared_encoding(headers: &HeaderMap) -> &'static Encoding {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let parameters = content_type.unwrap_or_default().split(|byte| *byte == b';');
    let charset = parameters.skip(1).find_map(|parameter| {
        let equals = parameter.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&parameter[..equals], &parameter[equals + 1..]);
        let is_charset = name.trim_ascii().eq_ignore_ascii_case(b"charset");
        is_charset.then(|| trim_quotes(value.trim_ascii()))
    });
    charset
        .and_then(Encoding::for_label_no_replacement)
        .unwrap_or(UTF_8)
}

/// Returns a value without the quotation marks around it.
fn trim_quotes(value: &[u8]) -> &[u8] {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'');
    let value = match value {
        [first, rest @ ..] if is_quote(first) => rest,
        value => value,
    };
    match value {
        [rest @ .., last] if is_quote(last) => rest,
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{GB18030, UTF_16BE, UTF_16LE, WINDOWS_1252};

    use super::*;

    #[test]
    fn the_content_type_names_the_encoding() {
        let check = |content_type: &str, expected: &'static Encoding| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().expect("a header value"));
            assert_eq!(declared_encoding(&headers), expected, "{content_type}");
        };
        check("application/json", UTF_8);
        check("application/json; charset=utf-8", UTF_8);
        check("application/json; charset=iso-8859-1", WINDOWS_1252);
        check(
            "text/event-stream;x=1; Charset = \"UTF-16\" ; y=2",
            UTF_16LE,
        );
        check("text/event-stream;charset='gb18030'", GB18030);
        check("application/json; charset=utf-16be", UTF_16BE);
        check("application/json; charset=nonsense", UTF_8);
        // It stands for encodings that browsers refuse to read.
        check("application/json; charset=replacement", UTF_8);
        check("application/json; charset=iso-2022-kr", UTF_8);
        check("application/json; charset=", UTF_8);
        check("application/json; charset=\"", UTF_8);
        check("charset=utf-16", UTF_8);
        assert_eq!(declared_encoding(&HeaderMap::new()), UTF_8);
    }

    #[test]
    fn a_text_is_the_same_whatever_pieces_it_comes_in() {
        for (declared, bytes, expected) in [
            (UTF_8, &b"a\xc3\xa4b"[..], "a\u{e4}b"),
            (UTF_8, b"\xef\xbb\xbfa", "a"),
            (UTF_8, b"\xff\xfea\0\xe4\0", "a\u{e4}"),
            (WINDOWS_1252, b"\xfe\xff\0a\0\xe4", "a\u{e4}"),
            (WINDOWS_1252, b"a\xe4", "a\u{e4}"),
            (WINDOWS_1252, b"\xef\xbb\xbf\xc3\xa4", "\u{e4}"),
            (UTF_16LE, b"a\0\x3d\xd8\0\xde", "a\u{1f600}"),
            (UTF_8, b"a\xe2\x82", "a\u{fffd}"),
            (UTF_8, b"\xff\xff\xffa", "\u{fffd}\u{fffd}\u{fffd}a"),
            (UTF_16LE, b"a\0b", "a\u{fffd}"),
            (UTF_8, b"\xef", "\u{fffd}"),
            (UTF_8, b"", ""),
        ] {
            for size in 1..=bytes.len().max(1) {
                let mut decoder = TextDecoder::new(declared);
                let pieces = bytes.chunks(size).map(|piece| decoder.feed(piece));
                let text = pieces.collect::<String>() + &decoder.finish();
                assert_eq!(text, expected, "{bytes:?} in pieces of {size}");
                assert_eq!(decoder.feed(b"a") + &decoder.finish(), "");
            }
        }
    }
}

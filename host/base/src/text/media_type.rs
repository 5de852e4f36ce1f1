//! Recognizes what a file contains: by its first bytes, and where these say nothing, by the extension
//! of its name.

use std::path::Path;

use encoding_rs::Encoding;

/// The media type of bytes of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";
/// The media type of PDF documents.
const PDF: &str = "application/pdf";
/// The media type of text of which nothing else is known.
const PLAIN_TEXT: &str = "text/plain";

/// The beginnings of raster images, with their media types. Browsers only display them: they cannot
/// contain scripts.
const RASTER_IMAGES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
];

/// Extensions of files whose content is recognized by its first bytes, with their media types.
const RECOGNIZED_EXTENSIONS: &[(&str, &str)] = &[
    ("gif", "image/gif"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("pdf", PDF),
    ("png", "image/png"),
    ("webp", "image/webp"),
];

/// Extensions of text files with a media type of their own.
const TEXT_EXTENSIONS: &[(&str, &str)] = &[
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("svg", "image/svg+xml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// Extensions of other files.
const BINARY_EXTENSIONS: &[(&str, &str)] = &[
    ("bmp", "image/bmp"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("wav", "audio/wav"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("zip", "application/zip"),
];

/// A file is not what its name says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its name says `{named}`, but its content is something else; is it damaged or renamed?")]
pub struct MisnamedFile {
    /// The media type that belongs to the extension.
    pub named: &'static str,
}

/// Returns the media type of a file. Fails if its name has the extension of an image or a PDF
/// document and its content is neither.
pub fn media_type(path: &Path, bytes: &[u8]) -> Result<&'static str, MisnamedFile> {
    if let Some(found) = raster_image_type(bytes) {
        return Ok(found);
    }
    if bytes.starts_with(b"%PDF-") {
        return Ok(PDF);
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let extension = extension.to_ascii_lowercase();
    let lookup = |table: &[(&str, &'static str)]| {
        let entry = table.iter().find(|(name, _)| *name == extension);
        entry.map(|(_, media_type)| *media_type)
    };
    if let Some(named) = lookup(RECOGNIZED_EXTENSIONS) {
        return Err(MisnamedFile { named });
    }
    if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() {
        return Ok(lookup(TEXT_EXTENSIONS).unwrap_or(PLAIN_TEXT));
    }
    Ok(lookup(BINARY_EXTENSIONS).unwrap_or(UNKNOWN))
}

/// Returns the media type of a raster image that all browsers and most models accept, or `None` for
/// anything else. Decided by the content alone, whatever others call it.
pub fn raster_image_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let known = RASTER_IMAGES
        .iter()
        .find(|(start, _)| bytes.starts_with(start));
    known.map(|(_, media_type)| *media_type)
}

/// Returns the text of a file that begins with a byte order mark, without the mark. Returns `None` if
/// it has none, or if what follows is no text in the encoding that the mark stands for.
pub fn marked_text(bytes: &[u8]) -> Option<String> {
    let (encoding, length) = Encoding::for_bom(bytes)?;
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes[length..])?;
    (!text.contains('\0')).then(|| text.into_owned())
}

/// Returns whether files of a media type are text.
pub fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || matches!(
            media_type,
            "application/json" | "application/xml" | "application/yaml"
        )
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

    #[test]
    fn content_decides_and_then_the_extension() {
        let check = |name: &str, bytes: &[u8], expected: &str| {
            assert_eq!(media_type(Path::new(name), bytes), Ok(expected), "{name}");
        };
        check("a.png", PNG, "image/png");
        check("a.pdf", PNG, "image/png");
        check("a", b"\xff\xd8\xff\xe0", "image/jpeg");
        check("a.PNG", b"GIF89a", "image/gif");
        check("a.webp", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp");
        check("a.txt", b"%PDF-1.7", "application/pdf");
        check("a.MD", b"# text", "text/markdown");
        check("a.json", b"{}", "application/json");
        check("a.rs", "fn \u{e4}() {}".as_bytes(), "text/plain");
        check("a.svg", b"<svg/>", "image/svg+xml");
        check("a.json", b"\0\xff", UNKNOWN);
        check("a.zip", b"PK\x03\x04\xff", "application/zip");
        check("a.txt", b"RIFF\0\0\0\0WAVE", UNKNOWN);
    }

    #[test]
    fn a_byte_order_mark_names_the_encoding_of_a_text() {
        for (bytes, expected) in [
            (&b"\xef\xbb\xbfa"[..], Some("a")),
            (b"\xff\xfea\0\xe4\0", Some("a\u{e4}")),
            (b"\xfe\xff\0a\0\xe4", Some("a\u{e4}")),
            (b"a\0", None),
            (b"\xff\xfea", None),
            (b"\xff\xfe\0\xd8a\0", None),
            (b"\xff\xfe\0\0a\0\0\0", None),
            (b"\xef\xbb\xbf\xff", None),
            (b"", None),
        ] {
            assert_eq!(marked_text(bytes).as_deref(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn an_image_or_a_document_that_is_none_is_an_error() {
        for (name, named) in [
            ("a.png", "image/png"),
            ("b.JPG", "image/jpeg"),
            ("c.pdf", PDF),
        ] {
            let found = media_type(Path::new(name), b"<html>");
            assert_eq!(found, Err(MisnamedFile { named }));
        }
    }

    #[test]
    fn an_image_that_may_contain_scripts_is_no_raster_image() {
        for bytes in [&b"<svg onload='x()'/>"[..], b"", b"RIFF", b"BM", b"<html>"] {
            assert_eq!(raster_image_type(bytes), None);
        }
    }

    #[test]
    fn only_text_is_text() {
        for (media_type, expected) in [
            ("text/plain", true),
            ("application/json", true),
            ("image/svg+xml", true),
            ("application/pdf", false),
            ("image/png", false),
        ] {
            assert_eq!(is_text(media_type), expected, "{media_type}");
        }
    }
}

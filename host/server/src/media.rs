//! Media types of files that guests wrote: only those of a closed list, none of which a browser runs.

/// What is known of files by the ends of their names. Everything else is bytes.
const TYPES: [(&str, &str); 14] = [
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/plain; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("toml", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("webp", "image/webp"),
    ("yaml", "text/plain; charset=utf-8"),
    ("yml", "text/plain; charset=utf-8"),
];
const BYTES: &str = "application/octet-stream";

/// Returns the media type with which a file is sent.
pub fn file_media_type(name: &str, bytes: &[u8]) -> &'static str {
    let end = name
        .rsplit_once('.')
        .map(|(_, end)| end.to_ascii_lowercase());
    let found = end.and_then(|end| TYPES.iter().find(|(one, _)| *one == end));
    match found {
        Some((_, media_type)) if is_so(media_type, bytes) => media_type,
        _ => BYTES,
    }
}

/// Whether bytes can be of a type: texts are UTF-8.
fn is_so(media_type: &str, bytes: &[u8]) -> bool {
    let is_text = media_type.starts_with("text/") || media_type == "application/json";
    !is_text || std::str::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_browser_runs_has_a_type_of_its_own() {
        let check = |name: &str, bytes: &[u8], expected: &str| {
            assert_eq!(file_media_type(name, bytes), expected, "{name}");
        };
        check("a.txt", b"x", "text/plain; charset=utf-8");
        check("a.TXT", b"x", "text/plain; charset=utf-8");
        check("a.txt", b"\xff", BYTES);
        check("a.html", b"<p>", BYTES);
        check("a.svg", b"<svg>", BYTES);
        check("a.js", b"x", BYTES);
        check("a.md", b"# x", "text/plain; charset=utf-8");
        check("png", b"x", BYTES);
    }
}

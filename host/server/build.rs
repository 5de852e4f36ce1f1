//! Gives the files of the page names with digests of their contents, rewrites their references to each other, and makes
//! them part of the program.
//!
//! The page's policy allows no inline import map, so the specifiers of imports are rewritten: relative ones, and bare
//! ones that `page/imports.json` maps to files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that the server sends for its root.
const INDEX: &str = "index.html";
/// Which file a bare specifier of an import means.
const IMPORTS: &str = "imports.json";
/// What is delivered, by the ends of names.
const MEDIA_TYPES: [(&str, &str); 6] = [
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
];

fn main() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    println!("cargo::rerun-if-changed={}", page.display());
    if let Err(why) = build(&page) {
        println!("cargo::error={why}");
        std::process::exit(1);
    }
}

fn build(page: &Path) -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("there is no `OUT_DIR`")?);
    let mut files = BTreeMap::new();
    collect(page, "", &mut files)?;
    let imports = match fs::read(page.join(IMPORTS)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| format!("`{IMPORTS}`: {e}"))?,
        Err(_) => BTreeMap::new(),
    };
    let mut builder = Builder {
        files: &files,
        imports,
        named: BTreeMap::new(),
        open: BTreeSet::new(),
    };
    let paths: Vec<&String> = files.keys().filter(|path| *path != INDEX).collect();
    for path in paths {
        builder.name_of(path)?;
    }
    let mut source = String::from("const ASSETS: &[Asset] = &[\n");
    for (name, bytes) in builder.named.values() {
        let end = name.rsplit('.').next().unwrap_or_default();
        let media_type = media_type(end).unwrap_or_default();
        fs::write(out.join(name), bytes).map_err(|e| format!("`{name}`: {e}"))?;
        let entry = format!(
            "    Asset {{ name: {name:?}, media_type: {media_type:?}, bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/\", {name:?})) }},"
        );
        writeln!(source, "{entry}").map_err(|e| e.to_string())?;
    }
    source += "];\n";
    source += &match files.get(INDEX) {
        None => "const INDEX: Option<&[u8]> = None;\n".to_owned(),
        Some(bytes) => {
            let text = builder.rewrite_html(bytes)?;
            fs::write(out.join(INDEX), text).map_err(|e| format!("`{INDEX}`: {e}"))?;
            format!(
                "const INDEX: Option<&[u8]> = Some(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{INDEX}\")));\n"
            )
        }
    };
    fs::write(out.join("assets.rs"), source).map_err(|e| format!("cannot write the list: {e}"))
}

fn media_type(end: &str) -> Option<&'static str> {
    let found = MEDIA_TYPES.iter().find(|(one, _)| *one == end);
    found.map(|(_, media_type)| *media_type)
}

/// Reads the files that are delivered, by their paths.
fn collect(
    directory: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|e| format!("`{}`: {e}", directory.display()))?;
    for entry in entries {
        let entry = entry.map_err(|e| e.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
            continue;
        }
        let end = name.rsplit('.').next().unwrap_or_default();
        if path == INDEX || media_type(end).is_some() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
            if !path.chars().all(plain) {
                return Err(format!(
                    "`{path}` has a character that no name of the page has"
                ));
            }
            let bytes = fs::read(entry.path()).map_err(|e| format!("`{path}`: {e}"))?;
            files.insert(path, bytes);
        }
    }
    Ok(())
}

struct Builder<'a> {
    files: &'a BTreeMap<String, Vec<u8>>,
    imports: BTreeMap<String, String>,
    /// The names with digests, and the rewritten contents, by path.
    named: BTreeMap<String, (String, Vec<u8>)>,
    /// The files whose references are being rewritten.
    open: BTreeSet<String>,
}

impl Builder<'_> {
    /// Returns the name of a file with its digest. The files to which it refers are named first.
    fn name_of(&mut self, path: &str) -> Result<String, String> {
        if let Some((name, _)) = self.named.get(path) {
            return Ok(name.clone());
        }
        let bytes = self
            .files
            .get(path)
            .ok_or_else(|| format!("there is no `{path}`"))?;
        if !self.open.insert(path.to_owned()) {
            return Err(format!("`{path}` refers to itself over others"));
        }
        let (stem, end) = path.rsplit_once('.').unwrap_or((path, ""));
        let bytes = match end {
            "js" => without_comments(&self.rewrite(path, bytes, &["from", "import", "import("])?),
            "css" => self.rewrite(path, bytes, &["@import", "url("])?,
            _ => bytes.clone(),
        };
        self.open.remove(path);
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        // Enough to tell the versions of one file apart. References to files are part of what scripts may have together.
        let digest: String = digest.as_ref()[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{}.{digest}.{end}", stem.replace('/', "-"));
        self.named.insert(path.to_owned(), (name.clone(), bytes));
        Ok(name)
    }

    /// Returns the file that a reference in another means; `None` if it is not one that is rewritten.
    fn target(&self, from: &str, reference: &str) -> Option<String> {
        if let Some(path) = self.imports.get(reference) {
            return Some(path.clone());
        }
        if !reference.starts_with("./") && !reference.starts_with("../") {
            return None;
        }
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.pop();
        for part in reference.split('/') {
            match part {
                "." | "" => {}
                ".." => drop(parts.pop()),
                other => parts.push(other),
            }
        }
        Some(parts.join("/"))
    }

    /// Rewrites the references that follow one of these words: in quotes, or behind a parenthesis without.
    fn rewrite(&mut self, path: &str, bytes: &[u8], words: &[&str]) -> Result<Vec<u8>, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| format!("`{path}` is not UTF-8"))?;
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = text[at..].find(['"', '\'', '(']) {
            let quote_at = at + found;
            at = quote_at + 1;
            let quote = text.as_bytes()[quote_at];
            let before = text[..quote_at].trim_end();
            let is_bare_url = quote == b'(' && before.ends_with("url") && words.contains(&"url(");
            let is_quoted = quote != b'(' && words.iter().any(|word| ends_with_word(before, word));
            if !is_bare_url && !is_quoted {
                continue;
            }
            let close = if is_bare_url { ')' } else { char::from(quote) };
            let Some(length) = text[at..].find([close, '\n']) else {
                continue;
            };
            let reference = &text[at..at + length];
            if let Some(target) = self.target(path, reference) {
                if !self.files.contains_key(&target) {
                    return Err(format!(
                        "`{path}` refers to `{reference}`, which is not there"
                    ));
                }
                let name = self.name_of(&target)?;
                out.push_str(&text[done..at]);
                // All files lie side by side.
                out.push_str("./");
                out.push_str(&name);
                done = at + length;
            } else if is_quoted
                && !reference.contains([':', '/', '@', ' '])
                && words.contains(&"from")
                && ends_with_word(before, "from")
            {
                return Err(format!(
                    "`{path}` imports `{reference}`, which `{IMPORTS}` does not map to a file"
                ));
            }
            at += length;
        }
        out.push_str(&text[done..]);
        Ok(out.into_bytes())
    }

    /// Rewrites the values of attributes that begin with `./`.
    fn rewrite_html(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| format!("`{INDEX}` is not UTF-8"))?;
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(found) = rest.find("=\"./") {
            let (before, value) = rest.split_at(found + 2);
            let end = value
                .find('"')
                .ok_or("an attribute of the page has no end")?;
            let name = self.name_of(&value[2..end])?;
            out.push_str(before);
            out.push_str("/assets/");
            out.push_str(&name);
            rest = &value[end..];
        }
        out.push_str(rest);
        Ok(out.into_bytes())
    }
}

/// Leaves out lines that are nothing but a comment. No other line of the page's scripts begins like one.
fn without_comments(script: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(script.len());
    let mut is_within = false;
    for line in script.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        is_within |= text.starts_with(b"/**");
        if !is_within && !text.starts_with(b"//") {
            out.extend_from_slice(line);
        }
        is_within &= !text.ends_with(b"*/");
    }
    out
}

/// Whether a text ends with a word that is not the end of a longer one.
fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(before) = text.strip_suffix(word) else {
        return false;
    };
    let last = before.chars().next_back();
    !last.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == '.')
}

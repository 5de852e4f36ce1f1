//! Comments name what exists: a name that was changed is changed in the comments, too.

use std::collections::BTreeSet;

use super::{SOURCES, Source, assert_none, files, sources};

/// Where names may occur besides the sources.
const OTHER_PLACES: [&str; 8] = [
    ".ci",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "README.md",
    "bench",
    "docs",
];
/// The extensions of files in which names occur.
const EXTENSIONS: [&str; 16] = [
    "c", "css", "h", "html", "js", "json", "md", "mjs", "py", "rs", "sh", "toml", "ts", "txt",
    "wat", "wit",
];
/// Names of the operating system that only comments contain.
const SYSTEM_NAMES: [&str; 3] = ["PROPTEST_CASES", "PR_SET_MDWE", "fsync"];

/// Returns the part of a line that is a comment.
fn comment_of(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//");
    let comment = comment.or_else(|| Some(line.split_once(" // ")?.1))?;
    Some(comment.trim_start_matches(['/', '!']))
}

/// Returns a line without its comment.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Returns every word that a source contains as code, or that a document contains between
/// backquotes.
fn words_of_code(source: &Source) -> Vec<String> {
    let code: Vec<&str> = if source.name.ends_with(".rs") {
        source.text.lines().map(without_comment).collect()
    } else if source.name.ends_with(".md") {
        source.text.split('`').skip(1).step_by(2).collect()
    } else {
        vec![&source.text]
    };
    code.into_iter()
        .flat_map(words)
        .map(str::to_owned)
        .collect()
}

/// Returns the code spans in the comments of a source, each with the number of the last line of its
/// comment. A span may continue on the next line. Examples are left out: they are compiled.
fn code_spans(source: &Source) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let (mut block, mut is_example) = (String::new(), false);
    let lines = source.text.lines().chain([""]);
    for (n, line) in lines.enumerate() {
        match comment_of(line) {
            Some(text) if text.trim_start().starts_with("```") => is_example = !is_example,
            Some(_) if is_example => {}
            Some(text) => block = block + " " + text.trim(),
            None => {
                // An odd number of backquotes: one of them is meant as such.
                if block.matches('`').count() % 2 == 0 {
                    let inner = block.split('`').skip(1).step_by(2);
                    spans.extend(inner.map(|span| (n, span.to_owned())));
                }
                (block, is_example) = (String::new(), false);
            }
        }
    }
    spans
}

/// Returns the names in a span if all of it is a name or a path of names, perhaps with arguments.
/// Names in capitals stand for something else in a path like `plugins/NAME`.
fn names_in(span: &str) -> Vec<&str> {
    let path = match span.split_once('(') {
        Some((path, arguments)) if arguments.ends_with(')') => path,
        Some(_) => return Vec::new(),
        None => span,
    };
    let is_path = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_:/.".contains(c));
    if !is_path || path.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_') {
        return Vec::new();
    }
    let mut names: Vec<&str> = words(path).collect();
    if path.contains('/') {
        names.retain(|name| name.chars().any(|c| c.is_ascii_lowercase()));
    }
    names
}

#[test]
fn names_in_comments_exist() {
    let places = [&SOURCES[..], &OTHER_PLACES].concat();
    let corpus = files(&places, |path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    });
    // The rules themselves name what is forbidden.
    let is_rule = |source: &&Source| source.lies_in("tests/house");
    let mut known: BTreeSet<String> = SYSTEM_NAMES.map(str::to_owned).into();
    for source in corpus.iter().filter(|source| !is_rule(source)) {
        known.extend(words_of_code(source));
    }
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !is_rule(source)) {
        for (n, span) in code_spans(source) {
            for name in names_in(&span) {
                if !known.contains(name) {
                    broken.push(format!("{}:{n}: nothing is called `{name}`", source.name));
                }
            }
        }
    }
    assert_none(broken);
}

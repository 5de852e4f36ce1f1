//! The front matter of a `SKILL.md`: YAML between two lines `---`.
//!
//! The file is somebody else's. Aliases and tags are refused, because nothing needs them here and they
//! can make a small text large. Values with an unquoted `: `, which many skills contain and YAML does
//! not allow, are read as text.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The maximum size of front matter in bytes, many times that of a name and a description.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 << 10;
/// The maximum length of a name in characters.
pub const MAX_NAME_CHARS: usize = 64;
/// The maximum length of a description in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// How deeply front matter may be nested.
const MAX_DEPTH: usize = 16;
/// The line before and after the front matter.
const FENCE: &str = "---";

/// A `SKILL.md` that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillText {
    /// The name that it gives itself.
    pub name: Option<String>,
    /// What the skill is for.
    pub description: String,
    /// What follows the front matter.
    pub body: String,
    /// What is unusual about it.
    pub warnings: Vec<String>,
}

/// Why a `SKILL.md` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillTextError {
    /// The line, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl SkillTextError {
    fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            column,
            message: message.into(),
        }
    }
}

/// The keys that are read. Others are ignored. `allowed-tools` grants nothing.
#[derive(Debug, Deserialize)]
struct Fields {
    name: Option<String>,
    description: Option<String>,
    #[serde(rename = "license")]
    _license: Option<String>,
    #[serde(rename = "compatibility")]
    _compatibility: Option<serde::de::IgnoredAny>,
    #[serde(rename = "metadata")]
    _metadata: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    #[serde(rename = "allowed-tools")]
    _allowed_tools: Option<serde::de::IgnoredAny>,
}

/// Reads a `SKILL.md`.
///
/// # Errors
/// Fails if there is no front matter, if it is too large, no YAML or has aliases or tags, and if it has
/// no description.
pub fn parse(text: &str) -> Result<SkillText, SkillTextError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some(FENCE) {
        let message = "the file does not begin with front matter: a line `---`, `name` and `description`, and another `---`";
        return Err(SkillTextError::at(1, 1, message));
    }
    let mut yaml = Vec::new();
    let mut size = 0;
    let mut is_closed = false;
    for line in lines.by_ref() {
        if line.trim_end() == FENCE {
            is_closed = true;
            break;
        }
        size += line.len();
        if size > MAX_FRONT_MATTER_BYTES {
            let message = format!(
                "the front matter has more than {} KiB",
                MAX_FRONT_MATTER_BYTES >> 10
            );
            return Err(SkillTextError::at(yaml.len() + 2, 1, message));
        }
        yaml.push(line.trim_end_matches(['\n', '\r']).to_owned());
    }
    if !is_closed {
        let message = "the front matter has no end: add a line `---` after it";
        return Err(SkillTextError::at(1, 1, message));
    }
    let body: String = lines.collect();
    let mut warnings = Vec::new();
    refuse_aliases_and_tags(&yaml)?;
    quote_values(&mut yaml, &mut warnings);
    let fields = deserialize(&yaml.join("\n"))?;
    let description = fields.description.filter(|text| !text.trim().is_empty());
    let Some(description) = description else {
        let line = yaml.iter().position(|line| line.starts_with("description"));
        let line = line.map_or(1, |line| line + 2);
        return Err(SkillTextError::at(
            line,
            1,
            "the skill has no `description`, by which a model chooses it",
        ));
    };
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        warnings.push(format!("its description has more than {MAX_DESCRIPTION_CHARS} characters, which each request contains"));
    }
    Ok(SkillText {
        name: fields.name,
        description: description.trim().to_owned(),
        body: body.trim_start_matches(['\n', '\r']).to_owned(),
        warnings,
    })
}

fn deserialize(yaml: &str) -> Result<Fields, SkillTextError> {
    let mut options = serde_saphyr::Options::default();
    if let Some(budget) = &mut options.budget {
        (budget.max_aliases, budget.max_anchors) = (0, 0);
        budget.max_depth = MAX_DEPTH;
    }
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let place = error.location();
        let line = place.map_or(1, |place| place.line() as usize);
        let column = place.map_or(1, |place| place.column() as usize);
        // The rest of the message shows lines of the file.
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        SkillTextError::at(
            line + 1,
            column.max(1),
            format!("the front matter is no YAML that can be read: {first}"),
        )
    })
}

/// Returns whether a name follows the format.
pub fn is_valid_name(name: &str) -> bool {
    let is_accepted = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(is_accepted)
}

/// A line of front matter of the form `key: value`.
struct FrontMatterEntry<'a> {
    indent: usize,
    /// The position of the value in bytes.
    start: usize,
    value: &'a str,
}

/// Splits a line `key: value`. Returns `None` for any other line.
fn entry(line: &str) -> Option<FrontMatterEntry<'_>> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let (key, rest) = line[indent..].split_once(':')?;
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !is_key || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let value = rest.trim();
    let start = line.len() - rest.trim_start().len();
    Some(FrontMatterEntry {
        indent,
        start,
        value,
    })
}

/// Returns how many lines from `first` on belong to the value of an entry with this indentation.
fn continued(lines: &[String], first: usize, indent: usize) -> usize {
    let belongs = |line: &&String| {
        let own = line.len() - line.trim_start_matches(' ').len();
        line.trim().is_empty() || own > indent
    };
    lines[first..].iter().take_while(belongs).count()
}

/// Fails if a value is an alias, has an anchor or a tag. Text in quotes or blocks can contain these
/// characters.
fn refuse_aliases_and_tags(lines: &[String]) -> Result<(), SkillTextError> {
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        let (value, start, indent) = match entry(line) {
            Some(entry) => (entry.value, entry.start, entry.indent),
            None => {
                let value = line.trim_start_matches([' ', '-']);
                (
                    value,
                    line.len() - value.len(),
                    line.len() - line.trim_start().len(),
                )
            }
        };
        if let Some(inside) = refused_token(value) {
            let column = line[..start + inside].chars().count() + 1;
            let message = "aliases, anchors and tags are not accepted in front matter; write the text in quotes";
            return Err(SkillTextError::at(at + 2, column, message));
        }
        at += 1;
        if value.starts_with(['|', '>']) {
            at += continued(lines, at, indent);
        }
    }
    Ok(())
}

/// Returns the position in a value at which an alias, an anchor or a tag begins.
fn refused_token(value: &str) -> Option<usize> {
    let is_refused = |text: &str| text.starts_with(['&', '*', '!']);
    if is_refused(value) {
        return Some(0);
    }
    if !value.starts_with(['[', '{']) {
        return None;
    }
    let mut quote = None;
    for (at, c) in value.char_indices() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if matches!(c, '[' | '{' | ',' | ':') => {
                let rest = &value[at + 1..];
                let token = rest.trim_start();
                if is_refused(token) {
                    return Some(at + 1 + rest.len() - token.len());
                }
            }
            None => {}
        }
    }
    None
}

/// Puts values into quotes that contain an unquoted `: `, together with the lines that continue them.
fn quote_values(lines: &mut [String], warnings: &mut Vec<String>) {
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].clone();
        at += 1;
        let Some(FrontMatterEntry {
            indent,
            start,
            value,
        }) = entry(&line)
        else {
            continue;
        };
        let is_block = value.starts_with(['|', '>']);
        let is_plain = !value.starts_with([
            '"', '\'', '|', '>', '[', '{', '&', '*', '!', '%', '@', '`', '#',
        ]);
        let more = continued(lines, at, indent);
        if is_block {
            at += more;
            continue;
        }
        if value.is_empty() || !is_plain {
            continue;
        }
        let mut text = value.to_owned();
        for line in &lines[at..at + more] {
            text.push(' ');
            text.push_str(line.trim());
        }
        let text = text
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        if !text.contains(": ") && !text.ends_with(':') {
            at += more;
            continue;
        }
        warnings.push(format!(
            "the value in line {} has a `: ` without quotes; it is read as text",
            at + 1
        ));
        let quoted = serde_json::Value::from(text).to_string();
        lines[at - 1] = format!("{}{quoted}", &line[..start]);
        for line in &mut lines[at..at + more] {
            line.clear();
        }
        at += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, description: &str, warnings: usize) {
        let read = parse(text).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(read.name.as_deref(), Some(name));
        assert_eq!(read.description, description);
        assert_eq!(read.warnings.len(), warnings, "{:?}", read.warnings);
    }

    #[test]
    fn names_and_descriptions_are_read_in_every_form() {
        check(
            "---\nname: a\ndescription: does things\n---\nbody",
            "a",
            "does things",
            0,
        );
        check(
            "\u{feff}---\r\nname: a\r\ndescription: \"x: y\"\r\n---\r\n",
            "a",
            "x: y",
            0,
        );
        check(
            "---\nname: a\ndescription: >\n  Use: this\n  *now*\nx: 1\n---\n",
            "a",
            "Use: this *now*",
            0,
        );
        check(
            "---\nname: a\ndescription: two\n  lines\n---\n",
            "a",
            "two lines",
            0,
        );
        check(
            "---\nname: a\ndescription: Use when: a\n  colon: comes # not this\n---\n",
            "a",
            "Use when: a colon: comes",
            1,
        );
        check(
            "---\nname: a\ndescription: use * and & and !\nmetadata:\n  author: b\n  n: 1\n---\n",
            "a",
            "use * and & and !",
            0,
        );
        check(
            "---\nname: a\ndescription: d\nallowed-tools: Bash(*) Read\nother: [1, 2]\n---\n",
            "a",
            "d",
            0,
        );
        check(
            "---\nname: a\ndescription: d\nallowed-tools:\n  - Bash\n  - Read\n---\n",
            "a",
            "d",
            0,
        );
    }

    #[test]
    fn what_follows_the_front_matter_is_the_body() {
        let read =
            parse("---\nname: a\ndescription: d\n---\n\n# Title\n---\nmore\n").expect("a skill");
        assert_eq!(read.body, "# Title\n---\nmore\n");
    }

    #[test]
    fn front_matter_that_cannot_be_used_is_refused_at_its_place() {
        let check = |text: &str, line: usize, part: &str| {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error:?}");
            assert!(error.message.contains(part), "{text}: {error:?}");
        };
        check("", 1, "begin");
        check("# Title\n", 1, "begin");
        check("---\nname: a\n", 1, "no end");
        check("---\nname: a\n---\n", 1, "`description`");
        check("---\nname: a\ndescription:\n---\n", 3, "`description`");
        check("---\nname: a\ndescription: &x d\n---\n", 3, "aliases");
        check(
            "---\nname: a\ndescription: d\nlicense: *x\n---\n",
            4,
            "aliases",
        );
        check("---\nname: a\ndescription: !!str d\n---\n", 3, "tags");
        check(
            "---\nname: a\ndescription: d\nx: [a, *b]\n---\n",
            4,
            "aliases",
        );
        check(
            "---\nname: a\ndescription: d\nx:\n  - &a [1]\n---\n",
            5,
            "aliases",
        );
        let long = format!(
            "---\nname: a\ndescription: {}\n---\n",
            "x".repeat(MAX_FRONT_MATTER_BYTES)
        );
        check(&long, 3, "KiB");
        let unclosed = parse("---\nname: a\ndescription: [a list\n---\n").expect_err("no YAML");
        assert!(unclosed.message.contains("YAML"), "{unclosed:?}");
        let bomb = format!(
            "---\nname: a\ndescription: d\nx: {}{}\n---\n",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        assert!(parse(&bomb).is_err());
    }
}

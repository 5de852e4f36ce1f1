//! Reads the text of a team file, a policy or a file of replies, and parses it as TOML.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use strata_base::files::open;
use toml::de::DeTable;

use crate::diagnostic::{Diagnostic, Diagnostics, SourceText};
use crate::schema::FileKind;
use crate::schema::table_index::table_index;
use crate::similar_path::similar_path;

/// Returns the path of the `team.toml` in a directory, if there is one.
pub fn find_team_file(dir: &Path) -> Option<String> {
    let team = dir.join("team.toml");
    team.is_file().then(|| team.display().to_string())
}

/// Reads a file of some kind.
pub(crate) fn read_source(path: &Path, kind: FileKind) -> Result<SourceText, Diagnostics> {
    let name = path.display().to_string();
    let fail = |reason: String| {
        let message = format!("cannot read the {} file `{name}`: {reason}", kind.word());
        Diagnostics::from(Diagnostic::new(message))
    };
    let meta = std::fs::metadata(path).map_err(|e| match similar_path(path) {
        Some(near) if e.kind() == ErrorKind::NotFound => {
            fail(format!("there is none; did you mean `{}`?", near.display()))
        }
        _ => fail(e.to_string()),
    })?;
    if !meta.is_file() {
        let inside = find_team_file(path).filter(|_| kind == FileKind::Team);
        return Err(fail(match inside {
            Some(team) => format!("it is a directory; did you mean `{team}`?"),
            None => "it is not a file".into(),
        }));
    }
    let most = kind.max_bytes();
    if meta.len() > most {
        return Err(fail(format!("it has more than {most} bytes")));
    }
    let bytes = open::read(path).map_err(|e| fail(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        fail(format!("it is not UTF-8 in line {line}"))
    })?;
    let file = std::path::absolute(path).map_err(|e| fail(e.to_string()))?;
    let base = file.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(SourceText::new(text, name, base))
}

/// Returns the hint for a duplicate key: often a `[table]` should have been one of several
/// `[[table]]`s.
fn duplicate_key_hint(text: &str, key: &Range<usize>, file: FileKind) -> String {
    let begin = text
        .get(..key.start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |end| end + 1);
    let line = text
        .get(begin..)
        .and_then(|rest| rest.lines().next())
        .unwrap_or_default()
        .trim_start();
    let head = line
        .strip_prefix('[')
        .and_then(|line| line.split(']').next())
        .unwrap_or_default();
    match head.strip_prefix('[') {
        // This table is one of a list, but the first table of this name is not.
        Some(name) => {
            format!("write `[[{name}]]` in place of the `[{name}]` before it: there are several")
        }
        None if table_index(file).is_list(head) => {
            format!("write `[[{head}]]` for both: there can be several")
        }
        None => "remove one of the two".into(),
    }
}

/// Parses a text as TOML.
pub(crate) fn parse_document(
    source: &Arc<SourceText>,
    file: FileKind,
) -> Result<toml::Spanned<DeTable<'_>>, Diagnostics> {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    // Errors after the first one are mostly consequences of it.
    match errors.first() {
        None => Ok(document),
        Some(error) => {
            let message = format!("not valid TOML: {}", error.message());
            let span = error.span().unwrap_or(0..0);
            let hint = (error.message() == "duplicate key")
                .then(|| duplicate_key_hint(&source.text, &span, file));
            Err(Diagnostic::at(source, span, message)
                .with_optional_hint(hint)
                .into())
        }
    }
}

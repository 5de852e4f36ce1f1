//! Problems of a team file: what is wrong, where, and how to correct it. What counts as a problem
//! is decided elsewhere.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};

use serde::Serialize;
use strata_base::advice::{Advice, Hint};

use super::schema::FileKind;

/// How many problems are shown at once. A file with more is best corrected from the top.
const MAX_SHOWN: usize = 20;

/// A text and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// The text, as it was read, without a byte order mark.
    pub text: String,
    /// The name that is shown to people.
    pub name: String,
    /// The directory that relative paths in the text are relative to. Absolute.
    pub base: PathBuf,
    /// The offsets of the line feeds, so that line numbers are found quickly: one is computed for
    /// every limit of every component.
    line_ends: Vec<usize>,
}

impl SourceText {
    /// Creates a source. A byte order mark at the beginning of the text is removed.
    pub fn new(mut text: String, name: String, base: PathBuf) -> Self {
        // A byte order mark, which some editors write, must not count as a column.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let line_ends = text
            .bytes()
            .enumerate()
            .filter_map(|(at, byte)| (byte == b'\n').then_some(at))
            .collect();
        Self {
            text,
            name,
            base,
            line_ends,
        }
    }

    /// Formats the beginning of a span for people: `team.toml:34`.
    pub(super) fn format_location(&self, span: &Range<usize>) -> String {
        format!("{}:{}", self.name, self.line_number(span.start))
    }

    fn line_number(&self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < at)
    }

    /// Returns the line and the column (in characters) of a byte offset. Both count from 1.
    fn position(&self, at: usize) -> (usize, usize) {
        let begin = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        (
            self.line_number(at),
            1 + self.text[begin..at].chars().count(),
        )
    }
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    message: String,
    location: Option<DiagnosticSpan>,
    hints: Vec<Hint>,
}

#[derive(Clone, Debug)]
struct DiagnosticSpan {
    source: Arc<SourceText>,
    span: Range<usize>,
    /// Another span that explains this one, with the reason.
    related: Option<(Range<usize>, &'static str)>,
    /// Whether the lines of the span are shown. They are not if they may contain a secret.
    shows_lines: bool,
}

/// A problem as a program reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// What is wrong.
    pub message: String,
    /// The name of the file; `None` if the problem has no position.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The column, from 1, in characters.
    pub column: Option<usize>,
    /// The number of characters that it is about, which may be on several lines.
    pub length: Option<usize>,
    /// How to correct it, if that is known.
    pub hint: Option<String>,
}

/// Whether rendered problems carry terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Text without escape sequences.
    Plain,
    /// ANSI colours.
    Colour,
}

impl Diagnostic {
    /// Creates a problem without a position in a text.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            location: None,
            hints: Vec::new(),
        }
    }

    /// Creates a problem at a range of bytes of a text.
    pub fn at(source: &Arc<SourceText>, span: Range<usize>, message: impl Into<String>) -> Self {
        let span = DiagnosticSpan {
            span: clamp_to_characters(&source.text, span),
            source: Arc::clone(source),
            related: None,
            shows_lines: true,
        };
        Self {
            location: Some(span),
            ..Self::new(message)
        }
    }

    /// Returns the position of the problem: line and column (both count from 1; columns in
    /// characters), and the range of bytes. Returns `None` if it has no position.
    pub fn location(&self) -> Option<((usize, usize), Range<usize>)> {
        let DiagnosticSpan { source, span, .. } = self.location.as_ref()?;
        Some((source.position(span.start), span.clone()))
    }

    /// Returns the hints: how to correct the problem, as far as that is known.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// Adds a hint: how to correct the problem.
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    pub fn with_optional_hint(mut self, hint: Option<impl Into<Hint>>) -> Self {
        self.hints.extend(hint.map(Into::into));
        self
    }

    /// Adds another span of the same text, with its relation to the problem.
    pub fn also(mut self, span: Range<usize>, reason: &'static str) -> Self {
        if let Some(place) = &mut self.location {
            place.related = Some((clamp_to_characters(&place.source.text, span), reason));
        }
        self
    }

    /// Returns what is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn report(&self, describe: &dyn Fn(&Advice) -> String) -> ProblemReport {
        let position = self.location.as_ref().map(|place| {
            let (line, column) = place.source.position(place.span.start);
            let length = place.source.text[place.span.clone()].chars().count();
            (place.source.name.clone(), line, column, length)
        });
        let hints = self.hints.iter().map(|hint| match hint {
            Hint::Text(text) => text.clone(),
            Hint::Advice(advice) => describe(advice),
        });
        let hints: Vec<String> = hints.collect();
        ProblemReport {
            message: self.message.clone(),
            line: position.as_ref().map(|(_, line, _, _)| *line),
            column: position.as_ref().map(|(_, _, column, _)| *column),
            length: position.as_ref().map(|(_, _, _, length)| *length),
            file: position.map(|(file, ..)| file),
            hint: (!hints.is_empty()).then(|| hints.join("; ")),
        }
    }

    fn render(&self, renderer: &Renderer, describe: &dyn Fn(&Advice) -> String) -> String {
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        if let Some(place) = &self.location {
            group = place.add_to(group);
        }
        for hint in &self.hints {
            let text = match hint {
                Hint::Text(text) => normalize_untrusted_str(text),
                Hint::Advice(advice) => normalize_untrusted_str(&describe(advice)),
            };
            group = group.element(Level::HELP.message(text));
        }
        renderer.render(&[group])
    }
}

impl DiagnosticSpan {
    fn add_to<'a>(&'a self, group: Group<'a>) -> Group<'a> {
        // An empty text has nothing to underline.
        if self.source.text.is_empty() || !self.shows_lines {
            let (line, column) = self.source.position(self.span.start);
            return group.element(
                Origin::path(&self.source.name)
                    .line(line)
                    .char_column(column),
            );
        }
        let mut snippet = Snippet::source(self.source.text.as_str())
            .path(self.source.name.as_str())
            .annotation(AnnotationKind::Primary.span(self.span.clone()));
        if let Some((span, reason)) = &self.related {
            let context = AnnotationKind::Context.span(span.clone());
            snippet = snippet.annotation(context.label(*reason));
        }
        group.element(snippet)
    }

    /// Returns the range of bytes of all lines that would be shown.
    fn line_range(&self) -> Range<usize> {
        let also = self.related.as_ref().map_or(&self.span, |(span, _)| span);
        let (start, end) = (self.span.start.min(also.start), self.span.end.max(also.end));
        let text = &self.source.text;
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        begin..text[end..].find('\n').map_or(text.len(), |at| end + at)
    }
}

/// Clamps a range to the text and extends it to character boundaries.
fn clamp_to_characters(text: &str, span: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let end = text.ceil_char_boundary(span.end).max(start);
    start..end
}

/// The problems of a team file. There is at least one.
#[derive(Clone, Debug)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Returns all problems, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Appends further problems.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Appends a note to the message of the first problem, in parentheses.
    pub(super) fn with_note(mut self, what: &str) -> Self {
        if let Some(first) = self.0.first_mut() {
            first.message.push_str(&format!(" ({what})"));
        }
        self
    }

    /// Returns all problems for a program, such as an editor, with `describe` for advice.
    pub fn list(&self, describe: &dyn Fn(&Advice) -> String) -> Vec<ProblemReport> {
        self.0
            .iter()
            .map(|problem| problem.report(describe))
            .collect()
    }

    /// Renders all problems for people, each with `file:line:column`, the underlined text and a
    /// hint. Advice is rendered without commands.
    pub fn render(&self, paint: Paint) -> String {
        self.render_with(paint, &Advice::to_string)
    }

    /// Renders all problems for people, with `describe` for advice. A program describes it with its
    /// commands.
    pub fn render_with(&self, paint: Paint, describe: &dyn Fn(&Advice) -> String) -> String {
        let renderer = match paint {
            Paint::Plain => Renderer::plain(),
            Paint::Colour => Renderer::styled(),
        };
        let rendered: Vec<String> = self
            .0
            .iter()
            .take(MAX_SHOWN)
            .map(|problem| problem.render(&renderer, describe))
            .collect();
        let mut text = rendered.join("\n\n");
        if let Some(more) = self.0.len().checked_sub(MAX_SHOWN).filter(|n| *n > 0) {
            text.push_str(&format!("\n\n… and {more} more"));
        }
        text
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(problem: Diagnostic) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Paint::Plain))
    }
}

impl std::error::Error for Diagnostics {}

/// Collects the problems found in one text. Reading continues after each, so that all can be
/// reported at once.
pub(super) struct Problems {
    pub(super) source: Arc<SourceText>,
    /// The kind of file that the text is of.
    pub(super) file: FileKind,
    found: RefCell<Vec<Diagnostic>>,
    /// The paths of keys, as `schema::table_index` names them, whose values could not be read. A key
    /// that seems to be missing may be among these values.
    unread: RefCell<BTreeSet<String>>,
    /// The files that the text names.
    files: RefCell<BTreeSet<PathBuf>>,
    /// The spans of rejected values that may be secrets. Lines that contain one are never shown,
    /// whatever other problems they have.
    secret_spans: RefCell<Vec<Range<usize>>>,
    /// Whether the files that are named are checked.
    referenced_files: ReferencedFiles,
}

/// Whether the files that a text names are checked while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferencedFiles {
    /// They must exist and be valid.
    Checked,
    /// They may be missing, because the team is only inspected.
    Ignored,
}

impl Problems {
    pub(super) fn new(
        source: Arc<SourceText>,
        file: FileKind,
        referenced_files: ReferencedFiles,
    ) -> Self {
        Self {
            source,
            file,
            found: RefCell::default(),
            unread: RefCell::default(),
            files: RefCell::default(),
            secret_spans: RefCell::default(),
            referenced_files,
        }
    }

    /// Returns whether the files that are named are checked.
    pub(super) fn checks_files(&self) -> bool {
        self.referenced_files == ReferencedFiles::Checked
    }

    /// Creates a problem at a span of the text. It is not added yet.
    pub(super) fn at(&self, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(&self.source, span.clone(), message)
    }

    /// Returns the text of a span.
    pub(super) fn text(&self, span: &Range<usize>) -> &str {
        self.source.text.get(span.clone()).unwrap_or_default()
    }

    pub(super) fn add(&self, problem: Diagnostic) {
        self.found.borrow_mut().push(problem);
    }

    /// Returns whether there are so many problems that hints for further ones are not worth their
    /// cost. The bound is a multiple of what is shown, because problems are not found in the order
    /// in which they are shown.
    pub(super) fn has_many(&self) -> bool {
        self.found.borrow().len() > 5 * MAX_SHOWN
    }

    /// Records a file that the text names.
    pub(super) fn add_file(&self, file: PathBuf) {
        self.files.borrow_mut().insert(file);
    }

    /// Returns the files that the text names.
    pub(super) fn files(&self) -> BTreeSet<PathBuf> {
        self.files.borrow().clone()
    }

    /// Records that a span may contain a secret.
    pub(super) fn mark_secret(&self, span: Range<usize>) {
        self.secret_spans.borrow_mut().push(span);
    }

    /// Records that the value at a path of keys could not be read.
    pub(super) fn mark_unread(&self, place: String) {
        self.unread.borrow_mut().insert(place);
    }

    /// Returns whether all values at these paths could be read. A path that ends in a point stands
    /// for everything below it.
    pub(super) fn are_read(&self, places: &[&str]) -> bool {
        let lies_in = |unread: &String, place: &str| {
            if place.ends_with('.') {
                unread.starts_with(place)
            } else {
                unread == place
            }
        };
        !self
            .unread
            .borrow()
            .iter()
            .any(|unread| places.iter().any(|place| lies_in(unread, place)))
    }

    /// Fails if there is any problem.
    pub(super) fn into_result(self) -> Result<(), Diagnostics> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(());
        }
        let secret = self.secret_spans.into_inner();
        for place in found
            .iter_mut()
            .filter_map(|problem| problem.location.as_mut())
        {
            let lines = place.line_range();
            place.shows_lines = !secret
                .iter()
                .any(|secret| secret.start <= lines.end && lines.start <= secret.end);
        }
        found.sort_by_key(|problem| problem.location.as_ref().map(|p| p.span.start));
        Err(Diagnostics(found))
    }
}

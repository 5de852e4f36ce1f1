//! Problems of a team file: what is wrong, where, and what to do about it. What counts as wrong is decided elsewhere.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};
use anstream::{AutoStream, ColorChoice};

/// Problems shown at once; a file with more is better mended from the top.
const MAX_SHOWN: usize = 20;

/// A text and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The text, as it was read, without a byte order mark.
    pub text: String,
    /// The name that is shown to people.
    pub name: String,
    /// What relative paths in the text are relative to. Absolute.
    pub base: PathBuf,
    /// Where its lines end: a place is told for every limit of every component, and a text may be long.
    ends: Vec<usize>,
}

impl Source {
    /// A text that comes from somewhere.
    pub fn new(mut text: String, name: String, base: PathBuf) -> Self {
        // Some editors put a mark before the text, which is in none of its columns.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let ends = text
            .bytes()
            .enumerate()
            .filter_map(|(at, byte)| (byte == b'\n').then_some(at))
            .collect();
        Self {
            text,
            name,
            base,
            ends,
        }
    }

    /// A place for people: `team.toml:34`.
    pub(super) fn place(&self, span: &Range<usize>) -> String {
        format!("{}:{}", self.name, self.line(span.start))
    }

    fn line(&self, at: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < at)
    }

    /// The line and the column, in characters, of what begins at a byte.
    fn position(&self, at: usize) -> (usize, usize) {
        let begin = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        (self.line(at), 1 + self.text[begin..at].chars().count())
    }
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    message: String,
    place: Option<Place>,
    hint: Option<String>,
}

#[derive(Clone, Debug)]
struct Place {
    source: Arc<Source>,
    span: Range<usize>,
    /// An earlier place that explains this one, with the reason.
    also: Option<(Range<usize>, &'static str)>,
    /// Whether its lines are shown: not where a secret may stand in them.
    shown: bool,
}

/// Whether rendered problems carry terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Bare text.
    Plain,
    /// ANSI colours.
    Colour,
}

impl Paint {
    /// Colours where standard error is a terminal that has them, unless the environment asks for none (`NO_COLOR`,
    /// `CLICOLOR=0`) or for them in any case (`CLICOLOR_FORCE`).
    pub fn for_stderr() -> Self {
        match AutoStream::choice(&std::io::stderr()) {
            ColorChoice::Never => Self::Plain,
            _ => Self::Colour,
        }
    }
}

impl Diagnostic {
    /// A problem that has no place in a text.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            place: None,
            hint: None,
        }
    }

    /// A problem at a range of bytes of a text.
    pub fn at(source: &Arc<Source>, span: Range<usize>, message: impl Into<String>) -> Self {
        let place = Place {
            span: within(&source.text, span),
            source: Arc::clone(source),
            also: None,
            shown: true,
        };
        Self {
            place: Some(place),
            ..Self::new(message)
        }
    }

    /// Where it is in the text: line and column, which count from 1 (columns in characters), and the bytes. None where it
    /// has no place in one.
    pub fn place(&self) -> Option<((usize, usize), Range<usize>)> {
        let Place { source, span, .. } = self.place.as_ref()?;
        Some((source.position(span.start), span.clone()))
    }

    /// What to do about it, where that is known.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what to do about it, where that is known.
    pub(super) fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// Adds another place of the same text, with what it has to do with the problem.
    pub fn also(mut self, span: Range<usize>, reason: &'static str) -> Self {
        if let Some(place) = &mut self.place {
            place.also = Some((within(&place.source.text, span), reason));
        }
        self
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn render(&self, renderer: &Renderer) -> String {
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        if let Some(place) = &self.place {
            group = place.show(group);
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(normalize_untrusted_str(hint)));
        }
        renderer.render(&[group])
    }
}

impl Place {
    fn show<'a>(&'a self, group: Group<'a>) -> Group<'a> {
        // Nothing can be underlined in a text without a character.
        if self.source.text.is_empty() || !self.shown {
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
        if let Some((span, reason)) = &self.also {
            let context = AnnotationKind::Context.span(span.clone());
            snippet = snippet.annotation(context.label(*reason));
        }
        group.element(snippet)
    }

    /// The lines that would be shown, from the first to the last.
    fn lines(&self) -> Range<usize> {
        let also = self.also.as_ref().map_or(&self.span, |(span, _)| span);
        let (start, end) = (self.span.start.min(also.start), self.span.end.max(also.end));
        let text = &self.source.text;
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        begin..text[end..].find('\n').map_or(text.len(), |at| end + at)
    }
}

/// A range that lies within the text and cuts no character.
fn within(text: &str, span: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let end = text.ceil_char_boundary(span.end).max(start);
    start..end
}

/// The problems of a team file: at least one.
#[derive(Clone, Debug)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// All problems, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Puts these and further problems together.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Says more of where they come from, with the first.
    pub(super) fn remark(mut self, what: &str) -> Self {
        if let Some(first) = self.0.first_mut() {
            first.message.push_str(&format!(" ({what})"));
        }
        self
    }

    /// All problems for people, each with `file:line:column`, the text underlined, and a hint.
    pub fn render(&self, paint: Paint) -> String {
        let renderer = match paint {
            Paint::Plain => Renderer::plain(),
            Paint::Colour => Renderer::styled(),
        };
        let shown: Vec<String> = self
            .0
            .iter()
            .take(MAX_SHOWN)
            .map(|problem| problem.render(&renderer))
            .collect();
        let mut text = shown.join("\n\n");
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

/// The problems found so far in one text. Reading goes on after each, so that all are shown at once.
pub(super) struct Problems {
    pub(super) source: Arc<Source>,
    found: RefCell<Vec<Diagnostic>>,
    /// What is written and could not be read, as `schema::places` names it. What seems to be missing may be that.
    unread: RefCell<BTreeSet<String>>,
    /// The files that are named in it.
    files: RefCell<BTreeSet<PathBuf>>,
    /// Where secrets may be written, which were refused: no line with one is shown, whatever else is wrong with it.
    secret: RefCell<Vec<Range<usize>>>,
    /// Whether these are looked for.
    beside: Beside,
}

/// What lies beside a text, in files that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// It has to be there and to fit.
    Looked,
    /// Nothing is made of it, so it may be gone, or elsewhere.
    Left,
}

impl Problems {
    pub(super) fn new(source: Arc<Source>) -> Self {
        Self::with(source, Beside::Looked)
    }

    pub(super) fn with(source: Arc<Source>, beside: Beside) -> Self {
        let (found, unread, files, secret) = Default::default();
        Self {
            source,
            found,
            unread,
            files,
            secret,
            beside,
        }
    }

    /// Whether files that are named are looked for.
    pub(super) fn looks_beside(&self) -> bool {
        self.beside == Beside::Looked
    }

    /// A problem at a place of the text, yet to be added.
    pub(super) fn at(&self, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(&self.source, span.clone(), message)
    }

    /// What is written at a place.
    pub(super) fn text(&self, span: &Range<usize>) -> &str {
        self.source.text.get(span.clone()).unwrap_or_default()
    }

    pub(super) fn add(&self, problem: Diagnostic) {
        self.found.borrow_mut().push(problem);
    }

    /// Whether there are so many that nobody reads what could be said of one more: a few times what is shown, since
    /// they are not found in the order in which they stand.
    pub(super) fn are_many(&self) -> bool {
        self.found.borrow().len() > 5 * MAX_SHOWN
    }

    /// Remembers a file that is named.
    pub(super) fn names(&self, file: PathBuf) {
        self.files.borrow_mut().insert(file);
    }

    /// The files that are named.
    pub(super) fn files(&self) -> BTreeSet<PathBuf> {
        self.files.borrow().clone()
    }

    /// Remembers that what is written there may be secret.
    pub(super) fn hide(&self, span: Range<usize>) {
        self.secret.borrow_mut().push(span);
    }

    /// Remembers that something is written in a place, and could not be read.
    pub(super) fn unread(&self, place: String) {
        self.unread.borrow_mut().insert(place);
    }

    /// Whether all was read that is written in these places, and below those that end in a point.
    pub(super) fn is_read(&self, places: &[&str]) -> bool {
        let lies_in = |unread: &String, place: &str| match place.ends_with('.') {
            true => unread.starts_with(place),
            false => unread == place,
        };
        !self
            .unread
            .borrow()
            .iter()
            .any(|unread| places.iter().any(|place| lies_in(unread, place)))
    }

    /// Fails if anything was found.
    pub(super) fn finish(self) -> Result<(), Diagnostics> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(());
        }
        let secret = self.secret.into_inner();
        for place in found
            .iter_mut()
            .filter_map(|problem| problem.place.as_mut())
        {
            let lines = place.lines();
            place.shown = !secret
                .iter()
                .any(|secret| secret.start <= lines.end && lines.start <= secret.end);
        }
        found.sort_by_key(|problem| problem.place.as_ref().map(|p| p.span.start));
        Err(Diagnostics(found))
    }
}

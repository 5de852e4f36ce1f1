//! Standard error and standard output: all that is told to the operator is written here, so that the live part at the
//! bottom of a terminal is never in its way. What the live part shows is `live`'s.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthChar;

use super::plain::{coloured, json, one_line, plain};
use crate::launch::Notice;
use crate::manifest::Paint;

/// The size of a terminal that does not tell its own, in rows and columns.
const USUAL: (usize, usize) = (24, 80);
/// Takes away what stands below the cursor. That is the live part: the cursor rests at its first character, where what
/// somebody types or a narrower window cannot move it out of place.
const ERASE: &str = "\r\u{1b}[J";

/// What went well.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// What went wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What the operator should look at.
pub(super) const ODD: Style = AnsiColor::Yellow.on_default().bold();
/// What is there for those who look for it.
pub(super) const FAINT: Style = Style::new().dimmed();

/// What is drawn below all that was told.
struct Screen {
    /// The lines of the live part.
    rows: Vec<String>,
    /// Whether they stand on the screen.
    drawn: bool,
    /// Whether they are kept away.
    bare: bool,
    /// Why no more is written to stdout.
    deaf: Option<std::io::Error>,
}

/// There is one standard error, so there is one of it.
static SCREEN: Mutex<Screen> = Mutex::new(Screen {
    rows: Vec::new(),
    drawn: false,
    bare: false,
    deaf: None,
});

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is a terminal that can take back what it shows.
pub(super) fn is_live() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Shows these lines as the live part, each cut at the edge. None take it away.
pub(super) fn show(rows: Vec<String>) {
    let mut screen = screen();
    screen.rows = rows;
    screen.redraw();
}

/// Keeps the live part away while somebody types.
pub(super) struct Bare;

/// Takes the live part away until this is dropped.
pub(super) fn bare() -> Bare {
    let mut screen = screen();
    screen.bare = true;
    screen.redraw();
    Bare
}

impl Drop for Bare {
    fn drop(&mut self) {
        let mut screen = screen();
        screen.bare = false;
        screen.redraw();
    }
}

impl Screen {
    /// Lets something be written where the live part stood, which then stands below it.
    fn above<T>(&mut self, write: impl FnOnce() -> T) -> T {
        if self.drawn {
            let _ = std::io::stderr().write_all(ERASE.as_bytes());
        }
        let written = write();
        if self.drawn {
            self.redraw();
        }
        written
    }

    fn redraw(&mut self) {
        let mut text = if self.drawn {
            ERASE.to_owned()
        } else {
            String::new()
        };
        self.drawn = !self.bare && !self.rows.is_empty();
        if self.drawn {
            let (height, width) = size();
            // One is left free, for what is told.
            let rows: Vec<String> = self
                .rows
                .iter()
                .take(height.saturating_sub(1).max(1))
                .map(|row| cut(row, width))
                .collect();
            text += &rows.join("\r\n");
            text += "\r";
            if rows.len() > 1 {
                text += &format!("\u{1b}[{}A", rows.len() - 1);
            }
        }
        // In one piece, so that it does not flicker.
        let mut error = std::io::stderr().lock();
        let _ = error
            .write_all(text.as_bytes())
            .and_then(|()| error.flush());
    }
}

/// The columns of the terminal.
pub(super) fn columns() -> u16 {
    u16::try_from(size().1).unwrap_or(u16::MAX)
}

/// The rows and columns of the terminal.
fn size() -> (usize, usize) {
    let told = tcgetwinsize(std::io::stderr())
        .ok()
        .map(|size| (size.ws_row.into(), size.ws_col.into()));
    told.filter(|(rows, columns)| *rows > 0 && *columns > 0)
        .unwrap_or(USUAL)
}

/// As much of a line as stays clear of the edge, where terminals begin another.
fn cut(row: &str, width: usize) -> String {
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    row.chars().take_while(fits).collect()
}

/// Writes JSON to stdout, which does nothing to a terminal either.
pub(super) fn show_json(text: &str) {
    print(&json(text));
}

/// Writes a line of data for programs to stdout, as it is. Where that fails, the command goes on, and its end says so:
/// `all_printed`.
pub(super) fn print(line: &str) {
    let mut screen = screen();
    // Data with a hole in it would be worse than data that is cut.
    if screen.deaf.is_some() {
        return;
    }
    let written = screen.above(|| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    });
    screen.deaf = written.err();
}

/// Writes a line for people to stdout. It stays one line, whatever guests put into it.
pub(super) fn show_line(line: &str) {
    print(&one_line(line));
}

/// Writes a text of any number of lines for people to stdout.
pub(super) fn show_text(text: &str) {
    text.split('\n').for_each(show_line);
}

/// Whether nothing that is printed gets to where it goes any more.
pub(super) fn is_deaf() -> bool {
    screen().deaf.is_some()
}

/// Whether all that was printed got to where it goes. A reader that has gone away wants no more, and is no error.
pub(super) fn all_printed() -> std::io::Result<()> {
    screen().deaf.take().map_or(Ok(()), unless_gone)
}

/// An error of writing to stdout, unless it is that the reader has gone away.
pub(super) fn unless_gone(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(error)
    }
}

/// Tells the operator something, on stderr. That nobody listens any more stops no run.
pub(super) fn note(text: impl Display) {
    let text = fit(&text.to_string());
    let _ = screen().above(|| writeln!(std::io::stderr().lock(), "{text}"));
}

/// A text in which nothing but our colours does anything to the terminal.
fn fit(text: &str) -> String {
    match Paint::for_stderr() {
        Paint::Plain => plain(text),
        Paint::Colour => coloured(text),
    }
}

/// Warns the operator.
pub(super) fn warn(text: impl Display) {
    note(format_args!("{} {text}", painted(ODD, "warning:")));
}

/// Tells the operator what came up before a run.
pub(super) fn tell(notice: Notice<'_>) {
    match notice {
        Notice::Note(text) | Notice::Busy(text) => note(text),
        Notice::Warning(text) => warn(text),
    }
}

/// A text in a style, where standard error shows any.
pub(super) fn painted(style: Style, text: &str) -> String {
    match Paint::for_stderr() {
        Paint::Plain => text.to_owned(),
        Paint::Colour => format!("{style}{text}{style:#}"),
    }
}

/// Standard error and standard output for those who write by themselves.
pub(super) enum Stream {
    /// Standard error, for lines that may tell what guests said.
    Log,
    /// Standard output.
    Output,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        screen().above(|| match self {
            Self::Log => std::io::stderr()
                .write_all(fit(&String::from_utf8_lossy(bytes)).as_bytes())
                .map(|()| bytes.len()),
            Self::Output => std::io::stdout().write(bytes),
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Log => std::io::stderr().flush(),
            Self::Output => std::io::stdout().flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn lines_stay_clear_of_the_edge_however_wide_their_letters_are() {
        let check = |row: &str, width: usize, expected: &str| {
            assert_eq!(cut(row, width), expected, "{row} {width}")
        };
        check("abc", 80, "abc");
        check("abc", 4, "abc");
        check("abc", 3, "ab");
        check("abc", 1, "");
        check("abc", 0, "");
        check("\u{6f22}\u{5b57}a", 4, "\u{6f22}");
        check("\u{6f22}\u{5b57}a", 6, "\u{6f22}\u{5b57}a");
    }
}

//! Writes to standard error and standard output. All output goes through this module, so that it
//! does not mix with the live view at the bottom of a terminal. The content of the live view is in
//! `live`.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use strata_host::launch::Notice;
use strata_host::manifest::Paint;
use unicode_width::UnicodeWidthChar;

use super::sanitize::{sanitize, sanitize_json, sanitize_keeping_colours, sanitize_line};

/// The size assumed for a terminal that does not report its own, in rows and columns.
const DEFAULT_SIZE: (usize, usize) = (24, 80);
/// Erases everything below the cursor, which is the live view: the cursor stays at its first
/// character, where typing or a narrower window does not displace it.
const ERASE: &str = "\r\u{1b}[J";

/// For success.
pub(super) const SUCCESS: Style = AnsiColor::Green.on_default();
/// For failure.
pub(super) const FAILURE: Style = AnsiColor::Red.on_default().bold();
/// For what needs the operator's attention.
pub(super) const ATTENTION: Style = AnsiColor::Yellow.on_default().bold();
/// For secondary information.
pub(super) const FAINT: Style = Style::new().dimmed();

/// The state of the terminal.
struct Screen {
    /// The lines of the live view.
    rows: Vec<String>,
    /// Whether they are currently drawn.
    drawn: bool,
    /// Whether drawing is suspended.
    suspended: bool,
    /// The error because of which nothing more is written to stdout.
    stdout_error: Option<std::io::Error>,
}

/// It is global because standard error is.
static SCREEN: Mutex<Screen> = Mutex::new(Screen {
    rows: Vec::new(),
    drawn: false,
    suspended: false,
    stdout_error: None,
});

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether stderr is a terminal that can erase what it shows.
pub(super) fn can_show_live_view() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Draws these lines as the live view, each truncated to the width. An empty list removes it.
pub(super) fn set_live_rows(rows: Vec<String>) {
    let mut screen = screen();
    screen.rows = rows;
    screen.redraw();
}

/// Suspends the live view while the operator types.
pub(super) struct LiveViewSuspension;

/// Removes the live view until the result is dropped.
pub(super) fn suspend_live_view() -> LiveViewSuspension {
    let mut screen = screen();
    screen.suspended = true;
    screen.redraw();
    LiveViewSuspension
}

impl Drop for LiveViewSuspension {
    fn drop(&mut self) {
        let mut screen = screen();
        screen.suspended = false;
        screen.redraw();
    }
}

impl Screen {
    /// Calls `write` with the live view erased, and draws it again below what was written.
    fn write_above<T>(&mut self, write: impl FnOnce() -> T) -> T {
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
        self.drawn = !self.suspended && !self.rows.is_empty();
        if self.drawn {
            let (height, width) = size();
            // One row is left free for permanent lines.
            let rows: Vec<String> = self
                .rows
                .iter()
                .take(height.saturating_sub(1).max(1))
                .map(|row| truncate_to_width(row, width))
                .collect();
            text += &rows.join("\r\n");
            text += "\r";
            if rows.len() > 1 {
                text += &format!("\u{1b}[{}A", rows.len() - 1);
            }
        }
        // A single write prevents flicker.
        let mut error = std::io::stderr().lock();
        let _ = error
            .write_all(text.as_bytes())
            .and_then(|()| error.flush());
    }
}

/// Returns the number of columns of the terminal.
pub(super) fn columns() -> u16 {
    u16::try_from(size().1).unwrap_or(u16::MAX)
}

/// Returns the number of rows and columns of the terminal.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stderr())
        .ok()
        .map(|size| (size.ws_row.into(), size.ws_col.into()));
    size.filter(|(rows, columns)| *rows > 0 && *columns > 0)
        .unwrap_or(DEFAULT_SIZE)
}

/// Truncates a line so that it does not reach the last column, after which terminals begin a new
/// line.
fn truncate_to_width(row: &str, width: usize) -> String {
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    row.chars().take_while(fits).collect()
}

/// Prints JSON to stdout, with invisible characters escaped.
pub(super) fn print_json(text: &str) {
    print(&sanitize_json(text));
}

/// Prints a line of data for programs to stdout, unchanged. If this fails, the command continues,
/// and `take_stdout_error` reports the error at its end.
pub(super) fn print(line: &str) {
    let mut screen = screen();
    // Data with a gap would be worse than data that is truncated.
    if screen.stdout_error.is_some() {
        return;
    }
    let written = screen.write_above(|| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    });
    screen.stdout_error = written.err();
}

/// Prints a line for people to stdout. It remains one line, whatever guests put into it.
pub(super) fn print_line(line: &str) {
    print(&sanitize_line(line));
}

/// Prints a text of any number of lines for people to stdout.
pub(super) fn print_text(text: &str) {
    for line in text.split('\n') {
        print_line(line);
    }
}

/// Returns whether writing to stdout has failed.
pub(super) fn is_stdout_closed() -> bool {
    screen().stdout_error.is_some()
}

/// Returns the error of writing to stdout, if there was one. A reader that has gone away is not an
/// error.
pub(super) fn take_stdout_error() -> std::io::Result<()> {
    screen()
        .stdout_error
        .take()
        .map_or(Ok(()), ignore_broken_pipe)
}

/// Returns an error of writing to stdout, unless the reader has gone away.
pub(super) fn ignore_broken_pipe(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(error)
    }
}

/// Writes a message to the operator to stderr. Failing to write it does not stop a run.
pub(super) fn note(text: impl Display) {
    let text = sanitize_for_stderr(&text.to_string());
    let _ = screen().write_above(|| writeln!(std::io::stderr().lock(), "{text}"));
}

/// Makes a text safe to print, keeping our own colours.
fn sanitize_for_stderr(text: &str) -> String {
    match paint() {
        Paint::Plain => sanitize(text),
        Paint::Colour => sanitize_keeping_colours(text),
    }
}

/// Writes a warning to stderr.
pub(super) fn warn(text: impl Display) {
    note(format_args!("{} {text}", styled(ATTENTION, "warning:")));
}

/// Writes a notice from before a run to stderr.
pub(super) fn report_notice(notice: Notice<'_>) {
    match notice {
        Notice::Note(text) | Notice::Busy(text) => note(text),
        Notice::Warning(text) => warn(text),
    }
}

/// Returns `Colour` if standard error is a terminal with colours, unless the environment disables
/// them (`NO_COLOR`, `CLICOLOR=0`), or if it forces them (`CLICOLOR_FORCE`).
pub(super) fn paint() -> Paint {
    match AutoStream::choice(&std::io::stderr()) {
        ColorChoice::Never => Paint::Plain,
        _ => Paint::Colour,
    }
}

/// Applies a style if stderr shows styles.
pub(super) fn styled(style: Style, text: &str) -> String {
    match paint() {
        Paint::Plain => text.to_owned(),
        Paint::Colour => format!("{style}{text}{style:#}"),
    }
}

/// Standard error or standard output, as a writer.
pub(super) enum Stream {
    /// Standard error, for log lines, which may contain texts of guests.
    Log,
    /// Standard output.
    Output,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        screen().write_above(|| match self {
            Self::Log => std::io::stderr()
                .write_all(sanitize_for_stderr(&String::from_utf8_lossy(bytes)).as_bytes())
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
    use super::truncate_to_width;

    #[test]
    fn lines_stay_clear_of_the_edge_however_wide_their_letters_are() {
        let check = |row: &str, width: usize, expected: &str| {
            assert_eq!(truncate_to_width(row, width), expected, "{row} {width}")
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

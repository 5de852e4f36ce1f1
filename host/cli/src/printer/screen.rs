//! The streams that a printer writes to, and the live view that is drawn below what is written.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthChar;

/// The size assumed for a terminal that does not report its own, in rows and columns.
const DEFAULT_SIZE: (usize, usize) = (24, 80);
/// Erases everything below the cursor, which is the live view: the cursor stays at its first
/// character, where typing or a narrower window does not displace it.
const ERASE: &str = "\r\u{1b}[J";

/// Standard output, standard error, and the live view.
pub(super) struct Screen {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    /// The lines of the live view.
    rows: Vec<String>,
    /// Whether they are currently drawn.
    drawn: bool,
    /// Whether drawing is suspended.
    suspended: bool,
    /// The error because of which nothing more is printed to stdout.
    stdout_error: Option<io::Error>,
}

impl Screen {
    /// Creates a screen of the streams of this process.
    pub(super) fn of_process() -> Self {
        Self::new(Box::new(io::stdout()), Box::new(io::stderr()))
    }

    fn new(stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>) -> Self {
        Self {
            stdout,
            stderr,
            rows: Vec::new(),
            drawn: false,
            suspended: false,
            stdout_error: None,
        }
    }

    /// Prints a line to stdout, unless that has failed before: data with a gap would be worse than
    /// data that is truncated.
    pub(super) fn print(&mut self, line: &str) {
        self.print_piece(format!("{line}\n").as_bytes());
    }

    /// Prints a piece of a document. Nothing is printed after a failure.
    pub(super) fn print_piece(&mut self, bytes: &[u8]) {
        if self.stdout_error.is_none() {
            self.stdout_error = self.write_output(bytes).err();
        }
    }

    /// Writes bytes to stdout and flushes them.
    pub(super) fn write_output(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.erase();
        let written = self
            .stdout
            .write_all(bytes)
            .and_then(|()| self.stdout.flush());
        self.draw_again();
        written
    }

    /// Writes bytes to stderr. There is nowhere to report a failure.
    pub(super) fn write_error(&mut self, bytes: &[u8]) {
        self.erase();
        let _ = self.stderr.write_all(bytes);
        self.draw_again();
    }

    pub(super) fn has_stdout_failed(&self) -> bool {
        self.stdout_error.is_some()
    }

    pub(super) fn take_stdout_error(&mut self) -> Option<io::Error> {
        self.stdout_error.take()
    }

    /// Replaces the lines of the live view.
    pub(super) fn set_rows(&mut self, rows: Vec<String>) {
        self.rows = rows;
        self.redraw();
    }

    /// Suspends or resumes drawing.
    pub(super) fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
        self.redraw();
    }

    /// Erases the live view if it is drawn, without forgetting that it is.
    fn erase(&mut self) {
        if self.drawn {
            let _ = self.stderr.write_all(ERASE.as_bytes());
        }
    }

    fn draw_again(&mut self) {
        if self.drawn {
            self.redraw();
        }
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
        let _ = self
            .stderr
            .write_all(text.as_bytes())
            .and_then(|()| self.stderr.flush());
    }
}

/// Returns the number of rows and columns of the terminal.
pub(super) fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stderr())
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A stream in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_written_stands_above_the_live_view() {
        let (stdout, stderr) = (Memory::default(), Memory::default());
        let mut screen = Screen::new(Box::new(stdout.clone()), Box::new(stderr.clone()));
        screen.write_error(b"before\n");
        assert_eq!(stderr.take(), "before\n");
        screen.set_rows(vec!["one".into(), "two".into()]);
        let view = "one\r\ntwo\r\u{1b}[1A";
        assert_eq!(stderr.take(), view);
        screen.write_error(b"note\n");
        assert_eq!(stderr.take(), format!("{ERASE}note\n{ERASE}{view}"));
        screen.print("data");
        assert_eq!(stderr.take(), format!("{ERASE}{ERASE}{view}"));
        assert_eq!(stdout.take(), "data\n");
        screen.set_suspended(true);
        assert_eq!(stderr.take(), ERASE);
        screen.write_error(b"question\n");
        assert_eq!(stderr.take(), "question\n");
        screen.set_suspended(false);
        assert_eq!(stderr.take(), view);
        screen.set_rows(Vec::new());
        assert_eq!(stderr.take(), ERASE);
    }

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

//! The printer, through which commands write to standard output and standard error. Nothing else
//! writes to them, so that lines do not mix with the live view at the bottom of a terminal. The
//! content of the live view is in `live_view`.

mod document;
mod screen;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use strata_host::launch::Notice;
use strata_host::manifest::{Diagnostics, Paint};

use super::CommandFailure;
use super::advice::describe_advice;
use super::sanitize::{sanitize, sanitize_json, sanitize_keeping_colours, sanitize_line};
pub(super) use document::DocumentText;
use document::DocumentWriter;
use screen::Screen;

/// For success.
pub(super) const SUCCESS: Style = AnsiColor::Green.on_default();
/// For failure.
pub(super) const FAILURE: Style = AnsiColor::Red.on_default().bold();
/// For what needs the operator's attention.
pub(super) const ATTENTION: Style = AnsiColor::Yellow.on_default().bold();
/// For secondary information.
pub(super) const FAINT: Style = Style::new().dimmed();

/// How much is reported about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Only warnings, faults, and the end of a run that is not done.
    Quiet,
    /// Every action.
    Normal,
}

/// What the standard streams are connected to.
#[derive(Clone, Copy, Debug)]
struct Streams {
    is_stdout_terminal: bool,
    is_stderr_terminal: bool,
    /// Whether stderr is a terminal that can erase what it shows.
    can_erase: bool,
    /// Whether stderr shows colours.
    paint: Paint,
}

impl Streams {
    /// Examines the streams of this process.
    fn of_process() -> Self {
        let is_stderr_terminal = io::stderr().is_terminal();
        // The choice considers `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.
        let paint = match AutoStream::choice(&io::stderr()) {
            ColorChoice::Never => Paint::Plain,
            _ => Paint::Colour,
        };
        Self {
            is_stdout_terminal: io::stdout().is_terminal(),
            is_stderr_terminal,
            can_erase: is_stderr_terminal
                && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb"),
            paint,
        }
    }
}

/// Writes to standard output and standard error. Clones write to the same streams.
#[derive(Clone)]
pub(super) struct Printer {
    screen: Arc<Mutex<Screen>>,
    streams: Streams,
    verbosity: Verbosity,
}

impl Printer {
    /// Creates the printer of this process. There must be only one, because each draws a live view
    /// of its own.
    pub(super) fn for_process() -> Self {
        Self {
            screen: Arc::new(Mutex::new(Screen::of_process())),
            streams: Streams::of_process(),
            verbosity: Verbosity::Normal,
        }
    }

    /// Returns a printer for the same streams with another verbosity.
    pub(super) fn with_verbosity(&self, verbosity: Verbosity) -> Self {
        Self {
            verbosity,
            ..self.clone()
        }
    }

    /// Returns whether only warnings and failures are to be reported. The methods of the printer
    /// write what they are given in any case.
    pub(super) fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Data, on standard output.
impl Printer {
    /// Prints a line of data for programs, unchanged. If this fails, the command continues, and
    /// `take_stdout_error` returns the error at its end.
    pub(super) fn print(&self, line: &str) {
        self.screen().print(line);
    }

    /// Prints JSON, with invisible characters escaped.
    pub(super) fn print_json(&self, text: &str) {
        self.print(&sanitize_json(text));
    }

    /// Prints a document that `write` writes in pieces. It may be larger than the memory. If printing
    /// fails, `write` receives an error, and `take_stdout_error` returns it at the end of the command.
    pub(super) fn print_pieces(
        &self,
        text: DocumentText,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CommandFailure> {
        match write(&mut DocumentWriter::new(self, text)) {
            Err(error) if !self.is_stdout_closed() => {
                Err(CommandFailure::internal(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Prints a document as indented JSON.
    pub(super) fn print_document(&self, document: &impl Serialize) -> Result<(), CommandFailure> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| CommandFailure::internal(error.to_string()))?;
        self.print_json(&text);
        Ok(())
    }

    /// Prints a value as JSON, on one line.
    pub(super) fn print_json_line(&self, value: &impl Serialize) -> Result<(), CommandFailure> {
        let text = serde_json::to_string(value)
            .map_err(|error| CommandFailure::internal(error.to_string()))?;
        self.print_json(&text);
        Ok(())
    }

    /// Prints a line for people. It remains one line, whatever guests put into it.
    pub(super) fn print_line(&self, line: &str) {
        self.print(&sanitize_line(line));
    }

    /// Prints a text of any number of lines for people.
    pub(super) fn print_text(&self, text: &str) {
        for line in text.split('\n') {
            self.print_line(line);
        }
    }

    /// Writes bytes and flushes them. Unlike with `print`, the caller handles the error.
    pub(super) fn write_output(&self, bytes: &[u8]) -> io::Result<()> {
        self.screen().write_output(bytes)
    }

    /// Returns the width of tables: the number of columns, or `None` if stdout is not a terminal.
    pub(super) fn table_width(&self) -> Option<u16> {
        self.streams.is_stdout_terminal.then(|| self.columns())
    }

    /// Returns whether printing has failed.
    pub(super) fn is_stdout_closed(&self) -> bool {
        self.screen().has_stdout_failed()
    }

    /// Returns the error of printing, if there was one. A reader that has gone away is not an error.
    pub(super) fn take_stdout_error(&self) -> io::Result<()> {
        let error = self.screen().take_stdout_error();
        error.map_or(Ok(()), ignore_broken_pipe)
    }
}

/// Messages to the operator, on standard error. Failing to write them does not stop a run.
impl Printer {
    /// Writes a message.
    pub(super) fn note(&self, text: impl Display) {
        let text = self.sanitize(&text.to_string()) + "\n";
        self.screen().write_error(text.as_bytes());
    }

    /// Writes a warning.
    pub(super) fn warn(&self, text: impl Display) {
        self.note(format_args!(
            "{} {text}",
            self.styled(ATTENTION, "warning:")
        ));
    }

    /// Writes a notice from before a run.
    pub(super) fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Note(text) | Notice::Busy(text) => self.note(text),
            Notice::Warning(text) => self.warn(text),
            Notice::AdvisedWarning(text, advice) => {
                self.warn(format!("{text}; {}", describe_advice(advice)));
            }
        }
    }

    /// Writes what precedes the input of the operator, without a line feed.
    pub(super) fn prompt(&self, text: &str) {
        self.screen().write_error(text.as_bytes());
    }

    /// Writes a log line, which may contain texts of guests.
    pub(super) fn log(&self, bytes: &[u8]) {
        let text = self.sanitize(&String::from_utf8_lossy(bytes));
        self.screen().write_error(text.as_bytes());
    }

    /// Returns a text with a style, if stderr shows styles.
    pub(super) fn styled(&self, style: Style, text: &str) -> String {
        match self.streams.paint {
            Paint::Plain => text.to_owned(),
            Paint::Colour => format!("{style}{text}{style:#}"),
        }
    }

    /// Renders problems of a file for stderr.
    pub(super) fn render(&self, problems: &Diagnostics) -> String {
        problems.render_with(self.streams.paint, &describe_advice)
    }

    /// Returns whether stderr shows colours.
    pub(super) fn has_colours(&self) -> bool {
        self.streams.paint == Paint::Colour
    }

    /// Returns whether stderr is a terminal.
    pub(super) fn is_stderr_terminal(&self) -> bool {
        self.streams.is_stderr_terminal
    }

    /// Returns the number of columns of the terminal.
    pub(super) fn columns(&self) -> u16 {
        u16::try_from(screen::size().1).unwrap_or(u16::MAX)
    }

    /// Makes a text safe to print, keeping our own colours.
    fn sanitize(&self, text: &str) -> String {
        match self.streams.paint {
            Paint::Plain => sanitize(text),
            Paint::Colour => sanitize_keeping_colours(text),
        }
    }
}

/// The live view, at the bottom of the terminal.
impl Printer {
    /// Returns whether stderr is a terminal that can show it.
    pub(super) fn can_show_live_view(&self) -> bool {
        self.streams.can_erase
    }

    /// Draws these lines, each truncated to the width. An empty list removes the view.
    pub(super) fn set_live_rows(&self, rows: Vec<String>) {
        self.screen().set_rows(rows);
    }

    /// Removes the view until the result is dropped.
    pub(super) fn suspend_live_view(&self) -> LiveViewSuspension {
        self.screen().set_suspended(true);
        LiveViewSuspension(self.clone())
    }
}

/// Suspends the live view while the operator types.
pub(super) struct LiveViewSuspension(Printer);

impl Drop for LiveViewSuspension {
    fn drop(&mut self) {
        self.0.screen().set_suspended(false);
    }
}

/// Writes log lines.
pub(super) struct LogWriter(pub(super) Printer);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.log(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns an error of writing to stdout, unless the reader has gone away.
pub(super) fn ignore_broken_pipe(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(error)
    }
}

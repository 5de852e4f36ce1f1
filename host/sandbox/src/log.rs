//! The guest's output for the operator: log lines and standard streams. It is forwarded at once, up
//! to a limit; the last lines are kept, for the fault or for the record of a success.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use strata_base::text::units::format_bytes;
use strata_core::record::event::Logged;
use tracing::Span;

use strata_services::plugin::{Limit, LimitReached, Plugin};

/// How many lines are kept: enough for a panic's message and what led to it.
const TAIL_LINES: usize = 20;
/// The maximum length of a line that is kept.
const MAX_LINE_BYTES: usize = 4 << 10;
/// How many bytes of lines are recorded about a success, which all readers of the journal load: a
/// screen of text.
const RECORDED_BYTES: usize = 16 << 10;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// The log of one attempt.
#[derive(Debug)]
pub(super) struct GuestLog {
    role: String,
    limit: u64,
    /// The plugin with the limit; `None` if the limit is the host's.
    plugin: Option<Arc<Plugin>>,
    bytes_left: u64,
    is_cut: bool,
    /// How many lines were logged.
    lines: u64,
    tail: VecDeque<String>,
}

impl GuestLog {
    pub(super) fn new(role: &str, plugin: &Arc<Plugin>) -> Self {
        let limit = plugin.limits.log_bytes;
        Self {
            role: role.to_owned(),
            plugin: Some(Arc::clone(plugin)),
            ..Self::for_describe(limit)
        }
    }

    /// Creates the log of a component that describes itself.
    pub(super) fn for_describe(limit: u64) -> Self {
        Self {
            role: "describe".into(),
            limit,
            plugin: None,
            bytes_left: limit,
            is_cut: false,
            lines: 0,
            tail: VecDeque::new(),
        }
    }

    /// Logs a text of one or more lines.
    pub(super) fn write(&mut self, level: LogLevel, text: &str) {
        for line in text.trim_end_matches('\n').split('\n') {
            self.write_line(level, line);
        }
    }

    /// Returns the last lines. They are kept beyond the limit too, because the last output of a
    /// guest explains its fault.
    pub(super) fn tail(&self) -> Vec<String> {
        let note = self.is_cut.then(|| self.limit_note());
        note.into_iter().chain(self.tail.iter().cloned()).collect()
    }

    /// Returns what is recorded if the attempt succeeds: as many of the last lines as are kept. Returns
    /// `None` if nothing was logged.
    pub(super) fn recorded(&self) -> Option<Logged> {
        let mut bytes = 0;
        let fits = |line: &&String| {
            bytes += line.len();
            bytes <= RECORDED_BYTES
        };
        let mut lines: Vec<String> = self.tail.iter().rev().take_while(fits).cloned().collect();
        lines.reverse();
        let left_out = self.lines - lines.len() as u64;
        (!lines.is_empty()).then_some(Logged { lines, left_out })
    }

    fn write_line(&mut self, level: LogLevel, line: &str) {
        self.lines += 1;
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail
            .push_back(truncate(line, MAX_LINE_BYTES).to_owned());
        if self.is_cut {
            return;
        }
        // A line counts one byte more than its text, so that empty lines are limited too.
        let cost = line.len() as u64 + 1;
        let shown = truncate(line, usize::try_from(self.bytes_left).unwrap_or(usize::MAX));
        self.forward(level, shown);
        self.is_cut = cost > self.bytes_left;
        self.bytes_left = self.bytes_left.saturating_sub(cost);
        if self.is_cut {
            self.forward(LogLevel::Warn, &self.limit_note());
        }
    }

    fn limit_note(&self) -> String {
        let limit = format_bytes(self.limit);
        let advice = self.plugin.as_ref().map(|plugin| {
            format!(
                "; {}",
                plugin.advice.for_limit(LimitReached::new(Limit::Log))
            )
        });
        let advice = advice.unwrap_or_default();
        format!("log limit of {limit} reached, the rest is cut{advice}")
    }

    fn forward(&self, level: LogLevel, line: &str) {
        let is_held = HELD.with_borrow_mut(|held| {
            let Some(lines) = held else {
                return false;
            };
            lines.push(HeldLine {
                span: Span::current(),
                role: self.role.clone(),
                level,
                line: line.to_owned(),
            });
            true
        });
        if !is_held {
            forward_line(&self.role, level, line);
        }
    }
}

thread_local! {
    /// The lines that are held back, while attempts run ahead on this thread.
    static HELD: RefCell<Option<Vec<HeldLine>>> = const { RefCell::new(None) };
}

/// A line that is held back.
#[derive(Debug)]
struct HeldLine {
    /// The span in which it was logged.
    span: Span,
    role: String,
    level: LogLevel,
    line: String,
}

/// What attempts have logged, held back until it may be reported. Each of them logs within its limit.
#[derive(Debug, Default)]
pub struct HeldLines(Vec<HeldLine>);

impl HeldLines {
    /// Reports the lines.
    pub fn forward(self) {
        for HeldLine {
            span,
            role,
            level,
            line,
        } in self.0
        {
            span.in_scope(|| forward_line(&role, level, &line));
        }
    }
}

/// Runs a function on this thread, and returns what guests have logged in it instead of reporting it.
pub fn hold_lines<T>(run: impl FnOnce() -> T) -> (T, HeldLines) {
    /// Ends the holding also if the function panics.
    struct EndOfHolding;
    impl Drop for EndOfHolding {
        fn drop(&mut self) {
            HELD.take();
        }
    }
    HELD.set(Some(Vec::new()));
    let _end = EndOfHolding;
    let result = run();
    (result, HeldLines(HELD.take().unwrap_or_default()))
}

fn forward_line(role: &str, level: LogLevel, line: &str) {
    match level {
        LogLevel::Debug => tracing::debug!(target: "guest", role, "{line}"),
        LogLevel::Info => tracing::info!(target: "guest", role, "{line}"),
        LogLevel::Warn => tracing::warn!(target: "guest", role, "{line}"),
        LogLevel::Error => tracing::error!(target: "guest", role, "{line}"),
    }
}

/// Returns at most `limit` bytes of a text, without splitting a character.
fn truncate(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn what_goes_beyond_the_limit_is_cut_and_noted_and_the_last_lines_stay() {
        let mut log = GuestLog::for_describe(10);
        log.write(LogLevel::Info, "one\ntwo\n");
        assert_eq!(log.tail(), ["one", "two"]);
        log.write(LogLevel::Info, "three");
        let note = "log limit of 10 bytes reached, the rest is cut";
        assert_eq!(log.tail(), [note, "one", "two", "three"]);
        for n in 0..100 {
            log.write(LogLevel::Info, &format!("line {n}"));
        }
        assert_eq!(log.tail().len(), TAIL_LINES + 1);
        assert_eq!(log.tail().last().unwrap(), "line 99");
    }

    /// The lines that are reported, for a subscriber.
    #[derive(Clone, Default)]
    struct Reported(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Reported {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_logged_by_an_attempt_that_runs_ahead_is_reported_later() {
        let reported = Reported::default();
        let writer = reported.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let text = || String::from_utf8(reported.0.lock().unwrap().clone()).unwrap();
        tracing::subscriber::with_default(subscriber.finish(), || {
            let mut log = GuestLog::for_describe(1 << 20);
            let ((), held) = hold_lines(|| log.write(LogLevel::Info, "one\ntwo"));
            assert_eq!((text(), log.tail().len()), (String::new(), 2));
            held.forward();
            log.write(LogLevel::Info, "three");
        });
        let at = ["one", "two", "three"].map(|line| text().find(line).unwrap());
        assert!(at.is_sorted(), "{}", text());
    }

    #[test]
    fn the_last_lines_are_recorded_with_how_many_came_before() {
        let mut log = GuestLog::for_describe(1 << 20);
        assert_eq!(log.recorded(), None);
        log.write(LogLevel::Info, "one\ntwo\n");
        let logged = log.recorded().unwrap();
        assert_eq!(
            (logged.lines, logged.left_out),
            (vec!["one".into(), "two".into()], 0)
        );
        for n in 0..30 {
            log.write(LogLevel::Warn, &format!("line {n}"));
        }
        let logged = log.recorded().unwrap();
        assert_eq!((logged.lines.len(), logged.left_out), (TAIL_LINES, 12));
        assert_eq!(logged.lines.last().unwrap(), "line 29");
        log.write(LogLevel::Info, &"x".repeat(MAX_LINE_BYTES));
        for letter in ["a", "b", "c"] {
            log.write(LogLevel::Info, &letter.repeat(MAX_LINE_BYTES));
        }
        let logged = log.recorded().unwrap();
        assert_eq!(logged.lines.len(), RECORDED_BYTES / MAX_LINE_BYTES);
        assert_eq!(logged.left_out, 32);
    }

    #[test]
    fn a_long_line_is_kept_in_part_and_never_split_inside_a_character() {
        let mut log = GuestLog::for_describe(1 << 20);
        log.write(LogLevel::Info, &format!("x{}", "ä".repeat(MAX_LINE_BYTES)));
        assert_eq!(log.tail()[0].len(), MAX_LINE_BYTES - 1);
    }
}

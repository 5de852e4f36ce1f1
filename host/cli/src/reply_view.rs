//! Shows models' replies on stderr while they are received: line by line, each with the name of the
//! role, so that replies to concurrent calls do not mix.

use std::sync::Arc;

use strata_core::record::host_call::HostCallKind;
use strata_host::services::models::{StreamEvent, StreamListener, StreamObserverFactory};

use super::printer::Printer;
use super::sanitize::sanitize;

/// The length at which a line is broken, in characters: what fits next to a name on a terminal of
/// usual width.
const MAX_LINE_CHARS: usize = 80;

/// Returns a factory of observers that show all replies.
pub(super) fn reply_observers(printer: Printer) -> StreamObserverFactory {
    Arc::new(move |call| {
        let mut reply = ReplyView {
            lines: ReplyLines {
                role: call.role.to_owned(),
                partial: String::new(),
            },
            printer: printer.clone(),
        };
        let hear = move |heard: StreamEvent<'_>| {
            for line in reply.lines.receive(heard) {
                reply.printer.note(line);
            }
        };
        (call.kind == HostCallKind::Llm).then(|| Box::new(hear) as StreamListener)
    })
}

/// A reply being shown. What is left of it is shown when it is dropped.
struct ReplyView {
    lines: ReplyLines,
    printer: Printer,
}

impl Drop for ReplyView {
    fn drop(&mut self) {
        if let Some(line) = self.lines.take_partial() {
            self.printer.note(line);
        }
    }
}

/// Splits a reply into lines.
struct ReplyLines {
    role: String,
    /// The beginning of a line that has not ended.
    partial: String,
}

impl ReplyLines {
    /// Takes in a part of the reply, and returns the lines that are now complete.
    fn receive(&mut self, heard: StreamEvent<'_>) -> Vec<String> {
        match heard {
            StreamEvent::Text(text) => text
                .split_inclusive('\n')
                .flat_map(|part| self.add(part))
                .collect(),
            StreamEvent::Restarted => {
                let again = format!("  {}> (broken off)", self.role);
                self.take_partial().into_iter().chain([again]).collect()
            }
        }
    }

    /// Adds a part of a line, which may include its end.
    fn add(&mut self, part: &str) -> Vec<String> {
        let (text, ends) = part
            .strip_suffix('\n')
            .map_or((part, false), |text| (text, true));
        self.partial
            .push_str(&sanitize(&text.replace('\r', "").replace('\t', "    ")));
        let mut lines = Vec::new();
        let partial = std::mem::take(&mut self.partial);
        let mut left = partial.as_str();
        while let Some((end, _)) = left.char_indices().nth(MAX_LINE_CHARS) {
            let words = left[..end]
                .rfind(' ')
                .filter(|at| !left[..*at].trim().is_empty());
            let (line, rest) = left.split_at(words.unwrap_or(end));
            lines.extend(self.with_role(line));
            left = rest.strip_prefix(' ').unwrap_or(rest);
        }
        self.partial = left.to_owned();
        if ends {
            lines.extend(self.take_partial());
        }
        lines
    }

    /// Returns the line that has not ended.
    fn take_partial(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.partial);
        self.with_role(&line)
    }

    /// Returns a line with the role's name, or `None` if it is empty.
    fn with_role(&self, line: &str) -> Option<String> {
        (!line.trim().is_empty()).then(|| format!("  {}> {}", self.role, line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut lines = ReplyLines {
            role: "Eve".to_owned(),
            partial: String::new(),
        };
        let mut shown: Vec<String> = pieces
            .iter()
            .flat_map(|piece| lines.receive(StreamEvent::Text(piece)))
            .collect();
        shown.extend(lines.take_partial());
        shown
    }

    #[test]
    fn replies_become_lines_whatever_pieces_they_come_in() {
        let long = "word ".repeat(20);
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("one", &["  Eve> one"]),
            ("one\r\n\n  two\n", &["  Eve> one", "  Eve>   two"]),
            ("a\tb", &["  Eve> a    b"]),
            ("red \u{1b}[31m\u{7}", &["  Eve> red \u{fffd}[31m\u{fffd}"]),
            (
                &long,
                &[
                    &format!("  Eve> {}", "word ".repeat(16).trim()),
                    "  Eve> word word word word",
                ],
            ),
        ];
        for (text, expected) in cases {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(shown(&letters), expected, "letter by letter");
            assert_eq!(shown(&[text]), expected, "in one piece");
        }
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_cut() {
        let lines = shown(&["ü".repeat(2 * MAX_LINE_CHARS + 1).as_str()]);
        let lengths: Vec<usize> = lines
            .iter()
            .map(|line| line.trim_start_matches("  Eve> ").chars().count())
            .collect();
        assert_eq!(lengths, [MAX_LINE_CHARS, MAX_LINE_CHARS, 1]);
    }

    #[test]
    fn a_reply_that_broke_off_is_marked() {
        let mut lines = ReplyLines {
            role: "Eve".to_owned(),
            partial: "half".to_owned(),
        };
        assert_eq!(
            lines.receive(StreamEvent::Restarted),
            ["  Eve> half", "  Eve> (broken off)"]
        );
    }
}

//! Limits on what a report holds of a very large run: the first and the newest entries of each
//! list, and texts up to a total size.

use std::collections::VecDeque;

/// The limit for all texts of a report together, as HTML. With everything else, a page stays below
/// 40 MiB, which browsers open within seconds.
const MAX_TEXT_BYTES: usize = 12 << 20;
/// The length to which texts are still shown when the limit is reached: enough to recognize them.
const MIN_SHOWN_CHARS: usize = 80;

/// A text that may have been shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The beginning of the text, which is shown.
    pub shown: String,
    /// How many characters follow it and are not shown.
    pub hidden_chars: usize,
}

impl Excerpt {
    /// Returns at most the first `most` characters of `text`.
    pub(super) fn from_text(text: &str, most: usize) -> Self {
        match text.char_indices().nth(most) {
            Some((end, _)) => Self {
                shown: text[..end].to_owned(),
                hidden_chars: text[end..].chars().count(),
            },
            None => Self {
                shown: text.to_owned(),
                hidden_chars: 0,
            },
        }
    }
}

/// The number of bytes that the texts of a page may still take.
#[derive(Debug)]
pub(super) struct TextBudget {
    bytes_left: usize,
    shortened: usize,
}

impl TextBudget {
    pub(super) fn new() -> Self {
        Self::with_bytes(MAX_TEXT_BYTES)
    }

    pub(super) fn with_bytes(bytes: usize) -> Self {
        Self {
            bytes_left: bytes,
            shortened: 0,
        }
    }

    /// Shortens `text` if it exceeds what is left, and subtracts its size.
    pub(super) fn shorten_to_fit(&mut self, text: &mut Excerpt) {
        let mut bytes = 0;
        for (count, (at, c)) in text.shown.char_indices().enumerate() {
            if count >= MIN_SHOWN_CHARS && bytes + max_escaped_bytes(c) > self.bytes_left {
                text.hidden_chars += text.shown[at..].chars().count();
                text.shown.truncate(at);
                self.shortened += 1;
                break;
            }
            bytes += max_escaped_bytes(c);
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Shortens each of `texts` that exceeds what is left.
    pub(super) fn shorten_all_to_fit<'a>(
        &mut self,
        texts: impl IntoIterator<Item = &'a mut Excerpt>,
    ) {
        for text in texts {
            self.shorten_to_fit(text);
        }
    }

    /// Returns how many texts were shortened.
    pub(super) fn shortened(&self) -> usize {
        self.shortened
    }
}

/// Returns the maximum number of bytes that a character takes in the page, escaped or not.
fn max_escaped_bytes(c: char) -> usize {
    match c {
        ' '..='~' if !matches!(c, '&' | '<' | '>' | '"' | '\'') => 1,
        c if c.is_alphanumeric() => c.len_utf8(),
        _ => 10,
    }
}

/// A list that keeps only its first and its newest entries.
#[derive(Clone, Debug)]
pub struct FirstAndNewest<T> {
    first: Vec<T>,
    newest: VecDeque<T>,
    total: usize,
    max_rows: usize,
}

impl<T> FirstAndNewest<T> {
    /// Creates a list that keeps at most `most` entries; one in eight of them are the first ones.
    pub fn at_most(max_rows: usize) -> Self {
        Self {
            first: Vec::new(),
            newest: VecDeque::new(),
            total: 0,
            max_rows,
        }
    }

    /// Creates a list from the entries that remain. `left_out` further entries were dropped
    /// before the entry at index `place`.
    pub(super) fn from_parts(mut rows: Vec<T>, place: usize, left_out: usize) -> Self {
        let newest = VecDeque::from(rows.split_off(place.min(rows.len())));
        let max_rows = rows.len() + newest.len();
        Self {
            first: rows,
            newest,
            total: max_rows + left_out,
            max_rows,
        }
    }

    /// Adds an entry.
    pub fn push(&mut self, row: T) {
        self.total += 1;
        if self.first.len() < self.max_rows / 8 {
            self.first.push(row);
            return;
        }
        if self.newest.len() == self.max_rows - self.max_rows / 8 {
            self.newest.pop_front();
        }
        self.newest.push_back(row);
    }

    /// Returns the entries that were kept, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(&self.newest)
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.newest)
    }

    /// Returns the newest entry.
    pub fn last(&self) -> Option<&T> {
        self.newest.back().or(self.first.last())
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        if self.newest.is_empty() {
            self.first.last_mut()
        } else {
            self.newest.back_mut()
        }
    }

    /// Converts each entry.
    pub(super) fn map<U>(self, convert: impl Fn(T) -> U) -> FirstAndNewest<U> {
        let Self {
            first,
            newest,
            total: all,
            max_rows: most,
        } = self;
        let (first, newest) = (
            first.into_iter().map(&convert).collect(),
            newest.into_iter().map(&convert).collect(),
        );
        FirstAndNewest {
            first,
            newest,
            total: all,
            max_rows: most,
        }
    }

    /// Returns how many entries were added, including those that were not kept.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the index, among the entries that were kept, before which entries were dropped, and
    /// how many were dropped. Returns `None` if all were kept.
    pub fn gap(&self) -> Option<(usize, usize)> {
        let left_out = self.total - self.first.len() - self.newest.len();
        (left_out > 0).then_some((self.first.len(), left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_they_are_too_long_and_where_there_is_no_room() {
        let check = |bytes: usize, text: &str, most: usize, shown: &str, cut: usize| {
            let mut fitted = Excerpt::from_text(text, most);
            TextBudget::with_bytes(bytes).shorten_to_fit(&mut fitted);
            assert_eq!(
                fitted,
                Excerpt {
                    shown: shown.into(),
                    hidden_chars: cut
                },
                "{text}"
            );
        };
        check(1000, "short", 10, "short", 0);
        check(1000, "exactly", 7, "exactly", 0);
        check(1000, "too long", 3, "too", 5);
        check(1000, "äöü€", 2, "äö", 2);
        check(0, &"x".repeat(100), 1000, &"x".repeat(MIN_SHOWN_CHARS), 20);
        check(90, &"x".repeat(100), 1000, &"x".repeat(90), 10);
        check(90, &"x".repeat(100), 95, &"x".repeat(90), 10);
        // Each counts as ten bytes, since it may have to be escaped.
        check(900, &"<".repeat(100), 1000, &"<".repeat(90), 10);
    }

    #[test]
    fn room_is_used_up_and_what_is_shortened_for_that_is_counted() {
        let mut budget = TextBudget::with_bytes(100);
        for cut in [0, 99 - MIN_SHOWN_CHARS, 99 - MIN_SHOWN_CHARS] {
            let mut text = Excerpt::from_text(&"x".repeat(99), 1000);
            budget.shorten_to_fit(&mut text);
            assert_eq!(text.hidden_chars, cut);
        }
        assert_eq!(budget.shortened(), 2);
    }

    #[test]
    fn the_first_and_the_newest_rows_are_kept() {
        let check = |count: usize, expected: &[usize], gap: Option<(usize, usize)>| {
            let mut kept = FirstAndNewest::at_most(8);
            for row in 0..count {
                kept.push(row);
            }
            assert_eq!(kept.iter().copied().collect::<Vec<_>>(), expected);
            assert_eq!(
                (kept.gap(), kept.total(), kept.last()),
                (gap, count, expected.last())
            );
        };
        check(0, &[], None);
        check(1, &[0], None);
        check(8, &[0, 1, 2, 3, 4, 5, 6, 7], None);
        check(9, &[0, 2, 3, 4, 5, 6, 7, 8], Some((1, 1)));
        check(100, &[0, 93, 94, 95, 96, 97, 98, 99], Some((1, 92)));
    }
}

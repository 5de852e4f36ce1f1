//! The messages of a run, in the order in which they were made. The first of them, which no longer
//! change, may be stored in pages that are read only when one of their messages is needed.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use crate::record::message::Message;
use crate::state::kept_bytes::{encoded_messages_bytes, message_bytes};

/// A message of an environment, by its index in `Environment::messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageRef(pub u32);

/// Messages that may be stored elsewhere until one of them is needed.
pub trait MessagePage: fmt::Debug + Send + Sync {
    /// Returns how many there are. The number never changes.
    fn count(&self) -> usize;

    /// Returns all of them, oldest first. They never change.
    fn messages(&self) -> &[Arc<Message>];

    /// Returns how long they are. For this, none of them is read.
    fn size(&self) -> TextSize;

    /// Returns the size of their encoded form, which is not compressed, in bytes. For this, none of them is read.
    fn plain_bytes(&self) -> u64;
}

/// How long messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSize {
    /// The size of their contents, in bytes.
    pub content_bytes: u64,
    /// Whether each of them has a label.
    pub all_labelled: bool,
}

impl TextSize {
    /// The size of no messages.
    pub const ZERO: Self = Self {
        content_bytes: 0,
        all_labelled: true,
    };

    /// Returns the size of a message.
    pub fn from_message(message: &Message) -> Self {
        Self {
            content_bytes: message.content.len() as u64,
            all_labelled: !message.cause_by.is_empty(),
        }
    }

    /// Returns the size of these and of other messages.
    pub fn plus(self, other: Self) -> Self {
        Self {
            content_bytes: self.content_bytes.saturating_add(other.content_bytes),
            all_labelled: self.all_labelled && other.all_labelled,
        }
    }
}

/// Consecutive messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSpan {
    /// Their indices.
    pub places: Range<usize>,
    /// How long they are.
    pub size: TextSize,
}

/// All messages of a run, each once.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pages: Vec<IndexedPage>,
    /// The messages after those in pages.
    own: Vec<Arc<Message>>,
    /// About how many bytes of memory all of them take.
    kept_bytes: u64,
}

#[derive(Clone, Debug)]
struct IndexedPage {
    /// The index of the first message after the page.
    end: usize,
    page: Arc<dyn MessagePage>,
}

impl Messages {
    /// Returns messages that consist of pages, oldest first, and the messages after them.
    pub fn new(
        pages: impl IntoIterator<Item = Arc<dyn MessagePage>>,
        own: Vec<Arc<Message>>,
    ) -> Self {
        let (mut end, mut kept_bytes) = (0, own.iter().map(|own| message_bytes(own)).sum());
        let paged = |page: Arc<dyn MessagePage>| {
            end += page.count();
            kept_bytes += page_bytes(&*page);
            IndexedPage { end, page }
        };
        Self {
            pages: pages.into_iter().map(paged).collect(),
            own,
            kept_bytes,
        }
    }

    /// Returns how many messages there are.
    pub fn len(&self) -> usize {
        self.paged_len() + self.own.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the message at an index. Panics if there is none.
    pub fn get(&self, place: usize) -> &Arc<Message> {
        if let Some(at) = place.checked_sub(self.paged_len()) {
            return &self.own[at];
        }
        let index = self.pages.partition_point(|paged| paged.end <= place);
        let IndexedPage { end, page } = &self.pages[index];
        &page.messages()[place + page.count() - end]
    }

    /// Returns the newest message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.len().checked_sub(1).map(|place| self.get(place))
    }

    /// Changes the message at an index. Panics if there is none.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut Arc<Message>)) {
        while place < self.paged_len()
            && let Some(IndexedPage { page, .. }) = self.pages.pop()
        {
            let read = page.messages();
            self.kept_bytes -= page_bytes(&*page);
            self.kept_bytes += read
                .iter()
                .map(|message| message_bytes(message))
                .sum::<u64>();
            self.own.splice(..0, read.iter().cloned());
        }
        let at = place - self.paged_len();
        let message = &mut self.own[at];
        self.kept_bytes -= message_bytes(message);
        change(message);
        self.kept_bytes += message_bytes(message);
    }

    /// Appends a message.
    pub fn push(&mut self, message: Arc<Message>) {
        self.kept_bytes += message_bytes(&message);
        self.own.push(message);
    }

    /// Returns about how many bytes of memory all messages take. What is in pages is as large as if it
    /// were read.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Returns all messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.range(0..self.len())
    }

    /// Returns the messages in a range, oldest first. Other pages are not read. The iterator panics
    /// at an index without a message.
    pub fn range(
        &self,
        places: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        places.map(|place| self.get(place))
    }

    /// Returns the sizes of all messages, oldest first. Those in a page are measured together, so that
    /// the page need not be read.
    pub fn spans(&self) -> impl Iterator<Item = MessageSpan> {
        let paged = self
            .pages
            .iter()
            .map(|IndexedPage { end, page }| MessageSpan {
                places: end - page.count()..*end,
                size: page.size(),
            });
        let own = (self.paged_len()..).zip(&self.own);
        let own = own.map(|(place, message)| MessageSpan {
            places: place..place + 1,
            size: TextSize::from_message(message),
        });
        paged.chain(own)
    }

    /// Returns how many messages are in pages.
    fn paged_len(&self) -> usize {
        self.pages.last().map_or(0, |paged| paged.end)
    }
}

fn page_bytes(page: &dyn MessagePage) -> u64 {
    encoded_messages_bytes(page.count(), page.plain_bytes())
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        Self::new([], messages.into_iter().collect())
    }
}

/// Whether messages are stored in pages does not matter.
impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A page that counts how often it is read.
    #[derive(Debug)]
    struct CountingPage(Vec<Arc<Message>>, AtomicUsize);

    impl MessagePage for CountingPage {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn messages(&self) -> &[Arc<Message>] {
            self.1.fetch_add(1, Ordering::Relaxed);
            &self.0
        }

        fn size(&self) -> TextSize {
            TextSize {
                content_bytes: self.0.iter().map(|m| m.content.len() as u64).sum(),
                all_labelled: true,
            }
        }

        fn plain_bytes(&self) -> u64 {
            10 * self.0.len() as u64
        }
    }

    fn numbered_messages(places: Range<usize>) -> Vec<Arc<Message>> {
        let message = |n| {
            Message::from_user(
                alloc::format!("m{n}").as_str().into(),
                "said".into(),
                "label".into(),
            )
        };
        places.map(|n| Arc::new(message(n))).collect()
    }

    /// Returns messages up to the last of these indices, in pages that end at the others.
    fn paged(ends: &[usize]) -> (Vec<Arc<CountingPage>>, Messages) {
        let starts = [0].iter().chain(ends);
        let mut parts: Vec<_> = starts
            .zip(ends)
            .map(|(start, end)| numbered_messages(*start..*end))
            .collect();
        let own = parts.pop().expect("there are some");
        let pages: Vec<_> = parts
            .into_iter()
            .map(|part| Arc::new(CountingPage(part, AtomicUsize::new(0))))
            .collect();
        let messages = Messages::new(
            pages
                .iter()
                .map(|page| page.clone() as Arc<dyn MessagePage>),
            own,
        );
        (pages, messages)
    }

    #[test]
    fn it_does_not_matter_in_which_pages_messages_lie() {
        let plain: Messages = numbered_messages(0..10).into_iter().collect();
        for ends in [
            &[10][..],
            &[10, 10],
            &[4, 10],
            &[1, 2, 9, 10],
            &[0, 3, 3, 10],
        ] {
            let (_, mut messages) = paged(ends);
            assert_eq!((messages.len(), &messages), (10, &plain), "{ends:?}");
            assert!(
                messages.iter().rev().eq(plain.iter().rev()) && messages.last() == plain.last()
            );
            messages.push(numbered_messages(10..11).remove(0));
            assert_eq!(messages.get(10).id.0, "m10");
            assert_ne!(messages, plain);
        }
        assert!(paged(&[0]).1.is_empty());
    }

    #[test]
    fn only_pages_are_read_whose_messages_are_asked_for() {
        let (pages, messages) = paged(&[3, 6, 9, 12]);
        let read = || {
            pages
                .iter()
                .map(|page| page.1.load(Ordering::Relaxed))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (messages.len(), messages.last().map(|last| &*last.id.0)),
            (12, Some("m11"))
        );
        assert_eq!(
            (messages.range(9..12).count(), read()),
            (3, [0, 0, 0].into())
        );
        assert_eq!(messages.get(3).id.0, "m3");
        assert_eq!(
            (messages.range(5..7).count(), read()),
            (2, [0, 2, 1].into())
        );
    }

    #[test]
    fn the_sizes_of_pages_are_known_without_reading_them() {
        let (pages, messages) = paged(&[3, 6, 8]);
        let spans: Vec<_> = messages.spans().collect();
        let places: Vec<_> = spans.iter().map(|span| span.places.clone()).collect();
        assert_eq!(places, [0..3, 3..6, 6..7, 7..8]);
        let bytes: Vec<_> = spans.iter().map(|span| span.size.content_bytes).collect();
        assert_eq!(bytes, [12, 12, 4, 4]);
        assert!(pages.iter().all(|page| page.1.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn what_is_changed_is_in_no_page_any_more_and_all_others_stay() {
        for place in [0, 2, 3, 8, 9, 11] {
            let (pages, mut messages) = paged(&[3, 6, 9, 12]);
            let [changed] = numbered_messages(99..100).try_into().expect("one");
            messages.update(place, |message| *message = changed.clone());
            let in_pages = messages.pages.iter().map(|paged| page_bytes(&*paged.page));
            let own = messages.own.iter().map(|own| message_bytes(own));
            assert_eq!(messages.kept_bytes(), in_pages.chain(own).sum::<u64>());
            let mut expected = numbered_messages(0..12);
            expected[place] = changed;
            assert!(messages.iter().eq(&expected), "{place}");
            assert_eq!(pages[0].0, numbered_messages(0..3));
        }
    }
}

//! The messages of a run, in the order in which they were made. The first of them, which nothing changes any more, may lie
//! in pages that are read when one of their messages is first asked for.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::message::Message;

/// Messages that may lie elsewhere until one of them is asked for.
pub trait Page: fmt::Debug + Send + Sync {
    /// How many there are. Never another number.
    fn count(&self) -> usize;

    /// All of them, oldest first. Never others.
    fn messages(&self) -> &[Arc<Message>];
}

/// All messages of a run, each once.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pages: Vec<Paged>,
    /// Those after the pages.
    own: Vec<Arc<Message>>,
}

#[derive(Clone, Debug)]
struct Paged {
    /// The place of the first message after it.
    end: usize,
    page: Arc<dyn Page>,
}

impl Messages {
    /// Messages in pages, oldest first, and those after them.
    pub fn new(pages: impl IntoIterator<Item = Arc<dyn Page>>, own: Vec<Arc<Message>>) -> Self {
        let mut end = 0;
        let paged = |page: Arc<dyn Page>| {
            end += page.count();
            Paged { end, page }
        };
        Self {
            pages: pages.into_iter().map(paged).collect(),
            own,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.paged() + self.own.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message at a place. Panics where there is none.
    pub fn get(&self, place: usize) -> &Arc<Message> {
        if let Some(at) = place.checked_sub(self.paged()) {
            return &self.own[at];
        }
        let index = self.pages.partition_point(|paged| paged.end <= place);
        let Paged { end, page } = &self.pages[index];
        &page.messages()[place + page.count() - end]
    }

    /// The newest message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.len().checked_sub(1).map(|place| self.get(place))
    }

    /// The message at a place, to be changed. Panics where there is none.
    pub fn get_mut(&mut self, place: usize) -> &mut Arc<Message> {
        while place < self.paged()
            && let Some(Paged { page, .. }) = self.pages.pop()
        {
            self.own.splice(..0, page.messages().iter().cloned());
        }
        let at = place - self.paged();
        &mut self.own[at]
    }

    /// Adds one after all others.
    pub fn push(&mut self, message: Arc<Message>) {
        self.own.push(message);
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.range(0..self.len())
    }

    /// Those at some places, oldest first. Pages that have none of them stay where they are. The iterator panics where
    /// there is none.
    pub fn range(
        &self,
        places: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        places.map(|place| self.get(place))
    }

    /// How many lie in pages.
    fn paged(&self) -> usize {
        self.pages.last().map_or(0, |paged| paged.end)
    }
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        Self {
            pages: Vec::new(),
            own: messages.into_iter().collect(),
        }
    }
}

/// Where they lie does not matter.
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
    struct Counted(Vec<Arc<Message>>, AtomicUsize);

    impl Page for Counted {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn messages(&self) -> &[Arc<Message>] {
            self.1.fetch_add(1, Ordering::Relaxed);
            &self.0
        }
    }

    fn made(places: Range<usize>) -> Vec<Arc<Message>> {
        let message = |n| {
            Message::of_user(
                alloc::format!("m{n}").as_str().into(),
                "said".into(),
                "label".into(),
            )
        };
        places.map(|n| Arc::new(message(n))).collect()
    }

    /// Messages up to the last of these places, in pages that end at the others.
    fn paged(ends: &[usize]) -> (Vec<Arc<Counted>>, Messages) {
        let starts = [0].iter().chain(ends);
        let mut parts: Vec<_> = starts
            .zip(ends)
            .map(|(start, end)| made(*start..*end))
            .collect();
        let own = parts.pop().expect("there are some");
        let pages: Vec<_> = parts
            .into_iter()
            .map(|part| Arc::new(Counted(part, AtomicUsize::new(0))))
            .collect();
        let messages = Messages::new(pages.iter().map(|page| page.clone() as Arc<dyn Page>), own);
        (pages, messages)
    }

    #[test]
    fn it_does_not_matter_in_which_pages_messages_lie() {
        let plain: Messages = made(0..10).into_iter().collect();
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
            messages.push(made(10..11).remove(0));
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
    fn what_is_changed_is_in_no_page_any_more_and_all_others_stay() {
        for place in [0, 2, 3, 8, 9, 11] {
            let (pages, mut messages) = paged(&[3, 6, 9, 12]);
            let [changed] = made(99..100).try_into().expect("one");
            *messages.get_mut(place) = changed.clone();
            let mut expected = made(0..12);
            expected[place] = changed;
            assert!(messages.iter().eq(&expected), "{place}");
            assert_eq!(pages[0].0, made(0..3));
        }
    }
}

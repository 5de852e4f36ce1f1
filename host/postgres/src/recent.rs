//! What the leases of this process changed lately in a database, so that it can be changed in the same way once more
//! if the database goes back to an earlier state (`restore`).
//!
//! Changes are dropped when newer ones take their place, not when time passes: while the server is
//! away, nothing is changed, and what it lost is needed when it is back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_records::encoded_events::{EncodedEvents, KnownEvent};
use strata_records::mailbox::{MailId, MailReply};
use strata_records::run_change::RunChange;

/// How old a change may be when another is made: a standby that lags further behind should not become the primary.
const KEPT_TIME: Duration = Duration::from_secs(60);
/// About how much memory the changes of a lease take, and those of all leases of this process together.
const MAX_LEASE_BYTES: u64 = 16 << 20;
const MAX_BYTES: u64 = 64 << 20;

/// About how much memory an event or another change takes besides its texts.
const ROW_BYTES: u64 = 128;

/// What the leases of this process changed lately in a database.
#[derive(Debug, Default)]
pub(super) struct RecentChanges(Mutex<KeptChanges>);

impl RecentChanges {
    /// Whether a lease of a run stored the reply to a request lately.
    pub(super) fn have_answered(&self, run: i64, request: MailId) -> bool {
        let kept = self.lock();
        let of_run = kept.leases.values().filter(|lease| lease.run == run);
        let numbers = of_run.flat_map(|lease| &lease.changes);
        let mut changes = numbers.filter_map(|number| kept.changes.get(number));
        changes.any(|one| {
            let mut replies = replies(&one.change).iter();
            replies.any(|reply| reply.id == request)
        })
    }

    fn lock(&self) -> MutexGuard<'_, KeptChanges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one lease changed lately. Dropping it forgets that.
#[derive(Debug)]
pub(super) struct LeaseChanges {
    all: Arc<RecentChanges>,
    /// The number of the lease.
    lease: u64,
}

impl LeaseChanges {
    /// Begins with a lease of a run whose newest event is `newest`, if its lineage has any.
    pub(super) fn begin(all: Arc<RecentChanges>, run: i64, newest: Option<KnownEvent>) -> Self {
        let lease = all.lock().add_lease(run, newest);
        Self { all, lease }
    }

    /// Notes a change that was made after all others of the lease.
    pub(super) fn note(&self, change: RunChange) {
        self.all.lock().note(self.lease, change, Instant::now());
    }

    /// Returns what the lease changed lately.
    pub(super) fn history(&self) -> ChangeHistory {
        self.all.lock().history(self.lease)
    }
}

impl Drop for LeaseChanges {
    fn drop(&mut self) {
        self.all.lock().remove_lease(self.lease);
    }
}

/// What a lease changed lately.
#[derive(Debug, Default)]
pub(super) struct ChangeHistory {
    /// The newest event before these changes, if the lineage had any then.
    base: Option<KnownEvent>,
    /// In the order in which they were made.
    changes: Vec<RunChange>,
}

impl ChangeHistory {
    /// Returns the last event of each change that added any, and the one before them.
    pub(super) fn ends(&self) -> Vec<KnownEvent> {
        let added = self.changes.iter().filter_map(last_event);
        self.base.into_iter().chain(added).collect()
    }

    /// Returns the changes that a database may lack which has `stored` of these events, by key. Returns `None` if the
    /// database is not in an earlier state that the history reaches back to: if it is older, or has other events.
    pub(super) fn missing(&self, stored: &BTreeMap<i64, i64>) -> Option<&[RunChange]> {
        let is_stored = |event: &KnownEvent| match stored.get(&event.key) {
            Some(sum) if *sum == i64::from(event.sum) => Some(true),
            Some(_) => None,
            None => Some(false),
        };
        if let Some(base) = &self.base
            && !is_stored(base)?
        {
            return None;
        }
        let mut first = 0;
        let mut is_behind = false;
        for (n, change) in self.changes.iter().enumerate() {
            let Some(last) = last_event(change) else {
                continue;
            };
            if !is_stored(&last)? {
                is_behind = true;
            } else if is_behind {
                return None;
            } else {
                // All that was done before an event is there with it.
                first = n + 1;
            }
        }
        self.changes.get(first..)
    }
}

fn last_event(change: &RunChange) -> Option<KnownEvent> {
    change.events()?.last()
}

/// Returns the replies that are stored with a change.
fn replies(change: &RunChange) -> &[MailReply] {
    match change {
        RunChange::Events(new) => &new.replies,
        _ => &[],
    }
}

/// Returns about how much memory a change takes.
fn memory_of(change: &RunChange) -> u64 {
    let rows = 1 + change.events().map_or(0, EncodedEvents::count) as u64;
    let texts: usize = match change {
        RunChange::Definition(definition) => definition.text.len(),
        RunChange::Note { name, text } => name.len() + text.len(),
        change => replies(change).iter().map(|one| one.reply.body.len()).sum(),
    };
    change.added_bytes() + texts as u64 + ROW_BYTES * rows
}

#[derive(Debug, Default)]
struct KeptChanges {
    /// By number, in the order in which they were made.
    changes: BTreeMap<u64, KeptChange>,
    /// By number.
    leases: BTreeMap<u64, LeaseHistory>,
    /// About how much memory all changes take.
    bytes: u64,
    next_number: u64,
}

#[derive(Debug)]
struct KeptChange {
    lease: u64,
    made: Instant,
    bytes: u64,
    change: RunChange,
}

#[derive(Debug)]
struct LeaseHistory {
    run: i64,
    /// The newest event before the changes, if the lineage had any then.
    base: Option<KnownEvent>,
    /// The numbers of the changes.
    changes: VecDeque<u64>,
    bytes: u64,
}

impl KeptChanges {
    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn add_lease(&mut self, run: i64, newest: Option<KnownEvent>) -> u64 {
        let lease = self.new_number();
        let history = LeaseHistory {
            run,
            base: newest,
            changes: VecDeque::new(),
            bytes: 0,
        };
        self.leases.insert(lease, history);
        lease
    }

    fn remove_lease(&mut self, lease: u64) {
        let history = self.leases.remove(&lease);
        for number in history.iter().flat_map(|history| &history.changes) {
            if let Some(change) = self.changes.remove(number) {
                self.bytes -= change.bytes;
            }
        }
    }

    /// Adds a change, and forgets others that have become too old, or for which there is no room.
    fn note(&mut self, lease: u64, change: RunChange, now: Instant) {
        let number = self.new_number();
        let Some(history) = self.leases.get_mut(&lease) else {
            return;
        };
        let kept = KeptChange {
            lease,
            made: now,
            bytes: memory_of(&change),
            change,
        };
        history.changes.push_back(number);
        history.bytes += kept.bytes;
        self.bytes += kept.bytes;
        self.changes.insert(number, kept);
        while let Some(history) = self.leases.get(&lease)
            && history.bytes > MAX_LEASE_BYTES
        {
            self.forget_oldest(lease);
        }
        while let Some(oldest) = self.changes.values().next()
            && (self.bytes > MAX_BYTES || now.duration_since(oldest.made) > KEPT_TIME)
        {
            let lease = oldest.lease;
            self.forget_oldest(lease);
        }
    }

    /// Forgets the oldest change of a lease.
    fn forget_oldest(&mut self, lease: u64) {
        let Some(history) = self.leases.get_mut(&lease) else {
            return;
        };
        let number = history.changes.pop_front();
        if let Some(change) = number.and_then(|number| self.changes.remove(&number)) {
            history.bytes -= change.bytes;
            self.bytes -= change.bytes;
            history.base = last_event(&change.change).or(history.base);
        }
    }

    fn history(&self, lease: u64) -> ChangeHistory {
        let Some(history) = self.leases.get(&lease) else {
            return ChangeHistory::default();
        };
        let numbers = history.changes.iter();
        let changes = numbers.filter_map(|number| self.changes.get(number));
        ChangeHistory {
            base: history.base,
            changes: changes.map(|kept| kept.change.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_base::scripted_run::pseudorandom;
    use strata_records::lineage::StoredLineage;
    use strata_records::run_change::NewEvents;
    use strata_records::scripted_records::scripted_run;

    /// Returns changes that add one event each.
    fn additions(count: usize) -> Vec<RunChange> {
        let (records, _) = scripted_run(&pseudorandom(51, 1000), count);
        let mut line = StoredLineage::first("main");
        let mut added = Vec::new();
        for record in &records {
            let record = std::slice::from_ref(record);
            let events = EncodedEvents::following(&mut line, record);
            added.push(events_with(&line, events, Vec::new()));
        }
        added
    }

    fn events_with(
        line: &StoredLineage,
        events: EncodedEvents,
        replies: Vec<MailReply>,
    ) -> RunChange {
        RunChange::Events(Arc::new(NewEvents {
            line: line.clone(),
            events,
            writes_row: false,
            shown: None,
            replies,
        }))
    }

    /// A change that takes this much memory.
    fn note_of(bytes: usize) -> RunChange {
        RunChange::note("", &"x".repeat(bytes))
    }

    fn stored(events: &[KnownEvent]) -> BTreeMap<i64, i64> {
        let rows = events.iter().map(|event| (event.key, event.sum.into()));
        rows.collect()
    }

    /// Returns how many changes of a lease are kept.
    fn kept(changes: &KeptChanges, lease: u64) -> usize {
        changes.history(lease).changes.len()
    }

    #[test]
    fn what_a_database_lacks_are_the_changes_after_the_last_event_that_it_has() {
        let mut changes = additions(5);
        changes.insert(3, note_of(1));
        let mut history = ChangeHistory {
            base: None,
            changes,
        };
        let ends = history.ends();
        let missing = |history: &ChangeHistory, events: &[KnownEvent]| {
            history.missing(&stored(events)).map(<[_]>::len)
        };
        for (there, expected) in [(5, 0), (4, 1), (3, 3), (2, 4), (0, 6)] {
            assert_eq!(missing(&history, &ends[..there]), Some(expected), "{there}");
        }
        // What follows the last event may be missing although all events are there.
        history.changes.push(note_of(1));
        assert_eq!(missing(&history, &ends), Some(1));

        let mut hole = ends.clone();
        hole.remove(2);
        assert_eq!(missing(&history, &hole), None);
        let mut others = ends.clone();
        others[4].sum ^= 1;
        assert_eq!(missing(&history, &others), None);
    }

    #[test]
    fn a_database_that_is_older_than_what_is_kept_is_not_in_an_earlier_state_of_it() {
        let mut changes = KeptChanges::default();
        let (lease, now) = (changes.add_lease(1, None), Instant::now());
        let mut ends = Vec::new();
        for change in additions(4) {
            ends.extend(last_event(&change));
            changes.note(lease, change, now);
        }
        changes.forget_oldest(lease);
        changes.forget_oldest(lease);
        let history = changes.history(lease);
        let missing = |there: usize| history.missing(&stored(&ends[..there])).map(<[_]>::len);
        assert_eq!(
            [missing(3), missing(2), missing(1)],
            [Some(1), Some(2), None]
        );
        assert_eq!(missing(0), None);
    }

    #[test]
    fn changes_are_forgotten_when_newer_ones_are_made() {
        let mut changes = KeptChanges::default();
        let [one, other] = [(); 2].map(|()| changes.add_lease(1, None));
        let begin = Instant::now();
        let after = |seconds: u64| begin + Duration::from_secs(seconds);
        changes.note(one, note_of(1), begin);
        changes.note(one, note_of(1), after(30));
        changes.note(other, note_of(1), after(60));
        assert_eq!([kept(&changes, one), kept(&changes, other)], [2, 1]);
        changes.note(other, note_of(1), after(61));
        assert_eq!([kept(&changes, one), kept(&changes, other)], [1, 2]);
        // Nothing is made while the server is away.
        changes.note(one, note_of(1), after(600));
        assert_eq!([kept(&changes, one), kept(&changes, other)], [1, 0]);
    }

    #[test]
    fn changes_take_a_limited_amount_of_memory() {
        let mut changes = KeptChanges::default();
        let now = Instant::now();
        let leases: Vec<u64> = (0..6).map(|run| changes.add_lease(run, None)).collect();
        for lease in &leases {
            for _ in 0..5 {
                changes.note(*lease, note_of(4 << 20), now);
            }
            assert_eq!(
                kept(&changes, *lease),
                3,
                "four would be too large with their rows"
            );
            assert!(changes.bytes <= MAX_BYTES);
        }
        // The oldest changes made room for those of others.
        assert_eq!(kept(&changes, leases[0]), 0);
        changes.note(leases[5], note_of(MAX_LEASE_BYTES as usize), now);
        assert_eq!(kept(&changes, leases[5]), 0);
        for lease in leases {
            changes.remove_lease(lease);
        }
        assert_eq!((changes.bytes, changes.changes.len()), (0, 0));
    }

    #[test]
    fn an_answer_is_known_as_long_as_its_events_are_kept() {
        let all = Arc::new(RecentChanges::default());
        let lease = LeaseChanges::begin(Arc::clone(&all), 7, None);
        let request = MailId::EXAMPLE;
        let reply = MailReply {
            id: request,
            reply: strata_base::owner::RunReply::refused("no"),
        };
        let line = StoredLineage::first("main");
        lease.note(events_with(&line, EncodedEvents::default(), vec![reply]));
        let same_number = MailId {
            sent_us: request.sent_us + 1,
            ..request
        };
        assert!(all.have_answered(7, request));
        assert!(!all.have_answered(8, request) && !all.have_answered(7, same_number));
        drop(lease);
        assert!(!all.have_answered(7, request));
    }
}

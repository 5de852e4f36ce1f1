//! Events as they are stored, apart from where.

use super::codec;
use super::lineage::{StoredLineage, event_key, position_of_key};
use super::{Record, concerns_checkpoint};

/// Encoded events.
#[derive(Debug, Default)]
pub struct EncodedEvents(Vec<EncodedEvent>);

/// The row of an event.
#[derive(Debug)]
pub struct EncodedEvent {
    /// Its key, its first public line and how many it has, its time and its marks.
    pub numbers: [i64; 5],
    /// The checksum of the numbers and the body.
    pub sum: u32,
    /// The event, encoded.
    pub body: Vec<u8>,
}

/// An event whose checksum is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEvent {
    /// Its key.
    pub key: i64,
    /// Its checksum.
    pub sum: u32,
}

impl KnownEvent {
    /// Returns the newest event of a lineage, if it has any of its own.
    pub fn newest_of(line: &StoredLineage) -> Option<Self> {
        (line.events > line.start()).then(|| Self {
            key: event_key(line.id, line.events),
            sum: line.last_checksum,
        })
    }
}

/// Returns the numbers in the row of an event: its key, its first public line, the number of its lines, its
/// time and whether it concerns a checkpoint.
fn event_numbers(n: i64, record: &Record) -> [i64; 5] {
    [
        n,
        record.line as i64,
        record.lines.into(),
        record.time_ms,
        concerns_checkpoint(&record.event).into(),
    ]
}

impl EncodedEvents {
    /// Encodes records that follow the events of a lineage, and counts them there.
    pub fn following(line: &mut StoredLineage, records: &[Record]) -> Self {
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            let body = codec::encode_event(&record.event, Vec::new());
            let numbers = event_numbers(event_key(line.id, line.events + 1), record);
            let sum = codec::checksum(&numbers, &body);
            line.count_event(&record.event, body.len(), sum);
            events.push(EncodedEvent { numbers, sum, body });
        }
        Self(events)
    }

    /// Returns the same events of a lineage with another key.
    pub fn moved_to(&self, lineage: i64) -> Self {
        let moved = |event: &EncodedEvent| {
            let mut numbers = event.numbers;
            numbers[0] = event_key(lineage, position_of_key(numbers[0]));
            EncodedEvent {
                numbers,
                sum: codec::checksum(&numbers, &event.body),
                body: event.body.clone(),
            }
        };
        Self(self.0.iter().map(moved).collect())
    }

    /// Returns the rows in the order of the events.
    pub fn iter(&self) -> impl Iterator<Item = &EncodedEvent> {
        self.0.iter()
    }

    /// Returns the size of their bodies in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|event| event.body.len() as u64).sum()
    }

    /// Returns the time of the last one.
    pub fn time_ms(&self) -> Option<i64> {
        let [.., time_ms, _] = self.0.last()?.numbers;
        Some(time_ms)
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the last one.
    pub fn last(&self) -> Option<KnownEvent> {
        self.0.last().map(|event| KnownEvent {
            key: event.numbers[0],
            sum: event.sum,
        })
    }
}

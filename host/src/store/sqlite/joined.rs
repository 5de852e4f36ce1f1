//! A team that shares a log with others: what it hands over there, and how the next run takes that in.
//!
//! The database has every event as soon as it is committed; what the log adds is that it survives a loss of power. An
//! entry is events that follow each other in one lineage: its number (8 bytes), the place of the first (8), then for
//! each its first public line (8), how many (4), its time (8), its length (4) and its bytes; numbers little-endian. Or, in
//! place of a lineage, `KNOWN`, and what is known of `team.json`, as JSON.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use strata_core::event::Event;

use super::known::KnownFile;
use super::log::Log;
use super::{LOG_PAGES, SqliteStore};
use crate::store::directory::LOG;
use crate::store::error::StoreError;
use crate::store::group::{GroupLog, Link, Member, links};
use crate::store::{Durability, Record, Store, codec};

/// Says that an entry is about `team.json`.
const KNOWN: i64 = -1;

/// How often a team commits together with others before it syncs its own log, about. Otherwise all of that would be left
/// for when it is moved into the database, and the others would wait behind it.
const MAX_TOGETHER: u32 = 64;

/// A team's part in a shared log.
#[derive(Debug)]
pub(super) struct Joined {
    member: Member,
    /// The events since the last that are safe, on their way.
    entry: Vec<u8>,
    /// Whether there is more that has to be safe than events.
    beside: bool,
    /// How often it committed together with others since it synced its own log.
    together: u32,
}

impl Joined {
    pub(super) fn new(group: &GroupLog, directory: &Path) -> io::Result<Self> {
        // The link lasts once the directory is synced, with the team's own log.
        Ok(Self {
            member: group.join(directory)?,
            entry: Vec::new(),
            beside: true,
            together: 0,
        })
    }

    /// About so much, for each team in another way: those that do the same work do not move their logs, or sync them, at
    /// the same moment, in which nobody would be left to go on.
    fn about(&self, number: u32) -> u32 {
        const TURNS: u32 = 16;
        number * 3 / 4 + number / 2 * self.member.turn(TURNS.into()) as u32 / TURNS
    }

    /// Something was committed that is no event.
    pub(super) fn note_other(&mut self) {
        self.beside = true;
        self.entry.clear();
    }

    /// An event is about to be committed at a place in a lineage.
    pub(super) fn note(&mut self, (lineage, at): (i64, i64), record: &Record, body: &[u8]) {
        if self.beside {
            return;
        }
        if self.entry.is_empty() {
            self.entry.extend(lineage.to_le_bytes());
            self.entry.extend(at.to_le_bytes());
        }
        self.entry.extend(record.line.to_le_bytes());
        self.entry.extend(record.lines.to_le_bytes());
        self.entry.extend(record.time_ms.to_le_bytes());
        self.entry.extend((body.len() as u32).to_le_bytes());
        self.entry.extend(body);
    }

    /// Makes what was noted safe, and what is known of `team.json`. Gives whether it is; if not, the team's own log has to
    /// be synced.
    pub(super) fn commit(&mut self, known: Option<&KnownFile>) -> bool {
        let is_safe = !self.beside
            && self.together < self.about(MAX_TOGETHER)
            && (self.entry.is_empty() || self.member.commit(&self.entry))
            && known.is_none_or(|known| self.member.commit(&encoded(known)));
        if is_safe {
            self.entry.clear();
            self.together += 1;
        }
        is_safe
    }

    /// Syncs the team's own log.
    pub(super) fn sync(&mut self, log: &mut Log) -> io::Result<()> {
        let generation = self.member.generation();
        log.sync()?;
        self.member.synced(log.file(), generation);
        self.entry.clear();
        (self.beside, self.together) = (false, 0);
        Ok(())
    }
}

fn encoded(known: &KnownFile) -> Vec<u8> {
    let known = serde_json::json!([known.current, known.next, known.stamp]).to_string();
    [&KNOWN.to_le_bytes(), known.as_bytes()].concat()
}

impl SqliteStore {
    /// Lets full appends be made safe together with those of other teams, where that can be done.
    pub fn join(&mut self, group: &GroupLog) {
        match Joined::new(group, &self.lock.path) {
            Ok(joined) => {
                self.log_pages = joined.about(LOG_PAGES);
                // The next sync is that of its own log, and of the names in the directory.
                (self.joined, self.log) = (Some(joined), None);
            }
            Err(error) => {
                let path = self.lock.path.display();
                tracing::warn!(
                    "the team in `{path}` syncs by itself, since it cannot share a log: {error}"
                );
            }
        }
    }

    /// Takes in what a shared log has of this team, whose last run was cut off. Without a loss of power the database has
    /// it already.
    pub(super) fn take_in(&mut self) -> Result<(), StoreError> {
        let links = links(&self.lock.path)?;
        let mut found = Vec::new();
        for link in &links {
            found.extend(link.entries()?.into_iter().map(|entry| (link, entry)));
        }
        let mut entries = found
            .iter()
            .map(|(link, bytes)| Entry::read(link, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(|entry| entry.first);
        for entry in entries {
            match entry.known {
                Some(known) => self.know_again(&known)?,
                None => self.take_in_events(entry)?,
            }
        }
        if links.is_empty() {
            return Ok(());
        }
        // Without a log, all is in the database itself, which was synced when the log was moved there.
        if self.lock.path.join(LOG).exists() {
            self.sync_log()?;
        }
        links.iter().try_for_each(Link::remove)
    }

    fn take_in_events(&mut self, entry: Entry<'_>) -> Result<(), StoreError> {
        let Entry {
            link,
            lineage,
            first,
            events,
            ..
        } = entry;
        // Who turned to another lineage synced what came before.
        if lineage != self.line.id {
            return Ok(());
        }
        let last = self.line.events;
        let Ok(known) = usize::try_from(last.saturating_add(1).saturating_sub(first)) else {
            return Err(link.corrupt(format!(
                "the database ends with event {last}, this goes on with event {first}"
            )));
        };
        let decode = |(head, body): (Head, &[u8])| Ok(head.with(codec::decode_event(body)?));
        let records = events
            .into_iter()
            .skip(known)
            .map(decode)
            .collect::<Result<Vec<Record>, codec::Damage>>();
        let records =
            records.map_err(|damage| link.corrupt(format!("an event in it: {damage}")))?;
        self.append(&records, Durability::Process)
    }
}

/// An entry that was read.
struct Entry<'a> {
    link: &'a Link,
    lineage: i64,
    first: i64,
    events: Vec<(Head, &'a [u8])>,
    /// What is known of `team.json`, in place of events.
    known: Option<KnownFile>,
}

/// What an entry says of an event.
struct Head {
    line: u64,
    lines: u32,
    time_ms: i64,
}

impl Head {
    fn with(self, event: Event) -> Record {
        Record {
            line: self.line,
            lines: self.lines,
            time_ms: self.time_ms,
            event,
        }
    }
}

impl<'a> Entry<'a> {
    fn read(link: &'a Link, bytes: &'a [u8]) -> Result<Self, StoreError> {
        let read = || {
            let (lineage, rest) = bytes.split_first_chunk()?;
            let lineage = i64::from_le_bytes(*lineage);
            let mut events = Vec::new();
            if lineage == KNOWN {
                let [current, next, stamp] = serde_json::from_slice(rest).ok()?;
                let known = Some(KnownFile {
                    current,
                    next,
                    stamp,
                });
                return Some(Self {
                    link,
                    lineage,
                    first: i64::MAX,
                    events,
                    known,
                });
            }
            let (first, mut left) = rest.split_first_chunk()?;
            while !left.is_empty() {
                let (line, rest) = left.split_first_chunk()?;
                let (lines, rest) = rest.split_first_chunk()?;
                let (time_ms, rest) = rest.split_first_chunk()?;
                let (length, rest) = rest.split_first_chunk()?;
                let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                let (line, lines) = (u64::from_le_bytes(*line), u32::from_le_bytes(*lines));
                events.push((
                    Head {
                        line,
                        lines,
                        time_ms: i64::from_le_bytes(*time_ms),
                    },
                    body,
                ));
                left = rest;
            }
            Some(Self {
                link,
                lineage,
                first: i64::from_le_bytes(*first),
                events,
                known: None,
            })
        };
        read().ok_or_else(|| link.corrupt("an entry in it cannot be decoded".into()))
    }
}

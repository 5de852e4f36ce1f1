//! A team that shares a log with others: what it writes there, and how its next run restores that.
//!
//! The database has every event as soon as it is committed; the group log makes it survive a loss
//! of power. An entry consists of successive events of one lineage: the key of the lineage (8
//! bytes), the position of the first event (8), then for each event its first public line (8), the
//! number of its lines (4), its time (8), its length (4) and its bytes. All numbers are
//! little-endian.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use strata_core::record::event::Event;

use super::wal_file::WalFile;
use super::{LOG_PAGES, SqliteLease};
use crate::storage::directory::names::WAL_FILE;
use crate::storage::error::StoreError;
use crate::storage::group_log::{GroupLog, LogLink, Member, log_links};
use crate::storage::{Durability, Lease, Record, codec};

/// About how often a team commits together with others before it syncs its own WAL. Otherwise, all
/// of that would have to be synced when the WAL is moved into the database, and the others would
/// have to wait for it.
const MAX_GROUP_COMMITS: u32 = 64;

/// What a database commits together with those of other teams: its membership in the group log, and
/// the entry that is to be written there next.
#[derive(Debug)]
pub(super) struct GroupCommit {
    member: Member,
    /// The encoded events that are not durable yet.
    entry: Vec<u8>,
    /// Whether changes other than events have to be made durable as well.
    has_other_changes: bool,
    /// How often it committed together with others since it synced its own WAL.
    commits_since_sync: u32,
}

impl GroupCommit {
    pub(super) fn new(group: &GroupLog, directory: &Path) -> io::Result<Self> {
        // The link becomes durable when the directory is synced, together with the team's own WAL.
        Ok(Self {
            member: group.join(directory)?,
            entry: Vec::new(),
            has_other_changes: true,
            commits_since_sync: 0,
        })
    }

    /// Returns about `number`, but a different value for each member: so teams that do the same
    /// work do not move or sync their WALs at the same moment, at which no other team could
    /// continue.
    fn staggered(&self, number: u32) -> u32 {
        const SLOTS: u32 = 16;
        number * 3 / 4 + number / 2 * self.member.slot_of(SLOTS.into()) as u32 / SLOTS
    }

    /// Notes that something other than an event was committed.
    pub(super) fn note_other_change(&mut self) {
        self.has_other_changes = true;
        self.entry.clear();
    }

    /// Adds an event that is about to be committed at a position in a lineage.
    pub(super) fn add_event(&mut self, lineage: i64, at: i64, record: &Record, body: &[u8]) {
        if self.has_other_changes {
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

    /// Makes the events that were added durable. Returns whether it has; if not, the team's own WAL
    /// has to be synced.
    pub(super) fn commit(&mut self) -> bool {
        let is_durable = !self.has_other_changes
            && self.commits_since_sync < self.staggered(MAX_GROUP_COMMITS)
            && (self.entry.is_empty() || self.member.commit(&self.entry));
        if is_durable {
            self.entry.clear();
            self.commits_since_sync += 1;
        }
        is_durable
    }

    /// Syncs the team's own WAL.
    pub(super) fn sync(&mut self, log: &mut WalFile) -> io::Result<()> {
        let generation = self.member.generation();
        log.sync()?;
        self.member.note_synced(log.file(), generation);
        self.entry.clear();
        (self.has_other_changes, self.commits_since_sync) = (false, 0);
        Ok(())
    }
}

impl SqliteLease {
    /// Makes full appends durable together with those of other teams, if possible.
    pub(super) fn join_group(&mut self, group: &GroupLog) {
        match GroupCommit::new(group, &self.lock.path) {
            Ok(joined) => {
                self.max_log_pages = joined.staggered(LOG_PAGES);
                // The next full append syncs its own WAL and the directory.
                (self.group_commit, self.wal_file) = (Some(joined), None);
            }
            Err(error) => {
                let path = self.lock.path.display();
                tracing::warn!(
                    "the team in `{path}` syncs by itself, since it cannot share a log: {error}"
                );
            }
        }
    }

    /// Restores from group logs what they have of this team, if its last run was killed. Unless
    /// power was lost, the database has all of it already.
    pub(super) fn restore_from_group_logs(&mut self) -> Result<(), StoreError> {
        let links = log_links(&self.lock.path)?;
        let mut found = Vec::new();
        for link in &links {
            found.extend(link.entries()?.into_iter().map(|entry| (link, entry)));
        }
        let mut entries = found
            .iter()
            .map(|(link, bytes)| GroupLogEntry::read(link, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(|entry| entry.first);
        for entry in entries {
            self.restore_events(entry)?;
        }
        if links.is_empty() {
            return Ok(());
        }
        // Without a log, everything is in the database file itself, which was synced when the log
        // was moved there.
        if self.lock.path.join(WAL_FILE).exists() {
            self.sync_log()?;
        }
        for link in &links {
            link.remove()?;
        }
        Ok(())
    }

    fn restore_events(&mut self, entry: GroupLogEntry<'_>) -> Result<(), StoreError> {
        let GroupLogEntry {
            link,
            lineage,
            first,
            events,
        } = entry;
        // Before a team switches to another lineage, it syncs the events of the previous one.
        if lineage != self.current.line().id {
            return Ok(());
        }
        let last = self.current.line().events;
        let Ok(known) = usize::try_from(last.saturating_add(1).saturating_sub(first)) else {
            return Err(link.corrupt(format!(
                "the database ends with event {last}, this goes on with event {first}"
            )));
        };
        let mut records = Vec::new();
        for (head, body) in events.into_iter().skip(known) {
            let event = codec::decode_event(body)
                .map_err(|damage| link.corrupt(format!("an event in it: {damage}")))?;
            records.push(head.into_record(event));
        }
        self.append(&records, Durability::Process)
    }
}

/// An entry that was read.
struct GroupLogEntry<'a> {
    link: &'a LogLink,
    lineage: i64,
    first: i64,
    events: Vec<(RecordHeader, &'a [u8])>,
}

/// What an entry says of an event, without the event itself.
struct RecordHeader {
    line: u64,
    lines: u32,
    time_ms: i64,
}

impl RecordHeader {
    fn into_record(self, event: Event) -> Record {
        Record {
            line: self.line,
            lines: self.lines,
            time_ms: self.time_ms,
            event,
        }
    }
}

impl<'a> GroupLogEntry<'a> {
    fn read(link: &'a LogLink, bytes: &'a [u8]) -> Result<Self, StoreError> {
        let read = || {
            let (lineage, rest) = bytes.split_first_chunk()?;
            let lineage = i64::from_le_bytes(*lineage);
            let mut events = Vec::new();
            let (first, mut left) = rest.split_first_chunk()?;
            while !left.is_empty() {
                let (line, rest) = left.split_first_chunk()?;
                let (lines, rest) = rest.split_first_chunk()?;
                let (time_ms, rest) = rest.split_first_chunk()?;
                let (length, rest) = rest.split_first_chunk()?;
                let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                let (line, lines) = (u64::from_le_bytes(*line), u32::from_le_bytes(*lines));
                events.push((
                    RecordHeader {
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
            })
        };
        read().ok_or_else(|| link.corrupt("an entry in it cannot be decoded".into()))
    }
}

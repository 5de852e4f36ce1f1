//! Appends events: writes them to the log, and waits for the disk.

use super::SqliteLease;
use super::write::EventInsertion;
use crate::current_lineage::NewBranch;
use crate::error::StoreError;
use crate::lineage::{StoredLineage, StoredRun, event_key};
use crate::{Append, Appending, Durability, OtherWork, Record, codec};

/// How much of the buffer for events is kept for the next append. Larger events are rare.
const MAX_KEPT_BUFFER_BYTES: usize = 1 << 20;

/// Events that were written, and whose append is not finished.
struct WrittenEvents {
    /// Their lineage, with them.
    line: StoredLineage,
    /// The lineage that begins with them, if one does.
    branch: Option<NewBranch>,
}

/// Begins to append events. If the owner has other work, the disk is still working when this returns;
/// otherwise, the append is done.
pub(super) fn begin_append<'a>(lease: &'a mut SqliteLease, append: Append<'a>) -> Appending<'a> {
    let Append {
        records,
        durability,
        other_work,
        ..
    } = append;
    if records.is_empty() {
        return Appending::Done(Ok(()));
    }
    // The first sync also syncs the directory.
    let is_separable = other_work == OtherWork::Some
        && durability == Durability::Full
        && lease.connection.is_directory_synced();
    let written = match write_events(lease, records) {
        Ok(written) => written,
        Err(error) => return Appending::Done(Err(error)),
    };
    if is_separable {
        lease.connection.begin_sync();
    }
    let finish = move || {
        if durability == Durability::Full {
            lease.connection.sync_log()?;
        }
        finish_append(lease, written, records)
    };
    match is_separable {
        true => Appending::Written(Box::new(finish)),
        false => Appending::Done(finish()),
    }
}

/// Writes events to the log.
fn write_events(lease: &mut SqliteLease, records: &[Record]) -> Result<WrittenEvents, StoreError> {
    // Once a millisecond is enough: events that follow each other within one are few.
    let time_ms = records.last().map(|record| record.time_ms);
    if time_ms != lease.directory_checked_ms {
        lease.connection.check_directory()?;
        lease.directory_checked_ms = time_ms;
    }
    let branch = NewBranch::beginning_with(records, &lease.connection.reader)?;
    if branch.is_some() {
        lease.write_row_if_behind()?;
    }
    let next_run = branch.as_ref().map(|branch| StoredRun {
        lineage: match branch.becomes_current {
            true => branch.line.id,
            false => lease.run.lineage,
        },
        next_line: branch.next_line as i64,
        ..lease.run.clone()
    });
    let before = branch
        .as_ref()
        .map_or(lease.current.line(), |new| &new.line);
    let mut line = before.clone();
    let mut buffer = std::mem::take(&mut lease.buffer);
    let result = lease.commit(|conn| {
        if let (Some(branch), Some(run)) = (&branch, &next_run) {
            branch.line.insert(conn)?;
            run.write(conn)?;
        }
        let mut insertion = EventInsertion::prepare(conn)?;
        for record in records {
            buffer.clear();
            buffer = codec::encode_event(&record.event, std::mem::take(&mut buffer));
            let sum = insertion.insert(event_key(line.id, line.events + 1), record, &buffer)?;
            line.count_event(&record.event, buffer.len(), sum);
        }
        let is_due = branch.is_some() || lease.current.is_row_due(&line);
        if is_due {
            line.update(conn)?;
        }
        Ok(is_due)
    });
    buffer.clear();
    buffer.shrink_to(MAX_KEPT_BUFFER_BYTES);
    lease.buffer = buffer;
    let is_row_written = result?;
    if let Some(run) = next_run {
        lease.run = run;
    }
    lease
        .connection
        .progress
        .count_changes(records.len() as u64);
    if is_row_written && branch.is_none() {
        lease.note_row_written(&line);
    }
    Ok(WrittenEvents { line, branch })
}

/// Finishes an append whose events are as durable as they have to be.
fn finish_append(
    lease: &mut SqliteLease,
    written: WrittenEvents,
    records: &[Record],
) -> Result<(), StoreError> {
    lease.connection.progress.flush();
    let WrittenEvents { line, branch } = written;
    match branch {
        None => lease.current.note_appended(line, records),
        Some(branch) if branch.becomes_current => lease.continue_with(line.id)?,
        Some(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{loaded_state, replay};
    use crate::script::pseudorandom;
    use crate::script::{definition, scripted_run};
    use crate::{Lease, ReplacePolicy, StateSelector, StorageDirectory};

    /// Appends events, and returns whether the disk was still working when the append had begun.
    fn is_disk_working(
        lease: &mut SqliteLease,
        records: &[Record],
        durability: Durability,
        other_work: OtherWork,
    ) -> bool {
        let appending = lease.begin_append(Append {
            other_work,
            ..Append::new(records, durability)
        });
        let is_working = matches!(appending, Appending::Written(_));
        appending.finish_blocking().unwrap();
        is_working
    }

    #[test]
    fn the_disk_works_beside_an_owner_with_other_work_once_the_directory_is_synced() {
        use Durability::{Full, Process};
        let (records, _) = scripted_run(&pseudorandom(13, 3000), 60);
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let created = directory.create(ReplacePolicy::Never, &replay(&[]), &definition());
        let mut lease = created.unwrap().lease;
        let cases = [
            (10, Full, OtherWork::Some, false),
            (10, Full, OtherWork::Some, true),
            (10, Full, OtherWork::None, false),
            (10, Process, OtherWork::Some, false),
            (0, Full, OtherWork::Some, false),
        ];
        let mut at = 0;
        for (count, durability, other_work, expected) in cases {
            let next = &records[at..at + count];
            let found = is_disk_working(&mut lease, next, durability, other_work);
            assert_eq!(
                found, expected,
                "event {at}, {durability:?}, {other_work:?}"
            );
            at += count;
        }
        lease.append(&records[at..], Full).unwrap();
        assert_eq!(lease.records(0, usize::MAX).unwrap(), records);
        let saved = lease.load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), replay(&records));
    }
}

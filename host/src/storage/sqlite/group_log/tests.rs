//! What a group log has made durable is there: after half of it was overwritten, with a torn end,
//! and if it becomes impossible to write to.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use super::*;

/// A team that uses a log like a store does.
struct TestMember {
    directory: TempDir,
    member: Member,
    own_wal: Arc<File>,
    /// The entries that only the group log made durable.
    durable: VecDeque<Vec<u8>>,
}

impl TestMember {
    fn new(group: &GroupLog) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let member = group.join(directory.path()).unwrap();
        let own_wal = Arc::new(File::create(directory.path().join("own")).unwrap());
        let team = Self {
            directory,
            member,
            own_wal,
            durable: VecDeque::new(),
        };
        team.member
            .note_synced(&team.own_wal, team.member.generation());
        team
    }

    fn commit(&mut self, entry: Vec<u8>) -> bool {
        let generation = self.member.generation();
        let is_durable = self.member.commit(&entry);
        if is_durable {
            self.durable.push_back(entry);
        } else {
            self.member.note_synced(&self.own_wal, generation);
            self.durable.clear();
        }
        is_durable
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let [link] = &log_links(self.directory.path()).unwrap()[..] else {
            panic!("there is one link")
        };
        link.entries().unwrap()
    }

    /// Checks that the log ends with the entries that it has to have.
    fn check(&self) {
        let read = self.read();
        let expected = Vec::from(self.durable.clone());
        assert!(
            read.ends_with(&expected),
            "of {} entries the last {} are not there",
            read.len(),
            expected.len()
        );
    }
}

/// Returns an entry that differs from all others.
fn entry(team: usize, n: usize) -> Vec<u8> {
    let mut entry = vec![(team * 31 + n) as u8; n * 7919 % MAX_ENTRY_BYTES];
    entry.extend([team, n].map(usize::to_le_bytes).concat());
    entry.truncate(MAX_ENTRY_BYTES);
    entry
}

#[test]
fn what_was_made_safe_is_there_however_often_the_log_begins_anew() {
    let group = GroupLog::new();
    let mut idle = TestMember::new(&group);
    assert!(idle.commit(b"once".to_vec()));
    std::thread::scope(|threads| {
        for team in 0..4 {
            let group = &group;
            threads.spawn(move || {
                let mut own = TestMember::new(group);
                let alone = (0..300).filter(|n| {
                    let is_durable = own.commit(entry(team, *n));
                    if n % 50 == 49 {
                        own.check();
                    }
                    !is_durable
                });
                let alone = alone.count();
                assert!(
                    (1..30).contains(&alone),
                    "of 300 entries {alone} were not taken"
                );
            });
        }
    });
    let state = group.log.lock();
    assert!(state.generation >= 2, "generation {}", state.generation);
    // Its entries were overwritten, so its own WAL was synced first.
    assert!(state.members[&idle.member.id].synced_generation + 1 >= state.generation);
}

#[test]
fn the_log_ends_where_a_batch_was_torn() {
    let group = GroupLog::new();
    let [mut one, mut two] = [TestMember::new(&group), TestMember::new(&group)];
    for n in 0..5 {
        assert!(one.commit(entry(1, n)) && two.commit(entry(2, n)));
    }
    assert_eq!([one.read().len(), two.read().len()], [5, 5]);
    let bytes = std::fs::read(&one.member.link).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let file = File::options().write(true).open(&one.member.link).unwrap();
    file.write_all_at(&[!bytes[last]], last as u64).unwrap();
    assert_eq!([one.read().len(), two.read().len()], [5, 4]);
}

#[test]
fn teams_sync_by_themselves_when_the_log_cannot_be_written() {
    let group = GroupLog::new();
    let mut team = TestMember::new(&group);
    assert!(team.commit(entry(1, 1)));
    group
        .log
        .lock()
        .file
        .as_mut()
        .unwrap()
        .forbid_writing(&team.member.link);
    assert!(!team.commit(entry(1, 2)));
    assert!(!team.commit(entry(1, 3)));
    assert_eq!(team.read(), [entry(1, 1)]);
    // Once all members have left, a new file is created.
    drop(team);
    let mut team = TestMember::new(&group);
    assert!(team.commit(entry(2, 1)));
    team.check();
}

#[test]
fn a_panic_while_the_log_is_written_keeps_no_team_waiting_and_loses_nothing() {
    let group = GroupLog::new();
    let [mut one, mut two] = [TestMember::new(&group), TestMember::new(&group)];
    assert!(one.commit(entry(1, 1)) && two.commit(entry(2, 1)));
    let (panic_now, message) = std::sync::mpsc::channel();
    group.log.lock().file.as_mut().unwrap().panic_on(message);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| one.commit(entry(1, 2)));
        let wait_until = |is_so: &dyn Fn(&GroupLogState) -> bool| {
            while !is_so(&group.log.lock()) {
                std::thread::yield_now();
            }
        };
        wait_until(&|state| state.started_batches == 3);
        let waiting = threads.spawn(|| {
            let taken = two.member.commit(&entry(2, 2));
            (two, taken)
        });
        // Its entry belongs to the batch after the one that is being written.
        wait_until(&|state| state.batch_entries == 1);
        panic_now.send(()).unwrap();
        assert!(writer.join().is_err());
        let (two, taken) = waiting.join().unwrap();
        assert!(!taken, "the team syncs its own WAL instead");
        two.check();
        // The log stays broken until all of its members have left.
        assert!(!two.member.commit(&entry(2, 3)));
    });
    one.check();
    drop(one);
    let mut three = TestMember::new(&group);
    assert!(three.commit(entry(3, 1)));
    three.check();
}

#[test]
fn a_log_lasts_as_long_as_a_team_belongs_to_it() {
    let group = GroupLog::new();
    let [mut one, mut two] = [TestMember::new(&group), TestMember::new(&group)];
    assert!(one.commit(entry(1, 1)) && two.commit(entry(2, 1)));
    let names = |team: &TestMember| std::fs::read_dir(team.directory.path()).unwrap().count();
    assert_eq!([names(&one), names(&two)], [2, 2]);
    let TestMember {
        directory, member, ..
    } = one;
    drop(member);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let mut three = TestMember::new(&group);
    assert!(two.commit(entry(2, 2)) && three.commit(entry(3, 1)));
    two.check();
    three.check();
    drop((two, three));
    // The next team creates another file.
    let mut four = TestMember::new(&group);
    assert!(four.commit(entry(4, 1)));
    assert_eq!(four.read(), [entry(4, 1)]);
}

#[test]
fn what_is_large_or_cannot_be_linked_is_left_to_its_team() {
    let group = GroupLog::new();
    let mut team = TestMember::new(&group);
    assert!(!team.commit(vec![1; MAX_ENTRY_BYTES + 1]));
    assert!(team.commit(vec![1; MAX_ENTRY_BYTES]));
    assert!(group.join(Path::new("/proc/self")).is_err());
    assert!(team.commit(b"goes on".to_vec()));
    team.check();
}

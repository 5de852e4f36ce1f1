//! What a shared log has made durable is there: after half of it was overwritten, with a torn end,
//! and if it becomes impossible to write to.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use super::*;

/// A team that uses a log like a store does.
struct Team {
    directory: TempDir,
    member: Member,
    own: Arc<File>,
    /// The entries that only the shared log made durable.
    kept: VecDeque<Vec<u8>>,
}

impl Team {
    fn new(group: &GroupLog) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let member = group.join(directory.path()).unwrap();
        let own = Arc::new(File::create(directory.path().join("own")).unwrap());
        let team = Self {
            directory,
            member,
            own,
            kept: VecDeque::new(),
        };
        team.member.synced(&team.own, team.member.generation());
        team
    }

    fn commit(&mut self, entry: Vec<u8>) -> bool {
        let generation = self.member.generation();
        let is_safe = self.member.commit(&entry);
        if is_safe {
            self.kept.push_back(entry);
        } else {
            self.member.synced(&self.own, generation);
            self.kept.clear();
        }
        is_safe
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let [link] = &links(self.directory.path()).unwrap()[..] else {
            panic!("there is one link")
        };
        link.entries().unwrap()
    }

    /// Checks that the log ends with the entries that it has to have.
    fn check(&self) {
        let read = self.read();
        let kept = Vec::from(self.kept.clone());
        assert!(
            read.ends_with(&kept),
            "of {} entries the last {} are not there",
            read.len(),
            kept.len()
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
    let mut idle = Team::new(&group);
    assert!(idle.commit(b"once".to_vec()));
    std::thread::scope(|threads| {
        for team in 0..4 {
            let group = &group;
            threads.spawn(move || {
                let mut own = Team::new(group);
                let alone = (0..300).filter(|n| {
                    let is_safe = own.commit(entry(team, *n));
                    if n % 50 == 49 {
                        own.check();
                    }
                    !is_safe
                });
                let alone = alone.count();
                assert!(
                    (1..30).contains(&alone),
                    "of 300 entries {alone} were not taken"
                );
            });
        }
    });
    let state = group.shared.lock();
    assert!(state.generation >= 2, "generation {}", state.generation);
    // Its entries were overwritten, so its own log was synced first.
    assert!(state.members[&idle.member.id].synced + 1 >= state.generation);
}

#[test]
fn the_log_ends_where_a_batch_was_torn() {
    let group = GroupLog::new();
    let [mut one, mut two] = [Team::new(&group), Team::new(&group)];
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
    let mut team = Team::new(&group);
    assert!(team.commit(entry(1, 1)));
    group
        .shared
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
    let mut team = Team::new(&group);
    assert!(team.commit(entry(2, 1)));
    team.check();
}

#[test]
fn a_log_lasts_as_long_as_a_team_belongs_to_it() {
    let group = GroupLog::new();
    let [mut one, mut two] = [Team::new(&group), Team::new(&group)];
    assert!(one.commit(entry(1, 1)) && two.commit(entry(2, 1)));
    let names = |team: &Team| std::fs::read_dir(team.directory.path()).unwrap().count();
    assert_eq!([names(&one), names(&two)], [2, 2]);
    let Team {
        directory, member, ..
    } = one;
    drop(member);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let mut three = Team::new(&group);
    assert!(two.commit(entry(2, 2)) && three.commit(entry(3, 1)));
    two.check();
    three.check();
    drop((two, three));
    // The next team creates another file.
    let mut four = Team::new(&group);
    assert!(four.commit(entry(4, 1)));
    assert_eq!(four.read(), [entry(4, 1)]);
}

#[test]
fn what_is_large_or_cannot_be_linked_is_left_to_its_team() {
    let group = GroupLog::new();
    let mut team = Team::new(&group);
    assert!(!team.commit(vec![1; MAX_ENTRY_BYTES + 1]));
    assert!(team.commit(vec![1; MAX_ENTRY_BYTES]));
    assert!(group.join(Path::new("/proc/self")).is_err());
    assert!(team.commit(b"goes on".to_vec()));
    team.check();
}

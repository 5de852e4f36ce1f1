//! `kill -9` after every event of a run: the resumed run always ends as if nothing had happened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::saved::{essence, essence_of_lineage};
use crate::stream;
use crate::workspace::Workspace;

/// The maximum number of resumes. Two kills need two.
const RESUMES: usize = 4;

struct Undisturbed {
    lines: Vec<Value>,
    saved: Value,
}

fn undisturbed() -> Undisturbed {
    let place = Workspace::of("matrix");
    let lines = place.run().expect(0).events();
    stream::assert_numbered(&lines);
    Undisturbed {
        lines,
        saved: essence(place.team_json()),
    }
}

/// Calls a function with every number below `end`, on as many threads as the machine has
/// processors.
pub fn in_parallel(end: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= end {
                        return;
                    }
                    work(n);
                }
            });
        }
    });
}

/// Kills a run after each of its events and resumes it. It always ends in the state of `calm`, a run with these events that
/// nobody disturbed. `start` creates its team; `check` gets all recorded events, and when the run was killed.
pub fn kill_after_each_event(
    calm: &Workspace,
    lines: &[Value],
    start: impl Fn() -> Workspace + Sync,
    check: impl Fn(&[Value], &str) + Sync,
) {
    let saved = essence_of_lineage(calm.team_json());
    in_parallel(lines.len() - 1, |n| {
        let place = start();
        let mut process = place.start_run(&[]);
        let seen = (0..=n).map_while(|_| process.next()).count();
        process.kill();
        if seen == 0 {
            return;
        }
        place.resume().expect(0);
        let what = format!("killed after event {}", n + 1);
        assert_eq!(essence_of_lineage(place.team_json()), saved, "{what}");
        check(&place.recorded(), &what);
    });
}

/// Kills a run and its resumes, each after a number of lines and a pause as given by `kills`, and
/// then resumes it to its end.
fn check(kills: &[(usize, Duration)], undisturbed: &Undisturbed) {
    let place = Workspace::of("matrix");
    let mut args = vec!["run", "team.toml", "--storage", "store", "--events", "-"];
    for (lines, pause) in kills {
        let mut process = place.start(&args);
        let told = (0..*lines).map_while(|_| process.next()).count();
        std::thread::sleep(*pause);
        let ended = process.kill();
        if told == 0 {
            assert_eq!(
                ended.code,
                Some(0),
                "nothing was told, and yet: {}",
                ended.stderr
            );
        }
        args = vec!["run", "--recover_path", "store", "--events", "-"];
    }
    let end = (0..RESUMES)
        .map(|_| place.resume())
        .find(|ended| ended.code == Some(0));
    let end = end.unwrap_or_else(|| panic!("killed at {kills:?}, it never ends"));
    let what = format!("killed at {kills:?}\n{}", end.stderr);
    assert_eq!(essence(place.team_json()), undisturbed.saved, "{what}");
    let lines = place.recorded();
    stream::assert_numbered(&lines);
    stream::assert_one_idea(&lines);
    stream::assert_same_finished_actions(&lines, &undisturbed.lines);
    stream::assert_attempts_are_numbered(&lines);
    stream::assert_paid_once(&lines);
}

#[test]
fn a_run_killed_after_any_event_ends_like_an_undisturbed_one() {
    let undisturbed = undisturbed();
    in_parallel(undisturbed.lines.len(), |n| {
        check(&[(n + 1, Duration::ZERO)], &undisturbed)
    });
}

#[test]
fn a_run_whose_resumes_are_killed_too_ends_like_an_undisturbed_one() {
    let undisturbed = undisturbed();
    let total = undisturbed.lines.len();
    in_parallel(24, |seed| {
        // Various pauses, so that kills also hit instants between two lines.
        let pause = |salt: usize| Duration::from_micros(((seed + salt) * 389 % 4000) as u64);
        let first = 1 + seed * 37 % total;
        let kills = [
            (first, pause(1)),
            (1 + seed * 13 % 20, pause(2)),
            (1 + seed * 7 % 11, pause(3)),
        ];
        check(&kills, &undisturbed);
    });
}

#[test]
fn a_run_killed_before_anything_happened_begins_with_its_own_idea_when_it_is_resumed() {
    // The database is empty when it has just been created.
    for n in 0..12 {
        let place = Workspace::of("matrix");
        let process = place.start(&["run", "team.toml", "my idea", "--storage", "store"]);
        while !place.path("store/team.db").exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(n * 250));
        process.kill();
        place.resume().expect(0);
        let lines = place.recorded();
        stream::assert_numbered(&lines);
        stream::assert_one_idea(&lines);
        assert_eq!(place.team_json()["idea"], "my idea");
    }
}

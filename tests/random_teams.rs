//! Random teams with random faults, which are killed at random times and resumed until they are
//! done: they end like the same teams without faults and kills. A failure shows its seed, which can
//! be added to the seeds.

mod network;
pub mod rng;
mod team;

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;

use self::rng::Rng;
use crate::saved::essence_without_checkpoints;
use crate::stream;
use crate::workspace::Workspace;

/// The seeds of teams that stop at faults.
const TEAMS: [u64; 12] = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 377];
/// The seeds of teams that park faults.
const NETWORKS: [u64; 5] = [1, 2, 3, 5, 8];
/// The maximum number of resumes of a team. Each resume gets past at least one fault.
const RESUMES: usize = 60;
/// The number of runs of a team that are killed.
const KILLS: usize = 5;

/// Returns the team file with and without its faults.
fn with_and_without_faults(team: &str, dice: &mut Rng) -> (String, String) {
    let mut faulty = String::new();
    let mut parts = team.split("FAULT ");
    faulty.push_str(parts.next().unwrap_or_default());
    for part in parts {
        if dice.one_in(3) {
            let fail = dice.pick(&["trap", "error", "retryable", "recurse"]);
            let attempts = dice.pick(&["1", "1, 2", "2", "1, 2, 3"]);
            write!(faulty, "{{ fail = \"{fail}\", attempts = [{attempts}] }}, ").unwrap();
        }
        faulty.push_str(part);
    }
    (faulty, team.replace("FAULT ", ""))
}

/// Runs a team to its end: it is done, or stalled at a join.
fn undisturbed(team: &str, seed: u64) -> (Workspace, Option<i32>) {
    let place = Workspace::with(team);
    let ended = place.run();
    assert!(
        [Some(0), Some(6)].contains(&ended.code),
        "seed {seed}: {}\n{team}",
        ended.stderr
    );
    (place, ended.code)
}

/// Runs a team, kills it repeatedly, and resumes it until it ends with the expected exit code.
fn disturbed(team: &str, seed: u64, expected: Option<i32>, dice: &mut Rng) -> Workspace {
    let place = Workspace::with(team);
    let mut args = vec!["run", "team.toml", "--storage", "store", "--events", "-"];
    for _ in 0..KILLS {
        let mut process = place.start(&args);
        let lines = 1 + dice.below(30);
        // The exit code of a run that ends before it is killed does not matter.
        let told = (0..lines).map_while(|_| process.next()).count();
        std::thread::sleep(Duration::from_micros(dice.below(3000)));
        process.kill();
        assert!(
            told > 0 || place.path("store/team.db").exists(),
            "seed {seed}: nothing was begun"
        );
        args = vec!["run", "--recover_path", "store", "--events", "-"];
    }
    let ended = |code: Option<i32>| match code {
        Some(3) => false,
        code if code == expected => true,
        other => panic!("seed {seed}: a resume ended with {other:?}"),
    };
    let done = (0..RESUMES).any(|_| ended(place.resume().code));
    assert!(done, "seed {seed}: it never ends:\n{team}");
    place
}

/// Returns the recorded events, after checking that they are consistent.
fn recorded(place: &Workspace) -> Vec<Value> {
    let lines = place.recorded();
    stream::assert_numbered(&lines);
    stream::assert_one_idea(&lines);
    stream::assert_attempts_are_numbered(&lines);
    lines
}

#[test]
fn random_teams_with_faults_and_kills_end_like_faultless_undisturbed_ones() {
    for seed in TEAMS {
        let dice = &mut Rng::new(seed);
        let (faulty, faultless) = with_and_without_faults(&team::team(dice), dice);
        let (calm, code) = undisturbed(&faultless, seed);
        let rough = disturbed(&faulty, seed, code, dice);
        stream::assert_same_finished_actions(&recorded(&rough), &recorded(&calm));
        let ends = [&rough, &calm].map(|place| essence_without_checkpoints(place.team_json()));
        assert_eq!(ends[0], ends[1], "seed {seed}:\n{faulty}");
    }
}

#[test]
fn random_teams_that_park_faults_end_alike_whenever_they_are_resumed() {
    for seed in NETWORKS {
        let dice = &mut Rng::new(seed);
        let (faulty, faultless) = with_and_without_faults(&network::team(dice), dice);
        let (calm, code) = undisturbed(&faultless, seed);
        assert_eq!(
            code,
            Some(0),
            "seed {seed}: every join gets what it waits for"
        );
        let rough = disturbed(&faulty, seed, code, dice);
        let finished = |place| {
            let mut actions = stream::actions(&recorded(place), "action-finished");
            actions.sort_unstable();
            actions
        };
        assert_eq!(
            finished(&rough),
            finished(&calm),
            "seed {seed}: none ran twice"
        );
        let ends = [&rough, &calm].map(|place| network::outcome(&place.team_json()));
        assert_eq!(ends[0], ends[1], "seed {seed}:\n{faulty}");
    }
}

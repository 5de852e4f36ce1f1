//! Random teams with random faults, killed at random instants and resumed until they are done: they end like the same
//! team without faults that nobody disturbed. A failure names its seed; put it among `SEEDS` to go on looking.

use std::fmt::Write;
use std::time::Duration;

use crate::place::Place;
use crate::saved::essence_without_checkpoints;
use crate::stream;

/// The teams that are tried.
const SEEDS: [u64; 16] = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597];
/// How many times a team may have to be resumed. Each resume gets past a fault at least.
const RESUMES: usize = 60;
/// How many runs of a team are killed.
const KILLS: usize = 6;

/// Numbers that look random and are the same for the same seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    /// True once in so many times.
    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A team file, with `FAULT` steps in it that are yet to be filled in. Mail flows from earlier to later roles only, so
/// that it ends.
fn team(dice: &mut Dice) -> String {
    let mut text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"random\"\nidea = \"begin\"\n[env]\n[env.groups]\nlast = [\"R{last}\"]\n\
         [env.scope.list]\nreducer = \"append\"\n[env.scope.sum]\nreducer = \"add\"\n[env.scope.top]\nreducer = \"max\"\n\
         [limits]\nretries = 1\nbackoff = \"2ms\"\n[run]\nmax_parallel = {parallel}\n",
        parallel = 1 + dice.below(4),
        last = ROLES - 1,
    );
    for role in 0..ROLES {
        let react = dice.pick(&["by_order", "by_order", "react", "plan_and_act"]);
        let actions = 1 + dice.below(3) + u64::from(react == "plan_and_act");
        let watch = watched(role, dice);
        write!(
            text,
            "\n[[role]]\nname = \"R{role}\"\naddresses = [\"alias{role}\"]\nreact = \"{react}\"\nwatch = [{watch}]\n"
        )
        .unwrap();
        if react == "react" {
            let choices: Vec<String> = (0..3).map(|_| dice.below(actions).to_string()).collect();
            let choices = choices.join(", ");
            write!(
                text,
                "max_react_loop = 3\nthink = {{ component = \"probe.wasm\", config = {{ steps = [FAULT {{ choose = \
                 [{choices}, -1] }}] }} }}\n"
            )
            .unwrap();
        }
        for action in 0..actions {
            let plans = react == "plan_and_act" && action == 0;
            let steps = if plans { "FAULT { plan = [\"t1\", \"t2\", \"t3\"] }".into() } else { steps(role, dice) };
            write!(
                text,
                "[[role.action]]\nname = \"L{role}{action}\"\ncomponent = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n"
            )
            .unwrap();
        }
    }
    text
}

const ROLES: u64 = 5;

/// The labels that a role watches: those of earlier roles, and often the idea.
fn watched(role: u64, dice: &mut Dice) -> String {
    let mut labels = Vec::new();
    if role == 0 || dice.one_in(3) {
        labels.push("\"UserRequirement\"".to_owned());
    }
    for earlier in 0..role {
        labels.extend((0..3).filter(|_| dice.one_in(3)).map(|action| format!("\"L{earlier}{action}\"")));
    }
    labels.join(", ")
}

/// What an action does.
fn steps(role: u64, dice: &mut Dice) -> String {
    let mut steps = Vec::new();
    for _ in 0..dice.below(5) {
        steps.push(match dice.below(7) {
            0 => format!("{{ set = \"k\", value = {} }}", dice.below(100)),
            1 => "{ get = \"k\" }".into(),
            2 => format!("{{ set = \"k\", value = \"R{role}\", scope = \"list\" }}"),
            3 => format!("{{ set = \"k\", value = {}, scope = \"{}\" }}", dice.below(9), dice.pick(&["sum", "top"])),
            4 => format!("{{ get = \"k\", scope = \"{}\" }}", dice.pick(&["list", "sum", "top"])),
            5 if role + 1 < ROLES => {
                let later = role + 1 + dice.below(ROLES - role - 1);
                let to = dice.pick(&["R", "alias"]);
                format!("{{ emit = \"aside\", to = [\"{to}{later}\"], cause = \"Aside\" }}")
            }
            _ => "{ sleep = \"2ms\" }".into(),
        });
    }
    let at = dice.below(steps.len() as u64 + 1) as usize;
    steps.insert(at, "FAULT".into());
    let to = match dice.below(6) {
        0 if role + 1 < ROLES => ", to = [\"last\"]",
        1 => ", to = [\"Nobody\"]",
        _ => "",
    };
    steps.push(format!("{{ say = \"{{inputs}}+{{reads}}\"{to} }}"));
    // What stands for a step is followed by its comma already.
    steps.join(", ").replace("FAULT, ", "FAULT ")
}

/// The file with its faults, and without.
fn with_and_without_faults(team: &str, dice: &mut Dice) -> (String, String) {
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

fn check(seed: u64) {
    let dice = &mut Dice::new(seed);
    let team = team(dice);
    let (faulty, faultless) = with_and_without_faults(&team, dice);

    let place = Place::with(&faultless);
    let expected_lines = place.run().expect(0).events();
    let expected = essence_without_checkpoints(place.team_json());

    let place = Place::with(&faulty);
    let mut args = vec!["run", "team.toml", "--storage", "store", "--events", "-"];
    for _ in 0..KILLS {
        let mut process = place.start(&args);
        let lines = 1 + dice.below(30);
        // What a run that ends before it is killed ended with does not matter.
        let told = (0..lines).map_while(|_| process.next()).count();
        std::thread::sleep(Duration::from_micros(dice.below(3000)));
        process.kill();
        assert!(told > 0 || place.path("store/team.db").exists(), "seed {seed}: nothing was begun");
        args = vec!["run", "--recover_path", "store", "--events", "-"];
    }
    let ended = |code: Option<i32>| match code {
        Some(0) => true,
        Some(3) => false,
        other => panic!("seed {seed}: a resume ended with {other:?}"),
    };
    let done = (0..RESUMES).any(|_| ended(place.resume().code));
    assert!(done, "seed {seed}: it is never done:\n{faulty}");

    let lines = place.recorded();
    stream::assert_numbered(&lines);
    stream::assert_one_idea(&lines);
    stream::assert_attempts_count_on(&lines);
    stream::assert_finished_alike(&lines, &expected_lines);
    assert_eq!(essence_without_checkpoints(place.team_json()), expected, "seed {seed}:\n{faulty}");
}

#[test]
fn random_teams_with_faults_and_kills_end_like_faultless_undisturbed_ones() {
    SEEDS.into_iter().for_each(check);
}

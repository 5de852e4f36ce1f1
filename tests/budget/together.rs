//! Roles of one step that share a budget. More is reserved for a call than it costs, so roles wait
//! for each other.

use serde_json::Value;

use super::{budget, current_reservation, live, place, team_with_parallel_calls};
use crate::process::Signal;
use crate::stream;
use crate::workspace::Workspace;

/// A team in which each call costs one dollar and ten tokens, and far more is reserved for it.
const HEAD: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
TEAM
[run]
max_parallel = PARALLEL
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 100000, output = 100000 }
"#;

/// A role that reports whether its call was admitted at once.
const ROLE: &str = r#"
[[role]]
name = "NAME"
watch = ["UserRequirement"]
[[role.action]]
name = "one"
component = "probe.wasm"
config = { steps = [{ say = "first" }, { say = "late", attempts = [2, 3, 4, 5, 6, 7, 8] }, { llm = "NAME" }] }
[role.action.allow]
llm = { models = ["*"] }
"#;

fn team(of_team: &str, parallel: usize, roles: &[&str]) -> String {
    let head = HEAD
        .replace("TEAM", of_team)
        .replace("PARALLEL", &parallel.to_string());
    roles
        .iter()
        .fold(head, |text, name| text + &ROLE.replace("NAME", name))
}

/// Makes the model slow, so that other roles find too little money meanwhile.
fn slow(place: &Workspace, delay: &str) {
    place.write(
        "replies.toml",
        format!("[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\ndelay = \"{delay}\"\n"),
    );
}

fn started(lines: &[Value]) -> Vec<u64> {
    stream::of_kind(lines, "action-started")
        .iter()
        .map(|line| line["attempt"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_call_waits_if_the_money_is_reserved_for_others() {
    for (of_team, parallel) in [
        ("investment = 100", 1),
        ("investment = 100", 8),
        ("tokens = 100", 8),
    ] {
        let place = place(&team(of_team, parallel, &["A", "B", "C", "D", "E", "F"]));
        slow(&place, "20ms");
        let lines = place.run().expect(0).events();
        let said: Vec<&Value> = stream::of_kind(&lines, "action-finished")
            .iter()
            .map(|line| &line["output"]["content"])
            .collect();
        assert_eq!(said, ["first"; 6], "{of_team}, {parallel} at once");
        assert_eq!(started(&lines), [1; 6], "{of_team}, {parallel} at once");
        assert_eq!(budget(&place)["total"], 6.0);
        place.host(&["replay", "store", "--verify"]).expect(0);
    }
}

#[test]
fn a_waiting_call_is_suspended_when_the_reserved_money_is_spent() {
    let place = place(&team("investment = 2", 8, &["A", "B", "C", "D"]));
    slow(&place, "20ms");
    let lines = place.run().expect(5).events();
    assert_eq!((live(&place), started(&lines)), (2, vec![1; 4]));
    assert_eq!(
        stream::of_kind(&lines, "action-suspended").len(),
        2,
        "each of them once"
    );
    place
        .host(&["run", "--recover_path", "store", "--investment", "9"])
        .expect(0);
    assert_eq!((live(&place), &budget(&place)["total"]), (4, &4.0.into()));
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn parallel_calls_of_several_roles_do_not_deadlock() {
    let three = |name: &str| {
        let steps = ROLE.find("config").unwrap()..ROLE.find("[role.action.allow]").unwrap();
        let config = "config = { prompts = [\"1\", \"2\", \"3\"] }\n";
        ROLE.replace(&ROLE[steps], config)
            .replace("probe.wasm", "gather.wasm")
            .replace("NAME", name)
    };
    // At most two calls are made at the same time. 1025 tokens are reserved for each.
    let text = team("tokens = 1100", 8, &["C"]) + &three("A") + &three("B");
    let place = team_with_parallel_calls(&text);
    slow(&place, "20ms");
    let lines = place.run().expect(0).events();
    let said: Vec<&str> = stream::of_kind(&lines, "action-finished")
        .iter()
        .map(|line| line["output"]["content"].as_str().unwrap())
        .filter(|said| *said != "first")
        .collect();
    assert_eq!((said, started(&lines)), (vec!["r | r | r"; 2], vec![1; 3]));
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn a_waiting_call_is_not_recorded_when_the_run_is_stopped_or_killed() {
    for signal in [Signal::INT, Signal::KILL] {
        let place = place(&team("investment = 100", 8, &["A", "B"]));
        slow(&place, if signal == Signal::INT { "2s" } else { "60s" });
        let mut process = place.start_run(&[]);
        process.until("action-started", Some("B"));
        while ["A", "B"]
            .iter()
            .all(|role| current_reservation(&place, role).is_none())
        {}
        process.signal(signal);
        process.end();
        assert_eq!(live(&place), usize::from(signal == Signal::INT));
        slow(&place, "0s");
        place
            .host(&["run", "--recover_path", "store", "--investment", "1000"])
            .expect(0);
        assert_eq!(live(&place), 2);
    }
}

#[test]
fn waiting_for_others_counts_toward_the_time_limit() {
    let limited = "[role.action.limits]\ntimeout = \"2s\"\n[role.action.allow]";
    let place =
        place(&team("investment = 100", 8, &["A", "B"]).replace("[role.action.allow]", limited));
    slow(&place, "60s");
    let mut process = place.start_run(&[]);
    // The attempt of the other role, whose call is paid for, is kept open for its answer.
    let failed = process.until("action-failed", None);
    assert_eq!(failed["fault"], "timeout");
    let other = if failed["role"] == "A" { "B" } else { "A" };
    assert!(
        current_reservation(&place, other).is_some(),
        "the one that waited has failed: {failed}"
    );
    process.kill();
}

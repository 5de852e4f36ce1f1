//! Parses events, and checks properties that hold for every run.

use std::collections::BTreeMap;

use serde_json::Value;

/// Parses lines of NDJSON. An incomplete last line, as a kill leaves it, is ignored.
pub fn parse(text: &str) -> Vec<Value> {
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(parse_line)
        .collect()
}

/// Parses a line of NDJSON.
pub fn parse_line(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("`{line}` is no event: {error}"))
}

/// Returns the events of one kind.
pub fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Returns `ROLE.ACTION` of the events of one kind.
pub fn actions(lines: &[Value], kind: &str) -> Vec<String> {
    let name = |line: &&Value| format!("{}.{}", text(&line["role"]), text(&line["action"]));
    of_kind(lines, kind).iter().map(name).collect()
}

/// Returns the text of a string value.
pub fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("`{value}` is no text"))
}

/// Checks that events are numbered from 1 without gaps.
#[track_caller]
pub fn assert_numbered(lines: &[Value]) {
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["n"].as_u64()).collect();
    let expected: Vec<u64> = (1..=lines.len() as u64).collect();
    assert_eq!(numbers, expected);
}

/// Checks that the idea was published once.
#[track_caller]
pub fn assert_one_idea(lines: &[Value]) {
    let ideas = of_kind(lines, "message-routed");
    let ideas = ideas
        .iter()
        .filter(|line| line["cause_by"] == "UserRequirement")
        .count();
    assert_eq!(ideas, 1, "the idea was published {ideas} times");
}

/// Checks that every action finished as often as in the undisturbed run, in the same calls.
#[track_caller]
pub fn assert_same_finished_actions(lines: &[Value], undisturbed: &[Value]) {
    assert_eq!(finished(lines), finished(undisturbed));
}

/// Returns how often each action finished, by step, role, index and output.
fn finished(lines: &[Value]) -> BTreeMap<String, u32> {
    let mut times = BTreeMap::new();
    for line in of_kind(lines, "action-finished") {
        let key = format!(
            "{} {} {} {}",
            line["step"], line["role"], line["index"], line["output"]
        );
        *times.entry(key).or_default() += 1;
    }
    times
}

/// Checks that the attempts of each call are numbered from 1 over all resumes, and that finished
/// actions are not started again.
#[track_caller]
pub fn assert_attempts_are_numbered(lines: &[Value]) {
    let mut open = BTreeMap::<&str, (u64, u64)>::new();
    for line in lines.iter().filter(|line| line["attempt"].is_u64()) {
        let role = text(&line["role"]);
        let now = (
            line["index"].as_u64().unwrap_or(u64::MAX),
            line["attempt"].as_u64().unwrap_or_default(),
        );
        match text(&line["kind"]) {
            "action-started" => {
                let expected = open
                    .get(role)
                    .map_or((now.0, 1), |(index, attempt)| (*index, attempt + 1));
                assert_eq!(now, expected, "index and attempt of {line}");
                open.insert(role, now);
            }
            "action-finished" => {
                assert_eq!(open.remove(role), Some(now), "index and attempt of {line}")
            }
            _ => {}
        }
    }
}

/// Checks that no recorded host call of an activation was made again.
#[track_caller]
pub fn assert_paid_once(lines: &[Value]) {
    let live = of_kind(lines, "host-call")
        .into_iter()
        .filter(|line| line["source"] == "live");
    let mut calls = BTreeMap::<String, u32>::new();
    for line in live {
        *calls
            .entry(format!(
                "{} {} {}",
                line["step"], line["role"], line["index"]
            ))
            .or_default() += 1;
    }
    assert!(calls.values().all(|times| *times == 1), "{calls:?}");
}

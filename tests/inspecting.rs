//! Parts of what is saved, for people and as JSON: an action, the calls of the host, a message.

use serde_json::Value;

use crate::place::Place;

const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "seen"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Draw"
component = "probe.wasm"
config = { steps = [{ random = 4 }, { say = "drawn \u001b[2J", data = { n = 7 } }] }
[[role.action]]
name = "Fail"
component = "probe.wasm"
config = { steps = [{ now = true }, { fail = "trap" }] }
"#;

fn failed() -> Place {
    let place = Place::with(TEAM);
    place.host(&["run", "team.toml", "--storage", "store", "--quiet"]).expect(3);
    place
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_action_is_shown_with_what_it_is_at_what_it_said_and_its_fault() {
    let place = failed();
    let shown = |args: &[&str]| place.host(&[&["inspect", "store"], args].concat()).expect(0).stdout;
    let fail = shown(&["--action", "A.Fail"]);
    for part in ["action 1 `Fail`: FAILED (attempts 1)", "unreachable", "probe::", "clock "] {
        assert!(fail.contains(part), "`{part}`: {fail}");
    }
    let draw = shown(&["--action", "A.Draw"]);
    assert!(draw.contains("drawn \u{fffd}[2J") && !draw.contains("unreachable"), "{draw}");
    let fail = json(&shown(&["--action", "A.Fail", "--json"]));
    assert_eq!((&fail["fault"]["kind"], &fail["attempts"]), (&"trap".into(), &1.into()), "{fail}");
    let draw = json(&shown(&["--action", "A.Draw", "--json"]));
    assert_eq!((&draw["fault"], &draw["output"]["sent_from"]), (&Value::Null, &"A".into()), "{draw}");
    let refused = place.host(&["inspect", "store", "--action", "A.Fial"]).expect(2).stderr;
    assert!(refused.contains("did you mean `A.Fail`?"), "{refused}");
}

#[test]
fn the_calls_of_the_host_are_shown_with_what_came_back() {
    let place = failed();
    let shown = |args: &[&str]| place.host(&[&["inspect", "store", "--calls"], args].concat()).expect(0).stdout;
    let table = shown(&[]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[1].contains("A.Draw") && rows[1].contains("random") && rows[1].contains("live"), "{table}");
    assert!(rows[2].contains("A.Fail") && rows[2].contains("clock"), "{table}");
    assert_eq!(shown(&["--action", "A.Fail"]).lines().count(), 2);
    let lines = shown(&["--json"]);
    let lines: Vec<Value> = lines.lines().map(json).collect();
    let recorded = place.recorded();
    let told: Vec<&Value> = recorded.iter().filter(|line| line["kind"] == "host-call").collect();
    assert_eq!(lines.len(), told.len());
    for (line, told) in lines.iter().zip(told) {
        assert_eq!((&line["n"], &line["call"]), (&told["n"], &told["call"]));
        assert!(!line["response"].is_null(), "{line}");
    }
}

#[test]
fn a_message_is_shown_whole() {
    let place = failed();
    let shown = place.host(&["inspect", "store", "--message", "idea"]).expect(0).stdout;
    for part in ["UserRequirement", "waits for   A", "\ngo\n"] {
        assert!(shown.contains(part), "`{part}`: {shown}");
    }
    let message = json(&place.host(&["inspect", "store", "--message", "idea", "--json"]).expect(0).stdout);
    assert_eq!(message, place.team_json()["strata"]["messages"]["idea"]);
    let refused = place.host(&["inspect", "store", "--message", "none"]).expect(2).stderr;
    assert!(refused.contains("`none`") && refused.contains("`events`"), "{refused}");
}

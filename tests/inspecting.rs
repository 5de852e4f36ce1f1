//! Parts of what is saved, as text and as JSON: an action, host calls, a message.

use serde_json::Value;

use crate::workspace::Workspace;

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

fn failed() -> Workspace {
    let place = Workspace::with(TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(3);
    place
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn two_checkpoints_together_are_rejected() {
    let place = failed();
    let refused = place
        .host(&["inspect", "store@main-0", "--checkpoint", "main-0"])
        .expect(2)
        .stderr;
    let why = "two places were given, `main-0` behind `@` and `main-0` by `--checkpoint`; name one: `strata-host inspect \
               store@main-0`";
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn an_action_is_shown_with_its_state_its_output_and_its_fault() {
    let place = failed();
    let shown = |args: &[&str]| {
        place
            .host(&[&["inspect", "store"], args].concat())
            .expect(0)
            .stdout
    };
    let fail = shown(&["--action", "A.Fail"]);
    for part in [
        "action 1 `Fail`: FAILED (attempts 1)",
        "unreachable",
        "probe::",
        "clock ",
    ] {
        assert!(fail.contains(part), "`{part}`: {fail}");
    }
    let draw = shown(&["--action", "A.Draw"]);
    assert!(
        draw.contains("drawn \u{fffd}[2J") && !draw.contains("unreachable"),
        "{draw}"
    );
    let fail = json(&shown(&["--action", "A.Fail", "--json"]));
    assert_eq!(
        (&fail["fault"]["kind"], &fail["attempts"]),
        (&"trap".into(), &1.into()),
        "{fail}"
    );
    let recorded = &fail["recorded_calls"];
    assert_eq!(recorded.as_array().map(Vec::len), Some(1), "{fail}");
    assert_eq!(
        (&recorded[0]["kind"], &recorded[0]["outcome"]),
        (&"clock".into(), &"answered".into()),
        "{fail}"
    );
    let state = json(&shown(&["--json"]));
    let call =
        serde_json::json!({ "at": "act/1", "kind": "clock", "outcome": "answered", "cost": 0.0 });
    assert_eq!(
        state["strata"]["open"]["A"]["recorded_calls"],
        Value::from(vec![call])
    );
    assert!(draw.contains("for 0 tokens in 1 call\n"), "{draw}");
    let draw = json(&shown(&["--action", "A.Draw", "--json"]));
    assert_eq!(
        (&draw["fault"], &draw["output"]["sent_from"]),
        (&Value::Null, &"A".into()),
        "{draw}"
    );
    let refused = place
        .host(&["inspect", "store", "--action", "A.Fial"])
        .expect(2)
        .stderr;
    assert!(refused.contains("did you mean `A.Fail`?"), "{refused}");
}

#[test]
fn the_thinker_of_a_role_is_shown_like_an_action() {
    let team = TEAM.replace(
        "watch = [\"UserRequirement\"]",
        "watch = [\"UserRequirement\"]\nreact = \"react\"\nthink = { component = \"probe.wasm\", config = { steps = \
         [{ fail = \"trap\" }] } }",
    );
    let place = Workspace::with(&team);
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(3);
    let shown = |args: &[&str]| {
        place
            .host(&[&["inspect", "store"], args].concat())
            .expect(0)
            .stdout
    };
    assert!(
        shown(&[]).contains("stack, log and calls: strata-host inspect store --action A.think"),
        "{}",
        shown(&[])
    );
    let think = shown(&["--action", "A.think"]);
    for part in [
        "action      A.think",
        "fault       attempt 1: think:",
        "unreachable",
        "probe::",
    ] {
        assert!(think.contains(part), "`{part}`: {think}");
    }
    let think = json(&shown(&["--action", "A.think", "--json"]));
    assert_eq!(
        (&think["action"], &think["attempts"]),
        (&"think".into(), &1.into()),
        "{think}"
    );
    let by_order = failed()
        .host(&["inspect", "store", "--action", "A.think"])
        .expect(2)
        .stderr;
    assert!(
        by_order.contains("the team has no action `A.think`; expected one of: `A.Draw`, `A.Fail`"),
        "{by_order}"
    );
}

#[test]
fn a_killed_run_is_distinguished_from_a_running_one() {
    let place = Workspace::with(&TEAM.replace(
        "{ now = true }, { fail = \"trap\" }",
        "{ sleep = \"600s\" }",
    ));
    let shown = || place.host(&["inspect", "store"]).expect(0).stdout;
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Fail" {}
    let alive = shown();
    assert!(
        alive.contains(&format!(
            "status      running (process {})\n",
            process.pid()
        )),
        "{alive}"
    );
    assert!(
        alive.contains("`Fail`: running") && !alive.contains("resume with"),
        "{alive}"
    );
    process.kill();
    let listed = place.host(&["runs", "store"]).expect(0).stdout;
    assert!(listed.contains("resting  cut off"), "{listed}");
    let dead = shown();
    assert!(
        dead.contains("status      cut off\n") && dead.contains("`Fail`: cut off"),
        "{dead}"
    );
    assert!(
        dead.ends_with("resume with\n  strata-host run --recover_path store\n"),
        "{dead}"
    );
    let json = json(&place.host(&["inspect", "store", "--json"]).expect(0).stdout);
    assert_eq!(json["strata"]["status"], "running");
}

#[test]
fn a_team_that_waits_for_messages_is_shown_as_idle() {
    let place = Workspace::with(&TEAM.replace("{ fail = \"trap\" }", "{ say = \"done\" }"));
    let process = place.start_resting();
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown.contains(&format!(
            "status      running (process {}), idle\n",
            process.pid()
        )),
        "{shown}"
    );
    process.kill();
}

#[test]
fn a_stopped_run_is_shown_with_the_command_that_continues_it() {
    let place = failed();
    let shown = |store: &str| place.host(&["inspect", store]).expect(0).stdout;
    let ways = "resume with\n  strata-host run team.toml --recover_path store   # after changing the team file\n  \
                strata-host run --recover_path store   # without changing the team file\n";
    assert!(shown("store").ends_with(ways), "{}", shown("store"));
    assert!(
        !shown("store@main-0").contains("resume with"),
        "an earlier state is not what a resume goes on from"
    );
    std::fs::remove_file(place.path("team.toml")).unwrap();
    assert!(
        shown("store").ends_with("resume with\n  strata-host run --recover_path store\n"),
        "{}",
        shown("store")
    );
}

#[test]
fn messages_sent_to_a_finished_team_are_shown() {
    let place = Workspace::with(&TEAM.replace(r#"{ fail = "trap" }"#, r#"{ say = "done" }"#));
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(0);
    let shown = || place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown().contains("status      done\n") && !shown().contains("resume with"),
        "{}",
        shown()
    );
    place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    let with_mail = shown();
    assert!(
        with_mail.contains("status      done, with new mail\n"),
        "{with_mail}"
    );
    assert!(
        with_mail.contains("A     1 ") && with_mail.contains("resume with"),
        "{with_mail}"
    );
}

#[test]
fn host_calls_are_shown_with_their_results() {
    let place = failed();
    let shown = |args: &[&str]| {
        place
            .host(&[&["inspect", "store", "--calls"], args].concat())
            .expect(0)
            .stdout
    };
    let table = shown(&[]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 5, "{table}");
    assert_eq!(rows[4], "in full: strata-host inspect store --calls --json");
    assert!(
        rows[1].contains("A.Draw") && rows[1].contains("random") && rows[1].contains("live"),
        "{table}"
    );
    assert!(
        rows[2].contains("A.Fail") && rows[2].contains("clock") && rows[2].contains("the time"),
        "{table}"
    );
    let of_action = shown(&["--action", "A.Fail"]);
    assert!(
        of_action.ends_with("inspect store --calls --action A.Fail --json\n"),
        "{of_action}"
    );
    assert_eq!(of_action.lines().count(), 4);
    let lines = shown(&["--json"]);
    let lines: Vec<Value> = lines.lines().map(json).collect();
    let recorded = place.recorded();
    let told: Vec<&Value> = recorded
        .iter()
        .filter(|line| line["kind"] == "host-call")
        .collect();
    assert_eq!(lines.len(), told.len());
    for (line, told) in lines.iter().zip(told) {
        assert_eq!((&line["n"], &line["call"]), (&told["n"], &told["call"]));
        assert!(!line["response"].is_null(), "{line}");
    }
}

#[test]
fn a_message_is_shown_completely() {
    let place = failed();
    let shown = place
        .host(&["inspect", "store", "--message", "idea"])
        .expect(0)
        .stdout;
    for part in ["UserRequirement", "waits for   A", "\ngo\n"] {
        assert!(shown.contains(part), "`{part}`: {shown}");
    }
    let message = json(
        &place
            .host(&["inspect", "store", "--message", "idea", "--json"])
            .expect(0)
            .stdout,
    );
    let mut expected = place.team_json()["strata"]["messages"]["idea"].clone();
    expected["waits_for"] = serde_json::json!(["A"]);
    assert_eq!(message, expected);
    let refused = place
        .host(&["inspect", "store", "--message", "none"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("`none`") && refused.contains("`events`"),
        "{refused}"
    );
}

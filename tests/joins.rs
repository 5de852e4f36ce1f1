//! Joins as seen by users: in events, in `inspect`, in a stalled team, and after a resume.

use serde_json::{Value, json};

use crate::stream;
use crate::workspace::Workspace;

/// `A` and `B` send to `both`, which leads via `last` to `D`. `B` receives only messages that are
/// sent to it.
const STALLING: &str = r#"
schema = "strata.team/1"
[team]
name = "stalls"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "a"
component = "probe.wasm"
[[role]]
name = "B"
[[role.action]]
name = "b"
component = "probe.wasm"
[[role]]
name = "D"
[[role.action]]
name = "d"
component = "probe.wasm"
config = { steps = [{ say = "{inputs}" }] }
[[route]]
from = "A"
to = ["both"]
[[route]]
from = "B"
to = ["both"]
[[join]]
id = "both"
from = ["B", "A"]
to = "last"
[[join]]
id = "last"
from = ["A", "B"]
to = "D"
mode = "active"
"#;

/// Returns the fields of the events about joins, without numbers and times.
fn of_joins(lines: &[Value]) -> Vec<Value> {
    let about = |line: &&Value| stream::text(&line["kind"]).starts_with("join-");
    let strip = |line: &Value| {
        let mut line = line.clone();
        line.as_object_mut()
            .unwrap()
            .retain(|key, _| key != "n" && key != "time");
        line
    };
    lines.iter().filter(about).map(strip).collect()
}

#[test]
fn a_stalled_team_reports_what_is_missing_and_continues_when_it_arrives() {
    let place = Workspace::with(STALLING);
    let ended = place.run().expect(6);
    let told = "join `both` waits for `B`, and no role is running; it holds 1 from `A`";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let send = "strata-host send store --to B --cause LABEL CONTENT";
    assert!(ended.stderr.contains(send), "{}", ended.stderr);
    let id = &place.team_json()["strata"]["joins"]["both"]["queue"]["A"][0];
    assert_eq!(
        of_joins(&ended.events()),
        [json!({"kind": "join-buffered", "join": "both", "from": "A", "id": id})]
    );

    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown.contains("both (all, to `last` by batch): 1 from `A`; waits for `B`"),
        "{shown}"
    );
    assert!(
        shown.contains("last (active, to `D` by batch): nothing"),
        "{shown}"
    );

    let ended = place
        .host(&["run", "--recover_path", "store", "--json", "--quiet"])
        .expect(6);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["status"], "stalled");
    assert_eq!(
        summary["joins"],
        json!([{"join": "both", "missing": ["B"]}])
    );

    place
        .host(&["send", "store", "--to", "B", "--cause", "Hint", "your turn"])
        .expect(0);
    let ended = place.resume().expect(0);
    let (a, b) = (id, &place.team_json()["env"]["history"]["storage"][3]["id"]);
    let expected = [
        json!({"kind": "join-buffered", "join": "both", "from": "B", "id": b}),
        json!({"kind": "join-released", "join": "both", "messages": [b, a], "to": ["last"]}),
        json!({"kind": "join-buffered", "join": "last", "from": "B", "id": b}),
        json!({"kind": "join-buffered", "join": "last", "from": "A", "id": a}),
        json!({"kind": "join-released", "join": "last", "messages": [a, b], "to": ["D"]}),
    ];
    assert_eq!(of_joins(&ended.events()), expected);
    let team = place.team_json();
    assert_eq!(team["env"]["history"]["storage"][4]["content"], "a ok,b ok");
    stream::assert_numbered(&place.recorded());
}

#[test]
fn a_stalled_team_continues_when_the_missing_message_is_added_to_its_file() {
    let place = Workspace::with(STALLING);
    place.run().expect(6);
    let mut team = place.team_json();
    team["strata"]["joins"]["both"]["queue"]["B"] =
        json!([{"id": "by-hand", "content": "by hand", "sent_from": "B"}]);
    let moved = Workspace::with(STALLING);
    moved.write("team.json", team.to_string());
    moved
        .host(&["run", "--recover_path", "team.json"])
        .expect(0);
    let saved: Value = serde_json::from_slice(&moved.read("team.json")).unwrap();
    assert_eq!(
        saved["env"]["history"]["storage"][2]["content"],
        "a ok,by hand"
    );
}

#[test]
fn a_team_with_other_joins_is_not_the_saved_one() {
    let place = Workspace::with(STALLING);
    place.run().expect(6);
    place.write(
        "team.toml",
        STALLING.replace("mode = \"active\"", "deliver = \"each\""),
    );
    let ended = place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(8);
    let told = "join `last` is all from [`A`, `B`] to `D` by each, saved active from [`A`, `B`] to `D` by batch";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_renamed_alias_matches_and_one_of_another_role_does_not() {
    let role = |name: &str, rest: &str, step: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\n{rest}\n[[role.action]]\nname = \"do{name}\"\ncomponent = \"probe.wasm\"\n\
             config = {{ steps = [{step}] }}\n"
        )
    };
    let team = |of_p: &str, of_q: &str, edges: &str| {
        let (watch, fails) = (
            "watch = [\"UserRequirement\"]",
            "{ fail = \"trap\", attempts = [1] }",
        );
        [
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n",
            &role("A", watch, "{ say = \"a\" }"),
            &role("B", watch, fails),
            &role("P", of_p, fails),
            &role("Q", of_q, "{ say = \"q\" }"),
            edges,
        ]
        .concat()
    };
    let route = "[[route]]\nfrom = \"B\"\nto = [\"pub\"]\n";
    let join = "[[route]]\nfrom = \"A\"\nto = [\"j\"]\n[[join]]\nid = \"j\"\nfrom = [\"A\", \"B\"]\nto = \"pub\"\nmode = \"any\"\n";
    let alias = "addresses = [\"pub\"]";
    let cases = [
        (route, "route from `B` to [`Q`] is new"),
        (join, "saved any from [`A`, `B`] to `P` by batch"),
    ];
    for (edges, told) in cases {
        let place = Workspace::with(&team(alias, "", edges));
        place.run().expect(3);
        place.write("team.toml", team("", alias, edges));
        let resume = ["run", "team.toml", "--recover_path", "store"];
        let refused = place.host(&resume).expect(8);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
        place.write(
            "team.toml",
            team(
                &alias.replace("pub", "other"),
                "",
                &edges.replace("pub", "other"),
            ),
        );
        place.host(&resume).expect(3);
        place.resume().expect(0);
        let acted = stream::actions(&place.recorded(), "action-finished");
        assert!(
            acted.iter().any(|action| action == "P.doP")
                && !acted.iter().any(|action| action == "Q.doQ"),
            "{acted:?}"
        );
    }
}

#[test]
fn a_message_for_which_a_join_does_not_wait_is_reported_as_a_dead_letter() {
    let place = Workspace::with(STALLING);
    place.run().expect(6);
    let ended = place
        .host(&[
            "send", "store", "--to", "both", "--cause", "Hint", "B is ill",
        ])
        .expect(0);
    let told = "warning: `both` takes no messages from outside";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(shown.contains(" published, 1 dead letter; "), "{shown}");
    let dead = &place.team_json()["strata"]["dead_letters"][0];
    assert_eq!(dead["to"], "both");
}

#[test]
fn a_source_without_a_route_into_its_join_causes_a_warning() {
    let place =
        Workspace::with(&STALLING.replace("[[route]]\nfrom = \"B\"\nto = [\"both\"]\n", ""));
    let doubt = "warning: the join `both` waits for `B`, and no route of `B` leads there";
    for args in [
        &["check", "team.toml"][..],
        &["run", "team.toml", "--storage", "store"],
    ] {
        let ended = place.host(args);
        assert!(ended.stderr.contains(doubt), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.matches("warning: ").count(),
            1,
            "{}",
            ended.stderr
        );
    }
    let ended = Workspace::with(STALLING)
        .host(&["check", "team.toml"])
        .expect(0);
    assert_eq!(ended.stderr, "");
}

#[test]
fn several_faults_before_a_join_are_reported_and_a_resume_runs_exactly_those() {
    let role = |name: &str, step: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"work\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{step}] }}\n[[route]]\nfrom = \"{name}\"\nto = [\"j\"]\n"
        )
    };
    let fails = "{ fail = \"trap\", attempts = [1] }";
    let team = [
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n".to_owned(),
        role("A", fails),
        role("B", "{ say = \"b ok\" }"),
        role("C", fails),
        role("E", fails),
        "[[role]]\nname = \"D\"\n[[role.action]]\nname = \"d\"\ncomponent = \"probe.wasm\"\n"
            .into(),
        "[[join]]\nid = \"j\"\nfrom = [\"A\", \"B\", \"C\", \"E\"]\nto = \"D\"\n".into(),
    ];
    for on_fault in ["stop", "park"] {
        let place = Workspace::with(
            &team
                .concat()
                .replace("idea = ", &format!("on_fault = \"{on_fault}\"\nidea = ")),
        );
        let ended = place.run().expect(3);
        for role in ["A", "C", "E"] {
            let told = format!("fault: {role} action 0 `work` attempt 1: trap");
            assert!(ended.stderr.contains(&told), "{}", ended.stderr);
        }
        let faults = place.team_json()["strata"]["faults"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(faults, 3);
        let started = stream::actions(&place.resume().expect(0).events(), "action-started");
        assert_eq!(started, ["A.work", "C.work", "E.work", "D.d"], "{on_fault}");
        assert_eq!(place.team_json()["strata"]["faults"], json!([]));
    }
}

#[test]
fn a_conflict_is_reported_with_the_call_that_each_writer_repeats() {
    let role = |name: &str| {
        let write = "config = { steps = [{ set = \"k\", value = 1, scope = \"s\" }] }";
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"first\"\n\
             component = \"probe.wasm\"\n[[role.action]]\nname = \"second\"\ncomponent = \"probe.wasm\"\n{write}\n\
             [[role.action]]\nname = \"third\"\ncomponent = \"probe.wasm\"\n"
        )
    };
    let head = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[env.scope.s]\n";
    let place = Workspace::with(&[head, &role("A"), &role("B")].concat());
    let ended = place.run().expect(3);
    let failed: Vec<Value> = stream::of_kind(&ended.events(), "action-failed")
        .into_iter()
        .cloned()
        .collect();
    assert_eq!(failed.len(), 2);
    for (line, role) in failed.iter().zip(["A", "B"]) {
        let told = [
            &line["step"],
            &line["role"],
            &line["index"],
            &line["action"],
            &line["attempt"],
            &line["fault"],
        ];
        assert_eq!(
            json!(told),
            json!([0, role, 1, "second", 1, "state-conflict"])
        );
        let message =
            "`k` in scope `s` was written by A and B in one step, and the scope has no reducer";
        assert!(
            stream::text(&line["message"]).starts_with(message),
            "{line}"
        );
        assert!(line["digest"].is_string());
        let told = format!("fault: {role} action 1 `second` attempt 1: state-conflict: ");
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
}

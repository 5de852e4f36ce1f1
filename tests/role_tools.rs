//! Roles as tools: roles that work for other roles are killed and resumed, fail, and ask a person.

use serde_json::{Value, json};

use crate::saved::essence;
use crate::stream;
use crate::workspace::Workspace;

/// `Head` calls `Clerk` twice in a turn, who calls `Sum` each time. `Log` hears what is published.
const DESK: &str = r#"
schema = "strata.team/1"
[team]
name = "desk"
idea = "two reports"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Head"
watch = ["UserRequirement"]
react = "tools"
[[role.tool]]
role = "Clerk"
[[role]]
name = "Clerk"
react = "tools"
[[role.tool]]
role = "Sum"
[[role]]
name = "Sum"
[[role.action]]
name = "add"
component = "probe.wasm"
config = { steps = [{ emit = "an aside", to = ["Log"] }, { set = "n", value = 1 }, { say = "added {inputs}" }] }
[[role.action]]
name = "round"
component = "probe.wasm"
config = { steps = [{ say = "rounded {inputs}" }] }
[[role]]
name = "Log"
watch = ["add", "round", "Clerk", "Head"]
[[role.action]]
name = "note"
component = "probe.wasm"
config = { steps = [{ say = "noted {inputs}" }] }
"#;

const REPLIES: &str = r#"
[[reply]]
match = "two reports"
tool_calls = [{ name = "Clerk", arguments = { message = "first figure" } }, { name = "Clerk", arguments = { message = "second figure" } }]
[[reply]]
match = "figure"
tool_calls = [{ name = "Sum", arguments = { message = "one and two" } }]
[[reply]]
match = "one and two"
text = "a report"
[[reply]]
match = "a report"
text = "all reports are in"
"#;

fn desk(team: &str) -> Workspace {
    let place = Workspace::with(team);
    place.write("replies.toml", REPLIES);
    place
}

/// The contents of a list of messages in `team.json`.
fn contents(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().into_iter().flatten();
    messages
        .map(|message| stream::text(&message["content"]))
        .collect()
}

/// How many calls of models were paid.
fn paid(lines: &[Value]) -> usize {
    let calls = stream::of_kind(lines, "host-call");
    calls.iter().filter(|call| call["source"] == "live").count()
}

#[test]
fn roles_work_for_others_within_the_step_and_publish_nothing() {
    let place = desk(DESK);
    let lines = place.run().expect(0).events();
    let started: Vec<String> = stream::of_kind(&lines, "action-started")
        .iter()
        .map(|line| {
            let via = match &line["via"] {
                Value::Null => String::new(),
                via => format!(
                    " for {} {} {}",
                    stream::text(&via["role"]),
                    via["turn"],
                    via["tool_call"]
                ),
            };
            let (role, action) = (stream::text(&line["role"]), stream::text(&line["action"]));
            format!("{} {role}.{action}{via}", line["step"])
        })
        .collect();
    let of_clerk = [
        "0 Clerk.Sum for Head 0",
        "0 Sum.add for Clerk 0 0",
        "0 Sum.round for Clerk 0 0",
    ];
    let mut expected = Vec::new();
    for call in ["0", "1"] {
        expected.push("0 Head.Clerk".to_owned());
        expected.push(format!("{} {call}", of_clerk[0]));
        expected.extend(of_clerk[1..].iter().map(|line| (*line).to_owned()));
    }
    expected.push("1 Log.note".to_owned());
    assert_eq!(started, expected);
    let turns = stream::of_kind(&lines, "turn");
    let of_clerk = turns.iter().filter(|turn| turn["role"] == "Clerk");
    let via: Vec<&Value> = of_clerk.map(|turn| &turn["via"]["tool_call"]).collect();
    assert_eq!(via, [0, 0, 1, 1]);
    assert_eq!(paid(&lines), 6);

    let saved = place.team_json();
    let history = contents(&saved["env"]["history"]["storage"]);
    assert_eq!(
        history,
        [
            "two reports",
            "all reports are in",
            "noted all reports are in"
        ]
    );
    let memory = |role: &str| contents(&saved["env"]["roles"][role]["rc"]["memory"]["storage"]);
    assert_eq!(
        memory("Clerk"),
        ["first figure", "a report", "second figure", "a report"]
    );
    let once = ["one and two", "added one and two", "rounded one and two"];
    assert_eq!(memory("Sum"), [once, once].concat());
    assert_eq!(saved["strata"]["state"]["role"]["Sum"], json!({ "n": 1 }));
    let told = place.host(&["replay", "store"]).expect(0).stdout;
    assert!(told.contains("different: 0"), "{told}");
}

#[test]
fn a_kill_repeats_no_turn_and_no_finished_call() {
    let place = desk(DESK);
    let undisturbed = place.run().expect(0).events();
    let saved = essence(place.team_json());
    for told in (1..undisturbed.len()).step_by(3) {
        let place = desk(DESK);
        let args = ["run", "team.toml", "--storage", "store", "--events", "-"];
        let mut process = place.start(&args);
        let seen = (0..told).map_while(|_| process.next()).count();
        assert_eq!(seen, told);
        process.kill();
        place.resume().expect(0);
        let lines = place.recorded();
        assert_eq!(paid(&lines), 6, "killed after line {told}");
        assert_eq!(
            essence(place.team_json()),
            saved,
            "killed after line {told}"
        );
    }
}

#[test]
fn a_fault_of_a_called_role_is_its_own_and_team_json_alone_is_enough_to_go_on() {
    let failing = DESK.replace(
        "{ say = \"rounded",
        "{ fail = \"trap\", attempts = [1] }, { say = \"rounded",
    );
    let place = desk(&failing);
    let second = ", { name = \"Clerk\", arguments = { message = \"second figure\" } }";
    place.write("replies.toml", REPLIES.replace(second, ""));
    let stderr = place.run().expect(3).stderr;
    let fault = stderr.lines().find(|line| line.starts_with("fault:"));
    let fault = fault.unwrap_or_default();
    assert!(fault.contains("Sum") && fault.contains("round"), "{stderr}");
    let saved = place.team_json();
    let via = json!([
        { "role": "Head", "turn": 0, "tool_call": 0 },
        { "role": "Clerk", "turn": 0, "tool_call": 0 },
    ]);
    assert_eq!(saved["strata"]["faults"][0]["via"], via);
    let state = |role: &str| &saved["env"]["roles"][role]["rc"]["state"];
    assert_eq!((state("Sum"), state("Clerk")), (&json!(1), &json!(-1)));
    place.write("moved/team.json", place.read("store/team.json"));
    let args = [
        "run",
        "team.toml",
        "--recover_path",
        "moved",
        "--events",
        "-",
    ];
    let lines = place.host(&args).expect(0).events();
    let again: Vec<&Value> = stream::of_kind(&lines, "action-started");
    assert_eq!(
        (&again[0]["action"], &again[0]["attempt"]),
        (&json!("round"), &json!(2))
    );
    assert_eq!(paid(&lines), 2, "two turns were made before the fault");
}

#[test]
fn a_call_that_a_role_works_on_in_a_state_of_somebody_else_needs_the_approval_of_its_tool() {
    let failing = DESK.replace(
        "{ say = \"rounded",
        "{ fail = \"trap\", attempts = [1] }, { say = \"rounded",
    );
    let place = desk(&failing);
    let second = ", { name = \"Clerk\", arguments = { message = \"second figure\" } }";
    place.write("replies.toml", REPLIES.replace(second, ""));
    place.run().expect(3);
    let tool = "[[role.tool]]\nrole = \"Clerk\"\n";
    let approved = failing.replace(tool, &format!("{tool}approve = true\n"));
    place.write("new.toml", approved);
    place.write("moved/team.json", place.read("store/team.json"));
    let resume = |storage: &str, code: i32| {
        let args = ["run", "new.toml", "--recover_path", storage];
        let args = [&args[..], &["--events", "-"]].concat();
        place.host(&args).expect(code).events()
    };
    let lines = resume("moved", 4);
    let asked = stream::of_kind(&lines, "request-opened");
    assert_eq!(asked[0]["role"], "Head");
    assert_eq!(stream::of_kind(&lines, "action-started").len(), 0);
    let request = stream::text(&asked[0]["request"]);
    let answer = format!("{request}={{\"approve\":true}}");
    place.host(&["answer", "moved", &answer]).expect(0);
    // Everything that the roles did for the call is done again, the first attempt that fails included.
    let lines = resume("moved", 3);
    let started = stream::of_kind(&lines, "action-started");
    let actions: Vec<&str> = started
        .iter()
        .map(|one| stream::text(&one["action"]))
        .collect();
    assert!(actions.contains(&"add"), "{actions:?}");
    // In a state that this host wrote itself, the call goes on.
    for storage in ["moved", "store"] {
        let lines = resume(storage, 0);
        assert_eq!(stream::of_kind(&lines, "request-opened").len(), 0);
        let started = stream::of_kind(&lines, "action-started");
        assert_eq!(
            (&started[0]["action"], &started[0]["attempt"]),
            (&json!("round"), &json!(2)),
            "{storage}"
        );
    }
}

#[test]
fn results_of_roles_are_cut_at_the_limit_of_the_team() {
    let place = desk(&DESK.replace("[llm]\n", "[limits]\nresult = \"8B\"\n[llm]\n"));
    let cut = "match = \"^rounded \\n.cut: these are the first 8 bytes of 19 bytes.$\"";
    place.write(
        "replies.toml",
        REPLIES.replace("match = \"one and two\"", cut),
    );
    assert_eq!(paid(&place.run().expect(0).events()), 6);
}

#[test]
fn a_person_who_is_called_is_asked_and_the_answer_is_the_result() {
    let asking = DESK.replace(
        "[[role.tool]]\nrole = \"Sum\"\n",
        "[[role.tool]]\nrole = \"Boss\"\n[[role]]\nname = \"Boss\"\nkind = \"human\"\n",
    );
    let place = desk(&asking);
    let replies = REPLIES.replace("name = \"Sum\"", "name = \"Boss\"");
    place.write(
        "replies.toml",
        replies.replace("match = \"one and two\"", "match = \"granted\""),
    );
    let lines = place.run().expect(4).events();
    let asked = stream::of_kind(&lines, "request-opened");
    assert_eq!(asked.len(), 1, "calls of a role run one after another");
    let request = "ask-0-0-0-0-1-0-0-2-0-0";
    assert_eq!(asked[0]["request"], request);
    assert_eq!(
        (&asked[0]["role"], &asked[0]["question"]),
        (&json!("Boss"), &json!("one and two"))
    );
    assert_eq!(
        asked[0]["via"],
        json!({ "role": "Clerk", "turn": 0, "tool_call": 0 })
    );
    let answer = |request: &str| {
        place
            .host(&["answer", "store", &format!("{request}=\"granted\"")])
            .expect(0);
    };
    answer(request);
    let lines = place.resume().expect(4).events();
    let asked = stream::of_kind(&lines, "request-opened");
    assert_eq!(asked[0]["via"]["role"], "Clerk");
    answer(stream::text(&asked[0]["request"]));
    place.resume().expect(0);
    let saved = place.team_json();
    let memory = &saved["env"]["roles"]["Boss"]["rc"]["memory"]["storage"];
    assert_eq!(
        contents(memory),
        ["one and two", "\"granted\"", "one and two", "\"granted\""]
    );
}

#[test]
fn a_role_that_calls_itself_is_an_error_with_its_line() {
    let circular = DESK.replace(
        "role = \"Sum\"\n",
        "role = \"Sum\"\n[[role.tool]]\nrole = \"Head\"\n",
    );
    let stderr = desk(&circular)
        .host(&["check", "team.toml"])
        .expect(2)
        .stderr;
    assert!(
        stderr.contains("`Head` calls `Clerk` calls `Head`"),
        "{stderr}"
    );
    assert!(stderr.contains("team.toml:21"), "{stderr}");
}

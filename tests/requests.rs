//! Questions to people: teams that wait for answers, which answers are accepted, kills while asking
//! and answering, and the terminal.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Process;
use crate::saved::essence_without_checkpoints;
use crate::stream;
use crate::terminal::Terminal;
use crate::workspace::Workspace;

/// A team in which A asks twice after a paid call, while B asks for one of two words. A human role
/// receives the outputs of both.
const ASKS: &str = r#"
schema = "strata.team/1"
[team]
name = "asks"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Count"
component = "probe.wasm"
config = { steps = [{ llm = "q" }, { ask = "how many?", schema = { type = "integer" } }, { ask = "and how large?" }, { sleep = "5ms" }, { set = "n", value = 1 }, { say = "counted" }] }
[role.action.allow]
llm = { models = ["*"] }
[[role]]
name = "B"
watch = ["UserRequirement"]
[[role.action]]
name = "Paint"
component = "probe.wasm"
config = { steps = [{ ask = "which colour?", choices = ["red", "green"] }, { say = "painted {reads}" }] }
[[role]]
name = "Boss"
kind = "human"
watch = ["Count", "Paint"]
[[role]]
name = "C"
watch = ["Boss"]
[[role.action]]
name = "Note"
component = "probe.wasm"
config = { steps = [{ say = "boss: {inputs}" }] }
"#;

/// The questions by role, and the answers of these tests. Later messages to the human role are
/// answered with `fine`.
const ANSWERS: [(&str, &str); 5] = [
    ("ask-0-0-0-0", "42"),
    ("ask-0-0-0-1", "very"),
    ("ask-0-1-0-0", "green"),
    ("ask-1-2-0-0", "fine"),
    ("ask-2-2-0-0", "\"fine, too\""),
];

fn asks() -> Workspace {
    let place = Workspace::with(ASKS);
    place.write("replies.toml", "[[reply]]\ntext = \"one\"\ninput = 10\n");
    place
}

/// Returns the ids of the open requests in `team.json`.
fn open(place: &Workspace) -> Vec<String> {
    let requests = place.team_json()["strata"]["requests"].clone();
    requests
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the answers to all open requests.
fn answers(place: &Workspace) -> Vec<String> {
    let answer = |id: String| {
        let known = ANSWERS.iter().find(|(known, _)| *known == id);
        format!("{id}={}", known.map_or("fine", |(_, answer)| answer))
    };
    open(place).into_iter().map(answer).collect()
}

fn answer(place: &Workspace, given: &[String]) -> Process {
    let args: Vec<&str> = ["answer", "store"]
        .into_iter()
        .chain(given.iter().map(String::as_str))
        .collect();
    place.start(&args)
}

fn contents(place: &Workspace) -> Vec<Value> {
    let team = place.team_json();
    let history = team["env"]["history"]["storage"]
        .as_array()
        .unwrap()
        .clone();
    history
        .into_iter()
        .map(|message| message["content"].clone())
        .collect()
}

/// Answers and resumes until the run is done.
fn finish(place: &Workspace) {
    for _ in 0..8 {
        let ended = place.resume();
        if ended.code == Some(0) {
            return;
        }
        ended.expect(4);
        answer(place, &answers(place)).end().expect(0);
    }
    panic!("it is never done");
}

#[test]
fn a_team_waits_for_answers_and_continues_at_the_questions() {
    let place = asks();
    let ended = place.run().expect(4);
    assert_eq!(stream::of_kind(&ended.events(), "request-opened").len(), 2);
    for part in [
        "how many?",
        "which colour?",
        "one of `red`, `green`",
        "strata-host answer store",
        "--recover_path store",
    ] {
        assert!(ended.stderr.contains(part), "`{part}`: {}", ended.stderr);
    }
    let before = place.team_json();
    assert_eq!(
        (&before["strata"]["status"], open(&place).len()),
        (&json!("waiting"), 2)
    );
    assert_eq!(before["env"]["roles"]["Boss"]["is_human"], true);
    let inspected = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        inspected.contains("ask-0-1-0-0  B action 0 `Paint` asks:"),
        "{inspected}"
    );

    place.resume().expect(4);
    assert_eq!(
        place.team_json()["strata"]["requests"],
        before["strata"]["requests"]
    );
    finish(&place);
    assert_eq!(
        contents(&place),
        [
            "go",
            "painted green",
            "counted",
            "\"fine\"",
            "boss: \"fine\"",
            "\"fine, too\"",
            "boss: \"fine, too\""
        ]
    );
    let lines = place.recorded();
    stream::assert_numbered(&lines);
    stream::assert_attempts_are_numbered(&lines);
    assert_eq!(
        stream::of_kind(&lines, "request-opened").len(),
        ANSWERS.len()
    );
    let paid = |line: &&Value| line["call"] == "llm" && line["source"] == "live";
    assert_eq!(lines.iter().filter(paid).count(), 1);
    assert_eq!(place.team_json()["strata"]["requests"], json!([]));
    let checkpoints = place
        .host(&["checkpoints", "store", "--json"])
        .expect(0)
        .stdout;
    let checkpoints: Vec<Value> = serde_json::from_str(&checkpoints).unwrap();
    assert_eq!(
        checkpoints
            .iter()
            .filter(|row| row["source"] == "answer")
            .count(),
        ANSWERS.len()
    );
}

#[test]
fn invalid_answers_are_rejected_and_change_nothing() {
    let place = asks();
    place.run().expect(4);
    let before = place.read("store/team.json");
    let cases: [(&[&str], &str); 10] = [
        (&["ask-0-O-0-0=1"], "`ask-0-1-0-0`; did you mean `ask-0-"),
        (
            &["nothing=1"],
            "there is no open request `nothing`; open requests: `ask-0-0-0-0`, `ask-0-1-0-0`",
        ),
        (&["ask-0-0-0-0"], "write REQUEST=JSON"),
        (
            &["ask-0-0-0-0=\"many\""],
            "stays open: it does not follow the schema",
        ),
        (&["ask-0-0-0-0=many"], "is not of type \"integer\""),
        (&["ask-0-0-0-0={broken"], "`{broken` is not a JSON document"),
        (&["ask-0-0-0-0="], "the answer is empty"),
        (&["ask-0-1-0-0=blue"], "none of the choices `red`, `green`"),
        (&["ask-0-0-0-0=42", "ask-0-0-0-0=43"], "answered twice here"),
        // Either all answers are recorded or none.
        (
            &["ask-0-0-0-0=42", "ask-0-1-0-0=blue"],
            "none of the choices",
        ),
    ];
    for (given, part) in cases {
        let by_answer = place
            .host(&[&["answer", "store"], given].concat())
            .expect(2);
        let flags: Vec<&str> = given.iter().flat_map(|text| ["--answer", text]).collect();
        let by_run = place
            .host(&[&["run", "--recover_path", "store"][..], &flags].concat())
            .expect(2);
        for ended in [by_answer, by_run] {
            assert!(ended.stderr.contains(part), "{given:?}: {}", ended.stderr);
            assert_eq!(place.read("store/team.json"), before, "{given:?}");
        }
    }
    place.host(&["answer", "store", "ask-0-0-0-0=42"]).expect(0);
    let again = place.host(&["answer", "store", "ask-0-0-0-0=43"]).expect(2);
    let said = "`ask-0-0-0-0` is not open: it was answered already, or was not asked yet; ";
    assert!(again.stderr.contains(said), "{}", again.stderr);
    place
        .host(&["run", "team.toml", "--storage", "other", "--answer", "x=1"])
        .expect(2);
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--answer",
            "ask-0-1-0-0=green",
        ])
        .expect(4);
    assert_eq!(open(&place), ["ask-0-0-0-1", "ask-1-2-0-0"]);
    finish(&place);
}

#[test]
fn a_team_that_waits_can_be_moved_with_its_database_or_without() {
    for alone in [false, true] {
        let place = asks();
        place.run().expect(4);
        fs::create_dir(place.path("elsewhere")).unwrap();
        if alone {
            fs::copy(
                place.path("store/team.json"),
                place.path("elsewhere/team.json"),
            )
            .unwrap();
            fs::remove_dir_all(place.path("store")).unwrap();
        } else {
            fs::rename(place.path("store"), place.path("elsewhere")).unwrap();
        }
        fs::rename(place.path("elsewhere"), place.path("store")).unwrap();
        let given = answers(&place);
        answer(&place, &given).end().expect(0);
        // The replies are outside of the storage. A user who moved the storage must trust it once.
        place
            .host(&["run", "--recover_path", "store", "--trust"])
            .expect(4);
        finish(&place);
        assert_eq!(
            contents(&place)[1..4],
            ["painted green", "counted", "\"fine\""]
        );
    }
}

/// Runs the team, and kills the first run and each resume after a number of events.
fn disturbed(kills: &[usize]) -> Workspace {
    let place = asks();
    let mut args = vec!["run", "team.toml", "--storage", "store", "--events", "-"];
    for lines in kills {
        let mut process = place.start(&args);
        let told = (0..*lines).map_while(|_| process.next()).count();
        process.kill();
        if told == 0 {
            continue;
        }
        args = vec!["run", "--recover_path", "store", "--events", "-"];
    }
    finish(&place);
    place
}

#[test]
fn a_kill_around_a_question_changes_nothing() {
    let calm = asks();
    calm.run().expect(4);
    finish(&calm);
    let expected = essence_without_checkpoints(calm.team_json());
    let first = calm
        .recorded()
        .iter()
        .position(|line| line["kind"] == "run-ended")
        .unwrap()
        + 1;
    for n in 1..=first {
        let place = disturbed(&[n, 2, 1]);
        assert_eq!(
            essence_without_checkpoints(place.team_json()),
            expected,
            "killed after {n} lines"
        );
        let lines = place.recorded();
        stream::assert_numbered(&lines);
        stream::assert_paid_once(&lines);
        assert_eq!(
            stream::of_kind(&lines, "request-answered").len(),
            ANSWERS.len()
        );
    }
}

#[test]
fn after_a_kill_an_answer_is_recorded_completely_or_not_at_all_and_once() {
    let calm = asks();
    calm.run().expect(4);
    finish(&calm);
    let expected = essence_without_checkpoints(calm.team_json());
    for n in 0..12 {
        let place = asks();
        place.run().expect(4);
        let given = answers(&place);
        let process = answer(&place, &given);
        std::thread::sleep(Duration::from_micros(n * 1500));
        let told = process.kill();
        // An answer that was acknowledged must be recorded.
        let kept = stream::of_kind(&place.recorded(), "request-answered").len();
        assert!(
            kept == given.len() || kept == 0 && told.stderr.is_empty(),
            "{kept} after {}",
            told.stderr
        );
        let code = if kept == 0 { 0 } else { 2 };
        answer(&place, &given).end().expect(code);
        let mut process = place.start(&["run", "--recover_path", "store", "--events", "-"]);
        (0..n).map_while(|_| process.next()).count();
        process.kill();
        finish(&place);
        assert_eq!(
            essence_without_checkpoints(place.team_json()),
            expected,
            "killed after {n} turns"
        );
    }
}

const EXPIRES: &str = r#"
schema = "strata.team/1"
[team]
name = "expires"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "now?", expires = "2s" DEFAULT }, { say = "{reads}" }] }
[[role]]
name = "B"
watch = ["UserRequirement"]
[[role.action]]
name = "Work"
component = "probe.wasm"
config = { steps = [{ sleep = "BUSY" }] }
"#;

#[test]
fn an_answer_that_does_not_come_in_time_is_replaced_by_the_default_or_the_question_fails() {
    let team = |default: &str, busy: &str| {
        Workspace::with(&EXPIRES.replace("DEFAULT", default).replace("BUSY", busy))
    };
    // While the other roles still run.
    let place = team(", default = \"later\"", "4s");
    let lines = place.run().expect(0).events();
    let answered = stream::of_kind(&lines, "request-answered");
    assert_eq!(
        (&answered[0]["by"], &answered[0]["answer"]),
        (&json!("default"), &json!("later"))
    );
    assert_eq!(contents(&place)[1], "later");
    // Between two runs.
    for (default, code) in [(", default = \"later\"", 0), ("", 3)] {
        let place = team(default, "1ms");
        place.run().expect(4);
        std::thread::sleep(Duration::from_millis(2100));
        let late = place
            .host(&["answer", "store", "ask-0-0-0-0=yes"])
            .expect(2);
        assert!(
            late.stderr
                .contains("the time to answer request `ask-0-0-0-0` was over"),
            "{}",
            late.stderr
        );
        let ended = place.resume().expect(code);
        if code == 3 {
            assert!(
                ended.stderr.contains("error: nobody answered in time"),
                "{}",
                ended.stderr
            );
            // The action returned a failure, so the next attempt asks again.
            place.resume().expect(4);
        }
    }
}

#[test]
fn an_answer_reaches_a_team_that_runs() {
    let busy = EXPIRES
        .replace(", expires = \"2s\" DEFAULT", "")
        .replace("BUSY", "2s");
    let place = Workspace::with(&busy);
    let mut process = place.start_run(&[]);
    process.until("request-opened", Some("A"));
    let refused = place.host(&["answer", "store", "ask-9=yes"]).expect(2);
    let said = "there is no open request `ask-9`; open requests: `ask-0-0-0-0`";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    place
        .host(&["answer", "store", "ask-0-0-0-0=yes"])
        .expect(0);
    let finished = process.until("action-finished", Some("A"));
    assert_eq!(
        (&finished["output"]["content"], &finished["attempt"]),
        (&json!("yes"), &json!(2))
    );
    process.end().expect(0);
}

#[test]
fn a_question_at_the_terminal_is_repeated_until_the_answer_is_valid() {
    let place = asks();
    let mut terminal = Terminal::open(&place, &["run", "team.toml", "--storage", "store"]);
    terminal.until("A action 0 `Count` asks (ask-0-0-0-0):");
    terminal.until("how many?");
    terminal.until("> ");
    terminal.press("many\n");
    terminal.until("stays open: it does not follow the schema");
    terminal.until("> ");
    terminal.press(b"vi\xe9l\n");
    terminal.until("this is not valid UTF-8");
    terminal.until("> ");
    terminal.press("42\n");
    let shown = terminal.until("> ");
    assert!(
        shown.contains("1) red") && shown.contains("2) green"),
        "{shown}"
    );
    terminal.press("2\n");
    terminal.until("and how large?");
    terminal.until("> ");
    // One request stays open, the others are answered.
    terminal.press("\n");
    terminal.until("painted green");
    terminal.until("> ");
    terminal.press("fine\n");
    terminal.until("and how large?");
    terminal.until("> ");
    terminal.press("\u{4}");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(4), "{shown}");
    assert_eq!(open(&place), ["ask-0-0-0-1"]);

    let mut terminal = Terminal::open(&place, &["run", "--recover_path", "store"]);
    terminal.until("> ");
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(
        shown.contains("interrupted at step 3; saved in `store`; resume with:"),
        "{shown}"
    );
    assert!(
        shown.contains("\n  strata-host run --recover_path store\r\n"),
        "{shown}"
    );
    assert_eq!(place.team_json()["strata"]["status"], "waiting");
    finish(&place);
}

#[test]
fn a_question_at_the_terminal_expires_and_cannot_control_the_screen() {
    let team = EXPIRES
        .replace("now?", "now\\u001b[2J?")
        .replace("DEFAULT", ", default = \"later\"");
    let place = Workspace::with(&team.replace("sleep = \"BUSY\"", "ask = \"and then?\""));
    let mut terminal = Terminal::open(&place, &["run", "team.toml", "--storage", "store"]);
    terminal.until("now\u{fffd}[2J?");
    terminal.until("the time to answer is over");
    // The role that waited for it continues before anything else is asked.
    terminal.until("later");
    terminal.until("and then?");
    // Text that was typed before is not an answer to this question.
    terminal.until("> ");
    terminal.press("this\n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn an_expensive_question_is_rejected_and_names_the_limit() {
    let large: Vec<String> = (0..1_000)
        .map(|n| format!(r"{{ pattern = '\p{{L}}{{100}}{n}' }}"))
        .collect();
    let kinds: Vec<String> = (0..500).map(|n| format!("{{ const = {n} }}")).collect();
    let cases = [
        (
            format!("{{ anyOf = [{}] }}", large.join(", ")),
            "[]".to_owned(),
            "more than 64 patterns",
        ),
        (
            "{ items = { pattern = '^(?=(a|a)*$)(a|a)*(?!c)b$' } }".into(),
            "['a']".into(),
            "looks around or back",
        ),
        (
            format!(
                "{{ items = {{ anyOf = [{}, {{ type = 'string' }}] }} }}",
                kinds.join(", ")
            ),
            format!("[{}]", vec!["'a'"; 10_000].join(", ")),
            "more than 4000000 steps",
        ),
    ];
    for (schema, default, expected) in cases {
        let place = Workspace::with(&format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\n\
             watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Ask\"\ncomponent = \"probe.wasm\"\n\
             config = {{ steps = [{{ ask = \"q\", schema = {schema}, default = {default} }}] }}\n\
             [role.action.limits]\ncpu = \"20s\"\ntimeout = \"30s\"\n"
        ));
        let ended = place
            .host(&["run", "team.toml", "--storage", "store"])
            .expect(3);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

/// A team whose action asks something else when nobody answered in time.
const OTHER_QUESTION: &str = r#"
schema = "strata.team/1"
[team]
name = "other"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "a"
component = "probe.wasm"
limits = { retries = 3, backoff = "1ms" }
config = { steps = [
  { ask = "may I say hello?", choices = ["yes", "no"], default = "no", expires = "1ms", attempts = [1, 2] },
  { fail = "retryable", attempts = [2] },
  { ask = "may I delete everything?", choices = ["yes", "no"], attempts = [3, 4] },
  { say = "deleted: {reads}" },
] }
"#;

#[test]
fn an_answer_to_one_question_is_not_taken_for_another() {
    let place = Workspace::with(OTHER_QUESTION);
    place.run().expect(4);
    // Until the time for the first question is over, a resume changes nothing.
    while open(&place) == ["ask-0-0-0-0"] {
        place.resume().expect(4);
    }
    assert_eq!(open(&place), ["ask-0-0-0-0-r1"]);
    let refused = place
        .host(&["answer", "store", "ask-0-0-0-0=yes"])
        .expect(2);
    let said = "another question is asked in its place. Look at the question of `ask-0-0-0-0-r1`";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let answer = ["answer", "store", "ask-0-0-0-0-r1=no"];
    place.host(&answer).expect(0);
    place.resume().expect(0);
    assert_eq!(contents(&place)[1], "deleted: no");
}

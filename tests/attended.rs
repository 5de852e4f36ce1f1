//! Teams that wait while answers and messages arrive: at a terminal that asks a question, and with
//! a `team.json` alone.

use std::fs;

use crate::process::Process;
use crate::terminal::Terminal;
use crate::workspace::Workspace;

const ASKING: &str = r#"
schema = "strata.team/1"
[team]
name = "asking"
idea = "hello"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Greet"
component = "probe.wasm"
config = { steps = [{ ask = "how many?", schema = { type = "integer" } }, { say = "re: {inputs}" }] }
"#;

/// Sends messages to unknown recipients in parallel. All of them must be accepted.
fn send_at_once(place: &Workspace, count: usize) {
    let send = |n: usize| place.start(&["send", "store", "--cause", "Nobody", &n.to_string()]);
    let sending: Vec<Process> = (0..count).map(send).collect();
    for process in sending {
        process.end().expect(0);
    }
}

fn sent(place: &Workspace) -> usize {
    place
        .recorded()
        .iter()
        .filter(|line| line["kind"] == "message-routed" && line["cause_by"] == "Nobody")
        .count()
}

#[test]
fn a_run_that_waits_at_the_terminal_continues_with_answers_and_messages_from_elsewhere() {
    let place = Workspace::with(ASKING);
    let mut terminal = Terminal::open(&place, &["run", "team.toml", "--storage", "store"]);
    terminal.until("> ");
    place
        .host(&["answer", "store", "ask-0-0-0-0=many"])
        .expect(2);
    let sent = place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    assert!(
        sent.stderr.contains("is in the mailbox of A"),
        "{}",
        sent.stderr
    );
    terminal.until("the team continues with what came from elsewhere");
    terminal.until("> ");
    let taken = place
        .host(&["answer", "store", "ask-0-0-0-0=42"])
        .expect(0)
        .stderr;
    assert!(
        taken.contains("is answered") && !taken.contains("--recover_path"),
        "it goes on by itself: {taken}"
    );
    terminal.until("the team continues with what came from elsewhere");
    terminal.until("> ");
    terminal.press("43\n");
    terminal.until("re: more");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn parallel_messages_are_accepted_while_the_terminal_is_asked() {
    let place = Workspace::with(ASKING);
    let mut terminal = Terminal::open(&place, &["run", "team.toml", "--storage", "store"]);
    terminal.until("> ");
    send_at_once(&place, 12);
    terminal.press("42\n");
    terminal.until("re: hello");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(sent(&place), 12);
}

#[test]
fn parallel_messages_are_accepted_by_a_team_json_alone() {
    let place = Workspace::with(ASKING);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(4);
    for file in fs::read_dir(place.path("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if !file.ends_with("team.json") {
            fs::remove_file(file).unwrap();
        }
    }
    send_at_once(&place, 4);
    assert_eq!(sent(&place), 4);
}

#[test]
fn input_that_is_typed_while_files_change_answers_the_question_asked_then() {
    let place = Workspace::with(ASKING);
    let mut terminal = Terminal::open(&place, &["dev", "team.toml", "--storage", "store"]);
    for change in ["# one", "# two"] {
        terminal.until("> ");
        place.write("team.toml", format!("{ASKING}{change}\n"));
        terminal.until("changed");
    }
    terminal.until("> ");
    terminal.press("42\n");
    terminal.until("re: hello");
    terminal.until("for changes; Ctrl-C");
    terminal.press("\u{3}");
    terminal.end();
}

const TWO_QUESTIONS: &str = r#"
schema = "strata.team/1"
[team]
name = "questions"
idea = "hello"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Harmless"
component = "probe.wasm"
config = { steps = [{ ask = "shall I greet?", choices = ["yes", "no"], expires = "3s", default = "no" }, { say = "A was told {reads}" }] }
[[role]]
name = "B"
watch = ["UserRequirement"]
[[role.action]]
name = "Dangerous"
component = "probe.wasm"
config = { steps = [{ ask = "shall I delete?", choices = ["2", "yes", "1"] }, { say = "B was told {reads}" }] }
"#;

#[test]
fn input_answers_only_its_question_and_a_number_selects_a_choice() {
    let place = Workspace::with(TWO_QUESTIONS);
    let mut terminal = Terminal::open(&place, &["run", "team.toml", "--storage", "store"]);
    terminal.until("shall I greet?");
    terminal.until("> ");
    terminal.press("ye");
    terminal.until("the time to answer is over");
    terminal.until("shall I delete?");
    terminal.until("> ");
    terminal.press("s\n");
    terminal.until("none of the choices");
    terminal.until("> ");
    terminal.press("1\n");
    terminal.until("the answer is `2`");
    terminal.until("B was told");
    assert_eq!(terminal.end().0, Some(0));
}

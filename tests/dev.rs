//! `dev`: a team that is broken, fixed and changed while `dev` watches it, and from where it
//! continues.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::probe::project;
use crate::process::{Process, Signal};
use crate::stream;
use crate::workspace::Workspace;

/// A team of two roles, one after the other. Their steps are inserted.
const TWO: &str = r#"
schema = "strata.team/1"
[team]
name = "two"
idea = "IDEA"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ say = "FIRST" }] }
[[role]]
name = "B"
watch = ["One"]
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ SECOND }] }
"#;

fn two(idea: &str, first: &str, second: &str) -> String {
    TWO.replace("IDEA", idea)
        .replace("FIRST", first)
        .replace("SECOND", second)
}

/// Starts `dev` in a directory and waits for its output.
fn start_dev(place: &Workspace, team: &str, more: &[&str]) -> Process {
    let host = place.command(&[&["dev", team, "--storage", "store"], more].concat());
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(host.get_program())
        .args(host.get_args());
    command.current_dir(place.path(""));
    for (name, value) in host.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Process::spawn(command)
}

/// Returns the actions that were started in the current lineage and those before it.
fn started(place: &Workspace) -> Vec<String> {
    stream::actions(&place.recorded(), "action-started")
}

#[test]
fn the_role_at_fault_is_run_again_with_the_fix() {
    let place = Workspace::with(&two("go", "a", "fail = \"error\""));
    let mut dev = start_dev(&place, "team.toml", &["--until-done"]);
    dev.until_line_contains("fault: B action 0 `Two` attempt 1: error");
    dev.until_line_contains("continues by itself once it is fixed");
    dev.until_line_contains("for changes; Ctrl-C");
    place.write("team.toml", two("go", "a", "say = \"b\""));
    dev.until_line_contains("`team.toml` changed");
    let said = dev.until_line_contains("from saving `team.toml` to the result of B.Two");
    assert!(
        said.trim_start().starts_with(|c: char| c.is_ascii_digit()),
        "{said}"
    );
    dev.end().expect(0);
    assert_eq!(started(&place), ["A.One", "B.Two", "B.Two"]);
}

#[test]
fn a_team_file_that_is_not_there_yet_is_waited_for() {
    let place = Workspace::empty();
    let mut dev = start_dev(&place, "team.toml", &["--until-done"]);
    dev.until_line_contains("waiting for `team.toml` to be there");
    place.write("team.toml", two("go", "a", "say = \"b\""));
    dev.end().expect(0);
    assert_eq!(started(&place), ["A.One", "B.Two"]);
}

#[test]
fn dev_continues_with_answers_and_messages_from_elsewhere() {
    let place = Workspace::with(&two("go", "{inputs}", "ask = \"how many?\""));
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("for changes; Ctrl-C");
    place.host(&["answer", "store", "ask-1-1-0-0=42"]).expect(0);
    dev.until_line_contains("`store` changed");
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    place
        .host(&["send", "store", "--cause", "One", "more"])
        .expect(0);
    dev.until_line_contains("ask-2-1-0-0");
    dev.until_line_contains("for changes; Ctrl-C");
    dev.signal(Signal::INT);
    dev.end().expect(4);
    assert_eq!(started(&place), ["A.One", "B.Two", "B.Two", "B.Two"]);
}

#[test]
fn work_that_depends_on_a_change_is_done_again() {
    let place = Workspace::with(&two("go", "a", "say = \"{inputs}!\""));
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    // Only the second role is changed: the first is kept.
    place.write("team.toml", two("go", "a", "say = \"{inputs}?\""));
    dev.until_line_contains("as lineage");
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    assert_eq!(started(&place), ["A.One", "B.Two"]);
    // The first role is changed: both run again.
    place.write("team.toml", two("go", "b", "say = \"{inputs}?\""));
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    let outputs: Vec<String> = stream::of_kind(&place.recorded(), "action-finished")
        .iter()
        .map(|line| line["output"]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(outputs, ["b", "b?"]);
    // A change that has no effect.
    place.write(
        "team.toml",
        two("go", "b", "say = \"{inputs}?\"") + "# a remark\n",
    );
    dev.until_line_contains("the team is done, and nothing that it ran with has changed");
    dev.until_line_contains("for changes; Ctrl-C");
    // Another idea starts another run; the previous one is kept.
    place.write("team.toml", two("again", "b", "say = \"{inputs}?\""));
    dev.until_line_contains("the team begins anew");
    dev.until_line_contains("for changes; Ctrl-C");
    dev.signal(Signal::INT);
    dev.end().expect(0);
    assert_eq!(started(&place), ["A.One", "B.Two"]);
}

#[test]
fn a_run_is_stopped_for_a_change_and_continues_with_it() {
    let place = Workspace::with(&two("go", "a", "fail = \"spin\""));
    let mut dev = start_dev(&place, "team.toml", &["--until-done"]);
    dev.until_line_contains("A.One");
    place.write("team.toml", two("go", "a", "say = \"b\""));
    dev.end().expect(0);
    assert_eq!(started(&place), ["A.One", "B.Two", "B.Two"]);
}

#[test]
fn a_signal_ends_a_round_in_order() {
    let place = Workspace::with(&two("go", "a", "sleep = \"90s\""));
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("A.One");
    dev.signal(Signal::INT);
    let ended = dev.end().expect(130);
    assert!(
        ended
            .stdout
            .contains("interrupted at step 1; saved in `store`"),
        "{}",
        ended.stdout
    );
    assert_eq!(place.team_json()["strata"]["status"], "interrupted");
}

#[test]
fn errors_in_a_source_are_reported_and_the_loop_continues() {
    let place = Workspace::empty();
    place.host(&["new", "team", "press"]).expect(0);
    place.write(
        "press/respond/Cargo.lock",
        fs::read(project().join("Cargo.lock")).unwrap(),
    );
    let (team, source) = ("press/team.toml", "press/respond/src/lib.rs");
    let (good_team, good_source) = (
        place.read(team),
        String::from_utf8(place.read(source)).unwrap(),
    );
    place.write(
        source,
        format!("{good_source}\nfn f() {{\n    nothing()\n}}\n"),
    );
    let mut dev = start_dev(&place, team, &["--until-done"]);
    let line = good_source.lines().count() + 3;
    dev.until_line_contains("cannot find function `nothing`");
    dev.until_line_contains(&format!("src/lib.rs:{line}:5"));
    dev.until_line_contains("for changes; Ctrl-C");
    place.write(team, "[team");
    dev.until_line_contains("not valid TOML");
    dev.until_line_contains("for changes; Ctrl-C");
    // While the file cannot be parsed, the files that it named before are watched.
    place.write(source, &good_source);
    dev.until_line_contains("not valid TOML");
    dev.until_line_contains("for changes; Ctrl-C");
    place.write(team, good_team);
    dev.until_line_contains("from saving `press/team.toml` to the result of Writer.Write");
    dev.end().expect(0);
}

#[test]
fn an_edit_of_source_that_needs_no_build_is_picked_up() {
    let sources = [
        (
            "work/action.py",
            "from strata_action import Context, action\nfrom lib.words import word\n\n@action\ndef work(cx: Context):\n    return word\n",
            "work/lib/words.py",
            "word = WORD\n",
        ),
        (
            "work/action.js",
            "import { word } from \"./lib/words.js\";\nexport default { run: () => word };\n",
            "work/lib/words.js",
            "export const word = WORD;\n",
        ),
    ];
    for (entry, source, module, text) in sources {
        let team = two("go", "a", "").replace(
            "component = \"probe.wasm\"\nconfig = { steps = [{  }] }",
            "component = \"work\"",
        );
        let place = Workspace::with(&team);
        if entry.ends_with("js") {
            place.write("work/package.json", "{ \"name\": \"work\" }");
        }
        place.write(entry, source);
        place.write(module, text.replace("WORD", "\"first\""));
        // Setting up the interpreter takes longer than waiting for a line does.
        place.command(&["check", "team.toml"]).output().unwrap();
        let mut dev = start_dev(&place, "team.toml", &[]);
        dev.until_line_contains("for changes; Ctrl-C");
        place.write(module, text.replace("WORD", "(\"second\""));
        dev.until_line_contains("changed");
        dev.until_line_contains("fault: B action 0 `Two` attempt 1: error: SyntaxError");
        dev.until_line_contains("for changes; Ctrl-C");
        place.write(module, text.replace("WORD", "\"third\""));
        let result = dev.until_line_contains("to the result of B.Two");
        assert!(result.contains(module), "{result}");
        dev.signal(Signal::INT);
        dev.end();
        let lines = place.recorded();
        let finished = stream::of_kind(&lines, "action-finished");
        assert_eq!(finished.last().unwrap()["output"]["content"], "third");
        assert!(!place.path("work/target").exists(), "nothing was built");
    }
}

#[test]
fn replies_and_schemas_that_the_team_file_names_are_watched() {
    let llm = "[llm]\nprovider = \"scripted\"\nreplies = \"replies.toml\"\n[[role]]\nname = \"A\"";
    let asks = "config = { steps = [{ llm = \"hello\" }, { say = \"{reads}\", data = {} }] }\noutput_schema = \"out.json\"\nallow = { llm = { models = [\"*\"] } }";
    let team = two("go", "a", "say = \"{inputs}!\"").replacen("[[role]]\nname = \"A\"", llm, 1);
    let team = team.replacen("config = { steps = [{ say = \"a\" }] }", asks, 1);
    let place = Workspace::with(&team);
    let reply = |text: &str| place.write("replies.toml", format!("[[reply]]\ntext = \"{text}\"\n"));
    reply("first");
    place.write("out.json", "{}");
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("watching 4 files for changes");
    reply("second");
    dev.until_line_contains("`replies.toml` changed");
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    assert_eq!(started(&place), ["A.One", "B.Two"]);
    let stream = place.recorded();
    let outputs = stream::of_kind(&stream, "action-finished");
    assert!(
        outputs[0]["output"]["content"]
            .as_str()
            .unwrap()
            .contains("second"),
        "{outputs:?}"
    );
    // The changed schema rejects what it accepted before.
    place.write("out.json", "{ \"type\": \"string\" }");
    dev.until_line_contains("`out.json` changed");
    dev.until_line_contains("fault: A action 0 `One`");
    dev.until_line_contains("for changes; Ctrl-C");
    dev.signal(Signal::INT);
    dev.end().expect(3);
}

#[test]
fn changes_made_while_the_team_could_not_run_are_applied_when_it_can() {
    let place = Workspace::with("");
    let team = two("go", "a", "llm = \"q\" }, { say = \"{reads}").replace(
        "[[role]]\nname = \"A\"",
        "[llm]\nprovider = \"scripted\"\nreplies = \"replies.toml\"\n[[role]]\nname = \"A\"",
    ) + "[role.action.allow]\nllm = { models = [\"*\"] }\n";
    let team = team.replace("{reads} }", "{reads}\" }");
    let reply = |text: &str| place.write("replies.toml", format!("[[reply]]\ntext = \"{text}\"\n"));
    reply("one");
    place.write("team.toml", &team);
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("for changes; Ctrl-C");
    place.write("team.toml", format!("{team}nonsense"));
    dev.until_line_contains("for changes; Ctrl-C");
    reply("two");
    dev.until_line_contains("`replies.toml` changed");
    dev.until_line_contains("for changes; Ctrl-C");
    place.write("team.toml", &team);
    dev.until_line_contains("done after 2 steps");
    dev.until_line_contains("for changes; Ctrl-C");
    dev.signal(Signal::INT);
    dev.end().expect(0);
    let recorded = place.recorded();
    let finished = stream::of_kind(&recorded, "action-finished");
    assert_eq!(finished.last().unwrap()["output"]["content"], "two");
}

#[test]
fn teams_developed_in_one_directory_are_saved_separately_and_apart_from_their_runs() {
    let place = Workspace::with(&two("go", "a", "say = \"b\""));
    let other = two("go", "c", "say = \"d\"").replace("name = \"two\"", "name = \"three\"");
    place.write("other.toml", other);
    for team in ["team.toml", "other.toml", "team.toml"] {
        let ended = place.host(&["dev", team, "--until-done"]).expect(0);
        assert!(!ended.stderr.contains("is now in"), "{}", ended.stderr);
    }
    place.host(&["run", "team.toml"]).expect(0);
    for (name, team) in [("two.dev", "two"), ("three.dev", "three"), ("two", "two")] {
        let saved = place.read(&format!("workspace/storage/{name}/team.json"));
        assert!(String::from_utf8(saved).unwrap().contains(team), "{name}");
    }
    assert_eq!(
        fs::read_link(place.path("workspace/storage/team")).unwrap(),
        Path::new("two")
    );
}

/// A role with a tool, which its model calls once. `ROLE`, `TOOL` and `STEP` are inserted.
const CLERK: &str = r#"
schema = "strata.team/1"
[team]
name = "desk"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ say = "an order" }] }
[[role]]
name = "Clerk"
watch = ["One"]
react = "tools"
ROLE
[[role.action]]
name = "look"
component = "probe.wasm"
TOOL
config = { steps = [{ STEP }] }
"#;

const CLERK_REPLIES: &str = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "look", arguments = { n = 1 } }]
[[reply]]
turn = 1
text = "it is done"
"#;

fn clerk(role: &str, tool: &str, step: &str) -> String {
    let team = CLERK.replace("ROLE", role).replace("TOOL", tool);
    team.replace("STEP", step)
}

/// Returns the number of turns of the current lineage and those before it, and how often `look` was called.
fn turns_and_calls(place: &Workspace) -> (usize, usize) {
    let lines = place.recorded();
    let calls = started(place);
    let looks = calls.iter().filter(|name| *name == "Clerk.look");
    (stream::of_kind(&lines, "turn").len(), looks.count())
}

/// Waits until the round after an edit has ended.
fn until_watching(dev: &mut Process) {
    dev.until_line_contains("for changes; Ctrl-C");
}

#[test]
fn work_with_tools_is_done_again_after_an_edit_of_what_it_depends_on() {
    let plain = clerk("", "", "say = \"seen\"");
    let place = Workspace::with(&plain);
    place.write("replies.toml", CLERK_REPLIES);
    place.write("any.json", "{ \"type\": \"object\" }");
    place.write(
        "skills/mail/SKILL.md",
        "---\nname: mail\ndescription: Sends mail.\n---\nSend it.\n",
    );
    place.write("skills/mail/form.txt", "Dear");
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("done after 2 steps");
    until_watching(&mut dev);
    let asks_guard =
        "before = { component = \"probe.wasm\", config = { steps = [{ say = \"GUARD\" }] } }";
    let allows = asks_guard.replace("GUARD", "allow");
    let skilled = "skills = [\"skills/*\"]";
    // Each edit alters what the model is asked, or what becomes of its call.
    let edits = [
        clerk("instructions = \"be brief\"", "", "say = \"seen\""),
        clerk("max_calls = 1", "", "say = \"seen\""),
        clerk("tool_faults = \"stop\"", "", "say = \"seen\""),
        clerk("", "description = \"looks\"", "say = \"seen\""),
        clerk("", "input_schema = \"any.json\"", "say = \"seen\""),
        clerk("", "max_calls = 1", "say = \"seen\""),
        clerk("", "on_fault = \"return\"", "fail = \"error\""),
        // The model was told the fault, so the call counts as finished.
        clerk("", "on_fault = \"return\"", "say = \"repaired\""),
        clerk(&allows, "", "say = \"seen\""),
        plain.clone(),
    ];
    for team in edits {
        place.write("team.toml", &team);
        dev.until_line_contains("as lineage");
        dev.until_line_contains("done after 2 steps");
        until_watching(&mut dev);
        assert_eq!(turns_and_calls(&place), (2, 1), "{team}");
        assert_eq!(started(&place)[0], "A.One", "{team}");
    }
    // A call that is denied is not made.
    place.write(
        "team.toml",
        clerk(
            &asks_guard.replace("GUARD", "deny: no"),
            "",
            "say = \"seen\"",
        ),
    );
    dev.until_line_contains("done after 2 steps");
    until_watching(&mut dev);
    assert_eq!(turns_and_calls(&place), (2, 0));
    // A person is asked about what was done without asking before.
    place.write("team.toml", clerk("", "approve = true", "say = \"seen\""));
    dev.until_line_contains("ask-1-1-0-0");
    until_watching(&mut dev);
    place.write("team.toml", clerk(skilled, "", "say = \"seen\""));
    dev.until_line_contains("done after 2 steps");
    until_watching(&mut dev);
    // Files that the role uses.
    let files = [
        ("replies.toml", CLERK_REPLIES.replace("is done", "was done")),
        (
            "skills/mail/SKILL.md",
            "---\nname: mail\ndescription: Sends letters.\n---\nSend it.\n".to_owned(),
        ),
        ("skills/mail/form.txt", "Hello".to_owned()),
    ];
    for (file, text) in files {
        place.write(file, text);
        dev.until_line_contains("as lineage");
        dev.until_line_contains("done after 2 steps");
        until_watching(&mut dev);
        assert_eq!(turns_and_calls(&place), (2, 1), "{file}");
    }
    // What bounds the work does not alter its results, and neither does a remark.
    let bounded = clerk(&format!("{skilled}\nmax_turns = 9"), "", "say = \"seen\"");
    place.write("team.toml", bounded + "# a remark\n");
    dev.until_line_contains("the team is done, and nothing that it ran with has changed");
    until_watching(&mut dev);
    dev.signal(Signal::INT);
    dev.end().expect(0);
}

#[test]
fn a_tool_that_was_never_called_is_offered_again_when_it_has_changed() {
    let team = clerk("", "", "say = \"seen\"").replace(
        "component = \"probe.wasm\"\n\nconfig = { steps = [{ say = \"seen\" }] }",
        "script = \"look.py\"",
    );
    let place = Workspace::with(&team);
    let script = |about: &str| {
        place.write("look.py", format!("\"\"\"{about}\"\"\"\nreturn 'seen'\n"));
    };
    script("Looks.");
    place.write("replies.toml", "[[reply]]\ntext = \"no need\"\n");
    place.command(&["check", "team.toml"]).output().unwrap();
    let mut dev = start_dev(&place, "team.toml", &[]);
    dev.until_line_contains("done after 2 steps");
    until_watching(&mut dev);
    script("Looks up an order.");
    dev.until_line_contains("as lineage");
    dev.until_line_contains("done after 2 steps");
    until_watching(&mut dev);
    dev.signal(Signal::INT);
    dev.end().expect(0);
}

#[test]
fn an_edit_after_too_many_turns_begins_the_work_again() {
    let endless = "[[reply]]\ntool_calls = [{ name = \"look\" }]\n";
    let place = Workspace::with(&clerk("max_turns = 2", "", "say = \"seen\""));
    place.write("replies.toml", endless);
    let mut dev = start_dev(&place, "team.toml", &["--until-done"]);
    dev.until_line_contains("no answer after 2 turns");
    until_watching(&mut dev);
    place.write("replies.toml", CLERK_REPLIES);
    dev.end().expect(0);
    assert_eq!(turns_and_calls(&place), (2, 1));
}

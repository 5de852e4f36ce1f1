//! `replay`: recorded attempts are repeated and compared. Every change is found and reported.

use std::path::Path;

use rusqlite::Connection;

use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "two"
idea = "go"
[env.scope.tally]
reducer = "append"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ llm = "hi" }, { now = true }, { random = 8 }, { set = "k", value = 1, scope = "tally" }, { emit = "by the way", to = ["B"] }, { get = "k", scope = "tally" }, { say = "one {inputs} {reads}" }] }
[role.action.allow]
llm = { models = ["*"] }
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ fail = "trap", attempts = [1] }, { say = "two {inputs}" }] }
[[role]]
name = "B"
watch = ["Two"]
[[role.action]]
name = "Three"
component = "probe.wasm"
config = { steps = [{ get = "k", scope = "tally" }, { say = "three {inputs} {reads}" }] }
"#;

/// Creates a run with a fault and a resume that records events of all kinds.
fn recorded() -> Workspace {
    let place = Workspace::with(TEAM);
    place.write("replies.toml", "[[reply]]\ntext = \"hello\"\n");
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place.host(&["run", "--recover_path", "store"]).expect(0);
    place
}

/// A team in which A writes files beside B, who reads one. Then C removes it beside D, who still
/// sees it.
const FILES: &str = r#"schema = "strata.team/1"
[team]
name = "files"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ read = "/out/found" }, { write = "/out/found", text = "one" }, { write = "/out/deep/new", text = "1" }, { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ read = "/out/found" }, { fail = "trap", attempts = [1] }, { write = "/out/found", text = "two" }, { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role]]
name = "B"
watch = ["UserRequirement"]
[[role.action]]
name = "Look"
component = "probe.wasm"
config = { steps = [{ read = "/out/found" }, { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out" }]
[[role]]
name = "C"
watch = ["Two"]
[[role.action]]
name = "Drop"
component = "probe.wasm"
config = { steps = [{ remove = "/out/found" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role]]
name = "D"
watch = ["Two"]
[[role.action]]
name = "Look"
component = "probe.wasm"
config = { steps = [{ sleep = "20ms" }, { read = "/out/found" }, { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out" }]
"#;

#[test]
fn repeated_attempts_read_and_write_the_recorded_files() {
    let place = Workspace::with(FILES);
    place.write("out/found", "zero");
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place.host(&["run", "--recover_path", "store"]).expect(0);
    let replay = ["replay", "store", "--verify"];
    // The files are those of the end of the run, or were changed later.
    for meddle in ["", "mine"] {
        if !meddle.is_empty() {
            place.write("out/found", meddle);
            place.write("out/deep/new", meddle);
        }
        let before = (bytes(&place.path("store")), bytes(&place.path("out/deep")));
        let ended = place.host(&replay).expect(0);
        assert_eq!(
            ended.stdout, "equal: 6, different: 0, not made again: 0\n",
            "{}",
            ended.stderr
        );
        assert_eq!(
            (bytes(&place.path("store")), bytes(&place.path("out/deep"))),
            before
        );
    }
    let check = |from: &str, to: &str, expected: &[&str]| {
        assert!(FILES.contains(from), "{from}");
        place.write("other.toml", FILES.replacen(from, to, 1));
        let ended = place
            .host(&["replay", "store", "other.toml", "--verify"])
            .expect(3);
        let missing = expected.iter().find(|part| !ended.stdout.contains(**part));
        assert_eq!(missing, None, "{to}: {}", ended.stdout);
        // The attempt beside it did not differ: it was not compared.
        assert!(
            ended.stdout.ends_with("different: 1, not made again: 0\n"),
            "{}",
            ended.stdout
        );
    };
    check(
        "text = \"one\"",
        "text = \"eins\"",
        &["step 0, `A.One`", "file change 3 (`out/found`) differs"],
    );
    check(
        "/out/deep/new",
        "/out/deep/old",
        &["file change 2 (`out/deep/new`) differs", "out/deep/old"],
    );
    check(
        "{ remove = \"/out/found\" }",
        "{ now = true }",
        &["`C.Drop`", "a host call differs"],
    );
}

/// Returns the files of a storage directory.
fn bytes(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| (file.display().to_string(), std::fs::read(file).unwrap()))
        .collect()
}

#[test]
fn a_replay_gives_the_same_results_without_network_and_writes_nothing() {
    let place = recorded();
    // The model would give other replies now.
    place.write("replies.toml", "[[reply]]\ntext = \"goodbye\"\n");
    let before = bytes(&place.path("store"));
    let ended = place.host(&["replay", "store", "--verify"]).expect(0);
    assert_eq!(
        ended.stdout, "equal: 4, different: 0, not made again: 0\n",
        "{}",
        ended.stderr
    );
    assert_eq!(bytes(&place.path("store")), before);
    let check = |args: &[&str], count: &str| {
        let ended = place
            .host(&[&["replay", "store", "--verify"], args].concat())
            .expect(0);
        assert!(
            ended.stdout.starts_with(count),
            "{args:?}: {}",
            ended.stdout
        );
    };
    check(&["--step", "0"], "equal: 3, ");
    check(&["--action", "A.Two"], "equal: 2, ");
    check(&["--step", "1", "--action", "B.Three"], "equal: 1, ");
    place
        .host(&["replay", "store", "--verify", "--action", "A.Nobody"])
        .expect(2);
}

#[test]
fn differences_of_a_replay_are_reported_with_their_positions() {
    let place = recorded();
    let check = |from: &str, to: &str, expected: &[&str]| {
        assert!(TEAM.contains(from), "{from}");
        place.write("other.toml", TEAM.replacen(from, to, 1));
        let ended = place
            .host(&["replay", "store", "other.toml", "--verify"])
            .expect(3);
        let missing = expected.iter().find(|part| !ended.stdout.contains(**part));
        assert_eq!(missing, None, "{to}: {}", ended.stdout);
        place.host(&["replay", "store", "other.toml"]).expect(0);
    };
    let one = "step 0, `A.One`, attempt 1: ";
    check(
        "\"one {inputs}",
        "\"eins {inputs}",
        &[
            one,
            "the output differs",
            "recorded: one go hello",
            "found:    eins",
        ],
    );
    check(
        "by the way",
        "by the",
        &[one, "emission 1 differs", "recorded: by the way"],
    );
    check(
        "{ set =",
        "{ set = \"j\", value = 1, scope = \"tally\" }, { set =",
        &[one, "state write 1 (`tally/"],
    );
    check(
        "{ llm = \"hi\" }",
        "{ llm = \"ho\" }",
        &[one, "a host call differs", "a call of `llm`"],
    );
    check("{ now = true }, ", "", &[one, "differs"]);
    check(
        "\"trap\", attempts = [1]",
        "\"error\", attempts = [1]",
        &["`A.Two`, attempt 1: the end differs", "trap: ", "error: "],
    );
    check(
        "\"three {inputs}",
        "\"drei {inputs}",
        &["step 1, `B.Three`, attempt 1: the output differs"],
    );
}

#[test]
fn a_changed_answer_in_the_record_is_detected() {
    let place = recorded();
    let database = Connection::open(place.path("store/team.db")).unwrap();
    // Flips a bit in an event. Its checksum detects this before anything runs.
    database
        .execute(
            "UPDATE event SET body = zeroblob(length(body)) WHERE n = 8",
            [],
        )
        .unwrap();
    drop(database);
    let ended = place.host(&["replay", "store", "--verify"]);
    assert!(matches!(ended.code, Some(1)), "{ended:?}");
}

#[test]
fn attempts_of_a_missing_component_are_reported_and_can_be_replayed_with_it() {
    let place = recorded();
    let probe = place.read("probe.wasm");
    place.write("then.wasm", &probe);
    // The same component with an additional custom section, so it has another digest.
    place.write(
        "probe.wasm",
        [probe.as_slice(), &[0, 5, 4, b'm', b'o', b'r', b'e']].concat(),
    );
    let ended = place.host(&["replay", "store", "--verify"]).expect(2);
    assert!(
        ended
            .stderr
            .contains("`A.One`, attempt 1 is not made again: its component was `"),
        "{}",
        ended.stderr
    );
    let given = ["A.One=then.wasm", "A.Two=then.wasm"]
        .map(|given| ["--component", given])
        .concat();
    let ended = place
        .host(&[&["replay", "store", "--verify"], given.as_slice()].concat())
        .expect(0);
    assert_eq!(ended.stdout, "equal: 3, different: 0, not made again: 1\n");
}

#[test]
fn attempts_whose_guard_was_another_one_are_not_made_again() {
    let place = Workspace::with(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[llm]\nprovider = \"scripted\"\nreplies = \"replies.toml\"\n\
         [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n\
         before = { component = \"guard.wasm\", config = { steps = [{ say = \"allow\" }] } }\n\
         [[role.action]]\nname = \"look\"\ncomponent = \"probe.wasm\"\nconfig = { steps = [{ say = \"seen\" }] }\n",
    );
    place.write(
        "replies.toml",
        "[[reply]]\nturn = 0\ntool_calls = [{ name = \"look\" }]\n[[reply]]\nturn = 1\ntext = \"done\"\n",
    );
    let probe = place.read("probe.wasm");
    place.write("guard.wasm", &probe);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(0);
    let replay = ["replay", "store", "--verify"];
    let equal = place.host(&replay).expect(0).stdout;
    assert_eq!(equal, "equal: 3, different: 0, not made again: 0\n");
    place.write(
        "guard.wasm",
        [probe.as_slice(), &[0, 5, 4, b'm', b'o', b'r', b'e']].concat(),
    );
    let ended = place.host(&replay).expect(2);
    let expected = "`A.turn`, attempt 1 is not made again: the guard `A.before` was `";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let given = ["--component", "A.before=probe.wasm"];
    let ended = place.host(&[&replay[..], &given].concat()).expect(0);
    assert_eq!(ended.stdout, equal);
}

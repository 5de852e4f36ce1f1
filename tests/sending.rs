//! `send`: messages are added to a team that runs or does not run, completely and once.

use std::time::Duration;

use serde_json::{Value, json};
use strata_host::{Message, StorageLocation};

use crate::live::GREETER;
use crate::stream;
use crate::workspace::Workspace;

#[test]
fn a_message_with_a_known_key_is_not_published_again() {
    let send = [
        "send",
        "store",
        "--cause",
        "UserRequirement",
        "--idempotency-key",
    ];
    let place = Workspace::with(GREETER);
    let sent = |key: &str| {
        place
            .host(&[&send[..], &[key, "more"]].concat())
            .expect(0)
            .stderr
    };
    let mut process = place.start_resting();
    assert!(sent("k").contains("message sent-0 is in the mailbox of A"));
    process.until("step-committed", None);
    let again = "already received under this key as message sent-0; it is not sent again";
    assert!(sent("k").contains(again));
    process.kill();
    for (key, told) in [
        ("k", again),
        ("l", "message sent-1 is in the mailbox of A"),
        ("l", "as message sent-1"),
    ] {
        assert!(sent(key).contains(told), "{key}");
    }
    let resumed = place.resume().expect(0);
    assert_eq!(
        stream::of_kind(&resumed.events(), "action-finished").len(),
        1,
        "{}",
        resumed.stdout
    );
    assert_eq!(
        place.team_json()["env"]["history"]["storage"][2]["meta_info"],
        serde_json::json!({"idempotency_key": "k"})
    );
}

#[test]
fn a_label_that_nobody_watches_is_compared_with_those_that_somebody_watches() {
    let place = Workspace::with(GREETER);
    place.run().expect(0);
    let warned = |label: &str| {
        let sent = place.host(&["send", "store", "--cause", label, "more"]);
        sent.expect(0).stderr
    };
    let told = warned("UserRequirment");
    assert!(told.contains("did you mean `UserRequirement`?"), "{told}");
    let told = warned("Weather");
    assert!(!told.contains("did you mean"), "{told}");
}

#[test]
fn an_external_message_with_an_empty_or_null_key_has_none() {
    let place = Workspace::with(&format!(
        "{GREETER}\n[env.external]\nkind = 'stdio'\ncommand = ['sh', 'bridge.sh']\n"
    ));
    let line = |cause: &str, key: &str| {
        format!(
            "echo '{{\"content\":\"x\",\"cause_by\":\"{cause}\",\"meta_info\":{{\"idempotency_key\":{key}}}}}'\n"
        )
    };
    let keys = ["null", "null", "\"\"", "\"\"", "\"k\"", "\"k\"", "5", "5"];
    let lines: String = keys.iter().map(|key| line("Note", key)).collect();
    place.write("bridge.sh", lines + &line("Last", "null") + "cat > read\n");
    let mut process = place.start_run(&["--keep-alive"]);
    while process.until("message-routed", None)["cause_by"] != "Last" {}
    process.kill();
    let notes = place
        .recorded()
        .iter()
        .filter(|line| line["cause_by"] == "Note")
        .count();
    assert_eq!(notes, 6);
}

#[test]
fn a_message_without_recipients_leaves_a_finished_team_done() {
    let place = Workspace::with(GREETER);
    let run = ["run", "team.toml", "--storage", "store", "--quiet"];
    place.host(&run).expect(0);
    place
        .host(&["send", "store", "--cause", "Unheard", "x"])
        .expect(0);
    assert!(
        place
            .resume()
            .expect(0)
            .stderr
            .contains("is done; nothing is left to run")
    );
    place.host(&run).expect(0);
    place
        .host(&["send", "store", "--cause", "UserRequirement", "x"])
        .expect(0);
    place
        .host(&["send", "store", "--cause", "Unheard", "x"])
        .expect(0);
    assert!(
        place
            .host(&run)
            .expect(2)
            .stderr
            .contains("holds an unfinished team")
    );
}

#[test]
fn a_message_of_any_size_is_delivered_or_rejected() {
    let place = Workspace::with(GREETER);
    let process = place.start_resting();
    let send = |bytes: usize| {
        place.write("text", "\u{1}".repeat(bytes));
        let text = std::fs::File::open(place.path("text")).unwrap();
        let mut command = place.command(&["send", "store", "--cause", "Note", "-"]);
        String::from_utf8(command.stdin(text).output().unwrap().stderr).unwrap()
    };
    let told = send((16 << 20) + 1);
    assert!(
        told.contains("the text has more than 16 MiB; put it into a file"),
        "{told}"
    );
    assert_eq!(
        send(16 << 20),
        "warning: nobody watches `Note`: the message reached no mailbox\n"
    );
    process.kill();
    assert_eq!(
        place
            .recorded()
            .iter()
            .filter(|line| line["cause_by"] == "Note")
            .count(),
        1
    );
}

#[test]
fn an_idea_is_read_from_stdin_in_place_of_a_dash_and_is_not_empty() {
    let place = Workspace::with(GREETER);
    let run = |idea: &str, text: &str, storage: &str| {
        place.write("idea", text);
        let mut command = place.command(&["run", "team.toml", idea, "--storage", storage]);
        let input = std::fs::File::open(place.path("idea")).unwrap();
        let ended = command.stdin(input).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code(), told)
    };
    assert_eq!(run("-", "a poem\n", "one").0, Some(0));
    let idea = |storage: &str| {
        let shown = place.host(&["inspect", storage, "--json"]).expect(0).stdout;
        let state: Value = serde_json::from_str(&shown).unwrap();
        state["idea"].clone()
    };
    assert_eq!(idea("one"), "a poem");
    for (word, text) in [("-", "\n"), ("", "unused"), ("  ", "unused")] {
        let (code, told) = run(word, text, "two");
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("the idea is empty"), "{told}");
        assert!(!place.path("two").exists());
    }
}

#[test]
fn a_message_waits_for_an_owner_that_does_not_listen_yet() {
    let place = Workspace::with(GREETER);
    let url = format!("sqlite:{}?run=one", place.path("runs.db").display());
    place
        .host(&["run", "team.toml", "--storage", &url])
        .expect(0);
    let location = StorageLocation::new(&url);
    let held = location.hold().unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(held);
    });
    let message = Message::from_user("".into(), "more".into(), "UserRequirement".into());
    let sent = strata_host::launch::send(&location, message, &[]).unwrap();
    assert_eq!(sent.to, ["A"]);
    holder.join().unwrap();
}

const ASKS: &str = r#"
schema = "strata.team/1"
[team]
name = "asks"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "really?" }, { say = "asked" }] }
"#;

/// Runs a command while `team.json` cannot be replaced.
fn without_team_json(place: &Workspace, args: &[&str]) -> String {
    let new = place.path("store/.team.json.new");
    std::fs::create_dir(&new).unwrap();
    let told = place.host(args).expect(0).stderr;
    std::fs::remove_dir(&new).unwrap();
    assert!(
        told.contains("`team.json` stays as it is") && told.contains("`store/team.json`"),
        "{told}"
    );
    told
}

#[test]
fn a_message_is_recorded_although_team_json_cannot_be_written() {
    let place = Workspace::with(GREETER);
    place.run().expect(0);
    let sent = without_team_json(
        &place,
        &["send", "store", "--cause", "UserRequirement", "more"],
    );
    assert!(
        sent.contains("message sent-0 is in the mailbox of A"),
        "{sent}"
    );
    let resumed = place.resume().expect(0);
    assert_eq!(
        stream::of_kind(&resumed.events(), "action-finished").len(),
        1,
        "{}",
        resumed.stdout
    );

    let place = Workspace::with(ASKS);
    place.run().expect(4);
    let answer = ["answer", "store", "ask-0-0-0-0=yes"];
    without_team_json(&place, &answer);
    let again = place.host(&answer).expect(2).stderr;
    assert!(
        again.contains("is not open: it was answered already"),
        "{again}"
    );
    place.resume().expect(0);
}

#[test]
fn a_file_sent_to_a_running_team_is_received_by_it() {
    let place = Workspace::with(
        "schema = 'strata.team/1'\n[team]\nname = 'files'\n[[role]]\nname = 'A'\nwatch = ['UserRequirement']\n\
         [[role.action]]\nname = 'Look'\nscript = 'look.py'\n",
    );
    place.write(
        "look.py",
        "return ' '.join(f'{p.name} {p.load().decode()}' for p in cx.newest.parts) or 'none'\n",
    );
    place.write("notes.md", "# note");
    let mut process = place.start_run(&["begin", "--keep-alive"]);
    process.until("step-committed", None);
    let send = [
        "send",
        "store",
        "look at this",
        "--cause",
        "UserRequirement",
        "--file",
        "notes.md",
    ];
    place.host(&send).expect(0);
    process.until("step-committed", None);
    process.kill();
    let all = place.host(&["inspect", "store", "--json"]).expect(0).stdout;
    assert!(all.contains("notes.md # note"), "{all}");
}

/// A role that sends three messages to `B`, and one to nobody, which `B` would otherwise hear.
const THREE: &str = r#"
schema = "strata.team/1"
[team]
name = "three"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Send"
component = "probe.wasm"
config = { steps = [
    { emit = "1", to = ["B"] }, { emit = "2", to = ["B"] }, { emit = "3", to = ["B"] }, { say = "out", to = [] },
] }
[[role]]
name = "B"
watch = ["Send"]
deliver = "each"
[[role.action]]
name = "Take"
component = "probe.wasm"
config = { steps = [{ say = "took {inputs}" }] }
[[role]]
name = "C"
kind = "human"
[[route]]
from = "B"
case = [{ when = "content == 'took 2'", to = ["C"] }]
default = []
"#;

#[test]
fn a_role_can_take_each_message_alone_and_an_empty_list_of_recipients_is_nobody() {
    let place = Workspace::with(THREE);
    let ended = place.run().expect(4);
    let lines = ended.events();
    let outputs: Vec<&Value> = lines
        .iter()
        .filter(|line| line["kind"] == "action-finished")
        .map(|line| &line["output"]["content"])
        .collect();
    assert_eq!(outputs, ["out", "took 1", "took 2", "took 3"]);
    let routed: Vec<(&Value, &Value)> = lines
        .iter()
        .filter(|line| line["kind"] == "message-routed")
        .map(|line| (&line["from"], &line["to"]))
        .collect();
    let to = |names: &[&str]| json!(names);
    let expected = [
        ("", to(&["A"])),
        ("A", to(&["B"])),
        ("A", to(&["B"])),
        ("A", to(&["B"])),
        ("A", to(&[])),
        ("B", to(&[])),
        ("B", to(&["C"])),
        ("B", to(&[])),
    ];
    let expected: Vec<(Value, Value)> = expected
        .into_iter()
        .map(|(from, to)| (json!(from), to))
        .collect();
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|(from, to)| (from, to)).collect();
    assert_eq!(routed, expected);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
}

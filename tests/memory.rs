//! Bounded memory: summaries that a component writes, killed after each event, failing and denied, summaries that are
//! written in pieces, and what `inspect` shows of what was replaced.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;

use crate::crash::kill_after_each_event;
use crate::probe::project;
use crate::stream::{self, of_kind};
use crate::workspace::Workspace;

/// A role whose conversation is summarised twice by a component.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "notes"
idea = "note it all"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Noter"
watch = ["UserRequirement"]
react = "tools"
[role.memory]
keep = 8
clear_results = false
summarise = SUMMARISER
[[role.action]]
name = "note"
component = "probe.wasm"
config = { steps = [{ say = "noted {arguments} PADDING" }] }
"#;
const SUMMARISER: &str =
    r#"{ component = "COMPONENT", allow = { llm = { models = ["*"] } }, config = CONFIG }"#;
const TURNS: usize = 8;

/// The component of `plugins/summarise`.
static SUMMARISE: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = project().join("plugins/summarise");
    let built = Workspace::empty()
        .command(&["build", dir.to_str().expect("a path")])
        .output()
        .expect("it runs");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    PathBuf::from(String::from_utf8(built.stdout).expect("a path").trim())
});

/// The replies of the role's model, and of the one that is asked for summaries.
fn replies() -> String {
    let mut replies = String::new();
    for turn in 0..TURNS {
        replies += &format!(
            "[[reply]]\nturn = {turn}\ntool_calls = [{{ name = \"note\", arguments = {{ n = {turn} }} }}]\n"
        );
    }
    replies += &format!("[[reply]]\nturn = {TURNS}\ntext = \"all is noted\"\n");
    replies += "[[reply]]\nmatch = \"# The summary so far\"\ntext = \"the second part was noted, too\"\ninput = 100\n";
    replies +=
        "[[reply]]\nmatch = \"note it all\"\ntext = \"the first part was noted\"\ninput = 100\n";
    replies
}

fn place(config: &str) -> Workspace {
    let component = SUMMARISE.to_str().expect("a path");
    let summariser = SUMMARISER
        .replace("COMPONENT", component)
        .replace("CONFIG", config);
    place_with(&summariser)
}

fn place_with(summariser: &str) -> Workspace {
    let padding = "0123456789 ".repeat(20);
    let team = TEAM
        .replace("SUMMARISER", summariser)
        .replace("PADDING", &padding);
    let place = Workspace::with(&team);
    place.write("replies.toml", replies());
    place
}

fn summaries(lines: &[Value]) -> Vec<&Value> {
    of_kind(lines, "memory-summarised")
}

/// Returns how many requests for summaries were made and not answered from the record.
fn paid(lines: &[Value]) -> usize {
    let calls = of_kind(lines, "host-call").into_iter();
    let is_one = |call: &&Value| call["action"] == "summary" && call["source"] == "live";
    calls.filter(is_one).count()
}

#[test]
fn a_component_summarises_the_conversation_of_a_role_and_a_kill_pays_no_summary_twice() {
    let calm = place("{}");
    let lines = calm.run().expect(0).events();
    let made = summaries(&lines);
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(
        made.iter().all(|line| line["how"] == "component"),
        "{made:?}"
    );
    assert_eq!(paid(&lines), 2);
    calm.host(&["replay", "store", "--verify"]).expect(0);
    kill_after_each_event(
        &calm,
        &lines,
        || place("{}"),
        |all, what| {
            assert_eq!(summaries(all).len(), 2, "{what}");
            assert_eq!(of_kind(all, "turn").len(), TURNS + 1, "{what}");
            // A summary whose answer was lost before it was recorded is asked for again.
            assert!(paid(all) <= 3, "{what}");
        },
    );
}

/// A role whose first result is nearly as large as a request may be, so that what is summarised does not fit into one
/// request together with what the model is told.
const LARGE: &str = r#"
schema = "strata.team/1"
[team]
name = "large"
idea = "read it all"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Reader"
watch = ["UserRequirement"]
react = "tools"
[role.memory]
summarise_at = 2000
clear_results = false
summary_tokens = 100
[[role.action]]
name = "read"
component = "probe.wasm"
config = { steps = [{ say = "found {arguments} TEXT" }] }
[[role.action]]
name = "look"
component = "probe.wasm"
config = { steps = [{ say = "nothing" }] }
"#;

fn place_large() -> Workspace {
    // 47 lines of about 118 bytes, each with its number.
    let text: String = (0..47)
        .map(|line| format!("line {line} {}\\n", "0123456789 ".repeat(10)))
        .collect();
    let place = Workspace::with(&LARGE.replace("TEXT", &text));
    let call = |turn: usize, tool: &str, input: u32| {
        format!(
            "[[reply]]\nturn = {turn}\ninput = {input}\ntool_calls = [{{ name = \"{tool}\", arguments = {{ n = {turn} }} }}]\n"
        )
    };
    let mut replies = call(0, "read", 20) + &call(1, "look", 1999) + &call(2, "look", 300);
    replies += "[[reply]]\nturn = 3\ntext = \"all is read\"\n";
    // The second request for the summary contains the first one's reply.
    replies +=
        "[[reply]]\nmatch = \"the first half\"\ntext = \"both halves were read\"\ninput = 50\n";
    replies += "[[reply]]\nmatch = \"# The conversation\"\ntext = \"the first half\"\ninput = 50\n";
    place.write("replies.toml", replies);
    place
}

#[test]
fn what_is_too_long_for_one_request_is_summarised_in_pieces_and_a_kill_pays_no_piece_twice() {
    let calm = place_large();
    let lines = calm.run().expect(0).events();
    let made = summaries(&lines);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["how"], "summary");
    assert_eq!(paid(&lines), 2, "one request for each piece");
    calm.host(&["replay", "store", "--verify"]).expect(0);
    let shown = calm
        .host(&["inspect", "store", "--conversation", "Reader"])
        .expect(0)
        .stdout;
    assert!(shown.contains("both halves were read"), "{shown}");
    kill_after_each_event(&calm, &lines, place_large, |all, what| {
        assert_eq!(summaries(all).len(), 1, "{what}");
        // A reply that was lost before it was recorded is asked for again.
        assert!(paid(all) <= 3, "{what}");
    });
}

#[test]
fn a_component_that_fails_to_summarise_leaves_the_conversation_as_it_is() {
    let cases = [
        (
            r#"{ component = "probe.wasm", config = { steps = [{ fail = "trap" }] } }"#,
            "trap",
        ),
        (
            r#"{ component = "probe.wasm", config = { steps = [{ say = "" }] } }"#,
            "empty",
        ),
        (
            r#"{ component = "probe.wasm", config = { steps = [{ llm = "summarise" }] } }"#,
            "allow",
        ),
    ];
    for (summariser, reason) in cases {
        let place = place_with(summariser);
        let lines = place.run().expect(0).events();
        let made = summaries(&lines);
        assert!(!made.is_empty(), "{summariser}");
        for line in made {
            assert_eq!(line["how"], "cleared", "{line}");
            let told = stream::text(&line["reason"]);
            assert!(told.contains(reason), "{told}");
        }
        place.host(&["replay", "store", "--verify"]).expect(0);
    }
}

#[test]
fn what_a_component_writes_or_emits_while_it_summarises_is_dropped() {
    let summariser = r#"{ component = "probe.wasm", config = { steps = [
        { set = "k", value = 1 }, { emit = "lost", to = ["Noter"] }, { say = "short" },
    ] } }"#;
    let place = place_with(&summariser.replace('\n', " "));
    let lines = place.run().expect(0).events();
    assert_eq!(summaries(&lines)[0]["how"], "component");
    assert!(
        !of_kind(&lines, "message-routed")
            .iter()
            .any(|line| line["from"] == "Noter" && line["to"] == "Noter")
    );
    let saved = place.team_json();
    assert!(
        saved["strata"]["state"]["role"]
            .get("Noter")
            .is_none_or(|role| role.get("k").is_none())
    );
}

#[test]
fn inspect_shows_what_was_replaced_by_what_and_all_messages() {
    let place = place("{}");
    place.run().expect(0);
    let shown = place
        .host(&["inspect", "store", "--conversation", "Noter"])
        .expect(0)
        .stdout;
    for part in ["the first part was noted", "all is noted"] {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
    // Every message is shown, also those that were replaced.
    for turn in 0..TURNS {
        assert!(
            shown.contains(&format!("{{\"n\":{turn}}}")),
            "turn {turn}: {shown}"
        );
    }
    let json = place
        .host(&["inspect", "store", "--conversation", "Noter", "--json"])
        .expect(0)
        .stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let text = json.to_string();
    for part in [
        "\"how\":\"component\"",
        "the first part was noted",
        "\"messages\":[",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

//! Documents from outside that are expensive or ambiguous: short texts with very many values,
//! deeply nested ones, and ones with duplicate keys. They are rejected wherever they can enter,
//! with a report, and the host continues or stops in an orderly way. The entries for guests are
//! tested with the sandbox.

use std::fs;

use crate::replies;
use crate::web::Web;
use crate::workspace::Workspace;

/// Returns a document by its name.
pub fn document(name: &str) -> String {
    match name {
        "deep" => "[".repeat(200) + &"]".repeat(200),
        "wide" => format!("[{}0]", r#"{"":0},"#.repeat(250_000)),
        "broken" => r#"{"content":"#.into(),
        "twofold" => r#"{"content":"one","content":"two"}"#.into(),
        other => replies::reply(other).unwrap_or_else(|| panic!("there is no document `{other}`")),
    }
}

/// The reports for these documents where any JSON value is accepted.
const TOLD: [(&str, &str); 3] = [
    ("deep", "nested deeper than 100 levels"),
    (
        "wide",
        "too large to be read: its values would take more than 128 MiB",
    ),
    ("broken", "not a JSON document"),
];

/// Creates a team of one role, whose action calls a model, writes to the outside, or asks a person.
fn team(settings: &str, step: &str) -> Workspace {
    Workspace::with(&format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
{settings}
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = {{ steps = [{step}] }}
[role.action.allow]
llm = {{ models = ["*"] }}
"#
    ))
}

/// Functions that pass a document to the host, check how that ends, and return what the operator is
/// shown.
type Door = fn(&str) -> String;

fn reply(name: &str) -> String {
    of_a_model(name, "whole", &[])
}

fn streamed_reply(name: &str) -> String {
    of_a_model(name, "streamed", &["-v"])
}

fn of_a_model(name: &str, how: &str, more: &[&str]) -> String {
    let web = Web::new();
    let url = format!("http://127.0.0.1:{}/v1/document/{name}/{how}", web.port());
    let settings =
        format!("[llm]\nprovider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"m\"\nretries = 0\n");
    let place = team(&settings, r#"{ llm = "q" }"#);
    place
        .host(&[&["run", "team.toml", "--storage", "store"], more].concat())
        .expect(3)
        .stderr
}

fn message_by_stdio(name: &str) -> String {
    let external = "[env.external]\nkind = \"stdio\"\ncommand = [\"sh\", \"bridge.sh\"]";
    let place = team(external, r#"{ emit = "m", to = ["outside"] }"#);
    place.write("document", document(name) + "\n");
    place.write("bridge.sh", "read -r line; cat document; cat > /dev/null");
    place.run().expect(0).stderr
}

fn message_by_http(name: &str) -> String {
    let web = Web::new();
    let url = format!("http://127.0.0.1:{}/v1/document/{name}/whole", web.port());
    let place = team(
        &format!("[env.external]\nkind = \"http\"\nurl = \"{url}\""),
        r#"{ emit = "m", to = ["outside"] }"#,
    );
    place.run().expect(0).stderr
}

fn answer(name: &str) -> String {
    let place = team(
        "",
        r#"{ ask = "how many?", schema = { type = "integer" } }"#,
    );
    place.run().expect(4);
    place
        .host(&[
            "answer",
            "store",
            &format!("ask-0-0-0-0={}", document(name)),
        ])
        .expect(2)
        .stderr
}

fn team_json(name: &str) -> String {
    let place = team("", r#"{ fail = "error" }"#);
    place.run().expect(3);
    fs::remove_file(place.path("store/team.db")).unwrap();
    place.write("store/team.json", document(name));
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(2)
        .stderr
}

fn schema(name: &str) -> String {
    let place = team("", r#"{ say = "x" }"#);
    place.write("schema.json", document(name));
    let team = String::from_utf8(place.read("team.toml")).unwrap();
    place.write(
        "team.toml",
        team.replace(
            "[role.action.allow]",
            "output_schema = \"schema.json\"\n[role.action.allow]",
        ),
    );
    place.host(&["check", "team.toml"]).expect(2).stderr
}

#[test]
fn expensive_documents_are_rejected_at_every_entry() {
    let check = |door: Door, name: &str, expected: &str| {
        let told = door(name);
        assert!(
            told.contains(expected),
            "{name}: `{expected}` is not in: {}",
            &told[..told.len().min(2000)]
        );
        assert!(!told.contains("panicked"), "{name}: {told}");
    };
    for (name, told) in TOLD {
        for door in [reply, streamed_reply, message_by_stdio, message_by_http] as [Door; 4] {
            check(door, name, told);
        }
    }
    check(message_by_stdio, "twofold", "key `content` appears twice");
    // A longer text cannot be an argument of a command.
    check(answer, "deep", "nested deeper than 100 levels");
    check(team_json, "deep", "recursion limit exceeded");
    check(
        team_json,
        "wide",
        "it holds no saved team: it is a list, where a saved team is an object",
    );
    check(team_json, "twofold", "key `content` appears twice");
    check(schema, "deep", "nested deeper than 100 levels");
}

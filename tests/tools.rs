//! Roles whose model works in a loop with tools: runs with scripted replies, kills in the middle of
//! turns and calls, approvals, handoffs, and models that misbehave.

use serde_json::{Value, json};

use crate::saved::essence_of_lineage;
use crate::stream;
use crate::workspace::Workspace;

/// A role that calls two tools in the first turn, one in the second, and then answers. Each reply
/// costs 100 tokens.
const LOOP: &str = r#"
schema = "strata.team/1"
[team]
name = "loop"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 1000000.0, output = 0.0 }
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
instructions = "be brief"
[[role.action]]
name = "look"
component = "probe.wasm"
config = { steps = [{ now = true }, { set = "seen", value = 1 }, { say = "looked {arguments}" }] }
[[role.action]]
name = "count"
component = "probe.wasm"
config = { steps = [{ get = "seen" }, { emit = "counted", to = ["B"], cause = "note" }, { say = "{reads} seen" }] }
[[role]]
name = "B"
watch = ["A"]
[[role.action]]
name = "b"
component = "probe.wasm"
config = { steps = [{ say = "got {inputs}" }] }
"#;

const REPLIES: &str = r#"
[[reply]]
turn = 0
input = 100
tool_calls = [{ name = "look", arguments = { n = 1 } }, { name = "count" }]
[[reply]]
turn = 1
input = 100
text = "and again"
tool_calls = [{ name = "count" }]
[[reply]]
turn = 2
input = 100
text = "one was seen"
"#;

fn team(text: &str, replies: &str) -> Workspace {
    let place = Workspace::with(text);
    place.write("replies.toml", replies);
    place
}

/// Returns the events of this kind.
fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    stream::of_kind(lines, kind)
}

/// Returns the outputs of the calls of a role, in the order of turns and calls.
fn outputs(lines: &[Value]) -> Vec<String> {
    let mut calls: Vec<(u64, u64, String)> = of_kind(lines, "action-finished")
        .iter()
        .filter(|line| line["turn"].is_u64())
        .map(|line| {
            let number = |key: &str| line[key].as_u64().unwrap();
            let content = line["output"]["content"].as_str().unwrap().to_owned();
            (number("turn"), number("tool_call"), content)
        })
        .collect();
    calls.sort();
    calls.into_iter().map(|(_, _, content)| content).collect()
}

#[test]
fn calls_of_a_turn_see_the_state_at_its_start_and_later_turns_what_they_wrote() {
    let place = team(LOOP, REPLIES);
    let lines = place.run().expect(0).events();
    assert_eq!(outputs(&lines), ["looked {\"n\":1}", " seen", "1 seen"]);
    let history = &place.team_json()["env"]["history"]["storage"];
    let contents: Vec<&str> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        contents,
        [
            "go",
            "counted",
            "counted",
            "one was seen",
            "got counted,counted,one was seen"
        ]
    );
    assert_eq!(place.team_json()["strata"]["budget"]["total"], json!(300.0));
}

#[test]
fn killed_after_any_event_nothing_is_paid_or_finished_twice() {
    let calm = team(LOOP, REPLIES);
    let lines = calm.run().expect(0).events();
    let expected = essence_of_lineage(calm.team_json());
    for count in 1..lines.len() {
        let place = team(LOOP, REPLIES);
        let mut process = place.start_run(&[]);
        let seen = (0..count).map_while(|_| process.next()).count();
        process.kill();
        if seen == 0 {
            continue;
        }
        place.resume().expect(0);
        assert_eq!(
            essence_of_lineage(place.team_json()),
            expected,
            "killed after {count} lines"
        );
        let all = place.recorded();
        let live = of_kind(&all, "host-call")
            .iter()
            .filter(|line| line["call"] == "llm" && line["source"] == "live")
            .count();
        // What a reply costs that was under way is counted, although it is lost.
        let spent = place.team_json()["strata"]["budget"]["total"]
            .as_f64()
            .unwrap();
        assert!(spent >= 300.0, "{spent}, killed after {count} lines");
        // A reply that was under way when the process was killed is requested again.
        assert!(
            (3..=4).contains(&live),
            "{live} requests, killed after {count} lines"
        );
        assert_eq!(of_kind(&all, "turn").len(), 3, "killed after {count} lines");
        let finished = of_kind(&all, "action-finished");
        let calls = finished.iter().filter(|line| line["turn"].is_u64()).count();
        assert_eq!(calls, 3, "killed after {count} lines");
    }
}

#[test]
fn a_model_that_misbehaves_is_told_and_crashes_nothing() {
    let many: Vec<String> = (0..1000)
        .map(|n| format!("{{ name = \"look\", arguments = {{ n = {n} }} }}"))
        .collect();
    let replies = format!(
        r#"
[[reply]]
turn = 0
tool_calls = [{}]
[[reply]]
turn = 1
tool_calls = [{{ name = "rm -rf /\u001b[31m\nlook", arguments = {{}} }}, {{ name = "look", arguments = "[1]" }}, {{ name = "transfer_to_B" }}]
[[reply]]
turn = 2
text = "done"
"#,
        many.join(", ")
    );
    let place = team(
        &LOOP.replace("instructions", "max_calls = 3\ninstructions"),
        &replies,
    );
    let lines = place.run().expect(0).events();
    assert_eq!(
        outputs(&lines),
        ["looked {\"n\":0}", "looked {\"n\":1}", "looked {\"n\":2}"]
    );
    let rejected = of_kind(&lines, "tool-rejected");
    assert_eq!(rejected.len(), 997 + 3);
    assert!(
        rejected
            .iter()
            .all(|line| !line["reason"].as_str().unwrap().is_empty())
    );
    assert_eq!(rejected[997]["tool"], "rm -rf / [31m look");
}

#[test]
fn a_model_that_repeats_a_call_for_ever_is_stopped_at_max_turns() {
    let replies = "[[reply]]\ntool_calls = [{ name = \"look\" }]\n";
    let place = team(
        &LOOP.replace("instructions", "max_turns = 3\ninstructions"),
        replies,
    );
    let ended = place.run().expect(3);
    assert!(
        ended.stderr.contains("turns: no answer after 3 turns"),
        "{}",
        ended.stderr
    );
    assert_eq!(outputs(&ended.events()).len(), 3);
    let fault = &place.team_json()["strata"]["faults"][0];
    assert_eq!(
        (&fault["index"], &fault["action"]),
        (&json!(-1), &json!("turn"))
    );
}

#[test]
fn faults_of_a_turn_name_the_reason_and_a_resume_asks_again() {
    let check = |reply: &str, kind: &str, message: &str| {
        let place = team(
            LOOP,
            &format!("[[reply]]\nturn = 0\ntimes = 1\n{reply}\n[[reply]]\ntext = \"fine\"\n"),
        );
        let ended = place.run().expect(3);
        let lines = ended.events();
        let failed = of_kind(&lines, "action-failed");
        assert_eq!(failed.len(), 1);
        assert_eq!(
            (&failed[0]["action"], &failed[0]["index"]),
            (&json!("turn"), &json!(-1))
        );
        assert_eq!(failed[0]["fault"], kind);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert!(
            of_kind(&lines, "action-started").is_empty(),
            "a turn is no action"
        );
        assert_eq!(place.team_json()["env"]["roles"]["A"]["rc"]["state"], -1);
        place.resume().expect(0);
    };
    check(
        "text = \"\"",
        "output-invalid",
        "returned nothing (finish reason `stop`)",
    );
    check(
        "status = 500\ntext = \"busy\"",
        "host",
        "plays an endpoint that answers 500",
    );
}

#[test]
fn results_beyond_the_limit_are_cut_for_the_model_and_kept_for_people() {
    let text = LOOP
        .replace("config = { steps = [{ now = true }, { set = \"seen\", value = 1 }, { say = \"looked {arguments}\" }] }",
            "config = { steps = [{ say = \"looked {arguments}\" }] }\n[role.action.limits]\nresult = \"8B\"")
        .replace("instructions", "max_calls = 1\ninstructions");
    let replies = "[[reply]]\nmatch = \"^looked \\\\{\\n.cut: these are the first 8 bytes of 14 bytes.$\"\ntext = \"cut\"\n\
                   [[reply]]\nturn = 0\ntool_calls = [{ name = \"look\", arguments = { n = 1 } }]\n";
    let place = team(&text, replies);
    let lines = place.run().expect(0).events();
    assert_eq!(outputs(&lines), ["looked {\"n\":1}"]);
    let answer = of_kind(&lines, "turn");
    assert_eq!(answer.len(), 2);
}

#[test]
fn the_answer_of_a_final_action_is_its_data_or_else_its_text() {
    let replies = "[[reply]]\nmatch = \"breaks the role's `output_schema`\"\ntext = \"{\\\"q\\\":1}\"\n\
                   [[reply]]\ntool_calls = [{ name = \"look\" }]\n";
    let check = |said: &str, expected: Value| {
        let text = LOOP
            .replace("{ say = \"looked {arguments}\" }", said)
            .replace("name = \"look\"\n", "name = \"look\"\nfinal = true\n")
            .replace("instructions", "output_schema = \"q.json\"\ninstructions");
        let place = team(&text, replies);
        let schema = json!({ "type": "object", "required": ["q"] });
        place.write("q.json", schema.to_string());
        place.run().expect(0);
        let answer = &place.team_json()["env"]["history"]["storage"][1];
        assert_eq!(answer["instruct_content"]["value"], expected, "{said}");
    };
    check("{ say = '{\"q\":7}' }", json!({ "q": 7 }));
    check("{ say = 'seven', data = { q = 8 } }", json!({ "q": 8 }));
    // The model is told what is wrong, and answers itself.
    check("{ say = 'seven' }", json!({ "q": 1 }));
    check("{ say = '{\"q\":7}', data = { r = 8 } }", json!({ "q": 1 }));
}

#[test]
fn approved_calls_run_with_the_arguments_that_a_person_sets() {
    let text = LOOP.replace(
        "name = \"count\"\n",
        "name = \"count\"\napprove = true\ninput_schema = \"n.json\"\n",
    );
    let text = text.replace(
        "{ say = \"{reads} seen\" }",
        "{ say = \"counted {arguments}\" }",
    );
    let replies = "[[reply]]\nmatch = \"changed the arguments\"\ntext = \"told\"\n\
                   [[reply]]\ntext = \"I have to count first\"\n\
                   tool_calls = [{ name = \"count\", arguments = { n = 1 } }, { name = \"look\" }]\n";
    let place = team(&text, replies);
    place.write(
        "n.json",
        r#"{ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }"#,
    );
    let ended = place.run().expect(4);
    assert!(
        ended.stderr.contains("may `A` call `count`?"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("with {\"n\":1}"), "{}", ended.stderr);
    let said = "the model said with it:\n      I have to count first";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(outputs(&ended.events()), ["looked {}"]);
    let wrong = place.host(&[
        "answer",
        "store",
        r#"ask-0-0-0-0={"approve":true,"arguments":{"n":"x"}}"#,
    ]);
    wrong.expect(2);
    place
        .host(&[
            "answer",
            "store",
            r#"ask-0-0-0-0={"approve":true,"arguments":{"n":7}}"#,
        ])
        .expect(0);
    let lines = place.resume().expect(0).events();
    assert_eq!(outputs(&lines), ["counted {\"n\":7}"]);
    let history = &place.team_json()["env"]["history"]["storage"];
    assert!(
        history
            .as_array()
            .unwrap()
            .iter()
            .any(|message| message["content"] == "told")
    );
}

/// The schema of an object with a number `n`, which is bound like this.
fn number(bound: &str) -> String {
    format!(
        "{{ \"type\": \"object\", \"properties\": {{ \"n\": {{ \"type\": \"integer\"{bound} }} }} }}"
    )
}

/// A team whose tool `look` has a schema, and these keys and steps.
fn looking(keys: &str, steps: &str) -> Workspace {
    let name = format!("name = \"look\"\ninput_schema = \"n.json\"\n{keys}");
    let text = LOOP.replace("name = \"look\"\n", &name).replace(
        "{ now = true }, { set = \"seen\", value = 1 }, { say = \"looked {arguments}\" }",
        &format!("{steps}{{ say = \"looked {{arguments}}\" }}"),
    );
    let replies = "[[reply]]\nmatch = \"rejected|looked\"\ntext = \"ended\"\n\
                   [[reply]]\ntool_calls = [{ name = \"look\", arguments = { n = 1 } }]\n";
    let place = team(&text, replies);
    place.write("n.json", number(""));
    place
}

#[test]
fn a_call_is_repeated_only_if_its_arguments_follow_the_schema_of_the_resume() {
    let check = |bound: &str, expected: &[&str], rejections: usize| {
        let place = looking("", "{ fail = \"trap\", attempts = [1] }, ");
        place.run().expect(3);
        place.write("n.json", number(bound));
        let lines = place.resume().expect(0).events();
        assert_eq!(outputs(&lines), expected, "{bound}");
        let rejected = of_kind(&lines, "tool-rejected");
        assert_eq!(rejected.len(), rejections, "{bound}");
        for line in rejected {
            let call = (&line["tool"], &line["turn"], &line["tool_call"]);
            assert_eq!(call, (&json!("look"), &json!(0), &json!(0)));
            let reason = stream::text(&line["reason"]);
            assert!(reason.contains("do not follow the schema"), "{reason}");
        }
        let ended = place.team_json();
        place.resume().expect(0);
        assert_eq!(place.team_json(), ended, "{bound}");
    };
    check(", \"maximum\": 9", &["looked {\"n\":1}"], 0);
    check(", \"minimum\": 5", &[], 1);
}

#[test]
fn what_a_person_approves_has_to_follow_the_schema_of_the_resume() {
    let approved =
        |arguments: &str| format!("ask-0-0-0-0={{\"approve\":true,\"arguments\":{arguments}}}");
    let place = looking("approve = true\n", "");
    place.run().expect(4);
    let answer = approved("{\"n\":3}");
    place.host(&["answer", "store", &answer]).expect(0);
    place.write("n.json", number(", \"minimum\": 5"));
    let lines = place.resume().expect(0).events();
    assert_eq!(outputs(&lines), [""; 0]);
    assert_eq!(of_kind(&lines, "tool-rejected").len(), 1);

    let place = looking("approve = true\n", "");
    place.run().expect(4);
    place.write("n.json", number(", \"maximum\": 5"));
    let lines = place.resume().expect(4).events();
    assert_eq!(of_kind(&lines, "request-opened").len(), 1);
    let lines = place.resume().expect(4).events();
    assert_eq!(of_kind(&lines, "request-opened").len(), 0, "it is the same");
    // The question has another schema, and so another id.
    let again = |answer: String| answer.replace("ask-0-0-0-0", "ask-0-0-0-0-r1");
    let refused = place
        .host(&["answer", "store", &approved("{\"n\":3}")])
        .expect(2);
    assert!(
        refused.stderr.contains("another question is asked"),
        "{}",
        refused.stderr
    );
    let answer = again(approved("{\"n\":7}"));
    place.host(&["answer", "store", &answer]).expect(2);
    let answer = again(approved("{\"n\":3}"));
    place.host(&["answer", "store", &answer]).expect(0);
    let lines = place.resume().expect(0).events();
    assert_eq!(outputs(&lines), ["looked {\"n\":3}"]);
}

#[test]
fn a_call_that_is_repeated_needs_the_approval_that_its_tool_needs_now() {
    let place = looking("", "{ fail = \"trap\", attempts = [1, 2] }, ");
    place.run().expect(3);
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    let key = "input_schema = \"n.json\"\n";
    place.write(
        "new.toml",
        text.replace(key, &format!("{key}approve = true\n")),
    );
    let resume = |file: &str, storage: &str, code: i32| {
        let args = ["run", file, "--recover_path", storage, "--events", "-"];
        place.host(&args).expect(code).events()
    };
    let lines = resume("new.toml", "store", 4);
    assert_eq!(of_kind(&lines, "request-opened").len(), 1);
    assert_eq!(of_kind(&lines, "plugin-instantiated").len(), 0);
    // A request stays open until it is answered.
    resume("team.toml", "store", 4);
    let answer = "ask-0-0-0-0={\"approve\":true}";
    place.host(&["answer", "store", answer]).expect(0);
    let lines = resume("new.toml", "store", 3);
    assert_eq!(of_kind(&lines, "action-failed")[0]["attempt"], 2);
    // A call that was approved is not asked about again, unless somebody else may have approved it.
    place.write("moved/team.json", place.read("store/team.json"));
    let lines = resume("new.toml", "moved", 4);
    assert_eq!(of_kind(&lines, "consent-withdrawn").len(), 1);
    assert_eq!(of_kind(&lines, "request-opened").len(), 1);
    place.host(&["answer", "moved", answer]).expect(0);
    for storage in ["moved", "store"] {
        let lines = resume("new.toml", storage, 0);
        assert_eq!(of_kind(&lines, "request-opened").len(), 0, "{storage}");
        assert_eq!(outputs(&lines), ["looked {\"n\":1}"], "{storage}");
    }
}

#[test]
fn an_approval_that_nobody_gives_in_time_counts_as_its_default() {
    let check = |rule: &str, expected: &[&str]| {
        let text = LOOP.replace(
            "name = \"look\"\n",
            &format!("name = \"look\"\napprove = {rule}\n"),
        );
        let replies = "[[reply]]\nmatch = \"not approved|looked\"\ntext = \"ended\"\n\
                       [[reply]]\ntool_calls = [{ name = \"look\" }]\n";
        let place = team(&text, replies);
        place.run().expect(4);
        std::thread::sleep(std::time::Duration::from_millis(60));
        let lines = place.resume().expect(0).events();
        assert_eq!(outputs(&lines), expected, "{rule}");
    };
    check("{ expires = \"50ms\" }", &[]);
    check("{ expires = \"50ms\", default = false }", &[]);
    check("{ expires = \"50ms\", default = true }", &["looked {}"]);
}

#[test]
fn a_replay_finds_no_difference_and_a_team_with_other_tools_does_not_fit() {
    let place = team(LOOP, REPLIES);
    place.run().expect(0);
    let replay = place.host(&["replay", "store", "--verify"]).expect(0);
    assert!(
        replay.stdout.contains("equal: 7, different: 0"),
        "{}",
        replay.stdout
    );
    let check = |from: &str, to: &str, code: i32| {
        let place = team(LOOP, "[[reply]]\ntool_calls = [{ name = \"look\" }]\n");
        let bounded = LOOP.replace("instructions", "max_turns = 1\ninstructions");
        place.write("team.toml", bounded.as_str());
        place.run().expect(3);
        place.write("other.toml", bounded.replace(from, to));
        place
            .host(&["run", "other.toml", "--recover_path", "store"])
            .expect(code);
    };
    check("be brief", "be long", 3);
    check("name = \"look\"", "name = \"see\"", 8);
    check("instructions", "handoff = [\"B\"]\ninstructions", 8);
    check(
        "react = \"tools\"\nmax_turns = 1\ninstructions = \"be brief\"",
        "react = \"by_order\"",
        8,
    );
}

/// A role whose tool returns two images, one of which is none.
const PICTURES: &str = r#"
schema = "strata.team/1"
[team]
name = "pictures"
idea = "draw"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
[[role.action]]
name = "draw"
script = "draw.js"
"#;

#[test]
fn images_in_results_are_checked_and_shown_with_the_conversation() {
    let replies =
        "[[reply]]\nturn = 0\ntool_calls = [{ name = \"draw\" }]\n[[reply]]\ntext = \"drawn\"\n";
    let place = team(PICTURES, replies);
    place.write(
        "draw.js",
        "import { action, image } from \"@strata/action\";\n\
         const parts = [image(\"image/png\", \"GIF89a\"), image(\"image/png\", \"<html>\")];\n\
         export default action({ run: () => ({ content: \"two\", parts }) });\n",
    );
    // Setting up the interpreter takes longer than an action may.
    place.command(&["check", "team.toml"]).output().unwrap();
    place.run().expect(0);
    let shown = place
        .host(&["inspect", "store", "--conversation", "A"])
        .expect(0)
        .stdout;
    let told =
        "[image/png, 6 bytes] not shown: its content is no image of a type that models accept";
    let image = "image [image/gif, 6 bytes] sha256 ";
    for line in [
        "    two\n",
        &format!("    {image}"),
        &format!("    {told}\n"),
    ] {
        assert!(shown.contains(line), "`{line}`: {shown}");
    }
    let json = place
        .host(&["inspect", "store", "--conversation", "A", "--json"])
        .expect(0)
        .stdout;
    let conversation: Value = serde_json::from_str(&json).unwrap();
    let parts = &conversation["turns"][0]["calls"][0]["outcome"]["parts"];
    assert_eq!(parts[0]["type"], "image");
    assert_eq!(parts[0]["media_type"], "image/gif");
    assert_eq!(parts[0]["size"], 6);
    assert_eq!(parts[1], json!({ "type": "text", "text": told }));
    place
        .host(&["report", "store", "-o", "report.html"])
        .expect(0);
    let page = String::from_utf8(place.read("report.html")).unwrap();
    assert!(page.contains(image) && page.contains(told), "{page}");
}

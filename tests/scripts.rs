//! Scripts instead of components: run without a build, fixed, locked; and the team that ships with
//! the product and runs scripts of a model. Building the interpreters needs the tools of
//! `javascript` and `python`.

mod describing;
mod limits;
mod notes;
mod programs;
mod repeated_calls;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::Value;

use crate::probe::project;
use crate::process::Ended;
use crate::workspace::Workspace;

fn team(file: &str) -> Workspace {
    let place = Workspace::with(&format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "some words"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "First"
component = "probe.wasm"
config = {{ steps = [{{ say = "one two", data = {{ n = 2 }} }}] }}
[[role.action]]
name = "Work"
script = "{file}"
config = {{ by = 3 }}
"#
    ));
    // Setting up the tools of a language takes longer than the time limit of a run.
    place.write(file, "");
    without_time_limit(&place, &["check", "team.toml"]);
    place
}

/// Runs the host without a time limit.
fn without_time_limit(place: &Workspace, args: &[&str]) {
    let ended = place.command(args).output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

fn finished(ended: &Ended) -> Vec<Value> {
    let lines = ended
        .events()
        .into_iter()
        .filter(|line| line["kind"] == "action-finished");
    lines.map(|line| line["output"].clone()).collect()
}

/// Runs a script that fails, checks the report, resumes with a correct script, and checks its
/// output.
fn check_failure_and_fix(file: &str, good: &str, bad: &str, told: &[&str]) {
    let place = team(file);
    place.write(file, bad);
    let failed = place.run().expect(3);
    for part in told {
        assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr);
    }

    place.write(file, good);
    let resumed = place.resume().expect(0);
    let changed = resumed
        .events()
        .into_iter()
        .find(|line| line["kind"] == "component-changed")
        .unwrap();
    assert_eq!(
        (&changed["role"], &changed["action"]),
        (&"A".into(), &"Work".into())
    );
    let outputs = finished(&resumed);
    assert_eq!(
        outputs.len(),
        1,
        "what was done is not done again: {outputs:?}"
    );
    assert_eq!(
        outputs[0]["data"],
        serde_json::json!({ "words": ["one", "two"], "product": 6 })
    );

    // The replay runs the recorded script at the recorded time. The failed script no longer exists.
    let replayed = place.host(&["replay", "store", "--verify"]).expect(0);
    assert_eq!(
        replayed.stdout,
        "equal: 2, different: 0, not made again: 1\n"
    );

    place.host(&["lock", "team.toml"]).expect(0);
    place.host(&["check", "team.toml"]).expect(0);
    place.write(file, bad);
    let refused = place.host(&["check", "team.toml"]).expect(2);
    assert!(
        refused
            .stderr
            .contains(&format!("the component `{file}` has the sha256")),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_script_in_javascript_is_run_and_fixed() {
    let whole = r#"// Multiplies.
import { action } from "@strata/action";
const later = (value) => new Promise((resolve) => setTimeout(() => resolve(value), 1));
export default action({
  async run(cx) {
    const words = await Promise.all(cx.text.split(" ").map(async (word) => await later(word)));
    if (Date.now() < 1e12) throw new Error("the past");
    return { data: { words, product: cx.data.n * cx.config.by } };
  },
});
"#;
    let bad = "const { n } = cx.data\nawait null\nreturn product(n);\n\nfunction product(n) {\n  return n.factor.by;\n}\n";
    let told = [
        "TypeError: cannot read property 'by' of undefined",
        "at product (work.js:6:",
        "at work.js:3:",
    ];
    check_failure_and_fix("work.js", whole, bad, &told);
    let broken = ["SyntaxError: Unexpected token", "at work.js:2:9"];
    check_failure_and_fix("work.js", whole, "let a;\nlet b = ;", &broken);
}

#[test]
fn a_script_in_python_is_run_and_fixed() {
    let whole = r#""""Multiplies."""
import time
from dataclasses import dataclass
from strata_action import Context, Output, action

@dataclass
class Config:
    by: int

@action
def multiply(cx: Context[Config]) -> Output:
    assert time.time() > 1e9, "the past"
    return Output("done", data={"words": cx.text.split(), "product": cx.newest.data["n"] * cx.config.by})
"#;
    let bad = "data = cx.newest.data\n\ndef product(n):\n    return n.factor\n\nreturn product(data['n'])\n";
    let told = [
        "AttributeError: 'int' object has no attribute 'factor'",
        "File \"work.py\", line 4, in product\n",
        "    return n.factor\n",
        "File \"work.py\", line 6, in <module>\n",
    ];
    check_failure_and_fix("work.py", whole, bad, &told);
    let body = "import re\nreturn {'words': re.findall(r'\\w+', cx.text), 'product': cx.config['by'] * 2}\n";
    let broken = ["SyntaxError: invalid syntax", "File \"work.py\", line 2"];
    check_failure_and_fix("work.py", body, "a = 1\nb = ;", &broken);
}

#[test]
fn the_output_of_a_script_has_the_limits_of_any_action() {
    let place = team("work.js");
    let check = |data: &str, expected: &str| {
        let script = "import { action } from \"@strata/action\";\nexport default action({ run: () => ({ data: DATA }) });\n";
        place.write("work.js", script.replace("DATA", data));
        let failed = place
            .host(&["run", "team.toml", "--storage", "store", "--force"])
            .expect(3);
        assert!(
            failed.stderr.contains(expected),
            "`{expected}`: {}",
            failed.stderr
        );
    };
    check(
        "[...Array(200)].reduce((inner) => [inner], 1)",
        "the output's `data` is nested deeper than 100 levels",
    );
    check(
        "Array(250000).fill({ \"\": 0 })",
        "the output's `data` is too large to be read",
    );
}

#[test]
fn a_script_has_the_same_digest_with_a_rebuilt_interpreter() {
    let place = team("work.js");
    place.write("work.js", "return \"x\";");
    place.host(&["lock", "team.toml"]).expect(0);
    let locked = String::from_utf8(place.read("strata.lock")).unwrap();
    assert!(
        locked.contains("source = \"work.js\"") && locked.contains("size = 11\n"),
        "{locked}"
    );
    place.run().expect(0);

    // A cache of its own. The tools belong to their path, so those of another cache would be made anew under those who use them.
    let cache = place.path("cache/strata-host");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&cache)
        .unwrap();
    for args in [
        &["check", "team.toml"][..],
        &["replay", "store", "--verify"],
    ] {
        let mut command = place.command(args);
        let output = command
            .env("XDG_CACHE_HOME", place.path("cache"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let interpreters = |cache: &Path| {
        let made = fs::read_dir(cache.join("sdk"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        made.filter(|dir| dir.join("interpreter/target/guest").is_dir())
            .count()
    };
    assert_eq!(interpreters(&cache), 1, "it was built there");
}

/// Checks that values of wrong types throw an error of the language with its position, and that the
/// error can be caught.
fn check_type_errors(file: &str, cases: &[(&str, &[&str])], caught: (&str, &str)) {
    let place = team(file);
    for (text, told) in cases {
        place.write(file, text);
        let failed = place
            .host(&["run", "team.toml", "--storage", "store", "--force"])
            .expect(3);
        told.iter()
            .for_each(|part| assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr));
        assert!(!failed.stderr.contains("trap: "), "{}", failed.stderr);
    }
    let (text, said) = caught;
    place.write(file, text);
    let done = place
        .host(&["run", "team.toml", "--storage", "caught", "--events", "-"])
        .expect(0);
    assert_eq!(finished(&done).last().unwrap()["content"], said);
}

#[test]
fn values_of_wrong_types_in_javascript_are_errors_with_their_positions() {
    let cases: [(&str, &[&str]); 4] = [
        (
            "import { state } from \"@strata/action\";\nfunction set(key) {\n  state.role.set(key, 1);\n}\nset(3);",
            &[
                "TypeError: state.set: `key`: expected a string, found the number `3`",
                "at set (work.js:3:",
                "at work.js:5:",
            ],
        ),
        (
            "import { llm } from \"@strata/action\";\nllm.ask({ prompt: \"x\", maxTokens: \"many\" });",
            &[
                "TypeError: llm.ask: `maxTokens`: expected a number",
                "at work.js:2:",
            ],
        ),
        (
            "return { content: \"x\", to: \"B\" };",
            &["TypeError: what `run` returned: `to`: expected an array of strings"],
        ),
        ("throw \"\\ud83d\";", &["thrown: \u{fffd}"]),
    ];
    let caught = "import { files, state } from \"@strata/action\";\n\
        try { files.write(\"/a\", 3); } catch (error) {\n  \
        console.log(\"\\ud83d\");\n  state.role.set(\"\\ud83d\", \"\\ud83d\");\n  \
        return { content: `${error.name} ${state.role.get(\"\\ufffd\")}\\ud83d`, data: [\"\\ud83d\"] };\n}\n";
    check_type_errors("work.js", &cases, (caught, "TypeError \u{fffd}\u{fffd}"));
}

#[test]
fn values_of_wrong_types_in_python_are_errors_with_their_positions() {
    let cases: [(&str, &[&str]); 4] = [
        (
            "from strata_action import state\ndef keep(key):\n    state.role[key] = 1\nkeep(3)\n",
            &[
                "TypeError: state: key: expected a string, found the int `3`",
                "line 3, in keep",
                "line 4, in <module>",
            ],
        ),
        (
            "from strata_action import llm\nllm.ask(\"x\", max_tokens=\"many\")\n",
            &[
                "TypeError: llm.ask: request.max_tokens: expected an integer",
                "line 2, in <module>",
            ],
        ),
        (
            "from strata_action import Output\nreturn Output(\"x\", to=\"Bob\")\n",
            &[
                "TypeError: Output.to: expected a list, found the str `'Bob'`; write `['Bob']`",
                "line 2, in <module>",
            ],
        ),
        ("raise ValueError(\"\\ud83d\")\n", &["ValueError: \u{fffd}"]),
    ];
    let caught = "from strata_action import Output, human, log, state\n\
        try:\n    human.ask(3)\nexcept TypeError as error:\n    \
        log.info(\"\\ud83d\")\n    state.role[\"\\ud83d\"] = \"\\ud83d\"\n    \
        return Output(type(error).__name__ + state.role[\"\\ufffd\"] + \"\\ud83d\", data=[\"\\ud83d\"])\n";
    check_type_errors("work.py", &cases, (caught, "TypeError\u{fffd}\u{fffd}"));
}

#[test]
fn invalid_scripts_are_rejected_with_the_position_in_the_team_file() {
    let check = |line: &str, expected: &str| {
        let text = format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[[role]]\nname = \"A\"\n[[role.action]]\nname = \"X\"\n{line}\n"
        );
        let place = Workspace::with(&text);
        let refused = place.host(&["check", "team.toml"]).expect(2);
        assert!(
            refused.stderr.contains(expected),
            "`{expected}`: {}",
            refused.stderr
        );
        assert!(refused.stderr.contains("team.toml:"), "{}", refused.stderr);
    };
    check("script = \"work.rb\"", "`work.rb` is not a script");
    check("component = \"work.js\"", "write `script = \"work.js\"`");
    check("script = \"work.js\"", "cannot find the script `");
    check(
        "script = \"work.js\"\ncomponent = \"probe.wasm\"",
        "there cannot be both `script` and `component`",
    );
}

/// Copies the team that ships with the product, and compiles its interpreters.
fn copy_of_shipped_team(team: &str) -> Workspace {
    let place = Workspace::empty();
    for entry in fs::read_dir(project().join("plugins/teams/scripts")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            fs::copy(
                entry.path(),
                place.path(&entry.file_name().to_string_lossy()),
            )
            .unwrap();
        }
    }
    without_time_limit(&place, &["check", team]);
    place
}

#[test]
fn a_model_s_code_is_run_in_the_sandbox() {
    let cases = [
        (
            "team.toml",
            "mended.js",
            [
                "TypeError: cannot read property 'length' of undefined",
                "at Write.js:2:",
            ],
        ),
        (
            "python.toml",
            "mended.py",
            [
                "error: StopIteration",
                "File \"Write.py\", line 2, in <module>",
            ],
        ),
    ];
    for (team, mended, told) in cases {
        let place = copy_of_shipped_team(team);
        let done = place
            .host(&["run", team, "--events", "-", "--storage", "store"])
            .expect(0);
        assert_eq!(
            finished(&done)[1]["data"],
            serde_json::json!({ "sum": 24133, "largest": 541 }),
            "{team}"
        );
        let failed = place
            .host(&["run", team, "find a name with B", "--storage", "name"])
            .expect(3);
        told.iter()
            .for_each(|part| assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr));
        place.write(mended, "return \"nobody\"");
        let component = format!("Runner.Run={mended}");
        let resumed = place
            .host(&[
                "run",
                "--recover_path",
                "name",
                "--component",
                &component,
                "--events",
                "-",
            ])
            .expect(0);
        assert_eq!(finished(&resumed)[0]["content"], "nobody");
        assert!(
            !resumed.stdout.contains("\"host-call\""),
            "the model is not asked again: {}",
            resumed.stdout
        );
    }
}

#[test]
fn text_of_a_guest_cannot_imitate_the_host() {
    let place = team("work.js");
    let says = "export default () => { console.error('one\\rfault: forged \\u202e'); throw new Error('two\\nfault: forged'); }";
    place.write("work.js", says);
    let ended = place.run().expect(3);
    assert!(
        ended.stderr.contains("one\u{fffd}fault: forged \u{fffd}"),
        "{}",
        ended.stderr
    );
    assert!(
        !ended.stderr.contains(['\r', '\u{202e}']) && !ended.stderr.contains("\nfault: forged"),
        "{}",
        ended.stderr
    );
    let told = place.host(&["inspect", "store"]).expect(0).stdout;
    let faults: Vec<&str> = told
        .lines()
        .skip_while(|line| *line != "faults")
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(
        faults.len() > 2 && faults[1..].iter().all(|line| line.starts_with("  ")),
        "{told}"
    );
    assert_eq!(
        *faults.last().unwrap(),
        "  stack, log and calls: strata-host inspect store --action A.Work"
    );
    let told = place
        .host(&["inspect", "store", "--action", "A.Work"])
        .expect(0)
        .stdout;
    assert!(
        told.contains("fault       attempt 1: error: Error: two"),
        "{told}"
    );
}

#[test]
fn a_script_in_python_reads_and_writes_several_encodings() {
    let place = team("work.py");
    let text = fs::read_to_string(place.path("team.toml")).unwrap();
    let grant =
        "[role.action.allow]\ndirs = [{ host = \"out\", guest = \"/out\", write = true }]\n";
    place.write("team.toml", format!("{text}{grant}"));
    place.write(
        "work.py",
        r#"import io, os, zipfile
os.makedirs("/out", exist_ok=True)
os.makedirs("/out/deep/er", exist_ok=True)
os.makedirs("/out/deep/er", exist_ok=True)
for name in ("ascii", "latin-1", "iso-8859-15", "utf-8-sig", "utf-16", "utf-32", "cp1252", "cp437"):
    with open("/out/f", "w", encoding=name) as file:
        file.write("text")
    assert open("/out/f", encoding=name).read() == "text", name
packed = io.BytesIO()
with zipfile.ZipFile(packed, "w") as archive:
    archive.writestr("a", "packed")
return zipfile.ZipFile(packed).read("a").decode()
"#,
    );
    let ended = place.run().expect(0);
    assert_eq!(finished(&ended)[1]["content"], "packed");
    assert!(place.path("out/deep/er").is_dir());
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_script() {
    let cases = [
        ("work.py", "return f\"{1 + 1} words\"\n"),
        ("work.js", "#!/usr/bin/env node\nreturn `${1 + 1} words`;\n"),
    ];
    for (file, text) in cases {
        let place = team(file);
        place.write(file, format!("\u{feff}{text}"));
        let ended = place.run().expect(0);
        assert_eq!(
            finished(&ended).last().unwrap()["content"],
            "2 words",
            "{file}"
        );
    }
}

/// A team whose first role makes an image in JavaScript, and whose second loads it in Python.
const PICTURE: &str = r#"schema = "strata.team/1"
[team]
name = "picture"
idea = "a circle"
[[role]]
name = "Draws"
watch = ["UserRequirement"]
[[role.action]]
name = "Draw"
script = "draw.js"
[[role]]
name = "Looks"
watch = ["Draw"]
[[role.action]]
name = "Look"
script = "look.py"
"#;

#[test]
fn an_image_is_passed_between_actions_and_copied_with_the_run() {
    let place = Workspace::with(PICTURE);
    place.write(
        "draw.js",
        "import { action, image } from \"@strata/action\";\n\
         const drawn = { ...image(\"image/png\", \"PNG\"), name: \"circle.png\" };\n\
         export default action({ run: () => ({ content: \"drawn\", parts: [drawn] }) });\n",
    );
    let look = "from strata_action import Output\n\
                part = cx.newest.parts[0]\n\
                return Output(f\"{part.name} {part.media_type} {part.load().decode()}\", parts=[part])\n";
    place.write("look.py", "raise RuntimeError('not yet')");
    without_time_limit(&place, &["check", "team.toml"]);
    place.run().expect(3);
    let parts = |team: &Value| team["strata"]["messages"]["0-0-0"]["parts"].clone();
    let image = serde_json::json!([{
        "type": "image",
        "media_type": "image/png",
        "name": "circle.png",
        "digest": "5c4c2ae5ebbbb6c9b4b5a1a3a9a9e7d3c4a3e9d5f3b7c1d2e8f6a4b2c0d1e3f5",
        "size": 3,
    }]);
    let mut saved = parts(&place.team_json());
    assert_eq!(saved[0]["digest"].as_str().map(str::len), Some(64));
    saved[0]["digest"] = image[0]["digest"].clone();
    assert_eq!(saved, image);

    // The bytes of the image are copied to the other storage.
    let fork = ["fork", "store", "--at", "main-1", "--to", "copy"];
    place.host(&fork).expect(0);
    place.write("look.py", look);
    for storage in ["store", "copy"] {
        let args = ["run", "team.toml", "--recover_path", storage, "--quiet"];
        let ended = place.host(&args).expect(0);
        assert_eq!(ended.stdout, "circle.png image/png PNG\n");
    }
}

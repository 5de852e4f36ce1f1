//! Skills in the Agent Skills format, and guards: ten skills like public ones, hostile ones, and a
//! conversation with a skill, a script and a guard that is killed after each event.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::saved::essence_of_lineage;
use crate::stream::of_kind;
use crate::workspace::Workspace;

/// A role with skills and guards. Its model is scripted.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "skilled"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
skills = ["skills/*"]
before = { component = "probe.wasm", config = { steps = [{ guard = { wipe = "deny: too dangerous" } }] } }
after = { component = "probe.wasm", config = { steps = [{ say = "seen: {inputs}" }] } }
[[role.action]]
name = "wipe"
component = "probe.wasm"
config = { steps = [{ say = "wiped" }] }
"#;

const REPLIES: &str = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "load_skill", arguments = { name = "csv-report" } }]
[[reply]]
turn = 1
tool_calls = [
  { name = "run_skill_script", arguments = { skill = "csv-report", script = "scripts/summary.py", stdin = "a,b\n1,x\n2,y\n" } },
  { name = "wipe", arguments = {} },
]
[[reply]]
turn = 2
text = "done"
"#;

/// Creates a directory with the team and all skills of the fixtures.
fn team(replies: &str) -> Workspace {
    let place = Workspace::with(TEAM);
    place.write("replies.toml", replies);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills");
    copy(&fixtures, &place.path("skills"));
    place
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns the outputs of finished calls of this tool.
fn outputs(lines: &[Value], tool: &str) -> Vec<String> {
    let finished = of_kind(lines, "action-finished").into_iter();
    finished
        .filter(|line| line["action"] == tool)
        .map(|line| line["output"]["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_conversation_with_skills_and_guards_killed_after_any_event_is_continued() {
    let calm = team(REPLIES);
    let lines = calm.run().expect(0).events();
    assert_eq!(
        outputs(&lines, "run_skill_script"),
        ["seen: 2 rows, 2 columns\na: 3"]
    );
    assert!(outputs(&lines, "load_skill")[0].starts_with("seen: # Reports"));
    assert_eq!(
        of_kind(&lines, "tool-rejected")[0]["reason"],
        "too dangerous"
    );
    let expected = essence_of_lineage(calm.team_json());
    for count in 1..lines.len() {
        let place = team(REPLIES);
        let mut process = place.start_run(&[]);
        let seen = (0..count).map_while(|_| process.next()).count();
        process.kill();
        if seen == 0 {
            continue;
        }
        place.resume().expect(0);
        let what = format!("killed after {count} lines");
        assert_eq!(essence_of_lineage(place.team_json()), expected, "{what}");
        let all = place.recorded();
        for (kind, times) in [("turn", 3), ("skill-loaded", 1), ("tool-rejected", 1)] {
            assert_eq!(of_kind(&all, kind).len(), times, "{kind}, {what}");
        }
        assert_eq!(outputs(&all, "run_skill_script").len(), 1, "{what}");
    }
    calm.host(&["replay", "--verify", "store"]).expect(0);
    let shown = calm
        .host(&["inspect", "store", "--conversation", "A"])
        .expect(0);
    assert!(shown.stdout.contains("load_skill"), "{}", shown.stdout);
}

#[test]
fn scripts_of_skills_run_or_name_the_module_that_is_missing() {
    let cases = [
        (
            "changelog",
            "scripts/group.py",
            "[]",
            "fix: b\\nadd: a\\n",
            "## add\n- a\n## fix\n- b",
        ),
        (
            "log-triage",
            "scripts/top.py",
            "[\"1\"]",
            "ERROR 1\\nERROR 2\\n",
            "2 ERROR N",
        ),
        (
            "units",
            "scripts/convert.js",
            "[\"10\", \"mi\"]",
            "",
            "16.09 km",
        ),
        ("pdf", "scripts/pages.py", "[\"a.pdf\"]", "", "pypdf"),
        ("xlsx", "scripts/sheets.py", "[\"a.xlsx\"]", "", "openpyxl"),
        (
            "webapp-testing",
            "scripts/open.py",
            "[\"http://a\"]",
            "",
            "playwright",
        ),
        (
            "webapp-testing",
            "scripts/serve.sh",
            "[]",
            "",
            "cannot be run",
        ),
        (
            "docx",
            "scripts/text.py",
            "[\"/skill/none.docx\"]",
            "",
            "none.docx",
        ),
    ];
    let call = |(skill, script, arguments, stdin, _): &(&str, &str, &str, &str, &str)| {
        format!(
            "{{ name = \"run_skill_script\", arguments = {{ skill = \"{skill}\", script = \"{script}\", \
             arguments = {arguments}, stdin = \"{stdin}\" }} }}"
        )
    };
    let calls: Vec<String> = cases.iter().map(call).collect();
    let replies = format!(
        "[[reply]]\nturn = 0\ntool_calls = [{}]\n[[reply]]\nturn = 1\ntext = \"done\"\n",
        calls.join(", ")
    );
    let place = team(&replies);
    let lines = place.run().expect(0).events();
    for ((skill, script, .., expected), number) in cases.iter().zip(0..) {
        let ended = lines.iter().find(|line| {
            let kind = line["kind"].as_str().unwrap();
            line["tool_call"] == number && ["action-finished", "action-failed"].contains(&kind)
        });
        let ended = ended
            .unwrap_or_else(|| panic!("{skill}/{script}: no end"))
            .to_string();
        let expected = Value::from(*expected).to_string();
        assert!(
            ended.contains(expected.trim_matches('"')),
            "{skill}/{script}: {ended}"
        );
    }
}

#[test]
fn a_skill_that_changes_is_an_error_until_the_next_activation() {
    let replies = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "load_skill", arguments = { name = "brand" } }]
[[reply]]
turn = 1
tool_calls = [{ name = "read_skill_file", arguments = { skill = "brand", path = "SKILL.md" } }]
[[reply]]
turn = 2
text = "done"
"#;
    let place = team(replies);
    let approval = "[role.skill]\napprove = [\"read_skill_file\"]\n[[role.action]]";
    place.write("team.toml", TEAM.replace("[[role.action]]", approval));
    place.run().expect(4);
    place.write("skills/brand/more.md", "more");
    let answer = r#"ask-0-0-1-0={"approve": true}"#;
    place.host(&["answer", "store", answer]).expect(0);
    let lines = place.resume().expect(0).events();
    let failed = of_kind(&lines, "action-failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].to_string().contains("has changed"), "{failed:?}");
}

#[test]
fn the_lock_pins_skills() {
    let place = team(REPLIES);
    place.host(&["lock", "team.toml"]).expect(0);
    place.host(&["check", "team.toml"]).expect(0);
    place.write("skills/units/more.md", "more");
    let refused = place.host(&["check", "team.toml"]).expect(2);
    assert!(
        refused.stderr.contains("skills/units"),
        "{}",
        refused.stderr
    );
    place.host(&["lock", "team.toml"]).expect(0);
    place.host(&["check", "team.toml"]).expect(0);
}

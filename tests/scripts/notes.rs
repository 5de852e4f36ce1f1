//! What is noted about attempts beside their results: what they print, and what they look for and may
//! not see. It is recorded and shown, and changes neither the result nor a replay.

use super::*;
use crate::web::Web;

/// Returns the events of a kind.
fn events_of(ended: &Ended, kind: &str) -> Vec<Value> {
    let events = ended.events().into_iter();
    events.filter(|line| line["kind"] == kind).collect()
}

/// Runs a script that prints two lines and returns something else, which is found wherever the run is
/// shown.
fn check_log(file: &str, script: &str) {
    let place = team(file);
    place.write(file, script);
    let ended = place.run().expect(0);
    let logged = events_of(&ended, "action-logged");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["action"], "Work");
    assert_eq!(logged[0]["lines"], serde_json::json!(["one", "two"]));
    assert_eq!(logged[0]["left_out"], 0);

    let args = ["inspect", "store", "--action", "A.Work"];
    let shown = place.host(&args).expect(0).stdout;
    assert!(
        shown.ends_with("result\n\nlogged then\none\ntwo\n"),
        "{shown}"
    );
    let other = place.host(&["inspect", "store", "--action", "A.First", "--json"]);
    assert!(other.expect(0).stdout.contains("\"log\":null"));
    let page = place.host(&["report", "store"]).expect(0).stdout;
    assert!(page.contains("logged</span>"), "the page has a log");
    let replayed = place.host(&["replay", "store", "--verify"]).expect(0);
    assert_eq!(
        replayed.stdout,
        "equal: 2, different: 0, not made again: 0\n"
    );

    // As it is printed, also if it becomes the result.
    let tried = place.host(&["try", file]).expect(0);
    assert!(
        tried.stderr.contains("Try | one\nTry | two\n") && tried.stdout.contains("result"),
        "{}",
        tried.stderr
    );
}

#[test]
fn what_a_script_in_python_prints_beside_its_result_is_kept() {
    check_log("work.py", "print('one\\ntwo')\nreturn 'result'\n");
}

#[test]
fn what_a_script_in_javascript_prints_beside_its_result_is_kept() {
    check_log(
        "work.js",
        "console.log(\"one\")\nconsole.log(\"two\")\nreturn \"result\"\n",
    );
}

#[test]
fn what_became_the_result_is_not_kept_twice() {
    let place = team("work.py");
    for (script, expected) in [
        ("for n in range(30):\n    print(n)\n", 0),
        ("print('x')\nreturn 'xx'\n", 1),
    ] {
        place.write("work.py", script);
        let args = [
            "run",
            "team.toml",
            "--storage",
            "store",
            "--force",
            "--events",
            "-",
        ];
        let ended = place.host(&args).expect(0);
        assert_eq!(
            events_of(&ended, "action-logged").len(),
            expected,
            "{script}"
        );
    }
}

#[test]
fn what_an_action_logged_is_there_after_a_kill_and_only_the_last_lines_are() {
    let place = Workspace::with(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Flood"
component = "probe.wasm"
config = { steps = [{ fail = "flood-log" }] }
[[role.action]]
name = "Slow"
component = "probe.wasm"
config = { steps = [{ sleep = "90s", attempts = [1] }] }
"#,
    );
    let mut process = place.start_run(&[]);
    let logged = process.until("action-logged", None);
    // Lines of four kilobytes, of which sixteen are kept.
    assert_eq!(logged["lines"].as_array().map(Vec::len), Some(4));
    assert!(logged["left_out"].as_u64() > Some(0));
    process.until("action-started", None);
    process.kill();
    let args = ["inspect", "store", "--action", "A.Flood"];
    let killed = place.host(&args).expect(0).stdout;
    assert!(killed.contains("\nlogged then, after "), "{killed}");
    let resumed = place.resume().expect(0);
    assert!(events_of(&resumed, "action-logged").is_empty());
    let shown = place.host(&args).expect(0).stdout;
    assert_eq!(
        shown.split_once("\nlogged").map(|(_, log)| log),
        killed.split_once("\nlogged").map(|(_, log)| log)
    );
}

#[test]
fn what_a_tool_of_a_model_prints_is_kept_with_its_call() {
    let web = Web::new();
    let place = Workspace::with(&format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[llm]
provider = "openai"
base_url = "http://127.0.0.1:{}/v1/turns"
model = "m"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
instructions = 'script: [[["look", {{}}], ["look", {{}}]], "done"]'
[[role.action]]
name = "look"
script = "look.py"
"#,
        web.port()
    ));
    place.write("look.py", "# Looks.\nprint('looking')\nreturn 'seen'\n");
    without_time_limit(&place, &["check", "team.toml"]);
    let ended = place.run().expect(0);
    let calls: Vec<_> = events_of(&ended, "action-logged")
        .iter()
        .map(|line| line["tool_call"].clone())
        .collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_ne!(calls[0], calls[1]);
    let shown = place
        .host(&["inspect", "store", "--action", "A.look"])
        .expect(0);
    assert!(
        shown.stdout.ends_with("logged then\nlooking\n"),
        "{}",
        shown.stdout
    );
}

/// Runs a script that looks for files, and compares the paths of which the operator is warned.
fn check_lookups(file: &str, cases: &[(&str, &[&str])]) {
    let place = team(file);
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    let grant = "[role.action.allow]\ndirs = [{ host = \"dir\", guest = \"/dir\" }]\n";
    place.write("team.toml", format!("{text}{grant}"));
    fs::create_dir(place.path("dir")).unwrap();
    for (script, expected) in cases {
        place.write(file, script);
        let args = [
            "run",
            "team.toml",
            "--storage",
            "store",
            "--force",
            "--events",
            "-",
        ];
        let ended = place.host(&args).expect(0);
        let paths: Vec<String> = events_of(&ended, "lookups-denied")
            .iter()
            .flat_map(|line| line["paths"].as_array().unwrap().clone())
            .map(|path| path.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(paths, *expected, "{script}\n{}", ended.stderr);
        for path in *expected {
            let warning = format!("warning: A.Work looked for `{path}`, which is not granted");
            assert_eq!(
                ended.stderr.matches(&warning).count(),
                1,
                "{}",
                ended.stderr
            );
        }
    }
    let replayed = place.host(&["replay", "store", "--verify"]).expect(0);
    assert!(
        replayed.stdout.contains("different: 0"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn a_script_in_python_that_looks_for_a_path_that_is_not_granted_leaves_one_warning() {
    check_lookups(
        "work.py",
        &[
            (
                "import glob\nreturn str(glob.glob('/data/*') + glob.glob('/data/*'))\n",
                &["/data"],
            ),
            (
                "import os\nreturn str([os.path.exists('/data/x') for _ in range(3)])\n",
                &["/data/x"],
            ),
            (
                "import pathlib\nreturn str(list(pathlib.Path('/data').glob('*.csv')))\n",
                &["/data"],
            ),
            (
                "import pathlib\nreturn str(pathlib.Path('/data/x').is_file())\n",
                &["/data/x"],
            ),
            (
                "import os\nreturn str(list(os.walk('/data')) or os.access('/data', os.R_OK))\n",
                &["/data"],
            ),
            ("import os\nreturn str(os.path.isdir('data'))\n", &["data"]),
            (
                "import os\nreturn str([os.path.exists(f'/data/{n}') for n in range(99)])\n",
                &["/data/0", "/data/1", "/data/2", "/data/3"],
            ),
            // These are granted, or not looked for by the script.
            (
                "import glob, os\nreturn str(glob.glob('/dir/*') + [os.path.exists('/dir/none')])\n",
                &[],
            ),
            (
                "import mimetypes, tempfile, traceback, zoneinfo\nimport xml.dom.minidom, email.mime.text\n\
                 try:\n    zoneinfo.ZoneInfo('Europe/Paris')\nexcept Exception:\n    text = traceback.format_exc()\n\
                 return mimetypes.guess_type('a.csv')[0] + str(len(text) > 9)\n",
                &[],
            ),
        ],
    );
}

#[test]
fn a_script_in_javascript_that_reads_a_path_that_is_not_granted_leaves_one_warning() {
    check_lookups(
        "work.js",
        &[
            (
                "import fs from \"fs\"\ntry { fs.readFileSync(\"/data/x\") } catch {}\n\
                 try { fs.readdirSync(\"/data\") } catch {}\nreturn \"went on\"\n",
                &["/data/x", "/data"],
            ),
            (
                "import fs from \"fs\"\nreturn String(fs.existsSync(\"/dir/none\"))\n",
                &[],
            ),
        ],
    );
}

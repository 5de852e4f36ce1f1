//! Actions in Python: begun, tested, built and run by the commands that a user would call; how their mistakes are told;
//! the probe in Python against the same team as the one in Rust.
//!
//! Tools and components are made once for all tests: that takes a while, and PyPI.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::Place;
use crate::probe::project;

/// Runs the tests in plain Python that lie in a directory.
#[track_caller]
fn unittest(dir: &Path, sdk: &Path) {
    let mut command = Command::new("python3");
    command.args(["-m", "unittest", "discover", "--quiet"]).current_dir(dir);
    command.env("PYTHONPATH", sdk).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Ran 0 tests"), "{said}");
}

#[test]
fn the_sdk_passes_its_own_tests() {
    let sdk = project().join("guest-sdk/python");
    unittest(&sdk.join("tests"), &sdk);
}

/// One after the other in one test: each step takes up what the one before has built.
#[test]
fn a_team_in_python_is_begun_tested_built_run_broken_and_mended() {
    let place = Place::empty();
    place.host(&["new", "team", "press", "--lang", "python"]).expect(0);
    let sdk = place.host(&["sdk", "python"]).expect(0);
    let action = place.path("press/respond");
    unittest(&action, Path::new(sdk.stdout.trim()));

    let run = |code: i32| {
        place.host(&["run", "press/team.toml", "--storage", "store", "--events", "-", "--force"]).expect(code)
    };
    let ended = run(0);
    assert!(ended.stderr.contains("building respond"), "{}", ended.stderr);
    let done = ended.events().into_iter().filter(|line| line["kind"] == "action-finished").collect::<Vec<_>>();
    assert_eq!(done.len(), 2);
    assert!(done[1]["output"]["content"].as_str().unwrap().starts_with("At night the sea has no edge: it"));
    assert_eq!(done[1]["output"]["data"]["words"], 17);

    let again = place.host(&["build", "press/respond"]).expect(0);
    assert_eq!(again.stderr, "");
    assert!(again.stdout.trim().ends_with("press/respond/target/guest/respond.wasm"), "{}", again.stdout);

    let source = fs::read_to_string(action.join("action.py")).unwrap();
    let broken = source.replace("return Output(", "raise ValueError(f\"no {cx.action} today\") or Output(");
    fs::write(action.join("action.py"), broken).unwrap();
    let ended = run(3);
    let expected = [
        "fault: Writer action 0 `Write` attempt 1: error: ValueError: no Write today",
        "File \"action.py\", line ",
        "raise ValueError(f\"no {cx.action} today\")",
    ];
    expected.iter().for_each(|part| assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr));

    fs::write(action.join("action.py"), source).unwrap();
    place.host(&["run", "press/team.toml", "--recover_path", "store"]).expect(0);
}

#[test]
fn what_python_cannot_load_is_told_with_its_place() {
    let cases = [
        ("def f(:\n    pass\n", &["action.py", "line 1", "SyntaxError"][..]),
        ("x = 1\n1 / 0\n", &["File \"action.py\", line 2", "ZeroDivisionError: division by zero"]),
        ("def f(cx): return 'x'\n", &["no function of the module `action` is marked with `@action`"]),
    ];
    for (source, expected) in cases {
        let place = Place::empty();
        fs::create_dir(place.path("bad")).unwrap();
        place.write("bad/action.py", source);
        let ended = place.host(&["build", "bad"]).expect(2);
        expected.iter().for_each(|part| assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr));
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn the_probe_in_python_is_told_like_the_one_in_rust() {
    crate::alike::assert_told_like_rust(&crate::probe::build("plugins/probe-python"));
}

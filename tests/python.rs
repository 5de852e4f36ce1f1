//! Actions in Python: created, tested, built and run by the commands that a user would call, and
//! reports of their errors. The probe in Python produces the same events as the one in Rust.
//!
//! The tools and components are built once for all tests, from PyPI, which takes a while.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::probe::project;
use crate::scaffold::a_mistyped_config_is_refused;
use crate::workspace::Workspace;

/// Runs the Python tests in a directory.
#[track_caller]
pub fn unittest(dir: &Path, sdk: &Path) {
    let mut command = Command::new("python3");
    command
        .args(["-m", "unittest", "discover", "--quiet"])
        .current_dir(dir);
    command
        .env("PYTHONPATH", sdk)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !said.contains("Ran 0 tests"),
        "{said}"
    );
}

/// Runs the host without a time limit, because building and compiling an interpreter takes long on
/// a busy machine. Returns its stderr.
#[track_caller]
fn without_time_limit(place: &Workspace, args: &[&str], code: i32) -> String {
    let output = place.command(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn the_sdk_passes_its_own_tests() {
    let sdk = project().join("guest-sdk/python");
    unittest(&sdk.join("tests"), &sdk);
}

/// The steps are in one test, because each uses the results of the previous one.
#[test]
fn a_team_in_python_is_created_tested_built_run_broken_and_fixed() {
    let place = Workspace::empty();
    place
        .host(&["new", "team", "press", "--lang", "python"])
        .expect(0);
    let sdk = place.host(&["sdk", "python"]).expect(0);
    let action = place.path("press/respond");
    unittest(&action, Path::new(sdk.stdout.trim()));

    let run = |code: i32| {
        // Without packages, the source is run by the interpreter of scripts.
        let said = without_time_limit(&place, &["check", "press/team.toml"], 0);
        assert!(!said.contains("building respond"), "{said}");
        place
            .host(&[
                "run",
                "press/team.toml",
                "--storage",
                "store",
                "--events",
                "-",
                "--force",
            ])
            .expect(code)
    };
    let done = run(0)
        .events()
        .into_iter()
        .filter(|line| line["kind"] == "action-finished")
        .collect::<Vec<_>>();
    assert_eq!(done.len(), 2);
    assert!(
        done[1]["output"]["content"]
            .as_str()
            .unwrap()
            .starts_with("At night the sea has no edge: it")
    );
    assert_eq!(done[1]["output"]["data"]["words"], 17);

    check_build_and_description(&place);
    a_mistyped_config_is_refused(&place);

    let source = fs::read_to_string(action.join("action.py")).unwrap();
    let broken = source.replace(
        "return Output(",
        "raise ValueError(f\"no {cx.action} today\") or Output(",
    );
    fs::write(action.join("action.py"), broken).unwrap();
    let ended = run(3);
    for part in BROKEN {
        assert!(
            ended.stderr.contains(part),
            "`{part}` is not in:\n{}",
            ended.stderr
        );
    }
    resume_with_a_package(&place, &action, &source);
}

fn check_build_and_description(place: &Workspace) {
    let built = without_time_limit(place, &["build", "press/respond"], 0);
    assert!(built.contains("building respond"), "{built}");
    let again = place.host(&["build", "press/respond"]).expect(0);
    assert_eq!(again.stderr, "");
    assert!(
        again
            .stdout
            .trim()
            .ends_with("press/respond/target/guest/respond.wasm"),
        "{}",
        again.stdout
    );

    let described = place.host(&["describe", "press/respond"]).expect(0).stdout;
    assert!(
        described.contains("config") && !described.contains("functions"),
        "no tool's functions: {described}"
    );
}

/// Parts of the report of a fault in the source.
const BROKEN: [&str; 3] = [
    "fault: Writer action 0 `Write` attempt 1: error: ValueError: no Write today",
    "File \"action.py\", line ",
    "raise ValueError(f\"no {cx.action} today\")",
];

fn resume_with_a_package(place: &Workspace, action: &Path, source: &str) {
    // Fixed, and with a package in its directory.
    wheel(action);
    fs::write(
        action.join("requirements.txt"),
        "./shout-1.0-py3-none-any.whl\n",
    )
    .unwrap();
    let mended = source.replace(
        "return Output(reply.text",
        "import shout\n    return Output(shout.loud(reply.text)",
    );
    fs::write(action.join("action.py"), mended).unwrap();
    let said = without_time_limit(place, &["check", "press/team.toml"], 0);
    let told = "building respond (it needs packages (`requirements.txt`))";
    assert!(said.contains(told), "{said}");
    let ended = place
        .host(&[
            "run",
            "press/team.toml",
            "--recover_path",
            "store",
            "--events",
            "-",
        ])
        .expect(0);
    assert!(
        ended.stdout.contains("AT NIGHT THE SEA HAS NO EDGE: IT"),
        "{}",
        ended.stdout
    );
}

/// Writes a wheel of a package into a directory.
fn wheel(dir: &Path) {
    let script = "import zipfile\n\
        files = {'shout.py': 'def loud(text): return text.upper()\\n',\n\
        'shout-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: shout\\nVersion: 1.0\\n',\n\
        'shout-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',\n\
        'shout-1.0.dist-info/RECORD': ''}\n\
        wheel = zipfile.ZipFile('shout-1.0-py3-none-any.whl', 'w')\n\
        [wheel.writestr(name, text) for name, text in files.items()]\n\
        wheel.close()\n";
    let status = Command::new("python3")
        .args(["-c", script])
        .current_dir(dir)
        .status()
        .expect("python3 runs");
    assert!(status.success());
}

#[test]
fn without_a_suitable_python_the_packages_to_install_are_named() {
    let poor = "#!/bin/sh\n[ \"$1\" = -c ] && echo 3 11 /nowhere && exit\necho No module named venv\nexit 1\n";
    let old = "#!/bin/sh\necho 2 7 /usr\n";
    let cases = [
        (
            None,
            &["running `python3`", "apt install python3 python3-venv"][..],
        ),
        (
            Some(poor),
            &[
                "setting up a python environment",
                "apt install python3-venv",
                "No module named venv",
            ],
        ),
        (Some(old), &["setting up python3", "python 3.9 or later"]),
    ];
    for (python, expected) in cases {
        let place = Workspace::empty();
        fs::create_dir(place.path("greet")).unwrap();
        place.write("greet/action.py", "");
        fs::create_dir(place.path("bin")).unwrap();
        if let Some(script) = python {
            place.write("bin/python3", script);
            fs::set_permissions(place.path("bin/python3"), fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        let mut command = place.command(&["build", "greet"]);
        let output = command
            .env("PATH", place.path("bin"))
            .env("XDG_CACHE_HOME", place.path("cache"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        expected
            .iter()
            .for_each(|part| assert!(said.contains(part), "`{part}` is not in:\n{said}"));
    }
}

#[test]
fn errors_of_loading_a_module_are_reported_with_their_positions() {
    let cases = [
        (
            "def f(:\n    pass\n",
            &["action.py", "line 1", "SyntaxError"][..],
        ),
        (
            "x = 1\n1 / 0\n",
            &[
                "File \"action.py\", line 2",
                "ZeroDivisionError: division by zero",
            ],
        ),
        (
            "def f(cx): return 'x'\n",
            &["no function of the module `action` is marked with `@action`"],
        ),
    ];
    for (source, expected) in cases {
        let place = Workspace::empty();
        fs::create_dir(place.path("bad")).unwrap();
        place.write("bad/action.py", source);
        let said = without_time_limit(&place, &["build", "bad"], 2);
        expected
            .iter()
            .for_each(|part| assert!(said.contains(part), "`{part}` is not in:\n{said}"));
    }
}

#[test]
fn the_probe_in_python_produces_the_same_events_as_the_one_in_rust() {
    crate::alike::assert_same_events_as_rust(&crate::probe::build("plugins/probe-python"));
    // Its source is run by the interpreter of scripts.
    crate::alike::assert_same_events_as_rust(&project().join("plugins/probe-python"));
}

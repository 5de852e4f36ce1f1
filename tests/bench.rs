//! The scripts of `bench/`: they can be parsed, and their options have the documented names. The
//! measurements need an optimised build and minutes, and are not part of the tests.

use std::process::Command;

use crate::probe::project;

/// Parses every Python script below a directory, without writing files.
const PARSE: &str = "import ast, pathlib, sys
files = [p for p in pathlib.Path(sys.argv[1]).rglob('*') if p.suffix == '.py' or (p.is_file() and p.read_text(errors='replace').startswith('#!/usr/bin/env python3'))]
[ast.parse(p.read_text(), str(p)) for p in files]
print(len(files))";

#[test]
fn the_scripts_of_the_benchmarks_can_be_parsed_and_show_their_options() {
    let bench = project().join("bench");
    let parsed = Command::new("python3")
        .args(["-c", PARSE])
        .arg(&bench)
        .output()
        .unwrap();
    assert!(
        parsed.status.success(),
        "{}",
        String::from_utf8_lossy(&parsed.stderr)
    );
    assert!(
        String::from_utf8_lossy(&parsed.stdout)
            .trim()
            .parse::<u32>()
            .unwrap()
            > 10
    );

    for script in ["conversations", "models", "real-model", "turns"] {
        let help = Command::new(bench.join(script))
            .arg("--help")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(
            text.contains("--program") && text.contains("--scratch"),
            "{text}"
        );
    }

    let help = Command::new(bench.join("server"))
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        text.contains("--program") && text.contains("--quick"),
        "{text}"
    );

    let help = Command::new(bench.join("run"))
        .arg("--help")
        .output()
        .unwrap();
    assert!(
        help.status.success(),
        "{}",
        String::from_utf8_lossy(&help.stderr)
    );
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for option in [
        "--no-peers",
        "--quick",
        "--markdown",
        "--only",
        "--scratch",
        "--dir",
    ] {
        assert!(help.contains(option), "{help}");
    }
}

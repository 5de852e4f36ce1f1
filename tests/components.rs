//! Components that cannot be used: `check` and `run` name them, the position in the team file, and
//! a remedy. Nothing is created. Errors in team files are tested with the manifest.

use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "one"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "bad.wasm"
EXTRA"#;

/// The name of a case, the bytes of a component, and parts of the report.
type Case<'a> = (&'a str, Option<Vec<u8>>, &'a [&'a str]);

/// Checks and runs a team with this component.
#[track_caller]
fn check(name: &str, bytes: Option<&[u8]>, extra: &str, expected: &[&str]) {
    let place = Workspace::with(&TEAM.replace("EXTRA", extra));
    if let Some(bytes) = bytes {
        place.write("bad.wasm", bytes);
    }
    let commands: [&[&str]; 3] = [
        &["check", "team.toml"],
        &["check", "team.toml", "--json"],
        &["run", "team.toml", "--storage", "store"],
    ];
    for args in commands {
        let ended = place.host(args);
        let what = format!("{name}: {args:?}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{what}");
        if args.contains(&"--json") {
            let told: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
            let problems = told["problems"].as_array().expect("a list");
            assert!(!problems.is_empty(), "{what}");
        } else {
            assert_eq!(ended.stdout, "", "{what}");
        }
        assert!(ended.stderr.starts_with("error: "), "{what}");
        expected
            .iter()
            .for_each(|part| assert!(ended.stderr.contains(part), "`{part}`: {what}"));
        assert!(!place.path("store").exists(), "{what}");
    }
}

/// Returns the component of a text.
fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("it is a component")
}

/// Returns an instance with the name of the handler that has no functions.
fn handler(version: &str) -> String {
    format!(
        "(component (instance $none) (export \"strata:action/handler@{version}\" (instance $none)))"
    )
}

/// Returns the probe with an import that is renamed. Both names have the same length.
fn renamed(import: &str, name: &str) -> Vec<u8> {
    replaced(
        std::fs::read(crate::probe::component()).unwrap(),
        import,
        name,
    )
}

/// Returns a component in which a text is replaced by another of the same length.
fn replaced(mut bytes: Vec<u8>, text: &str, other: &str) -> Vec<u8> {
    let places: Vec<usize> = (0..bytes.len() - text.len())
        .filter(|at| bytes[*at..].starts_with(text.as_bytes()))
        .collect();
    assert!(!places.is_empty(), "the component has no `{text}`");
    places
        .iter()
        .for_each(|at| bytes[*at..*at + other.len()].copy_from_slice(other.as_bytes()));
    bytes
}

#[test]
fn what_is_not_a_component_of_an_action_is_rejected_with_its_position() {
    let place = "--> team.toml:10:13";
    let cut = std::fs::read(crate::probe::component()).unwrap();
    let wasi = "(component (import \"wasi:sockets/tcp@0.2.0\" (instance)))";
    let unknown = renamed("strata:action/clock@0.2.0", "strata:action/cloak@0.2.0");
    let other = renamed("strata:action/llm@0.2.0", "strata:action/llm@0.9.0");
    let cases: [Case<'_>; 11] = [
        (
            "missing",
            None,
            &[
                "cannot find",
                "bad.wasm`",
                "No such file",
                "give a component",
            ],
        ),
        ("empty", Some(Vec::new()), &["not WebAssembly"]),
        (
            "text",
            Some(b"hello".to_vec()),
            &["not WebAssembly", "`hello`"],
        ),
        (
            "a core module",
            Some(component("(module)")),
            &["core WebAssembly module", "strata-host build"],
        ),
        (
            "cut off",
            Some(cut[..cut.len() / 2].to_vec()),
            &["not valid"],
        ),
        (
            "no exports",
            Some(component("(component)")),
            &["does not export `strata:action/handler@0.2.0`"],
        ),
        (
            "an older interface",
            Some(component(&handler("0.0.9"))),
            &["`strata:action/handler@0.0.9`", "0.2.0"],
        ),
        (
            "a newer interface",
            Some(component(&handler("7.0.0"))),
            &["`strata:action/handler@7.0.0`", "0.2.0"],
        ),
        (
            "nothing of an action",
            Some(component(wasi)),
            &["does not export"],
        ),
        (
            "an unknown import",
            Some(unknown),
            &["`strata:action/cloak@0.2.0`"],
        ),
        (
            "an import of another version",
            Some(other),
            &["`strata:action/llm@0.9.0`"],
        ),
    ];
    for (name, bytes, expected) in cases {
        check(name, bytes.as_deref(), "", &[&[place], expected].concat());
    }
}

#[test]
fn a_component_that_is_not_the_pinned_one_is_refused_at_the_pin() {
    let probe = std::fs::read(crate::probe::component()).unwrap();
    let pin = "0".repeat(64);
    let expected = ["--> team.toml:11:10", "sha256 is `", &pin];
    check(
        "another digest",
        Some(&probe),
        &format!("sha256 = \"{pin}\"\n"),
        &expected,
    );
}

#[test]
fn a_component_with_a_missing_grant_is_rejected_with_the_line_to_add() {
    let saver = std::fs::read(crate::probe::build("plugins/save-file")).unwrap();
    let expected = [
        "`One` of role `A` needs `files`",
        "[role.action.allow]",
        "dirs = [{",
    ];
    check("no files", Some(&saver), "", &expected);
}

#[test]
fn all_errors_are_reported_together() {
    let second = "[[role.action]]\nname = \"Two\"\ncomponent = \"worse.wasm\"\n";
    check(
        "two",
        None,
        second,
        &["team.toml:10:13", "team.toml:13:13", "worse.wasm"],
    );
}

#[test]
fn a_config_that_does_not_match_the_schema_is_rejected_before_the_run() {
    let bytes = std::fs::read(crate::probe::build("plugins/merge-counts")).unwrap();
    let named = "the `config` of `One` of role `A` is not valid for its component";
    let grant =
        "[role.action.allow]\ndirs = [{ host = \"out\", guest = \"/out\", write = true }]\n";
    let slip = format!("config = {{ path = \"/out/w.md\", topp = 3 }}\n{grant}");
    check(
        "unknown",
        Some(&bytes),
        &slip,
        &[named, "'topp'", "team.toml:11:10", "did you mean `top`?"],
    );
    let wrong = format!("config = {{ path = \"/out/w.md\", top = \"3\" }}\n{grant}");
    check(
        "wrong type",
        Some(&bytes),
        &wrong,
        &[named, "(at `/top`)", "team.toml:11:10"],
    );
    check(
        "none",
        Some(&bytes),
        grant,
        &[named, "\"path\" is a required property", "team.toml:8:1"],
    );

    let place = Workspace::with(&TEAM.replace("EXTRA", grant));
    place.write(
        "bad.wasm",
        replaced(bytes, "\"type\": \"object\"", "\"type\": \"abject\""),
    );
    let told = place.host(&["check", "team.toml"]).expect(0).stderr;
    assert!(
        told.contains("warning: `config` of `One` of role `A` is held against nothing"),
        "{told}"
    );
    assert!(told.contains("abject"), "{told}");
}

#[test]
fn compiler_errors_are_reported_once_for_all_actions_of_a_directory() {
    let second = "[[role.action]]\nname = \"Two\"\ncomponent = \"bad\"\n";
    let place = Workspace::with(&TEAM.replace("bad.wasm", "bad").replace("EXTRA", second));
    std::fs::create_dir(place.path("bad")).unwrap();
    place.write("bad/build.sh", "echo 'no such word: nothing' >&2\nexit 1\n");
    let told = place.host(&["check", "team.toml"]).expect(2).stderr;
    assert_eq!(told.matches("no such word").count(), 1, "{told}");
    assert!(
        told.contains("the same applies to `A.Two` (team.toml:11)"),
        "{told}"
    );
}

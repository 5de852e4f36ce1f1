//! Actions in C: created, tested, built and run by the commands that a user would call, and reports
//! of their errors. The probe in C produces the same events as the one in Rust. Also an action in
//! Zig, which is built by a script.
//!
//! The compiler is set up once for all tests, from PyPI, which takes a while.

#[path = "../guest-sdk/fingerprint.rs"]
mod fingerprint;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::probe::project;
use crate::scaffold::a_mistyped_config_is_refused;
use crate::stream::of_kind;
use crate::workspace::Workspace;

/// The component of the probe in C. Building it sets up the compiler, which takes longer than the
/// time limit of other tests.
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = project().join("plugins/probe-c");
    let output = Workspace::empty()
        .command(&["build", dir.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
});

/// Waits until the compiler is set up.
fn set_up_tools() {
    LazyLock::force(&PROBE);
}

/// Compiles tests in C natively, with the action's files and the SDK, and runs them.
#[track_caller]
pub fn unit_tests(place: &Workspace, sdk: &Path, files: &[&Path]) {
    let c_files = |dir: &str| {
        let entries = fs::read_dir(sdk.join(dir))
            .expect("the SDK has it")
            .map(|entry| entry.expect("an entry").path());
        entries
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .collect::<Vec<_>>()
    };
    let program = place.path("unit-tests");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(sdk.join("include"))
        .args(files);
    compiler
        .args(c_files("src"))
        .args(c_files("testing"))
        .arg("-lm")
        .arg("-o")
        .arg(&program);
    let compiled = compiler.output().expect("cc runs");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let ran = Command::new(&program).output().expect("the tests run");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(!ran.stdout.is_empty());
}

#[test]
fn the_sdk_passes_its_own_tests() {
    let sdk = project().join("guest-sdk/c");
    let place = Workspace::empty();
    unit_tests(&place, &sdk, &[&sdk.join("tests/sdk.c")]);
}

#[test]
fn the_bindings_are_generated_from_the_current_wit() {
    let fingerprint = fingerprint::fingerprint(&project().join("wit")).unwrap();
    for name in [
        "bindings.h",
        "handler.c",
        "imports.c",
        "planner.c",
        "thinker.c",
    ] {
        let text = fs::read_to_string(project().join("guest-sdk/c/bindings").join(name)).unwrap();
        let expected = format!("// {fingerprint}\n");
        assert!(
            text.contains(&expected),
            "`{name}`: the WIT has changed; run `cargo run` in guest-sdk/c/bindgen"
        );
    }
}

/// Statements that end an action other than by returning, and the reports of the faults.
const BROKEN: [(&str, &str); 3] = [
    (
        "assert(instruction.len == 0);",
        "action.c:22: respond: assertion `instruction.len == 0` failed",
    ),
    (
        "exit(3);",
        "the action called `exit` with code 3; an action ends by returning",
    ),
    ("abort();", "the action called `abort`"),
];

/// The steps are in one test, because each uses the results of the previous one.
#[test]
fn a_team_in_c_is_created_tested_built_run_broken_and_fixed() {
    set_up_tools();
    let place = Workspace::empty();
    place
        .host(&["new", "team", "press", "--lang", "c"])
        .expect(0);
    let sdk = place.host(&["sdk", "c"]).expect(0);
    let action = place.path("press/respond");
    unit_tests(
        &place,
        Path::new(sdk.stdout.trim()),
        &[&action.join("action.c"), &action.join("tests/respond.c")],
    );

    let run = |code: i32| {
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
    let ended = run(0);
    assert!(
        ended.stderr.contains("building respond"),
        "{}",
        ended.stderr
    );
    let events = ended.events();
    let done = of_kind(&events, "action-finished");
    assert_eq!(done.len(), 2);
    assert_eq!(done[1]["output"]["data"]["words"], 17);
    let again = place.host(&["build", "press/respond"]).expect(0);
    assert_eq!(again.stderr, "");

    a_mistyped_config_is_refused(&place);

    let source = fs::read_to_string(action.join("action.c")).unwrap();
    for (statement, expected) in BROKEN {
        let head = "#include <assert.h>\n#include <stdlib.h>\n";
        let broken = source.replace(
            "  strata_llm_message messages[]",
            &format!("  {statement}\n  strata_llm_message messages[]"),
        );
        fs::write(action.join("action.c"), format!("{head}{broken}")).unwrap();
        let ended = run(3);
        for part in [
            "fault: Writer action 0 `Write` attempt 1: trap",
            expected,
            "strata_action_run (respond+",
        ] {
            assert!(
                ended.stderr.contains(part),
                "`{part}` is not in:\n{}",
                ended.stderr
            );
        }
    }
    fs::write(action.join("action.c"), source).unwrap();
    place
        .host(&["run", "press/team.toml", "--recover_path", "store"])
        .expect(0);
}

#[test]
fn errors_of_the_c_compiler_are_reported_with_their_positions() {
    set_up_tools();
    let cases = [
        (
            "int f(void) {\n  return \"x\";\n}\n",
            "action.c:2:10: error:",
        ),
        (
            "int f(void) { return 1; }\n",
            "it does not export `strata:action/handler@0.2.0`",
        ),
        (
            "#include <strata_action.h>\nint f(void) { return absent(); }\n",
            "action.c:2:",
        ),
    ];
    for (source, expected) in cases {
        let place = Workspace::empty();
        fs::create_dir(place.path("bad")).unwrap();
        place.write("bad/action.c", source);
        let ended = place.host(&["build", "bad"]).expect(2);
        assert!(
            ended.stderr.contains(expected),
            "`{expected}` is not in:\n{}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_component_is_rebuilt_when_a_header_outside_its_directory_has_changed() {
    set_up_tools();
    let place = Workspace::empty();
    fs::create_dir(place.path("one")).unwrap();
    let source = "#include \"../words.h\"\n#include <strata_action.h>\nstatic strata_error run(const strata_call *c, \
                  strata_output *o) { (void)c; o->content = STR(WORDS); return STRATA_SUCCESS; }\n\
                  STRATA_ACTION(run, .name = \"one\")\n";
    place.write("one/action.c", source);
    let built = || {
        let built = place.host(&["build", "one"]).expect(0);
        fs::read(built.stdout.trim()).unwrap()
    };
    let holds = |component: &[u8], text: &str| {
        component
            .windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    };
    place.write("words.h", "#define WORDS \"what was said first\"\n");
    assert!(holds(&built(), "what was said first"));
    place.write("words.h", "#define WORDS \"what was said then\"\n");
    assert!(holds(&built(), "what was said then"));
}

#[test]
fn a_component_exports_what_it_defines_and_imports_what_it_uses() {
    set_up_tools();
    let place = Workspace::empty();
    fs::create_dir(place.path("one")).unwrap();
    let head = "#include <strata_action.h>\n";
    let plain = "static strata_error run(const strata_call *c, strata_output *o) { (void)c; o->content = STR(\"x\"); \
                 return STRATA_SUCCESS; }\nSTRATA_ACTION(run, .name = \"one\")\n";
    let prints = plain.replace("(void)c;", "(void)c; printf(\"hello\\n\");");
    let cases = [
        (format!("{head}{plain}"), false),
        (format!("#include <stdio.h>\n{head}{prints}"), true),
    ];
    for (source, wasi) in cases {
        place.write("one/action.c", &source);
        let built = place.host(&["build", "one"]).expect(0);
        let component = fs::read(built.stdout.trim()).unwrap();
        let text = String::from_utf8_lossy(&component);
        assert!(
            !text.contains("strata:action/thinker@") && !text.contains("strata:action/planner@")
        );
        assert_eq!(text.contains("wasi:"), wasi);
    }
}

#[test]
fn the_probe_in_c_produces_the_same_events_as_the_one_in_rust() {
    crate::alike::assert_same_events_as_rust(&PROBE);
}

#[test]
fn a_build_script_that_fails_or_writes_nothing_is_reported() {
    let cases = [
        ("echo no such tool >&2\nexit 1\n", "no such tool"),
        ("true\n", "`build.sh` wrote nothing to `$STRATA_OUT`"),
        ("echo text > \"$STRATA_OUT\"\n", "making a component of"),
    ];
    for (script, expected) in cases {
        let place = Workspace::empty();
        fs::create_dir(place.path("bad")).unwrap();
        place.write("bad/build.sh", script);
        let ended = place.host(&["build", "bad"]).expect(2);
        assert!(
            ended.stderr.contains(expected),
            "`{expected}` is not in:\n{}",
            ended.stderr
        );
    }
}

/// Returns the command of the zig that was installed as the C compiler.
pub fn zig() -> String {
    set_up_tools();
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache/strata-host/c");
    let entries = fs::read_dir(tools)
        .expect("the tools were set up")
        .map(|entry| entry.expect("an entry").path());
    let ready = entries
        .into_iter()
        .find(|path| path.join("ready").is_file() && path.join("venv").is_dir());
    format!(
        "{} -m ziglang",
        ready
            .expect("the tools are ready")
            .join("venv/bin/python")
            .display()
    )
}

#[test]
fn an_action_in_an_unknown_language_is_built_by_a_script() {
    let place = Workspace::with(
        r#"schema = "strata.team/1"
[team]
name = "words"
idea = "a few wonderful words, and a word"
[[role]]
name = "Reader"
watch = ["UserRequirement"]
[[role.action]]
name = "Find"
component = "longest-word"
"#,
    );
    fs::create_dir(place.path("longest-word")).unwrap();
    for name in ["action.zig", "build.sh"] {
        fs::copy(
            project().join("plugins/longest-word").join(name),
            place.path("longest-word").join(name),
        )
        .unwrap();
    }
    set_up_tools();
    let build = |code: i32| {
        let mut command = place.command(&["build", "longest-word"]);
        command
            .env("ZIG", zig())
            .env("ZIG_GLOBAL_CACHE_DIR", place.path("zig"))
            .env("ZIG_LOCAL_CACHE_DIR", place.path("zig"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    assert!(build(0).contains("building longest-word by its build.sh"));
    assert_eq!(build(0), "");
    let run = |storage: &str, idea: &str| {
        place.host(&[
            "run",
            "team.toml",
            idea,
            "--storage",
            storage,
            "--events",
            "-",
        ])
    };
    let ended = run("one", "a few wonderful words, and a word").expect(0);
    let done = ended
        .events()
        .into_iter()
        .find(|line| line["kind"] == "action-finished")
        .unwrap();
    assert_eq!(done["output"]["content"], "wonderful");
    assert_eq!(done["output"]["data"]["length"], 9);
    let ended = run("two", "...").expect(3);
    assert!(
        ended
            .stderr
            .contains("error: looking for the longest word: there is none"),
        "{}",
        ended.stderr
    );
}

const PORTER: &str = r#"#include <strata_action.h>
#include <stdio.h>

static strata_error carry(const strata_call *call, strata_output *output) {
  strata_str text = strata_text(call);
  if (strata_equal(text, STR("much"))) strata_alloc(3u << 30);
  if (strata_equal(text, STR("many"))) for (;;) strata_format("%d", 7);
  FILE *left_open = fopen("/out/kept.txt", "w");
  fprintf(left_open, "kept");
  printf("no newline");
  strata_log_info("cut: %.*s", STR_ARG(strata_slice(text, 0, 2)));
  output->content = strata_slice(text, 0, 4);
  return STRATA_SUCCESS;
}

STRATA_ACTION(carry, .name = "porter")
"#;

#[test]
fn buffered_output_cut_characters_and_failed_allocations_are_handled() {
    set_up_tools();
    let place = Workspace::empty();
    ["porter", "out"]
        .iter()
        .for_each(|name| fs::create_dir(place.path(name)).unwrap());
    place.write("porter/action.c", PORTER);
    place.write(
        "team.toml",
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"a\u{f1}\u{e9}\"\n[[role]]\nname = \"A\"\n\
         watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Carry\"\ncomponent = \"porter\"\n\
         allow = { dirs = [{ host = \"out\", guest = \"/out\", write = true }] }\n",
    );
    let run = |idea: &[&str], code| {
        place
            .host(
                &[
                    &["run", "team.toml", "-v", "--force", "--storage", "store"],
                    idea,
                ]
                .concat(),
            )
            .expect(code)
    };
    let ended = run(&[], 0);
    assert_eq!(place.read("out/kept.txt"), b"kept");
    for line in ["no newline", "cut: a\u{fffd}"] {
        assert!(
            ended.stderr.contains(line),
            "`{line}` is not in:\n{}",
            ended.stderr
        );
    }
    let said = of_kind(&place.recorded(), "action-finished")[0]["output"].clone();
    assert_eq!(said["content"], "a\u{f1}\u{fffd}");
    let cases = [
        (
            "much",
            "trap: ",
            "out of memory: cannot allocate 3221225472 bytes",
        ),
        ("many", "memory: memory limit of 64 MiB", ""),
    ];
    for (idea, kind, logged) in cases {
        let ended = run(&[idea], 3);
        for part in [kind, logged] {
            assert!(
                ended.stderr.contains(part),
                "`{part}` is not in:\n{}",
                ended.stderr
            );
        }
        assert!(!ended.stderr.contains("called `abort`"), "{}", ended.stderr);
    }
}

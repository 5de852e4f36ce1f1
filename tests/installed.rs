//! A program with the files that a package installs beside it: example teams, components that were built
//! before, and what is said if files are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::probe::project;

/// Returns the program under test.
fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_strata-host-under-test"))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A home with an installed program.
struct InstalledProgram {
    home: tempfile::TempDir,
}

impl InstalledProgram {
    /// Installs the program with an example team, and with the component of an action whose source is in
    /// `action`.
    fn new() -> Self {
        let installed = Self {
            home: tempfile::tempdir().expect("a directory"),
        };
        let probe = project().join("plugins/probe/probe.wasm");
        installed.write("action/build.sh", "cp \"$PROBE\" \"$STRATA_OUT\"\n");
        let made = Command::new(binary())
            .args(["prebuild", "--to"])
            .arg(installed.files())
            .arg(installed.path("action"))
            .env("PROBE", &probe)
            .output()
            .expect("it starts");
        assert!(made.status.success(), "{}", text(&made));
        fs::remove_dir_all(installed.path("action/target")).expect("it was built");
        fs::create_dir_all(installed.path("bin")).expect("a directory");
        fs::hard_link(binary(), installed.path("bin/strata-host"))
            .or_else(|_| fs::copy(binary(), installed.path("bin/strata-host")).map(|_| ()))
            .expect("it is copied");
        let example = installed.files().join("examples/hello");
        installed.write(example.join("team.toml"), TEAM);
        installed.write(example.join("out/gitignore"), "*\n");
        installed.write(installed.files().join("package"), "wheel\n");
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn files(&self) -> PathBuf {
        self.path("share/strata-host").join(VERSION)
    }

    fn write(&self, path: impl AsRef<Path>, content: &str) {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    /// Runs the program where no other program is found.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(self.path("bin/strata-host"))
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.path("own"))
            .env("PATH", "/nonexistent")
            .output()
            .expect("it starts")
    }
}

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "hello"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "say"
component = "builtin:probe"
config = { steps = [{ say = "hello" }] }
"#;

fn text(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn an_example_team_is_copied_and_runs() {
    let installed = InstalledProgram::new();
    let made = installed.run(&["new", "team", "--example", "hello"]);
    assert!(made.status.success(), "{}", text(&made));
    assert!(installed.path("hello/out/.gitignore").is_file());
    let done = installed.run(&["run", "hello/team.toml"]);
    assert!(text(&done).contains("done after"), "{}", text(&done));
    for (arguments, expected) in [
        (["--example", "hello"], "it already exists"),
        (["--example", "snaky"], "there are `hello`"),
    ] {
        let refused = installed.run(&[&["new", "team"], &arguments[..]].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused).contains(expected), "{}", text(&refused));
    }
}

#[test]
fn a_component_that_was_built_before_is_used_where_its_source_cannot_be_built() {
    let installed = InstalledProgram::new();
    let rebuilt = installed.run(&["build", "action"]);
    let shown = text(&rebuilt);
    assert!(rebuilt.status.success(), "{shown}");
    assert!(shown.contains("using the component of action"), "{shown}");
    assert!(shown.contains("components/action.wasm"), "{shown}");
    installed.write("action/build.sh", "changed\n");
    let refused = installed.run(&["build", "action"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
}

#[test]
fn the_version_says_what_is_installed_and_what_is_missing() {
    let installed = InstalledProgram::new();
    let check = |expected: &str| {
        for arguments in [["--version"], ["doctor"]] {
            let shown = text(&installed.run(&arguments));
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
    };
    check("from the package `wheel`, with 0 interpreters of scripts and 1 actions");
    installed.write(installed.files().join("components/action.wasm"), "cut");
    check("these components are missing or incomplete");
    installed.write(installed.files().join("index.json"), "{");
    check("the index of the installed files");
    fs::rename(installed.files(), installed.path("share/strata-host/9.9.9")).expect("it is there");
    check("contains those of 9.9.9");
}

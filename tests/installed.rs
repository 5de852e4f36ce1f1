//! A program with the files that a package installs beside it: example teams, components that were built
//! before, and what is said if files are missing, or if they cannot be unpacked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use crate::probe::project;
use crate::skipped::skip;

/// Returns the program under test.
fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_strata-host-under-test"))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the installed files: an interpreter of scripts, and the component of the action in `action` beside them.
fn files() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let home = tempfile::tempdir().expect("a directory");
        let action = home.path().join("action");
        fs::create_dir(&action).expect("a directory");
        fs::write(action.join("build.sh"), BUILD).expect("a file");
        let made = Command::new(binary())
            .args(["prebuild", "--interpreter=javascript", "--to"])
            .arg(home.path().join("files"))
            .arg(&action)
            .env("PROBE", project().join("plugins/probe/probe.wasm"))
            .output()
            .expect("it starts");
        assert!(made.status.success(), "{}", text(&made));
        home
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| made.path().join("files"))
}

/// The build of an action.
const BUILD: &str = "cp \"$PROBE\" \"$STRATA_OUT\"\n";

/// A home with an installed program.
struct InstalledProgram {
    home: TempDir,
}

impl InstalledProgram {
    /// Installs the program with an example team, and with the component of an action whose source is in
    /// `action`.
    fn new() -> Self {
        let installed = Self {
            home: tempfile::tempdir().expect("a directory"),
        };
        installed.write("action/build.sh", BUILD);
        fs::create_dir_all(installed.files().parent().expect("it has one")).expect("a directory");
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(files()).arg(installed.files());
        assert!(copy.status().expect("it starts").success());
        fs::create_dir_all(installed.path("bin")).expect("a directory");
        if fs::hard_link(binary(), installed.path("bin/strata-host")).is_err() {
            // By another process, so that the file is not open for writing here while it is started.
            let mut copy = Command::new("cp");
            copy.arg(binary()).arg(installed.path("bin/strata-host"));
            assert!(copy.status().expect("it starts").success());
        }
        let example = installed.files().join("examples/hello");
        installed.write(example.join("team.toml"), TEAM);
        installed.write(example.join("out/gitignore"), "*\n");
        installed.write(installed.files().join("package"), "wheel\n");
        installed.write("script.toml", &TEAM.replace(PROBE, "script = \"hello.js\""));
        installed.write("hello.js", "return 'hello';\n");
        installed.write("endless.js", "for (;;) {}\n");
        let endless = TEAM.replace(PROBE, "script = \"endless.js\"");
        installed.write("endless.toml", &endless);
        let second = "[[role]]\nname = \"B\"\nwatch = [\"say\"]\n[[role.action]]\nname = \"end\"\nscript = \"hello.js\"\n";
        let both = TEAM.replace(PROBE, "script = \"hello.js\"") + second;
        installed.write("two-scripts.toml", &both);
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

    /// Returns a command of the program, which finds no other program and has no home.
    fn homeless(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/strata-host"));
        command.args(arguments).current_dir(self.home.path());
        command.env_clear().env("PATH", "/nonexistent");
        command
    }

    /// Runs the program where no other program is found.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.homeless(arguments);
        command.env("HOME", self.path("own"));
        command.output().expect("it starts")
    }

    /// Runs the script `hello.js` with a home on a file system of its own, mounted with these options, and then lists what
    /// is in its cache. Temporary files are in the directory `temporary`. Returns none where users cannot mount anything.
    fn run_script_on(&self, options: &str, temporary: &str) -> Option<Output> {
        for directory in ["own", temporary] {
            fs::create_dir_all(self.path(directory)).expect("a directory");
        }
        let mut command = Command::new("unshare");
        command.args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            MOUNTED,
            "sh",
            options,
        ]);
        command
            .arg(self.path("own"))
            .arg(self.path("bin/strata-host"))
            .arg(self.path(temporary));
        let output = command
            .current_dir(self.home.path())
            .output()
            .expect("it starts");
        let is_mounted = !text(&output).contains("not permitted");
        is_mounted.then_some(output)
    }

    /// Returns the names of the directories in `temporary` that stood for a cache.
    fn process_caches(&self, temporary: &str) -> Vec<String> {
        let users = fs::read_dir(self.path(temporary)).into_iter().flatten();
        let entries = users.flat_map(|user| fs::read_dir(user.expect("an entry").path()));
        let names = entries.flatten().map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.to_string_lossy().into_owned()
        });
        names.filter(|name| name.starts_with("cache-")).collect()
    }

    /// Returns the names of what is in a directory of the part of the cache into which interpreters are unpacked.
    fn unpacked(&self, directory: &str) -> Vec<String> {
        let path = self
            .path("own/.cache/strata-host/installed")
            .join(directory);
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Mounts a file system as the home, and runs a script in it.
const MOUNTED: &str = r#"
mount -t tmpfs -o "$1" tmpfs "$2" || exit 99
env -i HOME="$2" TMPDIR="$4" PATH=/nonexistent "$3" run script.toml --storage "store-$1"
code=$?
find "$2" -path '*/installed/*' ! -name '*.lock' ! -name code | sed 's/^/left: /'
exit $code
"#;

/// The action of the example.
const PROBE: &str =
    "component = \"components/action.wasm\"\nconfig = { steps = [{ say = \"hello\" }] }";

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "hello"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "say"
component = "components/action.wasm"
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
    assert!(installed.path("hello/components/action.wasm").is_file());
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
    check("from the package `wheel`, with 1 interpreters of scripts and 1 actions");
    installed.write(installed.files().join("components/action.wasm"), "cut");
    check("these components are missing or incomplete");
    installed.write(installed.files().join("index.json"), "{");
    check("the index of the installed files");
    fs::rename(installed.files(), installed.path("share/strata-host/9.9.9")).expect("it is there");
    check("contains those of 9.9.9");
}

#[test]
fn a_program_of_another_version_in_the_path_is_named() {
    let installed = InstalledProgram::new();
    // By another process, so that the file is not open for writing here while it is started.
    let write = |directory: &str, version: &str| {
        let directory = installed.path(directory).display().to_string();
        let script = format!("#!/bin/sh\necho strata-host {version}\n");
        let make =
            r#"mkdir "$1" && printf %s "$2" > "$1/strata-host" && chmod +x "$1/strata-host""#;
        let mut command = Command::new("sh");
        let made = command
            .args(["-c", make, "sh", &directory, &script])
            .status();
        assert!(made.expect("it starts").success());
        directory
    };
    let (same, other) = (write("same", VERSION), write("other", "9.9.9"));
    let own = installed.path("bin").display().to_string();
    let doctor = |path: &str| {
        let mut command = installed.homeless(&["doctor"]);
        let done = command.env("PATH", path).output().expect("it starts");
        assert!(done.status.success(), "{}", text(&done));
        text(&done)
    };
    let shown = doctor(&format!("{own}:{same}:{other}:/bin"));
    let said = format!("in the path `{other}/strata-host` is version 9.9.9");
    assert!(shown.contains(&said), "{said}: {shown}");
    assert!(!doctor(&format!("{own}:{same}:/bin")).contains("and in the path"));
}

#[test]
fn an_example_has_the_schemas_of_its_files_for_editors() {
    let installed = InstalledProgram::new();
    let made = installed.run(&["new", "team", "mine", "--example", "hello"]);
    assert!(made.status.success(), "{}", text(&made));
    let team = fs::read_to_string(installed.path("mine/team.toml")).expect("a file");
    assert_eq!(team, format!("#:schema ./schemas/team.schema.json\n{TEAM}"));
    let schema = fs::read(installed.path("mine/schemas/team.schema.json")).expect("a file");
    let schema: serde_json::Value = serde_json::from_slice(&schema).expect("it is JSON");
    assert_eq!(schema["type"], "object");
    let checked = installed.run(&["check", "mine/team.toml"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

#[test]
fn the_help_names_every_example() {
    let help = text(&InstalledProgram::new().run(&["new", "--help"]));
    let teams = fs::read_dir(project().join("plugins/teams")).expect("a directory");
    let names = teams.map(|entry| entry.expect("an entry").file_name());
    for name in names.map(|name| name.to_string_lossy().into_owned()) {
        let is_named = help.contains(&format!("`{name}`"));
        assert_eq!(is_named, !name.starts_with("template"), "{name}: {help}");
    }
}

/// Asserts that a script ran with an interpreter that was not kept, that this is said once, with what would keep it, and
/// that nothing is left in the cache.
#[track_caller]
fn assert_not_kept(done: &Output, said: &str) {
    let shown = text(done);
    assert!(done.status.success(), "{shown}");
    for part in [said, "done after", "`export XDG_CACHE_HOME=DIRECTORY`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(shown.matches("warning: ").count(), 1, "{shown}");
    assert!(!shown.contains("left: "), "{shown}");
}

#[test]
fn a_script_runs_without_a_cache_and_it_is_said_what_would_keep_its_interpreter() {
    let installed = InstalledProgram::new();
    let temporary = installed.path("temporary");
    fs::create_dir(&temporary).expect("a directory");
    fs::create_dir(installed.path("open")).expect("a directory");
    let open = installed.path("open/strata-host");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("it is the owner's");
    let not_there = "neither `XDG_CACHE_HOME` nor `HOME` names a directory";
    for (n, (variable, value, said)) in [
        ("UNUSED", "", not_there),
        ("HOME", "/dev/null", not_there),
        (
            "XDG_CACHE_HOME",
            "/proc/nowhere",
            "`/proc/nowhere/strata-host`",
        ),
        (
            "XDG_CACHE_HOME",
            "open",
            "others than you can enter it; `chmod 700` it",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let value = match value {
            "open" => installed.path("open").into_os_string(),
            value => value.into(),
        };
        let storage = format!("store-{n}");
        let mut command = installed.homeless(&["run", "two-scripts.toml", "--storage", &storage]);
        let done = command.env(variable, value).env("TMPDIR", &temporary);
        assert_not_kept(&done.output().expect("it starts"), said);
        assert_eq!(installed.process_caches("temporary"), [""; 0]);
    }
    for (options, said) in [
        ("ro", "Read-only file system"),
        ("size=1m,mode=700", "No space left on device"),
    ] {
        let Some(done) = installed.run_script_on(options, "temporary") else {
            skip("file systems cannot be mounted here");
            return;
        };
        assert_not_kept(&done, said);
        assert_eq!(installed.process_caches("temporary"), [""; 0]);
    }
}

#[test]
fn a_script_that_finds_no_room_for_its_interpreter_says_where_it_would_find_some() {
    let installed = InstalledProgram::new();
    let mut homeless = installed.homeless(&["run", "script.toml"]);
    let homeless = homeless.env("TMPDIR", "/proc/nowhere");
    let mut refusals = vec![(homeless.output().expect("it starts"), "/proc/nowhere")];
    // The temporary files are on the file system that is full.
    refusals.extend(
        installed
            .run_script_on("size=1m,mode=700", "own")
            .map(|refused| (refused, "No space left on device")),
    );
    for (refused, said) in refusals {
        let shown = text(&refused);
        assert_eq!(refused.status.code(), Some(2), "{shown}");
        for part in [said, "`export XDG_CACHE_HOME=DIRECTORY`"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("left: "), "{shown}");
        assert!(!installed.path("workspace").exists());
    }
    let elsewhere = installed.path("elsewhere");
    let mut command = installed.homeless(&["run", "script.toml"]);
    let done = command.env("XDG_CACHE_HOME", elsewhere).output();
    let shown = text(&done.expect("it starts"));
    assert!(
        shown.contains("done after") && !shown.contains("warning: "),
        "{shown}"
    );
    for arguments in [
        &["new", "team", "--example", "hello"][..],
        &["run", "hello/team.toml"],
    ] {
        let done = installed.homeless(arguments).output().expect("it starts");
        assert!(done.status.success(), "{}", text(&done));
    }
}

#[test]
fn a_user_whose_home_is_not_writable_runs_scripts_and_a_killed_run_leaves_nothing_for_long() {
    /// A user who owns nothing.
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        skip("only root can start a program as another user");
        return;
    }
    let installed = InstalledProgram::new();
    for (directory, mode) in [
        ("", 0o755),
        ("own", 0o755),
        ("work", 0o777),
        ("temporary", 0o1777),
    ] {
        let path = installed.path(directory);
        fs::create_dir_all(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is the owner's");
    }
    let start = |arguments: &[&str]| {
        let mut command = installed.homeless(arguments);
        command.uid(NOBODY).gid(NOBODY);
        command.current_dir(installed.path("work"));
        command.env("HOME", installed.path("own"));
        command.env("TMPDIR", installed.path("temporary"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut child = match start(&["run", "../endless.toml"]).spawn() {
        Ok(child) => child,
        Err(error) => {
            skip(format_args!("nobody else may run the program: {error}"));
            return;
        }
    };
    let wait = Duration::from_millis(5);
    while installed.process_caches("temporary").is_empty()
        && child.try_wait().expect("it is a child").is_none()
    {
        std::thread::sleep(wait);
    }
    child.kill().expect("it is a child");
    let killed = child.wait_with_output().expect("it ends");
    assert_eq!(
        installed.process_caches("temporary").len(),
        1,
        "{}",
        text(&killed)
    );
    let done = start(&["run", "../script.toml", "--storage", "store"]).output();
    assert_not_kept(&done.expect("it starts"), "Permission denied");
    assert_eq!(installed.process_caches("temporary"), [""; 0]);
    let doctor = text(&start(&["doctor"]).output().expect("it starts"));
    assert!(doctor.contains("set XDG_CACHE_HOME or HOME"), "{doctor}");
}

#[test]
fn a_script_runs_where_files_of_the_home_cannot_be_executed() {
    let installed = InstalledProgram::new();
    let Some(done) = installed.run_script_on("noexec,mode=700", "temporary") else {
        skip("file systems cannot be mounted here");
        return;
    };
    let shown = text(&done);
    assert!(
        done.status.success() && shown.contains("done after"),
        "{shown}"
    );
    assert!(
        shown.contains("left: "),
        "the interpreter was not unpacked: {shown}"
    );
}

#[test]
fn an_interpreter_whose_unpacking_was_killed_is_unpacked_anew_and_nothing_else_is_left() {
    let installed = InstalledProgram::new();
    let run = ["run", "script.toml"];
    let is_in_parts = || {
        let names = installed.unpacked("");
        let directory = names
            .iter()
            .find(|name| *name != "code" && !name.ends_with(".lock"));
        directory.is_some_and(|directory| {
            let files = installed.unpacked(directory);
            !files.is_empty() && !files.iter().any(|file| file == "ready")
        })
    };
    let was_killed = (0..20).any(|_| {
        let _ = fs::remove_dir_all(installed.path("own"));
        let mut command = installed.homeless(&run);
        command.env("HOME", installed.path("own"));
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        while !is_in_parts() && child.try_wait().expect("it is a child").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("it is a child");
        child.wait().expect("it ends");
        is_in_parts()
    });
    assert!(was_killed, "it was never killed in time");
    let done = installed.run(&["run", "script.toml", "--force"]);
    assert!(text(&done).contains("done after"), "{}", text(&done));
    let mut names = installed.unpacked("");
    names.retain(|name| name != "code");
    let [directory, lock] = &names[..] else {
        panic!("{names:?}");
    };
    assert_eq!(*lock, format!("{directory}.lock"));
    let files = installed.unpacked(directory);
    assert!(
        matches!(&files[..], [wasm, ready] if ready == "ready" && wasm.ends_with(".wasm")),
        "{files:?}"
    );
    assert_eq!(installed.unpacked("code").len(), 1);
}

#[test]
fn first_starts_at_the_same_time_unpack_an_interpreter_once() {
    let installed = InstalledProgram::new();
    let children = ["one", "two", "three"].map(|storage| {
        let mut command = installed.homeless(&["run", "script.toml", "--storage", storage]);
        command.env("HOME", installed.path("own"));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    });
    for child in children {
        let done = child.wait_with_output().expect("it ends");
        assert!(text(&done).contains("done after"), "{}", text(&done));
    }
    let mut names = installed.unpacked("");
    names.retain(|name| name != "code");
    assert_eq!(names.len(), 2, "a directory and its lock: {names:?}");
    assert_eq!(installed.unpacked("code").len(), 1);
}

#[test]
fn a_new_team_says_what_its_action_lacks_on_this_machine() {
    let installed = InstalledProgram::new();
    let made = text(&installed.run(&["new", "team", "compiled"]));
    for part in [
        "made the team `compiled`",
        "`cargo` does not run",
        "https://sh.rustup.rs",
        "`--lang python`",
    ] {
        assert!(made.contains(part), "{part}: {made}");
    }
    let made = text(&installed.run(&["new", "team", "interpreted", "--lang", "js"]));
    assert!(!made.contains("warning"), "{made}");
    let done = installed.run(&["run", "interpreted/team.toml"]);
    assert!(text(&done).contains("done after"), "{}", text(&done));
}

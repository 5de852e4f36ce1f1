//! The wheel and the packages for npm, with a small script in place of the program: what installers make of them, what is
//! passed to the program and back, and what is said where they cannot be used. `.ci/try-packages` tries them with the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::probe::project;
use crate::skipped::skip;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is packed in place of the program.
const PROGRAM: &str = r#"#!/bin/sh
case $1 in
-V) echo "strata-host VERSION" ;;
code) exit "$2" ;;
die) kill -"$2" $$ ;;
wait)
    trap 'exit 42' TERM
    echo ready
    while :; do sleep 0.05; done
    ;;
*) printf '%s|' "$@" ;;
esac
"#;

/// Returns the directory with all packages.
fn packages() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("program");
        fs::write(&program, PROGRAM.replace("VERSION", VERSION)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let files = home.path().join("files");
        fs::create_dir_all(files.join("examples/hello")).unwrap();
        fs::write(files.join("examples/hello/team.toml"), "").unwrap();
        let mut command = Command::new(project().join(".ci/package"));
        command.arg(&program).arg(home.path().join("made"));
        succeed(command.arg("--files").arg(&files));
        home
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| made.path().join("made"))
}

/// Returns the package whose file name begins and ends like this.
fn package(begin: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(packages()).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let found = paths.find(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    });
    found.unwrap_or_else(|| panic!("{begin}…{end} was not made"))
}

fn wheel() -> PathBuf {
    package("strata_host-", ".whl")
}

/// Returns the packages for npm: the one that is installed by name, and that for this platform.
fn npm_packages() -> [PathBuf; 2] {
    let wrapper = format!("strata-host-{VERSION}");
    [
        package(&wrapper, ".tgz"),
        package("strata-host-linux-", ".tgz"),
    ]
}

fn text(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// Asserts that a command fails with this exit code, and that all of this is said.
#[track_caller]
fn fail(command: &mut Command, code: i32, said: &[&str]) {
    let output = command.output().unwrap();
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for part in said {
        assert!(shown.contains(part), "`{part}`: {shown}");
    }
}

/// Checks that arguments, exit codes and signals are passed by the command that `start` returns.
fn check_what_is_passed(start: &dyn Fn() -> Command) {
    let said = succeed(start().args(["a b", "", "*"]));
    assert_eq!(said, "a b||*|");
    fail(start().args(["code", "7"]), 7, &[]);
    let died = start().args(["die", "KILL"]).output().unwrap();
    assert_eq!(died.status.signal(), Some(9), "{}", text(&died));
    let mut child = start().arg("wait").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn a_wheel_installs_the_program_its_files_and_the_python_sdk() {
    let home = tempfile::tempdir().unwrap();
    succeed(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(home.path()),
    );
    let python = home.path().join("bin/python");
    let mut install = Command::new(&python);
    install.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--no-index",
    ]);
    succeed(install.arg(wheel()));
    let files = home.path().join("share/strata-host").join(VERSION);
    assert!(files.join("examples/hello/team.toml").is_file());
    assert_eq!(
        fs::read_to_string(files.join("package")).unwrap(),
        "wheel\n"
    );
    let import = "import strata_action, strata_host; print(strata_host.find_program())";
    let found = succeed(Command::new(&python).args(["-c", import]));
    let program = home.path().join("bin/strata-host");
    assert_eq!(found.trim(), program.to_string_lossy());
    check_what_is_passed(&|| Command::new(&program));
    check_what_is_passed(&|| {
        let mut command = Command::new(&python);
        command.args(["-m", "strata_host"]);
        command
    });
    let listed =
        succeed(Command::new(&python).args(["-m", "pip", "show", "--files", "strata-host"]));
    let sbom = listed
        .lines()
        .find(|line| line.contains("/sboms/"))
        .unwrap();
    let site = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = succeed(Command::new(&python).args(["-c", site]));
    let sbom = fs::read(Path::new(site.trim()).join(sbom.trim())).unwrap();
    let sbom: serde_json::Value = serde_json::from_slice(&sbom).unwrap();
    let components = sbom["components"].as_array().unwrap();
    for name in ["wasmtime", "componentize-py", "componentize-qjs"] {
        assert!(components.iter().any(|part| part["name"] == name), "{name}");
    }
}

#[test]
fn pip_says_that_a_wheel_is_not_for_a_platform_and_knows_which_python_it_needs() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--no-index", "--only-binary=:all:"]);
    command
        .args(["--platform", "macosx_11_0_arm64", "--target"])
        .arg(home.path())
        .arg(wheel());
    fail(
        &mut command,
        1,
        &["is not a supported wheel on this platform"],
    );
    // pip compares this with the Python that it runs in.
    let read = "import sys, zipfile; wheel = zipfile.ZipFile(sys.argv[1]); \
        print(*(wheel.read(name).decode() for name in wheel.namelist() if name.endswith('METADATA')))";
    let metadata = succeed(Command::new("python3").args(["-c", read]).arg(wheel()));
    let needed = metadata
        .lines()
        .find_map(|line| line.strip_prefix("Requires-Python: "));
    let project = fs::read_to_string(project().join("guest-sdk/python/pyproject.toml")).unwrap();
    let needed = needed.expect("it says so");
    assert!(
        project.contains(&format!("requires-python = \"{needed}\"")),
        "{needed}"
    );
}

/// Returns a Python that is too old for the wheel and has a pip that knows its platform, if there is one.
fn old_python() -> Option<PathBuf> {
    let names = ["python3.9", "python3.8"];
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&in_path).collect();
    let home = std::env::home_dir().unwrap_or_default();
    let versions = fs::read_dir(home.join(".pyenv/versions"));
    let versions = versions.into_iter().flatten().flatten();
    directories.extend(versions.map(|version| version.path().join("bin")));
    let runs = |python: &PathBuf| {
        let mut command = Command::new(python);
        let output = command.args(["-c", "import ensurepip"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = directories.iter();
    let found = found.flat_map(|directory| names.map(|name| directory.join(name)));
    found.filter(|python| python.is_file()).find(runs)
}

#[test]
fn pip_of_an_old_python_says_which_one_the_wheel_needs_and_installs_nothing() {
    let Some(python) = old_python() else {
        skip("there is no Python that is too old");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    succeed(Command::new(python).args(["-m", "venv"]).arg(home.path()));
    let mut install = Command::new(home.path().join("bin/python"));
    install.args(["-m", "pip", "install", "--no-index"]);
    let said = ["requires a different Python", "not in '>=3.10'"];
    fail(install.arg(wheel()), 1, &said);
    assert!(!home.path().join("bin/strata-host").exists());
    assert!(!home.path().join("share/strata-host").exists());
}

#[test]
fn a_wheel_that_was_unpacked_by_hand_says_how_its_program_can_run() {
    let home = tempfile::tempdir().unwrap();
    succeed(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel())
            .arg(home.path()),
    );
    let data = home.path().join(format!("strata_host-{VERSION}.data"));
    let program = data.join("scripts/strata-host");
    let start = || {
        let mut command = Command::new("python3");
        command.args(["-m", "strata_host"]).current_dir(home.path());
        command
    };
    let chmod = format!("`chmod +x {}`", program.display());
    fail(
        &mut start(),
        1,
        &["error: `", "Permission denied", "unpacked by hand", &chmod],
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    check_what_is_passed(&start);
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut mounted = Command::new("unshare");
    mounted.args(["--map-root-user", "--mount", "sh", "-c", MOUNTED, "sh"]);
    let mounted = mounted.arg(home.path()).arg(&elsewhere).output().unwrap();
    match mounted.status.code() {
        Some(1) => assert!(text(&mounted).contains("(`noexec`)"), "{}", text(&mounted)),
        _ => skip(format_args!(
            "file systems cannot be mounted here: {}",
            text(&mounted)
        )),
    }
    // A header that no processor has.
    let mut other = b"\x7fELF\x02\x01\x01".to_vec();
    other.resize(64, 0xff);
    fs::write(&program, other).unwrap();
    fail(
        &mut start(),
        1,
        &[
            "another processor",
            "pip install --force-reinstall strata-host",
        ],
    );
    fs::remove_file(&program).unwrap();
    fail(
        &mut start(),
        1,
        &[
            "is not installed",
            "pip install --force-reinstall strata-host",
        ],
    );
}

/// Copies a wheel to a file system that forbids programs, and starts the program there.
const MOUNTED: &str = r#"
mount -t tmpfs -o noexec tmpfs "$2" && cp -r "$1"/strata_host* "$2" || exit 99
cd "$2" && exec python3 -m strata_host
"#;

fn npm(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(directory);
    // Nothing of the user's caches and settings.
    command
        .env("HOME", directory)
        .env("NPM_CONFIG_OFFLINE", "true");
    command
}

/// Installs packages with npm, and returns the directory and what starts the program there.
fn install_with_npm(packages: &[PathBuf]) -> (TempDir, impl Fn() -> Command + use<>) {
    let home = tempfile::tempdir().unwrap();
    succeed(npm(home.path(), &["install", "--silent"]).args(packages));
    let script = home.path().join("node_modules/.bin/strata-host");
    (home, move || Command::new(&script))
}

#[test]
fn npm_installs_the_program_and_its_wrapper_passes_exit_codes_and_signals() {
    let (home, start) = install_with_npm(&npm_packages());
    check_what_is_passed(&start);
    let platform = fs::read_dir(home.path().join("node_modules/@strata-host")).unwrap();
    let platform = platform.last().unwrap().unwrap().path();
    let files = platform.join("share/strata-host").join(VERSION);
    assert_eq!(fs::read_to_string(files.join("package")).unwrap(), "npm\n");
    // As `npx` does.
    let mut command = npm(home.path(), &["exec", "--yes"]);
    for package in npm_packages() {
        command.arg("--package").arg(package);
    }
    fail(command.args(["--", "strata-host", "code", "5"]), 5, &[]);
    let manifest = platform.join("package.json");
    let older = fs::read_to_string(&manifest)
        .unwrap()
        .replace(VERSION, "0.0.1");
    fs::write(&manifest, older).unwrap();
    let both = format!("`npm install strata-host@{VERSION} @strata-host/linux-");
    fail(&mut start(), 1, &["is version 0.0.1", &both]);
    let program = platform.join("bin/strata-host");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(
        &manifest,
        fs::read_to_string(&manifest)
            .unwrap()
            .replace("0.0.1", VERSION),
    )
    .unwrap();
    fail(
        &mut start(),
        1,
        &["cannot be started", "noexec", "install it again"],
    );
}

#[test]
fn the_wrapper_of_npm_says_what_is_missing() {
    let [wrapper, _] = npm_packages();
    let (home, start) = install_with_npm(&[wrapper]);
    let missing = [
        "the package `@strata-host/linux-",
        "is not installed",
        "`npm install @strata-host/linux-",
    ];
    fail(&mut start(), 1, &missing);
    let script = home
        .path()
        .join("node_modules/strata-host/bin/strata-host.js");
    let pretend = |property: &str, value: &str| {
        let file = home.path().join("pretend.js");
        fs::write(
            &file,
            format!("Object.defineProperty(process, '{property}', {{ value: {value} }});"),
        )
        .unwrap();
        let mut command = Command::new("node");
        command.arg("--require").arg(file).arg(&script);
        command
    };
    let none = "there is no strata-host for darwin";
    fail(
        &mut pretend("platform", "'darwin'"),
        1,
        &[none, "Linux on x64 and arm64"],
    );
    let old = "node 14.21.3 is too old; install node 16 or later";
    fail(&mut pretend("versions", "{ node: '14.21.3' }"), 1, &[old]);
}

#[test]
fn the_javascript_sdk_is_a_package_with_types() {
    let home = tempfile::tempdir().unwrap();
    succeed(npm(home.path(), &["install", "--silent"]).arg(package("strata-action-", ".tgz")));
    let sdk = home.path().join("node_modules/@strata/action");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(sdk.join("package.json")).unwrap()).unwrap();
    for entry in manifest["exports"].as_object().unwrap().values() {
        let types = entry["types"].as_str().expect("each has types");
        assert!(sdk.join(types).is_file(), "{types}");
    }
    let mut node = Command::new("node");
    node.current_dir(home.path())
        .args(["--input-type=module", "-e"]);
    succeed(
        node.arg("import { fakeHost } from '@strata/action/testing'; fakeHost();")
            .env("NODE_NO_WARNINGS", "1"),
    );
}

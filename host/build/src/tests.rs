//! Tests that build real packages: those of this repository, and small ones written for a test.

use super::*;
use std::fs;
use std::thread;
use strata_sandbox::ScriptSource;
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is there")
}

fn quiet_build(dir: &Path) -> Result<Built, BuildError> {
    build(dir, &mut |_| {})
}

/// Returns how a directory with these files is run: the paths of the modules, or why it is built.
pub(crate) fn read_modules(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("greet");
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    match source_use(&dir).expect("it can be read") {
        SourceUse::Interpreted { script, .. } => match script.source {
            ScriptSource::Modules(modules) => {
                Ok(modules.files.into_iter().map(|file| file.path).collect())
            }
            other => panic!("{other:?}"),
        },
        SourceUse::Built { because } => Err(because.expect("a reason")),
    }
}

/// A package outside of any workspace. `manifest` goes below its `[package]` table.
fn package(manifest: &str, source: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let head = "[package]\nname = \"made-up\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(dir.path().join("Cargo.toml"), format!("{head}{manifest}")).expect("a manifest");
    fs::create_dir(dir.path().join("src")).expect("a directory");
    fs::write(dir.path().join("src/lib.rs"), source).expect("a source file");
    dir
}

#[test]
fn a_member_of_a_workspace_is_built_once_and_is_fresh_then() {
    let probe = repository().join("plugins/probe");
    // They race: one builds if it has to, the other waits and finds the component fresh.
    let builds = [(); 2].map(|()| {
        let probe = probe.clone();
        thread::spawn(move || quiet_build(&probe))
    });
    let built = builds.map(|build| build.join().expect("no panic").expect("the probe builds"));
    assert!(built.iter().any(|built| built.fresh));
    assert_eq!(
        built[0].component,
        repository().join("target/guest/probe.wasm")
    );

    let mut lines = Vec::new();
    let again = build(&probe, &mut |line| lines.push(line.to_owned())).expect("the probe builds");
    assert_eq!((again.fresh, lines), (true, Vec::new()));
}

#[test]
fn every_plugin_of_the_repository_builds() {
    let plugins = fs::read_dir(repository().join("plugins")).expect("the plugins are there");
    let dirs = plugins.map(|entry| entry.expect("an entry").path());
    let makes_a_component = |dir: &PathBuf| {
        fs::read_to_string(dir.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.contains("\"cdylib\""))
    };
    for dir in dirs.filter(makes_a_component) {
        let built = quiet_build(&dir).expect("the plugin builds");
        let exports = component::export_names(&fs::read(built.component).expect("it is there"));
        let handler = |name: &str| format!("strata:action/{name}@0.2.0");
        let expected = match dir.file_name().and_then(|name| name.to_str()) {
            Some("probe") => ["handler", "planner", "thinker"].map(handler).to_vec(),
            Some("text-tools") => ["measure", "slug", "headed"].map(String::from).to_vec(),
            _ => vec![handler("handler")],
        };
        for name in expected {
            assert!(exports.contains(&name), "{}: {exports:?}", dir.display());
        }
    }
}

#[test]
fn a_package_of_its_own_is_built_below_its_own_directory() {
    let sdk = repository().join("guest-sdk/rust");
    let manifest = format!(
        "description = \"x\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\nstrata-action = {{ path = {sdk:?} }}\n"
    );
    let source = "use strata_action::*;\nstruct Made;\n\
        impl Action for Made {\n    type Config = ();\n    type Data = ();\n    \
        fn run(cx: &Context<()>) -> Result<Output, Failure> { Ok(Output::new(cx.text())) }\n}\n\
        action!(Made);\n";
    let dir = package(&manifest, source);
    // The versions that the repository uses, so that no registry has to be asked which are the
    // newest.
    fs::copy(
        repository().join("Cargo.lock"),
        dir.path().join("Cargo.lock"),
    )
    .expect("a lock file");
    let built = quiet_build(dir.path()).expect("the package builds");
    let path = dir.path().canonicalize().expect("it is there");
    assert_eq!(
        built,
        Built {
            component: path.join("target/guest/made-up.wasm"),
            fresh: false
        }
    );
    let bytes = fs::read(built.component).expect("it is there");
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("made_up"), "the names of functions are kept");
    assert!(
        !text.contains(path.to_str().expect("utf-8")),
        "no path of this machine is kept"
    );
}

#[test]
fn what_cannot_be_built_says_why() {
    let library = "[lib]\ncrate-type = [\"cdylib\"]\n";
    let cases = [
        (
            package("", "pub fn f() {}"),
            "crate-type = [\"cdylib\", \"rlib\"]",
        ),
        (
            package(library, "pub fn f() -> u8 { \"no number\" }"),
            "mismatched types",
        ),
        (
            package(library, "pub fn f() {}"),
            "it does not export `strata:action/handler@0.2.0`",
        ),
        (package("[lib\n", ""), "Cargo.toml"),
        (
            package(
                "[dependencies]\nnowhere = { path = \"nowhere\" }\n[lib]\ncrate-type = [\"cdylib\"]\n",
                "",
            ),
            "nowhere",
        ),
    ];
    for (dir, expected) in cases {
        let error = quiet_build(dir.path()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_directory_without_source_says_what_is_looked_for() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let cases = [
        (
            empty.path().to_owned(),
            "looked for `Cargo.toml` (rust), `pyproject.toml` or `action.py` (python), `package.json` (javascript)",
        ),
        (empty.path().join("absent"), "it is not a directory"),
        (repository().join("Cargo.lock"), "it is not a directory"),
        (repository(), "describes a workspace and no package"),
    ];
    for (dir, expected) in cases {
        let error = quiet_build(&dir).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

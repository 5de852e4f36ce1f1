//! Which components are loaded: those in the lock beside the team file, and those signed by a
//! trusted key. `run`, `check` and resumes reject others before they compile anything of them.

use std::fs;

use crate::signer::Signer;
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "two"
idea = "go"
TRUST
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ fail = "trap", attempts = [1] }] }
"#;

fn team(trust: &str) -> String {
    TEAM.replace("TRUST", trust)
}

/// Returns the probe as another component that does the same.
fn changed(probe: &[u8]) -> Vec<u8> {
    // An additional custom section.
    [probe, &[0, 5, 4, b'm', b'o', b'r', b'e']].concat()
}

fn digest(bytes: &[u8]) -> String {
    ring::digest::digest(&ring::digest::SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Checks that all commands that load components reject them with these messages.
#[track_caller]
fn refused(place: &Workspace, expected: &[&str]) {
    let resume: &[&str] = &["run", "--recover_path", "store"];
    let fresh: &[&str] = &["run", "team.toml", "--storage", "fresh"];
    for args in [&["check", "team.toml"], fresh, resume] {
        let ended = place.host(args).expect(2);
        let missing = expected.iter().find(|part| !ended.stderr.contains(**part));
        assert_eq!(missing, None, "{args:?}: {}", ended.stderr);
        assert!(!place.path("fresh").exists(), "{args:?}");
    }
}

#[test]
fn a_locked_team_refuses_other_components_and_says_how_to_lock_them() {
    let place = Workspace::with(&team(""));
    let locked = place.host(&["lock"]).expect(0);
    assert!(
        locked.stdout.trim_end().ends_with("/strata.lock"),
        "{}",
        locked.stdout
    );
    let probe = place.read("probe.wasm");
    let text = String::from_utf8(place.read("strata.lock")).unwrap();
    let lines = [
        "source = \"probe.wasm\"".into(),
        format!("sha256 = \"{}\"", digest(&probe)),
    ];
    assert!(
        lines.iter().all(|line: &String| text.contains(line)),
        "{text}"
    );
    place.host(&["check", "team.toml"]).expect(0);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);

    let other = changed(&probe);
    place.write("probe.wasm", &other);
    let (was, is) = (digest(&probe), digest(&other));
    refused(
        &place,
        &[
            "`probe.wasm` has the sha256",
            &was,
            &is,
            "put the locked one back",
            "`strata-host lock team.toml`",
        ],
    );
    // A component on the command line is intended.
    fs::rename(place.path("probe.wasm"), place.path("mended.wasm")).unwrap();
    place.write("probe.wasm", &probe);
    let relocked = place.host(&["lock"]).expect(0);
    assert_eq!(
        String::from_utf8(place.read("strata.lock")).unwrap(),
        text,
        "{}",
        relocked.stderr
    );
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--component",
            "A.One=mended.wasm",
        ])
        .expect(0);

    place.write("probe.wasm", &other);
    let relocked = place.host(&["lock"]).expect(0);
    assert!(
        relocked
            .stderr
            .contains(&format!("`probe.wasm` was `{was}` and is `{is}`")),
        "{}",
        relocked.stderr
    );
    place.host(&["check", "team.toml"]).expect(0);
}

#[test]
fn teams_of_a_directory_share_its_lock_and_other_components_are_rejected() {
    let place = Workspace::with(&team(""));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place.write("other.toml", team("").replace("probe.wasm", "other.wasm"));
    place.write("other.wasm", place.read("probe.wasm"));
    place.host(&["lock", "other.toml"]).expect(0);
    let to_lock = "help: if it is meant, lock it: `strata-host lock team.toml`";
    refused(
        &place,
        &["`probe.wasm`", "is not in `", "strata.lock`", to_lock],
    );
    place.host(&["lock"]).expect(0);
    place.host(&["check", "other.toml"]).expect(0);
    fs::remove_file(place.path("other.wasm")).unwrap();
    place.host(&["lock"]).expect(0);
    let text = String::from_utf8(place.read("strata.lock")).unwrap();
    assert_eq!(text.matches("[[component]]").count(), 1, "{text}");
}

#[test]
fn an_invalid_lock_stops_everything() {
    let place = Workspace::with(&team(""));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place.write("strata.lock", "version = 9\n");
    refused(
        &place,
        &[
            "cannot read the lock `",
            "version is `9`",
            "strata-host lock",
        ],
    );
    assert!(
        place
            .host(&["lock"])
            .expect(2)
            .stderr
            .contains("version is `9`")
    );
}

#[test]
fn only_components_that_a_trusted_key_has_signed_are_loaded() {
    let (ours, other) = (Signer::of(1), Signer::of(2));
    let place = Workspace::with(&team(&format!("[trust]\nkeys = [\"{}\"]", ours.key())));
    let probe = place.read("probe.wasm");
    let sign =
        |signer: &Signer, bytes: &[u8]| place.write("probe.wasm.minisig", signer.sign(bytes));
    sign(&ours, &probe);
    place.host(&["check", "team.toml"]).expect(0);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);

    let named = ["probe.wasm`", &digest(&probe), "minisign -S -m", &ours.id()];
    sign(&other, &probe);
    refused(
        &place,
        &[named.as_slice(), &["signed with the key", &other.id()]].concat(),
    );
    sign(&ours, b"something else");
    refused(
        &place,
        &[named.as_slice(), &["was made for other bytes"]].concat(),
    );
    fs::remove_file(place.path("probe.wasm.minisig")).unwrap();
    refused(
        &place,
        &[
            named.as_slice(),
            &["there is no signature", "probe.wasm.minisig`"],
        ]
        .concat(),
    );
    // Also components on the command line, and those to be locked.
    place.write("mended.wasm", &probe);
    let mended = place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--component",
            "A.One=mended.wasm",
        ])
        .expect(2);
    assert!(
        mended.stderr.contains("mended.wasm.minisig"),
        "{}",
        mended.stderr
    );
    place.host(&["lock"]).expect(2);
    assert!(!place.path("strata.lock").exists());
    sign(&ours, &probe);
    place.host(&["run", "--recover_path", "store"]).expect(0);
}

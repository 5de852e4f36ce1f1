//! Saved teams that are lost, old, or prepared by an attacker: finished work is not lost, nothing
//! that is only claimed is run, and nothing is written outside of the storage and of granted
//! directories. Documents that are too expensive are in `documents`, other damage in `storage`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::stream;
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ write = "/out/kept", text = "one" }, { emit = "hello", to = ["B"] }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }] }
[[role]]
name = "B"
"#;

/// Creates a team whose second action is at fault.
fn failed() -> Workspace {
    let place = Workspace::with(&format!(
        "{TEAM}[[role.action]]\nname = \"Hear\"\ncomponent = \"probe.wasm\"\n"
    ));
    place.run().expect(3);
    place
}

/// Returns all paths below a directory, except those below the given ones.
fn names(dir: &Path, but: &[&str]) -> BTreeSet<String> {
    let (mut names, mut open) = (BTreeSet::new(), vec![dir.to_owned()]);
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if but.iter().all(|but| !name.starts_with(but)) {
                names.insert(name);
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                }
            }
        }
    }
    names
}

#[test]
fn a_lost_team_json_is_written_again_and_an_old_one_is_ignored() {
    let place = failed();
    let old = place.read("store/team.json");
    fs::remove_file(place.path("store/team.json")).unwrap();
    let lines = place.resume().expect(0).events();
    assert_eq!(
        stream::actions(&lines, "action-started"),
        ["A.Two", "B.Hear"]
    );
    assert_eq!(place.team_json()["strata"]["status"], "done");
    // An old file of a run that is over according to the database.
    place.write("store/team.json", &old);
    let ended = place.resume().expect(0);
    assert_eq!(stream::actions(&ended.events(), "action-started"), [""; 0]);
    assert!(
        ended
            .stderr
            .contains("`team.json` in `store` differs from `team.db`, which is used"),
        "{}",
        ended.stderr
    );
    let finished = place.recorded();
    assert_eq!(stream::actions(&finished, "action-finished").len(), 3);
}

#[test]
fn a_team_json_that_is_too_large_is_not_read() {
    let place = failed();
    fs::remove_file(place.path("store/team.db")).unwrap();
    // A sparse file, which needs no space on the disk.
    fs::File::create(place.path("store/team.json"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    for args in [
        &["run", "--recover_path", "store"][..],
        &["inspect", "store"],
        &["run", "team.toml", "--recover_path", "store"],
    ] {
        let ended = place.host(args).expect(2);
        assert!(
            ended
                .stderr
                .contains("1073741824 bytes, at most 536870912 are read"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn files_that_a_team_json_names_are_neither_run_nor_written() {
    const CODE: &str = "__import__('os').system('touch escaped'); $(touch escaped) `touch escaped`";
    let place = failed();
    let file = place.team_json();
    place.write("precious", "mine");
    let precious = "3fd30542fe3f61b14bd4a4b2dc0b6fb30fa6f63ebce52dd1778aaa8c4dc02cff";
    let absolute = place.path("escaped").display().to_string();
    let pending =
        |path: &str| json!([{ "path": path, "expected": null, "content": { "directory": true } }]);
    let removal = json!([{ "path": "out/../precious", "expected": { "sha256": precious, "bytes": 4 }, "content": null }]);
    let cases: [(&str, Value); 17] = [
        ("/idea", json!(CODE)),
        ("/env/desc", json!(CODE)),
        ("/strata/messages/idea/content", json!(CODE)),
        (
            "/strata/messages/idea/instruct_content",
            json!({ "class": CODE, "mapping": { "a": CODE }, "value": CODE }),
        ),
        ("/strata/messages/idea/id", json!("../../escaped")),
        ("/strata/run_id", json!("../../escaped")),
        ("/strata/checkpoint", json!("../../escaped")),
        ("/strata/parent", json!("../../escaped")),
        ("/strata/lineage", json!("../../escaped")),
        ("/strata/definition/name", json!("../../escaped")),
        ("/strata/components", json!({ "A/One": "../../escaped" })),
        ("/strata/buffers", json!({ "../../escaped": ["idea"] })),
        ("/strata/files/pending", pending("../escaped")),
        ("/strata/files/pending", pending("out/../escaped")),
        ("/strata/files/pending", pending(&absolute)),
        ("/strata/files/pending", removal),
        (
            "/strata/files/decided",
            json!({ "../../escaped": { "directory": true }, "/../escaped": { "directory": true } }),
        ),
    ];
    let ours = ["store", "out", "laid", "config"];
    let before = names(&place.path(""), &ours);
    for (pointer, value) in cases {
        let mut edited = file.clone();
        *edited
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer} is not there")) = value.clone();
        fs::remove_dir_all(place.path("store")).unwrap();
        place.write("store/team.json", edited.to_string());
        let what = format!("{pointer} = {value}");
        let laid = place.host(&["files", "store", "--to", "laid"]);
        let ended = place.host(&["run", "team.toml", "--recover_path", "store"]);
        for ended in [&laid, &ended] {
            assert!(
                matches!(ended.code, Some(0 | 2 | 3 | 8)),
                "{what}: {ended:?}"
            );
            assert!(!ended.stderr.contains("panicked"), "{what}: {ended:?}");
        }
        assert_eq!(names(&place.path(""), &ours), before, "{what}");
        assert!(!place.path("../escaped").exists(), "{what}");
        assert_eq!(place.read("precious"), b"mine", "{what}");
    }
}

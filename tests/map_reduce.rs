//! The team that counts the words of a directory: the sums do not depend on which worker counts
//! what, or on faults.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::probe::{build, project};
use crate::stream;
use crate::workspace::Workspace;

const DIR: &str = "plugins/teams/map-reduce";
const TEAM: &str = "plugins/teams/map-reduce/team.toml";
const TRAP: &str = "plugins/teams/map-reduce/trap.toml";
const TABLE: &str = "plugins/teams/map-reduce/out/words.md";

/// Copies the plugins and the team's directory.
fn copy() -> Workspace {
    let place = Workspace::empty();
    fs::create_dir_all(place.path(DIR).join("out")).unwrap();
    for plugin in ["count-words", "deal-files", "merge-counts", "probe"] {
        build(&format!("plugins/{plugin}"));
        symlink(
            project().join("plugins").join(plugin),
            place.path("plugins").join(plugin),
        )
        .unwrap();
    }
    for file in ["team.toml", "trap.toml"] {
        let file = format!("{DIR}/{file}");
        fs::copy(project().join(&file), place.path(&file)).unwrap();
    }
    for (path, text) in texts(&project().join(DIR).join("in")) {
        let to = place.path(DIR).join("in").join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, text).unwrap();
    }
    place
}

/// Returns the files below a directory, by their relative paths.
fn texts(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(
                texts(&path)
                    .into_iter()
                    .map(|(inner, text)| (format!("{name}/{inner}"), text)),
            );
        } else {
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// Returns the expected lines of the table, counted independently.
fn expected(texts: &BTreeMap<String, String>) -> Vec<String> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for (path, text) in texts {
        let text = text.to_lowercase();
        let words = text
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .map(|word| word.trim_matches('\''));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        lines.push(format!("| /in/{path} | {} |", words.len()));
        words
            .into_iter()
            .for_each(|word| *all.entry(word.to_owned()).or_default() += 1);
    }
    let most = all.values().max().unwrap();
    let first = all.iter().find(|(_, count)| *count == most).unwrap();
    lines.push(format!(
        "| word | times |\n|---|---:|\n| {} | {most} |",
        first.0
    ));
    lines
}

fn table(place: &Workspace) -> String {
    String::from_utf8(place.read(TABLE)).unwrap()
}

fn run(place: &Workspace, args: &[&str]) -> crate::process::Ended {
    place.host(&[&["run", TEAM, "--storage", "store", "--events", "-"], args].concat())
}

#[test]
fn three_workers_count_the_same_as_one() {
    let mut tables = Vec::new();
    for args in [&[][..], &["--max-parallel", "1"]] {
        let place = copy();
        let lines = run(&place, args).expect(0).events();
        let released: Vec<_> = stream::of_kind(&lines, "join-released")
            .into_iter()
            .map(|line| &line["join"])
            .collect();
        assert_eq!(released, ["counted"]);
        assert_eq!(
            stream::actions(&lines, "action-finished").last().unwrap(),
            "Adder.MergeCounts"
        );
        let texts = texts(&place.path(DIR).join("in"));
        assert!(
            texts.len() > 3,
            "there is less to count than there are workers for it"
        );
        let table = table(&place);
        expected(&texts)
            .iter()
            .for_each(|line| assert!(table.contains(line.as_str()), "`{line}` in\n{table}"));
        tables.push(table);
    }
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn after_a_worker_is_fixed_nothing_is_counted_twice() {
    let undisturbed = copy();
    run(&undisturbed, &[]).expect(0);
    let place = copy();
    let ended = place
        .host(&["run", TRAP, "--storage", "store", "--events", "-"])
        .expect(3);
    assert!(
        ended
            .stderr
            .contains("fault: Willem action 0 `CountWords` attempt 1: trap"),
        "{}",
        ended.stderr
    );
    assert!(
        !place.path(TABLE).exists(),
        "somebody added up before all had counted"
    );

    let lines = place
        .host(&["run", TEAM, "--recover_path", "store", "--events", "-"])
        .expect(0)
        .events();
    assert_eq!(
        stream::actions(&lines, "action-finished"),
        ["Willem.CountWords", "Adder.MergeCounts"]
    );
    assert_eq!(
        stream::actions(&lines, "component-changed"),
        ["Willem.CountWords"]
    );
    assert_eq!(table(&place), table(&undisturbed));
    stream::assert_numbered(&place.recorded());
}

#[test]
fn a_run_killed_while_the_join_waits_has_the_same_result() {
    let undisturbed = copy();
    run(&undisturbed, &[]).expect(0);
    for (kind, role) in [
        ("action-finished", Some("Dealer")),
        ("action-finished", Some("Winnie")),
        ("join-released", None),
    ] {
        let place = copy();
        let mut process = place.start(&["run", TEAM, "--storage", "store", "--events", "-"]);
        process.until(kind, role);
        process.kill();
        place.resume().expect(0);
        assert_eq!(
            table(&place),
            table(&undisturbed),
            "killed at {kind} {role:?}"
        );
        let lines = place.recorded();
        stream::assert_numbered(&lines);
        stream::assert_one_idea(&lines);
    }
}

//! Tests that new actions and teams have their names filled in, that invalid names are rejected,
//! and that nothing is left half-written. That the results build and run is tested with the whole
//! program.

use super::*;
use std::collections::BTreeSet;

fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).expect("it is there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(
                    path.strip_prefix(dir)
                        .expect("it lies below")
                        .to_string_lossy()
                        .into_owned(),
                );
            }
        }
    }
    found
}

#[test]
fn an_action_carries_its_name() {
    for language in LANGUAGES {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = create_action(parent.path(), "greet-people", language).expect("it is made");
        assert_eq!(dir, parent.path().join("greet-people"));
        let found = files(parent.path());
        assert!(found.contains("greet-people/.gitignore"), "{found:?}");
        let readme = fs::read_to_string(dir.join("README.md")).expect("it has one");
        assert!(
            readme.starts_with("# greet-people\n") && !readme.contains("{{"),
            "{readme}"
        );
        let commands = readme.split("```").nth(1).expect("its commands");
        assert!(
            commands.contains(&language.test_command("strata-host"))
                && commands.contains("\nstrata-host build\n"),
            "{readme}"
        );
        let texts: Vec<String> = found
            .iter()
            .map(|file| fs::read_to_string(parent.path().join(file)).expect("text"))
            .collect();
        assert!(
            texts.iter().any(|text| text.contains("greet-people")),
            "{}",
            language.name
        );
        assert!(
            !texts
                .iter()
                .any(|text| text.contains("{{name}}") || text.contains("{{module}}")),
            "{}",
            language.name
        );
    }
}

#[test]
fn a_team_holds_the_action_that_it_names() {
    let schemas = EditorSchemas {
        team: "{}".into(),
        replies: "{}".into(),
    };
    for language in LANGUAGES {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = create_team(parent.path(), "press", language, &schemas).expect("it is made");
        let text = fs::read_to_string(dir.join("team.toml")).expect("a team file");
        assert!(text.contains("name = \"press\""));
        assert!(text.contains(&format!("component = \"{TEAM_ACTION_DIR}\"")));
        assert!(dir.join(TEAM_ACTION_DIR).is_dir());
        for file in ["team", "replies"] {
            let text = fs::read_to_string(dir.join(file).with_extension("toml")).expect("a file");
            let schema = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("#:schema "));
            assert!(dir.join(schema.expect("it names one")).is_file());
        }
    }
}

#[test]
fn a_name_that_will_not_do_is_refused() {
    let long = "a".repeat(65);
    let cases = [
        "",
        "Greet",
        "1st",
        "a_b",
        "a/b",
        "..",
        "a--b",
        "a-",
        "ä",
        "self",
        "final",
        "become",
        "do",
        "strata-action",
        long.as_str(),
    ];
    let parent = tempfile::tempdir().expect("a directory");
    for name in cases {
        let error = create_action(parent.path(), name, &LANGUAGES[0]).expect_err(name);
        assert!(matches!(error, ScaffoldError::Name { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(parent.path()).expect("it is there").count(), 0);
}

#[test]
fn nothing_is_overwritten_and_nothing_half_made_is_left() {
    let parent = tempfile::tempdir().expect("a directory");
    fs::create_dir(parent.path().join("a")).expect("a directory");
    fs::write(parent.path().join("b"), "mine").expect("a file");
    std::os::unix::fs::symlink("nowhere", parent.path().join("c")).expect("a link");
    for name in ["a", "b", "c"] {
        let error = create_team(
            parent.path(),
            name,
            &LANGUAGES[0],
            &EditorSchemas::default(),
        )
        .expect_err(name);
        assert!(matches!(error, ScaffoldError::Exists { .. }), "{error}");
    }
    let absent = parent.path().join("absent");
    assert!(matches!(
        create_action(&absent, "x", &LANGUAGES[0]),
        Err(ScaffoldError::File { .. })
    ));
    assert_eq!(
        files(parent.path()),
        BTreeSet::from(["b".to_owned(), "c".to_owned()])
    );
}

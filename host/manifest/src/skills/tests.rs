//! The shelf: what it takes and refuses, damage, and several at once.

use std::fs;
use std::thread;

use strata_base::golden::golden;
use tempfile::TempDir;

use super::*;
use crate::trust::signature;

fn manifest(name: &str, version: &str) -> ComponentManifest {
    ComponentManifest {
        name: name.into(),
        version: version.into(),
        description: "Writes code.".into(),
        config_schema: None,
        input_schema: None,
        output_schema: Some("{\"type\": \"object\"}".into()),
        needs: vec!["llm".into()],
    }
}

fn shelf() -> (TempDir, Shelf) {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_directory(&dir.path().join("a/shelf"));
    (dir, shelf)
}

fn find(shelf: &Shelf, wanted: &str) -> Result<String, String> {
    let found = wanted.parse().and_then(|wanted| shelf.find(&wanted));
    found
        .map(|skill| skill.name())
        .map_err(|error| error.to_string())
}

#[test]
fn an_entry_is_as_the_golden_file() {
    let (_dir, shelf) = shelf();
    let (skill, _) = shelf.add(b"one", &manifest("write-code", "1.0.0")).unwrap();
    let name = "write-code@1.0.0.skill";
    let path = shelf.dir().join(name);
    let text = golden(name, &fs::read(&path).unwrap());
    fs::write(&path, text).unwrap();
    let found = shelf.find(&"write-code@1.0.0".parse().unwrap());
    assert_eq!(found.unwrap(), skill);
}

#[test]
fn what_is_added_is_found_with_its_manifest() {
    let (_dir, shelf) = shelf();
    assert!(shelf.list().unwrap().skills.is_empty());
    let (skill, added) = shelf.add(b"one", &manifest("write-code", "1.0.0")).unwrap();
    assert_eq!(
        (added, skill.name()),
        (AddOutcome::New, "write-code@1.0.0".into())
    );
    assert_eq!(
        shelf.find(&"write-code@1.0.0".parse().unwrap()).unwrap(),
        skill
    );
    assert_eq!(shelf.component(&skill).unwrap(), b"one");
    assert_eq!(
        shelf
            .add(b"one", &manifest("write-code", "1.0.0"))
            .unwrap()
            .1,
        AddOutcome::Unchanged
    );
    let refused = shelf
        .add(b"two", &manifest("write-code", "1.0.0"))
        .unwrap_err();
    let name = "write-code@1.0.0".to_owned();
    assert_eq!(refused.advice(), Some(Advice::ReplaceSkill { name }));
    let refused = refused.to_string();
    for part in [skill.digest.0.as_str(), &digest_of(b"two").0] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(shelf.component(&skill).unwrap(), b"one");
}

#[test]
fn manifests_that_say_too_little_are_refused() {
    let (dir, shelf) = shelf();
    let check = |change: &dyn Fn(&mut ComponentManifest), expected: &str| {
        let mut manifest = manifest("write-code", "1.0.0");
        change(&mut manifest);
        let error = shelf
            .add(b"one", &manifest)
            .expect_err(expected)
            .to_string();
        assert!(
            error.contains("cannot be a skill") && error.contains(expected),
            "{error}"
        );
    };
    check(&|m| m.name.clear(), "its name is empty");
    check(&|m| m.name = "../up".into(), "its name `../up`");
    check(&|m| m.name = ".hidden".into(), "its name `.hidden`");
    check(&|m| m.name = "a@b".into(), "its name `a@b`");
    check(&|m| m.name = "x".repeat(65), "65 characters");
    check(
        &|m| m.version = "1.0".into(),
        "its version `1.0` is not a semantic one",
    );
    check(
        &|m| m.version.clear(),
        "its version `` is not a semantic one",
    );
    check(&|m| m.description = " \n".into(), "no description");
    check(&|m| m.config_schema = Some("{".into()), "its config schema");
    check(
        &|m| m.config_schema = Some("[".repeat(200)),
        "nested deeper than 100 levels",
    );
    check(
        &|m| m.output_schema = Some(format!("[{}0]", "{\"\":0},".repeat(250_000))),
        "too large to be read",
    );
    check(
        &|m| m.output_schema = Some("{\"type\": \"objekt\"}".into()),
        "its output schema",
    );
    assert!(!dir.path().join("a").exists());
}

#[test]
fn of_several_versions_the_newest_that_will_do_is_found() {
    let (_dir, shelf) = shelf();
    for version in ["1.2.0", "1.10.0", "1.9.0", "2.0.0", "2.1.0-rc.1"] {
        shelf
            .add(version.as_bytes(), &manifest("write-code", version))
            .unwrap();
    }
    let check =
        |wanted: &str, expected: &str| assert_eq!(find(&shelf, wanted), Ok(expected.into()));
    check("write-code@1.2.0", "write-code@1.2.0");
    check("write-code@^1", "write-code@1.10.0");
    check("write-code@~1.9", "write-code@1.9.0");
    check("write-code@^2", "write-code@2.0.0");
    check("write-code@2.1.0-rc.1", "write-code@2.1.0-rc.1");
    let names: Vec<String> = shelf
        .list()
        .unwrap()
        .skills
        .iter()
        .map(Skill::name)
        .collect();
    let versions = ["1.2.0", "1.9.0", "1.10.0", "2.0.0", "2.1.0-rc.1"];
    assert_eq!(
        names,
        versions.map(|version| format!("write-code@{version}"))
    );
}

#[test]
fn what_is_not_there_is_told_with_what_may_have_been_meant() {
    let (_dir, shelf) = shelf();
    let check = |wanted: &str, expected: &str| {
        let error = find(&shelf, wanted).expect_err(wanted);
        assert!(error.contains(expected), "{error}");
    };
    check("write-code@1.0.0", "there is no skill `write-code@1.0.0`");
    shelf.add(b"one", &manifest("write-code", "1.0.0")).unwrap();
    check("write-cod@1.0.0", "did you mean `write-code@1.0.0`?");
    check("write-code@3.0.0", "there is `write-code@1.0.0`");
    check("write-code@^3", "there is `write-code@1.0.0`");
    check("write-code", "expected a name and a version");
    check("write-code@", "the version is wrong");
    check("write-code@1", "the version is wrong");
    check("../x@1.0.0", "the name `../x`");
}

#[test]
fn words_are_looked_for_in_names_and_descriptions() {
    let (_dir, shelf) = shelf();
    let about = |name: &str, description: &str| ComponentManifest {
        description: description.into(),
        ..manifest(name, "1.0.0")
    };
    shelf
        .add(b"1", &about("a-helper", "Finds faults; see Review-Code."))
        .unwrap();
    shelf
        .add(b"2", &about("review-code", "Reads what others wrote."))
        .unwrap();
    shelf.add(b"3", &about("write-code", "Writes it.")).unwrap();
    let check = |words: &[&str], expected: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        let found = shelf.search(&words).unwrap().skills;
        assert_eq!(
            found
                .iter()
                .map(|skill| skill.manifest.name.as_str())
                .collect::<Vec<_>>(),
            expected
        );
    };
    check(&["CODE"], &["review-code", "write-code", "a-helper"]);
    check(&["review", "code"], &["review-code", "a-helper"]);
    check(&["code", "others"], &["review-code"]);
    check(&["nothing"], &[]);
}

#[test]
fn what_is_removed_is_gone_and_nothing_else() {
    let (_dir, shelf) = shelf();
    let (one, _) = shelf.add(b"one", &manifest("write-code", "1.0.0")).unwrap();
    let (two, _) = shelf.add(b"two", &manifest("write-code", "2.0.0")).unwrap();
    let remove = |wanted: &str| {
        shelf
            .remove(&wanted.parse().unwrap())
            .map(|it| it.name)
            .map_err(|error| error.to_string())
    };
    assert!(
        remove("write-code@^1")
            .unwrap_err()
            .contains("only one version")
    );
    assert!(
        remove("write-code@3.0.0")
            .unwrap_err()
            .contains("there is `write-code@1.0.0`, `write-code@2.0.0`")
    );
    assert_eq!(remove("write-code@1.0.0").unwrap(), "write-code@1.0.0");
    assert!(shelf.component(&one).is_err());
    assert_eq!(shelf.component(&two).unwrap(), b"two");
    assert_eq!(shelf.list().unwrap().skills, [two]);
}

#[test]
fn a_signature_stays_as_long_as_its_component() {
    let (_dir, shelf) = shelf();
    let [one, two] = ["1.0.0", "2.0.0"].map(|version| {
        let (skill, _) = shelf
            .add(version.as_bytes(), &manifest("write-code", version))
            .unwrap();
        for signature in ["old", version] {
            shelf.sign(&skill, signature).unwrap();
        }
        skill
    });
    let signed = |skill: &Skill| signature::read_signature_of(&shelf.file(skill)).unwrap();
    assert_eq!(
        (signed(&one).as_deref(), signed(&two).as_deref()),
        (Some("1.0.0"), Some("2.0.0"))
    );
    shelf.remove(&"write-code@1.0.0".parse().unwrap()).unwrap();
    assert_eq!(
        (signed(&one), signed(&two).as_deref()),
        (None, Some("2.0.0"))
    );
}

#[test]
fn no_component_is_removed_while_a_damaged_skill_may_need_it() {
    let (_dir, shelf) = shelf();
    let [(one, _), (two, _)] = ["1.0.0", "2.0.0"].map(|version| {
        shelf
            .add(version.as_bytes(), &manifest("write-code", version))
            .unwrap()
    });
    let entry = shelf.dir().join("write-code@2.0.0.skill");
    let whole = fs::read(&entry).unwrap();
    fs::write(&entry, "damaged").unwrap();
    let remove = |wanted: &str| shelf.remove(&wanted.parse().unwrap()).unwrap().damaged;
    let damaged = remove("write-code@1.0.0");
    assert!(
        damaged[0]
            .to_string()
            .contains("`write-code@2.0.0` is damaged"),
        "{damaged:?}"
    );
    fs::write(&entry, whole).unwrap();
    assert_eq!(shelf.component(&two).unwrap(), b"2.0.0");
    // What remained until then is removed together with the next one.
    assert!(remove("write-code@2.0.0").is_empty());
    assert!(!shelf.file(&one).exists() && !shelf.file(&two).exists());
}

#[test]
fn a_flipped_byte_anywhere_is_found_and_adding_again_mends_it() {
    let (_dir, shelf) = shelf();
    let of = manifest("write-code", "1.0.0");
    let (skill, _) = shelf.add(b"some component", &of).unwrap();
    let wanted = "write-code@1.0.0".parse().unwrap();
    for path in [
        shelf.file(&skill),
        shelf.dir().join("write-code@1.0.0.skill"),
    ] {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            let error = shelf
                .find(&wanted)
                .and_then(|skill| shelf.component(&skill))
                .unwrap_err();
            assert!(matches!(error, SkillError::Damaged { .. }), "{at}: {error}");
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(
            shelf
                .find(&wanted)
                .and_then(|skill| shelf.component(&skill))
                .is_err()
        );
        assert_eq!(
            shelf.add(b"some component", &of).unwrap().1,
            AddOutcome::New
        );
        assert_eq!(
            shelf
                .find(&wanted)
                .and_then(|skill| shelf.component(&skill))
                .unwrap(),
            b"some component"
        );
    }
}

#[test]
fn an_entry_that_stands_for_another_one_is_damaged() {
    let (_dir, shelf) = shelf();
    shelf.add(b"one", &manifest("write-code", "1.0.0")).unwrap();
    let entry = |version: &str| shelf.dir().join(format!("write-code@{version}.skill"));
    fs::copy(entry("1.0.0"), entry("2.0.0")).unwrap();
    let listing = shelf.list().unwrap();
    assert_eq!((listing.skills.len(), listing.damaged.len()), (1, 1));
    assert!(
        listing.damaged[0]
            .to_string()
            .contains("`write-code@2.0.0` is damaged")
    );
}

#[test]
fn several_may_add_and_remove_at_once() {
    let (_dir, shelf) = shelf();
    let work = |worker: usize| {
        for round in 0..10 {
            // Half of the components are the same for all threads.
            let version = format!("1.{round}.{}", worker % 2);
            shelf
                .add(version.as_bytes(), &manifest("write-code", &version))
                .unwrap();
            let own = format!("9.{worker}.{round}");
            shelf
                .add(own.as_bytes(), &manifest("write-code", &own))
                .unwrap();
            for skill in shelf
                .list()
                .unwrap()
                .skills
                .iter()
                .filter(|skill| skill.manifest.version.starts_with("1."))
            {
                assert_eq!(
                    shelf.component(skill).unwrap(),
                    skill.manifest.version.as_bytes()
                );
            }
            shelf
                .remove(&format!("write-code@{own}").parse().unwrap())
                .unwrap();
        }
    };
    thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || work(worker));
        }
    });
    let listing = shelf.list().unwrap();
    assert_eq!((listing.skills.len(), listing.damaged.len()), (20, 0));
    assert_eq!(
        fs::read_dir(shelf.dir().join("components"))
            .unwrap()
            .count(),
        20
    );
}

//! Unusual grants of directories: they contain the storage, are links, or are nested.

use std::fs;

use crate::workspace::Workspace;

/// Creates a team with an action that is granted the directory of the team file, which contains the
/// storage.
fn team(action: &str, access: &str) -> Workspace {
    Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\nwatch = \
         [\"UserRequirement\"]\n[[role.action]]\nname = \"a\"\n{action}\n[role.action.allow]\ndirs = [{{ host = \".\", guest = \
         \"/w\"{access} }}]\n"
    ))
}

const WRITE: &str = ", write = true";

fn steps(steps: &str) -> String {
    format!(
        "component = \"probe.wasm\"\nconfig = {{ steps = [{steps}, {{ say = \"{{reads}}\" }}] }}"
    )
}

fn python(place: &Workspace, body: &str) {
    let head = "import os\nfrom strata_action import action\n@action\ndef run(cx):\n";
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    place.write("a.py", format!("{head}{body}"));
}

/// Fails unless everything that is saved can be read and replayed.
fn check_everything_readable(place: &Workspace) {
    place.host(&["inspect", "store"]).expect(0);
    place.host(&["events", "store"]).expect(0);
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn an_action_can_neither_see_nor_change_the_storage() {
    for (doing, told) in [
        (
            r#"{ write = "/w/store/team.db", text = "junk" }"#,
            "cannot write `/w/store/team.db`: the host saves the team there",
        ),
        (
            r#"{ write = "/w/store/new/x", text = "junk" }"#,
            "the host saves the team there",
        ),
        (
            r#"{ remove = "/w/store/team.json" }"#,
            "cannot remove `/w/store/team.json`: the host saves the team there",
        ),
        (
            r#"{ write = "/w/store", text = "junk" }"#,
            "the host saves the team there",
        ),
        (
            r#"{ read = "/w/store/team.json" }"#,
            "cannot read `/w/store/team.json`: it does not exist",
        ),
    ] {
        let place = team(&steps(doing), WRITE);
        let ended = place
            .host(&["run", "team.toml", "--storage", "store"])
            .expect(3);
        assert!(ended.stderr.contains(told), "{told}\n{}", ended.stderr);
        check_everything_readable(&place);
    }
    let place = team(
        &steps(r#"{ write = "/w/store-of-mine/x", text = "x" }"#),
        WRITE,
    );
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(0);
    assert!(place.path("store-of-mine/x").is_file());
    check_everything_readable(&place);
}

#[test]
fn a_link_to_the_storage_cannot_be_followed() {
    let place = team(&steps(r#"{ read = "/w/link" }"#), "");
    std::os::unix::fs::symlink("store/team.db", place.path("link")).unwrap();
    let ended = place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    assert!(
        ended.stderr.contains("cannot read `/w/link`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_guest_that_uses_wasi_can_neither_see_nor_change_the_storage() {
    let place = team("script = \"a.py\"", WRITE);
    python(
        &place,
        "open('/w/mine', 'w').write('x')\nreturn ' '.join(sorted(os.listdir('/w')))",
    );
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(0);
    let said = place.team_json()["env"]["history"]["storage"][1]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(said.contains("mine") && !said.contains("store"), "{said}");
    check_everything_readable(&place);

    for body in [
        "os.makedirs('/w/store')\nopen('/w/store/team.db', 'w').write('junk')\nreturn 'x'",
        "open('/w/store', 'w').write('junk')\nreturn 'x'",
    ] {
        let place = team("script = \"a.py\"", WRITE);
        python(&place, body);
        let ended = place
            .host(&["run", "team.toml", "--storage", "store"])
            .expect(3);
        assert!(
            ended.stderr.contains("the host saves the team there"),
            "{}",
            ended.stderr
        );
        check_everything_readable(&place);
    }

    // A directory that is only readable is not copied, even beside one that is.
    for more in ["", ", { host = \"out\", guest = \"/out\", write = true }"] {
        for path in ["team.db", "team.json", "deep/x"] {
            let place = team("script = \"a.py\"", "");
            let text = fs::read_to_string(place.path("team.toml")).unwrap();
            place.write(
                "team.toml",
                text.replace("guest = \"/w\" }", &format!("guest = \"/w\" }}{more}")),
            );
            python(
                &place,
                &format!("os.listdir('/w')\nreturn str(len(open('/w/store/{path}', 'rb').read()))"),
            );
            fs::create_dir_all(place.path("store/deep")).unwrap();
            place.write("store/deep/x", "of a team that was moved aside");
            let ended = place
                .host(&["run", "team.toml", "--storage", "store"])
                .expect(3);
            assert!(
                ended.stderr.contains("PermissionError") || ended.stderr.contains("OSError"),
                "{}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_saved_team_can_be_read_without_the_files_that_it_names() {
    let place = team(
        &format!(
            "{}\noutput_schema = \"out.json\"",
            steps(r#"{ ask = "go on?" }"#)
        ),
        WRITE,
    );
    let text = fs::read_to_string(place.path("team.toml")).unwrap();
    let llm = "[llm]\nprovider = \"scripted\"\nreplies = \"replies.toml\"\n";
    place.write(
        "team.toml",
        format!("{text}{llm}").replace("host = \".\"", "host = \"out\""),
    );
    place.write("out.json", "{}");
    place.write("replies.toml", "[[reply]]\ntext = \"x\"\n");
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(4);
    for gone in ["out.json", "replies.toml"] {
        fs::remove_file(place.path(gone)).unwrap();
    }
    let _ = fs::remove_dir(place.path("out"));
    place.write("out", "no directory");
    for args in [
        &["inspect", "store"][..],
        &["files", "store"],
        &["checkpoints", "store"],
        &["report", "store", "-o", "r.html"],
        &["diff", "store", "store@main-0"],
        &["fork", "store", "--at", "main-0", "--to", "branch"],
        &["send", "store", "--cause", "UserRequirement", "more"],
        &["prune", "store", "--keep", "1"],
    ] {
        place.host(args).expect(0);
    }
    // They must exist to run the team.
    assert!(place.resume().expect(2).stderr.contains("replies.toml"));
}

/// Returns a team of two roles that receive the idea. The action of each may write in `out`.
fn writers(one: &str, other: &str) -> String {
    let role = |(name, steps): (&str, &str)| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"act0\"\ncomponent = \
             \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n[role.action.allow]\ndirs = [{{ host = \"out\", guest = \
             \"/out\", write = true }}]\n"
        )
    };
    let roles: String = [("A", one), ("B", other)].map(role).concat();
    format!("schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n{roles}")
}

#[test]
fn a_directory_that_is_granted_by_way_of_a_link_is_the_same_directory() {
    let write = |text: &str| format!(r#"{{ write = "/out/f", text = "{text}" }}"#);
    let roles = writers(&write("a"), &write("b"));
    let (first, second) = roles.split_once("name = \"B\"").unwrap();
    let place = Workspace::with(&format!(
        "{first}name = \"B\"{}",
        second.replace("host = \"out\"", "host = \"link\"")
    ));
    fs::create_dir(place.path("out")).unwrap();
    std::os::unix::fs::symlink("out", place.path("link")).unwrap();
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--events", "-"])
        .expect(3);
    let faults = ended
        .events()
        .into_iter()
        .filter(|line| line["fault"] == "state-conflict")
        .count();
    assert_eq!(
        (faults, place.path("out/f").exists()),
        (2, false),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_granted_directory_that_another_role_replaces_by_a_file_is_a_fault() {
    let seq = writers(
        r#"{ write = "/out/sub", text = "a file" }"#,
        r#"{ write = "/out/x", text = "b" }"#,
    );
    let (first, second) = seq.split_once("name = \"B\"").unwrap();
    let second = second.replace("host = \"out\"", "host = \"out/sub\"");
    let parallel = format!("{first}name = \"B\"{second}");
    let after = parallel.replace(
        "name = \"B\"\nwatch = [\"UserRequirement\"]",
        "name = \"B\"\nwatch = [\"act0\"]",
    );
    for (team, told) in [
        (parallel, "state-conflict"),
        (after, "does not lie in a directory: `/out` is none"),
    ] {
        let place = Workspace::with(&team);
        let ended = place
            .host(&["run", "team.toml", "--storage", "store"])
            .expect(3);
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
        for args in [
            &["inspect", "store"][..],
            &["files", "store"],
            &["report", "store", "-o", "report.html"],
        ] {
            place.host(args).expect(0);
        }
    }
}

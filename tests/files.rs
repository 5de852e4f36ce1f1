//! Files that actions write: they appear only if the action succeeds, all roles see the same
//! content, whoever is faster, and changes of others are not lost.

use std::fs;

use serde_json::Value;

use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// Returns a team of these roles. Each receives the idea and runs its probes in order. All of them
/// may write in `out`.
fn team(roles: &[(&str, &[&str])]) -> String {
    let action = |(i, steps): (usize, &&str)| {
        format!(
            "[[role.action]]\nname = \"act{i}\"\ncomponent = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n\
             [role.action.allow]\ndirs = [{{ host = \"out\", guest = \"/out\", write = true }}]\n"
        )
    };
    let role = |(name, actions): &(&str, &[&str])| {
        let actions: String = actions.iter().enumerate().map(action).collect();
        format!("[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n{actions}")
    };
    let roles: String = roles.iter().map(role).collect();
    format!("schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n{roles}")
}

fn out(place: &Workspace, name: &str) -> Option<String> {
    fs::read_to_string(place.path("out").join(name)).ok()
}

fn finished(lines: &[Value], role: &str) -> Vec<String> {
    let of = |line: &&Value| line["kind"] == "action-finished" && line["role"] == role;
    lines
        .iter()
        .filter(of)
        .map(|line| line["output"]["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_failed_attempt_leaves_nothing_and_a_finished_action_its_files() {
    let write =
        r#"{ write = "/out/kept", text = "one" }, { write = "/out/deep/er", text = "two" }"#;
    let fails = r#"{ write = "/out/kept", text = "lost" }, { write = "/out/lost", text = "x" }, { read = "/out/kept" },
        { fail = "trap", attempts = [1] }, { say = "{reads}" }"#;
    let place = Workspace::with(&team(&[("A", &[write, &fails.replace('\n', " ")])]));
    place.run().expect(3);
    assert_eq!(out(&place, "kept").as_deref(), Some("one"));
    assert_eq!(out(&place, "deep/er").as_deref(), Some("two"));
    assert_eq!(out(&place, "lost"), None);
    let lines = place.resume().expect(0).events();
    assert_eq!(finished(&lines, "A"), ["lost"], "it reads what it wrote");
    assert_eq!(out(&place, "kept").as_deref(), Some("lost"));
    let written: Vec<Value> = place
        .recorded()
        .into_iter()
        .filter(|line| line["kind"] == "files-written")
        .collect();
    assert_eq!(written.len(), 2);
    assert_eq!(written[0]["files"][0]["path"], "out/deep");
    assert_eq!(written[0]["files"][2]["bytes"], 3);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(shown.contains("out/kept"), "{shown}");
    let before = place.host(&["files", "store@main-0"]).expect(0);
    assert_eq!(
        (before.stdout.as_str(), before.stderr.as_str()),
        ("", "no action has written a file\n")
    );
}

#[test]
fn other_roles_see_files_after_the_step_whoever_is_faster() {
    let reads = r#"{ read = "/out/shared" }, { say = "{reads}" }"#;
    let slow = format!(r#"{{ sleep = "300ms" }}, {reads}"#);
    let write = r#"{ write = "/out/shared", text = "new" }"#;
    let place = Workspace::with(&team(&[
        ("Writer", &[write, reads]),
        ("Reader", &[reads, &slow]),
    ]));
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/shared"), "old").unwrap();
    let lines = place.run().expect(0).events();
    assert_eq!(finished(&lines, "Writer"), ["act0 ok", "new"]);
    assert_eq!(finished(&lines, "Reader"), ["old", "old"]);
    assert_eq!(out(&place, "shared").as_deref(), Some("new"));
}

#[test]
fn two_roles_that_write_one_file_in_one_step_are_at_fault_and_the_file_is_restored() {
    let write = |text: &str| format!(r#"{{ write = "/out/f", text = "{text}" }}"#);
    let (a, b) = (write("a"), write("b"));
    let place = Workspace::with(&team(&[("A", &[&a]), ("B", &[&b])]));
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/f"), "before").unwrap();
    let ended = place.run().expect(3);
    assert!(
        ended.stderr.contains("`out/f` was written by A and B"),
        "{}",
        ended.stderr
    );
    assert_eq!(out(&place, "f").as_deref(), Some("before"));
    let faults = ended
        .events()
        .into_iter()
        .filter(|line| line["fault"] == "state-conflict")
        .count();
    assert_eq!(faults, 2);
    // In different steps it is allowed: B's action is changed to write another file.
    place.write(
        "team.toml",
        team(&[("A", &[&a]), ("B", &[&b.replace("/out/f", "/out/g")])]),
    );
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(
        (out(&place, "f").as_deref(), out(&place, "g").as_deref()),
        (Some("a"), Some("b"))
    );
}

#[test]
fn a_role_that_puts_a_file_where_another_one_needs_a_directory_is_at_fault_with_it() {
    for who in ["A", "B"] {
        let file = r#"{ remove = "/out/d" }, { write = "/out/d", text = "f", attempts = [1] }"#;
        let below = r#"{ write = "/out/d/x", text = "x" }"#;
        // The result does not depend on who is faster.
        let slow = |step: &str, role| {
            if role == who {
                format!(r#"{{ sleep = "200ms" }}, {step}"#)
            } else {
                step.into()
            }
        };
        let (a, b) = (slow(file, "A"), slow(below, "B"));
        let place = Workspace::with(&team(&[("A", &[a.as_str()]), ("B", &[b.as_str()])]));
        fs::create_dir_all(place.path("out/d")).unwrap();
        let failed = place.run().expect(3);
        assert!(
            failed
                .stderr
                .contains("the file `out/d/x` was written by A and B in one step"),
            "{}",
            failed.stderr
        );
        assert!(!failed.stderr.contains("reducer"), "{}", failed.stderr);
        assert!(place.path("out/d").is_dir() && !place.path("out/d/x").exists());
    }
}

#[test]
fn concurrent_changes_of_others_are_kept_beside_the_file() {
    let first = r#"{ write = "/out/f", text = "one" }"#;
    let second = r#"{ write = "/out/f", text = "two" }, { sleep = "1s" }"#;
    let place = Workspace::with(&team(&[("A", &[first, second])]));
    let mut process = place.start_run(&[]);
    process.until("files-written", None);
    process.until("action-started", None);
    while out(&place, "f").as_deref() != Some("one") {
        std::thread::yield_now();
    }
    fs::write(place.path("out/f"), "mine").unwrap();
    let ended = process.end().expect(0);
    assert_eq!(out(&place, "f").as_deref(), Some("two"));
    let kept = ended
        .events()
        .into_iter()
        .find(|line| line["kind"] == "file-kept")
        .expect("it is told");
    assert_eq!(
        out(&place, kept["kept"].as_str().unwrap()).as_deref(),
        Some("mine")
    );
}

#[test]
fn a_run_killed_after_any_event_leaves_the_files_of_an_undisturbed_one() {
    let actions: &[&str] = &[
        r#"{ write = "/out/a", text = "1" }, { write = "/out/d/b", text = "2" }"#,
        r#"{ remove = "/out/a" }, { write = "/out/d/b", text = "3" }, { write = "/out/c", text = "4" }"#,
    ];
    let team = team(&[("A", actions)]);
    let undisturbed = Workspace::with(&team);
    let lines = undisturbed.run().expect(0).events().len();
    assert_eq!(out(&undisturbed, "a"), None);
    for n in 1..=lines {
        let place = Workspace::with(&team);
        let mut process = place.start_run(&[]);
        (0..n).for_each(|_| drop(process.next()));
        process.kill();
        place.resume().expect(0);
        for name in ["a", "c", "d/b"] {
            assert_eq!(
                out(&place, name),
                out(&undisturbed, name),
                "{name} after line {n}"
            );
        }
        assert_eq!(
            fs::read_dir(place.path("out")).unwrap().count(),
            2,
            "after line {n}"
        );
    }
}

#[test]
fn a_file_that_was_recorded_before_a_kill_is_placed_by_the_resume() {
    // Nobody reads stdout, so the host blocks when it reports a recorded event, before it places
    // anything.
    let write = format!(
        r#"{{ write = "/out/d/f", text = "kept" }}, {{ say = "{}" }}"#,
        "x".repeat(200_000)
    );
    let place = Workspace::with(&team(&[("A", &[&write])]));
    let mut process = place.start_run(&[]);
    process.until("action-started", None);
    while !place
        .recorded()
        .iter()
        .any(|line| line["kind"] == "action-finished")
    {}
    assert_eq!(out(&place, "d/f"), None);
    process.kill();
    assert_eq!(out(&place, "d/f"), None);
    let lines = place.resume().expect(0).events();
    assert_eq!(out(&place, "d/f").as_deref(), Some("kept"));
    assert!(
        lines.iter().all(|line| line["kind"] != "action-started"),
        "it does not run again"
    );
}

#[test]
fn a_directory_is_removed_with_its_content_and_replaced_by_a_file() {
    let long = "n".repeat(250);
    let first = format!(
        r#"{{ write = "/out/{long}/x", text = "x" }}, {{ write = "/out/d/e/f", text = "x" }}"#
    );
    let removes = [&format!("{long}/x"), &long, "d/e/f", "d/e", "d"]
        .map(|name| format!("{{ remove = \"/out/{name}\" }}"));
    let second = format!(
        r#"{}, {{ write = "/out/{long}", text = "y" }}"#,
        removes.join(", ")
    );
    let place = Workspace::with(&team(&[("A", &[&first, &second])]));
    let lines = place.run().expect(0).events();
    assert_eq!(out(&place, &long).as_deref(), Some("y"));
    assert_eq!(
        fs::read_dir(place.path("out")).unwrap().count(),
        1,
        "nothing else is left"
    );
    assert!(lines.iter().all(|line| line["kind"] != "file-kept"));
}

/// Returns a team in which A writes in the first step and B in the second.
fn two_steps() -> Workspace {
    let first = r#"{ write = "/out/a", text = "1" }, { write = "/out/d/b", text = "2" }"#;
    let again = r#"{ write = "/out/d/b", text = "22" }"#;
    let second = r#"{ remove = "/out/a" }, { write = "/out/d/b", text = "3" }, { write = "/out/c", text = "4" }"#;
    let team = team(&[("A", &[again, first]), ("B", &[second])]);
    let (a, b) = team.split_once("name = \"B\"").unwrap();
    let place = Workspace::with(&format!(
        "{a}name = \"B\"{}",
        b.replacen("UserRequirement", "act1", 1)
    ));
    place.run().expect(0);
    place
}

/// Returns the files below a directory, by path.
fn files_below(place: &Workspace, at: &str) -> Vec<(String, String)> {
    let names = ["a", "c", "d/b"].map(|name| format!("{at}/{name}"));
    let read = |name: String| {
        Some((
            name[at.len() + 1..].to_owned(),
            fs::read_to_string(place.path(&name)).ok()?,
        ))
    };
    names.into_iter().filter_map(read).collect()
}

fn files(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

const AFTER_ONE: [(&str, &str); 2] = [("a", "1"), ("d/b", "2")];
const AFTER_TWO: [(&str, &str); 2] = [("c", "4"), ("d/b", "3")];

#[test]
fn files_can_be_restored_and_are_copied_by_a_fork() {
    let place = two_steps();
    fs::remove_dir_all(place.path("out")).unwrap();
    for (at, to, expected) in [
        ("store", "now", AFTER_TWO),
        ("store@main-2", "two", AFTER_TWO),
        ("store@main-1", "one", AFTER_ONE),
    ] {
        place.host(&["files", at, "--to", to]).expect(0);
        assert_eq!(
            files_below(&place, &format!("{to}/out")),
            files(&expected),
            "{at}"
        );
    }
    place
        .host(&["files", "store@main-0", "--to", "none"])
        .expect(0);
    assert_eq!(files_below(&place, "none/out"), files(&[]));
    place
        .host(&["fork", "store", "--at", "main-1", "--to", "branch"])
        .expect(0);
    fs::remove_dir_all(place.path("store")).unwrap();
    place.host(&["files", "branch", "--to", "."]).expect(0);
    assert_eq!(files_below(&place, "out"), files(&AFTER_ONE));
    place.host(&["run", "--recover_path", "branch"]).expect(0);
    assert_eq!(files_below(&place, "out"), files(&AFTER_TWO));
}

#[test]
fn pruning_keeps_the_bytes_of_the_states_that_are_left_and_no_others() {
    let place = two_steps();
    let kept = || {
        let database = rusqlite::Connection::open(place.path("store/team.db")).unwrap();
        let mut rows = database
            .prepare("SELECT body FROM blob ORDER BY body")
            .unwrap();
        let bodies = rows.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        bodies
            .map(|body| String::from_utf8(body.unwrap()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(), ["1", "2", "22", "3", "4"]);
    place.host(&["prune", "store", "--keep", "2"]).expect(0);
    assert_eq!(kept().len(), 5, "where no checkpoint is dropped nothing is");
    place
        .host(&["files", "store@main-1", "--to", "one"])
        .expect(0);
    assert_eq!(files_below(&place, "one/out"), files(&AFTER_ONE));
    place.host(&["prune", "store", "--keep", "1"]).expect(0);
    assert_eq!(kept(), ["3", "4"]);
    let told = place.host(&["files", "store", "--to", "now"]).expect(0);
    assert_eq!(files_below(&place, "now/out"), files(&AFTER_TWO));
    assert!(
        !told.stderr.contains("are not kept here"),
        "{}",
        told.stderr
    );
    // The rest of the record can be read, as long as nothing that was removed is needed.
    let replayed = place.host(&["replay", "store"]);
    assert!(!replayed.stdout.contains("differs"), "{replayed:?}");
}

#[test]
fn restored_files_do_not_overwrite_others() {
    let place = two_steps();
    place.run().expect(0);
    place.write("taken", "mine");
    let told = place.host(&["files", "store", "--to", "taken"]).expect(1);
    assert!(
        told.stderr.contains("cannot put the file `out/"),
        "{}",
        told.stderr
    );
    assert!(!told.stderr.contains("resume"), "{}", told.stderr);
    assert_eq!(place.read("taken"), b"mine");
}

#[test]
fn a_file_written_with_its_current_content_counts_as_written() {
    let place = two_steps();
    fs::remove_dir_all(place.path("store")).unwrap();
    fs::create_dir_all(place.path("out")).unwrap();
    fs::write(place.path("out/c"), "4").unwrap();
    place.run().expect(0);
    let told = place
        .host(&["files", "store", "--to", "now"])
        .expect(0)
        .stdout;
    assert!(told.contains("out/c"), "{told}");
    assert_eq!(files_below(&place, "now/out"), files(&AFTER_TWO));
    // Several roles may do so in one step, if no role writes other content.
    let write = r#"{ write = "/out/same", text = "s" }"#;
    let place = Workspace::with(&team(&[("A", &[write]), ("B", &[write])]));
    place.run().expect(3);
    fs::remove_dir_all(place.path("store")).unwrap();
    fs::write(place.path("out/same"), "s").unwrap();
    place.run().expect(0);
    assert_eq!(out(&place, "same").as_deref(), Some("s"));
}

#[test]
fn a_removed_file_is_created_again_when_an_action_writes_it() {
    let write = r#"{ write = "/out/f", text = "1" }"#;
    let place = Workspace::with(&team(&[(
        "A",
        &[
            write,
            r#"{ fail = "trap", attempts = [1] }, { write = "/out/f", text = "1" }"#,
        ],
    )]));
    place.run().expect(3);
    fs::remove_file(place.path("out/f")).unwrap();
    place.resume().expect(0);
    assert_eq!(out(&place, "f").as_deref(), Some("1"));
}

#[test]
fn files_that_are_not_placed_yet_count_toward_the_size_of_a_directory() {
    let write = |name: &str| {
        format!(
            r#"{{ write = "/out/{name}", text = "{}" }}"#,
            "x".repeat(60)
        )
    };
    let (one, two) = (write("a"), write("b"));
    // B may read the directory while it sleeps, so nothing is placed meanwhile.
    let roles = team(&[("A", &[&one, &two]), ("B", &[r#"{ sleep = "1s" }"#])]);
    let place =
        Workspace::with(&roles.replace("write = true }", "write = true, max_size = \"100B\" }"));
    let failed = place.run().expect(3);
    assert!(
        failed
            .stderr
            .contains("would hold 120 bytes, and 100 bytes are granted"),
        "{}",
        failed.stderr
    );
}

#[test]
fn a_file_is_the_same_through_all_grants() {
    let place = Workspace::with("");
    let above = place
        .path("")
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let of_above = |text: String| {
        let (writer, other) = text.split_once("name = \"Other\"").unwrap();
        let other = other.replace(
            "{ host = \"out\", guest = \"/out\"",
            "{ host = \"..\", guest = \"/up\"",
        );
        format!("{writer}name = \"Other\"{other}")
    };
    let path = format!("/up/{above}/out/shared");
    let reads = format!("{{ read = \"{path}\" }}, {{ say = \"{{reads}}\" }}");
    let slow = format!("{{ sleep = \"300ms\" }}, {reads}");
    let write = r#"{ write = "/out/shared", text = "new" }"#;
    place.write(
        "team.toml",
        of_above(team(&[("Writer", &[write]), ("Other", &[&reads, &slow])])),
    );
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/shared"), "old").unwrap();
    let lines = place.run().expect(0).events();
    assert_eq!(
        finished(&lines, "Other"),
        ["old", "old"],
        "it sees the change after the step"
    );
    assert_eq!(out(&place, "shared").as_deref(), Some("new"));

    let writes = format!("{{ write = \"{path}\", text = \"other\" }}");
    place.write(
        "team.toml",
        of_above(team(&[("Writer", &[write]), ("Other", &[&writes])])),
    );
    let ended = place.run().expect(3);
    let told = "the file `out/shared` was written by Writer and Other in one step";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let events = ended.events();
    let failed = stream::of_kind(&events, "action-failed");
    assert!(
        failed[0]["message"].as_str().unwrap().starts_with(told),
        "{failed:?}"
    );
}

#[test]
fn a_file_that_cannot_be_placed_stops_the_run_in_an_orderly_way() {
    let web = Web::new();
    let role = |name: &str, steps: &str, allow: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"p\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n[role.action.allow]\n{allow}\n"
        )
    };
    let out = "dirs = [{ host = \"out\", guest = \"/out\", write = true }]";
    let pays = format!(
        "{{ http = \"http://127.0.0.1:{}/v1/slow/3000\", method = \"POST\" }}",
        web.port()
    );
    let granted = format!(
        "http = [{{ host = \"127.0.0.1:{}\", methods = [\"POST\"] }}]",
        web.port()
    );
    let roles = [
        role("Writes", "{ write = \"/out/x\", text = \"new\" }", out),
        role("Sleeps", "{ sleep = \"1500ms\" }", out),
        role("Pays", &pays, &granted),
    ];
    let head = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n";
    let place = Workspace::with(&format!("{head}{}", roles.concat()));
    let mut process = place.start_run(&[]);
    process.until("action-finished", Some("Writes"));
    web.wait(1);
    // The file is placed when no attempt can see the directory any more.
    let _ = fs::remove_dir_all(place.path("out"));
    fs::write(place.path("out"), "in the way").unwrap();
    let ended = process.end().expect(1);
    assert!(
        ended
            .stderr
            .contains("cannot put the file `out/x` in its place"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.team_json()["strata"]["status"], "interrupted");
    fs::remove_file(place.path("out")).unwrap();
    // If the bytes were not copied, the file can never be placed.
    place.write("moved/team.json", place.read("store/team.json"));
    let moved = place
        .host(&["run", "--recover_path", "moved", "--trust"])
        .expect(0);
    assert!(
        moved.stderr.contains("`out/x` is not put in its place"),
        "{}",
        moved.stderr
    );
    assert!(!place.path("out/x").exists());
    place.resume().expect(0);
    assert_eq!(fs::read_to_string(place.path("out/x")).unwrap(), "new");
    assert_eq!(
        web.lines().len(),
        1,
        "its answer was waited for and recorded"
    );
}

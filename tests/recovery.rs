//! Resumes: what `--recover_path` accepts, which arguments are ignored, resumes of finished teams,
//! and the input of repeated attempts.

use std::fs;

use serde_json::Value;

use crate::probe::build;
use crate::process::{Ended, Signal};
use crate::stream;
use crate::workspace::Workspace;

const FAILS: &str = r#"
schema = "strata.team/1"
[team]
name = "fails"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ fail = "trap", attempts = [1] }, { say = "two of {inputs}" }] }
[[role]]
name = "B"
watch = ["Two"]
[[role.action]]
name = "Three"
component = "probe.wasm"
"#;

fn failed() -> Workspace {
    let place = Workspace::with(FAILS);
    place.run().expect(3);
    place
}

#[test]
fn a_saved_team_is_found_by_its_directory_and_by_its_file_with_and_without_the_team_file() {
    let absolute = "@/store";
    let cases: [&[&str]; 11] = [
        &["run", "--recover_path", "store"],
        &["run", "--recover-path", "store"],
        &["run", "--recover_path", "store/"],
        &["run", "--recover_path", "store/team.json"],
        &["run", "--recover_path=store/team.json"],
        &["run", "--recover_path", absolute],
        &["run", "team.toml", "--recover_path", "store"],
        &["run", "--recover_path", "store/team.json", "team.toml"],
        &["resume", "store"],
        &["resume", "store/team.json", "--strict"],
        &["resume", "store", "team.toml", "--max-steps", "9"],
    ];
    for args in cases {
        let place = failed();
        let args: Vec<String> = args
            .iter()
            .map(|arg| arg.replace('@', &place.path("").display().to_string()))
            .collect();
        let args: Vec<&str> = args
            .iter()
            .map(String::as_str)
            .chain(["--events", "-"])
            .collect();
        let ended = place.host(&args).expect(0);
        assert_eq!(
            stream::actions(&ended.events(), "action-started"),
            ["A.Two", "B.Three"],
            "{args:?}"
        );
        assert_eq!(place.team_json()["strata"]["status"], "done", "{args:?}");
    }
}

#[test]
fn a_saved_team_is_resumed_from_another_directory() {
    let place = failed();
    let mut command = place.command(&["run", "--recover_path", "../store"]);
    fs::create_dir(place.path("elsewhere")).unwrap();
    command.current_dir(place.path("elsewhere"));
    crate::process::Process::spawn(command).end().expect(0);
}

#[test]
fn team_json_alone_is_sufficient_wherever_it_is() {
    for name in ["store/team.json", "copied/team.json"] {
        let place = failed();
        fs::create_dir(place.path("copied")).unwrap();
        fs::copy(
            place.path("store/team.json"),
            place.path("copied/team.json"),
        )
        .unwrap();
        if name.starts_with("store") {
            fs::remove_file(place.path("store/team.db")).unwrap();
        }
        let ended = place
            .host(&["run", "--recover_path", name, "--events", "-"])
            .expect(0);
        assert_eq!(
            stream::actions(&ended.events(), "action-started"),
            ["A.Two", "B.Three"],
            "{name}"
        );
        // The checkpoint that the new storage began with is the ancestor of all others.
        let listed = place.host(&["checkpoints", name, "--json"]).expect(0);
        let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
        let ids: Vec<&Value> = listed.iter().map(|row| &row["id"]).collect();
        for (place, row) in listed.iter().enumerate() {
            let parent = &row["parent"];
            assert_eq!(place == 0, parent.is_null(), "{name}: {listed:?}");
            assert!(
                place == 0 || ids[..place].contains(&parent),
                "{name}: {listed:?}"
            );
        }
    }
}

#[test]
fn a_resume_without_the_changed_team_file_says_how_to_use_it() {
    let place = Workspace::with(&FAILS.replace(", attempts = [1]", ""));
    let failed = place.run().expect(3);
    let hint = "strata-host run team.toml --recover_path store";
    assert!(failed.stderr.contains(hint), "{}", failed.stderr);
    let unsaid = |told: &str| assert!(!told.contains("has changed since"), "{told}");
    unsaid(&failed.stderr);
    place.write("team.toml", FAILS);
    let again = place.resume().expect(3);
    let said = format!("`team.toml` has changed since; `{hint}` uses it\n");
    assert_eq!(again.stderr.matches(&said).count(), 1, "{}", again.stderr);
    unsaid(
        &place
            .host(&["run", "team.toml", "--recover_path", "store"])
            .expect(0)
            .stderr,
    );
    // Nothing depends on the team file any more.
    place.write("team.toml", "");
    unsaid(&place.resume().expect(0).stderr);
}

#[test]
fn an_idea_given_with_a_resume_is_ignored_with_a_warning() {
    let place = failed();
    let ended = place
        .host(&[
            "run",
            "another idea",
            "--recover_path",
            "store",
            "--events",
            "-",
        ])
        .expect(0);
    assert!(
        ended.stderr.contains("warning: the idea is ignored"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.team_json()["idea"], "go");
    let outputs =
        stream::of_kind(&ended.events(), "action-finished")[0]["output"]["content"].clone();
    assert_eq!(outputs, "two of go");
    stream::assert_one_idea(&place.recorded());
}

#[test]
fn resuming_a_finished_team_runs_nothing_and_changes_nothing() {
    let place = failed();
    place.resume().expect(0);
    let before = (place.read("store/team.json"), place.recorded());
    for args in [
        &["run", "--recover_path", "store"][..],
        &["run", "team.toml", "--recover_path", "store/team.json"],
    ] {
        let ended = place.host(&[args, &["--events", "-"]].concat()).expect(0);
        assert_eq!(ended.stdout, "");
        assert!(
            ended.stderr.contains("nothing is left to run"),
            "{}",
            ended.stderr
        );
        assert_eq!((place.read("store/team.json"), place.recorded()), before);
    }
}

#[test]
fn a_team_json_that_was_edited_beside_its_database_is_ignored_with_a_warning() {
    for finished in [false, true] {
        let place = failed();
        if finished {
            place.resume().expect(0);
        }
        let text = String::from_utf8(place.read("store/team.json")).unwrap();
        let edited = text.replace("\"idea\": \"go\"", "\"idea\": \"stay\"");
        assert_ne!(edited, text);
        place.write("store/team.json", &edited);
        let ended = place.resume().expect(0);
        assert!(
            ended
                .stderr
                .contains("differs from `team.db`, which is used"),
            "{}",
            ended.stderr
        );
        let expected = if finished { "stay" } else { "go" };
        assert_eq!(
            place.team_json()["idea"],
            expected,
            "a finished team's file is left alone"
        );
    }
}

/// A team with two `mirror` actions in sequence, after a role that sends more messages while they
/// are parked.
const MIRRORS: &str = r#"
schema = "strata.team/1"
[team]
name = "mirrors"
idea = "go"
on_fault = "park"
[env]
desc = "a hall"
[env.groups]
all = ["M", "Talker"]
[[role]]
name = "Talker"
watch = ["UserRequirement"]
[[role.action]]
name = "Talk"
component = "probe.wasm"
config = { steps = [{ emit = "first", to = ["M"], data = { b = 1, a = [2.50, "ü"] } }, { say = "second" }] }
[[role]]
name = "Repeater"
watch = ["Talk"]
[[role.action]]
name = "Repeat"
component = "probe.wasm"
config = { steps = [{ say = "late mail", to = ["M"] }] }
[[role]]
name = "M"
profile = "a mirror"
goal = "to show \"everything\""
constraints = "none\nat all"
watch = ["Talk"]
[[role.action]]
name = "Before"
component = "mirror.wasm"
config = { }
[[role.action]]
name = "Show"
component = "mirror.wasm"
config = { trap = ["1/M/1/2", "1/M/1/3"], wait = ["1/M/1/1", "1/M/1/4"] }
"#;

/// Returns the input of an attempt of `Show`, as written to its log.
fn given(ended: &Ended, attempt: u32) -> String {
    let begin = format!("given 1/M/1/{attempt} ");
    let told = ended
        .stderr
        .lines()
        .find_map(|line| line.split_once(&begin));
    let (_, text) =
        told.unwrap_or_else(|| panic!("attempt {attempt} told nothing:\n{}", ended.stderr));
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    values.next().unwrap().unwrap()
}

#[test]
fn every_attempt_of_an_action_receives_the_same_bytes() {
    let place = Workspace::with(MIRRORS);
    fs::copy(build("tests/mirror"), place.path("mirror.wasm")).unwrap();
    let show = |args: &[&str]| {
        let mut process = place.start(&[args, &["--events", "-"]].concat());
        while process.until("action-started", Some("M"))["action"] != "Show" {}
        // It waits at this call.
        process.until("host-call", Some("M"));
        process
    };
    // Killed, at fault, at fault again in another process, stopped; the last one resumes a copy of
    // `team.json` alone.
    let killed = show(&["run", "team.toml", "--storage", "store"]).kill();
    let faulted = [(); 2].map(|()| place.resume().expect(3));
    let stopped = show(&["run", "--recover_path", "store"]);
    stopped.signal(Signal::INT);
    let stopped = stopped.end().expect(130);
    fs::create_dir(place.path("cold")).unwrap();
    fs::rename(place.path("store/team.json"), place.path("cold/team.json")).unwrap();
    let ended = place
        .host(&["run", "--recover_path", "cold/team.json", "--events", "-"])
        .expect(0);

    let first = given(&killed, 1);
    for part in ["first", "second", "a mirror", "Before of 2 news", "ü"] {
        assert!(
            first.contains(part),
            "`{part}` is not in what was given:\n{first}"
        );
    }
    assert!(!first.contains("late mail"), "{first}");
    let later = [&faulted[0], &faulted[1], &stopped, &ended];
    for (attempt, ended) in (2..).zip(later) {
        assert_eq!(given(ended, attempt), first, "attempt {attempt}");
    }
    // Messages that arrived while it was parked are handled later, by another activation.
    let outputs: Vec<_> = stream::of_kind(&ended.events(), "action-finished")
        .iter()
        .map(|line| line["output"]["content"].clone())
        .collect();
    assert_eq!(
        outputs,
        ["Show of 2 news", "Before of 1 news", "Show of 1 news"]
    );
}

#[test]
fn a_component_without_a_predecessor_is_not_reported_as_changed() {
    let place = Workspace::with(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"One\"\ncomponent = \"probe.wasm\"\n",
    );
    let rc = "{ \"memory\": { \"storage\": [], \"index\": {}, \"ignore_id\": false }, \"state\": -1, \
              \"watch\": [\"UserRequirement\"], \"react_mode\": \"by_order\", \"max_react_loop\": 1 }";
    let role = format!(
        "{{ \"name\": \"A\", \"profile\": \"\", \"goal\": \"\", \"constraints\": \"\", \"desc\": \"\", \
         \"is_human\": false, \"states\": [\"0. One\"], \"actions\": [{{ \"name\": \"One\" }}], \"rc\": {rc}, \
         \"addresses\": [\"A\"], \"recovered\": false, \"latest_observed_msg\": null }}"
    );
    fs::create_dir(place.path("store")).unwrap();
    let env = format!("{{ \"desc\": \"\", \"roles\": {{ \"A\": {role} }}, \"history\": \"\" }}");
    place.write(
        "store/team.json",
        format!("{{ \"env\": {env}, \"investment\": 3.0, \"idea\": \"go\" }}"),
    );
    let ended = place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert!(!ended.stderr.contains("replaced"), "{}", ended.stderr);
}

#[test]
fn an_edited_copy_may_omit_fields_and_name_roles_by_their_profiles() {
    let team = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"RoleA\"\n\
                profile = \"Role A\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"a\"\n\
                component = \"probe.wasm\"\n[[role.action]]\nname = \"b\"\ncomponent = \"probe.wasm\"\n\
                config = { steps = [{ fail = \"trap\", attempts = [1] }] }\n";
    let place = Workspace::with(team);
    place.run().expect(3);
    let check = |edit: &dyn Fn(&mut Value)| {
        let mut saved = place.team_json();
        edit(&mut saved);
        let _ = fs::remove_dir_all(place.path("copy"));
        place.write("copy/team.json", saved.to_string());
        let events = place
            .host(&["run", "--recover_path", "copy", "--events", "-"])
            .expect(0)
            .events();
        assert_eq!(stream::actions(&events, "action-started"), ["RoleA.b"]);
    };
    let removed = |at: &'static str, keys: &'static [&'static str]| {
        move |saved: &mut Value| {
            let fields = saved.pointer_mut(at).unwrap().as_object_mut().unwrap();
            keys.iter().for_each(|key| drop(fields.remove(*key)));
        }
    };
    let rekeyed = |saved: &mut Value| {
        let roles = saved["env"]["roles"].as_object_mut().unwrap();
        let role = roles.remove("RoleA").unwrap();
        roles.insert("Role A".into(), role);
    };
    check(&removed("/strata", &["run_id"]));
    check(&|saved| saved["strata"]["run_id"] = Value::Null);
    check(&removed("/env/roles/RoleA", &["states", "actions"]));
    check(&removed("/strata/faults/0", &["kind"]));
    check(&rekeyed);
    check(&|saved| {
        rekeyed(saved);
        removed("/env/roles/Role A", &["name"])(saved);
    });
}

#[test]
fn an_edited_message_is_used_wherever_it_is_edited_in_a_copy() {
    let team = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\n\
                watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"a\"\ncomponent = \"probe.wasm\"\n\
                config = { steps = [{ say = \"from a\" }] }\n[[role]]\nname = \"B\"\nwatch = [\"a\"]\n[[role.action]]\n\
                name = \"b\"\ncomponent = \"probe.wasm\"\n\
                config = { steps = [{ fail = \"trap\", attempts = [1] }, { say = \"heard {inputs}\" }] }\n";
    let place = Workspace::with(team);
    place.run().expect(3);
    let edited = |pointers: &[&str], code: i32| {
        let mut saved = place.team_json();
        for (n, pointer) in (0..).zip(pointers) {
            let message = saved
                .pointer_mut(pointer)
                .unwrap_or_else(|| panic!("{pointer}"));
            message["content"] = format!("edited{}", "!".repeat(n)).into();
        }
        let _ = fs::remove_dir_all(place.path("copy"));
        place.write("copy/team.json", saved.to_string());
        place.host(&["run", "--recover_path", "copy"]).expect(code)
    };
    let listed = format!(
        "/strata/messages/{}",
        place.team_json()["strata"]["buffers"]["B"][0]
            .as_str()
            .unwrap()
    );
    let history = "/env/history/storage/1";
    let memory = "/env/roles/A/rc/memory/storage/1";
    for pointer in [
        &*listed,
        history,
        memory,
        "/env/roles/B/latest_observed_msg",
    ] {
        edited(&[pointer], 0);
        let saved: Value = serde_json::from_slice(&place.read("copy/team.json")).unwrap();
        for said in [
            &saved["env"]["history"]["storage"][1],
            saved.pointer(memory).unwrap(),
        ] {
            assert_eq!(said["content"], "edited", "{pointer}");
        }
        assert_eq!(
            saved["env"]["history"]["storage"][2]["content"], "heard edited",
            "{pointer}"
        );
    }
    let refused = edited(&[history, memory], 2).stderr;
    assert!(
        refused.contains("says something else of message") && refused.contains(memory),
        "{refused}"
    );
}

#[test]
fn a_fault_stays_open_until_its_action_is_tried_again() {
    let place = Workspace::with(
        &FAILS.replace("name = \"fails\"", "name = \"fails\"\non_fault = \"park\""),
    );
    place.write(
        "team.toml",
        String::from_utf8(place.read("team.toml")).unwrap()
            + "[[role]]\nname = \"C\"\n\
        watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"c\"\ncomponent = \"probe.wasm\"\n[[role]]\n\
        name = \"D\"\nwatch = [\"c\"]\n[[role.action]]\nname = \"d\"\ncomponent = \"probe.wasm\"\n",
    );
    place
        .host(&["run", "team.toml", "--storage", "store", "--max-steps", "1"])
        .expect(7);
    let open = place.team_json()["strata"]["faults"].clone();
    assert_eq!(
        (&open[0]["role"], &open[0]["kind"]),
        (&"A".into(), &"trap".into())
    );
    // Nothing may start, so nothing was tried.
    let again = place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--max-steps",
            "1",
            "--json",
        ])
        .expect(7);
    let told: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(
        (
            &told["faults"][0]["kind"],
            told["faults"].as_array().unwrap().len()
        ),
        (&"trap".into(), 1)
    );
    assert_eq!(place.team_json()["strata"]["faults"], open);
    let inspected = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        inspected.contains("trap: wasm `unreachable`"),
        "{inspected}"
    );
    // A `team.json` alone contains the fault, too.
    place.write("copy/team.json", place.read("store/team.json"));
    let copied = place
        .host(&[
            "run",
            "--recover_path",
            "copy",
            "--max-steps",
            "1",
            "--json",
        ])
        .expect(7);
    assert!(copied.stdout.contains("unreachable"), "{}", copied.stdout);
    place.resume().expect(0);
    assert_eq!(place.team_json()["strata"]["faults"], serde_json::json!([]));
}

#[test]
fn a_warning_is_shown_if_the_team_json_of_a_storage_was_edited() {
    let place = failed();
    let text = String::from_utf8(place.read("store/team.json")).unwrap();
    place.write(
        "store/team.json",
        text.replace("\"idea\": \"go\"", "\"idea\": \"stay\""),
    );
    let told = |args: &[&str], code: i32| {
        place
            .host(args)
            .expect(code)
            .stderr
            .contains("`team.json` in `store` differs from `team.db`")
    };
    for args in [
        &["inspect", "store"][..],
        &["inspect", "store/team.json"],
        &["checkpoints", "store"],
    ] {
        assert!(told(args, 0), "{args:?}");
    }
    assert!(told(&["fork", "store", "--at", "main-0"], 0));
    assert!(told(&["answer", "store", "nobody=1"], 2));
    assert!(told(&["send", "store", "--cause", "x", "hello"], 0));
    // The file was written again.
    assert!(!told(&["inspect", "store"], 0));
}

#[test]
fn a_copy_that_is_not_json_is_rejected_with_the_position() {
    let place = failed();
    let text = String::from_utf8(place.read("store/team.json")).unwrap();
    let deep = format!("\"deep\": {}{}", "[".repeat(130), "]".repeat(130));
    for (bad, part) in [
        ("\"idea\": 1, \"idea\": 2", "appears twice"),
        (&*deep, "recursion limit"),
        ("\"x\": 1e400", "out of range"),
    ] {
        place.write(
            "copy/team.json",
            text.replacen("{", &format!("{{{bad},"), 1),
        );
        for args in [&["inspect", "copy"][..], &["run", "--recover_path", "copy"]] {
            let stderr = place.host(args).expect(2).stderr;
            assert!(
                stderr.contains(part) && stderr.contains("line "),
                "{stderr}"
            );
        }
    }
}

//! Every kind of fault beside a healthy action, what the operator is shown, and that the suggested
//! command works.

use std::process::Command;

use serde_json::Value;

use crate::process::Signal;
use crate::stream::{self, text};
use crate::web::Web;
use crate::workspace::Workspace;

/// The name of a storage directory that must be quoted in a shell.
const STORAGE: &str = "./the team's $HOME";

/// The role, index, action and kind of each fault, and a part of its cause.
const FAULTS: [(&str, i32, &str, &str, &str); 11] = [
    ("Trap", 1, "Fails", "trap", "unreachable"),
    ("Error", 0, "Fails", "error", "told to fail"),
    ("Fuel", 0, "Fails", "fuel", "fuel"),
    ("Cpu", 0, "Fails", "cpu", "200"),
    ("Timeout", 0, "Fails", "timeout", "500"),
    ("Memory", 0, "Fails", "memory", "8"),
    ("Stack", 0, "Fails", "stack", "stack"),
    ("Invalid", 0, "Fails", "output-invalid", "object"),
    ("Denied", 0, "Fails", "denied", "/etc/passwd"),
    ("Host", 0, "Fails", "host", "20"),
    ("Think", -1, "think", "think", "unreachable"),
];

/// The roles without a fault.
const WELL: [&str; 4] = ["Sane", "Asker", "Writer", "Closer"];

/// Returns everything of a role that others can see.
fn traces(place: &Workspace, store: &str, role: &str) -> [Value; 4] {
    let team: Value = serde_json::from_slice(&place.read(&format!("{store}/team.json"))).unwrap();
    let role = role.to_owned();
    [
        team["env"]["roles"][&role]["rc"]["memory"].clone(),
        team["strata"]["state"]["role"][&role].clone(),
        team["strata"]["open"][&role]["at"].clone(),
        team["strata"]["buffers"][&role].clone(),
    ]
}

/// Returns the events of a role, in order: its calls, writes, outputs and messages, and their
/// recipients.
fn told(lines: &[Value], role: &str) -> Vec<Value> {
    // Only a resume reports that a saved result is used.
    let of_role = |line: &&Value| {
        (line["role"] == role || line["from"] == role) && line["kind"] != "action-replayed"
    };
    let strip = |line: &Value| {
        let mut line = line.clone();
        line.as_object_mut()
            .unwrap()
            .retain(|key, _| key != "n" && key != "time");
        line
    };
    lines.iter().filter(of_role).map(strip).collect()
}

#[test]
fn faults_do_not_affect_healthy_actions_beside_them() {
    let alone = Workspace::of("faults");
    let team = String::from_utf8(alone.read("team.toml")).unwrap();
    alone.write(
        "team.toml",
        team.split_once("# -- the roles that fail").unwrap().0,
    );
    let undisturbed = alone.run().expect(0).events();
    assert_eq!(stream::of_kind(&undisturbed, "action-finished").len(), 5);
    for on_fault in ["stop", "park"] {
        let place = Workspace::of("faults");
        place.write(
            "team.toml",
            team.replace("\"stop\"", &format!("\"{on_fault}\"")),
        );
        let mut lines = place.run().expect(3).events();
        assert_eq!(stream::of_kind(&lines, "action-failed").len(), FAULTS.len());
        let told_before: usize = WELL.iter().map(|role| told(&lines, role).len()).sum();
        lines.extend(place.resume().expect(0).events());
        for role in WELL {
            assert_eq!(
                told(&lines, role),
                told(&undisturbed, role),
                "{on_fault}: {role}"
            );
            assert_eq!(
                traces(&place, "store", role),
                traces(&alone, "store", role),
                "{on_fault}: {role}"
            );
        }
        let joined = stream::of_kind(&lines, "join-released");
        assert_eq!(
            joined[0]["messages"],
            stream::of_kind(&undisturbed, "join-released")[0]["messages"]
        );
        assert_eq!(place.read("out/text"), b"kept");
        if on_fault == "park" {
            let all: usize = WELL.iter().map(|role| told(&undisturbed, role).len()).sum();
            assert_eq!(told_before, all, "nobody waits for those that are at fault");
        }
        let lines = place.recorded();
        stream::assert_numbered(&lines);
        stream::assert_attempts_are_numbered(&lines);
        let started = stream::actions(&lines, "action-started");
        assert_eq!(
            started.iter().filter(|name| *name == "Trap.Fine").count(),
            1,
            "{started:?}"
        );
    }
}

#[test]
fn each_fault_is_reported_with_its_cause_and_a_command_that_resumes() {
    let place = Workspace::of("faults");
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            STORAGE,
            "--events",
            "events",
        ])
        .expect(3);
    for (role, index, action, kind, cause) in FAULTS {
        let at = if index < 0 {
            format!("`{action}`")
        } else {
            format!("action {index} `{action}`")
        };
        let place = format!("fault: {role} {at} attempt 1: {kind}: ");
        let line = ended.stderr.lines().find(|line| line.starts_with(&place));
        let line = line.unwrap_or_else(|| panic!("`{place}` is not in:\n{}", ended.stderr));
        assert!(
            line[place.len()..].contains(cause),
            "`{line}` does not tell `{cause}`"
        );
    }
    let told = stream::parse(&String::from_utf8(place.read("events")).unwrap());
    let failed = stream::of_kind(&told, "action-failed");
    let mut kinds: Vec<_> = failed
        .iter()
        .map(|line| (text(&line["role"]), text(&line["fault"])))
        .collect();
    let mut expected = FAULTS.map(|(role, _, _, kind, _)| (role, kind));
    kinds.sort_unstable();
    expected.sort_unstable();
    assert_eq!(kinds, expected);

    let command = ended.stderr.lines().last().unwrap_or_default().trim();
    assert!(
        command.starts_with("strata-host run --recover_path "),
        "{}",
        ended.stderr
    );
    let resumed = run_in_shell(&place, command);
    assert!(
        resumed.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&resumed.stderr)
    );
}

/// A team in which every role reaches a limit.
const LIMITED: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[limits]
cpu = "200ms"
[[role]]
name = "Spins"
watch = ["UserRequirement"]
[[role.action]]
name = "A"
component = "probe.wasm"
config = { steps = [{ fail = "spin" }] }
[[role]]
name = "Asks"
watch = ["UserRequirement"]
[[role.action]]
name = "A"
component = "probe.wasm"
config = { steps = [{ random = 900 }] }
[role.action.limits]
host_bytes = 600
[[role]]
name = "Grows"
watch = ["UserRequirement"]
[[role.action]]
name = "A"
component = "probe.wasm"
config = { steps = [{ fail = "flood-calls" }] }
[[role]]
name = "Talks"
watch = ["UserRequirement"]
[[role.action]]
name = "A"
component = "probe.wasm"
config = { steps = [{ fail = "big-output" }] }
"#;

#[test]
fn a_reached_limit_is_reported_with_the_line_to_change() {
    let place = Workspace::with(LIMITED);
    let ended = place.run().expect(3);
    let told = |text: &str| {
        assert!(
            ended.stderr.contains(text),
            "`{text}` is not in:\n{}",
            ended.stderr
        )
    };
    told("CPU limit of 200ms reached; raise `limits.cpu` (team.toml:6)");
    told(
        "limit of 600 bytes to and from the host reached in `random.bytes` (came to 908 bytes); raise `limits.host_bytes` (team.toml:22)",
    );
    told(
        "(came to 1025); raise `limits.host_calls` (add `limits = { host_calls = 2048 }`, team.toml:26)",
    );
    told("(came to 9 MiB); raise `limits.output` (add `limits = { output = \"12 MiB\" }`, ");
    // The lines about limits say what to increase. The only other advice is that the action may
    // loop.
    told("if the action loops without end, a higher limit does not help: fix the action");
    assert_eq!(
        ended.stderr.matches("how to fix it").count(),
        1,
        "{}",
        ended.stderr
    );
    told("# after changing the team file");

    let small = String::from_utf8(place.read("team.toml"))
        .unwrap()
        .replace("host_bytes = 600", "component = \"1KiB\"");
    place.write("team.toml", small);
    let refused = place.host(&["check", "team.toml"]).expect(2);
    assert!(
        refused
            .stderr
            .contains("its limit is 1 KiB; raise `limits.component` (team.toml:22)"),
        "{}",
        refused.stderr
    );
}

/// Runs a command line in a shell, as a user does who copies it.
fn run_in_shell(place: &Workspace, command: &str) -> std::process::Output {
    let host = place.command(&[]);
    let bin = place.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(host.get_program(), bin.join("strata-host")).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(place.path(""))
        .env("PATH", std::env::join_paths(paths).unwrap());
    shell.envs(
        host.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.output().unwrap()
}

#[test]
fn the_commands_suggested_by_a_failed_fork_resume_the_fork() {
    let place = Workspace::of("fan-in");
    place.run().expect(3);
    let listed = place
        .host(&["checkpoints", "store", "--json"])
        .expect(0)
        .stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let newest = text(&listed.as_array().unwrap().last().unwrap()["id"]).to_owned();
    let made = place.host(&["fork", "store", "--at", "main-1"]).expect(0);
    let fork = made.stdout.trim_end();
    let failed = place
        .host(&["run", "--recover_path", "store", "--checkpoint", fork])
        .expect(3)
        .stderr;
    let commands: Vec<&str> = failed
        .lines()
        .filter(|line| line.starts_with("  strata-host run "))
        .collect();
    assert!(
        commands.len() > 1
            && commands
                .iter()
                .all(|line| line.contains(" --checkpoint main.1-")),
        "{failed}"
    );
    // Without the checkpoint, they would continue the lineage from which the fork was made.
    place
        .host(&["run", "--recover_path", "store", "--checkpoint", &newest])
        .expect(0);
    assert_eq!(place.team_json()["strata"]["lineage"], "main");
    let shell = run_in_shell(&place, commands.last().unwrap());
    let stderr = String::from_utf8_lossy(&shell.stderr);
    assert_eq!(shell.status.code(), Some(0), "{stderr}");
    let team = place.team_json();
    assert_eq!(
        (
            text(&team["strata"]["lineage"]),
            text(&team["strata"]["status"])
        ),
        ("main.1", "done"),
        "{stderr}"
    );
}

#[test]
fn a_fault_belongs_to_the_step_in_which_it_happened_whenever_its_role_began() {
    let role = |name: &str, watch: &str, steps: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"{watch}\"]\n[[role.action]]\nname = \"{name}Acts\"\ncomponent = \
             \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n"
        )
    };
    let roles = [
        role(
            "A",
            "UserRequirement",
            r#"{ ask = "go on?" }, { fail = "trap" }"#,
        ),
        role("B", "UserRequirement", r#"{ say = "b" }"#),
    ];
    let head = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n";
    let place = Workspace::with(&format!("{head}{}", roles.concat()));
    place.run().expect(4);
    let id = place.team_json()["strata"]["requests"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = format!("{id}=\"yes\"");
    let ended = place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--answer",
            &answer,
            "--json",
        ])
        .expect(3);
    let step = place
        .recorded()
        .iter()
        .rfind(|line| line["kind"] == "action-failed")
        .unwrap()["step"]
        .clone();
    assert_ne!(step, 0);
    assert!(
        ended.stderr.contains(&format!("failed at step {step}")),
        "{}",
        ended.stderr
    );
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (
            &told["faults"][0]["step"],
            &place.team_json()["strata"]["faults"][0]["step"]
        ),
        (&step, &step)
    );
}

#[test]
fn a_fault_and_a_doubt_take_precedence_over_a_used_up_budget() {
    let web = Web::new();
    let post = format!(
        "{{ http = \"http://127.0.0.1:{}/v1/slam\", method = \"POST\", body = \"x\" }}",
        web.port()
    );
    let cases = [
        ("{ fail = \"trap\" }", 3, " --component B.b=FIXED.wasm"),
        (&post, 10, " --in-doubt redo"),
    ];
    for (step, code, way) in cases {
        let role = |name: &str, steps: &str| {
            format!(
                "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"{}\"\n\
                 component = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n[role.action.allow]\n\
                 llm = {{ models = [\"*\"] }}\nhttp = [{{ host = \"127.0.0.1:{}\", methods = [\"POST\"] }}]\n",
                name.to_lowercase(),
                web.port()
            )
        };
        let team = [
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\ninvestment = 1\n[llm]\n",
            "provider = \"scripted\"\nreplies = \"replies.toml\"\nprice = { input = 100000, output = 100000 }\n",
            &role("A", "{ llm = \"1\" }, { llm = \"2\" }"),
            &role("B", step),
        ];
        let place = Workspace::with(&team.concat());
        place.write(
            "replies.toml",
            "[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\n",
        );
        let stopped = place.run().expect(code);
        let broke = "out of budget: spent $1.0000 of $1.0000; to continue there, resume with:\n  --investment USD";
        for told in [way, broke] {
            assert!(
                stopped.stderr.contains(told),
                "`{told}` is not in:\n{}",
                stopped.stderr
            );
        }
    }
}

#[test]
fn an_interrupted_choice_is_reported_and_saved() {
    let place = Workspace::with(
        r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "react"
think = { component = "probe.wasm", config = { steps = [{ sleep = "60s" }, { choose = [-1] }] } }
[[role.action]]
name = "a"
component = "probe.wasm"
"#,
    );
    let mut process = place.start_run(&[]);
    process.until("plugin-instantiated", Some("A"));
    process.signal(Signal::INT);
    process.end().expect(130);
    let (all, team) = (place.recorded(), place.team_json());
    let (told, saved) = (
        stream::of_kind(&all, "action-failed")[0].clone(),
        team["strata"]["faults"][0].clone(),
    );
    assert_eq!(
        (&told["fault"], &saved["kind"]),
        (&"interrupted".into(), &"interrupted".into())
    );
    assert_eq!(told["message"], saved["message"]);
}

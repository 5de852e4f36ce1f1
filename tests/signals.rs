//! Signals and the lock: Ctrl-C, SIGTERM, a second process, and a killed process.

use std::time::Duration;

use crate::process::{Process, Signal};
use crate::stream;
use crate::workspace::Workspace;

/// A team whose second action waits in its first attempt, longer than any test.
const WAITS: &str = r#"
schema = "strata.team/1"
[team]
name = "waits"
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
config = { steps = [{ HOW, attempts = [1] }] }
"#;

/// Has a program start a run. Whether a process ignores SIGHUP, it has from the process that started it.
fn start_by(program: &[&str], place: &Workspace) -> Process {
    let run = place.command(&["run", "team.toml", "--storage", "store", "--events", "-"]);
    let mut command = std::process::Command::new(program[0]);
    command
        .args(&program[1..])
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(place.path("."));
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Process::spawn(command)
}

/// Starts a run and waits for its second action, which executes this step.
fn waiting(how: &str) -> (Workspace, Process) {
    // SIGHUP is not ignored, even if that is so here.
    started_and_waiting(&["env", "--default-signal=HUP"], how)
}

/// Has a program start a run, and waits for its second action, which executes this step.
fn started_and_waiting(program: &[&str], how: &str) -> (Workspace, Process) {
    let place = Workspace::with(&WAITS.replace("HOW", how));
    let mut process = start_by(program, &place);
    while process.until("action-started", Some("A"))["action"] != "Two" {}
    (place, process)
}

/// Checks that a resume ends as done and runs only the second action.
#[track_caller]
fn assert_resumes(place: &Workspace) {
    let ended = place.resume().expect(0);
    let lines = ended.events();
    assert_eq!(stream::actions(&lines, "action-started"), ["A.Two"]);
    assert_eq!(stream::of_kind(&lines, "action-started")[0]["attempt"], 2);
    let all = place.recorded();
    stream::assert_numbered(&all);
    stream::assert_one_idea(&all);
}

#[test]
fn a_run_that_was_started_to_outlive_its_terminal_does_so() {
    let (_place, process) = started_and_waiting(&["nohup"], "sleep = \"1s\"");
    process.signal(Signal::HUP);
    process.end().expect(0);
}

#[test]
fn the_first_signal_saves_and_ends_the_run_with_its_exit_code() {
    let cases = [
        (Signal::INT, 130, "sleep = \"90s\""),
        (Signal::TERM, 143, "sleep = \"90s\""),
        // Its terminal was closed.
        (Signal::HUP, 129, "sleep = \"90s\""),
        // A guest that never returns is stopped as well.
        (Signal::INT, 130, "fail = \"spin\""),
    ];
    for (signal, code, how) in cases {
        let (place, process) = waiting(how);
        process.signal(signal);
        let ended = process.end().expect(code);
        assert!(
            ended.stderr.contains("interrupted at step 0"),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("run --recover_path store"),
            "{}",
            ended.stderr
        );
        // It is not a fault.
        assert!(
            ended.stderr.contains(" stopped  before it ended\n"),
            "{}",
            ended.stderr
        );
        assert!(
            !ended.stderr.contains("FAILED") && !ended.stderr.contains("fault:"),
            "{}",
            ended.stderr
        );
        let lines = ended.events();
        assert_eq!(
            stream::of_kind(&lines, "action-failed")[0]["fault"],
            "interrupted"
        );
        assert_eq!(lines.last().unwrap()["status"], "interrupted");
        let shown = place.host(&["inspect", "store"]).expect(0).stdout;
        assert!(shown.contains(": interrupted (attempts "), "{shown}");
        assert!(
            !shown.contains("FAILED") && !shown.contains("\nfaults\n"),
            "{shown}"
        );
        let team = place.team_json();
        assert_eq!(team["strata"]["status"], "interrupted");
        assert_eq!(team["env"]["roles"]["A"]["rc"]["state"], 1);
        assert_resumes(&place);
    }
}

#[test]
fn a_run_that_is_kept_alive_and_stopped_while_it_waits_ends_as_it_would_have_without_waiting() {
    let place = Workspace::with(&WAITS.replace("HOW", "ask = \"who?\""));
    let mut process = place.start_run(&["--keep-alive"]);
    process.until("request-opened", None);
    // By then it has been waiting for a long time.
    std::thread::sleep(Duration::from_millis(300));
    process.signal(Signal::TERM);
    process.end().expect(4);
    assert_eq!(place.team_json()["strata"]["status"], "waiting");
}

#[test]
fn the_second_signal_ends_the_process_at_once_and_nothing_is_lost() {
    // Nobody reads its stdout, so it blocks while it writes an event, and cannot handle the first
    // signal.
    let long = "x".repeat(200_000);
    let place = Workspace::with(&WAITS.replace("HOW", &format!("say = \"{long}\"")));
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Two" {}
    let recorded = || {
        place
            .recorded()
            .iter()
            .any(|line| line["kind"] == "action-finished" && line["action"] == "Two")
    };
    while !recorded() {}
    process.signal(Signal::INT);
    // Pending signals of the same kind are delivered once, so the second signal is of another kind.
    process.signal(Signal::TERM);
    let code = process.wait_without_reading();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    let ended = place.resume().expect(0);
    assert_eq!(stream::actions(&ended.events(), "action-started"), [""; 0]);
    let all = place.recorded();
    stream::assert_numbered(&all);
    assert_eq!(stream::actions(&all, "action-started"), ["A.One", "A.Two"]);
}

#[test]
fn a_second_process_is_rejected_with_the_owner_of_the_storage() {
    let (place, process) = waiting("sleep = \"90s\"");
    let pid = format!("process {}", process.pid());
    let writing: [&[&str]; 3] = [
        &["run", "--recover_path", "store"],
        &["run", "team.toml", "--storage", "store"],
        &["run", "team.toml", "--storage", "store", "--force"],
    ];
    for args in writing {
        let ended = place.host(args).expect(9);
        assert!(ended.stderr.contains(&pid), "{args:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("`store`"),
            "{args:?}: {}",
            ended.stderr
        );
    }
    // The owner of the team receives the message and records it.
    place
        .host(&["send", "store", "--cause", "Note", "hello"])
        .expect(0);
    let reading: [&[&str]; 4] = [
        &["inspect", "store"],
        &["inspect", "store", "--json"],
        &["events", "store"],
        &["checkpoints", "store"],
    ];
    for args in reading {
        assert!(!place.host(args).expect(0).stdout.is_empty(), "{args:?}");
    }
    process.signal(Signal::INT);
    process.end().expect(130);
    assert_resumes(&place);
}

#[test]
fn a_lock_left_by_a_killed_process_is_taken_over() {
    let (place, process) = waiting("sleep = \"90s\"");
    let ended = process.kill();
    assert_eq!(ended.signal, Some(9));
    assert!(
        place.path("store/team.lock").exists(),
        "a killed process leaves its lock"
    );
    assert_resumes(&place);
    assert!(!place.path("store/team.lock").exists());
}

#[test]
fn a_stop_while_a_file_cannot_be_placed_saves_the_rest_and_reports_why() {
    let role = |name: &str, step: &str| {
        format!(
            "[[role]]\nname = '{name}'\nwatch = ['UserRequirement']\n[[role.action]]\nname = 'act'\n\
             component = 'probe.wasm'\nconfig = {{ steps = [{step}] }}\n\
             allow = {{ dirs = [{{ host = 'out', guest = '/out', write = true }}] }}\n"
        )
    };
    let head = "schema = 'strata.team/1'\n[team]\nname = 't'\nidea = 'go'\n".to_owned();
    let place = Workspace::with(
        &(head
            + &role("W", "{ write = '/out/f', text = 'hello' }")
            + &role("S", "{ sleep = '90s' }")),
    );
    let mut process = place.start_run(&[]);
    process.until("action-finished", Some("W"));
    // The directory is created with the first file that is placed there.
    let _ = std::fs::remove_dir_all(place.path("out"));
    place.write("out", "in the way");
    process.signal(Signal::TERM);
    let ended = process.end().expect(1);
    assert!(
        ended.stderr.contains("out/f") && !ended.stderr.contains("does not fit"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.team_json()["strata"]["status"], "interrupted");
    std::fs::remove_file(place.path("out")).unwrap();
    let change = std::fs::read_to_string(place.path("team.toml"))
        .unwrap()
        .replace("90s", "1ms");
    place.write("team.toml", change);
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(place.read("out/f"), b"hello");
}

/// Returns a team with a role that publishes very many messages, whose routes have many conditions.
fn team_with_many_messages() -> String {
    let tags = vec!["\"a\""; 300].join(",");
    let steps = vec![format!("{{ emit = \"x\", data = {{ tags = [{tags}] }} }}"); 1000].join(",");
    let arm = |i: usize| {
        format!("{{ when = \"data.tags.exists(t, t.matches('^[a-z]+{i}$'))\", to = [\"B\"] }}")
    };
    let arms: Vec<String> = (0..20).map(arm).collect();
    WAITS.replace("config = { steps = [{ HOW, attempts = [1] }] }", "")
        + &format!(
            "config = {{ steps = [{steps}] }}\n[[role]]\nname = \"B\"\nwatch = []\n[[role.action]]\nname = \"Wait\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{{ sleep = \"90s\" }}] }}\n\
             [[route]]\nfrom = \"A\"\ncase = [{}]\ndefault = [\"B\"]\n",
            arms.join(",")
        )
}

#[test]
fn evaluating_conditions_has_a_budget_and_can_be_interrupted() {
    let place = Workspace::with(&team_with_many_messages());
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Two" {}
    // The messages are published and routed a while later. If that has not begun or is over, the
    // signal arrives while the run waits.
    std::thread::sleep(Duration::from_secs(3));
    process.signal(Signal::TERM);
    let asked = std::time::Instant::now();
    process.end().expect(143);
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    let mut process = place.start(&["run", "--recover_path", "store", "--events", "-"]);
    // Now they are routed completely.
    while process.until("action-started", Some("B"))["action"] != "Wait" {}
    process.signal(Signal::TERM);
    process.end().expect(143);
}

#[test]
fn a_run_that_another_process_took_over_records_nothing_more() {
    let (place, process) = waiting("sleep = \"90s\"");
    // Another process takes the lock for a stale one.
    std::fs::remove_file(place.path("store/team.lock")).unwrap();
    place
        .host(&["send", "store", "--cause", "Nobody", "hello"])
        .expect(0);
    let events = place.recorded();
    let team_json = place.read("store/team.json");
    process.signal(Signal::INT);
    let ended = process.end().expect(9);
    let why = "`store` was taken over by another process";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    assert_eq!(place.recorded(), events);
    assert_eq!(place.read("store/team.json"), team_json);
    assert_resumes(&place);
}

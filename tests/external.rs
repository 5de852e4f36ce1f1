//! The environment outside of a team: `[env.external]` with a program and over HTTP.

mod answers;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Signal;
use crate::stream;
use crate::workspace::Workspace;

/// A team that writes to alice and handles her answer.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[env.external]
EXTERNAL
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = { steps = [{ emit = "for alice", to = ["alice", "B"], cause = "note" }] }
[[role.action]]
name = "q"
component = "probe.wasm"
config = { steps = [{ HOW, attempts = [1] }] }
[[role]]
name = "B"
watch = ["Answer"]
[[role.action]]
name = "hear"
component = "probe.wasm"
config = { steps = [{ say = "heard {inputs}" }] }
"#;

const STDIO: &str = "kind = \"stdio\"\ncommand = [\"sh\", \"bridge.sh\"]";

/// A program that records what it receives and answers each line.
const BRIDGE: &str = r#"while IFS= read -r line; do
    printf '%s\n' "$line" >> got.txt
    printf '{"content":"hello","cause_by":"Answer","sent_from":"alice","id":"a1"}\n'
done
"#;

fn place(external: &str, how: &str) -> Workspace {
    let place = Workspace::with(&TEAM.replace("EXTERNAL", external).replace("HOW", how));
    place.write("bridge.sh", BRIDGE);
    place
}

fn got(place: &Workspace) -> Vec<Value> {
    let text = String::from_utf8(place.read("got.txt")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the contents of the messages that B received.
fn heard(place: &Workspace) -> Vec<String> {
    let all = place.recorded();
    let finished = stream::of_kind(&all, "action-finished")
        .into_iter()
        .filter(|line| line["role"] == "B");
    finished
        .map(|line| stream::text(&line["output"]["content"]).to_owned())
        .collect()
}

#[test]
fn a_message_to_the_outside_is_sent_once_and_the_answer_is_routed() {
    let place = place(STDIO, "fail = \"trap\"");
    place.run().expect(3);
    assert!(
        !place.path("got.txt").exists(),
        "what a failed activation emits is not published"
    );
    let resumed = place.resume().expect(0);
    let got = got(&place);
    assert_eq!(got.len(), 1);
    assert_eq!(
        (&got[0]["content"], &got[0]["to"]),
        (&"for alice".into(), &serde_json::json!(["alice"]))
    );
    assert_eq!(got[0]["sent_from"], "A");
    assert_eq!(heard(&place), ["heard for alice", "heard hello"]);
    let handed = stream::of_kind(&resumed.events(), "message-handed-over").len();
    assert_eq!(handed, 1);
    let team = place.team_json();
    assert_eq!(team["strata"]["outbox"], serde_json::json!([]));
    assert_eq!(team["strata"]["dead_letters"], serde_json::json!([]));
}

#[test]
fn a_conversation_continues_however_long_an_answer_takes() {
    let team = TEAM
        .replace("EXTERNAL", STDIO)
        .replace("HOW", "now = true")
        .replace("watch = [\"Answer\"]", "watch = []");
    let place = Workspace::with(
        &team.replace("[\"UserRequirement\"]", "[\"UserRequirement\", \"Answer\"]"),
    );
    for thinks in ["0", "1"] {
        place.write(
            "bridge.sh",
            BRIDGE.replace("do\n", &format!("do\n    sleep {thinks}\n")),
        );
        let storage = format!("store{thinks}");
        let ended = place
            .host(&[
                "run",
                "team.toml",
                "--storage",
                &storage,
                "--max-steps",
                "6",
            ])
            .expect(7);
        assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
        place
            .host(&["run", "--recover_path", &storage, "--max-steps", "10"])
            .expect(7);
    }
    assert!(got(&place).len() >= 2 * 5, "{}", got(&place).len());
}

#[test]
fn a_message_from_outside_with_a_known_key_is_not_published_again() {
    let place = place(STDIO, "now = true");
    let twice = r#"    for again in 1 2; do printf '{"content":"hello","cause_by":"Answer","meta_info":{"idempotency_key":"a1"}}\n'; done
done"#;
    let (reads, _) = BRIDGE.split_once("    printf '{").unwrap();
    place.write("bridge.sh", format!("{reads}{twice}"));
    place.run().expect(0);
    assert_eq!(heard(&place), ["heard for alice", "heard hello"]);
}

#[test]
fn a_message_from_outside_without_a_recipient_is_reported() {
    let check = |line: &str, told: &str, said: &[&str]| {
        let place = place(STDIO, "now = true");
        place.write("bridge.sh", format!("read -r line; printf '{line}\\n'"));
        let ended = place.run().expect(0);
        assert!(ended.stderr.contains(told), "`{told}`: {}", ended.stderr);
        assert_eq!(
            ended.stderr.contains("reached no mailbox"),
            told.contains("reached no mailbox"),
            "{}",
            ended.stderr
        );
        assert_eq!(heard(&place)[1..], *said, "{line}");
    };
    let nothing = "reached no mailbox: it has no `cause_by`, and names nobody in `to`; it has no `content`, either: {";
    check(r#"{"contnt":"x"}"#, nothing, &[]);
    check("{}", nothing, &[]);
    let unknown = "reached no mailbox: nobody watches its `cause_by`, `Anser`, and it names nobody in `to`: {";
    check(r#"{"content":"x","cause_by":"Anser"}"#, unknown, &[]);
    check(
        r#"{"content":"x","cause_by":"Anser","to":["B"]}"#,
        "",
        &["heard x"],
    );
    check(
        "[1]",
        "is no message and was dropped: it is a list, expected an object",
        &[],
    );
}

#[test]
fn a_failure_of_the_external_program_is_reported() {
    let place = place(
        "kind = \"stdio\"\ncommand = [\"sh\", \"-c\", \"read line; exit 5\"]",
        "now = true",
    );
    let ended = place.run().expect(0);
    let told = "the external program ended with exit status: 5; what it was told last it may not have read";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn an_external_program_that_ends_without_reading_its_input_is_reported() {
    // A program that ends before everything is sent, one that ends afterwards, and one that reads
    // and does not answer.
    let cases = [
        ("sleep 0.2", "", true),
        ("sleep 1", "", true),
        ("cat > all.txt", "all.txt", false),
    ];
    for (does, reads, told) in cases {
        let place = place(
            &format!("kind = \"stdio\"\ncommand = [\"sh\", \"-c\", \"{does}\"]"),
            "now = true",
        );
        let ended = place.run().expect(0);
        assert_eq!(
            ended
                .stderr
                .contains("what it was told last it may not have read"),
            told,
            "{does}: {}",
            ended.stderr
        );
        assert!(reads.is_empty() || !place.read(reads).is_empty());
    }
}

#[test]
fn a_message_that_could_not_be_sent_is_sent_by_a_resume_with_the_same_id() {
    let place = place("kind = \"stdio\"\ncommand = [\"./missing\"]", "now = true");
    let failed = place.run().expect(3);
    let told = [
        "could not be handed over",
        "see `[env.external]` (team.toml:8)",
        "run team.toml --recover_path store",
    ];
    told.iter()
        .for_each(|part| assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr));
    let checked = place.host(&["check", "team.toml"]).expect(0).stderr;
    assert!(
        checked.contains("missing`, and there is no such program that may be run (team.toml:8)"),
        "{checked}"
    );
    assert!(
        failed.stderr.contains("cannot start `"),
        "{}",
        failed.stderr
    );
    let id = place.team_json()["strata"]["outbox"][0]["message"].clone();
    place.write(
        "team.toml",
        TEAM.replace("EXTERNAL", STDIO).replace("HOW", "now = true"),
    );
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(got(&place)[0]["id"], id);
}

#[test]
fn after_a_kill_a_message_is_sent_again_with_the_same_id() {
    let place = place(STDIO, "now = true");
    // A program that reads a line and never answers.
    place.write("bridge.sh", "cat >> got.txt");
    let mut process = place.start_run(&[]);
    process.until("step-committed", None);
    process.kill();
    place.write("bridge.sh", BRIDGE);
    place.resume().expect(0);
    let ids: Vec<_> = got(&place).iter().map(|line| line["id"].clone()).collect();
    assert!(
        !ids.is_empty() && ids.iter().all(|id| *id == ids[0]),
        "{ids:?}"
    );
}

#[test]
fn over_http_messages_are_posted_and_answers_come_back_as_a_list() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for status in ["500 Down", "200 OK"] {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream);
            let (mut head, mut length) = (String::new(), 0);
            while lines.read_line(&mut head).unwrap() > 2 {
                let line = head.lines().last().unwrap_or_default().to_lowercase();
                length = line
                    .strip_prefix("content-length: ")
                    .map_or(length, |n| n.parse().unwrap());
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body).unwrap();
            requests.push((head, body));
            let answer =
                r#"[{"content":"by post","cause_by":"Answer"},{"content":"x","send_to":["bob"]}]"#;
            let (length, mut stream) = (answer.len(), lines.into_inner());
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            )
            .unwrap();
        }
        requests
    });
    let place = place(&format!("kind = \"http\"\nurl = \"{url}\""), "now = true");
    let ended = place.run().expect(0);
    let requests = server.join().unwrap();
    assert_eq!(requests[0].1, requests[1].1);
    let message: Value = serde_json::from_slice(&requests[1].1).unwrap();
    let team = place.team_json();
    let key = format!(
        "idempotency-key: {}/{}\r\n",
        stream::text(&team["strata"]["run_id"]),
        stream::text(&message["id"])
    );
    assert!(
        requests
            .iter()
            .all(|(head, _)| head.to_lowercase().contains(&key)),
        "{}",
        requests[0].0
    );
    assert_eq!(heard(&place), ["heard for alice", "heard by post"]);
    // Messages from outside are not sent back.
    assert_eq!(
        stream::of_kind(&ended.events(), "dead-letter")[0]["to"],
        "bob"
    );
}

/// Starts a server that rejects a number of requests and accepts later ones. Returns its address
/// and a counter of requests.
fn down(times: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let posted = Arc::new(AtomicUsize::new(0));
    let count = posted.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let status = if count.fetch_add(1, Ordering::Relaxed) < times {
                "503 Down"
            } else {
                "200 OK"
            };
            let _ = stream.read(&mut [0; 64 << 10]);
            let head = "retry-after: 0\r\ncontent-length: 0\r\nconnection: close";
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n");
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (url, posted)
}

#[test]
fn messages_to_an_unavailable_server_are_retried_while_the_team_is_kept_alive() {
    let (url, posted) = down(9);
    let place = place(&format!("kind = \"http\"\nurl = \"{url}\""), "now = true");
    let ended = place.run().expect(3);
    assert!(
        ended
            .stderr
            .contains("the server answered 503 Service Unavailable; it is tried again in"),
        "{}",
        ended.stderr
    );
    assert_eq!(posted.load(Ordering::Relaxed), 5);
    let mut process = place.start(&[
        "run",
        "--recover_path",
        "store",
        "--keep-alive",
        "--events",
        "-",
    ]);
    process.until("message-handed-over", None);
    process.signal(Signal::INT);
    process.end().expect(0);
    assert_eq!(posted.load(Ordering::Relaxed), 10);
}

/// Starts a server that answers each request after a delay. Returns its address and a counter of
/// requests.
fn slow() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let posted = Arc::new(AtomicUsize::new(0));
    let count = posted.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1500));
            let answer = r#"[{"content":"late","cause_by":"Answer"}]"#;
            let length = answer.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            );
        }
    });
    (url, posted)
}

#[test]
fn a_message_that_is_being_sent_is_not_interrupted_by_the_end_of_the_run() {
    let (url, posted) = slow();
    let external = format!("kind = \"http\"\nurl = \"{url}\"");
    let place = place(&external, "now = true");
    let whole = place.read("team.toml");
    // B has mail at once, and fails while the message is being sent.
    let failing = TEAM.replace("{ say = \"heard", "{ fail = \"trap\" }, { say = \"heard");
    place.write(
        "team.toml",
        failing
            .replace("EXTERNAL", &external)
            .replace("HOW", "now = true"),
    );
    place.run().expect(3);
    place.write("team.toml", whole);
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(posted.load(Ordering::Relaxed), 1);
    assert_eq!(heard(&place).last().map(String::as_str), Some("heard late"));
}

#[test]
fn a_message_that_is_being_sent_is_not_interrupted_by_a_signal() {
    let (url, posted) = slow();
    let place = place(&format!("kind = \"http\"\nurl = \"{url}\""), "now = true");
    let process = place.start_run(&[]);
    while posted.load(Ordering::Relaxed) == 0 {}
    process.signal(Signal::INT);
    process.end();
    place.resume().expect(0);
    assert_eq!(posted.load(Ordering::Relaxed), 1);
    assert_eq!(heard(&place).last().map(String::as_str), Some("heard late"));
}

#[test]
fn an_external_program_that_writes_constantly_does_not_block_others() {
    let place = place(STDIO, "now = true");
    place.write(
        "bridge.sh",
        "while :; do echo '{\"content\":\"and\",\"cause_by\":\"noise\"}'; done",
    );
    let process = place.start(&[
        "run",
        "team.toml",
        "--storage",
        "store",
        "--keep-alive",
        "--quiet",
        "--events",
        "events",
    ]);
    let has_begun =
        || fs::read_to_string(place.path("events")).is_ok_and(|told| told.contains("noise"));
    while !has_begun() {}
    place
        .host(&["send", "store", "--cause", "Answer", "listen"])
        .expect(0);
    process.signal(Signal::INT);
    process.wait_without_reading();
}

#[test]
fn an_external_program_that_writes_constantly_does_not_prevent_the_end_of_a_run() {
    let place = place(STDIO, "now = true");
    place.write(
        "bridge.sh",
        "while :; do echo '{\"content\":\"and\",\"cause_by\":\"noise\"}'; sleep 0.1; done",
    );
    place
        .host(&["run", "team.toml", "--storage", "store", "--max-steps", "1"])
        .expect(7);
}

#[test]
fn children_of_the_external_program_do_not_prevent_the_end_of_a_run() {
    // The program leaves a child that keeps its output open, and writes to it for a while or not at
    // all.
    for left in ["sleep 30", "while :; do echo; sleep 0.01; done"] {
        let place = place(STDIO, "now = true");
        let answer = r#"{"content":"hello","cause_by":"Answer"}"#;
        let bridge = format!(
            "read -r line\n({left}) 2> /dev/null &\necho $! > left\necho '{answer}'\nprintf '{answer}'\n"
        );
        place.write("bridge.sh", bridge);
        let begun = Instant::now();
        let ended = place.run().expect(0);
        let took = begun.elapsed();
        let id = String::from_utf8(place.read("left")).unwrap();
        let id = rustix::process::Pid::from_raw(id.trim().parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(id, Signal::KILL);
        assert!(took < Duration::from_secs(20), "{left}: {took:?}");
        assert_eq!(heard(&place).last().unwrap(), "heard hello");
        let count = place
            .recorded()
            .iter()
            .filter(|line| line["cause_by"] == "Answer")
            .count();
        assert_eq!(count, 2, "all that the program wrote is read");
        let told = "a process that it started holds its output open";
        assert!(ended.stderr.contains(told), "{left}: {}", ended.stderr);
    }
}

/// A program that needs some time for each line.
const THOUGHTFUL: &str = r#"while IFS= read -r line; do
    printf '%s\n' "$line" >> got.txt
    sleep 0.4
    printf '{"content":"hello","cause_by":"Answer","sent_from":"alice","id":"a1"}\n'
done
"#;

/// Runs a team that sends three messages to such a program, ends it in the given way, and resumes
/// it.
fn send_three_messages(end: impl Fn(&Workspace)) -> Workspace {
    let place = place(STDIO, "now = true");
    place.write("bridge.sh", THOUGHTFUL);
    let more = "{ emit = \"more\", to = [\"alice\"], cause = \"note\" }";
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write(
        "team.toml",
        text.replace(
            "cause = \"note\" }",
            &format!("cause = \"note\" }}, {more}, {more}"),
        ),
    );
    end(&place);
    place.resume().expect(0);
    place
}

#[test]
fn the_external_program_reads_its_input_before_the_run_ends() {
    let by_signal = |place: &Workspace| {
        let mut process = place.start_run(&[]);
        process.until("message-handed-over", None);
        process.signal(Signal::INT);
        process.end();
    };
    let by_limit = |place: &Workspace| {
        place
            .host(&["run", "team.toml", "--storage", "store", "--max-steps", "1"])
            .expect(7);
    };
    std::thread::scope(|scope| {
        for end in [&by_signal as &(dyn Fn(&Workspace) + Sync), &by_limit] {
            scope.spawn(move || {
                let place = send_three_messages(end);
                assert_eq!(got(&place).len(), 3);
                let heard = heard(&place).concat();
                assert_eq!(heard.matches("hello").count(), 3, "{heard}");
            });
        }
    });
}

#[test]
fn a_run_that_is_stopped_twice_ends_the_external_program() {
    let does = "sh -c 'echo $$ > child; exec sleep 600' & while true; do sleep 1; done";
    let place = place(
        &format!("kind = \"stdio\"\ncommand = [\"sh\", \"-c\", \"{does}\"]"),
        "now = true",
    );
    let process = place.start(&["run", "team.toml", "--storage", "store", "--keep-alive"]);
    let child = || {
        fs::read_to_string(place.path("child"))
            .ok()
            .and_then(|pid| pid.trim().parse::<i32>().ok())
    };
    let begun = Instant::now();
    while child().is_none() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let lives = |pid: i32| {
        Path::new("/proc")
            .join(pid.to_string())
            .join("exe")
            .exists()
    };
    let pid = child().expect("it was started");
    process.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    process.signal(Signal::INT);
    process.end().expect(130);
    while lives(pid) && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!lives(pid));
}

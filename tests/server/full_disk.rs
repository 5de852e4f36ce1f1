//! A server that cannot record anything because its disk is full or fails: it says so. While the disk is full, it goes on
//! with what it can do, and with everything once there is space; if the disk fails, it ends.
//! Where no small disk can be mounted, the test is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use strata_host::blob::digest_of;

use super::client::{Answer, TestServer};
use super::killed::{TEAM, answer};
use crate::skipped::skip;
use crate::workspace::Workspace;

const JSON: (&str, &str) = ("content-type", "application/json");
const PIECE_BYTES: usize = 128 << 10;
/// How often it is looked whether a server is ready, and how often at most.
const INTERVAL: Duration = Duration::from_millis(100);
const MAX_LOOKS: u32 = 600;

/// A small disk in memory at the place of a directory, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None` if this user may not mount one.
    fn mount(path: &Path) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let disk = Self(path.to_owned());
        if disk.set("size=6m") {
            return Some(disk);
        }
        skip("no disk can be mounted");
        None
    }

    fn set(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        let mounted = mount.arg(&self.0).output();
        mounted.is_ok_and(|done| done.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server that uses it may end a little later.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Uploads pieces, which are all different, until one is refused.
fn fill(server: &TestServer, bytes: usize) -> Answer {
    for number in 0_u32.. {
        let mut piece = vec![0; bytes];
        for (at, byte) in piece.iter_mut().enumerate() {
            *byte = (at as u32 ^ number.wrapping_mul(2_654_435_761)) as u8;
        }
        piece[..4].copy_from_slice(&number.to_le_bytes());
        let path = format!("/v1/blobs/sha256:{}", digest_of(&piece));
        let uploaded = server.request("PUT", &path, &server.token, &[], &piece);
        if uploaded.status != 201 && uploaded.status != 204 {
            return uploaded;
        }
    }
    unreachable!("a disk without an end")
}

/// Asks whether a server is ready until it is not, and returns that answer.
pub fn until_not_ready(server: &TestServer) -> Answer {
    for _ in 0..MAX_LOOKS {
        let answer = server.get("", "/ready");
        if answer.status != 200 {
            return answer;
        }
        sleep(INTERVAL);
    }
    panic!("the server stays ready");
}

fn assert_is_full(what: &str, refused: &Answer) {
    assert_eq!(refused.status, 503, "{what}: {refused:?}");
    assert!(
        refused.headers.contains("retry-after"),
        "{what}: {refused:?}"
    );
    assert_eq!(refused.json()["type"], "urn:strata-host:full", "{what}");
}

#[test]
fn a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_space_again() {
    let place = Workspace::with(TEAM);
    let Some(disk) = SmallDisk::mount(&place.path("served")) else {
        return;
    };
    let server = TestServer::start_in(place, &[]);
    let token = &server.token;
    server.submit(token, json!({ "name": "one" }));
    server.until(token, "/v1/runs/one", |run| run["status"] == "waiting");
    let bundle = server.bundle(token);
    for bytes in [PIECE_BYTES, 4096, 64] {
        assert_is_full("a blob", &fill(&server, bytes));
    }
    for (path, body) in [
        (
            "/v1/runs",
            json!({ "bundle": bundle, "name": "two", "idea": "x".repeat(100_000) }),
        ),
        (
            "/v1/runs/one/messages",
            json!({ "content": "x".repeat(100_000), "cause": "p" }),
        ),
        ("/v1/tokens", json!({ "name": "eve", "rights": ["view"] })),
    ] {
        for headers in [&[JSON][..], &[JSON, ("idempotency-key", "k")]] {
            let bytes = body.to_string();
            let refused = server.request("POST", path, token, headers, bytes.as_bytes());
            // There may be room left in a page of the file.
            if refused.status / 100 != 2 {
                assert_is_full(path, &refused);
            }
        }
    }
    // What it records to see whether it can is small, and may fit a few times.
    assert_is_full("/ready", &until_not_ready(&server));
    for path in [
        "/health",
        "/v1/runs",
        "/v1/runs/one",
        "/v1/runs/one/events",
        "/v1/requests",
        "/v1/runs/one/report",
    ] {
        let read = server.get(token, path);
        assert_eq!(read.status, 200, "{path}: {read:?}");
    }
    assert!(
        disk.set("remount,size=64m"),
        "the disk cannot be made larger"
    );
    server.until("", "/ready", |_| true);
    answer(&server, "one");
    let ended = server.until(token, "/v1/runs/one", |run| run["state"] == "ended");
    assert_eq!(ended["status"], "done");
    server.submit(token, json!({ "name": "three" }));
    let listed: Value = server.get(token, "/v1/runs").json();
    assert!(listed["items"].as_array().unwrap().len() >= 2);
    drop(server);
}

/// A library with which syncs fail as long as a file exists.
static FAILING_SYNC: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing-sync.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/failing-sync/library.c");
    // Rust links with this compiler, so it is there.
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(compiler.arg(source).status().unwrap().success());
    library
});

/// A team that is at work for longer than a test.
const BUSY: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = { steps = [{ sleep = "10m" }] }
limits = { timeout = "20m" }
"#;

/// Starts a server whose syncs fail as long as a file exists, and returns the path of that.
fn start_on_failing_disk(more: &[&str]) -> (TestServer, PathBuf) {
    let place = Workspace::with(TEAM);
    let broken = place.path("broken");
    let environment = [
        ("LD_PRELOAD", FAILING_SYNC.clone()),
        ("STRATA_TEST_FAILING_SYNC", broken.clone()),
    ];
    (TestServer::start_with(place, more, &environment), broken)
}

/// Has the disk fail while something is recorded, and fails unless the server ends because of that.
fn fail(server: &TestServer, broken: &Path) {
    assert_eq!(server.get("", "/ready").status, 200);
    std::fs::write(broken, "").unwrap();
    let token = json!({ "name": "eve", "rights": ["view"] });
    let refused = server.post(&server.token, "/v1/tokens", &token);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains("retry-after"), "{refused:?}");
    for ended in [server.wait_for_end(), server.start_in_vain()] {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let error = &ended.stderr;
        let what = "it is not known any more what the disk has of";
        assert!(error.contains(what) && error.contains("runs.db"), "{error}");
    }
    std::fs::remove_file(broken).unwrap();
}

#[test]
fn a_server_whose_disk_fails_ends_and_the_next_one_goes_on_with_what_the_disk_has() {
    let (mut server, broken) = start_on_failing_disk(&[]);
    server.submit(&server.token, json!({ "name": "one" }));
    let busy = server.bundle_of(&server.token, BUSY.as_bytes());
    server.submit(&server.token, json!({ "name": "busy", "bundle": busy }));
    let path = "/v1/runs/one";
    server.until(&server.token, path, |run| run["status"] == "waiting");
    let is_at_work = |run: &Value| run["at_work"] == json!(["A"]);
    server.until(&server.token, "/v1/runs/busy", is_at_work);
    fail(&server, &broken);
    server.start_again();
    server.until("", "/ready", |_| true);
    server.until(&server.token, path, |run| run["status"] == "waiting");
    answer(&server, "one");
    server.until(&server.token, path, |run| run["state"] == "ended");
    server.until(&server.token, "/v1/runs/busy", is_at_work);
}

#[test]
fn a_server_that_runs_nothing_ends_as_well_when_its_disk_fails() {
    let (mut server, broken) = start_on_failing_disk(&["--no-work"]);
    server.submit(&server.token, json!({ "name": "one" }));
    fail(&server, &broken);
    server.start_again();
    let run = server.get(&server.token, "/v1/runs/one").json();
    assert_eq!(run["state"], "queued");
}

//! A server that cannot record anything because its disk is full or fails: it says so, goes on with what it can do, and
//! with everything once it can record again.
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

#[test]
fn a_server_whose_disk_fails_is_not_ready_until_it_is_started_again() {
    let place = Workspace::with(TEAM);
    let broken = place.path("broken");
    let environment = [
        ("LD_PRELOAD", FAILING_SYNC.clone()),
        ("STRATA_TEST_FAILING_SYNC", broken.clone()),
    ];
    let mut server = TestServer::start_with(place, &environment);
    server.submit(&server.token, json!({ "name": "one" }));
    assert_eq!(server.get("", "/ready").status, 200);
    std::fs::write(&broken, "").unwrap();
    let refused = until_not_ready(&server);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains("retry-after"), "{refused:?}");
    std::fs::remove_file(&broken).unwrap();
    // What the disk has is not known any more.
    sleep(2 * INTERVAL);
    assert_eq!(until_not_ready(&server).status, 503);
    assert_eq!(server.get(&server.token, "/v1/runs/one").status, 200);
    server.restart();
    server.until("", "/ready", |_| true);
    let path = "/v1/runs/one";
    server.until(&server.token, path, |run| run["status"] == "waiting");
    answer(&server, "one");
    server.until(&server.token, path, |run| run["state"] == "ended");
}

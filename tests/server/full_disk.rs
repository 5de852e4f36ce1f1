//! A server whose disk is full: it says so, goes on with what needs no space, and with everything once there is space again.
//! Where no small disk can be mounted, the test is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use strata_host::blob::digest_of;

use super::client::{Answer, TestServer};
use super::killed::{TEAM, answer};
use crate::skipped::skip;
use crate::workspace::Workspace;

const JSON: (&str, &str) = ("content-type", "application/json");
const PIECE_BYTES: usize = 128 << 10;

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
    for path in [
        "/health",
        "/ready",
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

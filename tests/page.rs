//! The page of the server in a browser: `tests/page` contains the tests, which are scripts of node that drive Chromium. Most
//! of them test the sources of the page with a mock of the API, which can be killed and can send what no guest would; `real`
//! tests the page of the built program.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::probe::project;
use crate::skipped::skip;

/// The files of `tests/page` that use the mock and need no idle machine. `load` does, and is run by hand.
const PARTS: [&str; 6] = ["needs", "runs", "run", "connection", "looks", "hostile"];
/// With this exit code the scripts say that this machine lacks something.
const CANNOT_TEST: i32 = 3;

/// One browser at a time is enough for a machine.
static BROWSER: Mutex<()> = Mutex::new(());

/// Runs files of `tests/page`, or says that this is not possible here.
fn test_in_browser(parts: &[&str]) {
    let _browser = BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    let shots = tempfile::tempdir().unwrap();
    let output = Command::new("node")
        .arg(project().join("tests/page/run.mjs"))
        .args(parts)
        .env("PAGE_SHOTS", shots.path())
        .env("STRATA_HOST", env!("CARGO_BIN_EXE_strata-host-under-test"))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            skip(format_args!(
                "the page was not tested, because node does not start: {error}"
            ));
            return;
        }
    };
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code() == Some(CANNOT_TEST) {
        skip(format_args!("the page was not tested: {errors}"));
        return;
    }
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
fn the_page_works_in_a_browser_whatever_the_server_and_its_guests_do() {
    test_in_browser(&PARTS);
}

#[test]
fn the_page_of_the_program_shows_runs_that_wait_fail_are_resumed_and_outlive_the_server() {
    test_in_browser(&["real"]);
}

#[test]
fn the_scripts_of_the_page_are_small_and_all_of_them_are_fetched_at_once() {
    let page = project().join("host/server/page");
    let index = fs::read_to_string(page.join("index.html")).unwrap();
    let mut size = 0;
    for folder in [page.clone(), page.join("vendor")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "js") {
                continue;
            }
            size += path.metadata().unwrap().len();
            let name = path.strip_prefix(&page).unwrap().display().to_string();
            // A module that is found only by reading another one delays the first paint.
            assert!(
                index.contains(&format!("\"./{name}\"")),
                "index.html does not fetch {name}"
            );
        }
    }
    assert!(size <= 300_000, "{size} bytes of script");
}

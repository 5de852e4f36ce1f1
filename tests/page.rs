//! The page of the server in a browser: `tests/page` contains the tests, which are scripts of node that drive Chromium. Most
//! of them test the sources of the page with a mock of the API, which can be killed and can send what no guest would; `real`
//! tests the page of the built program. `STRATA_PAGE_LONG` adds what is measured for minutes on an idle machine.

use std::fs;
use std::process::Command;

use crate::probe::project;
use crate::skipped::skip;

/// With this exit code the scripts say that this machine lacks something.
const CANNOT_TEST: i32 = 3;

#[test]
fn the_page_works_in_a_browser_whatever_the_server_and_its_guests_do() {
    let output = Command::new("node")
        .arg(project().join("tests/page/run.mjs"))
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
    println!("{text}");
}

#[test]
fn the_mock_of_the_api_gives_problems_the_titles_of_the_server() {
    let read = |path: &str| fs::read_to_string(project().join(path)).unwrap();
    let (mock, server) = (
        read("tests/page/mock/server.mjs"),
        read("host/server/src/problem.rs"),
    );
    let (_, titles) = mock.split_once("const TITLES = {\n").unwrap();
    let (titles, _) = titles.split_once("\n};").unwrap();
    for line in titles.lines() {
        let (_, title) = line.trim().trim_end_matches(',').split_once(": ").unwrap();
        assert!(server.contains(title), "the server has no title {title}");
    }
}

#[test]
fn all_scripts_of_the_page_are_fetched_without_reading_another_one() {
    let page = project().join("host/server/page");
    let index = fs::read_to_string(page.join("index.html")).unwrap();
    for folder in [page.clone(), page.join("vendor")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "js") {
                continue;
            }
            let name = path.strip_prefix(&page).unwrap().display().to_string();
            // A module that is found only by reading another one delays the first paint.
            assert!(
                index.contains(&format!("\"./{name}\"")),
                "index.html does not fetch {name}"
            );
        }
    }
}

//! The page of the server in a browser: `tests/page` contains the tests, which are scripts of node that drive Chromium. They
//! test the sources of the page with a mock of the API, which can be killed and can send what no guest would.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::probe::project;

/// The files of `tests/page` that need no idle machine. `load` does, and is run by hand.
const PARTS: [&str; 6] = ["needs", "runs", "run", "connection", "looks", "hostile"];

/// Returns the path of a program, if this machine has one of these names.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.find(|path| path.is_file())
}

/// Installs the packages that the tests need, unless that was done before. Returns why that was not
/// possible.
fn install(tests: &Path) -> Result<(), String> {
    if tests.join("node_modules/playwright-core").is_dir() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund"])
        .current_dir(tests);
    match npm.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_page_works_in_a_browser_whatever_the_server_and_its_guests_do() {
    let needed = [
        ("node", &["node"][..]),
        (
            "Chromium",
            &["chromium", "chromium-browser", "google-chrome"],
        ),
    ];
    for (name, names) in needed {
        if program(names).is_none() {
            println!("SKIPPED: the page was not tested, because this machine has no {name}");
            return;
        }
    }
    let tests = project().join("tests/page");
    if let Err(reason) = install(&tests) {
        println!(
            "SKIPPED: the page was not tested, because npm cannot install what that needs: {reason}"
        );
        return;
    }
    let shots = tempfile::tempdir().unwrap();
    let output = Command::new("node")
        .arg(tests.join("run.mjs"))
        .args(PARTS)
        .env("PAGE_SHOTS", shots.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

#[test]
fn the_scripts_of_the_page_are_small_and_all_of_them_are_fetched_at_once() {
    let page = project().join("host/server/page");
    let index = std::fs::read_to_string(page.join("index.html")).unwrap();
    let mut size = 0;
    for folder in [page.clone(), page.join("vendor")] {
        for entry in std::fs::read_dir(&folder).unwrap() {
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

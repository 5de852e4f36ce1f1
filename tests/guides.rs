//! The pages for contributors: every command in them names packages, tests and files that exist.
//! The commands are not run, since most of them build or test everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::probe::project;

/// The maximum number of characters of a line of a page.
const MAX_COLUMNS: usize = 200;
/// The pages.
const PAGES: [&str; 4] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "host/README.md",
    "host/storage/README.md",
];
/// The subcommands of cargo that the pages use.
const SUBCOMMANDS: [&str; 7] = ["build", "check", "clippy", "doc", "fmt", "run", "test"];

/// Returns the directories of the packages by their names.
fn packages() -> BTreeMap<String, PathBuf> {
    let host = project().join("host");
    let below = fs::read_dir(&host)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let directories = below.chain([host.clone(), project().join("tests")]);
    directories
        .filter_map(|directory| {
            let manifest = fs::read_to_string(directory.join("Cargo.toml")).ok()?;
            let manifest: toml::Table = manifest.parse().unwrap();
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            Some((name, directory))
        })
        .collect()
}

/// Returns the commands of a page: the lines of its `sh` fences, and what begins with `cargo` between
/// backquotes.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(language),
            };
        } else if fence == Some("sh") {
            let command = line.split(" #").next().unwrap_or_default();
            found.push(command.trim().to_owned());
        } else if fence.is_none() {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(
                quoted
                    .filter(|text| text.starts_with("cargo "))
                    .map(str::to_owned),
            );
        }
    }
    found
}

/// Fails unless the command names what exists.
fn check(command: &str) -> Result<(), String> {
    let is_variable = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let words: Vec<&str> = command.split_whitespace().skip_while(is_variable).collect();
    match words.as_slice() {
        [] | ["export", ..] => Ok(()),
        ["cargo", subcommand, arguments @ ..] if SUBCOMMANDS.contains(subcommand) => {
            check_arguments(arguments)
        }
        [program, ..] if project().join(program).is_file() => Ok(()),
        _ => Err("it is neither a known command of cargo nor a file".into()),
    }
}

/// Checks the package, the test and the filter of a command of cargo.
fn check_arguments(arguments: &[&str]) -> Result<(), String> {
    let value = |option: &str| {
        let at = arguments.iter().position(|word| *word == option)?;
        arguments.get(at + 1).copied()
    };
    let Some(package) = value("-p") else {
        return Ok(());
    };
    let packages = packages();
    let directory = packages
        .get(package)
        .ok_or(format!("no package `{package}`"))?;
    let mut sources = directory.join("src");
    if let Some(test) = value("--test") {
        let inside = directory.join("tests").join(test).with_extension("rs");
        let beside = directory.join(test).with_extension("rs");
        if !inside.is_file() && !beside.is_file() {
            return Err(format!("no test `{test}` in `{package}`"));
        }
        sources = directory.clone();
    }
    let filter = arguments.last().filter(|word| word.contains("::"));
    let Some(filter) = filter else {
        return Ok(());
    };
    let module = filter.trim_end_matches("::").replace("::", "/");
    let module = sources.join(module);
    if !module.with_extension("rs").is_file() {
        return Err(format!("no module `{filter}` in `{package}`"));
    }
    if !has_tests(&module.with_extension("rs")) && !has_tests(&module) {
        return Err(format!("no tests in `{filter}` of `{package}`"));
    }
    Ok(())
}

/// Returns whether the file, or a file below the directory, has a test.
fn has_tests(path: &Path) -> bool {
    if let Ok(entries) = fs::read_dir(path) {
        return entries.flatten().any(|entry| has_tests(&entry.path()));
    }
    let source = fs::read_to_string(path).unwrap_or_default();
    ["#[test]", "#[tokio::test"]
        .iter()
        .any(|attribute| source.contains(attribute))
}

#[test]
fn every_command_for_contributors_names_what_exists() {
    let mut broken = Vec::new();
    for name in PAGES {
        let page = fs::read_to_string(project().join(name)).unwrap();
        for command in commands(&page) {
            if let Err(why) = check(&command) {
                broken.push(format!("{name}: `{command}`: {why}"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn a_command_that_names_nothing_that_exists_is_noticed() {
    let fails = |command: &str, why: &str| {
        let error = check(command).expect_err(command);
        assert!(error.contains(why), "{error}");
    };
    fails("cargo test -p strata-nothing", "no package");
    fails("cargo test -p strata-tests --test nothing", "no test");
    fails("cargo test -p strata-core --lib nothing::", "no module");
    fails("cargo test -p strata-host --lib difference::", "no tests");
    fails(".ci/nothing", "neither");
}

#[test]
fn every_crate_of_the_host_has_a_row() {
    let page = fs::read_to_string(project().join("CONTRIBUTING.md")).unwrap();
    let missing: Vec<String> = packages()
        .into_keys()
        .filter(|name| !page.contains(&format!("| `cargo test -p {name} ")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_page_on_the_architecture_is_read_in_one_go() {
    let page = fs::read_to_string(project().join("ARCHITECTURE.md")).unwrap();
    assert!(page.lines().count() <= 200);
}

#[test]
fn lines_of_the_pages_are_short() {
    for name in PAGES {
        let page = fs::read_to_string(project().join(name)).unwrap();
        for (n, line) in (1..).zip(page.lines()) {
            assert!(line.chars().count() <= MAX_COLUMNS, "{name}:{n}");
        }
    }
}

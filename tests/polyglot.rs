//! The team with one role per language: it writes a page, a broken component is fixed, and the
//! record is replayed. Also the tests of its actions, each with the tools of its language.

use std::fs;
use std::os::unix::fs::symlink;

use crate::probe::project;
use crate::workspace::Workspace;
use crate::{c, python, stream};

const DIR: &str = "plugins/teams/polyglot";
const TEAM: &str = "plugins/teams/polyglot/team.toml";
const PAGE: &str = "plugins/teams/polyglot/out/the-harbour-in-may.html";

/// Copies the team's directory and the sources of its actions.
fn copy() -> Workspace {
    let place = Workspace::empty();
    fs::create_dir_all(place.path(DIR).join("out")).unwrap();
    let sources = ["read", "measure", "explain", "render"].map(|name| format!("{DIR}/{name}"));
    for source in sources
        .iter()
        .map(String::as_str)
        .chain(["plugins/text-tools"])
    {
        symlink(project().join(source), place.path(source)).unwrap();
    }
    for file in ["team.toml", "check.js", "in/harbour.csv"] {
        let file = format!("{DIR}/{file}");
        place.write(&file, fs::read(project().join(&file)).unwrap());
    }
    // Setting up tools and compiling interpreters takes longer than the time limit of a run.
    let checked = place.command(&["check", TEAM]).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    place
}

#[test]
fn roles_in_five_languages_write_one_page() {
    let place = copy();
    let ended = place
        .host(&["run", TEAM, "--storage", "store", "--events", "-"])
        .expect(0);
    let finished = stream::actions(&ended.events(), "action-finished");
    let roles = [
        "Reader.Read",
        "Meter.Measure",
        "Analyst.Explain",
        "Printer.Name",
        "Printer.Render",
        "Proof.Check",
    ];
    assert_eq!(finished, roles);
    let page = String::from_utf8(place.read(PAGE)).unwrap();
    for part in [
        "2026-05-10: 19.8 °C is far from",
        "<th>mean<td>",
        "<circle",
        "19.8 °C, 2026-05-10",
    ] {
        assert!(page.contains(part), "`{part}` is not in:\n{page}");
    }
    let events = ended.events();
    let last = *stream::of_kind(&events, "action-finished").last().unwrap();
    assert_eq!(
        last["output"]["content"],
        "/out/the-harbour-in-may.html contains all 5 statements"
    );
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn a_role_that_fails_is_fixed_and_the_others_are_kept() {
    let place = copy();
    let team = String::from_utf8(place.read(TEAM)).unwrap();
    // A fault of one of the three roles for which the join waits.
    let config = "config = { deviations = 2.5 }\n";
    place.write(
        TEAM,
        team.replace(
            config,
            &format!("{config}[role.action.limits]\noutput = \"16B\"\n"),
        ),
    );
    let failed = place.host(&["run", TEAM, "--storage", "store"]).expect(3);
    assert!(
        failed
            .stderr
            .contains("fault: Analyst action 0 `Explain` attempt 1: "),
        "{}",
        failed.stderr
    );
    // The team file is validated against the component's schema before anything runs.
    place.write(
        TEAM,
        team.replace("deviations = 2.5", "deviations = \"many\""),
    );
    let refused = place
        .host(&["run", TEAM, "--recover_path", "store"])
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("\"many\" is not of type \"number\""),
        "{}",
        refused.stderr
    );
    place.write(TEAM, team);
    let resumed = place
        .host(&["run", TEAM, "--recover_path", "store", "--events", "-"])
        .expect(0);
    let finished = stream::actions(&resumed.events(), "action-finished");
    assert_eq!(
        finished,
        [
            "Analyst.Explain",
            "Printer.Name",
            "Printer.Render",
            "Proof.Check"
        ]
    );
    assert!(place.path(PAGE).is_file());
}

#[test]
fn its_actions_pass_their_tests() {
    let dir = project().join(DIR);
    python::unittest(&dir.join("explain"), &project().join("guest-sdk/python"));
    let place = Workspace::empty();
    let files = ["action.c", "tests/measure.c"].map(|file| dir.join("measure").join(file));
    c::unit_tests(
        &place,
        &project().join("guest-sdk/c"),
        &files.each_ref().map(std::path::PathBuf::as_path),
    );
}

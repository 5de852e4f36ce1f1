//! The snake team that ships with the product, run as in its README: from source, with a scripted
//! model, in a copy of its directory.

use std::fs;
use std::os::unix::fs::symlink;

use crate::probe::{build, project};
use crate::stream;
use crate::workspace::Workspace;

const TEAM: &str = "plugins/teams/snake/team.toml";
const TRAP: &str = "plugins/teams/snake/trap.toml";
const GAME: &str = "plugins/teams/snake/out/snake.html";

/// Copies the plugins and the team's directory.
fn copy() -> Workspace {
    let place = Workspace::empty();
    fs::create_dir_all(place.path("plugins/teams/snake/out")).unwrap();
    for plugin in [
        "probe",
        "review-code",
        "save-file",
        "write-code",
        "write-document",
    ] {
        build(&format!("plugins/{plugin}"));
        symlink(
            project().join("plugins").join(plugin),
            place.path("plugins").join(plugin),
        )
        .unwrap();
    }
    for file in ["team.toml", "trap.toml", "replies.toml"] {
        let file = format!("plugins/teams/snake/{file}");
        fs::copy(project().join(&file), place.path(&file)).unwrap();
    }
    place
}

fn assert_is_a_game(place: &Workspace) {
    let game = String::from_utf8(place.read(GAME)).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "<canvas",
        "getContext(",
        "addEventListener(\"keydown\"",
        "ArrowUp",
    ] {
        assert!(
            game.to_lowercase().contains(&part.to_lowercase()),
            "`{part}` is not in the game:\n{game}"
        );
    }
    assert!(
        !game.contains("http://") && !game.contains("https://"),
        "the game loads something from the network"
    );
}

#[test]
fn the_team_writes_a_playable_game_without_leaving_its_directory() {
    let place = copy();
    let ended = place
        .host(&["run", TEAM, "--storage", "store", "--events", "-"])
        .expect(0);
    assert_is_a_game(&place);
    let finished = stream::actions(&ended.events(), "action-finished");
    let expected = [
        "Alice.WriteRequirements",
        "Bob.WriteDesign",
        "Eve.WriteCode",
        "Eve.SaveCode",
        "Oscar.ReviewCode",
    ];
    assert_eq!(finished, expected);
    let out = fs::read_dir(place.path("plugins/teams/snake/out")).unwrap();
    assert_eq!(out.count(), 1, "more than the game was written");
}

#[test]
fn after_a_trap_the_run_continues_with_the_fixed_component() {
    let place = copy();
    let ended = place
        .host(&["run", TRAP, "--storage", "store", "--events", "-"])
        .expect(3);
    let first = "fault: Eve action 1 `SaveCode` attempt 1: trap: ";
    assert!(ended.stderr.contains(first), "{}", ended.stderr);
    assert!(
        !place.path(GAME).exists(),
        "the game was saved by an action that failed"
    );

    let ended = place
        .host(&["run", TEAM, "--recover_path", "store", "--events", "-"])
        .expect(0);
    assert_is_a_game(&place);
    let lines = ended.events();
    for kind in ["plugin-instantiated", "action-started", "action-finished"] {
        assert_eq!(
            stream::actions(&lines, kind),
            ["Eve.SaveCode", "Oscar.ReviewCode"],
            "{kind}"
        );
    }
    assert_eq!(
        stream::actions(&lines, "component-changed"),
        ["Eve.SaveCode"]
    );
    assert_eq!(stream::of_kind(&lines, "action-started")[0]["attempt"], 2);
    let tries = |kind| {
        stream::of_kind(&lines, kind)
            .into_iter()
            .map(|line| (line["attempt"].clone(), line["digest"].clone()))
    };
    assert!(
        tries("action-started").eq(tries("action-finished")),
        "{lines:?}"
    );
    assert!(
        tries("action-finished").all(|(_, digest)| digest.is_string()),
        "{lines:?}"
    );
    let paid = stream::of_kind(&lines, "host-call")
        .into_iter()
        .filter(|line| line["source"] == "live")
        .count();
    assert_eq!(paid, 1, "only the review asks the model");
    let all = place.recorded();
    stream::assert_numbered(&all);
    stream::assert_one_idea(&all);
}

//! The werewolf game that ships with the product: the saved state of a role contains only what the
//! role was told; the outcome is computed from the replies; faults and kills do not change it.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::probe::{build, project};
use crate::stream;
use crate::workspace::Workspace;

const DIR: &str = "plugins/teams/werewolf";
const TEAM: &str = "plugins/teams/werewolf/team.toml";
const WOLVES: [&str; 2] = ["Bruno", "Falk"];

/// Copies the plugins and the team's directory.
fn copy() -> Workspace {
    let place = Workspace::empty();
    fs::create_dir_all(place.path(DIR).join("out")).unwrap();
    for plugin in ["werewolf-moderator", "werewolf-player"] {
        build(&format!("plugins/{plugin}"));
        symlink(
            project().join("plugins").join(plugin),
            place.path("plugins").join(plugin),
        )
        .unwrap();
    }
    for file in ["team.toml", "replies.toml"] {
        let file = format!("{DIR}/{file}");
        fs::copy(project().join(&file), place.path(&file)).unwrap();
    }
    place
}

/// Replaces a scripted reply.
fn script(place: &Workspace, question: &str, reply: &str) {
    let file = format!("{DIR}/replies.toml");
    let text = String::from_utf8(place.read(&file)).unwrap();
    let with = format!("[[reply]]\nmatch = \"^{question}\"\n{reply}\n\n{text}");
    place.write(&file, with);
}

fn run(place: &Workspace) -> crate::process::Ended {
    place.host(&["run", TEAM, "--storage", "store", "--events", "-"])
}

fn story(place: &Workspace) -> String {
    String::from_utf8(place.read(&format!("{DIR}/out/story.md"))).unwrap()
}

/// Returns everything that is saved of a role: its state, mailbox and scope.
fn saved_of(team: &Value, role: &str) -> String {
    let strata = &team["strata"];
    let mail: Vec<&Value> = strata["buffers"][role]
        .as_array()
        .into_iter()
        .flatten()
        .map(|id| &strata["messages"][stream::text(id)])
        .collect();
    let parts = [
        team["env"]["roles"][role].to_string(),
        strata["state"]["role"][role].to_string(),
        strata["open"][role].to_string(),
        serde_json::to_string(&mail).unwrap(),
    ];
    // The directory of the game contains its name, and a fault may contain a path.
    parts.join("\n").replace(DIR, "")
}

/// Fails if the saved state of a role that is not a werewolf contains a word of the werewolves.
fn assert_secrets_are_kept(place: &Workspace) {
    let team = place.team_json();
    let everything = team["strata"]["messages"].as_object().unwrap();
    let of_the_pack = |message: &&Value| {
        message["send_to"]
            .as_array()
            .is_some_and(|to| to.contains(&"werewolves".into()))
    };
    let whispers: Vec<&Value> = everything.values().filter(of_the_pack).collect();
    assert!(!whispers.is_empty(), "nobody whispered");
    for role in team["env"]["roles"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|role| *role != "Moderator")
    {
        let saved = saved_of(&team, role);
        let word = |word: &str| saved.to_lowercase().contains(word);
        let heard = whispers.iter().any(|message| {
            let content = serde_json::to_string(&message["content"]).unwrap();
            saved.contains(content.trim_matches('"'))
                || saved.contains(stream::text(&message["id"]))
        });
        let wolf = WOLVES.contains(&role.as_str());
        assert_eq!(word("wolf") || word("wolves"), wolf, "{role}: {saved}");
        assert_eq!(heard, wolf, "{role}: {saved}");
    }
}

#[test]
fn the_game_ends_and_keeps_its_secrets() {
    let place = copy();
    let lines = run(&place).expect(0).events();
    stream::assert_one_idea(&lines);
    let story = story(&place);
    for part in [
        "# The winter of the two beasts",
        "Dietrich 4, Falk 2, Bruno 1. Dietrich hangs.",
        "the village has won",
    ] {
        assert!(story.contains(part), "`{part}` in\n{story}");
    }
    assert_secrets_are_kept(&place);
}

#[test]
fn the_outcome_is_computed_from_the_replies() {
    let cases = [
        (
            "Day 1: Anna chooses",
            "CHOICE: Falk",
            [
                "Dietrich 3, Falk 3, Bruno 1. A tie: nobody hangs.",
                "- Dietrich: villager, alive",
            ],
        ),
        (
            "Night 1: Falk chooses",
            "CHOICE: Anna",
            ["In the morning all are alive.", "## Night 2"],
        ),
        (
            "Day 2: Greta chooses",
            "CHOICE: Clara",
            ["Clara 3, Bruno 2. Clara hangs.", "they have won"],
        ),
    ];
    for (question, choice, expected) in cases {
        let place = copy();
        script(&place, question, &format!("text = \"{choice}\""));
        run(&place).expect(0);
        let story = story(&place);
        expected
            .iter()
            .for_each(|part| assert!(story.contains(part), "{question}: `{part}` in\n{story}"));
        assert_secrets_are_kept(&place);
    }
}

#[test]
fn a_resume_after_a_fault_gives_the_same_story() {
    let undisturbed = copy();
    let lines_undisturbed = run(&undisturbed).expect(0).events();
    for question in ["Night 2: Falk speaks", "Day 2: Greta chooses"] {
        let place = copy();
        let scripted = place.read(&format!("{DIR}/replies.toml"));
        script(&place, question, "status = 400");
        let ended = run(&place).expect(3);
        assert!(ended.stderr.contains("fault: "), "{}", ended.stderr);
        assert_secrets_are_kept(&place);
        assert!(!story(&place).contains("has won"), "{}", story(&place));

        place.write(&format!("{DIR}/replies.toml"), scripted);
        place
            .host(&["run", "--recover_path", "store", "--events", "-"])
            .expect(0);
        assert_eq!(story(&place), story(&undisturbed), "{question}");
        let lines = place.recorded();
        stream::assert_numbered(&lines);
        stream::assert_same_finished_actions(&lines, &lines_undisturbed);
        assert_secrets_are_kept(&place);
    }
}

#[test]
fn a_game_that_is_killed_repeatedly_gives_the_same_story() {
    let undisturbed = copy();
    let lines = run(&undisturbed).expect(0).events().len();
    let place = copy();
    let mut process = place.start(&["run", TEAM, "--storage", "store", "--events", "-"]);
    for _ in 0..3 {
        // Kills after each quarter of the game.
        let told = (0..lines / 4).map_while(|_| process.next()).count();
        assert_eq!(told, lines / 4);
        process.kill();
        process = place.start(&["run", "--recover_path", "store", "--events", "-"]);
    }
    process.end().expect(0);
    assert_eq!(story(&place), story(&undisturbed));
    let lines = place.recorded();
    stream::assert_numbered(&lines);
    stream::assert_one_idea(&lines);
    stream::assert_paid_once(&lines);
    assert_secrets_are_kept(&place);
}

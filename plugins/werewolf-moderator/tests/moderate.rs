//! Tests a whole game with the in-memory host: who is told what, and what is written.

use serde_json::{Value, json};
use strata_action::environment::Emission;
use strata_action::testing::{Call, Host};
use strata_action::{Action, Failure, Message, Output};
use werewolf_moderator::Moderate;

fn config() -> Value {
    let cards = json!({ "Anna": "villager", "Ben": "villager", "Sam": "seer", "Wolf": "werewolf" });
    json!({ "cards": cards, "pack": "pack", "story": "/out/story.md", "most_days": 3 })
}

/// Ballots `Anna Wolf` are messages of Anna that choose Wolf.
fn turn(host: &mut Host, ballots: &[&str]) -> Result<Output, Failure> {
    let mut call = Call::new().config(config());
    for ballot in ballots {
        let (voter, choice) = ballot.split_once(' ').expect("a voter and a choice");
        let data = Some(json!({ "choice": choice }).to_string());
        let message = Message {
            sent_from: voter.into(),
            data,
            ..Message::new("Play", "because")
        };
        call = call.message(message);
    }
    host.run::<Moderate>(if ballots.is_empty() {
        call.news("A long winter")
    } else {
        call
    })
}

fn story(host: &Host) -> String {
    String::from_utf8(host.content("/out/story.md").expect("a story").to_vec()).expect("text")
}

/// To whom, and what is asked: of the newest messages.
fn asked(emitted: &[Emission], from: usize) -> Vec<String> {
    let what = |emission: &Emission| {
        let data: Value = emission
            .data
            .as_ref()
            .map(|data| serde_json::from_str(data).expect("json"))
            .unwrap_or_default();
        let step = data["step"].as_str().unwrap_or("told").to_owned();
        format!(
            "{}: {step} {}",
            emission.to.join("+"),
            data["when"].as_str().unwrap_or_default()
        )
    };
    emitted[from..].iter().map(what).collect()
}

#[test]
fn a_game_goes_from_the_first_night_to_the_death_of_the_last_wolf() {
    let mut host = Host::new().writable("/out");
    assert_eq!(
        turn(&mut host, &[]).expect("a night").content,
        "Night 1 falls."
    );
    assert_eq!(
        asked(host.emitted(), 0),
        ["pack: speak Night 1", "Sam: choose Night 1"]
    );

    assert_eq!(
        turn(&mut host, &["Sam Wolf"]).expect("it waits").content,
        "listens"
    );
    assert_eq!(host.emitted().len(), 2);
    let output = turn(&mut host, &["Wolf Ben", "Anna Sam"]).expect("a day");
    assert_eq!(
        (output.content.as_str(), output.to.len()),
        ("In the morning Ben lies dead by the well.", 0)
    );
    assert_eq!(
        asked(host.emitted(), 2),
        ["Sam: told ", "Anna+Sam+Wolf: speak Day 1"]
    );
    assert_eq!(
        host.emitted()[2].content,
        "Last night you saw it: Wolf is a beast."
    );
    assert!(
        !host.emitted()[3].content.to_lowercase().contains("wolf is"),
        "{}",
        host.emitted()[3].content
    );

    let output = turn(&mut host, &["Anna Wolf", "Sam Wolf", "Wolf Sam"]).expect("the end");
    assert!(
        output
            .content
            .starts_with("The last werewolf is dead: the village has won."),
        "{}",
        output.content
    );
    assert_eq!(host.emitted().len(), 4, "somebody is asked after the end");
    let story = story(&host);
    for part in [
        "# A long winter\n",
        "## Night 1",
        "## Day 1",
        "Wolf 2, Sam 1. Wolf hangs.",
        "- Ben: villager, dead",
    ] {
        assert!(story.contains(part), "`{part}` in\n{story}");
    }
    // Messages after the end change nothing.
    assert_eq!(
        turn(&mut host, &["Anna Sam"]).expect("over").content,
        output.content
    );
    assert_eq!((host.emitted().len(), self::story(&host)), (4, story));
}

#[test]
fn a_game_without_a_winner_ends() {
    let mut host = Host::new().writable("/out");
    turn(&mut host, &[]).expect("a night");
    for _ in 0..3 {
        turn(&mut host, &["Wolf nobody", "Sam nobody"]).expect("a day");
        turn(
            &mut host,
            &["Anna Wolf", "Ben Anna", "Sam nobody", "Wolf nobody"],
        )
        .expect("a night");
    }
    assert!(story(&host).contains("nobody has won"), "{}", story(&host));
}

#[test]
fn cards_that_make_no_game_are_refused() {
    for cards in [
        json!({}),
        json!({ "A": "villager" }),
        json!({ "A": "werewolf", "B": "villager" }),
    ] {
        let mut config = config();
        config["cards"] = cards;
        let failure = Host::new()
            .writable("/out")
            .run::<Moderate>(Call::new().news("x").config(config));
        assert!(
            failure
                .expect_err("no game")
                .message
                .contains("dealing the cards")
        );
    }
}

#[test]
fn the_schema_is_json() {
    let schema: Value =
        serde_json::from_str(Moderate::CONFIG_SCHEMA.expect("a schema")).expect("json");
    assert_eq!(schema["type"], "object");
}

//! Tests what a player says, to whom, and when it says nothing.

use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, Message, Output, Profile};
use werewolf_player::{Answer, Play};

fn ask(step: &str) -> Value {
    json!({ "step": step, "when": "Day 2", "about": "who of you shall hang", "who": ["Anna", "Bruno"],
        "choices": ["Anna", "Bruno"], "hearers": ["Anna", "Bruno", "Moderator"] })
}

fn message_from(from: &str, text: &str, data: Option<Value>) -> Message {
    let data = data.map(|data| data.to_string());
    Message {
        sent_from: from.into(),
        data,
        ..Message::new("Play", text)
    }
}

fn play(host: &mut Host, name: &str, news: Vec<Message>) -> Output<Answer> {
    let role = Profile {
        name: name.into(),
        profile: "baker".into(),
        goal: String::new(),
        constraints: String::new(),
        desc: String::new(),
    };
    let call = news.into_iter().fold(Call::new().role(role), Call::message);
    host.run::<Play>(call).expect("it plays")
}

#[test]
fn a_player_who_is_asked_to_speak_addresses_all_listeners() {
    let mut host =
        Host::new()
            .reply(" It was Bruno. ")
            .remember(message_from("Bruno", "I am hungry", None));
    let output = play(
        &mut host,
        "Anna",
        vec![message_from(
            "Moderator",
            "Edda is dead.",
            Some(ask("speak")),
        )],
    );
    assert_eq!(
        (output.content.as_str(), output.to.join(" ")),
        ("It was Bruno.", "Anna Bruno Moderator".into())
    );
    assert_eq!(
        serde_json::to_value(output.data).expect("json"),
        ask("choose")
    );
    let prompt = &host.prompts()[0];
    assert!(prompt.starts_with("Day 2: Anna speaks.\n"), "{prompt}");
    for part in [
        "remember:\n- Bruno: I am hungry\n",
        "heard:\n- Moderator: Edda is dead.\n",
        "who of you shall hang?",
    ] {
        assert!(prompt.contains(part), "`{part}` in {prompt}");
    }
}

#[test]
fn a_player_who_has_received_the_speeches_chooses() {
    let speeches = vec![
        message_from("Bruno", "Anna!", Some(ask("choose"))),
        message_from("Anna", "No!", Some(ask("choose"))),
    ];
    for (reply, choice) in [
        ("He lies.\nCHOICE: bruno", json!("Bruno")),
        ("Who knows.", json!(null)),
    ] {
        let mut host = Host::new().reply(reply);
        let output = play(&mut host, "Anna", speeches.clone());
        assert!(output.to.is_empty(), "{:?}", output.to);
        assert_eq!(
            serde_json::to_value(output.data).expect("json"),
            json!({ "choice": choice })
        );
        assert!(host.prompts()[0].starts_with("Day 2: Anna chooses."));
    }
}

#[test]
fn who_is_not_asked_listens_and_asks_no_model() {
    let cases = [
        vec![message_from("Moderator", "x", Some(ask("speak")))],
        vec![message_from("Moderator", "x", None)],
        vec![],
    ];
    for news in cases {
        let mut host = Host::new();
        let output = play(&mut host, "Edda", news);
        assert_eq!(
            (output.content.as_str(), output.to.len(), output.data),
            ("listens", 0, None)
        );
        assert!(host.prompts().is_empty());
    }
}

#[test]
fn the_schema_is_json() {
    let schema: Value = serde_json::from_str(Play::CONFIG_SCHEMA.expect("a schema")).expect("json");
    assert_eq!(schema["type"], "object");
}

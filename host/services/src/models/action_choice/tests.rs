//! Tests of the request for a choice, and of the interpretation of its answers.

use proptest::prelude::*;
use strata_core::record::conversation::{AssistantPart, ModelMessage, Part, TokenUsage};
use strata_core::record::id::MessageId;

use super::*;
use crate::models::FinishReason;

fn reply(text: &str, data: Option<&str>) -> ModelReply {
    ModelReply {
        parts: vec![AssistantPart::Text(text.to_owned())],
        data: data.map(str::to_owned),
        model: "m".to_owned(),
        finish: FinishReason::Stop,
        usage: TokenUsage::default(),
    }
}

#[test]
fn a_choice_is_understood_in_the_ways_models_write_it() {
    let check = |text: &str, expected: i32| {
        assert_eq!(parse_choice(&reply(text, None), 3), Ok(expected), "{text}");
    };
    for text in [
        "1",
        " 1\n",
        "1.",
        "Answer: 1",
        "**1**",
        "1. Write",
        "I choose 1, because it is 1.",
        "#1",
        "(1)",
    ] {
        check(text, 1);
    }
    for text in [
        r#"{"choice": 1}"#,
        "```json\n{\"choice\": 1}\n```",
        "```\n1\n```",
        r#"{"choice":"1"}"#,
        r#""1""#,
    ] {
        check(text, 1);
    }
    for text in ["-1", "Answer: -1", "−1", r#"{"choice": -1}"#, "-1. none"] {
        check(text, -1);
    }
    check("2", 2);
    check("0", 0);
}

#[test]
fn structured_data_comes_before_the_text() {
    assert_eq!(
        parse_choice(&reply("two of 3", Some(r#"{"choice":2}"#)), 3),
        Ok(2)
    );
    assert_eq!(parse_choice(&reply("", Some("2")), 3), Ok(2));
}

#[test]
fn anything_else_is_refused_and_quoted() {
    let check = |text: &str| {
        let error = parse_choice(&reply(text, None), 3).expect_err("no choice");
        assert!(
            error.contains(&format!("answered `{}`", text.trim())),
            "{error}"
        );
        assert!(error.contains("not a number from -1 to 2"), "{error}");
    };
    for text in [
        "",
        "write",
        "3",
        "-2",
        "1 or 2",
        "0-1",
        "1.5",
        "1,2",
        "action1",
        "1e0",
        "²",
        "99999999999999999999",
    ] {
        check(text);
    }
    for text in [
        r#"{"choice":7}"#,
        r#"{"choice":null}"#,
        r#"{"action":"write"}"#,
        "[1, 2]",
        "null",
    ] {
        check(text);
    }
}

#[test]
fn without_candidates_only_the_end_can_be_chosen() {
    assert_eq!(parse_choice(&reply("-1", None), 0), Ok(-1));
    assert!(parse_choice(&reply("0", None), 0).is_err());
}

fn message(cause_by: &str, content: &str) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::from("m"),
        content: content.to_owned(),
        instruct: None,
        parts: Vec::new(),
        role: String::new(),
        cause_by: cause_by.to_owned(),
        sent_from: String::new(),
        send_to: Vec::new(),
        meta: Default::default(),
        route: Vec::new(),
    })
}

fn candidate(name: &str, description: &str) -> Candidate {
    Candidate {
        name: name.to_owned(),
        description: description.to_owned(),
    }
}

#[test]
fn the_model_is_told_who_it_is_and_what_there_is_to_choose() {
    let role = RoleProfile {
        name: "Ann".to_owned(),
        profile: "Engineer".to_owned(),
        goal: "working code.".to_owned(),
        ..RoleProfile::default()
    };
    let candidates = [candidate("Write", "writes code"), candidate("Test", "")];
    let request = think_request(&role, &candidates, &[message("Design", "a snake")], &[]);
    let system = "You are Ann, Engineer. Your goal: working code. You decide what you do next; you do not do it yet.";
    let user = "Which action do you take next?\n\nActions:\n0. Write: writes code\n1. Test\n-1. none: everything is \
                done\n\nMessages to handle:\n- Design: a snake\n\nDone so far:\n(nothing)\n\nAnswer with one number \
                from -1 to 1 and nothing else.";
    assert_eq!(request.system, system);
    assert_eq!(
        request.messages,
        [ModelMessage::User(vec![Part::Text(user.to_owned())])]
    );
}

#[test]
fn long_histories_and_long_messages_are_cut() {
    let long = "é".repeat(MAX_MESSAGE_CHARS + 1);
    let news: Vec<_> = (0..MAX_MESSAGES + 7)
        .map(|_| message("Big", &long))
        .collect();
    let request = think_request(&RoleProfile::default(), &[], &news, &[message("A", "done")]);
    let asked = request.newest_text();
    assert!(asked.contains("(7 older ones left out)"));
    assert_eq!(asked.matches("- Big: é").count(), MAX_MESSAGES);
    assert_eq!(asked.matches("é […]\n").count(), MAX_MESSAGES);
    assert!(asked.contains("- A: done\n"));
}

proptest! {
    #[test]
    fn no_answer_makes_us_panic_or_leads_out_of_range(
        text in "[-−0-9., {}\"a-z`\n:]{0,40}|.*",
        data in proptest::option::of("[-0-9{}\":choice]{0,20}"),
        candidates in prop_oneof![0_usize..5, Just(usize::MAX)],
    ) {
        if let Ok(choice) = parse_choice(&reply(&text, data.as_deref()), candidates) {
            prop_assert!(choice == NO_ACTION || usize::try_from(choice).is_ok_and(|c| c < candidates));
        }
    }

    #[test]
    fn a_plain_number_in_range_is_always_understood(candidates in 1_usize..1000, pick in any::<prop::sample::Index>()) {
        let choice = pick.index(candidates + 1) as i32 - 1;
        prop_assert_eq!(parse_choice(&reply(&choice.to_string(), None), candidates), Ok(choice));
    }
}

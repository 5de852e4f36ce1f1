//! Tests each of the probe's steps with the in-memory host.

#![allow(clippy::unwrap_used, reason = "tests may")]

use probe::Probe;
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Choice, FailureKind, Output, Part, llm::ChatMessage};

fn call(steps: Value) -> Call {
    Call::new().action("p").config(json!({ "steps": steps }))
}

fn output_of(host: &mut Host, steps: Value) -> String {
    host.run::<Probe>(call(steps).news("one").news("two"))
        .unwrap()
        .content
}

#[test]
fn vectors_are_read_as_json() {
    let mut host = Host::new().embeddings(vec![vec![1.0, -0.5], vec![0.25, 0.0]]);
    let steps = json!([{ "embed": ["a", "b"], "dimensions": 2 }, { "say": "{reads}" }]);
    assert_eq!(output_of(&mut host, steps), "[[1.0,-0.5],[0.25,0.0]]");
    let asked = &host.embed_requests()[0];
    assert_eq!(
        (&asked.texts[..], asked.dimensions),
        (&["a".to_owned(), "b".to_owned()][..], Some(2))
    );
}

#[test]
fn without_a_say_the_content_is_the_actions_name_and_ok() {
    let mut host = Host::new();
    let bare = host.run::<Probe>(Call::new().action("p")).unwrap();
    assert_eq!(bare, Output::new("p ok"));
    assert_eq!(output_of(&mut host, json!([])), "p ok");
    assert_eq!(output_of(&mut host, json!([{ "sleep": "2s" }])), "p ok");
    assert!((host.slept_ms() - 2000.0).abs() < 1.0);
}

#[test]
fn values_that_are_read_are_added_to_reads() {
    let cases = [
        (json!([{ "say": "{inputs}" }]), "one,two"),
        (json!([{ "say": "{reads}|{x}|{" }]), "|{x}|{"),
        (
            json!([{ "llm": "hi" }, { "say": "got {reads}" }]),
            "got {inputs}",
        ),
        (json!([{ "get": "n" }, { "say": "n{reads}" }]), "n4"),
        (
            json!([{ "get": "s" }, { "get": "none" }, { "get": "o" }, { "say": "{reads}" }]),
            "text,,{\"a\":[1]}",
        ),
        (
            json!([{ "set": "k", "value": 3, "scope": "env" }, { "get": "k", "scope": "env" }, { "say": "{reads}" }]),
            "3",
        ),
        (
            json!([{ "delete": "n" }, { "get": "n" }, { "say": "n{reads}" }]),
            "n",
        ),
        (
            json!([{ "now": true }, { "read": "/in/a" }, { "say": "{reads}" }]),
            "0,apple",
        ),
        (json!([{ "say": "early{reads}" }, { "get": "n" }]), "early"),
        (json!([{ "say": "no", "attempts": [2] }]), "p ok"),
        (json!([{ "say": "yes", "attempts": [1, 2] }]), "yes"),
    ];
    for (steps, expected) in cases {
        let mut host = Host::new()
            .reply("{inputs}")
            .scope("env")
            .state("role", "n", 4)
            .state("role", "s", "text")
            .state("role", "o", json!({ "a": [1] }))
            .file("/in/a", "apple");
        assert_eq!(output_of(&mut host, steps.clone()), expected, "{steps}");
    }
}

#[test]
fn a_person_is_asked_with_all_that_a_step_says() {
    let mut host = Host::new().answer(7).answer("red").no_answer();
    let steps = json!([
        { "ask": "how many?", "schema": { "type": "integer" } },
        { "ask": "which?", "choices": ["red", "green"] },
        { "ask": "when?", "expires": "2m", "default": { "on": "monday" } },
        { "say": "{reads}" },
    ]);
    assert_eq!(output_of(&mut host, steps), "7,red,{\"on\":\"monday\"}");
    let questions = host.questions();
    assert_eq!(
        questions[0].schema.as_deref(),
        Some("{\"type\":\"integer\"}")
    );
    assert_eq!(
        (questions[1].choices.len(), questions[2].expires_s),
        (2, Some(120))
    );
    let failure = Host::new()
        .no_answer()
        .run::<Probe>(call(json!([{ "ask": "x" }])))
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
}

#[test]
fn random_bytes_print_as_hex_and_the_counter_counts() {
    let mut host = Host::new();
    let text = output_of(&mut host, json!([{ "random": 8 }, { "say": "{reads}" }]));
    assert_eq!(
        (text.len(), text.chars().all(|c| c.is_ascii_hexdigit())),
        (16, true)
    );
    let steps = json!([{ "count": true }, { "count": true }, { "say": "{reads}" }]);
    let counted: Vec<u32> = output_of(&mut host, steps)
        .split(',')
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(counted[1], counted[0] + 1);
}

#[test]
fn outputs_and_emissions_carry_data_recipients_and_routes() {
    let mut host = Host::new();
    let output = host
        .run::<Probe>(call(json!([
            { "emit": "note", "to": ["B"], "cause": "memo", "data": { "n": 1 } },
            { "say": "x", "data": { "n": 7 }, "to": ["C"], "route": [{ "from": "C", "to": ["D"] }] },
        ])))
        .unwrap();
    assert_eq!(output.data, Some(json!({ "n": 7 })));
    assert_eq!(output.to, ["C"]);
    assert_eq!(
        (output.route[0].from.as_str(), &output.route[0].to[..]),
        ("C", &["D".to_owned()][..])
    );
    let emission = &host.emitted()[0];
    assert_eq!(
        (emission.content.as_str(), emission.cause_by.as_deref()),
        ("note", Some("memo"))
    );
    assert_eq!(
        (&emission.to[..], emission.data.as_deref()),
        (&["B".to_owned()][..], Some("{\"n\":1}"))
    );
}

#[test]
fn one_prompt_is_one_turn_of_the_user() {
    let mut host = Host::new().reply("r");
    output_of(&mut host, json!([{ "llm": "hi" }]));
    let turns = &host.requests()[0].messages;
    assert_eq!(turns[..], [ChatMessage::user("hi")]);
}

#[test]
fn a_model_is_named_and_its_reply_follows_a_schema() {
    let mut host = Host::new().reply("{ \"b\": 1, \"a\": [1, 2] }").reply("no");
    let schema = json!({ "type": "object" });
    let steps = json!([{ "llm": "hi", "model": "cheap", "schema": schema }, { "say": "{reads}" }]);
    assert_eq!(output_of(&mut host, steps.clone()), "{\"a\":[1,2],\"b\":1}");
    let request = &host.requests()[0];
    assert_eq!(request.model.as_deref(), Some("cheap"));
    assert_eq!(
        request.output_schema.as_deref(),
        Some("{\"type\":\"object\"}")
    );
    assert!(host.run::<Probe>(call(steps)).is_err());
}

#[test]
fn an_image_belongs_to_the_next_request() {
    let mut host = Host::new().reply("a").reply("b").file("/in/a.jpg", "JFIF");
    let steps = json!([{ "image": "/in/a.jpg" }, { "llm": "what?" }, { "llm": "and?" }]);
    output_of(&mut host, steps);
    let image = Part::image("image/jpeg", *b"JFIF");
    let first = ChatMessage::User(vec!["what?".into(), image]);
    assert_eq!(host.requests()[0].messages, [first]);
    assert_eq!(host.requests()[1].messages, [ChatMessage::user("and?")]);
    let denied = host.run::<Probe>(call(json!([{ "image": "/other/a.png" }])));
    assert_eq!(denied.unwrap_err().kind, FailureKind::Denied);
}

#[test]
fn arguments_are_written_with_sorted_keys_and_without_spaces() {
    let steps = json!([{ "say": "told {arguments}" }]);
    let mut host = Host::new();
    let called =
        call(steps.clone()).arguments(json!({ "b": [1, { "d": null, "c": 2 }], "a": "x" }));
    let output = host.run::<Probe>(called).unwrap();
    assert_eq!(
        output.content,
        "told {\"a\":\"x\",\"b\":[1,{\"c\":2,\"d\":null}]}"
    );
    assert_eq!(host.run::<Probe>(call(steps)).unwrap().content, "told ");
}

#[test]
fn steps_make_requests_and_read_secrets_and_variables() {
    let mut host = Host::new()
        .response(500, "no")
        .response(200, "made")
        .secret("TOKEN")
        .variable("LANG", "C");
    let steps = json!([
        { "http": "http://a/x" },
        { "http": "http://a/y", "method": "POST", "body": "b", "key": "k", "secret": "TOKEN" },
        { "getenv": "LANG" }, { "secret": "TOKEN" }, { "say": "{reads}" },
    ]);
    assert_eq!(output_of(&mut host, steps), "no,made,C,{{secret:TOKEN}}");
    let [get, post] = host.fetched() else {
        panic!("two requests")
    };
    assert_eq!(
        (&*get.method, &get.body, &get.idempotency_key),
        ("GET", &None, &None)
    );
    assert_eq!(
        (&*post.method, post.body.as_deref()),
        ("POST", Some(&b"b"[..]))
    );
    assert_eq!(
        (post.idempotency_key.as_deref(), &*post.headers[0].value),
        (Some("k"), "Bearer {{secret:TOKEN}}")
    );
}

#[test]
fn failures_have_the_kind_that_is_asked_for() {
    let cases = [
        (json!([{ "fail": "error" }]), FailureKind::Error),
        (json!([{ "fail": "retryable" }]), FailureKind::Retryable),
        (json!([{ "llm": "hi" }]), FailureKind::Denied),
        (json!([{ "read": "/in/a" }]), FailureKind::Denied),
        (
            json!([{ "write": "/out/../evil", "text": "x" }]),
            FailureKind::Denied,
        ),
        (
            json!([{ "http": "http://localhost", "method": "GET" }]),
            FailureKind::Denied,
        ),
        (json!([{ "getenv": "LANG" }]), FailureKind::Denied),
        (json!([{ "secret": "TOKEN" }]), FailureKind::Denied),
        (
            json!([{ "get": "k", "scope": "nowhere" }]),
            FailureKind::Error,
        ),
        (json!([{ "sing": "la" }]), FailureKind::Error),
    ];
    for (steps, kind) in cases {
        let failure = Host::new()
            .writable("/out")
            .run::<Probe>(call(steps.clone()))
            .unwrap_err();
        assert_eq!(failure.kind, kind, "{steps}: {}", failure.message);
    }
    let mut host = Host::new().llm_error(strata_action::HostErrorKind::Upstream, "no");
    let failure = host
        .run::<Probe>(call(json!([{ "llm": "hi" }])))
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Host);
}

#[test]
fn too_large_outputs_are_returned_and_floods_continue() {
    let mut host = Host::new();
    let big = output_of(
        &mut host,
        json!([{ "fail": "big-output" }, { "say": "never" }]),
    );
    assert!(big.len() > 8 * 1024 * 1024);
    let output = host
        .run::<Probe>(call(json!([{ "fail": "invalid" }])))
        .unwrap();
    assert!(output.data.is_some_and(|data| data.is_string()));
    assert_eq!(
        output_of(
            &mut host,
            json!([{ "fail": "flood-calls" }, { "say": "dry" }])
        ),
        "dry"
    );
    assert_eq!(
        output_of(&mut host, json!([{ "fail": "flood-log" }])),
        "p ok"
    );
    let bytes: usize = host.logged().iter().map(|(_, line)| line.len()).sum();
    assert!(bytes > 2 * 1024 * 1024);
}

#[test]
fn a_later_attempt_continues_after_the_step_that_failed() {
    let steps = json!([{ "fail": "trap", "attempts": [1] }, { "say": "at last" }]);
    let output = Host::new().run::<Probe>(call(steps).attempt(2)).unwrap();
    assert_eq!(output.content, "at last");
}

#[test]
fn as_a_thinker_it_answers_by_round() {
    let cases = [
        (
            json!([{ "choose": [1, 0, -1] }]),
            [Choice::Run(1), Choice::Run(0), Choice::End, Choice::End],
        ),
        (
            json!([{ "choose": [1, 9] }]),
            [Choice::Run(1), Choice::Run(9), Choice::End, Choice::End],
        ),
        (
            json!([]),
            [Choice::Run(0), Choice::End, Choice::End, Choice::End],
        ),
        (
            json!([{ "fail": "error", "attempts": [2] }, { "choose": [2] }]),
            [Choice::Run(2), Choice::End, Choice::End, Choice::End],
        ),
    ];
    for (steps, expected) in cases {
        for (round, expected) in (0..).zip(expected) {
            let choice = Host::new()
                .choose::<Probe>(call(steps.clone()), round)
                .unwrap();
            assert_eq!(choice, expected, "{steps} in round {round}");
        }
    }
    let failing = call(json!([{ "fail": "error", "attempts": [2] }])).attempt(2);
    assert!(Host::new().choose::<Probe>(failing, 0).is_err());
}

#[test]
fn as_a_planner_it_returns_the_tasks() {
    let steps = json!([{ "plan": ["t1", { "text": "t2", "action": "work" }] }]);
    let tasks = Host::new().plan::<Probe>(call(steps)).unwrap();
    let tasks: Vec<_> = tasks
        .iter()
        .map(|t| (t.text.as_str(), t.action.as_deref()))
        .collect();
    assert_eq!(tasks, [("t1", None), ("t2", Some("work"))]);
    let tasks = Host::new().plan::<Probe>(call(json!([]))).unwrap();
    assert_eq!(tasks[0].text, "p ok");
}

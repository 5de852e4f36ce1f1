//! Tests the conversions between the component's exports and an author's types, and the in-memory
//! host.

#![allow(clippy::unwrap_used, reason = "tests may")]

use serde::{Deserialize, Serialize};
use std::time::Duration;
use strata_action::environment::{Emission, emit};
use strata_action::export::{self, Input};
use strata_action::log::Level;
use strata_action::testing::{Call, Host};
use strata_action::*;

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Config {
    times: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { times: 2 }
    }
}

#[derive(Debug, PartialEq, Serialize)]
struct Data {
    length: usize,
}

struct Repeat;

impl Action for Repeat {
    type Config = Config;
    type Data = Data;
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Data>, Failure> {
        let content = cx.text().repeat(cx.config.times);
        let length = content.len();
        Ok(Output::new(content).data(Data { length }).to("Bob"))
    }
}

struct Silent;

impl Action for Silent {
    type Config = ();
    type Data = ();

    fn run(_: &Context<()>) -> Result<Output, Failure> {
        Ok(Output::new("").data(()))
    }
}

fn profile() -> Profile {
    Profile {
        name: "Ann".into(),
        profile: String::new(),
        goal: String::new(),
        constraints: String::new(),
        desc: String::new(),
    }
}

fn attempt() -> Attempt {
    Attempt {
        number: 1,
        idempotency_key: "run/0/Ann/0".into(),
        turn: None,
        call: None,
        deadline_ms: None,
    }
}

fn input(config: &str) -> Input {
    Input {
        role: profile(),
        action: "act".into(),
        index: 0,
        config: config.into(),
        news: vec![Message::new("UserRequirement", "ab")],
        outputs: Vec::new(),
        task: None,
        arguments: None,
    }
}

#[test]
fn config_and_data_are_converted_to_and_from_json() {
    let cases = [
        ("{\"times\":3}", "ababab", "{\"length\":6}"),
        ("{}", "abab", "{\"length\":4}"),
        ("null", "abab", "{\"length\":4}"),
    ];
    for (config, content, data) in cases {
        let output = export::run::<Repeat>(attempt(), input(config)).unwrap();
        assert_eq!(
            (output.content.as_str(), output.data.as_deref()),
            (content, Some(data))
        );
        assert_eq!(output.to, ["Bob"]);
    }
    assert_eq!(
        export::run::<Silent>(attempt(), input("null"))
            .unwrap()
            .data,
        None
    );
}

#[test]
fn a_config_of_the_wrong_type_is_a_failure() {
    for config in ["{\"times\":\"often\"}", "[", "7"] {
        let failure = export::run::<Repeat>(attempt(), input(config)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(
            failure.message.starts_with("reading the action's `config`"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_manifest_contains_the_metadata_of_the_crate() {
    let manifest = export::describe::<Repeat>("repeat", "1.2.3", "Repeats.");
    assert_eq!(
        (manifest.name.as_str(), manifest.version.as_str()),
        ("repeat", "1.2.3")
    );
    assert_eq!(
        (manifest.description.as_str(), &manifest.needs[..]),
        ("Repeats.", &["llm".to_owned()][..])
    );
}

struct Fixed;

impl Thinker for Fixed {
    type Config = Option<u32>;

    fn choose(situation: &Situation<Option<u32>>) -> Result<Choice, Failure> {
        Ok(situation.config.map_or(Choice::End, Choice::Run))
    }
}

struct Telling;

impl Thinker for Telling {
    type Config = ();

    fn choose(_: &Situation<()>) -> Result<Choice, Failure> {
        emit(&Emission::new("something"))?;
        Ok(Choice::End)
    }
}

#[test]
fn a_choice_changes_nothing() {
    let mut host = Host::new();
    let failure = host.choose::<Telling>(Call::new(), 0).unwrap_err();
    assert!(
        failure.message.contains("a choice changes nothing"),
        "{failure:?}"
    );
    assert!(host.emitted().is_empty());
}

#[test]
fn a_request_has_one_content_type() {
    let request = |request: http::Request| request.json(&1).unwrap().headers;
    let own = request(http::Request::post("http://a/").header("Content-Type", "application/x"));
    assert_eq!(
        own.iter()
            .map(|header| header.value.as_str())
            .collect::<Vec<_>>(),
        ["application/x"]
    );
    assert_eq!(
        request(http::Request::post("http://a/"))[0].value,
        "application/json"
    );
}

#[test]
fn choices_are_converted_to_indices() {
    let choose = |config: &str| {
        let situation = export::thinker::Situation {
            role: profile(),
            config: config.into(),
            round: 0,
            candidates: Vec::new(),
            news: Vec::new(),
            outputs: Vec::new(),
        };
        export::choose::<Fixed>(attempt(), situation)
    };
    assert_eq!(choose("null"), Ok(-1));
    assert_eq!(choose("3"), Ok(3));
    assert!(choose("4000000000").is_err());
}

#[test]
fn errors_of_the_host_become_failures() {
    let cases = [
        (HostErrorKind::Denied, FailureKind::Denied),
        (HostErrorKind::Upstream, FailureKind::Host),
        (HostErrorKind::OutOfBudget, FailureKind::Host),
        (HostErrorKind::Invalid, FailureKind::Error),
        (HostErrorKind::NotFound, FailureKind::Error),
    ];
    for (kind, expected) in cases {
        let failure = Failure::from(HostError {
            kind,
            message: "why".into(),
        });
        assert_eq!((failure.kind, failure.message.as_str()), (expected, "why"));
    }
}

#[test]
fn the_host_in_memory_keeps_state_by_scope() {
    let mut host = Host::new().scope("shared").state("role", "n", 1);
    host.within(|| -> Result<(), Failure> {
        assert_eq!(state::role().get("n")?, Some(1));
        assert_eq!(state::scope("shared").get::<u32>("n")?, None);
        state::scope("shared").set("n", &2)?;
        state::scope("shared").set("m", "text")?;
        assert_eq!(state::scope("shared").keys()?, ["m", "n"]);
        state::scope("shared").delete("m")?;
        let elsewhere = state::scope("elsewhere").get::<u32>("n").unwrap_err();
        assert_eq!(elsewhere.kind, FailureKind::Error);
        let mistyped = state::role().get::<String>("n").unwrap_err();
        assert!(
            mistyped.message.contains("key `n` of scope `role`"),
            "{}",
            mistyped.message
        );
        Ok(())
    })
    .unwrap();
    assert_eq!(host.value("shared", "n"), Some(2));
    assert_eq!(host.value::<String>("shared", "m"), None);
}

#[test]
fn the_host_in_memory_grants_directories_and_nothing_else() {
    let mut host = Host::new()
        .file("/in/a", "apple")
        .file("/in/deep/b", "b")
        .writable("/out");
    host.within(|| {
        assert_eq!(files::read_text("/in/a").unwrap(), "apple");
        assert_eq!(files::list("/in").unwrap(), ["a", "deep/"]);
        assert_eq!(
            files::read("/in/none").unwrap_err().kind,
            HostErrorKind::NotFound
        );
        assert_eq!(
            files::read("/elsewhere").unwrap_err().kind,
            HostErrorKind::Denied
        );
        assert_eq!(
            files::read("/input").unwrap_err().kind,
            HostErrorKind::Denied
        );
        files::write("/out/x/y", "z").unwrap();
        assert_eq!(
            files::write("/in/a", "z").unwrap_err().kind,
            HostErrorKind::Denied
        );
        assert_eq!(
            files::write("/out/../in/a", "z").unwrap_err().kind,
            HostErrorKind::Denied
        );
    });
    assert_eq!(host.content("/out/x/y"), Some(b"z".as_slice()));
    assert_eq!(host.content("/in/a"), Some(b"apple".as_slice()));
}

#[test]
fn the_host_in_memory_answers_other_calls() {
    let mut host = Host::new()
        .reply("one")
        .remember(Message::new("A", "1"))
        .remember(Message::new("B", "2"))
        .remember(Message::new("A", "3"));
    host.within(|| -> Result<(), Failure> {
        let contents = |messages: Vec<Message>| -> Vec<String> {
            messages
                .into_iter()
                .map(|message| message.content)
                .collect()
        };
        assert_eq!(contents(memory::recent(2)), ["2", "3"]);
        assert_eq!(contents(memory::labelled("A", 9)), ["1", "3"]);
        assert_eq!(
            contents(memory::recent(memory::bounds(9).bytes(2))),
            ["2", "3"]
        );
        clock::sleep(Duration::from_secs(2));
        assert!((clock::unix_time_ms() - 2000.0).abs() < 1.0);
        assert_ne!(random::bytes(16)?, random::bytes(16)?);
        assert_eq!(
            random::bytes(70_000).unwrap_err().kind,
            HostErrorKind::Invalid
        );
        log::warn("careful");
        emit(&Emission::new("more").to("Bob").cause_by("Note").data(7)?)?;
        let replies = llm::ask_many(&[llm::Request::new("a"), llm::Request::new("b")]);
        assert_eq!(replies[0].as_ref().unwrap().text, "one");
        assert_eq!(
            replies[1].as_ref().unwrap_err().kind,
            HostErrorKind::Upstream
        );
        Ok(())
    })
    .unwrap();
    assert_eq!(host.logged(), [(Level::Warn, "careful".to_owned())]);
    assert_eq!(host.emitted()[0].data.as_deref(), Some("7"));
    assert_eq!(host.prompts(), ["a", "b"]);
}

#[test]
fn the_host_in_memory_returns_responses_and_grants_secrets_and_variables() {
    let mut host = Host::new()
        .secret("TOKEN")
        .variable("LANG", "C")
        .response(201, "{\"id\":7}")
        .response(0, "");
    let url = "https://api.example.com/orders";
    let order = || -> Result<u32, Failure> {
        let request = http::Request::post(url)
            .bearer(&secrets::named("TOKEN")?)
            .json(&["tea"])?;
        let response = request
            .idempotency_key("k")
            .timeout(Duration::from_secs(5))
            .send()?;
        assert!(response.is_success() && !response.is_skipped());
        Ok(response.json::<std::collections::BTreeMap<String, u32>>()?["id"])
    };
    assert_eq!(host.within(order), Ok(7));
    let sent = &host.fetched()[0];
    let headers: Vec<_> = sent
        .headers
        .iter()
        .map(|header| (&*header.name, &*header.value))
        .collect();
    assert_eq!(
        headers,
        [
            ("authorization", "Bearer {{secret:TOKEN}}"),
            ("content-type", "application/json")
        ]
    );
    assert_eq!(
        (&sent.secrets[..], sent.body.as_deref()),
        (&["TOKEN".to_owned()][..], Some(&b"[\"tea\"]"[..]))
    );
    assert_eq!(
        (sent.timeout_ms, sent.idempotency_key.as_deref()),
        (Some(5000), Some("k"))
    );
    assert!(host.within(|| http::get(url)).unwrap().is_skipped());
    assert_eq!(
        host.within(|| http::get(url)).unwrap_err().kind,
        HostErrorKind::Upstream
    );
    assert_eq!(
        host.within(|| env::var("LANG")).unwrap().as_deref(),
        Some("C")
    );
    for denied in [
        host.within(|| env::var("HOME").map(drop)),
        host.within(|| secrets::named("OTHER").map(drop)),
        Host::new().within(|| http::get(url).map(drop)),
    ] {
        assert_eq!(denied.unwrap_err().kind, HostErrorKind::Denied);
    }
}

#[test]
fn a_structured_reply_is_read_from_data_block_or_text() {
    let reply = |text: &str, data: Option<&str>| llm::Reply {
        data: data.map(str::to_owned),
        ..llm::Reply::new(vec![llm::AssistantPart::Text(text.into())])
    };
    let cases = [
        (reply("[1]", None), Some(vec![1])),
        (reply("Here:\n```json\n[2]\n```", None), Some(vec![2])),
        (reply("[1]", Some("[3]")), Some(vec![3])),
        (reply("none", None), None),
    ];
    for (reply, expected) in cases {
        assert_eq!(reply.parse::<Vec<u8>>().ok(), expected, "{}", reply.text);
    }
}

#[test]
fn errors_are_displayed_as_their_messages() {
    let denied = Host::new()
        .within(|| state::scope("absent").keys())
        .unwrap_err();
    assert_eq!(denied.to_string(), denied.message);
    assert_eq!(Failure::from(denied.clone()).to_string(), denied.message);
}

#[test]
fn builders_set_the_fields_of_requests_and_messages() {
    let call = llm::ToolCall {
        id: "c1".into(),
        name: "add".into(),
        arguments: "{}".into(),
    };
    let request = llm::Request::new("1 + 1").stop(".").seed(7).reply(
        llm::Reply::new(vec![llm::AssistantPart::ToolCall(call.clone())]),
        vec![call.result("2")],
    );
    assert_eq!(
        (request.stop.as_slice(), request.seed),
        ([".".to_owned()].as_slice(), Some(7))
    );
    let [
        llm::ChatMessage::User(_),
        llm::ChatMessage::Assistant(parts),
        results,
    ] = &request.messages[..]
    else {
        panic!("{:?}", request.messages);
    };
    assert_eq!(parts[..], [llm::AssistantPart::ToolCall(call.clone())]);
    assert_eq!(
        *results,
        llm::ChatMessage::ToolResults(vec![call.result("2")])
    );
    assert_eq!(results.text(), "2");
    assert!(call.error("no").is_error);
    let hop = || Hop {
        from: "Bob".into(),
        to: vec!["Ann".into()],
    };
    assert_eq!(Output::<()>::new("x").hop(hop()).route, [hop()]);
    assert_eq!(Emission::new("x").hop(hop()).route, [hop()]);
}

#[test]
#[should_panic(expected = "outside of `strata_action::testing::Host`")]
fn without_a_host_its_functions_panic() {
    clock::unix_time_ms();
}

#[test]
fn a_host_survives_the_panic_of_an_action() {
    let mut host = Host::new();
    let within = std::panic::AssertUnwindSafe(|| {
        host.within(|| {
            log::info("so far");
            panic!("on purpose");
        })
    });
    assert!(std::panic::catch_unwind(within).is_err());
    assert_eq!(host.logged().len(), 1);
    assert_eq!(
        host.run::<Repeat>(Call::new().news("a")).unwrap().content,
        "aa"
    );
}

#[test]
fn a_conversation_is_continued_with_the_reply_as_it_was_received() {
    let opaque = llm::AssistantPart::Opaque(llm::OpaquePart {
        provider: "p".into(),
        model: "m".into(),
        data: "{}".into(),
        reasoning: "hm".into(),
    });
    let call = llm::ToolCall {
        id: "1".into(),
        name: "add".into(),
        arguments: "{\"a\":1}".into(),
    };
    let parts = vec![
        opaque,
        llm::AssistantPart::Text("I ".into()),
        llm::AssistantPart::Text("add".into()),
        llm::AssistantPart::ToolCall(call.clone()),
    ];
    let reply = llm::Reply::new(parts.clone());
    assert_eq!(
        (reply.text.as_str(), reply.is_truncated()),
        ("I add", false)
    );
    assert_eq!(reply.finish, llm::FinishReason::ToolCalls);
    assert_eq!(reply.tool_calls().collect::<Vec<_>>(), [&call]);
    let arguments: std::collections::BTreeMap<String, u32> = call.parse().unwrap();
    assert_eq!(arguments["a"], 1);
    let mut host = Host::new().full_reply(reply).reply("done");
    host.within(|| -> Result<(), Failure> {
        let request = llm::Request::new("go")
            .effort("low")
            .tool_choice(llm::ToolChoice::Required);
        let reply = request.send()?;
        let again = request.reply(reply, Vec::new());
        assert_eq!(again.send()?.text, "done");
        Ok(())
    })
    .unwrap();
    let messages = &host.requests()[1].messages;
    assert_eq!(messages[1..], [llm::ChatMessage::Assistant(parts)]);
}

#[test]
fn arguments_of_a_tool_call_are_parsed() {
    struct Square;
    impl Action for Square {
        type Config = ();
        type Data = u32;
        const INPUT_SCHEMA: Option<&'static str> = Some("{\"type\":\"object\"}");
        fn run(cx: &Context<()>) -> Result<Output<u32>, Failure> {
            let arguments: std::collections::BTreeMap<String, u32> = cx.arguments()?;
            Ok(Output::new("").data(arguments["n"] * arguments["n"]))
        }
    }
    let mut host = Host::new();
    let run = |host: &mut Host, call| host.run::<Square>(call).map(|output| output.data);
    let call = Call::new().arguments(serde_json::json!({ "n": 3 }));
    assert_eq!(run(&mut host, call), Ok(Some(9)));
    let call = Call::new().arguments("three");
    let failure = run(&mut host, call).unwrap_err();
    assert!(
        failure
            .message
            .starts_with("reading the arguments of the tool call")
    );
    assert!(run(&mut host, Call::new()).is_err());
    let manifest = export::describe::<Square>("square", "1.0.0", "");
    assert_eq!(manifest.input_schema.as_deref(), Square::INPUT_SCHEMA);
}

#[test]
fn images_and_vectors_come_from_the_host_in_memory() {
    let mut host = Host::new()
        .blob("d1", *b"png")
        .embeddings(vec![vec![0.5, -1.0]]);
    host.within(|| {
        let blob = media::Blob {
            digest: "d1".into(),
            size: 3,
        };
        let image = media::Media {
            source: media::MediaSource::Blob(blob),
            ..media::Media::new("image/png", Vec::new()).name("a.png")
        };
        assert_eq!(image.load().unwrap(), b"png");
        assert_eq!(media::load("d2").unwrap_err().kind, HostErrorKind::NotFound);
        let elsewhere = media::Media::at("image/png", "https://example.com/a.png");
        assert_eq!(elsewhere.load().unwrap_err().kind, HostErrorKind::Invalid);
        let vectors = llm::embed(["a"]).unwrap().vectors;
        assert_eq!(vectors, [[0.5, -1.0]]);
        assert_eq!(llm::embed(["b"]).unwrap_err().kind, HostErrorKind::Upstream);
    });
    assert_eq!(host.embed_requests()[0].texts, ["a"]);
}

//! Teams that keep running: the library's `LiveEnvironment`, `run --keep-alive`, and `send` to a
//! running team.

use std::path::Path;
use std::time::Duration;

use strata_host::live::{CommandError, HumanReply, LiveError, LiveEvents};
use strata_host::manifest::Overrides;
use strata_host::public_event::{EventLine, PublicEvent};
use strata_host::{LiveEnvironment, Message, Resume, Start, Status, WhenIdle};

use crate::process::Signal;
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// A team that greets the sender of each message.
pub const GREETER: &str = r#"
schema = "strata.team/1"
[team]
name = "greeter"
idea = "hello"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Greet"
component = "probe.wasm"
config = { steps = [{ say = "re: {inputs}" }] }
"#;

pub fn said(text: &str) -> Message {
    Message::from_user("".into(), text.into(), "UserRequirement".into())
}

pub fn create(place: &Workspace) -> LiveEnvironment {
    let (team, storage) = (place.path("team.toml"), place.path("store"));
    let overrides = Overrides::default();
    LiveEnvironment::create(Start::new(team, storage, overrides)).unwrap()
}

/// Creates an environment that has finished its work and waits for messages, with its events.
pub async fn resting(place: &Workspace) -> (LiveEnvironment, LiveEvents) {
    let mut environment = create(place);
    let events = environment.events().unwrap();
    environment.start(WhenIdle::Stay).unwrap();
    environment.idle().await;
    (environment, events)
}

fn load(path: &Path, when_idle: WhenIdle) -> LiveEnvironment {
    let overrides = Overrides::default();
    LiveEnvironment::load(Resume {
        when_idle,
        ..Resume::new(path, overrides)
    })
    .unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

pub fn in_runtime(work: impl Future<Output = ()>) {
    runtime().block_on(work);
}

#[test]
fn an_environment_is_started_used_stopped_and_loaded_again() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let mut environment = create(&place);
        assert!(environment.is_idle(), "it does not run yet");
        assert!(environment.send(said("too early")).await.is_err());
        environment.start(WhenIdle::Stay).unwrap();
        assert!(
            environment.start(WhenIdle::Stay).is_err(),
            "it runs already"
        );
        let sent = environment.send(said("one")).await.unwrap();
        assert_eq!(
            (sent.id.as_str(), sent.to.as_slice()),
            ("sent-0", &["A".to_owned()][..])
        );
        environment.idle().await;
        environment.save().await.unwrap();
        assert_eq!(place.team_json()["strata"]["status"], "running");
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
        assert_eq!(place.team_json()["strata"]["status"], "done");
        drop(environment);

        let mut environment = load(&place.path("store"), WhenIdle::Stay);
        environment.start(WhenIdle::Stay).unwrap();
        environment.say("UserRequirement", "two").await.unwrap();
        environment.idle().await;
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
    });
    let outputs: Vec<_> = stream::of_kind(&place.recorded(), "action-finished")
        .iter()
        .map(|l| l["output"]["content"].clone())
        .collect();
    assert_eq!(outputs.last().unwrap(), "re: two");
    stream::assert_numbered(&place.recorded());
}

#[test]
fn an_environment_that_ended_reports_that_and_continues_when_it_is_started_again() {
    let place =
        Workspace::with(&GREETER.replace("{ say =", "{ ask = \"who?\", attempts = [1] }, { say ="));
    in_runtime(async {
        let mut environment = create(&place);
        environment.start(WhenIdle::End).unwrap();
        environment.idle().await;
        // Nobody has waited for its end yet.
        let sent =
            tokio::time::timeout(Duration::from_secs(60), environment.send(said("too late"))).await;
        assert!(
            matches!(sent, Ok(Err(LiveError::Unserved(CommandError::Ended)))),
            "{sent:?}"
        );
        assert_eq!(environment.ended().await.unwrap(), Status::Waiting);
        let asked = stream::of_kind(&place.recorded(), "request-opened")[0]["request"]
            .as_str()
            .unwrap()
            .to_owned();
        let given = HumanReply {
            request: asked,
            text: "I".into(),
            person: None,
        };
        environment.answer(vec![given]).await.unwrap();
        environment.start(WhenIdle::End).unwrap();
        assert_eq!(environment.ended().await.unwrap(), Status::Done);
        environment.start(WhenIdle::Stay).unwrap();
        environment.send(said("again")).await.unwrap();
        environment.idle().await;
        assert_eq!(environment.stop().await.unwrap(), Status::Waiting);
    });
}

fn is_end(line: &EventLine) -> bool {
    matches!(line.event, PublicEvent::RunEnded { .. })
}

#[test]
fn events_are_streamed_from_the_first_and_end_with_the_environment() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let mut environment = create(&place);
        let mut events = environment.events().unwrap();
        environment.start(WhenIdle::End).unwrap();
        let mut lines: Vec<EventLine> = Vec::new();
        while !lines.last().is_some_and(is_end) {
            lines.push(events.next().await.unwrap().unwrap());
        }
        assert_eq!(environment.ended().await.unwrap(), Status::Done);
        let late = environment.events().unwrap();
        drop(environment);
        assert!(events.next().await.unwrap().is_none());
        let late: Vec<_> = futures_util::StreamExt::collect(late.into_stream()).await;
        let late: Vec<_> = late.into_iter().map(Result::unwrap).collect();
        assert_eq!(late, lines);
    });
}

#[test]
fn an_environment_that_is_dropped_while_it_runs_stops_and_can_be_loaded_again() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let (environment, mut events) = resting(&place).await;
        drop(environment);
        // The end of the events is reported when the directory has been released.
        let mut last = None;
        while let Some(line) = events.next().await.unwrap() {
            last = Some(line);
        }
        assert!(last.as_ref().is_some_and(is_end));
        let mut environment = load(&place.path("store"), WhenIdle::Stay);
        environment.start(WhenIdle::Stay).unwrap();
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
    });
}

#[test]
fn an_environment_ends_with_its_runtime_and_reports_that() {
    let place = Workspace::with(&GREETER.replace("{ say", "{ sleep = \"1h\" }, { say"));
    let runtime = runtime();
    let mut environment = runtime.block_on(async {
        let mut environment = create(&place);
        let mut events = environment.events().unwrap();
        environment.start(WhenIdle::End).unwrap();
        let is_start = |line: &EventLine| matches!(line.event, PublicEvent::ActionStarted { .. });
        while !is_start(&events.next().await.unwrap().unwrap()) {}
        environment
    });
    runtime.shutdown_background();
    in_runtime(async {
        let error = environment.ended().await.unwrap_err();
        assert!(
            error.to_string().contains("its thread was torn down"),
            "{error}"
        );
        assert!(
            environment.stop().await.is_err(),
            "it is to be loaded again"
        );
        assert!(environment.is_idle());
    });
    drop(environment);
    assert!(load(&place.path("store"), WhenIdle::End).is_idle());
}

#[test]
fn the_metrics_of_an_environment_are_available_while_it_runs_and_afterwards() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let mut environment = create(&place);
        let metrics = environment.metrics().unwrap();
        environment.start(WhenIdle::Stay).unwrap();
        assert!(
            environment.metrics().is_err(),
            "what it did so far would not be counted"
        );
        environment.send(said("one")).await.unwrap();
        environment.idle().await;
        let finished = "{role=\"A\",action=\"Greet\",outcome=\"finished\"}";
        assert!(
            metrics.to_text().contains(finished),
            "{}",
            metrics.to_text()
        );
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
        assert!(
            metrics.to_text().contains("status=\"done\""),
            "{}",
            metrics.to_text()
        );
    });
}

#[test]
fn an_environment_without_a_runtime_is_not_started() {
    let place = Workspace::with(GREETER);
    let mut environment = create(&place);
    let error = environment.start(WhenIdle::End).unwrap_err();
    assert!(
        error.to_string().contains("runs within a tokio runtime"),
        "{error}"
    );
    in_runtime(async {
        environment.start(WhenIdle::End).unwrap();
        assert_eq!(environment.ended().await.unwrap(), Status::Done);
    });
}

#[test]
fn waiting_for_the_end_of_an_environment_can_be_repeated_after_a_timeout() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let mut environment = create(&place);
        environment.start(WhenIdle::Stay).unwrap();
        assert!(futures_util::FutureExt::now_or_never(environment.ended()).is_none());
        environment.send(said("one")).await.unwrap();
        environment.idle().await;
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
    });
}

#[test]
fn a_team_that_is_kept_alive_handles_messages_until_it_is_stopped() {
    let place = Workspace::with(GREETER);
    let mut process = place.start_resting();
    let sent = place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    assert!(
        sent.stderr
            .contains("message sent-0 is in the mailbox of A"),
        "{}",
        sent.stderr
    );
    let greeted = process.until("action-finished", Some("A"));
    assert_eq!(greeted["output"]["content"], "re: more");
    process.until("step-committed", None);
    process.signal(Signal::INT);
    // Nothing was left to do, so it was not interrupted.
    process.end().expect(0);
    assert_eq!(place.team_json()["strata"]["status"], "done");
    // The team is not running any more: the message waits in a mailbox.
    place
        .host(&["send", "store", "--cause", "UserRequirement", "later"])
        .expect(0);
    let resumed = place.resume().expect(0);
    assert_eq!(
        stream::of_kind(&resumed.events(), "action-finished")[0]["output"]["content"],
        "re: later"
    );
}

#[test]
fn a_team_that_is_kept_alive_outlives_a_fault_that_is_parked() {
    let parking = GREETER.replace("[[role]]", "on_fault = \"park\"\n[[role]]");
    let at_fault = "[[role]]\nname = \"B\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"fail\"\n\
                    component = \"probe.wasm\"\nconfig = { steps = [{ trap = \"unreachable\" }] }\n";
    let place = Workspace::with(&(parking + at_fault));
    let mut process = place.start_resting();
    place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    assert_eq!(
        process.until("action-finished", Some("A"))["output"]["content"],
        "re: more"
    );
    process.until("step-committed", None);
    process.signal(Signal::INT);
    let ended = process.end().expect(3);
    assert!(ended.stderr.contains("--recover_path"), "{}", ended.stderr);
    assert_eq!(place.team_json()["strata"]["status"], "failed");
    assert_eq!(
        place
            .recorded()
            .iter()
            .filter(|line| line["kind"] == "action-failed")
            .count(),
        1
    );
}

#[test]
fn a_message_reaches_a_running_team() {
    let busy = GREETER.replace("{ say", "{ sleep = \"1s\" }, { say");
    let place = Workspace::with(&busy);
    let mut process = place.start_run(&[]);
    process.until("action-started", None);
    place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    let ended = process.end().expect(0);
    let outputs = stream::of_kind(&ended.events(), "action-finished").len();
    assert_eq!(outputs, 2, "{}", ended.stdout);
}

#[test]
fn a_timeout_while_sending_to_a_suspended_process_sends_nothing() {
    let place = Workspace::with(GREETER);
    let mut process = place.start_resting();
    process.signal(Signal::STOP);
    let given_up = place.start(&["send", "store", "--cause", "UserRequirement", "lost"]);
    // By then the message has been sent, as far as that depends on the sender.
    std::thread::sleep(Duration::from_millis(500));
    given_up.kill();
    process.signal(Signal::CONT);
    place
        .host(&["send", "store", "--cause", "UserRequirement", "again"])
        .expect(0);
    assert_eq!(
        process.until("action-finished", Some("A"))["output"]["content"],
        "re: again"
    );
    process.signal(Signal::INT);
    process.end().expect(0);
}

/// Creates a team with one action with these steps and limits, and grants for a server.
fn asking(web: &Web, steps: &str, limits: &str, more: &str) -> Workspace {
    let port = web.port();
    Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n{more}\n[[role]]\nname = \"A\"\n\
         watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"p\"\ncomponent = \"probe.wasm\"\n\
         config = {{ steps = [{steps}] }}\n[role.action.limits]\n{limits}\n[role.action.allow]\n\
         http = [{{ host = \"127.0.0.1:{port}\", methods = [\"POST\"] }}]\n"
    ))
}

async fn ended(environment: &mut LiveEnvironment) -> Result<Status, LiveError> {
    let ended = tokio::time::timeout(Duration::from_secs(60), environment.ended()).await;
    ended.expect("it does not end")
}

#[test]
fn an_environment_that_was_stopped_while_an_attempt_was_kept_open_continues() {
    let web = Web::new();
    let write = format!(
        "{{ http = \"http://127.0.0.1:{}/v1/slow/1500\", method = \"POST\" }}",
        web.port()
    );
    let place = asking(
        &web,
        &write,
        "timeout = \"200ms\"\nretries = 2\nbackoff = \"1ms\"",
        "",
    );
    in_runtime(async {
        let mut environment = create(&place);
        environment.start(WhenIdle::End).unwrap();
        web.wait(1);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(environment.stop().await.unwrap(), Status::Interrupted);
        environment.start(WhenIdle::End).unwrap();
        assert_eq!(ended(&mut environment).await.unwrap(), Status::Done);
    });
    assert_eq!(web.lines().len(), 1, "its answer was recorded");
}

#[test]
fn a_message_that_was_being_sent_at_a_stop_is_sent_when_the_environment_continues() {
    let web = Web::new();
    let outside = format!(
        "[env.external]\nkind = \"http\"\nurl = \"http://127.0.0.1:{}/v1/once/x\"",
        web.port()
    );
    let place = asking(&web, "{ say = \"out\", to = [\"somebody\"] }", "", &outside);
    in_runtime(async {
        let mut environment = create(&place);
        environment.start(WhenIdle::Stay).unwrap();
        web.wait(1);
        environment.stop().await.unwrap();
        environment.start(WhenIdle::End).unwrap();
        ended(&mut environment).await.unwrap();
    });
    assert_eq!(web.lines().len(), 2);
}

#[test]
fn a_timeout_while_sending_to_a_blocked_process_sends_nothing() {
    // Nobody reads its stdout, so it blocks while it writes an event.
    let place = Workspace::with(&GREETER.replace("re: ", &("x".repeat(200_000) + "re: ")));
    let mut process = place.start_run(&["--keep-alive"]);
    // There may be nothing to read earlier.
    while !place.path("store/team.json").exists()
        || !place
            .recorded()
            .iter()
            .any(|line| line["kind"] == "action-finished")
    {}
    let given_up = place.start(&["send", "store", "--cause", "UserRequirement", "lost"]);
    // By now it waits for its turn.
    std::thread::sleep(Duration::from_millis(1000));
    given_up.kill();
    std::thread::sleep(Duration::from_millis(500));
    process.until("action-finished", Some("A"));
    process.until("step-committed", None);
    place
        .host(&["send", "store", "--cause", "UserRequirement", "again"])
        .expect(0);
    let said = process.until("action-finished", Some("A"));
    assert!(stream::text(&said["output"]["content"]).ends_with("re: again"));
    process.signal(Signal::INT);
    process.end().expect(0);
}

#[test]
fn an_answer_that_could_not_be_saved_is_not_acknowledged() {
    let place =
        Workspace::with(&GREETER.replace("{ say =", "{ ask = \"who?\", attempts = [1] }, { say ="));
    in_runtime(async {
        let mut environment = create(&place);
        environment.start(WhenIdle::End).unwrap();
        assert_eq!(environment.ended().await.unwrap(), Status::Waiting);
        let asked = stream::of_kind(&place.recorded(), "request-opened")[0]["request"]
            .as_str()
            .unwrap()
            .to_owned();
        let given = || {
            vec![HumanReply {
                request: asked.clone(),
                text: "I".into(),
                person: None,
            }]
        };
        std::fs::rename(place.path("store"), place.path("away")).unwrap();
        let failed = environment.answer(given()).await;
        assert!(matches!(failed, Err(LiveError::Driver(_))), "{failed:?}");
        std::fs::rename(place.path("away"), place.path("store")).unwrap();
        let again = environment.answer(given()).await;
        assert!(matches!(again, Err(LiveError::State(_))), "{again:?}");
        drop(environment);
        let mut environment = load(&place.path("store"), WhenIdle::End);
        environment.answer(given()).await.unwrap();
        environment.start(WhenIdle::End).unwrap();
        assert_eq!(ended(&mut environment).await.unwrap(), Status::Done);
    });
}

#[test]
fn an_external_program_may_send_the_first_message() {
    let place = Workspace::with(GREETER);
    place.write(
        "bridge.sh",
        "echo '{\"content\":\"hi\",\"cause_by\":\"UserRequirement\"}'; cat",
    );
    let (head, roles) = GREETER.split_once("[[role]]").unwrap();
    let external = "[env.external]\nkind = \"stdio\"\ncommand = [\"sh\", \"bridge.sh\"]\n[[role]]";
    place.write("team.toml", [head, external, roles].concat());
    let mut process = place.start_run(&["--keep-alive"]);
    while process.until("message-routed", None)["id"] != "sent-0" {}
    process.until("action-finished", Some("A"));
    process.kill();
}

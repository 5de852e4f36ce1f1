//! Environments that are embedded in a program: handles for its tasks, separate environment
//! variables for each environment, and the report of an error.

use std::time::Duration;

use strata_host::live::{CommandError, HumanReply, LiveError};
use strata_host::{LiveEnvironment, Overrides, Start, Status, Variables, WhenIdle};

use crate::live::{GREETER, create, in_runtime, resting};
use crate::workspace::Workspace;

#[test]
fn a_handle_controls_the_environment_from_other_tasks() {
    let place =
        Workspace::with(&GREETER.replace("{ say =", "{ ask = \"who?\", attempts = [1] }, { say ="));
    in_runtime(async {
        let mut environment = create(&place);
        let handle = environment.handle();
        assert_eq!(handle.idle().await, None, "it was not started yet");
        assert!(matches!(handle.state().await, Err(LiveError::State(_))));
        environment.start(WhenIdle::Stay).unwrap();
        let other = handle.clone();
        let answers = tokio::spawn(async move {
            assert_eq!(other.idle().await, Some(Status::Waiting));
            let state = other.state().await.unwrap();
            let (_, request) = state.env().open_requests().next().unwrap();
            assert_eq!(request.question, "who?");
            let given = HumanReply {
                request: request.id.0.clone(),
                text: "\"I\"".into(),
                person: None,
            };
            other.answer(vec![given]).await.unwrap();
            assert_eq!(other.idle().await, Some(Status::Done));
            other.stop();
        });
        assert_eq!(environment.ended().await.unwrap(), Status::Done);
        answers.await.unwrap();
        assert_eq!(handle.idle().await, Some(Status::Done));
        let state = environment.state().await.unwrap();
        assert_eq!(
            state.env().messages.iter().last().unwrap().content,
            "re: hello"
        );
        assert!(matches!(
            handle.say("Note", "x").await,
            Err(LiveError::State(_))
        ));
        environment.start(WhenIdle::Stay).unwrap();
        assert_eq!(handle.say("Note", "x").await.unwrap().id, "sent-0");
        assert_eq!(environment.stop().await.unwrap(), Status::Done);
    });
}

#[test]
fn each_environment_has_the_variables_that_its_program_gives_it() {
    let team = GREETER
        .replace("{ say =", "{ getenv = \"STRATA_TEST_WHOSE\" }, { say =")
        .replace("{inputs}", "{reads}");
    let place = Workspace::with(
        &(team
            + "[role.action.allow]\nenv = [\"STRATA_TEST_WHOSE\"]\nsecrets = [\"STRATA_TEST_WHOSE\"]\n"),
    );
    in_runtime(async {
        let create = |name: &str, overrides: &Overrides| {
            let (team, storage) = (place.path("team.toml"), place.path(name));
            LiveEnvironment::create(Start::new(team, storage, overrides.clone()))
        };
        let refused = create("none", &Overrides::default())
            .err()
            .unwrap()
            .to_string();
        assert!(
            refused.contains("`STRATA_TEST_WHOSE`") && refused.contains("is not set"),
            "{refused}"
        );
        for whose in ["one's", "another's"] {
            let find = move |name: &str| (name == "STRATA_TEST_WHOSE").then(|| whose.to_owned());
            let mut environment = create(
                whose,
                &Overrides {
                    variables: Variables::from_fn(find),
                    ..Overrides::default()
                },
            )
            .unwrap();
            environment.start(WhenIdle::End).unwrap();
            assert_eq!(environment.ended().await.unwrap(), Status::Done);
            let state = environment.state().await.unwrap();
            assert_eq!(
                state.env().messages.iter().last().unwrap().content,
                format!("re: {whose}")
            );
        }
    });
}

#[test]
fn the_events_end_with_the_error_that_ended_the_environment() {
    let place = Workspace::with(GREETER);
    in_runtime(async {
        let (mut environment, mut events) = resting(&place).await;
        std::fs::rename(place.path("store"), place.path("away")).unwrap();
        // The directory is looked up once a millisecond at most.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let failed = environment.say("UserRequirement", "x").await;
        assert!(
            matches!(failed, Err(LiveError::Unserved(CommandError::Unsaved(_)))),
            "{failed:?}"
        );
        let read = async { while events.next().await.unwrap().is_some() {} };
        tokio::time::timeout(Duration::from_secs(60), read)
            .await
            .expect("they end, though nobody asks for its end");
        assert_eq!(environment.idle().await, None);
        assert!(matches!(
            environment.ended().await,
            Err(LiveError::Driver(_))
        ));
    });
}

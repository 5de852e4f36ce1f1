//! The driver and questions to people: an attempt that asks releases its resources at once, after
//! the question is saved.

use std::sync::Arc;

use strata_core::record::event::{AttemptEvent, Event, RequestAnswered, Status};
use strata_core::record::human_request::HumanAnswer as Answered;
use strata_core::record::id::ActionId;
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_core::record::work::{CallKey, Work};
use strata_host::gateway::{Gateway, GuestRequest, HostAnswer};
use strata_host::sandbox::{
    AttemptFuture, ReturnValue, SandboxCall, ScriptedSandbox, outcome_without_usage,
    output_without_effects,
};
use strata_host::services::human::HumanQuestion;

use super::{role, run, team};

fn question() -> HumanQuestion {
    HumanQuestion {
        text: "how many?".into(),
        schema: None,
        choices: Vec::new(),
        expires_s: None,
        default: None,
    }
}

fn say(text: &str) -> strata_host::sandbox::SandboxOutcome {
    outcome_without_usage(Ok(output_without_effects(ReturnValue::Output(Draft {
        content: text.into(),
        ..Draft::default()
    }))))
}

/// Returns an attempt that holds a resource while it asks.
fn asking(held: Arc<()>) -> impl Fn(SandboxCall, Gateway) -> AttemptFuture + Send + Sync + 'static {
    let weak = Arc::downgrade(&held);
    // Only the first attempt holds it.
    let held = std::sync::Mutex::new(Some(held));
    move |call, gateway| {
        let held = held.lock().unwrap().take();
        assert_eq!(call.attempt == 1, held.is_some());
        assert!(call.attempt == 1 || weak.upgrade().is_none());
        Box::pin(async move {
            match gateway.request(GuestRequest::AskHuman(question())).await {
                Some(HostAnswer::Human(Answered::Given(value))) => {
                    say(&format!("got {}", value.as_str()))
                }
                // The attempt is over, but the driver must not regard this as its result.
                _ => {
                    drop(held);
                    say("nonsense")
                }
            }
        })
    }
}

#[test]
fn an_attempt_that_asks_releases_its_resources_while_others_run() {
    let team = team(vec![
        role("A", "UserRequirement", &["Ask"]),
        role("B", "UserRequirement", &["Watch"]),
    ]);
    let held = Arc::new(());
    let weak = Arc::downgrade(&held);
    let sandbox = ScriptedSandbox::new()
        .with_script("A", "Ask", asking(held))
        .with_script("B", "Watch", move |_, _| {
            let weak = weak.clone();
            Box::pin(async move {
                // Ends only when the other attempt is gone.
                while weak.upgrade().is_some() {
                    tokio::task::yield_now().await;
                }
                say("it is gone")
            })
        });
    let ran = run(&team, &sandbox, &[], None);
    assert_eq!(ran.status.unwrap(), Status::Waiting);
    assert_eq!(ran.env.history.len(), 2);
    let mut records = ran.ledger.lock().unwrap().records.clone();

    let (role, request) = ran.env.open_requests().next().unwrap();
    let first_action = Work::Act {
        action: ActionId(0),
        task: None,
    };
    let answer = Event::Attempt(
        CallKey::new(role, first_action),
        AttemptEvent::RequestAnswered(RequestAnswered {
            request: request.id.clone(),
            answer: Answered::Given(Json::parse("7").unwrap()),
            person: None,
            checkpoint: ran.env.next_checkpoint_id(),
            parent: ran.env.checkpoint.clone(),
        }),
    );
    let mut record = records.last().unwrap().clone();
    (record.line, record.lines, record.event) = (record.line + u64::from(record.lines), 1, answer);
    records.push(record);
    let ran = run(&team, &sandbox, &records, None);
    assert_eq!(ran.status.unwrap(), Status::Done);
    assert_eq!(
        ran.env.message(*ran.env.history.last().unwrap()).content,
        "got 7"
    );
    assert_eq!(sandbox.calls().len(), 3, "who was done is not called again");
}

//! Tests of faults as views: the advice and the frames that are shown.

use serde_json::json;

use strata_core::record::conversation::{AssistantPart, TokenUsage, ToolCall};
use strata_core::record::host_call::FinishReason;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;

use super::*;
use crate::tests::fixture::{FixtureAttempt, RunFixture};

fn advice_for(from: &str, fault: &Fault) -> FaultAdvice {
    let withheld = vec![(
        Grant::Env,
        "`allow.env` is not all allowed (policy.toml)".into(),
    )];
    let origin = ComponentOrigin {
        from: from.into(),
        line: "team.toml:9".into(),
        withheld,
    };
    let failed = FailedAction {
        name: "A.One".into(),
        retries: 0,
        origin: Some(&origin),
    };
    failed.advise(fault)
}

#[test]
fn code_is_changed_where_it_comes_from() {
    let check = |from: &str, source: CodeSource, edits_team_file: bool, component: Option<&str>| {
        let fault = Fault::new(FaultKind::Error, "boom").with_cause(FaultCause::Declared);
        let expected = FaultAdvice {
            action: "A.One".into(),
            location: Some("team.toml:9".into()),
            remedy: Some(Remedy::ChangeCode { source }),
            edits_team_file,
            component: component.map(str::to_owned),
        };
        assert_eq!(advice_for(from, &fault), expected, "{from}");
    };
    check("greet", CodeSource::Directory("greet".into()), true, None);
    check("x.py", CodeSource::Script("x.py".into()), true, None);
    check("/teams/<newest>.py", CodeSource::Message, false, None);
    check("a.wasm", CodeSource::Component, true, Some("A.One"));
}

#[test]
fn advice_follows_from_the_cause_and_never_from_the_words_of_a_guest() {
    for cause in FaultCause::ALL {
        let of_message = |message: &str| {
            advice_for(
                "a.wasm",
                &Fault::new(FaultKind::Denied, message).with_cause(cause),
            )
        };
        for message in ["`limits.cpu` was reached", "`allow.http` is not granted"] {
            assert_eq!(of_message("no"), of_message(message), "{cause:?}");
        }
    }
    let check = |cause: FaultCause, expected: Remedy| {
        let advice = advice_for("a.wasm", &Fault::new(FaultKind::Host, "").with_cause(cause));
        assert_eq!(advice.remedy, Some(expected), "{cause:?}");
        assert!(advice.edits_team_file, "{cause:?}");
    };
    check(
        FaultCause::NotGranted(Grant::Http),
        Remedy::AddGrant { grant: Grant::Http },
    );
    check(
        FaultCause::NotGranted(Grant::Env),
        Remedy::WithheldGrant {
            grant: Grant::Env,
            reason: "`allow.env` is not all allowed (policy.toml)".into(),
        },
    );
    check(FaultCause::NoScriptedReply, Remedy::AddScriptedReply);
    check(
        FaultCause::CpuLimit,
        Remedy::RaiseLimit {
            limit: Some("limits.cpu"),
            may_loop: true,
        },
    );
}

/// Returns the only call of a run that failed.
fn failed_call(run: &RunFixture) -> CallKey {
    let mut failed = run.stepper.env().failed_calls(run.stepper.team());
    failed.next().expect("a failed call").0
}

#[test]
fn a_fault_is_created_from_the_state_and_can_be_serialised() {
    let roles = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                 [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";
    let run = RunFixture::new(roles, |_, _| {
        let cause = FaultCause::NotGranted(Grant::Llm);
        FixtureAttempt::Fail(Fault::new(FaultKind::Denied, "no model").with_cause(cause))
    });
    let fault = FaultView::from_call(&run.stepper, failed_call(&run), &run.provenance);
    assert_eq!(
        serde_json::to_value(fault).expect("JSON"),
        json!({
            "role": "A", "index": 0, "action": "One", "attempt": 1, "kind": "denied",
            "cause": "llm-not-granted", "message": "no model", "backtrace": [], "log": [],
            "tool_call": null, "last_calls": [],
            "advice": {
                "action": "A.One", "location": "team.toml:7", "edits_team_file": true, "component": null,
                "remedy": { "kind": "add-grant", "grant": "llm" },
            },
        })
    );
}

#[test]
fn an_interruption_is_no_fault() {
    let roles = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                 [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";
    let run = RunFixture::new(roles, |_, _| {
        FixtureAttempt::Fail(Fault::new(FaultKind::Interrupted, "stopped"))
    });
    assert_eq!(
        FaultView::from_call(&run.stepper, failed_call(&run), &run.provenance),
        None
    );
}

#[test]
fn a_backtrace_is_shown_from_where_the_guest_s_own_code_is() {
    let check = |stack: &[&str], expected: &[&str]| {
        let fault = FaultView {
            role: "A".into(),
            index: None,
            action: "think".into(),
            attempt: 1,
            kind: FaultKind::Trap,
            cause: FaultCause::Unspecified,
            message: String::new(),
            backtrace: stack.iter().map(|&frame| frame.to_owned()).collect(),
            log: Vec::new(),
            tool_call: None,
            last_calls: Vec::new(),
            advice: advice_for("a.wasm", &Fault::new(FaultKind::Trap, "")),
        };
        assert_eq!(fault.guest_frames(), expected, "{stack:?}");
    };
    check(
        &["probe::act (probe.wasm+0x1)", "probe::run"],
        &["probe::act (probe.wasm+0x1)", "probe::run"],
    );
    let panic = [
        "__rustc::rust_panic",
        "std::panicking::begin_panic_handler",
        "core::panicking::panic_fmt",
    ];
    check(
        &[panic.as_slice(), &["boom::run", "core::panicking::x"]].concat(),
        &["boom::run", "core::panicking::x"],
    );
    // If there are no other frames, they are shown.
    check(&panic, &panic);
    check(&[], &[]);
}

#[test]
fn a_response_is_shown_as_the_text_that_a_person_looks_for() {
    let check = |kind: HostCallKind, response: Value, expected: &str| {
        let call = HostCall {
            kind,
            request: "digest".into(),
            response: Json::from(response),
            cost: Usd::ZERO,
            outcome: CallOutcome::Answered,
            model: None,
        };
        assert_eq!(response_text(&call), expected);
    };
    let reply = |parts: Vec<AssistantPart>| {
        serde_json::to_value(ModelReply {
            parts,
            data: None,
            model: "m".into(),
            finish: FinishReason::Stop,
            usage: TokenUsage::default(),
        })
        .unwrap()
    };
    let text = |text: &str| AssistantPart::Text(text.into());
    let call = |name: &str| {
        AssistantPart::ToolCall(ToolCall {
            id: "1".into(),
            name: name.into(),
            arguments: "{}".into(),
        })
    };
    check(
        HostCallKind::Llm,
        reply(vec![text("one"), text(" two")]),
        "one two",
    );
    check(
        HostCallKind::Llm,
        reply(vec![call("add"), call("search")]),
        "add {}, search {}",
    );
    check(HostCallKind::Llm, json!({ "message": "busy" }), "busy");
    check(HostCallKind::Http, json!({ "body": "<html>" }), "<html>");
    check(HostCallKind::Clock, json!(7.0), "7.0");
}

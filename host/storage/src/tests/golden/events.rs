//! An example of each variant of events. The values differ from each other, so that exchanged fields
//! are noticed.

use strata_core::record::conversation::{
    AssistantPart, Media, MediaSource, Part, TokenUsage, ToolCall,
};
use strata_core::record::edit::{Edit, EditedScope};
use strata_core::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallRevised, CallStarted, CallSuspended, CapReached,
    ComponentChanged, ConflictingWriter, ConsentWithdrawn, DoubtSettled, Event, FailedCondition,
    FilesPlaced, FilesWritten, Forked, HandOverFailed, HandedOver, HostCallBegun, HostCalled,
    JoinRelease, JoinReleased, Logged, LookupsDenied, MessageSent, MoneyReserved, NestedCallMade,
    NestedCallPlan, RoutingResult, RunEnded, RunResumed, RunStarted, Status, StepCommitted,
    StepConflicted, StepStarted, SuspendReason, WritesUnclaimed,
};
use strata_core::record::fault::{Fault, FaultCause, FaultHandling, FaultKind, Retryability};
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, DoubtResolution, FinishReason, Grant, HostCall,
    HostCallKind, Intent, LostAnswerPolicy, ModelUse, RecordedCallUse, TriedModel,
};
use strata_core::record::human_request::QuestionDigest;
use strata_core::record::id::{ActionId, Digest, JoinId, RoleId, Slot, SlotKind};
use strata_core::record::memory::{
    Cut, MemoryReplacement, MemoryRequest, PlannedReplacement, PlannedTokens, ReplacedRange,
    ResultPosition,
};
use strata_core::record::message::{Draft, Hop, Instruct, Message};
use strata_core::record::money::Usd;
use strata_core::record::nested_path::NestedPath;
use strata_core::record::questions::AskedQuestions;
use strata_core::record::rules::Rules;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::spending::{Account, Amount, Reservation, Spending};
use strata_core::record::turn::{
    Approval, CallDecision, CallEffect, CallForm, CallPlan, CallRevision, CallTarget, ChangedTool,
    ReplyMessage, SkillDigest, ToolRef, TurnOutcome, TurnReply,
};
use strata_core::record::work::{ActivationKey, CallKey, CallResult, Task, Work};

use super::samples::{json, of_call, texts};
use super::{request_events, server_events};
use crate::tests::script::team;

const THINK: Work = Work::Think { round: 3 };
const ACT: Work = Work::Act {
    action: ActionId(2),
    task: Some(5),
};

const TOOL_CALL: Work = Work::ToolCall {
    turn: 7,
    call: 8,
    nested: NestedPath::EMPTY,
    tool: ToolRef::Handoff(RoleId(9)),
};

/// Returns at least one example of each variant, in the order of the variants.
pub(super) fn all() -> Vec<Event> {
    [
        run_began(),
        attempts_began(),
        attempts_ended(),
        request_events::all(),
        writes(),
        steps_ended(),
        lineages_and_deliveries(),
        server_events::of_runs().into(),
    ]
    .concat()
}

fn slot(role: u16, kind: SlotKind) -> Slot {
    Slot {
        role: RoleId(role),
        kind,
    }
}

fn hop() -> Hop {
    Hop {
        from: "from".into(),
        to: texts(&["to", "and to"]),
    }
}

fn message() -> Message {
    Message {
        id: "id".into(),
        content: "content ✓".into(),
        instruct: Some(Box::new(Instruct {
            class: "class".into(),
            value: json(r#"{ "a": [1, null] }"#),
        })),
        parts: vec![
            Part::Image(Media {
                media_type: "image/png".into(),
                name: Some("curve.png".into()),
                source: MediaSource::Blob {
                    digest: "digest".into(),
                    size: 70_000,
                },
            }),
            Part::File(Media {
                media_type: "application/pdf".into(),
                name: None,
                source: MediaSource::Url("https://example.com/a.pdf".into()),
            }),
        ],
        role: "role".into(),
        cause_by: "label".into(),
        sent_from: "sender".into(),
        send_to: texts(&["A", "B/2"]),
        meta: [("colour".into(), json("\"red\""))].into(),
        route: vec![hop()],
    }
}

fn questions() -> AskedQuestions {
    let mut asked = AskedQuestions::default();
    let digest = QuestionDigest::from_bytes([7; QuestionDigest::BYTES]);
    asked.add(300, "ask-300-1-0-0".into(), digest);
    asked.complete_from = 3;
    asked
}

fn routed() -> RoutingResult {
    RoutingResult {
        id: "id".into(),
        from: Some(RoleId(4)),
        cause_by: "label".into(),
        to: vec![RoleId(1), RoleId(300)],
        joins: vec![JoinId(2)],
        undeliverable: texts(&["nobody"]),
        drop_reason: Some("reason".into()),
        remaining_route: vec![hop()],
        external: texts(&["outside"]),
        failed_conditions: vec![FailedCondition {
            condition: "data.n == 1".into(),
            reason: "why".into(),
        }],
    }
}

fn released() -> JoinRelease {
    JoinRelease {
        join: JoinId(1),
        messages: vec![(RoleId(3), "id".into())],
        to: vec![RoleId(2)],
        into: Some(JoinId(4)),
    }
}

fn draft() -> Draft {
    Draft {
        content: "content".into(),
        data: Some(json("7")),
        parts: vec![Part::Text("text".into())],
        to: texts(&["A"]),
        cause_by: Some("label".into()),
        route: vec![hop()],
    }
}

fn scope_writes() -> Vec<Write> {
    let write = |key: &str, change| Write {
        scope: "scope".into(),
        key: key.into(),
        change,
    };
    vec![
        write("set", ScopeChange::Set(json("true"))),
        write("deleted", ScopeChange::Delete),
    ]
}

fn fault() -> Fault {
    Fault {
        kind: FaultKind::Denied,
        retryability: Retryability::Final,
        cause: FaultCause::NotGranted(Grant::Dirs),
        message: "message".into(),
        backtrace: texts(&["frame"]),
        log: texts(&["line", "another line"]),
    }
}

fn run_began() -> Vec<Event> {
    vec![
        Event::RunStarted(RunStarted {
            run: "run".into(),
            idea: "idea".into(),
            parts: vec![Part::Text("part".into())],
            budget: Some(Usd(1_234_567_890_123)),
            components: [
                (slot(0, SlotKind::Think), Digest::from("d0")),
                (slot(1, SlotKind::Action(ActionId(2))), Digest::from("d1")),
            ]
            .into(),
            routed: routed(),
            checkpoint: "main-1".into(),
            rules: Rules::from_team(&team()),
        }),
        Event::RunResumed(RunResumed {
            checkpoint: Some("main-2".into()),
            step: 300,
            budget: None,
            call_policy: CallPolicy::Reuse,
            finished: vec![CallKey::new(RoleId(1), THINK), CallKey::new(RoleId(2), ACT)],
            rules: Rules::default(),
            spent: Usd(77),
            questions: questions(),
            by: Some("anna@desk".into()),
        }),
        Event::ComponentChanged(ComponentChanged {
            slot: slot(2, SlotKind::Action(ActionId(1))),
            old: Some(Digest::from("old")),
            new: Digest::from("new"),
        }),
        Event::MessageSent(MessageSent {
            message: message(),
            routed: routed(),
        }),
        Event::StepStarted(StepStarted {
            step: 9,
            roles: vec![RoleId(0), RoleId(2)],
        }),
    ]
}

/// Returns the event of a call of the second role.
fn attempts_began() -> Vec<Event> {
    let started = CallStarted {
        attempt: 2,
        digest: Some(Digest::from("digest")),
        call_reuse: RecordedCallUse::Fresh,
        forgotten: texts(&["POST https://example.com"]),
    };
    let called = HostCalled {
        call: HostCall {
            kind: HostCallKind::Http,
            request: "request#1".into(),
            response: json(r#"{ "status": 200 }"#),
            cost: Usd(11),
            outcome: CallOutcome::Unknown,
            model: Some(ModelUse {
                name: "cheap".into(),
                answered: Some("model-1".into()),
                finish: Some(FinishReason::Length),
                usage: TokenUsage {
                    input: 200,
                    output: 22,
                    cache_read: 50,
                    cache_write: 40,
                    reasoning: 7,
                },
                tried: vec![TriedModel {
                    model: "default".into(),
                    reason: "it was not there".into(),
                }],
                limited_replies: vec!["cheap/0123".into()],
            }),
        },
        source: AnswerSource::Recorded,
        summary: "GET https://example.com".into(),
    };
    vec![
        of_call(ACT, AttemptEvent::CallStarted(started)),
        of_call(Work::Plan, AttemptEvent::HostCalled(called)),
    ]
}

fn attempts_ended() -> Vec<Event> {
    let finished = |work, result| {
        let finished = CallFinished { attempt: 4, result };
        of_call(work, AttemptEvent::CallFinished(finished))
    };
    let (emissions, writes) = (vec![draft()], scope_writes());
    let task = Task {
        text: "text".into(),
        action: Some("action".into()),
    };
    let failed = CallFailed {
        attempt: 5,
        digest: None,
        fault: fault(),
        retry_ms: Some(1_000),
        handling: FaultHandling::Returned,
    };
    vec![
        finished(THINK, CallResult::Chosen(-1)),
        finished(
            Work::Plan,
            CallResult::Planned {
                tasks: vec![task],
                emissions: emissions.clone(),
                writes: writes.clone(),
            },
        ),
        finished(
            Work::Answer,
            CallResult::Returned {
                output: Draft::default(),
                emissions,
                writes,
            },
        ),
        finished(Work::Turn { turn: 6 }, CallResult::Replied(reply())),
        finished(
            Work::Turn { turn: 7 },
            CallResult::Replied(TurnReply {
                message: ReplyMessage::OfLastCall,
                ..reply()
            }),
        ),
        finished(
            Work::Turn { turn: 8 },
            CallResult::SummaryDue(planned_replacement()),
        ),
        finished(
            Work::Summary { turn: 8 },
            CallResult::Replaced(MemoryReplacement {
                summary: Some("summary".into()),
                model: Some("cheap".into()),
                ..planned_replacement().without_summary("why not".into())
            }),
        ),
        of_call(TOOL_CALL, AttemptEvent::CallFailed(failed)),
        of_called_role(AttemptEvent::RetryDue),
        of_call(ACT, AttemptEvent::RetryDue),
    ]
}

fn planned_replacement() -> PlannedReplacement {
    PlannedReplacement {
        turn: 8,
        range: ReplacedRange {
            cut: Cut { news: 2, turns: 5 },
            cleared: ResultPosition { turn: 6, call: 1 },
        },
        cut_before: Cut { news: 2, turns: 3 },
        messages: (1, 300),
        cleared_messages: Some((301, 302)),
        tokens: PlannedTokens {
            before: 100_000,
            cleared: 90_000,
            kept: 40_000,
            replaced: 50_000,
        },
    }
}

/// Returns an event about a call of a role that others called.
fn of_called_role(event: AttemptEvent) -> Event {
    let called = ActivationKey::of_mail(RoleId(1)).called(RoleId(2), 3, 4, NestedPath::EMPTY);
    let called = called.and_then(|called| called.called(RoleId(5), 6, 7, NestedPath::EMPTY));
    let key = called.expect("a short path");
    Event::Attempt(CallKey::in_activation(key, ACT), event)
}

fn reply() -> TurnReply {
    let target = CallTarget {
        tool: ToolRef::Action(ActionId(3)),
        effect: CallEffect::Ends,
    };
    let approval = Approval {
        input_schema: Some(json("{}")),
        default: Some(json("false")),
        expires_ms: Some(9),
    };
    let plan = |tool: &str, decision| CallPlan {
        id: "id".into(),
        tool: tool.into(),
        form: CallForm::ByCallTool,
        decision,
    };
    TurnReply {
        model: "model".into(),
        finish: FinishReason::ToolCalls,
        cost: Usd(13),
        message: ReplyMessage::Parts(vec![
            AssistantPart::Text("text".into()),
            AssistantPart::ToolCall(ToolCall {
                id: "id".into(),
                name: "name".into(),
                arguments: "{".into(),
            }),
        ]),
        outcome: TurnOutcome::Calls(vec![
            plan("made", CallDecision::Make(target)),
            plan("asked", CallDecision::AskFirst(target, approval)),
            plan("rejected", CallDecision::Reject("reason".into())),
        ]),
        changed_tools: vec![ChangedTool {
            call: 1,
            reason: "another schema".into(),
        }],
        skills: vec![SkillDigest {
            skill: "skill".into(),
            digest: Digest::from("digest"),
        }],
    }
}

fn writes() -> Vec<Event> {
    let amount = Amount {
        usd: Usd(12),
        tokens: 345,
    };
    let file = |digest: &str, bytes| PathContent::File {
        digest: Digest::from(digest),
        bytes,
    };
    let change = |path: &str, before, after| FileChange {
        path: path.into(),
        before,
        after,
    };
    let events = [
        AttemptEvent::HostCallBegun(HostCallBegun {
            intent: Intent {
                kind: HostCallKind::Llm,
                request: "request".into(),
                description: "description".into(),
                if_answer_lost: LostAnswerPolicy::AskOperator,
            },
        }),
        AttemptEvent::MoneyReserved(MoneyReserved {
            reserved: Reservation {
                request: "request".into(),
                amount,
            },
        }),
        AttemptEvent::CallSuspended(CallSuspended {
            attempt: 7,
            reason: SuspendReason::NestedCall,
        }),
        AttemptEvent::DoubtSettled(DoubtSettled {
            index: 2,
            description: "what".into(),
            resolution: DoubtResolution::Answer(json("null")),
        }),
        AttemptEvent::WritesUnclaimed(WritesUnclaimed {
            writes: vec![(1, "what".into())],
        }),
        AttemptEvent::FilesWritten(FilesWritten {
            files: vec![
                change("/out/a", PathContent::Absent, file("a", 300)),
                change("/out/b", PathContent::Directory, PathContent::Absent),
            ],
        }),
        AttemptEvent::CallRevised(CallRevised {
            revision: CallRevision::Reject("reason".into()),
        }),
        AttemptEvent::CallRevised(CallRevised {
            revision: CallRevision::AskFirst(Approval {
                input_schema: Some(json("{}")),
                default: None,
                expires_ms: Some(1_700_000_000_000),
            }),
        }),
        AttemptEvent::Logged(Logged {
            lines: vec!["line".into()],
            left_out: 300,
        }),
        AttemptEvent::LookupsDenied(LookupsDenied {
            paths: vec!["/data".into()],
        }),
        AttemptEvent::SkillLoaded(SkillDigest {
            skill: "skill".into(),
            digest: Digest::from("digest"),
        }),
        AttemptEvent::MemoryRequested(MemoryRequest {
            up_to: 300,
            summary: "summary".into(),
        }),
    ];
    let mut events: Vec<Event> = events.map(|event| of_call(ACT, event)).into();
    let made = NestedCallMade {
        number: 3,
        plan: Some(NestedCallPlan {
            request: "digest".into(),
            tool: "search".into(),
            arguments: json(r#"{"q":"x"}"#),
            decision: CallDecision::Reject("no such tool".into()),
        }),
    };
    events.push(of_call(TOOL_CALL, AttemptEvent::NestedCallMade(made)));
    events.extend(server_events::of_attempts().map(|event| of_call(ACT, event)));
    events
}

fn steps_ended() -> Vec<Event> {
    vec![
        Event::StepConflicted(StepConflicted {
            step: 8,
            scope: "scope".into(),
            key: "key".into(),
            writers: vec![ConflictingWriter {
                call: CallKey::new(RoleId(3), ACT),
                attempt: 6,
                digest: Some(Digest::from("digest")),
            }],
        }),
        Event::StepCommitted(StepCommitted {
            step: 10,
            checkpoint: "main-4".into(),
            parent: Some("main-3".into()),
            routed: vec![routed()],
            released: vec![released()],
        }),
        Event::RunEnded(RunEnded {
            status: Status::Stalled,
            checkpoint: Some("main-6".into()),
            parent: Some("main-5".into()),
            by: Some("anna@desk".into()),
        }),
    ]
}

fn lineages_and_deliveries() -> Vec<Event> {
    let spending = Spending {
        usd: Usd(1),
        tokens: 2,
        calls: 3,
        served: 4,
        saved: Usd(5),
        truncated: 6,
        refused: 7,
        lost: Usd(1),
    };
    vec![
        Event::Forked(Forked {
            lineage: "other".into(),
            from: "main-9".into(),
            checkpoint: "other-1".into(),
            step: 11,
            edits: vec![Edit {
                scope: EditedScope::Role(RoleId(2)),
                key: "key".into(),
                value: json("[]"),
            }],
            account: Account {
                spent: Usd(8),
                budget: Some(Usd(9)),
                ledger: [(slot(0, SlotKind::Think), spending)].into(),
            },
            questions: questions(),
        }),
        Event::HandedOver(HandedOver { id: "id".into() }),
        Event::HandOverFailed(HandOverFailed {
            id: "id".into(),
            why: "why".into(),
        }),
        Event::JoinReleased(JoinReleased {
            released: vec![released()],
        }),
        Event::FilesPlaced(FilesPlaced {
            count: 2,
            aside: vec![("/out/a".into(), "/out/a.kept-1".into())],
        }),
        Event::CapReached(CapReached {
            scope: "scope".into(),
            cap: Usd(10),
        }),
        Event::ConsentWithdrawn(ConsentWithdrawn {}),
    ]
}

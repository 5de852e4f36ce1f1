//! Tests of what is sent of a conversation.

use std::cell::Cell;

use strata_core::record::conversation::ToolCall;
use strata_core::record::host_call::FinishReason;
use strata_core::record::id::ActionId;
use strata_core::record::memory::{MemoryReplacement, ReplacedRange, ReplacementMethod};
use strata_core::record::message::Draft;
use strata_core::record::money::Usd;
use strata_core::record::turn::{CallEffect, CallForm, CallTarget};
use strata_core::state::activation::{
    CallProgress, Consent, Phase, ToolOutcome, ToolReturn, TurnCall,
};
use strata_core::state::memory_plan::{
    MemoryBounds, MemoryDecision, OldResults, ReplacementReason,
};

use super::*;
use crate::tests::fixture::{ROLE, RunningTeam};

const RESULT: &str = "0123456789 0123456789 0123456789 0123456789 0123456789";

/// Returns a turn with one call, which returned `RESULT`.
fn turn() -> Turn {
    let call = ToolCall {
        id: "c".into(),
        name: "x".into(),
        arguments: "{}".into(),
    };
    Turn {
        model: "m".into(),
        finish: FinishReason::ToolCalls,
        cost: Usd::ZERO,
        message: vec![AssistantPart::ToolCall(call)],
        calls: vec![TurnCall {
            tool: "x".into(),
            form: CallForm::Direct,
            target: Some(CallTarget {
                tool: ToolRef::Action(ActionId(0)),
                effect: CallEffect::Continues,
            }),
            consent: Consent::NotNeeded,
            edited_arguments: None,
            decided_by: None,
            progress: CallProgress::default(),
            phase: Phase::Complete,
            outcome: Some(ToolOutcome::Returned(ToolReturn {
                output: Draft {
                    content: RESULT.into(),
                    ..Draft::default()
                },
                emissions: Vec::new(),
                writes: Vec::new(),
                is_error: false,
            })),
        }],
        misfit: None,
        skills: Vec::new(),
    }
}

fn replacement(range: ReplacedRange, summary: Option<&str>) -> MemoryReplacement {
    MemoryReplacement {
        turn: 0,
        range,
        messages: Some((1, 2)),
        tokens_before: 0,
        tokens_after: 0,
        how: ReplacementMethod::Summary,
        summary: summary.map(str::to_owned),
        model: None,
        cost: Usd::ZERO,
        failure: None,
    }
}

fn memory(range: ReplacedRange, summary: Option<&str>) -> ConversationMemory {
    ConversationMemory {
        replacements: vec![replacement(range, summary)],
        summary_index: summary.map(|_| 0),
        ..ConversationMemory::default()
    }
}

/// Calls `check` with the conversation of a role after these turns.
fn with_source<R>(
    turns: &[Turn],
    memory: &ConversationMemory,
    check: impl FnOnce(&ConversationSource<'_>) -> R,
) -> R {
    let team = RunningTeam::start(ROLE);
    let history = History::default();
    check(&ConversationSource {
        role: team.stepper.team().role(team.invocations[0].role),
        history: &history,
        news: &team.invocations[0].news,
        turns,
        memory,
    })
}

#[test]
fn a_turn_late_in_a_conversation_visits_no_more_messages_than_one_early_in_it() {
    let visited = |count: u32| {
        let turns: Vec<Turn> = (0..count).map(|_| turn()).collect();
        let cut = Cut {
            news: 1,
            turns: count - 20,
        };
        let range = ReplacedRange {
            cut,
            ..ReplacedRange::default()
        };
        let memory = memory(range, Some("what was done"));
        let results = Cell::new(0);
        let (sent, planned) = with_source(&turns, &memory, |source| {
            let sent = source.sent(|_| {
                results.set(results.get() + 1);
                1000
            });
            let size = sent.size(count, &memory, &ModelRequest::new(Vec::new()));
            assert_eq!((size.news.len(), size.turns.len()), (0, 20));
            let bounds = MemoryBounds {
                messages: 40,
                tokens: 100_000,
                summary_tokens: 2000,
                results: OldResults::Cleared,
            };
            let planned = size.plan(&bounds, ReplacementReason::Bounds);
            (sent.into_messages().len(), planned)
        });
        assert!(matches!(planned, MemoryDecision::Summarise(_)));
        (results.get(), sent)
    };
    assert_eq!(visited(25), (20, 42));
    assert_eq!(visited(5000), visited(25));
}

#[test]
fn what_is_replaced_is_not_sent_and_the_rest_is_sent_unchanged() {
    let turns: Vec<Turn> = (0..3).map(|_| turn()).collect();
    let cut = Cut { news: 1, turns: 2 };
    let range = ReplacedRange {
        cut,
        ..ReplacedRange::default()
    };
    let memory = memory(range, Some("what was done"));
    let sent = with_source(&turns, &memory, |source| {
        source.sent(|_| 1000).into_messages()
    });
    assert_eq!(sent.len(), 4);
    let ModelMessage::User(summary) = &sent[1] else {
        panic!("a summary is a message of the user: {sent:?}");
    };
    let text = parts_text(summary);
    assert!(
        text.contains("summary") && text.ends_with("what was done"),
        "{text}"
    );
    assert_eq!(sent[2], ModelMessage::Assistant(turn().message));
    let text = with_source(&turns, &ConversationMemory::default(), |source| {
        source.transcript(Cut::NONE, cut, |_| 1000)
    });
    assert_eq!(text.matches(RESULT).count(), 2);
    assert!(text.contains("[calls x {}]"), "{text}");
}

#[test]
fn a_cleared_result_names_its_tool_and_its_size() {
    let turns: Vec<Turn> = (0..2).map(|_| turn()).collect();
    let cleared = ResultPosition { turn: 0, call: 1 };
    let range = ReplacedRange {
        cleared,
        ..ReplacedRange::default()
    };
    let memory = memory(range, None);
    let sent = with_source(&turns, &memory, |source| {
        source.sent(|_| 1000).into_messages()
    });
    let texts: Vec<String> = sent
        .iter()
        .filter_map(|message| match message {
            ModelMessage::ToolResults(results) => Some(parts_text(&results[0].content)),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["[result of x, 54 bytes, cleared]", RESULT]);
}

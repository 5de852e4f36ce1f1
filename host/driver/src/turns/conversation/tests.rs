//! Tests of what is sent of a conversation.

use std::cell::Cell;

use strata_core::record::conversation::ToolCall;
use strata_core::record::host_call::FinishReason;
use strata_core::record::id::ActionId;
use strata_core::record::memory::{
    MemoryReplacement, ReplacedRange, ReplacementMethod, WrittenSummary,
};
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

/// Returns a turn that calls tools, whose results have these lengths.
fn turn_with(number: usize, results: &[usize]) -> Turn {
    let mut turn = turn();
    let known = turn.calls.remove(0);
    turn.message = vec![AssistantPart::Text(format!("turn {number}"))];
    for (length, index) in results.iter().zip(0..) {
        turn.message.push(AssistantPart::ToolCall(ToolCall {
            id: format!("{number}-{index}"),
            name: "x".into(),
            arguments: "{}".into(),
        }));
        let returned = ToolReturn {
            output: Draft {
                content: "r".repeat(*length),
                ..Draft::default()
            },
            emissions: Vec::new(),
            writes: Vec::new(),
            is_error: false,
        };
        turn.calls.push(TurnCall {
            outcome: Some(ToolOutcome::Returned(returned)),
            ..known.clone()
        });
    }
    turn
}

/// Fails unless these messages are a conversation that a provider accepts: it begins with the first news, and
/// each reply that calls tools is followed by the results of its calls, in their order.
fn assert_whole(messages: &[ModelMessage], first_news: &ModelMessage, newest: Option<&Turn>) {
    assert_eq!(messages.first(), Some(first_news));
    let ids = |message: &ModelMessage| -> Vec<String> {
        match message {
            ModelMessage::Assistant(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    AssistantPart::ToolCall(call) => Some(call.id.clone()),
                    _ => None,
                })
                .collect(),
            ModelMessage::ToolResults(results) => {
                results.iter().map(|result| result.call.clone()).collect()
            }
            _ => Vec::new(),
        }
    };
    let mut due = Vec::new();
    for message in messages {
        match message {
            ModelMessage::ToolResults(_) => {
                assert_eq!(ids(message), std::mem::take(&mut due));
            }
            _ => {
                assert!(due.is_empty(), "{due:?} have no results");
                due = ids(message);
            }
        }
    }
    assert!(due.is_empty(), "{due:?} have no results");
    if let Some(newest) = newest {
        let whole = SentTurn::new(newest, 0, ResultPosition::default(), |_| u64::MAX);
        assert!(messages.ends_with(&whole.messages), "the newest turn");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn no_request_splits_a_turn_from_its_results_drops_the_first_news_or_exceeds_its_bounds(
        turns in proptest::collection::vec(proptest::collection::vec(0..1500_usize, 1..4), 1..30),
        messages in 10..40_u32,
        tokens in 2000..6000_u64,
        clears: bool,
        summary in 1..200_usize,
    ) {
        let turns: Vec<Turn> = turns.iter().zip(0..).map(|(results, number)| turn_with(number, results)).collect();
        let bounds = MemoryBounds {
            messages,
            tokens,
            summary_tokens: 200,
            results: if clears { OldResults::Cleared } else { OldResults::Sent },
        };
        let mut memory = ConversationMemory::default();
        for count in 0..=turns.len() {
            let number = count as u32;
            let request = ModelRequest::new(Vec::new());
            let planned = with_source(&turns[..count], &memory, |source| {
                let size = source.sent(|_| u64::MAX).size(number, &memory, &request);
                size.plan(&bounds, ReplacementReason::Bounds)
            });
            // A summary that is not shorter than what it replaces is not used.
            let mut is_used = true;
            match planned {
                MemoryDecision::Nothing => {}
                MemoryDecision::Clear(planned) => memory.replacements.push(planned.only_cleared()),
                MemoryDecision::Summarise(planned) => {
                    let replacement = planned.complete(WrittenSummary {
                        text: "s".repeat(summary),
                        tokens: text_tokens(summary as u64),
                        how: ReplacementMethod::Summary,
                        model: None,
                        cost: Usd::ZERO,
                    });
                    is_used = replacement.summary.is_some();
                    if is_used {
                        memory.summary_index = Some(memory.replacements.len() as u32);
                    }
                    memory.replacements.push(replacement);
                }
            }
            with_source(&turns[..count], &memory, |source| {
                let first_news = news_message(&source.news[0]);
                let sent = source.sent(|_| u64::MAX);
                let size = sent.size(number, &memory, &request);
                assert_whole(&sent.into_messages(), &first_news, turns[..count].last());
                // The first news, a summary and the newest turn always fit.
                let fits = size.message_count() <= bounds.messages && size.tokens <= bounds.tokens;
                assert!(fits || !is_used, "{size:?}");
            });
        }
    }
}

//! How a model is told what became of the tools that it called.

use strata_core::record::conversation::tool_calls;
use strata_core::record::conversation::{Part, ToolResult};
use strata_core::record::message::Draft;
use strata_core::record::turn::ToolRef;
use strata_core::state::activation::{ToolOutcome, Turn, TurnCall};

use strata_base::text::units::format_bytes;

/// How much of a failure or a refusal the model is told, in bytes.
const MAX_REASON_BYTES: u64 = 16 << 10;

/// Returns the results of the calls of a turn, in the order of the calls.
pub(super) fn tool_results(turn: &Turn, result_bytes: impl Fn(ToolRef) -> u64) -> Vec<ToolResult> {
    let calls = tool_calls(&turn.message).zip(&turn.calls);
    let mut results = Vec::new();
    for (tool_call, call) in calls {
        let most = call
            .target
            .map_or(MAX_REASON_BYTES, |target| result_bytes(target.tool));
        let (content, is_error) = describe_outcome(call, most);
        results.push(ToolResult {
            call: tool_call.id.clone(),
            tool: tool_call.name.clone(),
            content,
            is_error,
        });
    }
    results
}

/// Returns what the model is told about a call, and whether that is a failure.
fn describe_outcome(call: &TurnCall, most: u64) -> (Vec<Part>, bool) {
    let (mut parts, is_error) = match &call.outcome {
        Some(ToolOutcome::Returned(returned)) => {
            (output_parts(&returned.output, most), returned.is_error)
        }
        Some(ToolOutcome::Failed(fault)) => {
            let text = format!("{}: {}", fault.kind, fault.message);
            (
                vec![Part::Text(cut(text, most.min(MAX_REASON_BYTES)))],
                true,
            )
        }
        Some(ToolOutcome::Rejected(reason)) => {
            let text = format!("the call was rejected: {reason}");
            (vec![Part::Text(cut(text, MAX_REASON_BYTES))], true)
        }
        Some(ToolOutcome::Declined(reason)) => {
            let text = format!("the call was not approved: {reason}");
            (vec![Part::Text(cut(text, MAX_REASON_BYTES))], true)
        }
        // No turn is made while a call is open.
        None => (Vec::new(), true),
    };
    if let Some(edited) = &call.edited_arguments {
        let note = format!("[a person changed the arguments to {}]", edited.as_str());
        parts.insert(0, Part::Text(cut(note, MAX_REASON_BYTES)));
    }
    (parts, is_error)
}

/// Returns an output: its data if it has any, or else its text; then its images and files.
fn output_parts(output: &Draft, most: u64) -> Vec<Part> {
    let text = match &output.data {
        Some(data) => data.as_str().to_owned(),
        None => output.content.clone(),
    };
    let mut left = most.saturating_sub(text.len() as u64);
    let mut parts = Vec::new();
    if !text.is_empty() || output.parts.is_empty() {
        parts.push(Part::Text(cut(text, most)));
    }
    for part in &output.parts {
        parts.push(match part {
            Part::Text(text) => {
                let allowed = left;
                left = left.saturating_sub(text.len() as u64);
                Part::Text(cut(text.clone(), allowed))
            }
            Part::Image(_) | Part::File(_) => part.clone(),
        });
    }
    parts
}

/// Returns the beginning of a text that is too long, with a note that it was cut.
pub(super) fn cut(mut text: String, most: u64) -> String {
    let bytes = text.len();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if bytes <= most {
        return text;
    }
    text.truncate(text.floor_char_boundary(most));
    let note = format!(
        "[cut: these are the first {} of {}]",
        format_bytes(most as u64),
        format_bytes(bytes as u64)
    );
    if !text.is_empty() {
        text.push('\n');
    }
    text + &note
}

#[cfg(test)]
mod tests {
    use strata_core::record::conversation::{AssistantPart, Media, MediaSource, ToolCall};
    use strata_core::record::fault::{Fault, FaultKind};
    use strata_core::record::host_call::FinishReason;
    use strata_core::record::id::{ActionId, Digest};
    use strata_core::record::json::Json;
    use strata_core::record::money::Usd;
    use strata_core::record::turn::{CallEffect, CallForm, CallTarget};
    use strata_core::state::activation::{CallProgress, Consent, Phase, ToolReturn};

    use super::*;

    /// Returns a turn with one call, which ended like this.
    fn turn(outcome: ToolOutcome, edited_arguments: Option<Json>) -> Turn {
        Turn {
            model: "default".into(),
            finish: FinishReason::ToolCalls,
            cost: Usd::ZERO,
            message: vec![AssistantPart::ToolCall(ToolCall {
                id: "c1".into(),
                name: "x".into(),
                arguments: "{}".into(),
            })],
            calls: vec![TurnCall {
                tool: "x".into(),
                form: CallForm::Direct,
                target: Some(CallTarget {
                    tool: ToolRef::Action(ActionId(0)),
                    effect: CallEffect::Continues,
                }),
                consent: Consent::NotNeeded,
                edited_arguments,
                decided_by: None,
                progress: CallProgress::default(),
                phase: Phase::Complete,
                outcome: Some(outcome),
            }],
            misfit: None,
            skills: Vec::new(),
        }
    }

    fn returned(output: Draft) -> ToolOutcome {
        ToolOutcome::Returned(ToolReturn {
            output,
            emissions: Vec::new(),
            writes: Vec::new(),
            is_error: false,
        })
    }

    fn text(content: &str) -> Part {
        Part::Text(content.into())
    }

    #[track_caller]
    fn check(turn: &Turn, expected: &[Part], is_error: bool) {
        let results = tool_results(turn, |_| 20);
        let [result] = results.as_slice() else {
            panic!("one call has one result: {results:?}");
        };
        assert_eq!((result.call.as_str(), result.tool.as_str()), ("c1", "x"));
        assert_eq!(result.content, expected);
        assert_eq!(result.is_error, is_error);
    }

    #[test]
    fn the_data_of_a_result_counts_before_its_text_and_a_long_result_is_cut() {
        let output = |content: &str, data: Option<&str>| {
            let data = data.map(|data| Json::parse(data).expect("JSON"));
            let content = content.into();
            turn(
                returned(Draft {
                    content,
                    data,
                    ..Draft::default()
                }),
                None,
            )
        };
        check(&output("five", None), &[text("five")], false);
        check(
            &output("five", Some("{\"n\": 5}")),
            &[text("{\"n\":5}")],
            false,
        );
        check(&output("", None), &[text("")], false);
        check(
            &output(&"x".repeat(20), None),
            &[text(&"x".repeat(20))],
            false,
        );
        let long = "äöüäöüäöüäöü";
        let cut = "äöüäöüäöüä\n[cut: these are the first 20 bytes of 24 bytes]";
        check(&output(long, None), &[text(cut)], false);
    }

    #[test]
    fn images_of_a_result_follow_its_text() {
        let image = Part::Image(Media {
            media_type: "image/png".into(),
            name: None,
            source: MediaSource::Blob {
                digest: Digest::from("d"),
                size: 3,
            },
        });
        let output = |content: &str| Draft {
            content: content.into(),
            parts: vec![image.clone()],
            ..Draft::default()
        };
        let alone = turn(returned(output("")), None);
        check(&alone, std::slice::from_ref(&image), false);
        let both = turn(returned(output("a cat")), None);
        check(&both, &[text("a cat"), image.clone()], false);
    }

    #[test]
    fn failures_rejections_and_refusals_are_errors_with_their_reason() {
        let fault = Fault::new(FaultKind::Cpu, "too slow");
        let failed = turn(ToolOutcome::Failed(fault), None);
        check(&failed, &[text("cpu: too slow")], true);
        let rejected = turn(ToolOutcome::Rejected("no number".into()), None);
        check(&rejected, &[text("the call was rejected: no number")], true);
        let declined = turn(ToolOutcome::Declined("too much".into()), None);
        check(
            &declined,
            &[text("the call was not approved: too much")],
            true,
        );
    }

    #[test]
    fn the_model_is_told_that_a_person_changed_the_arguments() {
        let edited = Json::parse("{\"n\":7}").ok();
        let done = Draft {
            content: "done".into(),
            ..Draft::default()
        };
        let note = text("[a person changed the arguments to {\"n\":7}]");
        check(&turn(returned(done), edited), &[note, text("done")], false);
    }
}

//! The public events about attempts: their start and end, what they ask of the host, and the files
//! that they write.

use strata_base::clock::rfc3339;
use strata_core::record::event::{
    AttemptEvent, CallFailed, CallFinished, CallStarted, FilesPlaced, HostCallBegun,
    NestedCallMade, RequestAnswered,
};
use strata_core::record::fault::Fault;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::AnswerSource;
use strata_core::record::human_request::HumanRequest;
use strata_core::record::memory::MemoryReplacement;
use strata_core::record::message::Draft;
use strata_core::record::turn::{CallDecision, CallPlan, CallRevision, TurnOutcome, TurnReply};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_services::gateway::records_start;

use super::{EventNames, Visitor, has_own_event};
use crate::public_event::{
    ActionOutput, ActionRef, CalledTool, NestedNumber, PublicEvent, ReplacedTokens, WrittenContent,
    WrittenFile,
};

pub(super) fn visit_placed(placed: &FilesPlaced, visitor: &mut Visitor<'_>) {
    for (path, kept) in &placed.aside {
        visitor(&|_| PublicEvent::FileKept {
            path: path.clone(),
            kept: kept.clone(),
        });
    }
}

pub(super) fn visit_attempt(call: CallKey, event: &AttemptEvent, visitor: &mut Visitor<'_>) {
    match event {
        AttemptEvent::CallStarted(started) => visit_start(call, started, visitor),
        AttemptEvent::CallSuspended(suspended) => {
            visitor(&|names| PublicEvent::ActionSuspended {
                action: names.action_ref(call),
                attempt: suspended.attempt,
                reason: suspended.reason.name(),
            });
        }
        AttemptEvent::CallFinished(CallFinished {
            result: CallResult::Replied(reply),
            ..
        }) => visit_turn(call, reply, visitor),
        AttemptEvent::CallFinished(CallFinished {
            result: CallResult::Replaced(replacement),
            ..
        }) => visitor(&|names| replaced_event(names, call, replacement)),
        // What is replaced follows.
        AttemptEvent::CallFinished(CallFinished {
            result: CallResult::SummaryDue(_),
            ..
        }) => {}
        AttemptEvent::CallFinished(finished) => {
            visitor(&|names| finished_event(names, call, finished));
        }
        AttemptEvent::CallFailed(failed) => visitor(&|names| failed_event(names, call, failed)),
        AttemptEvent::FilesWritten(written) => visitor(&|names| PublicEvent::FilesWritten {
            action: names.action_ref(call),
            files: written.files.iter().map(written_file).collect(),
        }),
        AttemptEvent::Logged(logged) => visitor(&|names| PublicEvent::ActionLogged {
            action: names.action_ref(call),
            lines: logged.lines.clone(),
            left_out: logged.left_out,
        }),
        AttemptEvent::LookupsDenied(denied) => visitor(&|names| PublicEvent::LookupsDenied {
            action: names.action_ref(call),
            paths: denied.paths.clone(),
        }),
        AttemptEvent::SkillLoaded(loaded) => visitor(&|names| PublicEvent::SkillLoaded {
            action: names.action_ref(call),
            skill: loaded.skill.clone(),
            digest: loaded.digest.0.clone(),
        }),
        AttemptEvent::HostCallBegun(_)
        | AttemptEvent::HostCalled(_)
        | AttemptEvent::DoubtSettled(_)
        | AttemptEvent::WritesUnclaimed(_) => visit_host_call(call, event, visitor),
        AttemptEvent::RequestOpened(opened) => {
            visitor(&|names| request_opened_event(names.action_ref(call), &opened.request));
        }
        AttemptEvent::CallAsks(asks) => {
            for request in asks.call.open_requests() {
                visitor(&|names| request_opened_event(names.action_ref(call), request));
            }
        }
        AttemptEvent::RequestAnswered(answered) => {
            visitor(&|names| request_answered_event(names, call, answered));
        }
        AttemptEvent::CallRevised(revised) => visit_revision(call, &revised.revision, visitor),
        AttemptEvent::NestedCallMade(nested_call) => visit_nested(call, nested_call, visitor),
        AttemptEvent::RetryDue
        | AttemptEvent::MoneyReserved(_)
        | AttemptEvent::MemoryRequested(_)
        | AttemptEvent::ToolsListed(_) => {}
    }
}

fn visit_host_call(call: CallKey, event: &AttemptEvent, visitor: &mut Visitor<'_>) {
    match event {
        AttemptEvent::HostCallBegun(HostCallBegun { intent }) => {
            visitor(&|names| PublicEvent::HostCallBegun {
                action: names.action_ref(call),
                call: intent.kind,
                what: intent.description.clone(),
            });
        }
        AttemptEvent::HostCalled(called) if records_start(&called.call) => {}
        AttemptEvent::HostCalled(called) => visitor(&|names| PublicEvent::HostCall {
            action: names.action_ref(call),
            call: called.call.kind,
            source: called.source,
            // A recorded answer was paid for when it was recorded.
            cost: match called.source {
                AnswerSource::Live => called.call.cost.to_dollars(),
                AnswerSource::Recorded => 0.0,
            },
            what: called.summary.clone(),
            used: called.call.model.as_ref().map(Into::into),
        }),
        AttemptEvent::DoubtSettled(settled) => visitor(&|names| PublicEvent::DoubtSettled {
            action: names.action_ref(call),
            what: settled.description.clone(),
            verdict: settled.resolution.name(),
        }),
        AttemptEvent::WritesUnclaimed(unclaimed) => {
            visitor(&|names| PublicEvent::WritesUnclaimed {
                action: names.action_ref(call),
                writes: unclaimed
                    .writes
                    .iter()
                    .map(|(_, what)| what.clone())
                    .collect(),
            });
        }
        _ => {}
    }
}

fn visit_start(call: CallKey, started: &CallStarted, visitor: &mut Visitor<'_>) {
    let CallStarted {
        attempt,
        digest,
        forgotten,
        ..
    } = started;
    if !forgotten.is_empty() {
        visitor(&|names| PublicEvent::WritesForgotten {
            action: names.action_ref(call),
            writes: forgotten.clone(),
        });
    }
    if let Some(digest) = digest {
        visitor(&|names| {
            let ActionRef {
                role,
                index,
                action,
                via,
                ..
            } = names.action_ref(call);
            PublicEvent::PluginInstantiated {
                role,
                index,
                action,
                digest: digest.0.clone(),
                via,
            }
        });
    }
    if !has_own_event(call.work) {
        visitor(&|names| PublicEvent::ActionStarted {
            action: names.action_ref(call),
            attempt: *attempt,
            digest: digest.as_ref().map(|digest| digest.0.clone()),
        });
    }
}

fn finished_event(names: &EventNames, call: CallKey, finished: &CallFinished) -> PublicEvent {
    let output = match &finished.result {
        CallResult::Chosen(choice) => {
            return PublicEvent::Think {
                role: names.role_name(call.role),
                choice: *choice,
                via: names.caller(call),
            };
        }
        CallResult::Planned { tasks, .. } => {
            let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
            ActionOutput {
                content: texts.join("\n"),
                data: None,
                to: Vec::new(),
                tasks: Some(tasks.clone()),
            }
        }
        CallResult::Returned { output, .. } | CallResult::Reported { output } => {
            action_output(output)
        }
        CallResult::Replied(_) | CallResult::SummaryDue(_) | CallResult::Replaced(_) => {
            ActionOutput::default()
        }
    };
    let digest = names.running.get(&call).cloned().flatten();
    PublicEvent::ActionFinished {
        action: names.action_ref(call),
        attempt: finished.attempt,
        digest: digest.map(|digest| digest.0),
        output,
    }
}

/// Returns the event of a replacement in a conversation.
fn replaced_event(
    names: &EventNames,
    call: CallKey,
    replacement: &MemoryReplacement,
) -> PublicEvent {
    PublicEvent::MemorySummarised {
        role: names.role_name(call.role),
        turn: replacement.turn,
        messages: replacement.messages.map(|(from, to)| [from, to]),
        tokens: ReplacedTokens {
            before: replacement.tokens_before,
            after: replacement.tokens_after,
        },
        how: replacement.how.name(),
        model: replacement.model.clone(),
        cost: replacement.cost.to_dollars(),
        reason: replacement.failure.clone(),
        via: names.caller(call),
    }
}

/// Visits the event of a turn, and one for each call that is not made.
fn visit_turn(call: CallKey, reply: &TurnReply, visitor: &mut Visitor<'_>) {
    let number = match call.work {
        Work::Turn { turn } => turn,
        _ => 0,
    };
    let plans: &[CallPlan] = match &reply.outcome {
        TurnOutcome::Calls(plans) => plans,
        TurnOutcome::Answer(_) | TurnOutcome::Misfit(_) => &[],
    };
    visitor(&|names| PublicEvent::Turn {
        role: names.role_name(call.role),
        turn: number,
        calls: (0..)
            .zip(plans)
            .map(|(tool_call, plan)| CalledTool {
                tool_call,
                tool: plan.tool.clone(),
                id: plan.id.clone(),
            })
            .collect(),
        model: reply.model.clone(),
        finish: reply.finish.name(),
        cost: reply.cost.to_dollars(),
        via: names.caller(call),
    });
    for (tool_call, plan) in (0..).zip(plans) {
        if let CallDecision::Reject(reason) = &plan.decision {
            visitor(&|names| PublicEvent::ToolRejected {
                role: names.role_name(call.role),
                turn: number,
                tool: plan.tool.clone(),
                tool_call,
                nested: None,
                reason: reason.clone(),
                via: names.caller(call),
            });
        }
    }
}

/// Visits the event of a call that code asks for and that is not made.
fn visit_nested(call: CallKey, nested_call: &NestedCallMade, visitor: &mut Visitor<'_>) {
    let Work::ToolCall {
        turn,
        call: tool_call,
        nested,
        ..
    } = call.work
    else {
        return;
    };
    let (Some(plan), Some(path)) = (&nested_call.plan, nested.with(nested_call.number)) else {
        return;
    };
    if let CallDecision::Reject(reason) = &plan.decision {
        visitor(&|names| PublicEvent::ToolRejected {
            role: names.role_name(call.role),
            turn,
            tool: plan.tool.clone(),
            tool_call,
            nested: NestedNumber::from_path(path),
            reason: reason.clone(),
            via: names.caller(call),
        });
    }
}

/// Visits the event of a call that is not made after all. A call that a human has to approve has an
/// event once the request is opened.
fn visit_revision(call: CallKey, revision: &CallRevision, visitor: &mut Visitor<'_>) {
    let (
        CallRevision::Reject(reason),
        Work::ToolCall {
            turn,
            call: tool_call,
            nested,
            ..
        },
    ) = (revision, call.work)
    else {
        return;
    };
    visitor(&|names| PublicEvent::ToolRejected {
        role: names.role_name(call.role),
        turn,
        tool: names.action_ref(call).action,
        tool_call,
        nested: NestedNumber::from_path(nested),
        reason: reason.clone(),
        via: names.caller(call),
    });
}

fn failed_event(names: &EventNames, call: CallKey, failed: &CallFailed) -> PublicEvent {
    let Fault {
        kind,
        cause,
        message,
        backtrace,
        ..
    } = failed.fault.as_reported(call.work).into_owned();
    PublicEvent::ActionFailed {
        action: names.action_ref(call),
        attempt: failed.attempt,
        fault: kind,
        cause,
        message,
        digest: failed.digest.as_ref().map(|digest| digest.0.clone()),
        backtrace,
        retry_ms: failed.retry_ms,
    }
}

fn request_answered_event(
    names: &EventNames,
    call: CallKey,
    answered: &RequestAnswered,
) -> PublicEvent {
    PublicEvent::RequestAnswered {
        role: names.role_name(call.role),
        request: answered.request.0.clone(),
        by: answered.answer.answered_by(),
        person: answered.person.clone(),
        checkpoint: answered.checkpoint.0.clone(),
        answer: answered.answer.value().map(|value| value.value()),
        via: names.caller(call),
    }
}

fn action_output(output: &Draft) -> ActionOutput {
    ActionOutput {
        content: output.content.clone(),
        data: output.data.as_ref().map(|data| data.value()),
        to: output.to.clone(),
        tasks: None,
    }
}

fn request_opened_event(action: ActionRef, request: &HumanRequest) -> PublicEvent {
    PublicEvent::RequestOpened {
        action,
        request: request.id.0.clone(),
        question: request.question.clone(),
        tool: request
            .proposed
            .as_ref()
            .map(|call| call.tool.clone())
            .or_else(|| Some(request.asked_by.as_ref()?.tool.clone())),
        server: request
            .asked_by
            .as_ref()
            .map(|asking| asking.server.clone()),
        url: request
            .asked_by
            .as_ref()
            .and_then(|asking| asking.url.clone()),
        arguments: request.proposed.as_ref().map(|call| call.arguments.value()),
        input_schema: request
            .proposed
            .as_ref()
            .and_then(|call| Some(call.input_schema.as_ref()?.value())),
        schema: request.schema.as_ref().map(|schema| schema.value()),
        choices: request.choices.clone(),
        default: request.default.as_ref().map(|default| default.value()),
        expires: request.expires_ms.map(rfc3339),
    }
}

fn written_file(change: &FileChange) -> WrittenFile {
    WrittenFile {
        path: change.path.clone(),
        change: match &change.after {
            PathContent::Absent => WrittenContent::Removed,
            PathContent::Directory => WrittenContent::Made,
            PathContent::File { digest, bytes } => WrittenContent::Written {
                bytes: *bytes,
                digest: digest.0.clone(),
            },
        },
    }
}

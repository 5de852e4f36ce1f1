//! The public events about attempts: their start and end, what they ask of the host, and the files
//! that they write.

use strata_core::record::event::Event;
use strata_core::record::fault::Fault;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::{AnswerSource, HostCall, HostCallKind};
use strata_core::record::id::RoleId;
use strata_core::record::message::Draft;
use strata_core::record::request::HumanRequest;
use strata_core::record::work::{CallResult, Work};

use super::{EventNames, Visitor, is_choice};
use crate::gateway::WASI_CLOCK_START;
use crate::public_event::{
    ActionOutput, ActionRef, PublicEvent, WrittenContent, WrittenFile, rfc3339,
};

pub(super) fn visit_files(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::FilesWritten { role, work, files } => visitor(&|names| PublicEvent::FilesWritten {
            action: names.action_ref(*role, *work),
            files: files.iter().map(written_file).collect(),
        }),
        Event::FilesPlaced { aside, .. } => {
            for (path, kept) in aside {
                visitor(&|_| PublicEvent::FileKept {
                    path: path.clone(),
                    kept: kept.clone(),
                });
            }
        }
        _ => {}
    }
}

pub(super) fn visit_host_call(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::HostCallBegun { role, work, intent } => {
            visitor(&|names| PublicEvent::HostCallBegun {
                action: names.action_ref(*role, *work),
                call: intent.kind,
                what: intent.description.clone(),
            });
        }
        Event::HostCalled { call, .. } if records_start(call) => {}
        Event::HostCalled {
            role,
            work,
            call,
            source,
            summary,
        } => visitor(&|names| PublicEvent::HostCall {
            action: names.action_ref(*role, *work),
            call: call.kind,
            source: *source,
            // A recorded answer was paid for when it was recorded.
            cost: match source {
                AnswerSource::Live => call.cost.to_dollars(),
                AnswerSource::Recorded => 0.0,
            },
            what: summary.clone(),
            finish: call.finish_reason,
        }),
        Event::DoubtSettled {
            role,
            work,
            description,
            resolution: verdict,
            ..
        } => visitor(&|names| PublicEvent::DoubtSettled {
            action: names.action_ref(*role, *work),
            what: description.clone(),
            verdict: verdict.name(),
        }),
        Event::WritesUnclaimed { role, work, writes } => {
            visitor(&|names| PublicEvent::WritesUnclaimed {
                action: names.action_ref(*role, *work),
                writes: writes.iter().map(|(_, what)| what.clone()).collect(),
            });
        }
        Event::RequestOpened {
            role,
            work,
            request,
        } => visitor(&|names| request_opened_event(names.action_ref(*role, *work), request)),
        Event::RequestAnswered {
            role,
            request,
            answer,
            checkpoint,
            ..
        } => visitor(&|names| PublicEvent::RequestAnswered {
            role: names.role_name(*role),
            request: request.0.clone(),
            by: answer.answered_by(),
            checkpoint: checkpoint.0.clone(),
            answer: answer.value().map(|value| value.value()),
        }),
        _ => {}
    }
}

pub(super) fn visit_attempt(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::CallStarted { .. } => visit_start(event, visitor),
        Event::CallSuspended {
            role,
            work,
            attempt,
        } => visitor(&|names| PublicEvent::ActionSuspended {
            action: names.action_ref(*role, *work),
            attempt: *attempt,
            reason: "out-of-budget",
        }),
        Event::CallFinished {
            role,
            work,
            attempt,
            result,
        } => visitor(&|names| finished_event(names, *role, *work, *attempt, result)),
        Event::CallFailed {
            role,
            work,
            attempt,
            digest,
            fault,
            retry_ms,
        } => visitor(&|names| {
            let Fault {
                kind,
                cause,
                message,
                backtrace,
                ..
            } = fault.as_reported(*work).into_owned();
            PublicEvent::ActionFailed {
                action: names.action_ref(*role, *work),
                attempt: *attempt,
                fault: kind,
                cause,
                message,
                digest: digest.as_ref().map(|digest| digest.0.clone()),
                backtrace,
                retry_ms: *retry_ms,
            }
        }),
        _ => {}
    }
}

fn visit_start(event: &Event, visitor: &mut Visitor<'_>) {
    let Event::CallStarted {
        role,
        work,
        attempt,
        digest,
        forgotten,
        ..
    } = event
    else {
        return;
    };
    if !forgotten.is_empty() {
        visitor(&|names| PublicEvent::WritesForgotten {
            action: names.action_ref(*role, *work),
            writes: forgotten.clone(),
        });
    }
    if let Some(digest) = digest {
        visitor(&|names| {
            let ActionRef {
                role,
                index,
                action,
                ..
            } = names.action_ref(*role, *work);
            PublicEvent::PluginInstantiated {
                role,
                index,
                action,
                digest: digest.0.clone(),
            }
        });
    }
    if !is_choice(*work) {
        visitor(&|names| PublicEvent::ActionStarted {
            action: names.action_ref(*role, *work),
            attempt: *attempt,
            digest: digest.as_ref().map(|digest| digest.0.clone()),
        });
    }
}

fn finished_event(
    names: &EventNames,
    role: RoleId,
    work: Work,
    attempt: u32,
    result: &CallResult,
) -> PublicEvent {
    let output = match result {
        CallResult::Chosen(choice) => {
            return PublicEvent::Think {
                role: names.role_name(role),
                choice: *choice,
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
        CallResult::Returned { output, .. } => action_output(output),
    };
    let digest = names.running.get(&role).cloned().flatten();
    PublicEvent::ActionFinished {
        action: names.action_ref(role, work),
        attempt,
        digest: digest.map(|digest| digest.0),
        output,
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

/// Returns whether a call only records when an attempt began.
fn records_start(call: &HostCall) -> bool {
    call.kind == HostCallKind::Clock && call.request == WASI_CLOCK_START
}

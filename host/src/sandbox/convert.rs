//! Converts between the WIT's records and the core's types. Fields are copied; only JSON is
//! checked.

use std::sync::Arc;

use strata_core::record::conversation::{AssistantPart, ModelMessage, Part, ToolCall, ToolResult};
use strata_core::record::json::{Json, JsonError};
use strata_core::record::message::{Draft, Hop, Message};
use strata_core::record::work::Task;
use strata_core::team::{Candidate, RoleProfile};

use super::SandboxCall;
use super::bindings::{environment, handler, llm as wit_llm, thinker, types};
use super::component::ComponentManifest;
use crate::gateway::{HostError, HostErrorKind, ITEM_BYTES};
use crate::services::models;

/// What an emission counts besides its texts.
const EMISSION_BYTES: u64 = 128;

pub(super) fn attempt(call: &SandboxCall) -> types::Attempt {
    types::Attempt {
        number: call.attempt,
        idempotency_key: call.idempotency_key.clone(),
    }
}

pub(super) fn input(
    call: &SandboxCall,
    action: &str,
    index: u32,
    task: Option<&Task>,
) -> types::Input {
    types::Input {
        role: profile(&call.role),
        action: action.to_owned(),
        index,
        config: call.plugin.config.as_str().to_owned(),
        news: messages(&call.news),
        outputs: messages(&call.outputs),
        task: task.map(|task| types::Task {
            text: task.text.clone(),
            action: task.action.clone(),
        }),
    }
}

pub(super) fn situation(
    call: &SandboxCall,
    round: u32,
    candidates: &[Candidate],
) -> thinker::Situation {
    let candidates = candidates.iter().map(|candidate| thinker::Candidate {
        name: candidate.name.clone(),
        description: candidate.description.clone(),
    });
    thinker::Situation {
        role: profile(&call.role),
        config: call.plugin.config.as_str().to_owned(),
        round,
        candidates: candidates.collect(),
        news: messages(&call.news),
        outputs: messages(&call.outputs),
    }
}

fn profile(role: &RoleProfile) -> types::Profile {
    types::Profile {
        name: role.name.clone(),
        profile: role.profile.clone(),
        goal: role.goal.clone(),
        constraints: role.constraints.clone(),
        desc: role.desc.clone(),
    }
}

pub(super) fn messages(messages: &[Arc<Message>]) -> Vec<types::Message> {
    let message = |message: &Arc<Message>| types::Message {
        id: message.id.0.clone(),
        content: message.content.clone(),
        data: message
            .instruct
            .as_ref()
            .map(|i| i.value.as_str().to_owned()),
        cause_by: message.cause_by.clone(),
        sent_from: message.sent_from.clone(),
        send_to: message.send_to.clone(),
    };
    messages.iter().map(message).collect()
}

pub(super) fn output(output: types::Output) -> Result<Draft, JsonError> {
    Ok(Draft {
        content: output.content,
        data: output.data.as_deref().map(Json::parse).transpose()?,
        parts: Vec::new(),
        to: output.to,
        cause_by: None,
        route: route(output.route),
    })
}

pub(super) fn emission(emission: environment::Emission) -> Result<Draft, JsonError> {
    Ok(Draft {
        content: emission.content,
        data: emission.data.as_deref().map(Json::parse).transpose()?,
        parts: Vec::new(),
        to: emission.to,
        cause_by: emission.cause_by,
        route: route(emission.route),
    })
}

fn route(hops: Vec<types::Hop>) -> Vec<Hop> {
    let hop = |hop: types::Hop| Hop {
        from: hop.from,
        to: hop.to,
    };
    hops.into_iter().map(hop).collect()
}

pub(super) fn tasks(tasks: Vec<types::Task>) -> Vec<Task> {
    let task = |task: types::Task| Task {
        text: task.text,
        action: task.action,
    };
    tasks.into_iter().map(task).collect()
}

/// Returns how much an emission adds to the bytes exchanged with the host, before it is converted.
pub(super) fn emission_input_bytes(content: &str, data: Option<&str>) -> u64 {
    EMISSION_BYTES + (content.len() + data.map_or(0, str::len)) as u64
}

/// Returns how much an emission counts against the output limit. Even an empty one takes space in
/// the host.
pub(super) fn emission_bytes(emission: &Draft) -> u64 {
    EMISSION_BYTES + draft_bytes(emission)
}

/// Returns how much a draft counts against the output limit.
pub(super) fn draft_bytes(draft: &Draft) -> u64 {
    let data = draft.data.as_ref().map_or(0, |data| data.as_str().len());
    let cause = draft.cause_by.as_ref().map_or(0, String::len);
    let route: u64 = draft
        .route
        .iter()
        .map(|hop| item_bytes(&hop.from) + hop.to.iter().map(|to| item_bytes(to)).sum::<u64>())
        .sum();
    let to: u64 = draft.to.iter().map(|to| item_bytes(to)).sum();
    (draft.content.len() + data + cause) as u64 + to + route
}

/// Returns how much planned tasks count against the output limit.
pub(super) fn tasks_bytes(tasks: &[Task]) -> u64 {
    let name = |task: &Task| task.action.as_deref().map_or(0, item_bytes);
    tasks
        .iter()
        .map(|task| item_bytes(&task.text) + name(task))
        .sum()
}

/// Returns how much one text of a list counts against the output limit.
pub(super) fn item_bytes(text: &str) -> u64 {
    (text.len() + ITEM_BYTES) as u64
}

pub(super) fn host_error(error: HostError) -> types::HostError {
    let kind = match error.kind {
        HostErrorKind::Denied => types::HostErrorKind::Denied,
        HostErrorKind::Invalid => types::HostErrorKind::Invalid,
        HostErrorKind::NotFound => types::HostErrorKind::NotFound,
        HostErrorKind::Upstream | HostErrorKind::BeyondLimit => types::HostErrorKind::Upstream,
        HostErrorKind::OutOfBudget => types::HostErrorKind::OutOfBudget,
        HostErrorKind::Expired => types::HostErrorKind::Expired,
    };
    types::HostError {
        kind,
        message: error.message,
    }
}

pub(super) fn manifest(manifest: handler::Manifest) -> ComponentManifest {
    ComponentManifest {
        name: manifest.name,
        version: manifest.version,
        description: manifest.description,
        config_schema: manifest.config_schema,
        output_schema: manifest.output_schema,
        needs: manifest.needs,
    }
}

pub(super) fn request(request: wit_llm::Request) -> models::ModelRequest {
    let tool = |tool: wit_llm::Tool| models::ToolDefinition {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    };
    let mut converted = models::ModelRequest {
        model: request.model,
        tools: request.tools.into_iter().map(tool).collect(),
        output_schema: request.output_schema,
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        stop: request.stop,
        seed: request.seed,
        ..models::ModelRequest::new(Vec::new())
    };
    for message in request.messages {
        add_message(&mut converted, message);
    }
    converted
}

/// Adds a message of a guest. Instructions at the beginning precede the conversation, and results
/// that follow each other belong to one reply.
fn add_message(request: &mut models::ModelRequest, message: wit_llm::ChatMessage) {
    let text = message.content;
    let messages = &mut request.messages;
    match message.speaker {
        wit_llm::Speaker::System if messages.is_empty() => {
            if !request.system.is_empty() {
                request.system.push_str("\n\n");
            }
            request.system.push_str(&text);
        }
        wit_llm::Speaker::System => messages.push(ModelMessage::System(text)),
        wit_llm::Speaker::User => messages.push(models::user_message(text)),
        wit_llm::Speaker::Assistant => {
            let text = Some(text).filter(|text| !text.is_empty());
            let calls = message.tool_calls.into_iter().map(tool_call);
            let parts = text.map(AssistantPart::Text).into_iter().chain(calls);
            messages.push(ModelMessage::Assistant(parts.collect()));
        }
        wit_llm::Speaker::Tool => {
            let call = message.tool_call_id.unwrap_or_default();
            let result = ToolResult {
                tool: called_tool(messages, &call),
                call,
                content: vec![Part::Text(text)],
                is_error: false,
            };
            match messages.last_mut() {
                Some(ModelMessage::ToolResults(results)) => results.push(result),
                _ => messages.push(ModelMessage::ToolResults(vec![result])),
            }
        }
    }
}

/// Returns the name of the tool of a call.
fn called_tool(messages: &[ModelMessage], id: &str) -> String {
    let parts = messages.iter().rev().flat_map(|message| match message {
        ModelMessage::Assistant(parts) => &parts[..],
        _ => &[],
    });
    let mut calls = parts.filter_map(|part| match part {
        AssistantPart::ToolCall(call) if call.id == id => Some(call.name.clone()),
        _ => None,
    });
    calls.next().unwrap_or_default()
}

fn tool_call(call: wit_llm::ToolCall) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
    })
}

pub(super) fn reply(reply: models::ModelReply) -> wit_llm::Reply {
    let tool_call = |call: &ToolCall| wit_llm::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    wit_llm::Reply {
        text: reply.text(),
        tool_calls: reply.tool_calls().map(tool_call).collect(),
        data: reply.data,
        model: reply.model,
        usage: wit_llm::Usage {
            input_tokens: count(reply.usage.input),
            output_tokens: count(reply.usage.output),
        },
    }
}

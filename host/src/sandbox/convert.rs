//! Converts between the WIT's records and the core's types. Fields are copied; only JSON is
//! checked.

use std::sync::Arc;

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
    let chat_message = |turn: wit_llm::ChatMessage| models::ChatMessage {
        speaker: speaker(turn.speaker),
        content: turn.content,
        tool_calls: turn.tool_calls.into_iter().map(tool_call).collect(),
        tool_call_id: turn.tool_call_id,
    };
    let tool = |tool: wit_llm::Tool| models::ToolDefinition {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    };
    models::ModelRequest {
        model: request.model,
        messages: request.messages.into_iter().map(chat_message).collect(),
        tools: request.tools.into_iter().map(tool).collect(),
        output_schema: request.output_schema,
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        stop: request.stop,
        seed: request.seed,
    }
}

fn speaker(speaker: wit_llm::Speaker) -> models::Speaker {
    match speaker {
        wit_llm::Speaker::System => models::Speaker::System,
        wit_llm::Speaker::User => models::Speaker::User,
        wit_llm::Speaker::Assistant => models::Speaker::Assistant,
        wit_llm::Speaker::Tool => models::Speaker::Tool,
    }
}

fn tool_call(call: wit_llm::ToolCall) -> models::ToolCall {
    models::ToolCall {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
    }
}

pub(super) fn reply(reply: models::ModelReply) -> wit_llm::Reply {
    let tool_call = |call: models::ToolCall| wit_llm::ToolCall {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
    };
    wit_llm::Reply {
        text: reply.text,
        data: reply.data,
        tool_calls: reply.tool_calls.into_iter().map(tool_call).collect(),
        model: reply.model,
        usage: wit_llm::Usage {
            input_tokens: reply.input_tokens,
            output_tokens: reply.output_tokens,
        },
    }
}

//! Converts between the WIT's records and the core's types. Fields are copied; only JSON, images and
//! files are checked. Conversations with models are converted beside `interfaces::llm`.

use std::sync::Arc;

use strata_core::record::conversation::Part;
use strata_core::record::json::{Json, JsonError};
use strata_core::record::message::{Draft, Hop, Message};
use strata_core::record::work::Task;
use strata_core::team::{Candidate, RoleProfile};
use strata_services::gateway::{HostError, HostErrorKind, ITEM_BYTES, part_bytes};

use super::bindings::{environment, thinker, types};
use super::media::{AttemptMedia, InvalidMedia, bytes_from_guest, part_to_guest};
use super::{EntryPoint, SandboxCall};

/// What an emission counts besides its texts.
const EMISSION_BYTES: u64 = 128;
/// The maximum number of images and files of a message; the WIT documents this.
pub const MAX_PARTS: usize = 64;

/// Returns what tells an attempt from another. `deadline_ms` is when its time is over, in
/// milliseconds since 1970.
pub(super) fn attempt(call: &SandboxCall, deadline_ms: f64) -> types::Attempt {
    let tool_call = match &call.entry {
        EntryPoint::Run { tool_call, .. } => tool_call.as_ref(),
        EntryPoint::Plan { .. } | EntryPoint::Choose { .. } => None,
    };
    types::Attempt {
        number: call.attempt,
        idempotency_key: call.idempotency_key.clone(),
        turn: tool_call.map(|tool_call| tool_call.turn),
        call: tool_call.map(|tool_call| tool_call.call),
        deadline_ms: Some(deadline_ms),
    }
}

/// Returns the input of an action or a planner.
pub(super) fn input(call: &SandboxCall, config: &str, action: &str, index: u32) -> types::Input {
    let (task, tool_call) = match &call.entry {
        EntryPoint::Run {
            task, tool_call, ..
        } => (task.as_ref(), tool_call.as_ref()),
        EntryPoint::Plan { .. } | EntryPoint::Choose { .. } => (None, None),
    };
    types::Input {
        role: profile(&call.role),
        action: action.to_owned(),
        index,
        config: config.to_owned(),
        news: messages(&call.news),
        outputs: messages(&call.outputs),
        task: task.map(|task| types::Task {
            text: task.text.clone(),
            action: task.action.clone(),
        }),
        arguments: tool_call.map(|tool_call| tool_call.arguments.as_str().to_owned()),
    }
}

pub(super) fn situation(
    call: &SandboxCall,
    config: &str,
    round: u32,
    candidates: &[Candidate],
) -> thinker::Situation {
    let candidates = candidates.iter().map(|candidate| thinker::Candidate {
        name: candidate.name.clone(),
        description: candidate.description.clone(),
    });
    thinker::Situation {
        role: profile(&call.role),
        config: config.to_owned(),
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
        parts: message.parts.iter().map(part_to_guest).collect(),
        cause_by: message.cause_by.clone(),
        sent_from: message.sent_from.clone(),
        send_to: message.send_to.clone(),
    };
    messages.iter().map(message).collect()
}

/// Why a message is not accepted from a guest. The texts follow "the output's".
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidDraft {
    /// Its structured content is not JSON.
    #[error("`data` is {0}")]
    Data(#[from] JsonError),
    /// It has too many images and files.
    #[error("`parts` are {0}; at most {MAX_PARTS} are taken")]
    TooManyParts(usize),
    /// A part is a text.
    #[error("part {0} is a text; texts belong in `content`")]
    TextPart(usize),
    /// A part is not acceptable.
    #[error("part {index} is not acceptable: {why}")]
    Media {
        /// Its index.
        index: usize,
        /// The reason.
        why: InvalidMedia,
    },
}

pub(super) fn output(
    output: types::Output,
    media: &mut AttemptMedia,
) -> Result<Draft, InvalidDraft> {
    Ok(Draft {
        content: output.content,
        data: output.data.as_deref().map(Json::parse).transpose()?,
        parts: draft_parts(output.parts, media)?,
        to: output.to,
        cause_by: None,
        route: route(output.route),
    })
}

pub(super) fn emission(
    emission: environment::Emission,
    media: &mut AttemptMedia,
) -> Result<Draft, InvalidDraft> {
    Ok(Draft {
        content: emission.content,
        data: emission.data.as_deref().map(Json::parse).transpose()?,
        parts: draft_parts(emission.parts, media)?,
        to: emission.to,
        cause_by: emission.cause_by,
        route: route(emission.route),
    })
}

fn draft_parts(
    parts: Vec<types::Part>,
    media: &mut AttemptMedia,
) -> Result<Vec<Part>, InvalidDraft> {
    if parts.len() > MAX_PARTS {
        return Err(InvalidDraft::TooManyParts(parts.len()));
    }
    let convert = |(index, part)| {
        let converted = match part {
            types::Part::Text(_) => return Err(InvalidDraft::TextPart(index)),
            types::Part::Image(image) => media.image_from_guest(image).map(Part::Image),
            types::Part::File(file) => media.media_from_guest(file).map(Part::File),
        };
        converted.map_err(|why| InvalidDraft::Media { index, why })
    };
    parts.into_iter().enumerate().map(convert).collect()
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
pub(super) fn emission_input_bytes(emission: &environment::Emission) -> u64 {
    let data = emission.data.as_ref().map_or(0, String::len);
    EMISSION_BYTES + (emission.content.len() + data) as u64 + bytes_from_guest(&emission.parts)
}

/// Returns how much an emission counts against the output limit. Even an empty one takes space in
/// the host.
pub(super) fn emission_bytes(emission: &Draft) -> u64 {
    EMISSION_BYTES + draft_bytes(emission)
}

/// Returns how much a draft counts against the output limit, without the bytes of images and files.
pub(super) fn draft_bytes(draft: &Draft) -> u64 {
    let data = draft.data.as_ref().map_or(0, |data| data.as_str().len());
    let cause = draft.cause_by.as_ref().map_or(0, String::len);
    let route: u64 = draft
        .route
        .iter()
        .map(|hop| item_bytes(&hop.from) + hop.to.iter().map(|to| item_bytes(to)).sum::<u64>())
        .sum();
    let to: u64 = draft.to.iter().map(|to| item_bytes(to)).sum();
    let parts: usize = draft.parts.iter().map(part_bytes).sum();
    (draft.content.len() + data + cause + parts) as u64 + to + route
}

/// Returns how much planned tasks count against the output limit.
pub(super) fn tasks_bytes(tasks: &[Task]) -> u64 {
    tasks
        .iter()
        .map(|task| item_bytes(&task.text) + task.action.as_deref().map_or(0, item_bytes))
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
        HostErrorKind::Failed => types::HostErrorKind::Failed,
    };
    types::HostError {
        kind,
        message: error.message,
    }
}

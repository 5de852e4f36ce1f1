//! What a guest may touch outside of its attempt, by grant: language models, files, the network, variables, and WASI for
//! the components that import it. Deny by default; the refusals name what to write into the team file.

use strata_core::json::Json;

use super::bindings::{files as wit_files, llm as wit_llm, types};
use super::convert;
use super::ctx::{Ctx, Reply, denied, invalid, undescribed, unexpected};
use super::limits::bytes;
use crate::gateway::{Answer, Ask};
use crate::plugin::http::HttpGrant;
use crate::plugin::{Grants, LlmGrant, Plugin, pattern};
use crate::services::llm;
use files::Files;
use wasi::Wasi;

mod files;
mod http;
mod named;
mod quota;
pub(super) mod wasi;

/// Texts of one request to a model. More than any model reads.
const PROMPT_BYTES: usize = 8 << 20;
/// Requests made at once by `complete-many`.
const MANY: usize = 64;
/// Files that one attempt may write, in bytes together. There is no key for it: it only keeps a loop from filling
/// the disk.
const WRITTEN_BYTES: u64 = 1 << 30;

/// The grants of one attempt, and what of them is used up.
pub(super) struct Capabilities {
    llm: Option<LlmGrant>,
    llm_calls: u32,
    files: Files,
    written_bytes: u64,
    http: Vec<HttpGrant>,
    exchanged_bytes: u64,
    secrets: Vec<String>,
    env: Vec<String>,
    wasi: Option<Box<Wasi>>,
}

impl Capabilities {
    pub(super) fn new(plugin: &Plugin) -> Self {
        Self::of(&plugin.grants)
    }

    pub(super) fn none() -> Self {
        Self::of(&Grants::default())
    }

    fn of(grants: &Grants) -> Self {
        Self {
            llm: grants.llm.clone(),
            llm_calls: 0,
            files: Files::new(&grants.dirs),
            written_bytes: 0,
            http: grants.http.clone(),
            exchanged_bytes: 0,
            secrets: grants.secrets().cloned().collect(),
            env: grants.env.clone(),
            wasi: None,
        }
    }

    /// For a component that imports WASI.
    pub(super) fn add_wasi(&mut self, wasi: Wasi) {
        self.wasi = Some(Box::new(wasi));
    }

    /// Hands on what the guest wrote to its streams without ending the line.
    pub(super) fn flush(&self) {
        self.wasi.iter().for_each(|wasi| wasi.flush());
    }

    fn allow(&mut self, request: &llm::Request) -> Result<(), types::HostError> {
        let Some(grant) = &self.llm else {
            return Err(denied("no language model is granted; add `llm` to the action's `allow`"));
        };
        // A request that names no model takes the team's, which the team file itself chose.
        if let Some(model) = &request.model
            && !grant.models.iter().any(|pattern| pattern::matches(pattern, model))
        {
            let model: String = model.chars().take(64).collect();
            return Err(denied(format!("model `{model}` is not granted; add it to `allow.llm.models`")));
        }
        if let Some(limit) = grant.calls
            && self.llm_calls >= limit
        {
            return Err(denied(format!("the {limit} granted calls are used up; raise `allow.llm.calls`")));
        }
        self.llm_calls += 1;
        Ok(())
    }
}

/// Says what makes a request impossible, before anyone is paid for it.
fn sound(request: &llm::Request) -> Result<(), types::HostError> {
    let length = prompt_bytes(request);
    if length > PROMPT_BYTES {
        let (length, limit) = (bytes(length as u64), bytes(PROMPT_BYTES as u64));
        return Err(invalid(format!("cannot ask the model: the request is {length}, at most {limit} are sent")));
    }
    let schemas = request.tools.iter().map(|tool| ("a tool's `parameters`", &tool.parameters));
    let schemas = schemas.chain(request.output_schema.iter().map(|schema| ("`output-schema`", schema)));
    let calls = request.messages.iter().flat_map(|turn| &turn.tool_calls);
    let calls = calls.map(|call| ("a tool call's `arguments`", &call.arguments));
    for (name, text) in schemas.chain(calls) {
        if let Err(error) = Json::parse(text) {
            return Err(invalid(format!("cannot ask the model: {name} is {error}")));
        }
    }
    if request.temperature.is_some_and(|t| !t.is_finite()) {
        return Err(invalid("cannot ask the model: `temperature` is not a number"));
    }
    Ok(())
}

fn prompt_bytes(request: &llm::Request) -> usize {
    let call = |call: &llm::ToolCall| call.id.len() + call.name.len() + call.arguments.len();
    let turn = |turn: &llm::Turn| {
        let id = turn.tool_call_id.as_ref().map_or(0, String::len);
        turn.content.len() + id + turn.tool_calls.iter().map(call).sum::<usize>()
    };
    let tool = |tool: &llm::Tool| tool.name.len() + tool.description.len() + tool.parameters.len();
    let rest = [&request.model, &request.output_schema];
    request.messages.iter().map(turn).sum::<usize>()
        + request.tools.iter().map(tool).sum::<usize>()
        + request.stop.iter().map(String::len).sum::<usize>()
        + rest.into_iter().flatten().map(String::len).sum::<usize>()
}

impl Ctx {
    /// Asks what may be asked, all at once, and puts the answers in the order of the requests.
    async fn complete_all(
        &mut self,
        function: &'static str,
        requests: Vec<wit_llm::Request>,
    ) -> wasmtime::Result<Vec<Result<wit_llm::Reply, types::HostError>>> {
        let mut allowed = Vec::new();
        let mut refusals = Vec::new();
        for request in requests.into_iter().map(convert::request) {
            let refusal = sound(&request).and_then(|()| self.capabilities.allow(&request)).err();
            if refusal.is_none() {
                allowed.push(request);
            }
            refusals.push(refusal);
        }
        let mut replies = Vec::new();
        if !allowed.is_empty() {
            match self.ask(function, Ask::Complete(allowed)).await? {
                None => {
                    return Ok(refusals.iter().map(|_| Err(undescribed(function))).collect());
                }
                Some(Answer::Replies(answered)) => replies = answered,
                Some(other) => unexpected(function, &other),
            }
        }
        let mut replies = replies.into_iter();
        let reply = |refusal: Option<types::HostError>| match refusal {
            Some(refusal) => Err(refusal),
            None => replies
                .next()
                .expect("the driver answers each request")
                .map(convert::reply)
                .map_err(convert::host_error),
        };
        Ok(refusals.into_iter().map(reply).collect())
    }
}

impl wit_llm::Host for Ctx {
    async fn complete(&mut self, request: wit_llm::Request) -> Reply<wit_llm::Reply> {
        self.count("llm.complete", 1)?;
        let mut replies = self.complete_all("llm.complete", vec![request]).await?;
        Ok(replies.pop().expect("one request has one reply"))
    }

    async fn complete_many(
        &mut self,
        requests: Vec<wit_llm::Request>,
    ) -> wasmtime::Result<Vec<Result<wit_llm::Reply, types::HostError>>> {
        // Each request is a call: asking for many at once must not be a way around the limit.
        let count = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        self.count("llm.complete-many", count)?;
        if requests.len() > MANY {
            let message = format!("asked for {count} replies at once; at most {MANY} are given");
            return Ok(requests.iter().map(|_| Err(invalid(message.clone()))).collect());
        }
        self.complete_all("llm.complete-many", requests).await
    }
}

impl wit_files::Host for Ctx {
    async fn read(&mut self, path: String) -> Reply<Vec<u8>> {
        self.count("files.read", 1)?;
        // What is larger than the guest's memory could not be handed over.
        let limit = self.limits.memory_bytes;
        let read = self.capabilities.files.read(path, limit);
        Ok(self.meter.by_deadline("files.read", read).await?.map_err(convert::host_error))
    }

    async fn write(&mut self, path: String, content: Vec<u8>) -> Reply<()> {
        self.count("files.write", 1)?;
        let written = self.capabilities.written_bytes.saturating_add(content.len() as u64);
        if written > WRITTEN_BYTES {
            let limit = bytes(WRITTEN_BYTES);
            return Ok(Err(invalid(format!("an attempt writes at most {limit} to files"))));
        }
        self.capabilities.written_bytes = written;
        let write = self.capabilities.files.write(path, content);
        Ok(self.meter.by_deadline("files.write", write).await?.map_err(convert::host_error))
    }

    async fn list(&mut self, path: String) -> Reply<Vec<String>> {
        self.count("files.list", 1)?;
        let list = self.capabilities.files.list(path);
        Ok(self.meter.by_deadline("files.list", list).await?.map_err(convert::host_error))
    }
}

impl wasmtime_wasi::WasiView for Ctx {
    fn ctx(&mut self) -> wasmtime_wasi::WasiCtxView<'_> {
        let wasi = self.capabilities.wasi.as_mut();
        wasi.expect("a component that imports WASI was given it").view()
    }
}

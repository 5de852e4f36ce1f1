//! What a guest may use outside its attempt, by grant: language models, files, the network,
//! variables, and WASI for components that import it. Everything is denied by default; refusals
//! name what to add to the team file.

use strata_core::record::fault::Grant;
use strata_core::record::json::Json;

use std::sync::Arc;

use super::SandboxCall;
use super::bindings::{files as wit_files, llm as wit_llm, types};
use super::convert;
use super::ctx::{Ctx, HostResult, invalid, unavailable_in_describe, unexpected_answer};
use super::limits::format_bytes;
use crate::gateway::{Gateway, GuestRequest, HostAnswer};
use crate::plugin::http::HttpGrant;
use crate::plugin::{Grants, LlmGrant};
use crate::services::models;
use crate::services::variables::Variables;
use files::AttemptFiles;
use wasi::WasiState;

mod env_and_secrets;
pub(super) mod files;
mod http;
mod quota;
pub(super) mod wasi;

/// The maximum size of the texts of one request to a model. No model accepts more.
const MAX_PROMPT_BYTES: usize = 8 << 20;
/// The maximum number of requests of one `complete-many` or `fetch-many` call.
const MAX_BATCH: usize = 64;

/// The grants of one attempt, and how much of them is used.
pub(super) struct Capabilities {
    llm: Option<LlmGrant>,
    llm_calls: u32,
    pub(super) files: AttemptFiles,
    http: Vec<HttpGrant>,
    secrets: Vec<String>,
    env: Vec<String>,
    pub(super) variables: Variables,
    wasi: Option<Box<WasiState>>,
}

impl Capabilities {
    /// Creates the capabilities of an attempt.
    pub(super) fn new(call: &SandboxCall, gateway: &Gateway) -> Self {
        let grants = &call.plugin.grants;
        let files = AttemptFiles::new(&grants.dirs, &call.view, Some(gateway.clone()));
        Self {
            variables: call.plugin.variables.clone(),
            ..Self::from_grants(grants, files)
        }
    }

    pub(super) fn none() -> Self {
        Self::from_grants(
            &Grants::default(),
            AttemptFiles::new(&[], &Arc::default(), None),
        )
    }

    fn from_grants(grants: &Grants, files: AttemptFiles) -> Self {
        Self {
            llm: grants.llm.clone(),
            llm_calls: 0,
            files,
            http: grants.http.clone(),
            secrets: grants.secrets().cloned().collect(),
            env: grants.env.clone(),
            variables: Variables::default(),
            wasi: None,
        }
    }

    /// Adds WASI, for a component that imports it.
    pub(super) fn add_wasi(&mut self, wasi: WasiState) {
        self.wasi = Some(Box::new(wasi));
    }

    fn wasi(&mut self) -> &mut WasiState {
        self.wasi
            .as_mut()
            .expect("a component that imports WASI was given it")
    }

    /// Logs what the guest wrote to its streams without ending the line.
    pub(super) fn flush(&self) {
        if let Some(wasi) = &self.wasi {
            wasi.flush();
        }
    }

    /// Counts a request against the grant. Fails with the reason if it is not granted.
    fn authorize(&mut self, request: &models::ModelRequest) -> Result<(), String> {
        let Some(grant) = &self.llm else {
            return Err("no language model is granted; add `llm` to the action's `allow`".into());
        };
        if !grant.allows(request.model.as_deref()) {
            let model = request.model.as_ref().or(grant.default.last());
            let model: String = model
                .into_iter()
                .flat_map(|name| name.chars())
                .take(64)
                .collect();
            return Err(format!(
                "model `{model}` is not granted; add it to `allow.llm.models`"
            ));
        }
        if let Some(limit) = grant.calls
            && self.llm_calls >= limit
        {
            return Err(format!(
                "all granted calls ({limit}) are used up; raise `allow.llm.calls`"
            ));
        }
        self.llm_calls += 1;
        Ok(())
    }
}

/// Validates a request before it costs anything.
fn validate_request(request: &models::ModelRequest) -> Result<(), types::HostError> {
    let length = request.bytes();
    if length > MAX_PROMPT_BYTES {
        let (length, limit) = (
            format_bytes(length as u64),
            format_bytes(MAX_PROMPT_BYTES as u64),
        );
        return Err(invalid(format!(
            "cannot ask the model: the request is {length}, at most {limit} are sent"
        )));
    }
    let schemas = request
        .tools
        .iter()
        .map(|tool| ("a tool's `parameters`", &tool.parameters));
    let schemas = schemas.chain(
        request
            .output_schema
            .iter()
            .map(|schema| ("`output-schema`", schema)),
    );
    for (name, text) in schemas {
        if let Err(error) = Json::parse(text) {
            return Err(invalid(format!("cannot ask the model: {name} is {error}")));
        }
    }
    if request.temperature.is_some_and(|t| !t.is_finite()) {
        return Err(invalid(
            "cannot ask the model: `temperature` is not a number",
        ));
    }
    Ok(())
}

/// Makes the requests that are allowed, all at once, and returns the results in the order of
/// the requests.
async fn complete_all(
    ctx: &mut Ctx,
    function: &'static str,
    requests: Vec<wit_llm::Request>,
) -> wasmtime::Result<Vec<Result<wit_llm::Reply, types::HostError>>> {
    let mut allowed = Vec::new();
    let mut refusals = Vec::new();
    for request in requests.into_iter().map(convert::request) {
        let refusal = validate_request(&request).and_then(|()| {
            let allowed = ctx.capabilities.authorize(&request);
            allowed.map_err(|why| ctx.deny(Grant::Llm, why))
        });
        let refusal = refusal.err();
        if refusal.is_none() {
            allowed.push(request);
        }
        refusals.push(refusal);
    }
    let mut replies = Vec::new();
    if !allowed.is_empty() {
        match ctx
            .request(function, GuestRequest::Complete(allowed))
            .await?
        {
            None => {
                return Ok(refusals
                    .iter()
                    .map(|_| Err(unavailable_in_describe(function)))
                    .collect());
            }
            Some(HostAnswer::Replies(answered)) => replies = answered,
            Some(other) => unexpected_answer(function, &other),
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

impl wit_llm::Host for Ctx {
    async fn complete(&mut self, request: wit_llm::Request) -> HostResult<wit_llm::Reply> {
        self.count_calls("llm.complete", 1)?;
        let mut replies = complete_all(self, "llm.complete", vec![request]).await?;
        Ok(replies.pop().expect("one request has one reply"))
    }

    async fn complete_many(
        &mut self,
        requests: Vec<wit_llm::Request>,
    ) -> wasmtime::Result<Vec<Result<wit_llm::Reply, types::HostError>>> {
        // Each request counts as a call, so that calling for many at once does not evade the limit.
        let count = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        self.count_calls("llm.complete-many", count)?;
        if requests.len() > MAX_BATCH {
            let message =
                format!("asked for {count} replies at once; at most {MAX_BATCH} are given");
            return Ok(requests
                .iter()
                .map(|_| Err(invalid(message.clone())))
                .collect());
        }
        complete_all(self, "llm.complete-many", requests).await
    }
}

impl wit_files::Host for Ctx {
    async fn read(&mut self, path: String) -> HostResult<Vec<u8>> {
        self.count_calls("files.read", 1)?;
        // A file larger than the guest's memory could not be returned to it.
        let limit = self.limits.memory_bytes;
        let read = self.capabilities.files.read(path, limit);
        let read = self.meter.by_deadline("files.read", read).await?;
        self.count_bytes("files.read", read.as_ref().map_or(0, Vec::len) as u64)?;
        Ok(read.map_err(|error| self.refuse(error)))
    }

    async fn write(&mut self, path: String, content: Vec<u8>) -> HostResult<()> {
        self.count_calls("files.write", 1)?;
        self.count_bytes("files.write", (path.len() + content.len()) as u64)?;
        if let Err(refusal) = self.check_effects_allowed() {
            return Ok(Err(refusal));
        }
        let write = self.capabilities.files.write(path, content);
        let written = self.meter.by_deadline("files.write", write).await?;
        Ok(written.map_err(|error| self.refuse(error)))
    }

    async fn remove(&mut self, path: String) -> HostResult<()> {
        self.count_calls("files.remove", 1)?;
        self.count_bytes("files.remove", path.len() as u64)?;
        if let Err(refusal) = self.check_effects_allowed() {
            return Ok(Err(refusal));
        }
        let remove = self.capabilities.files.remove(path);
        let removed = self.meter.by_deadline("files.remove", remove).await?;
        Ok(removed.map_err(|error| self.refuse(error)))
    }

    async fn list(&mut self, path: String) -> HostResult<Vec<String>> {
        self.count_calls("files.list", 1)?;
        let list = self.capabilities.files.list(path);
        let list = self.meter.by_deadline("files.list", list).await?;
        let names = list.iter().flatten().map(|name| convert::item_bytes(name));
        self.count_bytes("files.list", names.sum())?;
        Ok(list.map_err(|error| self.refuse(error)))
    }
}

impl wasmtime_wasi::WasiView for Ctx {
    fn ctx(&mut self) -> wasmtime_wasi::WasiCtxView<'_> {
        self.capabilities.wasi().view()
    }
}

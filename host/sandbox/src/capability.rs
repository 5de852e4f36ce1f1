//! What a guest may use outside its attempt, by grant: language models, files, the network,
//! variables, and WASI for components that import it. Everything is denied by default; refusals
//! name what to add to the team file.

use strata_core::record::host_call::Grant;

use std::sync::{Arc, LazyLock};

use strata_services::gateway::Gateway;
use strata_services::models::{EmbedRequest, ModelBatch, ModelRequest, check_media};
use strata_services::plugin::{Grants, Plugin};
use strata_services::variables::Variables;

use super::SandboxCall;
use super::bindings::{files as wit_files, llm as wit_llm, types};
use super::convert::{self, conversation};
use super::ctx::outbound::call_outside;
use super::ctx::{Ctx, HostResult, invalid};
use files::AttemptFiles;
use wasi::WasiState;

mod env_and_secrets;
pub(super) mod files;
mod http;
mod quota;
pub(super) mod wasi;

/// The maximum number of texts of one request for vectors, as providers have it.
const MAX_EMBEDDED_TEXTS: usize = 2048;
/// The maximum number of requests of one `complete-many` or `fetch-many` call.
const MAX_BATCH: usize = 64;

/// The grants of one attempt, and how much of them is used.
pub(super) struct Capabilities {
    /// What is granted, and where variables are looked up. `None` while a component describes itself:
    /// nothing is granted then, and the limits are the host's.
    pub(super) plugin: Option<Arc<Plugin>>,
    llm_calls: u32,
    pub(super) files: AttemptFiles,
    wasi: Option<Box<WasiState>>,
}

impl Capabilities {
    /// Creates the capabilities of an attempt.
    pub(super) fn new(call: &SandboxCall, gateway: &Gateway) -> Self {
        let dirs = &call.plugin.grants.dirs;
        Self {
            plugin: Some(Arc::clone(&call.plugin)),
            llm_calls: 0,
            files: AttemptFiles::new(dirs, &call.view, Some(gateway.clone())),
            wasi: None,
        }
    }

    pub(super) fn none() -> Self {
        Self {
            plugin: None,
            llm_calls: 0,
            files: AttemptFiles::new(&[], &Arc::default(), None),
            wasi: None,
        }
    }

    /// Returns what is granted.
    pub(super) fn grants(&self) -> &Grants {
        static NOTHING: LazyLock<Grants> = LazyLock::new(Grants::default);
        match &self.plugin {
            Some(plugin) => &plugin.grants,
            None => &NOTHING,
        }
    }

    /// Returns where variables are looked up.
    pub(super) fn variables(&self) -> Variables {
        match &self.plugin {
            Some(plugin) => plugin.variables.clone(),
            None => Variables::default(),
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
    fn authorize(&mut self, model: Option<&String>) -> Result<(), String> {
        let Some(grant) = &self.grants().llm else {
            return Err("no language model is granted; add `llm` to the action's `allow`".into());
        };
        if !grant.allows(model.map(String::as_str)) {
            let model = model.or(grant.default.last());
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

/// Converts a request, and checks it before it costs anything.
fn convert_request(
    ctx: &mut Ctx,
    request: wit_llm::Request,
) -> Result<ModelRequest, types::HostError> {
    let refuse = |why: String| invalid(format!("cannot ask the model: {why}"));
    // Checked before the bytes are hashed.
    check_media(conversation::media_bytes(&request)).map_err(refuse)?;
    let request =
        conversation::request(request, &mut ctx.media).map_err(|why| refuse(why.to_string()))?;
    request.check_size().map_err(refuse)?;
    Ok(request)
}

/// Makes the requests that are allowed, all at once, and returns the results in the order of
/// the requests.
async fn complete_all(
    ctx: &mut Ctx,
    function: &'static str,
    requests: Vec<wit_llm::Request>,
) -> wasmtime::Result<Vec<Result<wit_llm::Reply, types::HostError>>> {
    let passed = requests.iter().map(conversation::media_bytes).sum();
    ctx.count_bytes(function, passed)?;
    let mut checked = Vec::new();
    for request in requests {
        checked.push(convert_request(ctx, request).and_then(|request| {
            let authorized = ctx.capabilities.authorize(request.model.as_ref());
            authorized.map_err(|why| ctx.deny(Grant::Llm, why))?;
            Ok(request)
        }));
    }
    let replies = call_outside(
        ctx,
        function,
        checked,
        |ctx, requests: Vec<ModelRequest>| {
            let media = requests.iter().flat_map(ModelRequest::stored_media);
            let blobs = ctx.media.created_among(media.map(|(digest, _)| digest));
            ModelBatch { requests, blobs }
        },
    );
    let replies = replies.await?.into_iter();
    Ok(replies
        .map(|reply| reply.map(|reply| conversation::reply(reply, &mut ctx.media)))
        .collect())
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

    async fn embed(&mut self, request: wit_llm::EmbedRequest) -> HostResult<wit_llm::Embeddings> {
        const NAME: &str = "llm.embed";
        self.count_calls(NAME, 1)?;
        let request = conversation::embed_request(request);
        if let Err(why) = check_embed_request(&request) {
            return Ok(Err(invalid(format!("cannot embed: {why}"))));
        }
        if let Err(why) = self.capabilities.authorize(request.model.as_ref()) {
            return Ok(Err(self.deny(Grant::Llm, why)));
        }
        let only = |_: &Ctx, mut requests: Vec<EmbedRequest>| requests.remove(0);
        let mut answers = call_outside(self, NAME, vec![Ok(request)], only).await?;
        let embeddings = answers.pop().expect("one request has one answer");
        Ok(embeddings.map(conversation::embeddings))
    }
}

fn check_embed_request(request: &EmbedRequest) -> Result<(), String> {
    let count = request.texts.len();
    if !(1..=MAX_EMBEDDED_TEXTS).contains(&count) {
        return Err(format!(
            "there are {count} texts; 1 to {MAX_EMBEDDED_TEXTS} are taken"
        ));
    }
    request.check_size()?;
    if request.dimensions == Some(0) {
        return Err("a vector has at least one component".into());
    }
    Ok(())
}

impl wit_files::Host for Ctx {
    async fn read(&mut self, path: String) -> HostResult<Vec<u8>> {
        self.count_calls("files.read", 1)?;
        self.note_lookup(&path);
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
        self.note_lookup(&path);
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

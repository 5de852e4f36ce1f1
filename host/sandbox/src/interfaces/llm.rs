//! `llm`: the host functions that ask language models, which are checked against the grant first.
//! `services::models` asks the models.

use strata_core::record::host_call::Grant;
use strata_services::models::{EmbedRequest, ModelBatch, ModelRequest, check_media};

use super::MAX_BATCH;
use crate::bindings::{llm, types};
use crate::capability::Capabilities;
use crate::ctx::outbound::call_outside;
use crate::ctx::{Ctx, HostResult, invalid};

mod convert;

/// The maximum number of texts of one request for vectors, as providers have it.
const MAX_EMBEDDED_TEXTS: usize = 2048;

/// Counts a request against the grant. Refuses it if it is not granted.
fn authorize(ctx: &mut Ctx, model: Option<&String>) -> Result<(), types::HostError> {
    let checked = check_grant(&ctx.capabilities, model);
    checked.map_err(|why| ctx.deny(Grant::Llm, why))?;
    ctx.capabilities.llm_calls += 1;
    Ok(())
}

/// Fails with the reason if a request is not granted.
fn check_grant(capabilities: &Capabilities, model: Option<&String>) -> Result<(), String> {
    let Some(grant) = &capabilities.grants().llm else {
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
    match grant.calls {
        Some(limit) if capabilities.llm_calls >= limit => Err(format!(
            "all granted calls ({limit}) are used up; raise `allow.llm.calls`"
        )),
        _ => Ok(()),
    }
}

/// Converts a request, and checks it before it costs anything.
fn convert_request(ctx: &mut Ctx, request: llm::Request) -> Result<ModelRequest, types::HostError> {
    let refuse = |why: String| invalid(format!("cannot ask the model: {why}"));
    // Checked before the bytes are hashed.
    check_media(convert::media_bytes(&request)).map_err(refuse)?;
    let request =
        convert::request(request, &mut ctx.media).map_err(|why| refuse(why.to_string()))?;
    request.check_size().map_err(refuse)?;
    Ok(request)
}

/// Makes the requests that are allowed, all at once, and returns the results in the order of
/// the requests.
async fn complete_all(
    ctx: &mut Ctx,
    function: &'static str,
    requests: Vec<llm::Request>,
) -> wasmtime::Result<Vec<Result<llm::Reply, types::HostError>>> {
    let passed = requests.iter().map(convert::media_bytes).sum();
    ctx.count_bytes(function, passed)?;
    let mut checked = Vec::new();
    for request in requests {
        checked.push(convert_request(ctx, request).and_then(|request| {
            authorize(ctx, request.model.as_ref())?;
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
        .map(|reply| reply.map(|reply| convert::reply(reply, &mut ctx.media)))
        .collect())
}

impl llm::Host for Ctx {
    async fn complete(&mut self, request: llm::Request) -> HostResult<llm::Reply> {
        self.count_calls("llm.complete", 1)?;
        let mut replies = complete_all(self, "llm.complete", vec![request]).await?;
        Ok(replies.pop().expect("one request has one reply"))
    }

    async fn complete_many(
        &mut self,
        requests: Vec<llm::Request>,
    ) -> wasmtime::Result<Vec<Result<llm::Reply, types::HostError>>> {
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

    async fn embed(&mut self, request: llm::EmbedRequest) -> HostResult<llm::Embeddings> {
        const NAME: &str = "llm.embed";
        self.count_calls(NAME, 1)?;
        let request = convert::embed_request(request);
        if let Err(why) = check_embed_request(&request) {
            return Ok(Err(invalid(format!("cannot embed: {why}"))));
        }
        if let Err(refusal) = authorize(self, request.model.as_ref()) {
            return Ok(Err(refusal));
        }
        let only = |_: &Ctx, mut requests: Vec<EmbedRequest>| requests.remove(0);
        let mut answers = call_outside(self, NAME, vec![Ok(request)], only).await?;
        let embeddings = answers.pop().expect("one request has one answer");
        Ok(embeddings.map(convert::embeddings))
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

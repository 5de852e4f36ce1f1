//! `tools`: the host functions by which an action calls tools of its role.

use strata_core::record::host_call::Grant;
use strata_core::record::json::Json;
use strata_services::gateway::{
    GuardDecision, GuestRequest, HostAnswer, ToolRequest, ok_bytes_or_message,
};

use super::MAX_BATCH;
use crate::bindings::tools;
use crate::bindings::types::HostError;
use crate::convert;
use crate::ctx::{
    Ctx, HostResult, check_name, invalid, unavailable_in_describe, unexpected_answer,
};

impl tools::Host for Ctx {
    async fn list(&mut self) -> HostResult<Vec<tools::Tool>> {
        const NAME: &str = "tools.list";
        self.count_calls(NAME, 1)?;
        if let Err(refusal) = check_tools_granted(self) {
            return Ok(Err(refusal));
        }
        match self.request(NAME, GuestRequest::ListTools).await? {
            None => Ok(Err(unavailable_in_describe(NAME))),
            Some(HostAnswer::Tools(known)) => {
                let known = known.into_iter().map(|tool| tools::Tool {
                    name: tool.name,
                    description: tool.description,
                    input_schema: tool.input_schema.as_str().to_owned(),
                });
                Ok(Ok(known.collect()))
            }
            Some(other) => unexpected_answer(NAME, &other),
        }
    }

    async fn call(&mut self, call: tools::ToolCall) -> HostResult<String> {
        const NAME: &str = "tools.call";
        self.count_calls(NAME, 1)?;
        let results = call_tools(self, NAME, vec![call]).await?;
        let result = results.into_iter().next();
        Ok(result.unwrap_or_else(|| Err(unavailable_in_describe(NAME))))
    }

    async fn call_many(
        &mut self,
        calls: Vec<tools::ToolCall>,
    ) -> wasmtime::Result<Vec<Result<String, HostError>>> {
        const NAME: &str = "tools.call-many";
        self.count_calls(NAME, u32::try_from(calls.len()).unwrap_or(u32::MAX))?;
        if calls.len() > MAX_BATCH {
            let refusal = invalid(format!(
                "{} tools were called at once; at most {MAX_BATCH} can be",
                calls.len()
            ));
            return Ok(vec![Err(refusal); calls.len()]);
        }
        call_tools(self, NAME, calls).await
    }
}

fn check_tools_granted(ctx: &mut Ctx) -> Result<(), HostError> {
    ctx.check_effects_allowed()?;
    if ctx.capabilities.grants().tools.is_empty() {
        let message = "no tool is granted; add `tools = [\"NAME\"]` to `[role.action.allow]`";
        return Err(ctx.deny(Grant::Tools, message));
    }
    Ok(())
}

/// Makes calls, all at once. Which tools are granted is decided where they are known.
async fn call_tools(
    ctx: &mut Ctx,
    function: &'static str,
    calls: Vec<tools::ToolCall>,
) -> wasmtime::Result<Vec<Result<String, HostError>>> {
    let mut requests = Vec::new();
    let mut refusals = Vec::new();
    for call in calls {
        let request = check_tools_granted(ctx).and_then(|()| read_call(call));
        match request {
            Ok(request) => {
                requests.push(request);
                refusals.push(None);
            }
            Err(refusal) => refusals.push(Some(refusal)),
        }
    }
    let mut answers = Vec::new();
    if !requests.is_empty() {
        answers = match ctx
            .request(function, GuestRequest::CallTools(requests))
            .await?
        {
            None => Vec::new(),
            Some(HostAnswer::Outbound(answers)) => answers,
            Some(other) => unexpected_answer(function, &other),
        };
    }
    let bytes = |value: &Json| value.as_str().len();
    let received = answers
        .iter()
        .map(|answer| ok_bytes_or_message(answer, bytes));
    ctx.count_bytes(function, received.sum::<usize>() as u64)?;
    let mut answers = answers.into_iter();
    let results = refusals.into_iter().map(|refusal| match refusal {
        Some(refusal) => Err(refusal),
        None => match answers.next() {
            Some(answer) => answer
                .map(|value| value.as_str().to_owned())
                .map_err(convert::host_error),
            None => Err(unavailable_in_describe(function)),
        },
    });
    Ok(results.collect())
}

fn read_call(call: tools::ToolCall) -> Result<ToolRequest, HostError> {
    check_name("name", &call.name)?;
    let arguments = Json::parse(&call.arguments)
        .map_err(|error| invalid(format!("the arguments are {error}")))?;
    Ok(ToolRequest {
        name: call.name,
        arguments,
        decision: GuardDecision::default(),
    })
}

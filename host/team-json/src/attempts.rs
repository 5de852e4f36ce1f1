//! The attempts of a call in the file: how often it was tried, the host calls that were recorded, the
//! writes that were begun, what is reserved for it, and the files that it changed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use strata_core::record::conversation::TokenUsage;
use strata_core::record::host_call::{
    CallOutcome, ExternalWrite, FinishReason, HostCall, HostCallKind, Intent, LostAnswerPolicy,
    ModelUse, TriedModel, WriteResult,
};
use strata_core::record::memory::MemoryRequest;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::state::activation::CallProgress;

use super::field::{Dollars, Keyword, WrappedDocument};
use super::files::FileChangeJson;

/// The attempts of a call.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AttemptsJson<'a> {
    attempts: u32,
    failures: u32,
    journal: Vec<HostCallJson<'a>>,
    keep: bool,
    answered: bool,
    begun: Vec<IntentJson<'a>>,
    reserved: Vec<ReservationJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileChangeJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Cow<'a, MemoryRequest>>,
}

impl<'a> From<&'a CallProgress> for AttemptsJson<'a> {
    fn from(progress: &'a CallProgress) -> Self {
        let CallProgress {
            attempts,
            failures,
            recorded_calls,
            keeps_calls,
            was_suspended,
            external_writes,
            reservations,
            files,
            memory,
            // They are with the tool call.
            nested: _,
            // The call is made again, and its receiver asks again.
            asking: _,
        } = progress;
        Self {
            attempts: *attempts,
            failures: *failures,
            journal: recorded_calls.iter().map(HostCallJson::from).collect(),
            keep: *keeps_calls,
            answered: *was_suspended,
            begun: external_writes.iter().map(IntentJson::from).collect(),
            reserved: reservations.iter().map(ReservationJson::from).collect(),
            files: files.iter().map(FileChangeJson::from).collect(),
            memory: memory.as_ref().map(Cow::Borrowed),
        }
    }
}

impl From<AttemptsJson<'_>> for CallProgress {
    fn from(tried: AttemptsJson<'_>) -> Self {
        Self {
            attempts: tried.attempts,
            failures: tried.failures,
            recorded_calls: tried.journal.into_iter().map(HostCall::from).collect(),
            keeps_calls: tried.keep,
            was_suspended: tried.answered,
            external_writes: tried.begun.into_iter().map(ExternalWrite::from).collect(),
            reservations: tried.reserved.into_iter().map(Reservation::from).collect(),
            files: tried.files.into_iter().map(Into::into).collect(),
            memory: tried.memory.map(Cow::into_owned),
            nested: Vec::new(),
            asking: None,
        }
    }
}

/// A host call that was recorded.
#[derive(Serialize, Deserialize)]
struct HostCallJson<'a> {
    kind: Keyword<HostCallKind>,
    #[serde(default)]
    request: Cow<'a, str>,
    #[serde(default)]
    response: WrappedDocument<'a>,
    #[serde(default)]
    cost: Dollars,
    #[serde(default)]
    outcome: Keyword<CallOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelUseJson<'a>>,
}

impl<'a> From<&'a HostCall> for HostCallJson<'a> {
    fn from(call: &'a HostCall) -> Self {
        Self {
            kind: Keyword(call.kind),
            request: Cow::Borrowed(&call.request),
            response: WrappedDocument::of(&call.response),
            cost: Dollars(call.cost),
            outcome: Keyword(call.outcome),
            model: call.model.as_ref().map(ModelUseJson::from),
        }
    }
}

impl From<HostCallJson<'_>> for HostCall {
    fn from(call: HostCallJson<'_>) -> Self {
        Self {
            kind: call.kind.0,
            request: call.request.into_owned(),
            response: call.response.into_json(),
            cost: call.cost.0,
            outcome: call.outcome.0,
            model: call.model.map(ModelUse::from),
        }
    }
}

/// The models that a call asked.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ModelUseJson<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<Keyword<FinishReason>>,
    tokens: TokensJson,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<TriedModelJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limited_replies: Vec<Cow<'a, str>>,
}

impl<'a> From<&'a ModelUse> for ModelUseJson<'a> {
    fn from(used: &'a ModelUse) -> Self {
        let limited = used.limited_replies.iter();
        Self {
            name: Cow::Borrowed(&used.name),
            answered: used.answered.as_deref().map(Cow::Borrowed),
            finish: used.finish.map(Keyword),
            tokens: used.usage.into(),
            tried: used.tried.iter().map(TriedModelJson::from).collect(),
            limited_replies: limited.map(|reply| Cow::Borrowed(&**reply)).collect(),
        }
    }
}

impl From<ModelUseJson<'_>> for ModelUse {
    fn from(used: ModelUseJson<'_>) -> Self {
        let limited = used.limited_replies.into_iter();
        Self {
            name: used.name.into_owned(),
            answered: used.answered.map(Cow::into_owned),
            finish: used.finish.map(|finish| finish.0),
            usage: used.tokens.into(),
            tried: used.tried.into_iter().map(TriedModel::from).collect(),
            limited_replies: limited.map(Cow::into_owned).collect(),
        }
    }
}

/// What a call of a model consumed, in tokens.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct TokensJson {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl From<TokenUsage> for TokensJson {
    fn from(usage: TokenUsage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
        }
    }
}

impl From<TokensJson> for TokenUsage {
    fn from(tokens: TokensJson) -> Self {
        Self {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            reasoning: tokens.reasoning,
        }
    }
}

/// A model that did not answer.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct TriedModelJson<'a> {
    model: Cow<'a, str>,
    reason: Cow<'a, str>,
}

impl<'a> From<&'a TriedModel> for TriedModelJson<'a> {
    fn from(tried: &'a TriedModel) -> Self {
        Self {
            model: Cow::Borrowed(&tried.model),
            reason: Cow::Borrowed(&tried.reason),
        }
    }
}

impl From<TriedModelJson<'_>> for TriedModel {
    fn from(tried: TriedModelJson<'_>) -> Self {
        Self {
            model: tried.model.into_owned(),
            reason: tried.reason.into_owned(),
        }
    }
}

/// A host call that was started and may have changed something outside.
#[derive(Serialize, Deserialize)]
struct IntentJson<'a> {
    kind: Keyword<HostCallKind>,
    #[serde(default)]
    request: Cow<'a, str>,
    #[serde(default)]
    what: Cow<'a, str>,
    again: Option<Keyword<LostAnswerPolicy>>,
    #[serde(default)]
    known: bool,
}

impl<'a> From<&'a ExternalWrite> for IntentJson<'a> {
    fn from(begun: &'a ExternalWrite) -> Self {
        let Intent {
            kind,
            request,
            description,
            if_answer_lost,
        } = &begun.intent;
        Self {
            kind: Keyword(*kind),
            request: Cow::Borrowed(request),
            what: Cow::Borrowed(description),
            again: Some(Keyword(*if_answer_lost)),
            known: begun.result == WriteResult::Recorded,
        }
    }
}

impl From<IntentJson<'_>> for ExternalWrite {
    fn from(begun: IntentJson<'_>) -> Self {
        // If nothing is said, a person has to decide.
        let if_answer_lost = begun
            .again
            .map_or(LostAnswerPolicy::AskOperator, |again| again.0);
        Self {
            intent: Intent {
                kind: begun.kind.0,
                request: begun.request.into_owned(),
                description: begun.what.into_owned(),
                if_answer_lost,
            },
            result: if begun.known {
                WriteResult::Recorded
            } else {
                WriteResult::Unknown
            },
        }
    }
}

/// The budget that is reserved for a call.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ReservationJson<'a> {
    request: Cow<'a, str>,
    usd: Dollars,
    tokens: u64,
}

impl<'a> From<&'a Reservation> for ReservationJson<'a> {
    fn from(Reservation { request, amount }: &'a Reservation) -> Self {
        Self {
            request: Cow::Borrowed(request),
            usd: Dollars(amount.usd),
            tokens: amount.tokens,
        }
    }
}

impl From<ReservationJson<'_>> for Reservation {
    fn from(reserved: ReservationJson<'_>) -> Self {
        Self {
            request: reserved.request.into_owned(),
            amount: Amount {
                usd: reserved.usd.0,
                tokens: reserved.tokens,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::located_value::{LocatedValue, WRAPPED_DEPTH};

    fn read(tried: Value) -> Result<CallProgress, String> {
        let document = json!({ "tried": tried });
        let root = LocatedValue::root(&document);
        let tried = match root.get("tried") {
            Some(tried) => tried.decode::<AttemptsJson<'_>>(),
            None => Ok(AttemptsJson::default()),
        };
        tried
            .map(CallProgress::from)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn missing_fields_and_null_stand_for_the_default() {
        let call = |rest: Value| {
            let mut call = rest;
            call["kind"] = "http".into();
            json!({ "journal": [call] })
        };
        let none = read(call(json!({}))).unwrap();
        let null = json!({
            "request": null, "response": null, "cost": null, "outcome": null, "model": null,
        });
        assert_eq!(read(call(null)).unwrap(), none);
        assert_eq!(none.recorded_calls[0].outcome, CallOutcome::Answered);
        assert_eq!(read(json!(null)).unwrap(), CallProgress::default());
        assert_eq!(
            read(json!({ "files": null })).unwrap(),
            CallProgress::default()
        );
    }

    #[test]
    fn an_invalid_value_is_named_with_its_place() {
        let check = |tried: Value, pointer: &str, part: &str| {
            let error = read(tried).unwrap_err();
            let place = format!("`/tried{pointer}` ");
            assert!(error.starts_with(&place) && error.contains(part), "{error}");
        };
        check(json!({ "attempts": -1 }), "/attempts", "-1");
        check(
            json!({ "attempts": 1u64 << 32 }),
            "/attempts",
            "whole number",
        );
        check(json!({ "keep": "yes" }), "/keep", "yes");
        check(json!({ "journal": {} }), "/journal", "a list");
        check(json!({ "journal": [{}] }), "/journal/0", "`kind`");
        check(
            json!({ "journal": [{ "kind": "fax" }] }),
            "/journal/0/kind",
            "`fax`",
        );
        let call = |field: &str, value: Value| {
            let mut call = json!({ "kind": "llm" });
            call[field] = value;
            json!({ "journal": [{ "kind": "llm" }, call] })
        };
        check(
            call("cost", json!(-0.5)),
            "/journal/1/cost",
            "amount of money",
        );
        check(
            call("outcome", json!("lost")),
            "/journal/1/outcome",
            "`lost`",
        );
        let tokens = json!({ "tokens": { "input": 1.5 } });
        check(
            call("model", tokens),
            "/journal/1/model/tokens/input",
            "1.5",
        );
        let mut deep = json!(0);
        for _ in 0..WRAPPED {
            deep = json!([deep]);
        }
        check(
            call("response", deep),
            "/journal/1/response",
            "nested deeper",
        );
        let file = json!({ "path": "a~/b", "before": null, "after": { "sha256": "12" } });
        check(
            json!({ "files": [file] }),
            "/files/0/after",
            "64 hexadecimal digits",
        );
        check(
            json!({ "begun": [{ "kind": "http", "again": 3 }] }),
            "/begun/0/again",
            "3",
        );
    }

    /// More levels than a response may have.
    const WRAPPED: usize = WRAPPED_DEPTH + 1;
}

//! The use of models in public events.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use strata_core::record::conversation::TokenUsage;
use strata_core::record::host_call::{FinishReason, ModelUse, TriedModel};

/// The models that a call asked, and what they used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelUseFields {
    /// the name of the model that answered, or that was asked last; only for `llm`
    pub model: String,
    /// the id of the model that the reply names, or the configured one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// how a model's reply ended: `stop`, `length` (it was truncated), `tool-calls`, `refusal`
    /// (also if it was filtered), `other`
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_finish"
    )]
    #[schemars(with = "Option<String>")]
    pub finish: Option<FinishReason>,
    /// the tokens that were used: `input` (everything that was sent), `output`, `cache_read` and
    /// `cache_write` (parts of `input`), `reasoning` (a part of `output`)
    pub tokens: TokenCounts,
    /// the models that were asked before and did not answer, each with the `reason`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<UnansweredModel>,
}

/// The tokens that a model used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenCounts {
    /// everything that was sent
    pub input: u64,
    /// everything that was received
    pub output: u64,
    /// the part of `input` that was read from the provider's cache
    pub cache_read: u64,
    /// the part of `input` that was written to the provider's cache
    pub cache_write: u64,
    /// the part of `output` that was reasoning
    pub reasoning: u64,
}

/// A model that was asked and did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnansweredModel {
    /// its name
    pub model: String,
    /// why it did not answer
    pub reason: String,
}

impl From<&TriedModel> for UnansweredModel {
    fn from(tried: &TriedModel) -> Self {
        Self {
            model: tried.model.clone(),
            reason: tried.reason.clone(),
        }
    }
}

impl From<TokenUsage> for TokenCounts {
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

impl From<&ModelUse> for ModelUseFields {
    fn from(used: &ModelUse) -> Self {
        Self {
            model: used.name.clone(),
            answered: used.answered.clone(),
            finish: used.finish,
            tokens: used.usage.into(),
            tried: used.tried.iter().map(UnansweredModel::from).collect(),
        }
    }
}

fn serialize_finish<S: Serializer>(
    finish: &Option<FinishReason>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    finish.map(FinishReason::name).serialize(serializer)
}

//! The use of models in public events.

use std::collections::BTreeMap;

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
    #[schemars(with = "BTreeMap<String, u64>")]
    pub tokens: TokenUsage,
    /// the models that were asked before and did not answer, each with the `reason`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<BTreeMap<String, String>>")]
    pub tried: Vec<TriedModel>,
}

impl From<&ModelUse> for ModelUseFields {
    fn from(used: &ModelUse) -> Self {
        Self {
            model: used.name.clone(),
            answered: used.answered.clone(),
            finish: used.finish,
            tokens: used.usage,
            tried: used.tried.clone(),
        }
    }
}

fn serialize_finish<S: Serializer>(
    finish: &Option<FinishReason>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    finish.map(FinishReason::name).serialize(serializer)
}

//! The format of the conversation that a role has open with its model. The faults and requests of
//! tool calls stand in the calls, because a role may have several.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use strata_core::record::host_call::FinishReason;
use strata_core::record::turn::Approval;

use super::super::attempts::AttemptsJson;
use super::super::field::{Dollars, JsonDocument, Keyword, TextList};
use super::{
    FaultJson, HopJson, OutgoingJson, PartJson, PhaseName, ReplyPartJson, RequestJson,
    ScopeWriteJson,
};

/// A reply of the model and what became of it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct TurnJson<'a> {
    pub model: Cow<'a, str>,
    pub finish: Keyword<FinishReason>,
    pub cost: Dollars,
    pub reply: Vec<ReplyPartJson<'a>>,
    pub calls: Vec<TurnCallJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfit: Option<Cow<'a, str>>,
    /// The digests of the role's skills, by name, if it is the first turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub skills: BTreeMap<String, String>,
}

/// A tool call of a turn. What became of it is in one of the fields from `returned` to `declined`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct TurnCallJson<'a> {
    pub tool: Cow<'a, str>,
    /// Whether the model called it by `call_tool`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_call_tool: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalJson<'a>>,
    /// Whether it was approved.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Cow<'a, str>>,
    pub phase: Keyword<PhaseName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FaultJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<Cow<'a, str>>,
    pub tried: AttemptsJson<'a>,
    /// The calls that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<NestedCallJson<'a>>,
}

/// A call that code made within a tool call.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct NestedCallJson<'a> {
    /// The digest of the tool and the arguments.
    pub request: Cow<'a, str>,
    pub arguments: JsonDocument<'a>,
    /// The last attempt that made it.
    pub made_by: u32,
    pub call: TurnCallJson<'a>,
}

/// How a person is asked to approve a call.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ApprovalJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<JsonDocument<'a>>,
    expires_ms: Option<i64>,
}

impl<'a> From<&'a Approval> for ApprovalJson<'a> {
    fn from(approval: &'a Approval) -> Self {
        Self {
            input_schema: approval.input_schema.as_ref().map(JsonDocument::of),
            default: approval.default.as_ref().map(JsonDocument::of),
            expires_ms: approval.expires_ms,
        }
    }
}

impl From<ApprovalJson<'_>> for Approval {
    fn from(approval: ApprovalJson<'_>) -> Self {
        Self {
            input_schema: approval.input_schema.map(JsonDocument::into_json),
            default: approval.default.map(JsonDocument::into_json),
            expires_ms: approval.expires_ms,
        }
    }
}

/// What a tool call returned.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ReturnJson<'a> {
    pub content: Cow<'a, str>,
    pub data: Option<JsonDocument<'a>>,
    /// Whether there is data, since that may be `null`.
    pub has_data: bool,
    pub parts: Vec<PartJson<'a>>,
    pub to: TextList<'a>,
    pub cause_by: Option<Cow<'a, str>>,
    pub route: Vec<HopJson<'a>>,
    pub emissions: Vec<OutgoingJson<'a>>,
    pub writes: Vec<ScopeWriteJson<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::located_value::LocatedValue;
    use super::*;

    #[test]
    fn an_approval_whose_default_is_null_has_none() {
        for saved in [json!({ "default": null }), json!({})] {
            let saved = LocatedValue::root(&saved).decode::<ApprovalJson<'_>>();
            assert_eq!(Approval::from(saved.unwrap()).default, None);
        }
    }
}

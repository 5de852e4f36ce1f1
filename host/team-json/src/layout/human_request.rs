//! The format of requests to people. They are written for them.

use serde::Serialize;

use strata_core::record::nested_path::NestedPath;

use super::super::field::{JsonDocument, TextList, TimeText};
use super::RoleCallJson;

/// A request, and who asks.
#[derive(Serialize)]
pub(in super::super) struct RequestJson<'a> {
    pub id: &'a str,
    pub role: &'a str,
    pub index: i64,
    pub action: &'a str,
    pub step: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<u32>,
    #[serde(skip_serializing_if = "NestedPath::is_empty")]
    pub nested: NestedPath,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<RoleCallJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<JsonDocument<'a>>,
    pub question: &'a str,
    pub schema: Option<JsonDocument<'a>>,
    pub choices: TextList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<JsonDocument<'a>>,
    pub expires: Option<TimeText>,
}

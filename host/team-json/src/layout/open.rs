//! The format of open activations.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::super::field::{Dollars, MessageLink, NotDecoded};
use super::RoleCallJson;

/// An open activation. All but the last two fields are derived from these, for people.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct OpenJson<'a> {
    pub step: NotDecoded<u64>,
    pub phase: NotDecoded<&'a str>,
    pub news: NotDecoded<Vec<MessageLink<'a>>>,
    /// The name of the call that it is at.
    pub at: NotDecoded<String>,
    /// How often that call was tried.
    pub attempts: NotDecoded<u32>,
    /// How often its model has replied.
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub turns: NotDecoded<usize>,
    /// The host calls that its open calls have recorded.
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub recorded_calls: NotDecoded<Vec<RecordedCallJson>>,
    /// The activations of other roles that it led to.
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub called: NotDecoded<Vec<CalledJson<'a>>>,
    /// The messages that the machine part refers to, by their positions.
    pub messages: Vec<MessageLink<'a>>,
    pub machine: Option<Cow<'a, str>>,
}

/// An activation of a role that another one called.
#[derive(Serialize)]
pub(in super::super) struct CalledJson<'a> {
    pub role: &'a str,
    pub via: Vec<RoleCallJson<'a>>,
    pub phase: &'static str,
    pub at: Option<String>,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_calls: Option<Vec<RecordedCallJson>>,
}

/// A host call that was recorded, without its request and what came back.
#[derive(Serialize)]
pub(in super::super) struct RecordedCallJson {
    /// The name of the open call that made it.
    pub at: String,
    pub kind: &'static str,
    pub outcome: &'static str,
    pub cost: Dollars,
}

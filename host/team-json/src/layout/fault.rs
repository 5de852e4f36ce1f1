//! The format of faults: in the list of all faults, and of the call that one belongs to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use strata_core::record::fault::{Fault, FaultCause, FaultKind, Retryability};
use strata_core::record::nested_path::NestedPath;

use super::super::field::{Keyword, NotDecoded, TextList};

/// A fault. An entry of the list says in addition where it occurred; a fault that stands in the call
/// that it belongs to does not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct FaultJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub index: NotDecoded<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Cow<'a, str>>,
    pub kind: Option<Keyword<FaultKind>>,
    pub cause: Keyword<FaultCause>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub attempt: NotDecoded<u32>,
    pub message: Cow<'a, str>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub step: NotDecoded<u64>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub digest: NotDecoded<Option<&'a str>>,
    pub backtrace: TextList<'a>,
    pub log: TextList<'a>,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<RoleCallJson<'a>>,
}

/// A call of a role by another one.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct RoleCallJson<'a> {
    pub role: Cow<'a, str>,
    pub turn: u32,
    pub tool_call: u32,
    #[serde(skip_serializing_if = "NestedPath::is_empty")]
    pub nested: NestedPath,
}

impl<'a> From<&'a Fault> for FaultJson<'a> {
    fn from(fault: &'a Fault) -> Self {
        let Fault {
            kind,
            retryability,
            cause,
            message,
            backtrace,
            log,
        } = fault;
        Self {
            kind: Some(Keyword(*kind)),
            cause: Keyword(*cause),
            message: Cow::Borrowed(message),
            backtrace: backtrace.as_slice().into(),
            log: log.as_slice().into(),
            retryable: *retryability == Retryability::Retryable,
            ..Self::default()
        }
    }
}

impl From<FaultJson<'_>> for Fault {
    fn from(fault: FaultJson<'_>) -> Self {
        Self {
            // The most general kind.
            kind: fault.kind.map_or(FaultKind::Error, |kind| kind.0),
            retryability: if fault.retryable {
                Retryability::Retryable
            } else {
                Retryability::Final
            },
            // If the file does not say the cause, it is unknown.
            cause: fault.cause.0,
            message: fault.message.into_owned(),
            backtrace: fault.backtrace.0.into_owned(),
            log: fault.log.0.into_owned(),
        }
    }
}

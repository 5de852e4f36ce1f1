//! An action, as it is written in a team file.

use std::ops::Range;
use std::path::PathBuf;

use strata_core::team::BudgetLimits;
use strata_core::team::tools::{CallOrder, ToolFaults};
use strata_services::plugin::CompiledSchema;
use strata_services::tools::{ApprovalRule, ToolOffer};

use super::slot::AuthoredSlot;
use crate::table::Located;

/// `[[role.action]]`.
pub(crate) struct AuthoredAction {
    pub(crate) name: Option<Located<String>>,
    pub(crate) slot: AuthoredSlot,
    pub(crate) tool: AuthoredToolAction,
    pub(crate) budget_limits: BudgetLimits,
}

/// What is particular to an action that is a tool.
pub(crate) struct AuthoredToolAction {
    /// The keys that are written.
    pub(crate) keys: Vec<ToolKey>,
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Option<(CompiledSchema, PathBuf)>,
    pub(crate) approval: Option<ApprovalRule>,
    pub(crate) faults: Option<ToolFaults>,
    pub(crate) order: CallOrder,
    pub(crate) max_calls: Option<u32>,
    /// Whether its result is the answer of the role.
    pub(crate) is_final: bool,
    /// Who is offered the tools that it may call.
    pub(crate) granted_tools: ToolOffer,
}

/// A key that only makes sense for a role whose model works with tools.
pub(crate) struct ToolKey {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    /// Whether its value is the default, which is harmless for other roles.
    pub(crate) is_default: bool,
}

/// What becomes of faults, as it is written.
pub(super) const FAULT_WORDS: [(&str, ToolFaults); 3] = [
    ("auto", ToolFaults::Auto),
    ("return", ToolFaults::Return),
    ("stop", ToolFaults::Stop),
];

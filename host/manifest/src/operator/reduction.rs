//! What a policy reduced or removed, as it is recorded and reported.

use strata_core::record::host_call::Grant;
use strata_core::record::id::Slot;

/// Something that a policy reduced or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyReduction {
    /// The component that it concerns; `None` for the team as a whole.
    pub(crate) slot: Option<Slot>,
    /// What it was, what is left, and the policy, in a form for people.
    pub(crate) text: String,
    /// The kind of grant, if it is one.
    pub(crate) grant: Option<Grant>,
    /// The name of the language model that was removed, if it is one.
    pub(crate) model: Option<String>,
    /// Whether the team file contains it, or it was a default.
    pub(crate) origin: ReductionOrigin,
}

/// Where something that a policy reduced came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReductionOrigin {
    /// It is written in the team file.
    Written,
    /// It is a default.
    Default,
}

impl ReductionOrigin {
    /// Returns where a value came from.
    pub(super) fn of(is_default: bool) -> Self {
        if is_default {
            Self::Default
        } else {
            Self::Written
        }
    }
}

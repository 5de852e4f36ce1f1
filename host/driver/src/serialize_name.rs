//! Serialises values of the core under their public names, which are the same in events and in views.

use serde::Serializer;
use strata_core::record::event::Status;
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::host_call::HostCallKind;

/// Serialises the kind of a fault.
pub fn fault_kind<S: Serializer>(kind: &FaultKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// Serialises the cause of a fault.
pub fn fault_cause<S: Serializer>(cause: &FaultCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

/// Serialises the status of a run.
pub fn status<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.name())
}

/// Serialises the kind of a host call.
pub fn host_call_kind<S: Serializer>(
    kind: &HostCallKind,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

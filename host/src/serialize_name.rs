//! Serialises values of the core under their public names, which are the same in events and in views.

use serde::Serializer;
use strata_core::record::event::Status;
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::host_call::HostCallKind;

pub fn fault_kind<S: Serializer>(kind: &FaultKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

pub fn fault_cause<S: Serializer>(cause: &FaultCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

pub fn status<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.name())
}

pub fn host_call_kind<S: Serializer>(
    kind: &HostCallKind,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

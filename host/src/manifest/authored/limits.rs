//! `[limits]`, of the team and of one component. What they mean is in `plugin::Limits`; they are enforced in `sandbox`.

use std::time::Duration;

use strata_core::team::Retry;

use crate::manifest::table::{Item, Table};
use crate::plugin::Limits;

/// More tries than any upstream deserves.
pub(in crate::manifest) const MAX_RETRIES: u64 = 100;

/// The wait before the first further try.
pub(in crate::manifest) const DEFAULT_BACKOFF: Duration = Duration::from_millis(500);

/// What is written of limits; what is not written is taken from elsewhere.
#[derive(Clone, Default)]
pub(in crate::manifest) struct Patch {
    memory: Option<u64>,
    cpu: Option<Duration>,
    timeout: Option<Duration>,
    fuel: Option<u64>,
    output: Option<u64>,
    log: Option<u64>,
    host_calls: Option<u64>,
    retries: Option<u64>,
    backoff: Option<Duration>,
}

/// What limits are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::manifest) enum Subject {
    /// An action.
    Action,
    /// What chooses among actions. It is not tried again by itself.
    Thinker,
}

/// Reads a table of limits.
pub(in crate::manifest) fn read(table: &Table<'_>, subject: Subject) -> Patch {
    let mut patch = Patch {
        memory: table.item("memory").and_then(size_above_zero),
        cpu: table.item("cpu").and_then(time_above_zero),
        timeout: table.item("timeout").and_then(time_above_zero),
        fuel: table.item("fuel").and_then(|i| i.whole(0..=i64::MAX as u64)),
        output: table.item("output").and_then(size_above_zero),
        log: table.item("log").and_then(|item| item.size()),
        host_calls: table.item("host_calls").and_then(|item| item.whole(0..=u64::from(u32::MAX))),
        ..Patch::default()
    };
    if subject == Subject::Action {
        patch.retries = table.item("retries").and_then(|i| i.whole(0..=MAX_RETRIES));
        patch.backoff = table.item("backoff").and_then(|item| item.duration());
    }
    patch
}

fn size_above_zero(item: Item<'_>) -> Option<u64> {
    let size = item.size();
    if size == Some(0) {
        refuse_zero(&item);
    }
    size
}

fn time_above_zero(item: Item<'_>) -> Option<Duration> {
    let time = item.duration();
    if time == Some(Duration::ZERO) {
        refuse_zero(&item);
    }
    time
}

fn refuse_zero(item: &Item<'_>) {
    let message = format!("`{}` cannot be zero", item.key);
    item.refuse(message, "nothing could run; leave the key out for the default");
}

impl Patch {
    /// These limits, with what is not written taken from others.
    pub(in crate::manifest) fn or(&self, others: &Self) -> Self {
        Self {
            memory: self.memory.or(others.memory),
            cpu: self.cpu.or(others.cpu),
            timeout: self.timeout.or(others.timeout),
            fuel: self.fuel.or(others.fuel),
            output: self.output.or(others.output),
            log: self.log.or(others.log),
            host_calls: self.host_calls.or(others.host_calls),
            retries: self.retries.or(others.retries),
            backoff: self.backoff.or(others.backoff),
        }
    }

    /// The limits, with defaults for what is not written.
    pub(in crate::manifest) fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            memory_bytes: self.memory.unwrap_or(default.memory_bytes),
            cpu: self.cpu.unwrap_or(default.cpu),
            timeout: self.timeout.unwrap_or(default.timeout),
            fuel: self.fuel.filter(|fuel| *fuel > 0),
            output_bytes: self.output.unwrap_or(default.output_bytes),
            log_bytes: self.log.unwrap_or(default.log_bytes),
            host_calls: self.host_calls.map_or(default.host_calls, |n| n as u32),
        }
    }

    /// When a failed call is tried again.
    pub(in crate::manifest) fn retry(&self) -> Retry {
        let backoff = self.backoff.unwrap_or(DEFAULT_BACKOFF);
        Retry {
            retries: self.retries.unwrap_or(0) as u32,
            // Durations are bounded to fit; see `units`.
            backoff_ms: backoff.as_millis() as u32,
        }
    }
}

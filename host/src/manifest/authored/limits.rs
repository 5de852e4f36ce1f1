//! `[limits]`, of the team, of one component, of an operator's policy. What they mean is in `plugin::Limits`; they are
//! enforced in `sandbox`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use strata_core::team::Retry;

use crate::manifest::table::{At, Item, Table};
use crate::plugin::{Limit, Limits, Unit};

/// More tries than any upstream deserves.
pub(in crate::manifest) const MAX_RETRIES: u64 = 100;
/// As many as the tables of one component can have.
pub(in crate::manifest) const MAX_TABLE_ELEMENTS: u64 = 16 << 20;

/// The wait before the first further try.
pub(in crate::manifest) const DEFAULT_BACKOFF: Duration = Duration::from_millis(500);

/// What is written of limits; what is not written is taken from elsewhere.
#[derive(Clone, Default)]
pub(in crate::manifest) struct Patch {
    /// The table they are written in, if there is one.
    pub(in crate::manifest) span: Option<Range<usize>>,
    /// Numbers of the limit's units, each with the place of its key.
    pub(in crate::manifest) written: BTreeMap<Limit, At<u64>>,
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
        span: Some(table.span.clone()),
        written: read_limits(table),
        ..Patch::default()
    };
    if subject == Subject::Action {
        patch.retries = table.item("retries").and_then(|i| i.whole(0..=MAX_RETRIES));
        patch.backoff = table.item("backoff").and_then(|item| item.duration());
    }
    patch
}

/// Reads the limits alone.
pub(in crate::manifest) fn read_limits(table: &Table<'_>) -> BTreeMap<Limit, At<u64>> {
    let limits = Limit::ALL.into_iter().filter_map(|limit| {
        let item = table.item(limit.key())?;
        let value = read_limit(&item, limit)?;
        Some((
            limit,
            At {
                value,
                span: item.key_span.clone(),
            },
        ))
    });
    limits.collect()
}

fn read_limit(item: &Item<'_>, limit: Limit) -> Option<u64> {
    let value = match limit.unit() {
        Unit::Bytes => item.size()?,
        // Durations are bounded to fit; see `units`.
        Unit::Milliseconds => item.duration()?.as_millis() as u64,
        Unit::Count => item.whole(0..=most(limit))?,
    };
    if value == 0 && !may_be_zero(limit) {
        let message = format!("`{}` cannot be zero", item.key);
        item.refuse(
            message,
            "nothing could run; leave the key out for the default",
        );
    }
    Some(value)
}

fn most(limit: Limit) -> u64 {
    match limit {
        Limit::TableElements => MAX_TABLE_ELEMENTS,
        Limit::HostCalls => u64::from(u32::MAX),
        _ => i64::MAX as u64,
    }
}

/// Whether an action can do without, or (fuel) zero stands for no limit.
fn may_be_zero(limit: Limit) -> bool {
    match limit {
        Limit::TableElements | Limit::Fuel | Limit::Log | Limit::HostCalls | Limit::HostBytes => {
            true
        }
        Limit::Memory
        | Limit::Cpu
        | Limit::Timeout
        | Limit::Output
        | Limit::Component
        | Limit::Compile => false,
    }
}

impl Patch {
    /// These limits, with what is not written taken from others.
    pub(in crate::manifest) fn or(&self, others: &Self) -> Self {
        let mut written = others.written.clone();
        written.extend(self.written.clone());
        Self {
            span: self.span.clone(),
            written,
            retries: self.retries.or(others.retries),
            backoff: self.backoff.or(others.backoff),
        }
    }

    /// The limits, with defaults for what is not written.
    pub(in crate::manifest) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        self.written
            .iter()
            .for_each(|(limit, at)| limits.set(*limit, at.value));
        limits
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

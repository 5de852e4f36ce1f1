//! Reads `[limits]` of a team, of one component, or of an operator's policy. The limits are defined
//! in `plugin::Limits` and enforced in `sandbox`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value;
use strata_core::team::RetryPolicy;
use strata_services::plugin::{Limit, LimitUnit, Limits};

use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlTable};

/// The largest number of retries of a call.
pub(crate) const MAX_RETRIES: u64 = 100;
/// The largest number of table elements: more than the tables of one component can have.
pub(crate) const MAX_TABLE_ELEMENTS: u64 = 16 << 20;

/// The default delay before the first retry.
pub(crate) const DEFAULT_BACKOFF: Duration = Duration::from_millis(500);

/// The limits that are written in one place. Those that are not written come from another `LimitsPatch`
/// or from the defaults.
#[derive(Clone, Default)]
pub(crate) struct LimitsPatch {
    /// The span of the table in which they are written, if there is one.
    pub(crate) span: Option<Range<usize>>,
    /// The written limits, each in its own unit, with the span of its key.
    pub(crate) written: BTreeMap<Limit, Located<u64>>,
    retries: Option<u64>,
    backoff: Option<Duration>,
}

/// The kind of component that limits apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComponentKind {
    /// An action.
    Action,
    /// The component that chooses a role's next action. It is not retried by itself.
    Thinker,
    /// The component that writes the summaries of a role. Its attempts are retried like turns.
    Summariser,
}

/// Reads a table of limits, and for actions also when a failed call is retried.
pub(crate) fn read_limits_patch(table: &TomlTable<'_>, subject: ComponentKind) -> LimitsPatch {
    let mut patch = LimitsPatch {
        span: Some(table.span.clone()),
        written: read_limits(table),
        ..LimitsPatch::default()
    };
    if subject == ComponentKind::Action {
        patch.retries = table
            .key(
                "retries",
                "How often it is tried again after a transient failure, a timeout or a host error; the count \
                 restarts with each resume.",
            )
            .default(0)
            .integer(0..=MAX_RETRIES);
        patch.backoff = table
            .key(
                "backoff",
                "Wait before the first retry; it doubles each time, up to a minute or this value, whichever is \
                 longer.",
            )
            .default(kind::written_duration(DEFAULT_BACKOFF))
            .duration();
    }
    patch
}

/// Reads the limits of a table, without `retries` and `backoff`.
fn read_limits(table: &TomlTable<'_>) -> BTreeMap<Limit, Located<u64>> {
    read_all(table, |limit| with_default(limit, limit_schema(limit)))
}

/// Reads the upper bounds of limits, which have no defaults.
pub(crate) fn read_upper_bounds(table: &TomlTable<'_>) -> BTreeMap<Limit, Located<u64>> {
    read_all(table, limit_schema)
}

fn read_all(
    table: &TomlTable<'_>,
    schema: impl Fn(Limit) -> Value,
) -> BTreeMap<Limit, Located<u64>> {
    let limits = Limit::ALL.into_iter().filter_map(|limit| {
        let item = table
            .key(limit.key(), about(limit))
            .value(|| schema(limit))?;
        let value = read_limit(&item, limit)?;
        Some((
            limit,
            Located {
                value,
                span: item.key_span.clone(),
            },
        ))
    });
    limits.collect()
}

/// Returns what a limit is for.
fn about(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "All linear memories and tables together.",
        Limit::Cpu => "Time inside the component only.",
        Limit::Timeout => "Wall time, host calls included.",
        Limit::Fuel => "Instructions, counted deterministically; 0 for no limit.",
        Limit::Output => "Output, emissions and writes of state together.",
        Limit::Result => {
            "What a model is told of the result of an action that it calls as a tool, and, where it is a limit of the \
             team, of a role that it calls; the rest is cut."
        }
        Limit::Log => "Log lines and standard streams; the rest is cut.",
        Limit::HostCalls => "Calls of host functions.",
        Limit::HostBytes => "What goes to host functions and comes from them.",
        Limit::TableElements => "Elements of all tables.",
        Limit::Component => "The component itself.",
        Limit::Compile => "The time to compile it in.",
    }
}

/// Returns the schema of a limit.
fn limit_schema(limit: Limit) -> Value {
    let least = u64::from(!may_be_zero(limit));
    match limit.unit() {
        LimitUnit::Bytes => kind::size(least),
        LimitUnit::Milliseconds => kind::duration(Duration::from_millis(least)),
        LimitUnit::Count => kind::integer(least..=max_count(limit)),
    }
}

/// Adds the default of a limit to its schema.
fn with_default(limit: Limit, mut schema: Value) -> Value {
    let default = Limits::default().get(limit).unwrap_or_default();
    schema["default"] = match limit.unit() {
        LimitUnit::Bytes => kind::written_size(default).into(),
        LimitUnit::Milliseconds => kind::written_duration(Duration::from_millis(default)).into(),
        LimitUnit::Count => default.into(),
    };
    schema
}

fn read_limit(item: &TomlItem<'_>, limit: Limit) -> Option<u64> {
    let value = match limit.unit() {
        LimitUnit::Bytes => item.size()?,
        // The longest duration in `units` fits into 64 bits of milliseconds.
        LimitUnit::Milliseconds => item.duration()?.as_millis() as u64,
        LimitUnit::Count => item.integer(0..=max_count(limit))?,
    };
    if value == 0 && !may_be_zero(limit) {
        let message = format!("`{}` cannot be zero", item.key);
        item.reject(
            message,
            "nothing could run; leave the key out for the default",
        );
    }
    Some(value)
}

fn max_count(limit: Limit) -> u64 {
    match limit {
        Limit::TableElements => MAX_TABLE_ELEMENTS,
        Limit::HostCalls => u64::from(u32::MAX),
        _ => i64::MAX as u64,
    }
}

/// Returns whether a limit may be zero: an action can work without what it bounds, or, for fuel,
/// zero means no limit.
fn may_be_zero(limit: Limit) -> bool {
    match limit {
        Limit::TableElements
        | Limit::Fuel
        | Limit::Result
        | Limit::Log
        | Limit::HostCalls
        | Limit::HostBytes => true,
        Limit::Memory
        | Limit::Cpu
        | Limit::Timeout
        | Limit::Output
        | Limit::Component
        | Limit::Compile => false,
    }
}

impl LimitsPatch {
    /// Returns these limits, completed with those of `others` that are not written here.
    pub(crate) fn completed_with(&self, others: &Self) -> Self {
        let mut written = others.written.clone();
        written.extend(self.written.clone());
        Self {
            span: self.span.clone(),
            written,
            retries: self.retries.or(others.retries),
            backoff: self.backoff.or(others.backoff),
        }
    }

    /// Returns all limits, with defaults for those that are not written.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (limit, at) in &self.written {
            limits.set(*limit, at.value);
        }
        limits
    }

    /// Returns when a failed call is retried.
    pub(crate) fn retry(&self) -> RetryPolicy {
        let backoff = self.backoff.unwrap_or(DEFAULT_BACKOFF);
        RetryPolicy {
            retries: self.retries.unwrap_or(0) as u32,
            // The longest duration in `units` fits into 32 bits of milliseconds.
            backoff_ms: backoff.as_millis() as u32,
        }
    }
}

//! The limits on the resources of a call, and where they are configured. `manifest` parses them,
//! `sandbox` enforces them, all but `result`, which `driver::turns` does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use strata_base::text::units::{format_duration, format_size};

/// The limits of one call. Every field is enforced; see `sandbox::limits`, `sandbox::ctx`,
/// `sandbox::component` and `driver::turns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The size of all linear memories and tables together, in bytes.
    pub memory_bytes: u64,
    /// The number of elements of all tables together.
    pub table_elements: u64,
    /// The processor time inside the guest.
    #[serde(rename = "cpu_ms", serialize_with = "milliseconds")]
    pub cpu: Duration,
    /// The wall time, including host calls.
    #[serde(rename = "timeout_ms", serialize_with = "milliseconds")]
    pub timeout: Duration,
    /// The number of instructions, counted deterministically; `None` for no limit.
    pub fuel: Option<u64>,
    /// The size of output, emissions, written state and plans together, in bytes.
    pub output_bytes: u64,
    /// How much a model is told of the result of a tool call, in bytes. The rest is cut off.
    pub result_bytes: u64,
    /// The size of log lines and standard streams, in bytes. The rest is cut off.
    pub log_bytes: u64,
    /// The number of calls of host functions.
    pub host_calls: u32,
    /// The size of what goes to host functions and what they return, in bytes together.
    pub host_bytes: u64,
    /// The size of the component in bytes.
    pub component_bytes: u64,
    /// The time to compile the component, if its code is not cached.
    #[serde(rename = "compile_ms", serialize_with = "milliseconds")]
    pub compile: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 256 << 10,
            cpu: Duration::from_secs(10),
            timeout: Duration::from_secs(120),
            fuel: None,
            output_bytes: 4 << 20,
            result_bytes: 64 << 10,
            log_bytes: 256 << 10,
            host_calls: 1024,
            host_bytes: 64 << 20,
            // The largest real ones, interpreters with their libraries, have about 30 MB.
            component_bytes: 64 << 20,
            compile: Duration::from_secs(300),
        }
    }
}

/// A limit, by its key in `[limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// `memory`.
    Memory,
    /// `table_elements`.
    TableElements,
    /// `cpu`.
    Cpu,
    /// `timeout`.
    Timeout,
    /// `fuel`.
    Fuel,
    /// `output`.
    Output,
    /// `result`.
    Result,
    /// `log`.
    Log,
    /// `host_calls`.
    HostCalls,
    /// `host_bytes`.
    HostBytes,
    /// `component`.
    Component,
    /// `compile`.
    Compile,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 12] = [
        Self::Memory,
        Self::TableElements,
        Self::Cpu,
        Self::Timeout,
        Self::Fuel,
        Self::Output,
        Self::Result,
        Self::Log,
        Self::HostCalls,
        Self::HostBytes,
        Self::Component,
        Self::Compile,
    ];

    /// Returns the key of the limit.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::TableElements => "table_elements",
            Self::Cpu => "cpu",
            Self::Timeout => "timeout",
            Self::Fuel => "fuel",
            Self::Output => "output",
            Self::Result => "result",
            Self::Log => "log",
            Self::HostCalls => "host_calls",
            Self::HostBytes => "host_bytes",
            Self::Component => "component",
            Self::Compile => "compile",
        }
    }

    /// Returns the unit of the limit.
    pub fn unit(self) -> LimitUnit {
        match self {
            Self::Memory
            | Self::Output
            | Self::Result
            | Self::Log
            | Self::HostBytes
            | Self::Component => LimitUnit::Bytes,
            Self::Cpu | Self::Timeout | Self::Compile => LimitUnit::Milliseconds,
            Self::TableElements | Self::Fuel | Self::HostCalls => LimitUnit::Count,
        }
    }

    /// Formats a value of the limit for people.
    pub fn format_value(self, value: u64) -> String {
        match self.unit() {
            LimitUnit::Bytes => format_size(value),
            LimitUnit::Milliseconds => format_duration(Duration::from_millis(value)),
            LimitUnit::Count => value.to_string(),
        }
    }
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// A size in bytes.
    Bytes,
    /// A duration in milliseconds.
    Milliseconds,
    /// A plain number.
    Count,
}

impl Limits {
    /// Returns the value of a limit in its unit; `None` if there is no limit.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        let ms = |time| Some(to_milliseconds(time));
        match limit {
            Limit::Memory => Some(self.memory_bytes),
            Limit::TableElements => Some(self.table_elements),
            Limit::Cpu => ms(self.cpu),
            Limit::Timeout => ms(self.timeout),
            Limit::Fuel => self.fuel,
            Limit::Output => Some(self.output_bytes),
            Limit::Result => Some(self.result_bytes),
            Limit::Log => Some(self.log_bytes),
            Limit::HostCalls => Some(self.host_calls.into()),
            Limit::HostBytes => Some(self.host_bytes),
            Limit::Component => Some(self.component_bytes),
            Limit::Compile => ms(self.compile),
        }
    }

    /// Sets the value of a limit in its unit. A fuel of 0 means that fuel is not counted.
    pub fn set(&mut self, limit: Limit, value: u64) {
        let time = Duration::from_millis(value);
        match limit {
            Limit::Memory => self.memory_bytes = value,
            Limit::TableElements => self.table_elements = value,
            Limit::Cpu => self.cpu = time,
            Limit::Timeout => self.timeout = time,
            Limit::Fuel => self.fuel = Some(value).filter(|fuel| *fuel > 0),
            Limit::Output => self.output_bytes = value,
            Limit::Result => self.result_bytes = value,
            Limit::Log => self.log_bytes = value,
            Limit::HostCalls => self.host_calls = u32::try_from(value).unwrap_or(u32::MAX),
            Limit::HostBytes => self.host_bytes = value,
            Limit::Component => self.component_bytes = value,
            Limit::Compile => self.compile = time,
        }
    }
}

fn to_milliseconds(time: Duration) -> u64 {
    // Durations in files are bounded; see `units`.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(to_milliseconds(*time))
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// The limit.
    pub limit: Limit,
    /// The value that would have been reached, if it is known. The real demand may be higher.
    pub demand: Option<u64>,
}

impl LimitReached {
    /// Creates the value without a known demand.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            demand: None,
        }
    }

    /// Creates the value with a known demand.
    pub fn with_demand(limit: Limit, demand: u64) -> Self {
        Self {
            limit,
            demand: Some(demand),
        }
    }
}

/// Where the limits of a plugin that no file sets can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsetLimits {
    /// What they are added to.
    pub table: LimitTable,
    /// Where that is: `team.toml:34`.
    pub location: String,
    /// The limits that apply now.
    pub current: Limits,
}

/// What a limit can be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitTable {
    /// The limits that an action has.
    Action,
    /// The limits that what a role thinks with has.
    Think,
    /// The limits that another component has, such as a guard.
    Own,
    /// A component without limits.
    Component,
    /// The limits of the team, which hold for a component that has none of its own.
    Team,
    /// A team without limits.
    NewTeam,
}

/// Where each limit of a plugin can be changed. Empty for a plugin that does not come from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitAdvice {
    /// The limits that are set, and where.
    set: BTreeMap<Limit, String>,
    unset: Option<UnsetLimits>,
}

impl LimitAdvice {
    /// Creates the advice for a plugin that sets no limit.
    pub fn for_unset(unset: UnsetLimits) -> Self {
        Self {
            set: BTreeMap::new(),
            unset: Some(unset),
        }
    }

    /// Stores where a limit is set.
    pub fn set(&mut self, limit: Limit, location: String) {
        self.set.insert(limit, location);
    }

    /// Returns the advice about a limit that was reached: ``raise `limits.cpu` (team.toml:34)``.
    pub fn for_limit(&self, LimitReached { limit, demand }: LimitReached) -> String {
        let location = match (self.set.get(&limit), &self.unset) {
            (Some(location), _) => format!(" ({location})"),
            (None, Some(unset)) => format!(" ({})", unset.line_to_add(limit, demand)),
            (None, None) => String::new(),
        };
        format!("raise `limits.{}`{location}", limit.key())
    }
}

impl UnsetLimits {
    /// Returns the text that sets a limit to a sufficient value, and where to add it.
    fn line_to_add(&self, limit: Limit, demand: Option<u64>) -> String {
        let now = self.current.get(limit).unwrap_or_default();
        let value = limit.format_value(sufficient_value(now, demand));
        let value = match limit.unit() {
            LimitUnit::Count => value,
            _ => format!("\"{value}\""),
        };
        let (key, location) = (limit.key(), &self.location);
        match self.table {
            LimitTable::Action => {
                format!("add `{key} = {value}` to `[role.action.limits]`, {location}")
            }
            LimitTable::Think => {
                format!("add `{key} = {value}` to `limits` of `think`, {location}")
            }
            LimitTable::Own => format!("add `{key} = {value}` to `limits`, {location}"),
            LimitTable::Component => format!("add `limits = {{ {key} = {value} }}`, {location}"),
            LimitTable::Team => {
                format!("add `{key} = {value}` to the team's `[limits]`, {location}")
            }
            LimitTable::NewTeam => {
                format!("add the table `[limits]` with `{key} = {value}`, {location}")
            }
        }
    }
}

/// Returns twice the current value, or the multiple of it that covers the demand.
fn sufficient_value(now: u64, demand: Option<u64>) -> u64 {
    let times = demand.map_or(2, |demand| demand.div_ceil(now.max(1)).max(2));
    now.saturating_mul(times)
}

#[test]
fn what_is_advised_is_enough_for_what_was_asked() {
    let check = |now, demand, expected| assert_eq!(sufficient_value(now, demand), expected);
    check(4 << 20, None, 8 << 20);
    check(4 << 20, Some((4 << 20) + 1), 8 << 20);
    check(4 << 20, Some(9 << 20), 12 << 20);
    check(1024, Some(1025), 2048);
    check(0, Some(5), 0);
    check(2, Some(u64::MAX), u64::MAX);
    let check = |table, expected: &str| {
        let mut advice = LimitAdvice::for_unset(UnsetLimits {
            table,
            location: "there".into(),
            current: Limits {
                output_bytes: 4 << 20,
                ..Limits::default()
            },
        });
        let reached = LimitReached::with_demand(Limit::Output, 9 << 20);
        assert_eq!(advice.for_limit(reached), expected);
        advice.set(Limit::Output, "here".into());
        assert_eq!(advice.for_limit(reached), "raise `limits.output` (here)");
    };
    let output = "output = \"12 MiB\"";
    for (table, line) in [
        (
            LimitTable::Action,
            format!("`{output}` to `[role.action.limits]`"),
        ),
        (
            LimitTable::Think,
            format!("`{output}` to `limits` of `think`"),
        ),
        (LimitTable::Component, format!("`limits = {{ {output} }}`")),
        (
            LimitTable::Team,
            format!("`{output}` to the team's `[limits]`"),
        ),
        (
            LimitTable::NewTeam,
            format!("the table `[limits]` with `{output}`"),
        ),
    ] {
        check(table, &format!("raise `limits.output` (add {line}, there)"));
    }
}

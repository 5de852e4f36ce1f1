//! What one call may use up, and where that is written. Read in `manifest`, enforced in `sandbox`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::manifest::units::{show_duration, show_size};

/// What one call may use up. Every field is enforced; see `sandbox::limits`, `sandbox::ctx`, `sandbox::component`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Bytes of all linear memories and tables together.
    pub memory_bytes: u64,
    /// Elements of all tables together.
    pub table_elements: u64,
    /// Time inside the guest.
    #[serde(rename = "cpu_ms", serialize_with = "milliseconds")]
    pub cpu: Duration,
    /// Wall time, host calls included.
    #[serde(rename = "timeout_ms", serialize_with = "milliseconds")]
    pub timeout: Duration,
    /// Instructions, counted deterministically; none for no limit.
    pub fuel: Option<u64>,
    /// Bytes of output, emissions, written state and plans together.
    pub output_bytes: u64,
    /// Bytes of log lines and standard streams; what goes beyond is cut.
    pub log_bytes: u64,
    /// Calls of host functions.
    pub host_calls: u32,
    /// Bytes that go to host functions and come from them, together.
    pub host_bytes: u64,
    /// Bytes of the component.
    pub component_bytes: u64,
    /// Time to compile the component in, where its code is not kept from an earlier run.
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
            log_bytes: 256 << 10,
            host_calls: 1024,
            host_bytes: 64 << 20,
            // The largest real ones, interpreters with their libraries, have about 30 MB.
            component_bytes: 64 << 20,
            compile: Duration::from_secs(300),
        }
    }
}

/// A limit, as `[limits]` names it.
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
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::TableElements,
        Self::Cpu,
        Self::Timeout,
        Self::Fuel,
        Self::Output,
        Self::Log,
        Self::HostCalls,
        Self::HostBytes,
        Self::Component,
        Self::Compile,
    ];

    /// Its key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::TableElements => "table_elements",
            Self::Cpu => "cpu",
            Self::Timeout => "timeout",
            Self::Fuel => "fuel",
            Self::Output => "output",
            Self::Log => "log",
            Self::HostCalls => "host_calls",
            Self::HostBytes => "host_bytes",
            Self::Component => "component",
            Self::Compile => "compile",
        }
    }

    /// What it is measured in.
    pub fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::Output | Self::Log | Self::HostBytes | Self::Component => {
                Unit::Bytes
            }
            Self::Cpu | Self::Timeout | Self::Compile => Unit::Milliseconds,
            Self::TableElements | Self::Fuel | Self::HostCalls => Unit::Count,
        }
    }

    /// A value of it, for people.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Bytes => show_size(value),
            Unit::Milliseconds => show_duration(Duration::from_millis(value)),
            Unit::Count => value.to_string(),
        }
    }
}

/// What a limit is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Written as a size.
    Bytes,
    /// Written as a duration.
    Milliseconds,
    /// Written as a number.
    Count,
}

impl Limits {
    /// A limit as a number of its units; none for one that is off.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        let ms = |time| Some(in_ms(time));
        match limit {
            Limit::Memory => Some(self.memory_bytes),
            Limit::TableElements => Some(self.table_elements),
            Limit::Cpu => ms(self.cpu),
            Limit::Timeout => ms(self.timeout),
            Limit::Fuel => self.fuel,
            Limit::Output => Some(self.output_bytes),
            Limit::Log => Some(self.log_bytes),
            Limit::HostCalls => Some(self.host_calls.into()),
            Limit::HostBytes => Some(self.host_bytes),
            Limit::Component => Some(self.component_bytes),
            Limit::Compile => ms(self.compile),
        }
    }

    /// Sets a limit to a number of its units. No fuel stands for fuel that is not counted.
    pub fn set(&mut self, limit: Limit, value: u64) {
        let time = Duration::from_millis(value);
        match limit {
            Limit::Memory => self.memory_bytes = value,
            Limit::TableElements => self.table_elements = value,
            Limit::Cpu => self.cpu = time,
            Limit::Timeout => self.timeout = time,
            Limit::Fuel => self.fuel = Some(value).filter(|fuel| *fuel > 0),
            Limit::Output => self.output_bytes = value,
            Limit::Log => self.log_bytes = value,
            Limit::HostCalls => self.host_calls = u32::try_from(value).unwrap_or(u32::MAX),
            Limit::HostBytes => self.host_bytes = value,
            Limit::Component => self.component_bytes = value,
            Limit::Compile => self.compile = time,
        }
    }
}

fn in_ms(time: Duration) -> u64 {
    // Durations of files are bounded; see `manifest`'s units.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(in_ms(*time))
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Which.
    pub limit: Limit,
    /// What it would have come to, where that is known. It may have come to more.
    pub asked: Option<u64>,
}

impl Reached {
    /// One of which no more is known.
    pub fn at(limit: Limit) -> Self {
        Self { limit, asked: None }
    }

    /// One that would have come to this.
    pub fn by(limit: Limit, asked: u64) -> Self {
        Self {
            limit,
            asked: Some(asked),
        }
    }
}

/// Where a limit can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is written there.
    Written(String),
    /// It is written nowhere.
    Missing {
        /// What is to be added, up to its value.
        before: String,
        /// The rest, and where it goes.
        after: String,
        /// What holds as long as it is not.
        now: u64,
    },
}

/// Where each limit of a plugin can be changed. Not known for a plugin that no file was read for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice(BTreeMap<Limit, Place>);

impl Advice {
    /// Says where a limit is written, or could be.
    pub fn set(&mut self, limit: Limit, place: Place) {
        self.0.insert(limit, place);
    }

    /// What to do about a limit that was reached: ``raise `limits.cpu` (team.toml:34)``.
    pub fn on(&self, Reached { limit, asked }: Reached) -> String {
        let place = match self.0.get(&limit) {
            Some(Place::Written(place)) => format!(" ({place})"),
            Some(Place::Missing { before, after, now }) => {
                let value = limit.show(enough(*now, asked));
                let value = if limit.unit() == Unit::Count {
                    value
                } else {
                    format!("\"{value}\"")
                };
                format!(" ({before}{value}{after})")
            }
            None => String::new(),
        };
        format!("raise `limits.{}`{place}", limit.key())
    }
}

/// Twice of what was allowed, or as many times as what was asked for needs.
fn enough(now: u64, asked: Option<u64>) -> u64 {
    let times = asked.map_or(2, |asked| asked.div_ceil(now.max(1)).max(2));
    now.saturating_mul(times)
}

#[test]
fn what_is_advised_is_enough_for_what_was_asked() {
    let check = |now, asked, expected| assert_eq!(enough(now, asked), expected);
    check(4 << 20, None, 8 << 20);
    check(4 << 20, Some((4 << 20) + 1), 8 << 20);
    check(4 << 20, Some(9 << 20), 12 << 20);
    check(1024, Some(1025), 2048);
    check(0, Some(5), 0);
    check(2, Some(u64::MAX), u64::MAX);
    let mut advice = Advice::default();
    advice.set(
        Limit::Output,
        Place::Missing {
            before: "add `".into(),
            after: "`, there".into(),
            now: 4 << 20,
        },
    );
    let told = advice.on(Reached::by(Limit::Output, 9 << 20));
    assert_eq!(told, "raise `limits.output` (add `\"12 MiB\"`, there)");
}

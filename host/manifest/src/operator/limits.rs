//! The upper bounds of limits in a policy, and all places of a team where each of them holds.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use strata_base::text::units::format_size;
use strata_core::record::id::RoleId;
use strata_core::record::turn::ToolRef;
use strata_core::team::tools::Tool;
use strata_core::team::{DEFAULT_STATE_BYTES, React};
use strata_services::models::config::{Endpoint, ModelsConfig, table_name};
use strata_services::plugin::{Limit, Limits};
use strata_services::tools::ModelTimeout;

use super::reduction::{PolicyReduction, ReductionOrigin};
use crate::Definition;
use crate::authored::limits::{MAX_RETRIES, read_upper_bounds};
use crate::authored::tools::{DEFAULT_MAX_CALLS, DEFAULT_MAX_TURNS, DEFAULT_TIMEOUT};
use crate::authored::{DEFAULT_PARALLEL, MAX_PARALLEL};
use crate::diagnostic::SourceText;
use crate::schema::kind;
use crate::table::{Located, TomlTable};

/// How many times its default a limit of a submitted team may be if no policy bounds it.
const SUBMITTED_FACTOR: u64 = 4;
/// How much memory the actions of a submitted run may take together if no policy bounds it.
const SUBMITTED_RUN_MEMORY: u64 = 1 << 30;
/// Where the bounds of submitted teams come from, for people.
const SUBMITTED_LOCATION: &str = "the bound for submitted teams without one in a policy";

/// The upper bounds of limits.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitBounds {
    /// Those of the limits of single calls.
    calls: BTreeMap<Limit, Bound>,
    /// Those of other limits.
    team: BTreeMap<TeamLimit, Bound>,
}

/// An upper bound.
#[derive(Clone, Debug)]
struct Bound {
    value: u64,
    /// Where it is set, for people.
    location: String,
}

/// A limit of a role, of a model or of a whole team, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TeamLimit {
    Retries,
    MaxReactLoop,
    MaxTurns,
    MaxCalls,
    MaxSteps,
    MaxParallel,
    RunMemory,
    State,
}

impl TeamLimit {
    const ALL: [Self; 8] = [
        Self::Retries,
        Self::MaxReactLoop,
        Self::MaxTurns,
        Self::MaxCalls,
        Self::MaxSteps,
        Self::MaxParallel,
        Self::RunMemory,
        Self::State,
    ];

    fn key(self) -> &'static str {
        match self {
            Self::Retries => "retries",
            Self::MaxReactLoop => "max_react_loop",
            Self::MaxTurns => "max_turns",
            Self::MaxCalls => "max_calls",
            Self::MaxSteps => "max_steps",
            Self::MaxParallel => "max_parallel",
            Self::RunMemory => "run_memory",
            Self::State => "state",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Retries => "How often an action, a turn or a request to a model is tried again.",
            Self::MaxReactLoop => "How many actions an activation of a role may choose.",
            Self::MaxTurns => "How many replies of its model one activation of a role takes.",
            Self::MaxCalls => "How many tool calls one activation of a role makes.",
            Self::MaxSteps => "How many steps a run takes, over resumes.",
            Self::MaxParallel => "How many actions of a run are executed at once.",
            Self::State => {
                "How much memory the messages, the values of scopes and the results of a run may take together."
            }
            Self::RunMemory => {
                "The memory of all actions of a run that are executed at once: fewer are if the `memory` of each is large."
            }
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::RunMemory | Self::State => kind::size(1),
            _ => kind::integer(self.range()),
        }
    }

    fn range(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::Retries => 0..=MAX_RETRIES,
            Self::MaxReactLoop | Self::MaxTurns | Self::MaxCalls => 1..=u64::from(u32::MAX),
            Self::MaxParallel => 1..=MAX_PARALLEL as u64,
            Self::MaxSteps | Self::RunMemory | Self::State => 1..=u64::MAX,
        }
    }
}

impl LimitBounds {
    /// Reads `[limits]` of a policy.
    pub(super) fn read(table: &TomlTable<'_>, source: &SourceText) -> Self {
        let bound = |at: Located<u64>| Bound {
            location: source.format_location(&at.span),
            value: at.value,
        };
        let calls = read_upper_bounds(table).into_iter();
        let team = TeamLimit::ALL.into_iter().filter_map(|limit| {
            let item = table
                .key(limit.key(), limit.about())
                .value(|| limit.schema())?;
            let value = match limit {
                TeamLimit::RunMemory | TeamLimit::State => item.size()?,
                _ => item.integer(limit.range())?,
            };
            let span = item.key_span.clone();
            Some((limit, bound(Located { value, span })))
        });
        Self {
            team: team.collect(),
            calls: calls.map(|(limit, at)| (limit, bound(at))).collect(),
        }
    }

    /// Returns the bounds of submitted teams, whose authors are not trusted with the machine: those that
    /// none of these policies sets.
    pub(super) fn of_submissions<'a>(policies: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let defaults = Limits::default();
        let calls = Limit::ALL.into_iter().filter_map(|limit| {
            let value = defaults.get(limit)?.saturating_mul(SUBMITTED_FACTOR);
            Some((limit, value))
        });
        let times = |default: u32| u64::from(default) * SUBMITTED_FACTOR;
        let team = [
            (TeamLimit::MaxTurns, times(DEFAULT_MAX_TURNS)),
            (TeamLimit::MaxCalls, times(DEFAULT_MAX_CALLS)),
            (TeamLimit::MaxParallel, times(DEFAULT_PARALLEL as u32)),
            (TeamLimit::RunMemory, SUBMITTED_RUN_MEMORY),
            (TeamLimit::State, DEFAULT_STATE_BYTES),
        ];
        let bound = |value| Bound {
            value,
            location: SUBMITTED_LOCATION.to_owned(),
        };
        let mut bounds = Self {
            calls: calls.map(|(limit, value)| (limit, bound(value))).collect(),
            team: team.map(|(limit, value)| (limit, bound(value))).into(),
        };
        for policy in policies {
            bounds
                .calls
                .retain(|limit, _| !policy.calls.contains_key(limit));
            bounds
                .team
                .retain(|limit, _| !policy.team.contains_key(limit));
        }
        bounds
    }
}

/// A value of a team to which a bound applies.
struct LimitedValue<'a> {
    had: u64,
    default: u64,
    /// What it belongs to: "for `Clerk`"; empty for the team.
    subject: &'a str,
}

impl Bound {
    /// Returns what a fault says about the bound.
    fn advice(&self) -> String {
        format!("its operator allows no more, {}", self.location)
    }

    /// Returns the lower one of a value and this bound, and notes whether it is lowered.
    fn lower(
        &self,
        key: &str,
        format: impl Fn(u64) -> String,
        value: &LimitedValue<'_>,
        reductions: &mut Vec<PolicyReduction>,
    ) -> u64 {
        let LimitedValue {
            had,
            default,
            subject,
        } = *value;
        if had <= self.value {
            return had;
        }
        let comma = if subject.is_empty() { "" } else { ", " };
        let (now, had_text, location) = (format(self.value), format(had), &self.location);
        reductions.push(PolicyReduction {
            slot: None,
            text: format!("`{key}` is {now}, not {had_text}{comma}{subject} ({location})"),
            grant: None,
            model: None,
            origin: ReductionOrigin::of(had == default),
        });
        self.value
    }
}

/// Lowers the limits of the team to these bounds, wherever each of them applies.
pub(super) fn restrict_limits(definition: &mut Definition, bounds: &LimitBounds) {
    for (limit, bound) in &bounds.calls {
        restrict_plugin_limit(definition, *limit, bound);
    }
    if let Some(bound) = bounds.calls.get(&Limit::Result) {
        restrict_role_results(definition, bound);
    }
    if let Some(bound) = bounds.calls.get(&Limit::Timeout) {
        restrict_model_timeouts(definition, bound);
    }
    // In the order of `TeamLimit`: how much memory is needed depends on how many calls are made at
    // once.
    for (limit, bound) in &bounds.team {
        match limit {
            TeamLimit::Retries => restrict_retries(definition, bound),
            TeamLimit::MaxReactLoop | TeamLimit::MaxTurns | TeamLimit::MaxCalls => {
                restrict_loops(definition, *limit, bound);
            }
            TeamLimit::MaxSteps => restrict_steps(definition, bound),
            TeamLimit::MaxParallel => restrict_parallelism(definition, bound),
            TeamLimit::RunMemory => restrict_run_memory(definition, bound),
            TeamLimit::State => restrict_state(definition, bound),
        }
    }
}

/// Lowers a limit of all components.
fn restrict_plugin_limit(definition: &mut Definition, limit: Limit, bound: &Bound) {
    for (slot, plugin) in &mut definition.plugins {
        let had = plugin.limits.get(limit);
        // Zero fuel in a policy is no bound. A team without a fuel limit exceeds any bound.
        let is_bound = bound.value > 0 || limit != Limit::Fuel;
        if !is_bound || had.is_some_and(|had| had <= bound.value) {
            continue;
        }
        let location = definition.locations.get(slot);
        let is_written = location.is_some_and(|location| location.limits.contains(&limit));
        definition.policy_reductions.push(PolicyReduction {
            slot: Some(*slot),
            text: format!(
                "`limits.{}` is {}, not {} ({})",
                limit.key(),
                limit.format_value(bound.value),
                had.map_or("off".to_owned(), |had| limit.format_value(had)),
                bound.location
            ),
            grant: None,
            model: None,
            origin: ReductionOrigin::of(!is_written),
        });
        plugin.limits.set(limit, bound.value);
        plugin.advice.set(limit, bound.advice());
    }
}

/// Lowers how much models are told of the results of roles that they call.
fn restrict_role_results(definition: &mut Definition, bound: &Bound) {
    let is_role = |tool: &Tool| matches!(tool.target.tool, ToolRef::Role(_));
    for (id, settings) in &mut definition.tool_roles {
        let role = definition.team.role(*id);
        let tools = role.tool_loop();
        if tools.is_some_and(|tools| tools.tools.iter().any(is_role)) {
            let value = LimitedValue {
                had: settings.role_result_bytes,
                default: Limits::default().result_bytes,
                subject: &format!("for the roles that `{}` calls", role.name),
            };
            let format = |value| Limit::Result.format_value(value);
            settings.role_result_bytes = bound.lower(
                "limits.result",
                format,
                &value,
                &mut definition.policy_reductions,
            );
        }
    }
}

/// Lowers how long models may take: in a turn, in the choice of an action, and in each request.
fn restrict_model_timeouts(definition: &mut Definition, bound: &Bound) {
    let most = Duration::from_millis(bound.value);
    let format = |value| Limit::Timeout.format_value(value);
    let milliseconds = |time: Duration| time.as_millis() as u64;
    for (id, settings) in &mut definition.tool_roles {
        let had = settings.timeout.duration;
        let value = LimitedValue {
            had: milliseconds(had),
            default: milliseconds(DEFAULT_TIMEOUT),
            subject: &format!("for the model of `{}`", definition.team.role(*id).name),
        };
        bound.lower(
            "limits.timeout",
            format,
            &value,
            &mut definition.policy_reductions,
        );
        settings.timeout.bound(most, || bound.advice());
    }
    definition
        .choice_timeout
        .get_or_insert_with(|| ModelTimeout::new(most))
        .bound(most, || bound.advice());
    for (name, endpoint) in definition
        .llm
        .iter_mut()
        .flat_map(ModelsConfig::endpoints_mut)
    {
        let value = LimitedValue {
            had: milliseconds(endpoint.timeout),
            default: milliseconds(Endpoint::DEFAULT_TIMEOUT),
            subject: &format!("for `[{}]`", table_name(name)),
        };
        bound.lower("timeout", format, &value, &mut definition.policy_reductions);
        endpoint.timeout = endpoint.timeout.min(most);
    }
}

/// Lowers how often actions, turns and requests to models are tried again.
fn restrict_retries(definition: &mut Definition, bound: &Bound) {
    let reductions = &mut definition.policy_reductions;
    let mut lower = |had: &mut u32, default: u32, subject: &str| {
        let value = LimitedValue {
            had: (*had).into(),
            default: default.into(),
            subject,
        };
        *had = bound.lower("retries", |value| value.to_string(), &value, reductions) as u32;
    };
    for role in &mut definition.team.roles {
        for action in &mut role.actions {
            let subject = format!("for `{}.{}`", role.name, action.name);
            lower(&mut action.retry.retries, 0, &subject);
        }
        if let React::Tools(tools) = &mut role.react {
            let subject = format!("for the model of `{}`", role.name);
            lower(&mut tools.retry.retries, 0, &subject);
        }
    }
    for (name, endpoint) in definition
        .llm
        .iter_mut()
        .flat_map(ModelsConfig::endpoints_mut)
    {
        let subject = format!("for `[{}]`", table_name(name));
        lower(&mut endpoint.retries, Endpoint::DEFAULT_RETRIES, &subject);
    }
}

/// Lowers how much one activation of a role does.
fn restrict_loops(definition: &mut Definition, limit: TeamLimit, bound: &Bound) {
    for (index, role) in definition.team.roles.iter_mut().enumerate() {
        let (had, default) = match (limit, &mut role.react) {
            (TeamLimit::MaxReactLoop, React::Choose { max_loop, .. }) => (max_loop, 1),
            (TeamLimit::MaxTurns, React::Tools(tools)) => (&mut tools.max_turns, DEFAULT_MAX_TURNS),
            (TeamLimit::MaxCalls, React::Tools(tools)) => (&mut tools.max_calls, DEFAULT_MAX_CALLS),
            _ => continue,
        };
        let value = LimitedValue {
            had: (*had).into(),
            default: default.into(),
            subject: &format!("for `{}`", role.name),
        };
        let format = |value: u64| value.to_string();
        let before = *had;
        *had = bound.lower(
            limit.key(),
            format,
            &value,
            &mut definition.policy_reductions,
        ) as u32;
        // The other two limits are no reason for a fault.
        if *had < before && limit == TeamLimit::MaxTurns {
            let lowered = &mut definition.team.policy.lowered;
            lowered
                .max_turns
                .insert(RoleId(index as u16), bound.advice());
        }
    }
}

fn restrict_steps(definition: &mut Definition, bound: &Bound) {
    let policy = &mut definition.team.policy;
    let steps = &mut policy.max_steps;
    let value = LimitedValue {
        had: steps.unwrap_or(u64::MAX),
        default: u64::MAX,
        subject: "",
    };
    let format = |value: u64| value.to_string();
    *steps = Some(bound.lower(
        "max_steps",
        format,
        &value,
        &mut definition.policy_reductions,
    ));
    if *steps < Some(value.had) {
        policy.lowered.max_steps = Some(bound.advice());
    }
}

fn restrict_parallelism(definition: &mut Definition, bound: &Bound) {
    let parallel = &mut definition.team.policy.max_parallel;
    let value = LimitedValue {
        had: *parallel as u64,
        default: DEFAULT_PARALLEL as u64,
        subject: "",
    };
    let format = |value: u64| value.to_string();
    let most = bound.lower(
        "max_parallel",
        format,
        &value,
        &mut definition.policy_reductions,
    );
    *parallel = most as usize;
}

fn restrict_state(definition: &mut Definition, bound: &Bound) {
    let value = LimitedValue {
        had: definition.team.policy.state_bytes,
        default: DEFAULT_STATE_BYTES,
        subject: "",
    };
    let policy = &mut definition.team.policy;
    policy.state_bytes = bound.lower(
        "state",
        format_size,
        &value,
        &mut definition.policy_reductions,
    );
    if policy.state_bytes < value.had {
        policy.lowered.state_bytes = Some(bound.advice());
    }
}

/// Lowers how many actions are executed at once, so that their memory is within the bound.
fn restrict_run_memory(definition: &mut Definition, bound: &Bound) {
    restrict_plugin_limit(definition, Limit::Memory, bound);
    let memory = definition
        .plugins
        .values()
        .map(|plugin| plugin.limits.memory_bytes);
    let largest = memory.max().unwrap_or(0).max(1);
    let most = usize::try_from(bound.value / largest)
        .unwrap_or(usize::MAX)
        .max(1);
    let had = definition.team.policy.max_parallel;
    if had <= most {
        return;
    }
    definition.team.policy.max_parallel = most;
    definition.policy_reductions.push(PolicyReduction {
            slot: None,
            text: format!(
                "`max_parallel` is {most}, not {had}, since the actions of a run may take {} together, and one takes up \
                 to {} ({})",
                format_size(bound.value),
                format_size(largest),
                bound.location
            ),
            grant: None,
            model: None,
            origin: ReductionOrigin::of(had == DEFAULT_PARALLEL),
        });
}

//! The team that a file of MetaGPT describes. It is never run, but lets the state be shown without
//! a team file.

use strata_core::record::rules::Thinker;
use strata_core::record::shape::DeliveryMode;
use strata_core::team::{
    Action, DEFAULT_STATE_BYTES, ExternalEnvironment, OnFault, Policy, React, RetryPolicy, Role,
    ScopedBudgets, Team,
};

use super::located_value::LocatedValue;
use super::metagpt::action_names;
use super::{ImportError, parse};

/// The maximum number of roles, and of a role's actions: how many ids there are.
const MAX_IDS: usize = u16::MAX as usize;

/// Returns the team that a file of another program describes. Fails if it holds none.
pub fn described_team(bytes: &[u8]) -> Result<Team, ImportError> {
    let document = parse::parse_saved(bytes)?;
    let whole = LocatedValue::root(&document);
    let env = whole
        .get_object("env")?
        .ok_or(ImportError::NoTeam("`/env` is missing"))?;
    let entries = env
        .get_object("roles")?
        .ok_or(ImportError::NoTeam("`/env/roles` is missing"))?;
    let roles: Vec<Role> = entries
        .fields()?
        .map(|(key, entry)| read_role(key, &entry))
        .collect::<Result<_, _>>()?;
    if roles.len() > MAX_IDS {
        return Err(entries.invalid(format!("has more than {MAX_IDS} roles")));
    }
    Ok(Team {
        name: "saved by MetaGPT".into(),
        desc: env.get_text("desc")?,
        roles,
        groups: Default::default(),
        routes: Vec::new(),
        joins: Vec::new(),
        scopes: Default::default(),
        external: ExternalEnvironment::Absent,
        policy: Policy {
            on_fault: OnFault::Stop,
            max_steps: None,
            max_parallel: 1,
            budget: None,
            scoped_budgets: ScopedBudgets::default(),
            state_bytes: DEFAULT_STATE_BYTES,
            lowered: Default::default(),
        },
    })
}

fn read_role(key: &str, entry: &LocatedValue<'_>) -> Result<Role, ImportError> {
    entry.object()?;
    let name = entry.get_text("name")?;
    let retry = RetryPolicy {
        retries: 0,
        backoff_ms: 0,
    };
    let named = |names: Vec<String>| Action {
        name: names.into_iter().next().unwrap_or_default(),
        retry,
    };
    let actions: Vec<Action> = action_names(entry)?
        .unwrap_or_default()
        .into_iter()
        .map(named)
        .collect();
    if actions.len() > MAX_IDS {
        return Err(entry.invalid(format!("has more than {MAX_IDS} actions")));
    }
    let rc = entry.get_object("rc")?;
    let rc = rc.as_ref();
    let watch = rc
        .map(|rc| rc.get_texts("watch"))
        .transpose()?
        .flatten()
        .unwrap_or_default();
    let max_loop = match rc.and_then(|rc| rc.get("max_react_loop")) {
        Some(count) => count.decode()?,
        None => 0,
    };
    let react = match rc
        .map(|rc| rc.get_text("react_mode"))
        .transpose()?
        .unwrap_or_default()
        .as_str()
    {
        "react" => React::Choose {
            max_loop,
            thinker: Thinker::Component,
        },
        "plan_and_act" => React::PlanAndAct,
        _ => React::ByOrder,
    };
    Ok(Role {
        name: if name.is_empty() { key.into() } else { name },
        profile: entry.get_text("profile")?,
        goal: entry.get_text("goal")?,
        constraints: entry.get_text("constraints")?,
        desc: entry.get_text("desc")?,
        watch: watch
            .iter()
            .map(|label| label.rsplit('.').next().unwrap_or(label).to_owned())
            .collect(),
        addresses: Vec::new(),
        deliver: DeliveryMode::Batch,
        model: None,
        react,
        actions,
        answer_form: Default::default(),
    })
}

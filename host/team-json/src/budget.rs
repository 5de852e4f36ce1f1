//! The budget in the file: what was spent and the limit, for the run and by component.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use strata_core::record::money::Usd;
use strata_core::record::spending::Spending;
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use super::field::Dollars;
use super::saved_names::{component_slots, saved_name};

/// The budget of a run.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BudgetJson<'a> {
    total: Dollars,
    max: Option<Dollars>,
    /// The value of `/investment`, by which a later change of that is noticed.
    investment: Option<Dollars>,
    /// The keys are `ROLE/ACTION`.
    by: BTreeMap<Cow<'a, str>, SpendingJson>,
}

/// What a component has used up.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SpendingJson {
    usd: Dollars,
    tokens: u64,
    calls: u64,
    served: u64,
    saved: Dollars,
    truncated: u64,
    refused: u64,
    lost: Dollars,
}

impl From<Spending> for SpendingJson {
    fn from(spending: Spending) -> Self {
        let Spending {
            usd,
            tokens,
            calls,
            served,
            saved,
            truncated,
            refused,
            lost,
        } = spending;
        Self {
            usd: Dollars(usd),
            tokens,
            calls,
            served,
            saved: Dollars(saved),
            truncated,
            refused,
            lost: Dollars(lost),
        }
    }
}

impl From<SpendingJson> for Spending {
    fn from(spending: SpendingJson) -> Self {
        let SpendingJson {
            usd,
            tokens,
            calls,
            served,
            saved,
            truncated,
            refused,
            lost,
        } = spending;
        Self {
            usd: usd.0,
            tokens,
            calls,
            served,
            saved: saved.0,
            truncated,
            refused,
            lost: lost.0,
        }
    }
}

/// Returns the budget of a run.
pub(super) fn write<'a>(team: &Team, env: &Environment) -> BudgetJson<'a> {
    let mut by = BTreeMap::new();
    for (slot, spending) in &env.ledger {
        by.insert(Cow::Owned(saved_name(team, *slot)), (*spending).into());
    }
    BudgetJson {
        total: Dollars(env.spent),
        max: env.budget.map(Dollars),
        investment: Some(Dollars(env.budget.unwrap_or_default())),
        by,
    }
}

/// Reads the budget of a run. `investment` is MetaGPT's copy of the limit.
pub(super) fn read(
    team: &Team,
    mut budget: BudgetJson<'_>,
    investment: Option<Usd>,
    env: &mut Environment,
) {
    env.spent = budget.total.0;
    env.budget = budget.max.map(|max| max.0);
    // The limit is in the file twice. If somebody has changed MetaGPT's copy, that change counts.
    let written = budget.investment.map(|investment| investment.0);
    if let (Some(meant), Some(written)) = (investment, written)
        && meant != written
    {
        env.budget = Some(meant).filter(|max| max.0 > 0);
    }
    for slot in component_slots(team) {
        if let Some(spending) = budget.by.remove(&*saved_name(team, slot)) {
            env.ledger.insert(slot, spending.into());
        }
    }
}

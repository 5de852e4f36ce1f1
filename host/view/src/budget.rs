//! Exhausted budgets, and the arguments that raise them and the step limit.

use std::path::Path;

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::CapReached;
use strata_core::record::money::Usd;
use strata_core::state::budget::BudgetScope;
use strata_storage::CapScope;

use super::{CommandArgument, SuggestedArguments, SuggestedCommand};
use crate::wording::shell_command;

/// A budget that is exhausted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExhaustedBudget {
    /// The scope if it is a cap above the run: all runs, or those with the name with which this one was
    /// submitted.
    pub cap_scope: Option<CapScope>,
    /// The name of the role whose budget it is; `None` for the budget of the team.
    pub role: Option<String>,
    /// The money that was spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The money that may be spent; `None` if there is no limit.
    #[serde(serialize_with = "super::serialize_optional_usd")]
    pub max_spend: Option<Usd>,
    /// The tokens that were used.
    pub tokens: u64,
    /// The tokens that may be used; `None` if there is no limit.
    pub max_tokens: Option<u64>,
    /// The arguments that raise the budget when the run is resumed.
    pub raise: SuggestedArguments,
}

impl ExhaustedBudget {
    /// Returns the budget that keeps a team from going on. `ceiling` is the highest budget that a
    /// policy permits, with the path of the policy. `team_file` is the team file, if there is one.
    pub fn from_stepper(
        stepper: &Stepper,
        ceiling: Option<&(Usd, String)>,
        team_file: Option<&Path>,
    ) -> Self {
        let (team, env) = (stepper.team(), stepper.env());
        let raise = raise_budget(stepper, ceiling, team_file);
        if let Some(reached) = &env.cap_reached {
            return Self {
                cap_scope: Some(cap_scope(reached)),
                role: None,
                spent: env.spent,
                max_spend: Some(reached.cap),
                tokens: env.spending(|_| true).tokens,
                max_tokens: None,
                raise,
            };
        }
        match stepper.exhausted_budgets().next() {
            Some(BudgetScope::Role(id)) => {
                let used = env.spending(|slot| slot.role == id);
                let limits = team.policy.scoped_budgets.roles.get(&id);
                let limits = limits.copied().unwrap_or_default();
                Self {
                    cap_scope: None,
                    role: Some(team.role(id).name.clone()),
                    spent: used.usd,
                    max_spend: limits.usd,
                    tokens: used.tokens,
                    max_tokens: limits.tokens,
                    raise,
                }
            }
            _ => Self {
                cap_scope: None,
                role: None,
                spent: env.spent,
                max_spend: env.budget,
                tokens: env.spending(|_| true).tokens,
                max_tokens: team.policy.scoped_budgets.tokens,
                raise,
            },
        }
    }
}

/// Returns the arguments that raise the exhausted budget. `ceiling` is the highest budget that a
/// policy permits, with the path of the policy. `team_file` is the team file, if there is one.
pub fn raise_budget(
    stepper: &Stepper,
    ceiling: Option<&(Usd, String)>,
    team_file: Option<&Path>,
) -> SuggestedArguments {
    let (team, env) = (stepper.team(), stepper.env());
    let team_file = |comment: &str| SuggestedArguments {
        arguments: vec![match team_file {
            Some(file) => CommandArgument::TeamFile(file.to_owned()),
            None => CommandArgument::placeholder("TEAM.toml"),
        }],
        comment: Some(comment.into()),
    };
    let investment = |comment: Option<String>| SuggestedArguments {
        arguments: vec![
            CommandArgument::word("--investment"),
            CommandArgument::placeholder("USD"),
        ],
        comment,
    };
    if let Some(reached) = &env.cap_reached {
        let raise = SuggestedCommand::from_subcommand(
            "database",
            [
                CommandArgument::word("cap"),
                CommandArgument::placeholder("URL"),
                CommandArgument::word("--scope"),
                CommandArgument::word(&cap_scope(reached).to_string()),
                CommandArgument::word("--set"),
                CommandArgument::placeholder("USD"),
            ],
        );
        return SuggestedArguments {
            arguments: Vec::new(),
            comment: Some(format!("after `{}`", shell_command(&raise))),
        };
    }
    if let Some(BudgetScope::Role(_)) = stepper.exhausted_budgets().next() {
        return team_file("after giving the role more `investment` or `tokens`");
    }
    let is_money_spent = env.budget.is_some_and(|max| env.spent >= max);
    if !is_money_spent && team.policy.scoped_budgets.tokens.is_some() {
        return team_file("after giving the team more `tokens`");
    }
    let Some(budget) = env.budget else {
        return investment(None);
    };
    // With a budget above the ceiling it would stop again immediately.
    match ceiling.filter(|(most, _)| budget >= *most) {
        Some((most, policy)) => {
            investment(Some(format!("once `{policy}` allows more than {most}")))
        }
        None => investment(Some(format!("more than {}, in all", budget.max(env.spent)))),
    }
}

/// Returns the scope of a cap. What is saved may be somebody else's and not the name of a scope; it is
/// then replaced by `?`, because it is shown and suggested as an argument.
fn cap_scope(reached: &CapReached) -> CapScope {
    CapScope::parse(&reached.scope).unwrap_or_else(|_| CapScope::Named("?".into()))
}

/// Returns the arguments that raise the step limit. Steps before a resume count, too.
pub fn raise_step_limit(stepper: &Stepper) -> SuggestedArguments {
    let more = format!("more than {}, in all", stepper.env().step);
    let comment = match &stepper.team().policy.lowered.max_steps {
        Some(note) => format!("{more}; {note}"),
        None => more,
    };
    SuggestedArguments {
        arguments: vec![
            CommandArgument::word("--max-steps"),
            CommandArgument::placeholder("N"),
        ],
        comment: Some(comment),
    }
}

//! Restricts a team by its operators' policies, and records what they reduced or removed.

use strata_base::advice::Advice;
use strata_core::record::host_call::Grant;
use strata_core::record::id::Slot;
use strata_core::record::money::Usd;

use super::reduction::{PolicyReduction, ReductionOrigin};
use super::{OperatorPolicy, Permission, limits, models, refusal, servers};
use crate::grants;
use crate::{Definition, Diagnostics};

impl Definition {
    /// Restricts a team that somebody submitted by bounds for those limits that none of the operators'
    /// policies bounds.
    pub fn apply_submission_bounds(&mut self, operators: &[OperatorPolicy]) {
        let policies = operators.iter().map(|operator| &operator.limits);
        limits::restrict_limits(self, &limits::LimitBounds::of_submissions(policies));
    }

    /// Restricts the team by its operators' policies. All of them apply.
    pub fn apply_policies(&mut self, operators: &[OperatorPolicy]) -> Result<(), Diagnostics> {
        for operator in operators {
            if operator.allowed.external == Permission::Forbidden && self.external.is_some() {
                return Err(refusal(
                    operator,
                    "the team has an `[env.external]`, which its operator does not allow".into(),
                ));
            }
            if !operator.allows_builds() {
                self.reject_source_directories(operator)?;
            }
            let had_models = self.llm.is_some();
            models::restrict_models(self, operator);
            if operator.budget.needs_prices {
                models::reject_unpriced_models(self, operator)?;
            }
            servers::restrict_servers(self, operator)?;
            limits::restrict_limits(self, &operator.limits);
            self.restrict_grants(operator);
            if had_models && self.llm.is_none() {
                let plugins = self.plugins.values_mut();
                plugins.for_each(|plugin| plugin.grants.llm = None);
            }
            self.restrict_budget(operator);
        }
        Ok(())
    }

    /// Returns what the policies reduced or removed of what is written in the team file, one line
    /// each.
    pub fn describe_reductions(&self) -> Vec<String> {
        let line = |cut: &PolicyReduction| match cut.slot {
            Some(slot) => format!("policy: `{}`: {}", self.team.slot_name(slot), cut.text),
            None => format!("policy: {}", cut.text),
        };
        self.policy_reductions
            .iter()
            .filter(|cut| cut.origin == ReductionOrigin::Written)
            .map(line)
            .collect()
    }

    /// Returns the grants of an action that the policies reduced or removed, with a description of
    /// each.
    pub fn withheld_grants(&self, slot: Slot) -> Vec<(Grant, String)> {
        let of_slot = self
            .policy_reductions
            .iter()
            .filter(|cut| cut.slot == Some(slot));
        of_slot
            .filter_map(|cut| Some((cut.grant?, cut.text.clone())))
            .collect()
    }

    /// Returns why a language model of the team is not there, if a policy removed it.
    pub(crate) fn removed_model(&self, name: &str) -> Option<&str> {
        let mut reductions = self.policy_reductions.iter();
        let removed = reductions.find(|cut| cut.model.as_deref() == Some(name))?;
        Some(&removed.text)
    }

    /// Returns the lower one of a budget and the operators' bound.
    pub fn bounded_budget(&self, budget: Option<Usd>) -> Option<Usd> {
        budget
            .into_iter()
            .chain(self.budget_ceiling.as_ref().map(|(most, _)| *most))
            .min()
    }

    /// Returns the largest budget that the policies allow, and the name of the policy that sets it.
    pub fn budget_ceiling(&self) -> Option<&(Usd, String)> {
        self.budget_ceiling.as_ref()
    }

    /// Fails if a component is a source directory, because building it would run its author's code
    /// outside of every sandbox.
    fn reject_source_directories(&self, operator: &OperatorPolicy) -> Result<(), Diagnostics> {
        let sources = self
            .plugins
            .iter()
            .filter(|(_, plugin)| strata_build::is_built(&plugin.component));
        let refused = sources.map(|(slot, plugin)| {
            let dir = plugin.component.display();
            let message = format!(
                "`{dir}` is a directory of source, and its operator does not allow to build any"
            );
            let policy = operator.source.name.clone();
            self.component_refusal(*slot, message, Advice::BuildOrAllow { policy })
        });
        refused.reduce(Diagnostics::and).map_or(Ok(()), Err)
    }

    fn restrict_grants(&mut self, operator: &OperatorPolicy) {
        let Some(bounds) = &operator.allowed.bounds else {
            return;
        };
        let bounds = bounds.with_workspace(self.workspace.as_deref());
        for (slot, plugin) in &mut self.plugins {
            let left = grants::intersect(&plugin.grants, &bounds);
            for grant in grants::reduced(&plugin.grants, &left) {
                let text = format!(
                    "`allow.{}` is not all allowed ({})",
                    grant.key(),
                    operator.source.name
                );
                self.policy_reductions.push(PolicyReduction {
                    slot: Some(*slot),
                    text,
                    grant: Some(grant),
                    model: None,
                    origin: ReductionOrigin::Written,
                });
            }
            plugin.grants = left;
        }
    }

    fn restrict_budget(&mut self, operator: &OperatorPolicy) {
        let policy = &mut self.team.policy;
        if let Some(most) = operator.budget.limits.usd {
            if policy.budget.is_some_and(|budget| budget > most) {
                let (had, name) = (
                    policy.budget.unwrap_or(most).to_dollars(),
                    &operator.source.name,
                );
                let text = format!(
                    "`investment` is {} USD, not {had} ({name})",
                    most.to_dollars()
                );
                self.policy_reductions.push(PolicyReduction {
                    slot: None,
                    text,
                    grant: None,
                    model: None,
                    origin: ReductionOrigin::Written,
                });
            }
            self.budget_ceiling = self
                .budget_ceiling
                .take()
                .into_iter()
                .chain([(most, operator.source.name.clone())])
                .min();
            policy.budget = policy.budget.into_iter().chain([most]).min();
        }
        if let Some(most) = operator.budget.limits.tokens {
            if let Some(had) = policy.scoped_budgets.tokens.filter(|had| *had > most) {
                let text = format!("`tokens` is {most}, not {had} ({})", operator.source.name);
                self.policy_reductions.push(PolicyReduction {
                    slot: None,
                    text,
                    grant: None,
                    model: None,
                    origin: ReductionOrigin::Written,
                });
            }
            policy.scoped_budgets.tokens =
                policy.scoped_budgets.tokens.into_iter().chain([most]).min();
        }
    }
}

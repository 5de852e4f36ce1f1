//! Restricts a team by its operators' policies, and records what they reduced or removed.

use std::ops::Range;

use strata_core::record::host_call::Grant;
use strata_core::record::id::Slot;
use strata_core::record::money::Usd;
use strata_core::record::turn::ToolRef;
use strata_core::team::tools::Tool;

use super::{OperatorPolicy, Permission, refusal};
use crate::build;
use crate::manifest::grants::{self, GrantBounds};
use crate::manifest::{Definition, Diagnostic, Diagnostics};
use crate::plugin::http::{GrantedParts, HttpRefusal, check_grants};
use crate::plugin::{Limit, Limits};
use crate::services::models::config::{Endpoint, ModelConfig, ProviderConfig, table_name};

/// Something that a policy reduced or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manifest) struct PolicyReduction {
    /// The component that it concerns; `None` for the team as a whole.
    pub(in crate::manifest) slot: Option<Slot>,
    /// What it was, what is left, and the policy, in a form for people.
    pub(in crate::manifest) text: String,
    /// The kind of grant, if it is one.
    pub(in crate::manifest) grant: Option<Grant>,
    /// The name of the language model that was removed, if it is one.
    pub(in crate::manifest) model: Option<String>,
    /// Whether the team file contains it, or it was a default.
    pub(in crate::manifest) origin: ReductionOrigin,
}

/// Where something that a policy reduced came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manifest) enum ReductionOrigin {
    /// It is written in the team file.
    Written,
    /// It is the default of an action.
    Default,
}

impl Definition {
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
            self.restrict_models(operator);
            if operator.budget.needs_prices {
                self.reject_unpriced_models(operator)?;
            }
            self.restrict_plugins(operator);
            self.restrict_role_results(operator);
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
    pub(in crate::manifest) fn removed_model(&self, name: &str) -> Option<&str> {
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
            .filter(|(_, plugin)| build::is_built(&plugin.component));
        let refused = sources.map(|(slot, plugin)| {
            let dir = plugin.component.display();
            let message = format!("`{dir}` is a directory of source, and its operator does not allow to build any");
            let name = &operator.source.name;
            let hint = format!(
                "name a component that `strata-host build` made of it, or set `build = true` in `[allow]` of `{name}`"
            );
            self.component_refusal(*slot, message, hint)
        });
        refused.reduce(Diagnostics::and).map_or(Ok(()), Err)
    }

    /// Fails if a hosted model has no price.
    fn reject_unpriced_models(&self, operator: &OperatorPolicy) -> Result<(), Diagnostics> {
        let refused = self.unpriced_models().map(|model| {
            let (table, name) = (table_name(model), &operator.source.name);
            let message =
                format!("the model of `[{table}]` has no `price`, and the team's operator demands one");
            let hint = format!(
                "add `price = {{ input = …, output = … }}`, in USD per million tokens; see `[budget]` of `{name}`"
            );
            Diagnostics::from(Diagnostic::new(message).hint(hint))
        });
        refused.reduce(Diagnostics::and).map_or(Ok(()), Err)
    }

    fn restrict_plugins(&mut self, operator: &OperatorPolicy) {
        let bounds = operator.allowed.bounds.as_ref();
        let bounds = bounds.map(|bounds| bounds.with_workspace(self.workspace.as_deref()));
        for (slot, plugin) in &mut self.plugins {
            let location = self.locations.get(slot);
            let mut note = |text, grant, asked| {
                self.policy_reductions.push(PolicyReduction {
                    slot: Some(*slot),
                    text,
                    grant,
                    model: None,
                    origin: asked,
                })
            };
            for (limit, most) in &operator.limits {
                let had = plugin.limits.get(*limit);
                // Zero fuel in a policy is no bound. A team without a fuel limit exceeds any bound.
                let bound = most.value > 0 || *limit != Limit::Fuel;
                if !bound || had.is_some_and(|had| had <= most.value) {
                    continue;
                }
                let at = operator.format_location(&most.span);
                let had = had.map_or("off".to_owned(), |had| limit.format_value(had));
                let text = format!(
                    "`limits.{}` is {}, not {had} ({at})",
                    limit.key(),
                    limit.format_value(most.value)
                );
                let written = location.is_some_and(|location| location.limits.contains(limit));
                note(
                    text,
                    None,
                    if written {
                        ReductionOrigin::Written
                    } else {
                        ReductionOrigin::Default
                    },
                );
                plugin.limits.set(*limit, most.value);
                plugin
                    .advice
                    .set(*limit, format!("its operator allows no more, {at}"));
            }
            let Some(bounds) = &bounds else {
                continue;
            };
            let left = grants::intersect(&plugin.grants, bounds);
            for grant in grants::reduced(&plugin.grants, &left) {
                let text = format!(
                    "`allow.{}` is not all allowed ({})",
                    grant.key(),
                    operator.source.name
                );
                note(text, Some(grant), ReductionOrigin::Written);
            }
            plugin.grants = left;
        }
    }

    /// Lowers how much models are told of the results of roles that they call.
    fn restrict_role_results(&mut self, operator: &OperatorPolicy) {
        let Some(most) = operator.limits.get(&Limit::Result) else {
            return;
        };
        let is_role = |tool: &Tool| matches!(tool.target.tool, ToolRef::Role(_));
        for (id, settings) in &mut self.tool_roles {
            let role = self.team.role(*id);
            let calls_roles = role
                .tool_loop()
                .is_some_and(|tools| tools.tools.iter().any(is_role));
            let had = settings.role_result_bytes;
            if !calls_roles || had <= most.value {
                continue;
            }
            settings.role_result_bytes = most.value;
            let is_default = had == Limits::default().result_bytes;
            self.policy_reductions.push(PolicyReduction {
                slot: None,
                text: format!(
                    "`limits.result` is {}, not {}, for the roles that `{}` calls ({})",
                    Limit::Result.format_value(most.value),
                    Limit::Result.format_value(had),
                    role.name,
                    operator.format_location(&most.span)
                ),
                grant: None,
                model: None,
                origin: match is_default {
                    true => ReductionOrigin::Default,
                    false => ReductionOrigin::Written,
                },
            });
        }
    }

    /// Removes each language model if the policy does not allow the model, its endpoint, or the key
    /// that is sent there.
    fn restrict_models(&mut self, operator: &OperatorPolicy) {
        let (Some(bounds), Some(llm)) = (&operator.allowed.bounds, &mut self.llm) else {
            return;
        };
        let name = &operator.source.name;
        let refusals = llm
            .models
            .iter()
            .filter_map(|(model, config)| Some((model.clone(), model_refusal(config, bounds)?)));
        let refusals: Vec<(String, String)> = refusals.collect();
        for (model, why) in refusals {
            llm.remove(&model);
            let table = table_name(&model);
            self.policy_reductions.push(PolicyReduction {
                slot: None,
                text: format!("`[{table}]` is not there: {why} is not allowed ({name})"),
                grant: None,
                model: Some(model),
                origin: ReductionOrigin::Written,
            });
        }
        if llm.models.is_empty() {
            self.llm = None;
        }
        self.link_models();
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

impl OperatorPolicy {
    fn format_location(&self, span: &Range<usize>) -> String {
        self.source.format_location(span)
    }
}

/// Returns what about a language model the policy does not allow, if anything.
fn model_refusal(config: &ModelConfig, bounds: &GrantBounds) -> Option<String> {
    let Some(bound) = &bounds.llm else {
        return Some("a language model".into());
    };
    let model = config.model.as_ref();
    if let Some(model) = model.filter(|model| !bound.allows(model)) {
        return Some(format!("the model `{model}`"));
    }
    let ProviderConfig::Endpoint(model_endpoint) = &config.provider else {
        return None;
    };
    let Endpoint {
        base_url,
        api_key_env,
        ..
    } = model_endpoint;
    let urls = model_endpoint.urls(model.map_or("", String::as_str)).ok()?;
    let parts = GrantedParts {
        secrets: api_key_env.as_slice(),
        headers: &[],
    };
    let mut checks = urls
        .iter()
        .map(|url| check_grants(&bound.endpoints, "POST", url, parts));
    match checks.find_map(Result::err)? {
        HttpRefusal::Secret { name, host } => Some(format!("the key `{name}` for `{host}`")),
        _ => Some(format!("the endpoint `{base_url}`")),
    }
}

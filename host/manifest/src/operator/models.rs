//! Restricts the language models of a team by a policy: which of them are there, what is sent to them
//! besides requests, and what they cost.

use strata_services::models::config::{
    Endpoint, EndpointBound, ModelConfig, ModelSettings, Price, ProviderConfig, table_name,
};
use strata_services::plugin::http::{GrantedParts, HttpRefusal, check_grants};

use super::OperatorPolicy;
use super::reduction::{PolicyReduction, ReductionOrigin};
use crate::grants::{GrantBounds, LlmBound};
use crate::{Definition, Diagnostic, Diagnostics};

/// Options that change only how a model writes its reply: sampling, how much it reasons, and where it
/// stops. Others may select another model or another server, add tools, store what is sent, or ask for
/// several replies, and every endpoint has some of its own, so only these are known to be harmless.
const HARMLESS_OPTIONS: [&str; 27] = [
    "enable_thinking",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "repeat_penalty",
    "repetition_penalty",
    "seed",
    "stop",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_a",
    "top_k",
    "top_logprobs",
    "top_p",
    "typical_p",
    "verbosity",
];

/// Removes each language model if the policy does not allow the model, its endpoint, or the key
/// that is sent there. Of the others, removes options that are not allowed, and replaces their
/// prices by those of the policy.
pub(super) fn restrict_models(definition: &mut Definition, operator: &OperatorPolicy) {
    let (Some(bounds), Some(llm)) = (&operator.allowed.bounds, &mut definition.llm) else {
        return;
    };
    let policy = &operator.source.name;
    let refusals = llm
        .models
        .iter()
        .filter_map(|(model, config)| Some((model.clone(), model_refusal(config, bounds)?)));
    let refusals: Vec<(String, String)> = refusals.collect();
    for (model, why) in refusals {
        llm.remove(&model);
        let table = table_name(&model);
        definition.policy_reductions.push(PolicyReduction {
            slot: None,
            text: format!("`[{table}]` is not there: {why} is not allowed ({policy})"),
            grant: None,
            model: Some(model),
            origin: ReductionOrigin::Written,
        });
    }
    for (name, model) in &mut llm.models {
        let Some(bound) = &bounds.llm else {
            continue;
        };
        for removed in remove_options(&mut model.settings, bound) {
            let table = table_name(name);
            definition.policy_reductions.push(PolicyReduction {
                slot: None,
                text: format!("{removed} of `[{table}]` is not allowed ({policy})"),
                grant: None,
                model: None,
                origin: ReductionOrigin::Written,
            });
        }
        if let Some(price) = price_in_policy(model, bound) {
            model.price = Some(price);
        }
    }
    // Where a request goes is known only when it is made: vectors have addresses of their own, and
    // requests can name other ids.
    llm.bounds.push(EndpointBound {
        policy: policy.clone(),
        endpoints: bounds
            .llm
            .as_ref()
            .map_or_else(Vec::new, |bound| bound.endpoints().to_vec()),
    });
    if llm.models.is_empty() {
        definition.llm = None;
    }
    definition.link_models();
}

/// Fails if a model has no price that counts: in a policy that says what may be granted, the team
/// is not trusted to say what its models cost.
pub(super) fn reject_unpriced_models(
    definition: &Definition,
    operator: &OperatorPolicy,
) -> Result<(), Diagnostics> {
    let policy = &operator.source.name;
    let refused: Vec<Diagnostic> = match &operator.allowed.bounds {
        None => {
            let refuse = |model| {
                let table = table_name(model);
                let message = format!(
                    "the model of `[{table}]` has no `price`, and the team's operator demands one"
                );
                Diagnostic::new(message).hint(format!(
                        "add `price = {{ input = …, output = … }}`, in USD per million tokens; see `[budget]` of \
                         `{policy}`"
                    ))
            };
            definition.unpriced_models().map(refuse).collect()
        }
        Some(bounds) => {
            let models = definition.llm.iter().flat_map(|llm| &llm.models);
            let is_unpriced = |model: &ModelConfig| {
                matches!(model.provider, ProviderConfig::Endpoint(_))
                    && bounds
                        .llm
                        .as_ref()
                        .is_none_or(|bound| price_in_policy(model, bound).is_none())
            };
            let unpriced = models.filter(|(_, model)| is_unpriced(model));
            let refuse = |(name, _): (&String, _)| {
                let table = table_name(name);
                let message = format!(
                    "the endpoint of `[{table}]` has no `price` in the policy `{policy}`, which demands one"
                );
                Diagnostic::new(message).hint(
                        "the operator adds `price = { input = …, output = … }`, in USD per million tokens, to the \
                         endpoint in `allow.llm.endpoints`; what the team file says does not count there",
                    )
            };
            unpriced.map(refuse).collect()
        }
    };
    let refused = refused.into_iter().map(Diagnostics::from);
    refused.reduce(Diagnostics::and).map_or(Ok(()), Err)
}

/// Removes the options that a policy does not allow, also those that take something out of requests.
/// Returns what was removed, for people.
fn remove_options(settings: &mut ModelSettings, bound: &LlmBound) -> Vec<String> {
    let mut removed = Vec::new();
    let mut check = |key: &str, name: &str| {
        let is_allowed = HARMLESS_OPTIONS.contains(&name) || bound.allows_option(name);
        if !is_allowed {
            removed.push(format!("`{name}` in `{key}`"));
        }
        is_allowed
    };
    settings.options.retain(|name, _| check("options", name));
    settings.without.retain(|name| check("without", name));
    removed
}

/// Returns the price that a policy sets for a model.
fn price_in_policy(config: &ModelConfig, bound: &LlmBound) -> Option<Price> {
    let ProviderConfig::Endpoint(endpoint) = &config.provider else {
        return None;
    };
    let model = config.model.as_deref().unwrap_or_default();
    bound.price(&endpoint.urls(model).ok()?)
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
        .map(|url| check_grants(bound.endpoints(), "POST", url, parts));
    match checks.find_map(Result::err)? {
        HttpRefusal::Secret { name, host } => Some(format!("the key `{name}` for `{host}`")),
        _ => Some(format!("the endpoint `{base_url}`")),
    }
}

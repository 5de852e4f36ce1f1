//! `allow.llm`: the language models that a component may ask. An operator's policy also bounds the
//! endpoints of the models.

use reqwest::Url;
use strata_core::record::host_call::Grant;
use strata_services::models::config::Price;
use strata_services::plugin::http::{GrantedParts, HttpGrant, check_grants};
use strata_services::plugin::{Grants, LlmGrant, pattern};

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter, http};
use crate::names::check_legible;
use crate::schema::kind;
use crate::table::TomlTable;

/// `allow.llm`.
pub(super) struct LlmKind;

impl GrantKind for LlmKind {
    fn grant(&self) -> Grant {
        Grant::Llm
    }

    fn example(&self) -> &'static str {
        "llm = { models = [\"*\"] }"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        authored.grants.llm = read_grant(allow);
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.llm = read_bound(allow);
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.llm = intersect(had.llm.as_ref(), bounds.llm.as_ref());
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        is_reduced(had.llm.as_ref(), left.llm.as_ref())
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        grants.llm.iter().map(line).collect()
    }

    /// Asking models is the team's use.
    fn outward_uses(&self, _: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// The language models that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LlmBound {
    models: LlmGrant,
    /// The endpoints of models, with the keys that may be sent there.
    endpoints: Vec<HttpGrant>,
    /// Those whose price is known, in the order of the policy.
    prices: Vec<(HttpGrant, Price)>,
    /// Options that may be sent besides those that every team may set.
    options: Vec<String>,
}

impl LlmBound {
    /// Returns whether a model may be used.
    pub(crate) fn allows(&self, model: &str) -> bool {
        pattern::matches_any(&self.models.models, model)
    }

    /// Returns the endpoints of models, with the keys that may be sent there.
    pub(crate) fn endpoints(&self) -> &[HttpGrant] {
        &self.endpoints
    }

    /// Returns whether an option may be sent to models, or taken out of what is sent to them.
    pub(crate) fn allows_option(&self, name: &str) -> bool {
        pattern::matches_any(&self.options, name)
    }

    /// Returns the price of the first endpoint with a price to which all these addresses belong.
    pub(crate) fn price(&self, urls: &[Url]) -> Option<Price> {
        let has = |endpoint: &HttpGrant, url: &Url| {
            let parts = GrantedParts::default();
            check_grants(std::slice::from_ref(endpoint), "POST", url, parts).is_ok()
        };
        let mut prices = self.prices.iter();
        let found = prices.find(|(endpoint, _)| urls.iter().all(|url| has(endpoint, url)));
        found.map(|(_, price)| *price)
    }
}

fn read_grant(allow: &TomlTable<'_>) -> Option<LlmGrant> {
    allow
        .key(Grant::Llm.key(), "Language models.")
        .table("`llm`", |llm| read_models(llm, GRANTED_MODELS))
        .flatten()
}

fn read_bound(allow: &TomlTable<'_>) -> Option<LlmBound> {
    let read = |llm: &TomlTable<'_>| {
        let allowed = http::read_endpoints(llm);
        let options = llm
            .key(
                "options",
                "Names of `options` that teams may set for models, and remove with `without`, besides those for \
                 sampling and reasoning; `*` stands for any run of characters.",
            )
            .unique_texts();
        let prices = allowed
            .iter()
            .filter_map(|endpoint| Some((endpoint.grant.clone(), endpoint.price?)));
        Some(LlmBound {
            models: read_models(llm, ALLOWED_MODELS)?,
            prices: prices.collect(),
            endpoints: allowed.into_iter().map(|endpoint| endpoint.grant).collect(),
            options: options.into_iter().map(|name| name.value).collect(),
        })
    };
    allow
        .key(Grant::Llm.key(), "Language models, and where they are.")
        .table("`llm`", read)
        .flatten()
}

const GRANTED_MODELS: &str = "Models that may be asked: names of the team's models, `default` for that of `[llm]`, or \
     ids of the provider of `[llm]`; `*` stands for any run of characters. A request that names none asks the model of \
     its role or of `[llm]`, which has to be among them.";

const ALLOWED_MODELS: &str = "The providers' own ids of models that teams may ask, fallbacks included, whatever names \
     they give them; `*` stands for any run of characters.";

fn read_models(table: &TomlTable<'_>, about: &'static str) -> Option<LlmGrant> {
    let calls = table
        .key("calls", "How many calls one attempt may make.")
        .integer(1..=u64::from(u32::MAX));
    let item = table
        .key("models", about)
        .required()
        .value(kind::non_empty_texts)?;
    let models = item.unique_strings();
    for model in &models {
        check_legible(model, table.problems);
    }
    if item.is_empty_list() {
        item.reject("`models` grants no model", "`[\"*\"]` grants all");
    }
    Some(LlmGrant {
        models: models.into_iter().map(|model| model.value).collect(),
        calls: calls.map(|calls| calls as u32),
        ..LlmGrant::default()
    })
}

/// Returns the part of a grant that an operator allows. The names in it remain: which of the team's
/// models the operator allows is decided by their ids, as are ids that requests name.
fn intersect(grant: Option<&LlmGrant>, bound: Option<&LlmBound>) -> Option<LlmGrant> {
    let (grant, bound) = (grant?, &bound?.models);
    let mut left = grant.clone();
    left.ids.push(bound.models.clone());
    left.calls = grant.calls.into_iter().chain(bound.calls).min();
    // Patterns without anything in common with the bound are of no use.
    let is_useful = |model: &String| {
        let is_name = grant.names.iter().any(|name| pattern::matches(model, name));
        is_name
            || bound
                .models
                .iter()
                .any(|allowed| pattern::intersect(model, allowed).is_some())
    };
    left.models.retain(is_useful);
    (!left.models.is_empty()).then_some(left)
}

/// Returns whether less is granted than before: fewer calls, or not all ids that match the patterns.
fn is_reduced(had: Option<&LlmGrant>, left: Option<&LlmGrant>) -> bool {
    let (Some(had), Some(left)) = (had, left) else {
        return had.is_some();
    };
    let added = &left.ids[had.ids.len()..];
    let is_covered = |model: &String| {
        had.names.contains(model)
            || added
                .iter()
                .all(|patterns| pattern::matches_any(patterns, model))
    };
    had.calls != left.calls || !had.models.iter().all(is_covered)
}

fn line(grant: &LlmGrant) -> GrantLine {
    let calls = match grant.calls {
        Some(1) => ", at most 1 call".to_owned(),
        Some(calls) => format!(", at most {calls} calls"),
        None => String::new(),
    };
    let ids: Vec<String> = grant.ids.iter().map(|ids| ids.join(", ")).collect();
    let ids = match ids.as_slice() {
        [] => String::new(),
        ids => format!(", with ids {}", ids.join(" and ")),
    };
    GrantLine {
        verb: "ask",
        object: format!("models {}{ids}{calls}", grant.models.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(names: &[&str], models: &[&str]) -> LlmGrant {
        LlmGrant {
            models: models.iter().map(ToString::to_string).collect(),
            names: names.iter().map(ToString::to_string).collect(),
            ..LlmGrant::default()
        }
    }

    fn bound(models: &[&str], calls: Option<u32>) -> LlmBound {
        LlmBound {
            models: LlmGrant {
                calls,
                ..grant(&[], models)
            },
            endpoints: Vec::new(),
            prices: Vec::new(),
            options: Vec::new(),
        }
    }

    #[test]
    fn an_id_is_granted_if_the_team_and_its_operator_name_it() {
        let had = grant(&[], &["*"]);
        let left = intersect(Some(&had), Some(&bound(&["small-*", "m"], Some(3)))).unwrap();
        assert!(is_reduced(Some(&had), Some(&left)));
        assert_eq!(left.calls, Some(3));
        let check = |named, expected| assert_eq!(left.allows(named), expected, "{named:?}");
        check(Some("small-1"), true);
        check(Some("m"), true);
        check(Some("large"), false);
        check(None, true);
        let twice = intersect(Some(&left), Some(&bound(&["small-1"], None))).unwrap();
        assert!(twice.allows(Some("small-1")) && !twice.allows(Some("small-2")));
        let large = grant(&[], &["large"]);
        assert_eq!(
            intersect(Some(&large), Some(&bound(&["small-*"], None))),
            None
        );
        assert_eq!(intersect(Some(&large), None), None);
    }

    #[test]
    fn the_name_of_a_model_is_not_compared_with_ids() {
        let had = grant(&["cheap"], &["cheap", "c*"]);
        let left = intersect(Some(&had), Some(&bound(&["small-*"], None))).unwrap();
        assert_eq!(left.models, had.models);
        assert!(left.allows(Some("cheap")));
        assert!(!left.allows(Some("costly")), "an id");
        let only = grant(&["cheap"], &["cheap"]);
        let left = intersect(Some(&only), Some(&bound(&["small-*"], None))).unwrap();
        assert!(!is_reduced(Some(&only), Some(&left)));
    }
}

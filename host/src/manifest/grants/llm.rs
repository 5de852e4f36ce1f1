//! `allow.llm`: the language models that a component may ask. An operator's policy also bounds the
//! endpoints of the models.

use super::{GrantLine, http};
use crate::manifest::names::check_legible;
use crate::manifest::schema::kind;
use crate::manifest::table::TomlTable;
use crate::plugin::http::HttpGrant;
use crate::plugin::{LlmGrant, pattern};

/// The language models that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manifest) struct LlmBound {
    models: LlmGrant,
    /// The endpoints of models, with the keys that may be sent there.
    pub(in crate::manifest) endpoints: Vec<HttpGrant>,
}

impl LlmBound {
    /// Returns whether a model may be used.
    pub(in crate::manifest) fn allows(&self, model: &str) -> bool {
        self.models.allows(model)
    }
}

pub(super) fn read_grant(allow: &TomlTable<'_>) -> Option<LlmGrant> {
    allow
        .key("llm", "Language models.")
        .table("`llm`", read_models)
        .flatten()
}

pub(super) fn read_bound(allow: &TomlTable<'_>) -> Option<LlmBound> {
    let read = |llm: &TomlTable<'_>| {
        let endpoints = http::read_endpoints(llm);
        Some(LlmBound {
            models: read_models(llm)?,
            endpoints,
        })
    };
    allow
        .key("llm", "Language models, and where they are.")
        .table("`llm`", read)
        .flatten()
}

fn read_models(table: &TomlTable<'_>) -> Option<LlmGrant> {
    let calls = table
        .key("calls", "How many calls one attempt may make.")
        .integer(1..=u64::from(u32::MAX));
    let item = table
        .key(
            "models",
            "Models that may be asked; `*` stands for any run of characters. A request that names none asks the \
             model of `[llm]`, which has to be among them.",
        )
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
        default: None,
        calls: calls.map(|calls| calls as u32),
    })
}

pub(super) fn intersect(grant: Option<&LlmGrant>, bound: Option<&LlmBound>) -> Option<LlmGrant> {
    let (grant, bound) = (grant?, &bound?.models);
    let pairs = grant
        .models
        .iter()
        .flat_map(|model| bound.models.iter().map(move |allowed| (model, allowed)));
    let mut models: Vec<String> = pairs
        .filter_map(|(model, allowed)| pattern::intersect(model, allowed))
        .map(str::to_owned)
        .collect();
    models.dedup();
    let calls = grant.calls.into_iter().chain(bound.calls).min();
    (!models.is_empty()).then_some(LlmGrant {
        models,
        default: grant.default.clone(),
        calls,
    })
}

pub(super) fn line(grant: &LlmGrant) -> GrantLine {
    let calls = match grant.calls {
        Some(1) => ", at most 1 call".to_owned(),
        Some(calls) => format!(", at most {calls} calls"),
        None => String::new(),
    };
    GrantLine {
        verb: "ask",
        object: format!("models {}{calls}", grant.models.join(", ")),
    }
}

#[test]
fn the_models_are_what_both_name() {
    let models = |names: &[&str], calls| LlmGrant {
        models: names.iter().map(ToString::to_string).collect(),
        default: None,
        calls,
    };
    let check = |grant, bound, expected| {
        let bound = LlmBound {
            models: bound,
            endpoints: Vec::new(),
        };
        assert_eq!(intersect(Some(&grant), Some(&bound)), expected);
    };
    check(
        models(&["*"], None),
        models(&["small-*", "m"], Some(3)),
        Some(models(&["small-*", "m"], Some(3))),
    );
    check(models(&["large"], None), models(&["small-*"], None), None);
}

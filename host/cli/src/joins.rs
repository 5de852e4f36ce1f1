//! Renders the state of joins: which messages each holds and which it waits for.

use strata_host::view::JoinView;

/// Describes on one line what a join holds and what it waits for.
pub(super) fn describe_join(join: &JoinView) -> String {
    if join.missing.is_empty() {
        return describe_held(join);
    }
    format!(
        "{}; waits for {}",
        describe_held(join),
        describe_missing(join)
    )
}

/// Describes what a join holds.
pub(super) fn describe_held(join: &JoinView) -> String {
    if join.is_empty() {
        return "nothing".into();
    }
    let mut held = Vec::new();
    for source in join.sources.iter().filter(|source| source.held > 0) {
        held.push(format!("{} from `{}`", source.held, source.role));
    }
    held.join(", ")
}

/// Returns the names of the sources that a join waits for.
pub(super) fn describe_missing(join: &JoinView) -> String {
    let names: Vec<String> = join
        .missing
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    names.join(" and ")
}

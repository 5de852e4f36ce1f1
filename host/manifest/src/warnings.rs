//! Warnings about a team: what a team file may contain but its author hardly means. None of it is
//! an error.

use std::collections::BTreeSet;
use std::path::Path;

use strata_base::text::display_path::display_path;
use strata_base::text::suggest::closest;
use strata_core::record::id::{RoleId, Slot};
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::shape::JoinMode;
use strata_core::record::turn::ToolRef;
use strata_core::team::{Join, Role, Team};
use strata_services::models::config::table_name;
use strata_services::plugin::Access;

use super::Definition;

/// The size of a WebAssembly page, the smallest memory that is not empty, in bytes.
const WASM_PAGE_BYTES: u64 = 64 << 10;

/// The common HTTP methods, and those of some servers with similar names.
const KNOWN_METHODS: [&str; 12] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "LIST",
    "REPORT", "SEARCH",
];

/// Returns the warnings about the team, one line each.
pub fn warnings(definition: &Definition) -> Vec<String> {
    let team = &definition.team;
    let doubts = team.joins.iter().flat_map(|join| {
        let unfed = join
            .from
            .iter()
            .filter(|source| !can_reach(team, join, **source));
        unfed.map(|source| unfed_join(join, &team.role(*source).name))
    });
    let doubts = doubts
        .chain(mistyped_labels(team))
        .chain(handoffs_to_itself(team))
        .chain(missing_external_program(definition))
        .chain(unpriced_models(definition))
        .chain(definition.skill_warnings.iter().cloned());
    doubts
        .chain(
            definition
                .plugins
                .keys()
                .flat_map(|slot| grant_warnings(definition, *slot)),
        )
        .collect()
}

/// Returns a warning for each role that can hand over to itself. That works, but hardly as it is meant.
fn handoffs_to_itself(team: &Team) -> impl Iterator<Item = String> {
    team.role_ids().filter_map(|id| {
        let role = team.role(id);
        let tools = role.tool_loop()?;
        let own = ToolRef::Handoff(id);
        tools.tool(own).map(|_| {
            let name = &role.name;
            format!(
                "`{name}` can hand over to itself: its work ends, and begins again in the next step with only the message; \
                 remove `{name}` from its `handoff`, or name another role"
            )
        })
    })
}

/// Returns the warning that no route of a source leads to its join.
fn unfed_join(join: &Join, source: &str) -> String {
    let id = &join.id;
    match join.mode {
        JoinMode::All => format!(
            "the join `{id}` waits for `{source}`, and no route of `{source}` leads there: it fires only when \
             actions of `{source}` name it as a recipient"
        ),
        JoinMode::Any | JoinMode::Active => format!(
            "the join `{id}` takes messages of `{source}`, and no route of `{source}` leads there: it gets only \
             those for which actions of `{source}` name it as a recipient"
        ),
    }
}

/// Returns a warning if no role handles the idea. Teams that receive messages from outside may
/// need no role for it.
pub fn unwatched_idea(definition: &Definition) -> Option<String> {
    let idea = ComparableWord::new(IDEA_LABEL);
    // A misspelt label is reported by `mistyped`.
    let is_idea = |label: &String| {
        let label = ComparableWord::new(label);
        label.lowercase == idea.lowercase || label.is_typo_of(&idea)
    };
    let hears = definition
        .team
        .roles
        .iter()
        .flat_map(|role| &role.watch)
        .any(is_idea);
    (!hears && definition.external.is_none()).then(|| {
        format!(
            "no role watches `{IDEA_LABEL}`, so nobody takes up the idea: nothing runs before a message of another \
             label is sent"
        )
    })
}

/// Returns a warning if the program of `[env.external]` cannot be started.
fn missing_external_program(definition: &Definition) -> Option<String> {
    let (program, place) = (
        definition.external.as_ref()?.missing_program()?,
        definition.external_location()?,
    );
    let program = program.display();
    Some(format!(
        "`[env.external]` starts `{program}`, and there is no such program that may be run ({place})"
    ))
}

/// Returns a warning for each hosted model without a price, if the team, a role or an action has a budget.
fn unpriced_models(definition: &Definition) -> impl Iterator<Item = String> {
    let holder = budget_holder(&definition.team);
    definition.unpriced_models().filter_map(move |model| {
        let (holder, table) = (holder.as_ref()?, table_name(model));
        Some(format!(
            "{holder} has an `investment`, and the model of `[{table}]` has no `price`: what it costs is not counted"
        ))
    })
}

/// Returns what has a budget in money: the team, or else the first role or action that has one.
fn budget_holder(team: &Team) -> Option<String> {
    let policy = &team.policy;
    if policy.budget.is_some() {
        return Some("the team".into());
    }
    let budgets = &policy.scoped_budgets;
    let mut roles = budgets.roles.iter();
    let role = roles.find(|(_, limits)| limits.usd.is_some());
    let mut actions = budgets.actions.iter();
    let action = actions.find(|(_, limits)| limits.usd.is_some());
    match (role, action) {
        (Some((role, _)), _) => Some(format!("the role `{}`", team.role(*role).name)),
        (None, Some((slot, _))) => Some(format!("`{}`", team.slot_name(*slot))),
        (None, None) => None,
    }
}

/// Returns warnings about grants and limits of an action that cannot work as written.
fn grant_warnings(definition: &Definition, slot: Slot) -> Vec<String> {
    let (plugin, name) = (&definition.plugins[&slot], definition.team.slot_name(slot));
    let mut doubts = Vec::new();
    if plugin.grants.llm.is_some() && definition.llm.is_none() {
        doubts.push(format!(
            "`{name}` may ask models, and the team has none; add `[llm] provider = …`"
        ));
    }
    if let Some(grant) = &plugin.grants.llm
        && !grant.allows(None)
        && let (Some(model), Some(default)) = (grant.default.first(), grant.default.last())
    {
        let (models, table) = (grant.models.join(", "), table_name(model));
        doubts.push(format!(
            "`{name}` may ask the models {models}, and not `{default}` of `[{table}]`: requests that name no model are \
             denied"
        ));
    }
    if plugin.limits.memory_bytes < WASM_PAGE_BYTES {
        let memory = plugin.limits.memory_bytes;
        doubts.push(format!(
            "`{name}` has a memory of only {memory} bytes; did you mean a unit, such as `{memory}MiB`?"
        ));
    }
    let methods = plugin.grants.http.iter().flat_map(|grant| &grant.methods);
    let unknown = methods.filter(|method| !KNOWN_METHODS.contains(&method.as_str()));
    doubts.extend(unknown.filter_map(|method| {
        let meant = closest(method, KNOWN_METHODS)?;
        Some(format!(
            "`{name}` may call servers by `{method}`, which few know; did you mean `{meant}`?"
        ))
    }));
    // A directory that some action may write is created when it is missing.
    let is_made = |host: &Path| {
        let mut dirs = definition
            .plugins
            .values()
            .flat_map(|plugin| &plugin.grants.dirs);
        dirs.any(|dir| dir.access == Access::Write && host.starts_with(&dir.host))
    };
    let missing = plugin
        .grants
        .dirs
        .iter()
        .filter(|dir| !dir.host.exists() && !is_made(&dir.host));
    doubts.extend(missing.map(|dir| {
        let (guest, host) = (&dir.guest, display_path(&dir.host));
        format!("`{name}` may read `{guest}`, and `{host}` is not there")
    }));
    doubts
}

/// Returns warnings about watched labels that no action has but that are similar to the name of an
/// action, or equal to the name of a role. Other labels are not reported, because guests and
/// operators may give messages any label.
fn mistyped_labels(team: &Team) -> impl Iterator<Item = String> {
    let published = team.roles.iter().flat_map(Role::labels);
    let labels: BTreeSet<&str> = published.chain([IDEA_LABEL]).collect();
    let known: Vec<ComparableWord> = labels
        .iter()
        .map(|label| ComparableWord::new(label))
        .collect();
    let acts = |name: &str| {
        team.role(team.find_role(name)?)
            .actions
            .last()
            .map(|action| action.name.as_str())
    };
    let watched = team.roles.iter().flat_map(|role| {
        role.watch
            .iter()
            .map(move |label| (&role.name, label.as_str()))
    });
    let caller = |name: &str| {
        let mut callers = team.roles.iter().filter(|role| role.tool_loop().is_some());
        callers.find(|role| role.actions.iter().any(|action| action.name == name))
    };
    watched.filter(move |(_, label)| !labels.contains(label)).filter_map(move |(role, label)| {
        if let Some(caller) = caller(label) {
            return Some(format!(
                "`{role}` watches `{label}`, which is a tool of `{0}`: the answers of that role have the label `{0}`",
                caller.name
            ));
        }
        if let Some(action) = acts(label) {
            return Some(format!(
                "`{role}` watches `{label}`, which is a role: messages are heard by the action they come from, as \
                 `{action}`"
            ));
        }
        let written = ComparableWord::new(label);
        let in_case = known.iter().find(|meant| written.lowercase == meant.lowercase);
        let meant = in_case.or_else(|| known.iter().find(|meant| written.is_typo_of(meant)))?.text;
        Some(format!("`{role}` watches `{label}`, and no action is called that; did you mean `{meant}`?"))
    })
}

/// A word prepared for being compared with many others.
struct ComparableWord<'a> {
    text: &'a str,
    lowercase: String,
    length: usize,
}

impl<'a> ComparableWord<'a> {
    fn new(text: &'a str) -> Self {
        let lowercase = text.to_lowercase();
        Self {
            text,
            length: lowercase.chars().count(),
            lowercase,
        }
    }

    /// Returns whether this word is most likely a misspelling of `meant`.
    fn is_typo_of(&self, meant: &ComparableWord<'_>) -> bool {
        /// A change of one letter in a shorter word most likely makes another word.
        const SHORTEST: usize = 4;
        /// The time to compare two words grows with the product of their lengths.
        const LONGEST: usize = 100;
        // Names that differ only in a number are not misspellings of each other.
        let letters = |word: &str| {
            word.chars()
                .filter(|c| !c.is_ascii_digit())
                .collect::<String>()
        };
        (SHORTEST..=LONGEST).contains(&self.length)
            && self.length.abs_diff(meant.length) <= 1
            && strsim::damerau_levenshtein(&self.lowercase, &meant.lowercase) <= 1
            && letters(self.text) != letters(meant.text)
    }
}

/// Returns whether messages of a source can reach a join: through a route, or through another join.
fn can_reach(team: &Team, join: &Join, source: RoleId) -> bool {
    let mut routes = team
        .routes
        .iter()
        .filter(|route| route.from == source)
        .flat_map(|route| &route.arms);
    let mut joins = team
        .joins
        .iter()
        .filter(|before| before.source_index(source).is_some());
    routes.any(|arm| arm.to.contains(&join.id)) || joins.any(|before| before.to == join.id)
}

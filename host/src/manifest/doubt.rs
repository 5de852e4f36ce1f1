//! What a team file may say and hardly means: no error, and worth a word before it runs.

use std::collections::BTreeSet;
use std::path::Path;

use strata_core::id::{RoleId, Slot};
use strata_core::message::IDEA_LABEL;
use strata_core::team::{Join, Mode, Team};

use super::Definition;
use crate::plugin::Access;
use crate::suggest::closest;
use crate::tidy::tidy;

/// The least that a memory can be, if it is not nothing.
const PAGE: u64 = 64 << 10;

/// The methods that are known, and those of some servers that are like them.
const METHODS: [&str; 12] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "LIST",
    "REPORT", "SEARCH",
];

impl Definition {
    /// What is doubtful about the team, a line each.
    pub fn doubts(&self) -> Vec<String> {
        let team = &self.team;
        let waiting = team.joins.iter().filter(|join| join.mode == Mode::All);
        let doubts = waiting.flat_map(|join| {
            let unfed = join.from.iter().filter(|source| !is_fed(team, join, **source));
            unfed.map(|source| {
                let (id, name) = (&join.id, &team.role(*source).name);
                format!(
                    "the join `{id}` waits for `{name}`, and no route of `{name}` leads there: it fires only when \
                     actions of `{name}` name it as a recipient"
                )
            })
        });
        let doubts = doubts.chain(mistyped(team)).chain(self.unreachable());
        doubts
            .chain(self.plugins.keys().flat_map(|slot| self.ungiven(*slot)))
            .collect()
    }

    /// That nobody takes up the idea. Teams that hear from outside may have none for it.
    pub fn unheard(&self) -> Option<String> {
        let idea = Word::of(IDEA_LABEL);
        // One that is almost spelt so is asked about already.
        let is_idea = |label: &String| {
            let label = Word::of(label);
            label.small == idea.small || label.is_slip_for(&idea)
        };
        let hears = self
            .team
            .roles
            .iter()
            .flat_map(|role| &role.watch)
            .any(is_idea);
        (!hears && self.external.is_none()).then(|| {
            format!(
                "no role watches `{IDEA_LABEL}`, so nobody takes up the idea: nothing runs before a message of another \
                 label is sent (`strata-host send`)"
            )
        })
    }

    /// A program outside that cannot be started.
    fn unreachable(&self) -> Option<String> {
        let (program, place) = (
            self.external.as_ref()?.missing()?,
            self.place_of_external()?,
        );
        let program = program.display();
        Some(format!(
            "`[env.external]` starts `{program}`, and there is no such program that may be run ({place})"
        ))
    }

    /// What an action is granted and cannot have.
    fn ungiven(&self, slot: Slot) -> Vec<String> {
        let (plugin, name) = (&self.plugins[&slot], self.team.slot_name(slot));
        let mut doubts = Vec::new();
        if plugin.grants.llm.is_some() && self.llm.is_none() {
            doubts.push(format!(
                "`{name}` may ask models, and the team has none; add `[llm] provider = …`"
            ));
        }
        if let Some(grant) = &plugin.grants.llm
            && let Some(default) = grant.default.as_ref().filter(|default| !grant.has(default))
        {
            let models = grant.models.join(", ");
            doubts.push(format!(
                "`{name}` may ask the models {models}, and not `{default}` of `[llm]`: requests that name no model are denied"
            ));
        }
        if plugin.limits.memory_bytes < PAGE {
            let memory = plugin.limits.memory_bytes;
            doubts.push(format!(
                "`{name}` has a memory of only {memory} bytes; did you mean a unit, such as `{memory}MiB`?"
            ));
        }
        let methods = plugin.grants.http.iter().flat_map(|grant| &grant.methods);
        let unknown = methods.filter(|method| !METHODS.contains(&method.as_str()));
        doubts.extend(unknown.filter_map(|method| {
            let meant = closest(method, METHODS)?;
            Some(format!(
                "`{name}` may call servers by `{method}`, which few know; did you mean `{meant}`?"
            ))
        }));
        // One that may be written is made.
        let is_made = |host: &Path| {
            let mut dirs = self.plugins.values().flat_map(|plugin| &plugin.grants.dirs);
            dirs.any(|dir| dir.access == Access::Write && host.starts_with(&dir.host))
        };
        let missing = plugin
            .grants
            .dirs
            .iter()
            .filter(|dir| !dir.host.exists() && !is_made(&dir.host));
        doubts.extend(missing.map(|dir| {
            let (guest, host) = (&dir.guest, tidy(&dir.host));
            format!("`{name}` may read `{guest}`, and `{host}` is not there")
        }));
        doubts
    }
}

/// Labels that are watched and that no action has, where one is called almost that, or a role is. Others may be what they
/// are: guests and operators give messages any label they like.
fn mistyped(team: &Team) -> impl Iterator<Item = String> {
    let actions = team
        .roles
        .iter()
        .flat_map(|role| &role.actions)
        .map(|action| action.name.as_str());
    let labels: BTreeSet<&str> = actions.chain([IDEA_LABEL]).collect();
    let known: Vec<Word> = labels.iter().map(|label| Word::of(label)).collect();
    let acts = |name: &str| {
        team.role(team.find(name)?)
            .actions
            .last()
            .map(|action| action.name.as_str())
    };
    let watched = team.roles.iter().flat_map(|role| {
        role.watch
            .iter()
            .map(move |label| (&role.name, label.as_str()))
    });
    watched.filter(move |(_, label)| !labels.contains(label)).filter_map(move |(role, label)| {
        if let Some(action) = acts(label) {
            return Some(format!(
                "`{role}` watches `{label}`, which is a role: messages are heard by the action they come from, as \
                 `{action}`"
            ));
        }
        let written = Word::of(label);
        let in_case = known.iter().find(|meant| written.small == meant.small);
        let meant = in_case.or_else(|| known.iter().find(|meant| written.is_slip_for(meant)))?.text;
        Some(format!("`{role}` watches `{label}`, and no action is called that; did you mean `{meant}`?"))
    })
}

/// A word as it is compared with many others.
struct Word<'a> {
    text: &'a str,
    small: String,
    length: usize,
}

impl<'a> Word<'a> {
    fn of(text: &'a str) -> Self {
        let small = text.to_lowercase();
        Self {
            text,
            length: small.chars().count(),
            small,
        }
    }

    /// Whether somebody who wrote this most likely meant the other.
    fn is_slip_for(&self, meant: &Word<'_>) -> bool {
        /// In shorter words one letter makes another word.
        const SHORTEST: usize = 4;
        /// To compare two words takes time with the product of their lengths.
        const LONGEST: usize = 100;
        // `Task1` is not a slip for `Task2`.
        let letters = |word: &str| {
            word.chars()
                .filter(|c| !c.is_ascii_digit())
                .collect::<String>()
        };
        (SHORTEST..=LONGEST).contains(&self.length)
            && self.length.abs_diff(meant.length) <= 1
            && strsim::damerau_levenshtein(&self.small, &meant.small) <= 1
            && letters(self.text) != letters(meant.text)
    }
}

/// Whether a way leads from a source into a join: a route, or another join.
fn is_fed(team: &Team, join: &Join, source: RoleId) -> bool {
    let mut routes = team
        .routes
        .iter()
        .filter(|route| route.from == source)
        .flat_map(|route| &route.arms);
    let mut joins = team
        .joins
        .iter()
        .filter(|before| before.source(source).is_some());
    routes.any(|arm| arm.to.contains(&join.id)) || joins.any(|before| before.to == join.id)
}

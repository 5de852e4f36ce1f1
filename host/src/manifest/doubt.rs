//! What a team file may say and hardly means: no error, and worth a word before it runs.

use strata_core::id::RoleId;
use strata_core::message::IDEA_LABEL;
use strata_core::team::{Join, Mode, Team};

use super::Definition;

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
        doubts.chain(mistyped(team)).collect()
    }
}

/// Labels that are watched and that no action has, where one is called almost that. Others may be what they are: guests
/// and operators give messages any label they like.
fn mistyped(team: &Team) -> impl Iterator<Item = String> {
    let actions = team.roles.iter().flat_map(|role| &role.actions).map(|action| action.name.as_str());
    let labels: Vec<&str> = actions.chain([IDEA_LABEL]).collect();
    let watched = team.roles.iter().flat_map(|role| role.watch.iter().map(move |label| (&role.name, label.as_str())));
    watched.filter_map(move |(role, label)| {
        let meant = labels.iter().find(|meant| is_slip(label, meant)).filter(|_| !labels.contains(&label))?;
        Some(format!("`{role}` watches `{label}`, and no action is called that; did you mean `{meant}`?"))
    })
}

/// Whether somebody who wrote the one word most likely meant the other.
fn is_slip(written: &str, meant: &str) -> bool {
    /// In shorter words one letter makes another word.
    const SHORTEST: usize = 4;
    // `Task1` is not a slip for `Task2`.
    let letters = |word: &str| word.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let apart = strsim::damerau_levenshtein(&written.to_lowercase(), &meant.to_lowercase());
    written.chars().count() >= SHORTEST && apart <= 1 && letters(written) != letters(meant)
}

/// Whether a way leads from a source into a join: a route, or another join.
fn is_fed(team: &Team, join: &Join, source: RoleId) -> bool {
    let mut routes = team.routes.iter().filter(|route| route.from == source).flat_map(|route| &route.arms);
    let mut joins = team.joins.iter().filter(|before| before.source(source).is_some());
    routes.any(|arm| arm.to.contains(&join.id)) || joins.any(|before| before.to == join.id)
}

//! What a team file may say and hardly means: no error, and worth a word before it runs.

use strata_core::id::RoleId;
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
        doubts.collect()
    }
}

/// Whether a way leads from a source into a join: a route, or another join.
fn is_fed(team: &Team, join: &Join, source: RoleId) -> bool {
    let mut routes = team.routes.iter().filter(|route| route.from == source).flat_map(|route| &route.arms);
    let mut joins = team.joins.iter().filter(|before| before.source(source).is_some());
    routes.any(|arm| arm.to.contains(&join.id)) || joins.any(|before| before.to == join.id)
}

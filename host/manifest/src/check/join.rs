//! Checks joins: what they wait for, where they lead, and whether any message can reach them. How
//! messages are delivered is decided in the core.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::id::RoleId;
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::team;

use crate::authored::AuthoredTeam;
use crate::authored::edge::AuthoredJoin;
use crate::diagnostic::Problems;
use crate::names::{NameTarget, TeamNames};
use crate::table::Located;

/// The largest number of joins in a team. Every step iterates over all of them.
const MAX_JOINS: usize = 1000;

/// Checks the joins of a team and builds them.
pub(super) fn build_joins(
    authored: &AuthoredTeam,
    names: &TeamNames,
    problems: &Problems,
) -> Vec<team::Join> {
    if let Some(join) = authored.joins.get(MAX_JOINS) {
        let problem = problems.at(
            &join.span,
            format!("a team cannot have more than {MAX_JOINS} joins"),
        );
        problems.add(problem.hint("take some of them out"));
        return Vec::new();
    }
    let graph = JoinGraph::collect(authored, names, problems);
    if is_completely_read(authored, problems) {
        graph.check_reachable(authored, names, problems);
    }
    graph.check_chains(problems);
    graph.check_routes(authored, names, problems);
    let built = graph
        .joins
        .iter()
        .map(|ResolvedJoin { id, sources, join }| team::Join {
            id: id.value.clone(),
            from: sources.clone(),
            to: join
                .to
                .as_ref()
                .map(|to| names.canonical(to))
                .unwrap_or_default(),
            mode: join.mode.unwrap_or(JoinMode::All),
            deliver: join.deliver.unwrap_or(DeliveryMode::Batch),
        });
    built.collect()
}

/// Returns whether everything was read that could lead into a join.
fn is_completely_read(authored: &AuthoredTeam, problems: &Problems) -> bool {
    let places = [
        "",
        "role",
        "role.addresses",
        "env",
        "env.",
        "route",
        "route.",
        "join.from",
        "join.to",
    ];
    let named = authored.roles.iter().all(|role| role.name.is_some());
    named && authored.routes.iter().all(|route| route.from.is_some()) && problems.are_read(&places)
}

/// The joins that have a valid, unique name.
struct JoinGraph<'a> {
    joins: Vec<ResolvedJoin<'a>>,
    indices: BTreeMap<&'a str, usize>,
}

struct ResolvedJoin<'a> {
    id: &'a Located<String>,
    sources: Vec<RoleId>,
    join: &'a AuthoredJoin,
}

impl<'a> JoinGraph<'a> {
    fn collect(authored: &'a AuthoredTeam, names: &TeamNames, problems: &Problems) -> Self {
        let mut graph = Self {
            joins: Vec::new(),
            indices: BTreeMap::new(),
        };
        for join in &authored.joins {
            let sources = resolve_sources(join, names, problems);
            if let Some(to) = &join.to {
                names.resolve(to, problems);
            }
            let own = |id: &&Located<String>| {
                names.lookup(&id.value) == Some(NameTarget::Join)
                    && graph.find_join(&id.value).is_none()
            };
            if let Some(id) = join.id.as_ref().filter(own) {
                graph.indices.insert(&id.value, graph.joins.len());
                graph.joins.push(ResolvedJoin { id, sources, join });
            }
        }
        graph
    }

    fn find_join(&self, name: &str) -> Option<usize> {
        self.indices.get(name).copied()
    }

    /// Returns the join that a join leads to.
    fn next_join(&self, at: usize) -> Option<usize> {
        self.find_join(&self.joins[at].join.to.as_ref()?.value)
    }

    /// Checks that a message can reach each join: along a route, or out of another join.
    fn check_reachable(&self, authored: &AuthoredTeam, names: &TeamNames, problems: &Problems) {
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        for route in &authored.routes {
            let from = route
                .from
                .as_ref()
                .and_then(|from| names.lookup_role(&from.value));
            let targets = route
                .arms
                .iter()
                .flat_map(|arm| &arm.to)
                .filter_map(|to| self.find_join(&to.value));
            let takes =
                |join: &usize| from.is_some_and(|from| self.joins[*join].sources.contains(&from));
            reached.extend(targets.filter(takes));
        }
        // Each round follows the joins one link further.
        for _ in 0..self.joins.len() {
            let further: Vec<usize> = reached
                .iter()
                .filter_map(|at| self.next_join(*at))
                .collect();
            let before = reached.len();
            reached.extend(further);
            if reached.len() == before {
                break;
            }
        }
        for (at, ResolvedJoin { id, join, .. }) in self.joins.iter().enumerate() {
            if !reached.contains(&at) && !join.from.is_empty() {
                let message = format!("no source of the join `{}` can reach it", id.value);
                let hint = format!(
                    "add `[[route]]` from a source with `to = [\"{}\"]`",
                    id.value
                );
                problems.add(problems.at(&id.span, message).hint(hint));
            }
        }
    }

    /// Checks that a join which leads to another passes on only messages that the other waits for,
    /// and that joins do not form a cycle.
    fn check_chains(&self, problems: &Problems) {
        for (at, ResolvedJoin { id, sources, join }) in self.joins.iter().enumerate() {
            let (Some(next), Some(to)) = (self.next_join(at), &join.to) else {
                continue;
            };
            if self.leads_back(at) {
                let problem = problems.at(
                    &to.span,
                    format!("the join `{}` leads back to itself", id.value),
                );
                problems.add(problem.hint("let one of the joins on the way lead to a role"));
                continue;
            }
            let unknown = join
                .from
                .iter()
                .zip(sources)
                .filter(|(_, id)| !self.joins[next].sources.contains(id));
            let unknown: Vec<String> = unknown
                .map(|(name, _)| format!("`{}`", name.value))
                .collect();
            if sources.len() == join.from.len() && !unknown.is_empty() {
                let (id, to_name, unknown) = (&id.value, &to.value, unknown.join(", "));
                let message = format!(
                    "`{id}` passes on what `{to_name}` does not wait for: messages of {unknown}"
                );
                let hint = format!(
                    "messages keep their senders: name those in `from` of `{to_name}`, too"
                );
                problems.add(problems.at(&to.span, message).hint(hint));
            }
        }
    }

    /// Returns whether the chain of joins that starts here comes back, and this join is the first
    /// of the chain in the file, so that each cycle is reported once.
    fn leads_back(&self, at: usize) -> bool {
        let mut here = at;
        for _ in 0..self.joins.len() {
            match self.next_join(here) {
                Some(next) if next == at => return true,
                Some(next) if next > at => here = next,
                _ => return false,
            }
        }
        false
    }

    /// Checks that no route leads into a join that does not wait for its sender.
    fn check_routes(&self, authored: &AuthoredTeam, names: &TeamNames, problems: &Problems) {
        for route in &authored.routes {
            let Some((from, id)) = route
                .from
                .as_ref()
                .and_then(|from| Some((from, names.lookup_role(&from.value)?)))
            else {
                continue;
            };
            for to in route.arms.iter().flat_map(|arm| &arm.to) {
                let Some(join) = self.find_join(&to.value).map(|at| &self.joins[at]) else {
                    continue;
                };
                if !join.sources.contains(&id) {
                    let message =
                        format!("the join `{}` does not wait for `{}`", to.value, from.value);
                    let hint = format!(
                        "name `{}` in its `from`, or let the route lead elsewhere",
                        from.value
                    );
                    problems.add(problems.at(&to.span, message).hint(hint));
                }
            }
        }
    }
}

/// Resolves the sources of a join.
fn resolve_sources(join: &AuthoredJoin, names: &TeamNames, problems: &Problems) -> Vec<RoleId> {
    let mut sources = Vec::new();
    for name in &join.from {
        let Some(id) = names.resolve_role(name, problems) else {
            continue;
        };
        if sources.contains(&id) {
            let problem = problems.at(
                &name.span,
                format!("`{}` is a source of the join twice", name.value),
            );
            problems.add(problem.hint("an alias stands for its role"));
        }
        sources.push(id);
    }
    sources
}

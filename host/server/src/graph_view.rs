//! A team as a graph with coordinates, for the page to draw, and with the states of its roles.

use serde_json::{Value, json};
use strata_host::graph::{EdgeKind, Graph, GraphError, NodeKind, RenderFormat};
use strata_host::manifest::Definition;
use strata_host::view::{RoleActivity, SavedTeam, WorkState};

use crate::problem::Problem;

impl From<GraphError> for Problem {
    fn from(error: GraphError) -> Self {
        let problem = Self::refused(error.to_string()).named("graph");
        match error.advice() {
            Some(advice) => problem.with_hint(advice.to_string()),
            None => problem,
        }
    }
}

/// Returns the graph of a saved team.
fn graph_of(saved: &SavedTeam) -> Result<Graph, Problem> {
    let definition = &saved.definition;
    let parsed =
        Definition::parse_without_files(&definition.text, &definition.name, &definition.base);
    let tool_roles = parsed
        .map(|definition| definition.tool_roles)
        .unwrap_or_default();
    Ok(Graph::from_team(saved.stepper.team(), &tool_roles)?)
}

/// Returns the graph of a saved team as a picture.
pub fn graph_picture(saved: &SavedTeam) -> Result<String, Problem> {
    Ok(graph_of(saved)?.render(RenderFormat::Svg)?)
}

/// Returns the graph of a saved team with coordinates.
pub fn graph_json(saved: &SavedTeam) -> Result<Value, Problem> {
    let graph = graph_of(saved)?;
    let placed = graph.place()?;
    let round = |value: f64| (value * 10.0).round() / 10.0;
    let nodes: Vec<Value> = graph
        .nodes
        .iter()
        .zip(&placed.nodes)
        .enumerate()
        .map(|(id, (node, at))| {
            let actions: Vec<Value> = node
                .actions
                .iter()
                .map(|action| json!({ "name": action.name, "approval": action.needs_approval }))
                .collect();
            json!({
                "id": id, "kind": node_kind(node.kind), "label": node.name, "note": node.note, "actions": actions,
                "x": round(at.x), "y": round(at.y), "width": round(at.width), "height": round(at.height),
                "state": role_state(saved, node.kind, &node.name),
            })
        })
        .collect();
    let edges: Vec<Value> = graph
        .edges
        .iter()
        .zip(&placed.edges)
        .map(|(edge, points)| {
            let points: Vec<[f64; 2]> = points.iter().map(|(x, y)| [round(*x), round(*y)]).collect();
            json!({
                "from": edge.from.0, "to": edge.to.0, "kind": edge_kind(edge.kind), "label": edge.label,
                "points": points,
            })
        })
        .collect();
    Ok(json!({
        "title": graph.title, "width": round(placed.width), "height": round(placed.height),
        "nodes": nodes, "edges": edges,
    }))
}

fn node_kind(kind: NodeKind) -> String {
    kebab(&format!("{kind:?}"))
}

fn edge_kind(kind: EdgeKind) -> String {
    kebab(&format!("{kind:?}"))
}

/// Returns the name of a variant in lower case, with dashes between its words.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// Returns what a role does: how much mail waits for it, its work, and what it may spend, in US dollars.
fn role_state(saved: &SavedTeam, kind: NodeKind, name: &str) -> Value {
    if !matches!(kind, NodeKind::Role | NodeKind::Human) {
        return Value::Null;
    }
    let stepper = &saved.stepper;
    let team = stepper.team();
    let Some(role) = team.role_ids().find(|role| team.role(*role).name == name) else {
        return Value::Null;
    };
    let mail = stepper.env().unfinished_mail(role).count();
    let (state, action) = match RoleActivity::from_role(stepper, role, false) {
        None => ("idle", None),
        Some(RoleActivity::Finished) => ("finished", None),
        Some(RoleActivity::CallingTools { .. }) => ("calling-tools", None),
        Some(RoleActivity::Working { action, state, .. }) => (work_state(&state), Some(action)),
    };
    let limits = team.policy.scoped_budgets.roles.get(&role);
    let budget = limits
        .and_then(|limits| limits.usd)
        .map(|usd| usd.to_dollars());
    json!({ "state": state, "action": action, "mail": mail, "budget": budget })
}

fn work_state(state: &WorkState) -> &'static str {
    match state {
        WorkState::Next | WorkState::BackingOff => "next",
        WorkState::Running => "running",
        WorkState::CutOff | WorkState::Interrupted => "interrupted",
        WorkState::Failed => "failed",
        WorkState::Finished => "finished",
        WorkState::WaitingForPerson => "waiting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_in_lower_case() {
        assert_eq!(kebab("Start"), "start");
        assert_eq!(kebab("RoleCall"), "role-call");
    }
}

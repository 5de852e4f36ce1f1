//! A team as a graph with coordinates, for the page to draw, and with the states of its roles.

use schemars::JsonSchema;
use serde::Serialize;
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

/// The graph of a saved team with coordinates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The title.
    title: String,
    /// The width of the picture.
    width: f64,
    /// The height of the picture.
    height: f64,
    /// The nodes.
    nodes: Vec<GraphNode>,
    /// The edges.
    edges: Vec<GraphEdge>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct GraphNode {
    /// Its number, which edges name.
    id: usize,
    /// What it is: `start`, `role`, `human`, `join`, `group`, `label` or `outside`.
    kind: String,
    /// Its name.
    label: String,
    /// A note that is shown below the name; may be empty.
    note: String,
    /// The actions of a role.
    actions: Vec<GraphAction>,
    /// Where its left edge is.
    x: f64,
    /// Where its upper edge is.
    y: f64,
    /// Its width.
    width: f64,
    /// Its height.
    height: f64,
    /// What a role does.
    state: Option<GraphRoleState>,
}

/// An action of a role.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct GraphAction {
    /// Its name.
    name: String,
    /// Whether a person has to approve it.
    approval: bool,
}

/// An edge.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct GraphEdge {
    /// The number of the node where it begins.
    from: usize,
    /// The number of the node where it ends.
    to: usize,
    /// Whether messages go this way: `always`, `conditional`, `chosen`, or `tie` for none.
    kind: String,
    /// The lines that are written beside it.
    label: Vec<String>,
    /// The points of its line, each with its distance from the left and from the top.
    points: Vec<[f64; 2]>,
}

/// What a role does, how much mail waits for it, and what it may spend.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct GraphRoleState {
    /// What it does: `idle`, `next`, `running`, `calling-tools`, `waiting`, `failed`, `interrupted` or `finished`.
    state: &'static str,
    /// The action that it carries out.
    action: Option<String>,
    /// How many messages wait for it.
    mail: usize,
    /// What it may spend, in US dollars.
    budget: Option<f64>,
}

impl GraphView {
    /// Returns the graph of a saved team.
    pub fn new(saved: &SavedTeam) -> Result<Self, Problem> {
        let graph = graph_of(saved)?;
        let placed = graph.place()?;
        let round = |value: f64| (value * 10.0).round() / 10.0;
        let nodes = graph.nodes.iter().zip(&placed.nodes).enumerate();
        let nodes = nodes.map(|(id, (node, at))| GraphNode {
            id,
            kind: node_kind(node.kind),
            label: node.name.clone(),
            note: node.note.clone(),
            actions: node
                .actions
                .iter()
                .map(|action| GraphAction {
                    name: action.name.clone(),
                    approval: action.needs_approval,
                })
                .collect(),
            x: round(at.x),
            y: round(at.y),
            width: round(at.width),
            height: round(at.height),
            state: GraphRoleState::new(saved, node.kind, &node.name),
        });
        let edges = graph.edges.iter().zip(&placed.edges);
        let edges = edges.map(|(edge, points)| GraphEdge {
            from: edge.from.0,
            to: edge.to.0,
            kind: edge_kind(edge.kind),
            label: edge.label.clone(),
            points: points.iter().map(|(x, y)| [round(*x), round(*y)]).collect(),
        });
        Ok(Self {
            title: graph.title.clone(),
            width: round(placed.width),
            height: round(placed.height),
            nodes: nodes.collect(),
            edges: edges.collect(),
        })
    }
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

impl GraphRoleState {
    /// Returns the state of the role that a node stands for; `None` if it stands for something else.
    fn new(saved: &SavedTeam, kind: NodeKind, name: &str) -> Option<Self> {
        if !matches!(kind, NodeKind::Role | NodeKind::Human) {
            return None;
        }
        let stepper = &saved.stepper;
        let team = stepper.team();
        let role = team.role_ids().find(|role| team.role(*role).name == name)?;
        let (state, action) = match RoleActivity::from_role(stepper, role, false) {
            None => ("idle", None),
            Some(RoleActivity::Finished) => ("finished", None),
            Some(RoleActivity::CallingTools { .. }) => ("calling-tools", None),
            Some(RoleActivity::Working { action, state, .. }) => (work_state(&state), Some(action)),
        };
        let limits = team.policy.scoped_budgets.roles.get(&role);
        Some(Self {
            state,
            action,
            mail: stepper.env().unfinished_mail(role).count(),
            budget: limits
                .and_then(|limits| limits.usd)
                .map(|usd| usd.to_dollars()),
        })
    }
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

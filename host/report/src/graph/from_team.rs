//! Builds the graph of a team: which role receives whose messages.
//!
//! This follows the rules of routing: messages of a role with routes go along them; messages of a
//! role without routes go to those that watch the names of its actions. Recipients that an action
//! chooses at run time are not in the team file and so not in the graph.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::id::RoleId;
use strata_core::record::message::{IDEA_LABEL, TO_ALL, TO_NOBODY, TO_SELF};
use strata_core::record::turn::ToolRef;
use strata_core::team::{Action, ExternalEnvironment, React, Role, Route, Team};
use strata_services::tools::ToolRole;

use super::text::sanitize;
use super::{
    EdgeKind, Graph, GraphAction, GraphEdge, GraphError, GraphNode, MAX_EDGES, NodeId, NodeKind,
};

/// The name of the idea's node.
const IDEA_NODE_NAME: &str = "idea";
/// The name of the outside's node if no route names a recipient there.
const OUTSIDE_NODE_NAME: &str = "outside";
/// The label of an arm that is taken if no other is.
const DEFAULT_ARM_LABEL: &str = "default";
/// The label of an edge along which a model hands over.
const HANDOFF_LABEL: &str = "hands over";
/// The label of an edge from a role to one that it calls as a tool.
const ROLE_CALL_LABEL: &str = "calls";
/// The label of such an edge if people have to approve each call.
const APPROVAL_LABEL: &str = "if approved";

/// Builds the graph of a team.
pub fn build_graph(
    team: &Team,
    tool_roles: &BTreeMap<RoleId, ToolRole>,
) -> Result<Graph, GraphError> {
    let mut drawing = GraphBuilder::new(team, tool_roles);
    drawing.add_declared_nodes();
    drawing.add_watch_edges()?;
    for route in &team.routes {
        drawing.add_route(route)?;
    }
    drawing.add_tools()?;
    drawing.add_joins()?;
    drawing.add_groups()?;
    drawing.add_unpublished_labels()?;
    drawing.add_outside();
    Ok(drawing.graph)
}

struct GraphBuilder<'a> {
    team: &'a Team,
    tool_roles: &'a BTreeMap<RoleId, ToolRole>,
    graph: Graph,
    /// The nodes by name, except for roles, which can also be referred to by aliases.
    nodes_by_name: BTreeMap<&'a str, NodeId>,
    roles: Vec<NodeId>,
    /// The roles that watch each label.
    watchers: BTreeMap<&'a str, Vec<RoleId>>,
    /// The labels that some edge carries to the roles that watch them.
    carried_labels: BTreeSet<&'a str>,
    /// The edges so far, so that none is drawn twice.
    known_edges: BTreeSet<(NodeId, NodeId, Vec<String>)>,
}

impl<'a> GraphBuilder<'a> {
    fn new(team: &'a Team, tool_roles: &'a BTreeMap<RoleId, ToolRole>) -> Self {
        let mut watchers: BTreeMap<&str, Vec<RoleId>> = BTreeMap::new();
        for id in team.role_ids() {
            for label in &team.role(id).watch {
                watchers.entry(label).or_default().push(id);
            }
        }
        Self {
            team,
            tool_roles,
            graph: Graph {
                title: sanitize(&team.name),
                ..Graph::default()
            },
            nodes_by_name: BTreeMap::new(),
            roles: Vec::new(),
            watchers,
            carried_labels: BTreeSet::new(),
            known_edges: BTreeSet::new(),
        }
    }

    fn add_node(&mut self, kind: NodeKind, name: &str, note: &str) -> NodeId {
        let node = GraphNode {
            kind,
            name: sanitize(name),
            note: sanitize(note),
            actions: Vec::new(),
            cost: String::new(),
        };
        self.graph.nodes.push(node);
        NodeId(self.graph.nodes.len() - 1)
    }

    fn add_edge(
        &mut self,
        from: NodeId,
        to: NodeId,
        kind: EdgeKind,
        label: &[&str],
    ) -> Result<(), GraphError> {
        let lines = label
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| sanitize(line.trim()));
        let label: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        if !self.known_edges.insert((from, to, label.clone())) {
            return Ok(());
        }
        if self.graph.edges.len() == MAX_EDGES {
            return Err(GraphError::TooManyEdges {
                team: self.graph.title.clone(),
            });
        }
        self.graph.edges.push(GraphEdge {
            from,
            to,
            kind,
            label,
            taken: None,
        });
        Ok(())
    }

    /// Adds the declared nodes: the idea, the roles, the joins and the groups.
    fn add_declared_nodes(&mut self) {
        let team = self.team;
        self.add_node(NodeKind::Start, IDEA_NODE_NAME, "");
        for (role, role_id) in team.roles.iter().zip(team.role_ids()) {
            let id = self.add_node(role_kind(role), &role.name, &role_note(role));
            let tools = self.approved_tools(role_id);
            let to_action = |action: &Action| GraphAction {
                name: sanitize(&action.name),
                needs_approval: tools.contains(action.name.as_str()),
            };
            self.graph.nodes[id.0].actions = role.actions.iter().map(to_action).collect();
            self.roles.push(id);
        }
        for join in &team.joins {
            let note = format!("{}, {}", join.mode.name(), join.deliver.name());
            let id = self.add_node(NodeKind::Join, &join.id, &note);
            self.nodes_by_name.insert(&join.id, id);
        }
        for name in team.groups.keys() {
            let id = self.add_node(NodeKind::Group, name, "group");
            self.nodes_by_name.insert(name, id);
        }
    }

    /// Returns the tools of a role that people have to approve.
    fn approved_tools(&self, id: RoleId) -> BTreeSet<&'a str> {
        let known = self.team.role(id).tool_loop().into_iter();
        let names = known.flat_map(|tools| tools.tools.iter().map(|tool| tool.name.as_str()));
        let role_tools = self
            .tool_roles
            .get(&id)
            .into_iter()
            .flat_map(|role| &role.tools);
        names
            .zip(role_tools)
            .filter(|(_, tool)| tool.approval.is_some())
            .map(|(name, _)| name)
            .collect()
    }

    /// Adds edges from the idea to the roles that watch its label, and from roles without routes to
    /// the roles that watch their labels.
    fn add_watch_edges(&mut self) -> Result<(), GraphError> {
        let team = self.team;
        for to in self.watchers_of(IDEA_LABEL) {
            self.add_edge(
                NodeId(0),
                self.roles[to.index()],
                EdgeKind::Always,
                &[IDEA_LABEL],
            )?;
        }
        self.carried_labels.insert(IDEA_LABEL);
        for from in team.role_ids() {
            if !team.routes.iter().any(|route| route.from == from) {
                self.add_broadcast_edges(from, EdgeKind::Always, &[])?;
            }
        }
        Ok(())
    }

    /// Adds edges from a role to all roles that watch its labels, one for each of them.
    fn add_broadcast_edges(
        &mut self,
        from: RoleId,
        kind: EdgeKind,
        label: &[&str],
    ) -> Result<(), GraphError> {
        let mut listeners: BTreeMap<RoleId, Vec<&str>> = BTreeMap::new();
        for published in self.team.role(from).labels() {
            for to in self.watchers_of(published) {
                self.carried_labels.insert(published);
                listeners
                    .entry(to)
                    .or_insert_with(|| label.to_vec())
                    .push(published);
            }
        }
        for (to, label) in listeners {
            self.add_edge(
                self.roles[from.index()],
                self.roles[to.index()],
                kind,
                &label,
            )?;
        }
        Ok(())
    }

    fn watchers_of(&self, label: &str) -> Vec<RoleId> {
        self.watchers.get(label).cloned().unwrap_or_default()
    }

    fn add_route(&mut self, route: &'a Route) -> Result<(), GraphError> {
        for arm in &route.arms {
            let when = match &arm.when {
                Some(condition) => condition.source(),
                None if route.arms.len() > 1 => DEFAULT_ARM_LABEL,
                None => "",
            };
            let kind = if when.is_empty() {
                EdgeKind::Always
            } else {
                EdgeKind::Conditional
            };
            let label = [route.label.as_str(), when];
            for name in arm.to.iter().filter(|name| *name != TO_NOBODY) {
                if name == TO_ALL {
                    self.add_broadcast_edges(route.from, kind, &label)?;
                } else {
                    let from = self.roles[route.from.index()];
                    let to = if name == TO_SELF {
                        from
                    } else {
                        self.target_node(name)
                    };
                    self.add_edge(from, to, kind, &label)?;
                }
            }
        }
        Ok(())
    }

    /// Adds edges from roles to those that their models can hand over to, or call as tools.
    fn add_tools(&mut self) -> Result<(), GraphError> {
        let team = self.team;
        for from in team.role_ids() {
            let tools = team.role(from).tool_loop();
            let approved = self.approved_tools(from);
            for tool in tools.iter().flat_map(|tools| &tools.tools) {
                let (to, kind, label) = match tool.target.tool {
                    ToolRef::Handoff(to) => (to, EdgeKind::Conditional, HANDOFF_LABEL),
                    ToolRef::Role(to) => (to, EdgeKind::Tie, ROLE_CALL_LABEL),
                    ToolRef::Action(_) | ToolRef::Host(_) | ToolRef::Server { .. } => continue,
                };
                let (from, to) = (self.roles[from.index()], self.roles[to.index()]);
                let approval = if approved.contains(tool.name.as_str()) {
                    APPROVAL_LABEL
                } else {
                    ""
                };
                self.add_edge(from, to, kind, &[label, approval])?;
            }
        }
        Ok(())
    }

    /// Returns the node that a name refers to. An unknown name is a recipient outside of the team.
    fn target_node(&mut self, name: &'a str) -> NodeId {
        if let Some(role) = self.team.find_role(name) {
            return self.roles[role.index()];
        }
        if let Some(id) = self.nodes_by_name.get(name) {
            return *id;
        }
        let id = self.add_node(NodeKind::Outside, name, "outside");
        self.nodes_by_name.insert(name, id);
        id
    }

    /// Adds edges from joins to their targets, and ties from sources that no route connects with
    /// their join, because actions can address a join by name.
    fn add_joins(&mut self) -> Result<(), GraphError> {
        let team = self.team;
        for join in &team.joins {
            let id = self.nodes_by_name[join.id.as_str()];
            for source in &join.from {
                let source = self.roles[source.index()];
                if !self
                    .graph
                    .edges
                    .iter()
                    .any(|edge| edge.from == source && edge.to == id)
                {
                    self.add_edge(source, id, EdgeKind::Tie, &[])?;
                }
            }
            let to = self.target_node(&join.to);
            self.add_edge(id, to, EdgeKind::Always, &[])?;
        }
        Ok(())
    }

    fn add_groups(&mut self) -> Result<(), GraphError> {
        for (name, members) in &self.team.groups {
            for member in members {
                self.add_edge(
                    self.nodes_by_name[name.as_str()],
                    self.roles[member.index()],
                    EdgeKind::Tie,
                    &[],
                )?;
            }
        }
        Ok(())
    }

    /// Adds the labels that are watched but that no edge of the graph carries.
    fn add_unpublished_labels(&mut self) -> Result<(), GraphError> {
        for (label, watchers) in self.watchers.clone() {
            if self.carried_labels.contains(label) {
                continue;
            }
            let id = self.add_node(NodeKind::Label, label, "label");
            for watcher in watchers {
                self.add_edge(id, self.roles[watcher.index()], EdgeKind::Always, &[])?;
            }
        }
        Ok(())
    }

    /// Adds the outside even if no route leads there, because actions can address it by name.
    fn add_outside(&mut self) {
        let drawn = self
            .graph
            .nodes
            .iter()
            .any(|node| node.kind == NodeKind::Outside);
        if self.team.external == ExternalEnvironment::Present && !drawn {
            self.add_node(NodeKind::Outside, OUTSIDE_NODE_NAME, "");
        }
    }
}

fn role_kind(role: &Role) -> NodeKind {
    if role.react == React::Human {
        NodeKind::Human
    } else {
        NodeKind::Role
    }
}

/// Returns a role's profile and, unless it is the default, its mode.
fn role_note(role: &Role) -> String {
    let mode = match role.react {
        React::ByOrder => String::new(),
        React::Human => "a person".into(),
        React::Choose { max_loop: 1, .. } => "chooses one".into(),
        React::Choose { max_loop, .. } => format!("chooses up to {max_loop}"),
        React::PlanAndAct => "plans and acts".into(),
        React::Tools(_) => "works with tools".into(),
    };
    let parts = [role.profile.as_str(), &mode];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

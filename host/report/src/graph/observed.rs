//! Adds to the graph of a team what happened in a run: how often each edge was taken, what each role
//! spent, and edges for messages that no edge of the team file explains, because actions chose their
//! recipients at run time.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::id::RoleId;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::money::Usd;

use super::text::sanitize;
use super::{EdgeKind, Graph, GraphEdge, GraphNode, MAX_EDGES, NodeId, NodeKind};

/// The sender of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// A role of the team.
    Role(RoleId),
    /// A join, by its index in the team.
    Join(usize),
    /// Somebody outside of the team, with the label of the message.
    Outside(String),
}

/// The recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipient {
    /// A role of the team.
    Role(RoleId),
    /// A join, by its index in the team.
    Join(usize),
    /// A recipient outside of the team.
    Outside(String),
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct ObservedRun {
    /// How many messages each sender sent to each recipient.
    pub sent: BTreeMap<(Sender, Recipient), usize>,
    /// How often each role called another one as a tool.
    pub calls: BTreeMap<(RoleId, RoleId), usize>,
    /// What each role spent.
    pub spent: BTreeMap<RoleId, Usd>,
}

impl Graph {
    /// Adds what happened in a run. The graph must be that of the team.
    pub fn add_observed(&mut self, run: &ObservedRun) {
        for (role, spent) in run.spent.iter().filter(|(_, spent)| **spent > Usd::ZERO) {
            if let Some(node) = self.role_node(*role) {
                self.nodes[node.0].cost = spent.to_string();
            }
        }
        let counts = self.counts_by_nodes(run);
        self.count_edges(&counts, run);
        self.add_chosen_edges(&run.sent);
    }

    /// Returns how many messages went from one node to another.
    fn counts_by_nodes(&self, run: &ObservedRun) -> BTreeMap<(NodeId, NodeId), usize> {
        let mut counts = BTreeMap::new();
        for ((from, to), count) in &run.sent {
            let from = match from {
                Sender::Role(role) => self.role_node(*role),
                Sender::Join(place) => self.nth_node(NodeKind::Join, *place),
                Sender::Outside(label) if label == IDEA_LABEL => Some(NodeId(0)),
                Sender::Outside(label) => self.named_node(NodeKind::Label, label),
            };
            let to = match to {
                Recipient::Role(role) => self.role_node(*role),
                Recipient::Join(place) => self.nth_node(NodeKind::Join, *place),
                Recipient::Outside(name) => self.named_node(NodeKind::Outside, name),
            };
            if let (Some(from), Some(to)) = (from, to) {
                *counts.entry((from, to)).or_default() += count;
            }
        }
        counts
    }

    /// Sets how often each edge was taken, where that is known: not if several edges lead from one node
    /// to the same other one.
    fn count_edges(&mut self, counts: &BTreeMap<(NodeId, NodeId), usize>, run: &ObservedRun) {
        let mut parallel: BTreeMap<(NodeId, NodeId), usize> = BTreeMap::new();
        for edge in &self.edges {
            *parallel.entry((edge.from, edge.to)).or_default() += 1;
        }
        let members = self.members();
        let mut called: BTreeMap<(NodeId, NodeId), usize> = BTreeMap::new();
        for ((from, to), count) in &run.calls {
            if let (Some(from), Some(to)) = (self.role_node(*from), self.role_node(*to)) {
                called.insert((from, to), *count);
            }
        }
        let count_of = |from: NodeId, to: NodeId| counts.get(&(from, to)).copied().unwrap_or(0);
        for edge in &mut self.edges {
            let (from, to) = (edge.from, edge.to);
            if parallel.get(&(from, to)).is_some_and(|count| *count > 1) {
                continue;
            }
            edge.taken = match (edge.kind, members.get(&to)) {
                (EdgeKind::Tie, _) => called.get(&(from, to)).copied(),
                // What is sent to a group reaches each member, except for its sender.
                (_, Some(members)) => {
                    let others = members.iter().filter(|member| **member != from);
                    others.map(|member| count_of(from, *member)).min()
                }
                _ => Some(count_of(from, to)),
            };
        }
    }

    /// Adds an edge for each sender and recipient that the team file does not connect.
    fn add_chosen_edges(&mut self, sent: &BTreeMap<(Sender, Recipient), usize>) {
        let ways = self.connected_pairs();
        for ((from, to), count) in sent {
            // Checked before a node is added, because a guest can choose any number of names.
            if self.edges.len() >= MAX_EDGES {
                break;
            }
            let Sender::Role(from) = from else { continue };
            let from = self.role_node(*from);
            let to = match to {
                Recipient::Role(role) => self.role_node(*role),
                Recipient::Join(place) => self.nth_node(NodeKind::Join, *place),
                Recipient::Outside(name) => Some(self.outside_node(name)),
            };
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            if ways.contains(&(from, to)) {
                continue;
            }
            self.edges.push(GraphEdge {
                from,
                to,
                kind: EdgeKind::Chosen,
                label: vec!["chosen at run time".to_owned()],
                taken: Some(*count),
            });
        }
    }

    /// Returns the members of each group.
    fn members(&self) -> BTreeMap<NodeId, Vec<NodeId>> {
        let mut members: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for edge in &self.edges {
            if edge.kind == EdgeKind::Tie && self.nodes[edge.from.0].kind == NodeKind::Group {
                members.entry(edge.from).or_default().push(edge.to);
            }
        }
        members
    }

    /// Returns the pairs of nodes that are connected, directly or through a group.
    fn connected_pairs(&self) -> BTreeSet<(NodeId, NodeId)> {
        let members = self.members();
        let mut ways = BTreeSet::new();
        for edge in &self.edges {
            ways.insert((edge.from, edge.to));
            let of_group = members.get(&edge.to).into_iter().flatten();
            ways.extend(of_group.map(|member| (edge.from, *member)));
        }
        ways
    }

    /// Returns the node of a role. Role nodes follow the idea, in the order of the team.
    fn role_node(&self, id: RoleId) -> Option<NodeId> {
        let is_role = |node: &&GraphNode| matches!(node.kind, NodeKind::Role | NodeKind::Human);
        let node = NodeId(1 + id.index());
        self.nodes.get(node.0).filter(is_role).map(|_| node)
    }

    fn nth_node(&self, kind: NodeKind, place: usize) -> Option<NodeId> {
        self.nodes_with_ids()
            .filter(|(_, node)| node.kind == kind)
            .nth(place)
            .map(|(id, _)| id)
    }

    fn named_node(&self, kind: NodeKind, name: &str) -> Option<NodeId> {
        let name = sanitize(name);
        self.nodes_with_ids()
            .find(|(_, node)| node.kind == kind && node.name == name)
            .map(|(id, _)| id)
    }

    fn outside_node(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.named_node(NodeKind::Outside, name) {
            return id;
        }
        self.nodes.push(GraphNode {
            kind: NodeKind::Outside,
            name: sanitize(name),
            note: "outside".into(),
            actions: Vec::new(),
            cost: String::new(),
        });
        NodeId(self.nodes.len() - 1)
    }
}

impl GraphEdge {
    /// Returns how often it was taken in words, if it was.
    pub(super) fn count_line(&self) -> Option<String> {
        match self.taken {
            None | Some(0) => None,
            Some(1) => Some("once".into()),
            Some(count) => Some(format!("{count} times")),
        }
    }

    /// Returns the lines of its label, beginning with how often it was taken.
    pub(super) fn label_lines(&self) -> Vec<String> {
        let count = self.count_line().into_iter();
        count.chain(self.label.iter().cloned()).collect()
    }
}

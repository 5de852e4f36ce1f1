//! Adds edges for messages of a run that no edge of the team file explains: their recipients were
//! chosen by actions at run time.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::id::RoleId;

use super::text::sanitize;
use super::{EdgeKind, Graph, GraphEdge, GraphNode, MAX_EDGES, NodeId, NodeKind};

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

/// How many messages each role sent to each recipient.
pub type SentMessages = BTreeMap<(RoleId, Recipient), usize>;

impl Graph {
    /// Adds an edge for each sender and recipient that the team file does not connect. The graph
    /// must be that of the team in which the messages were sent.
    pub fn add_observed_edges(&mut self, sent: &SentMessages) {
        let ways = self.connected_pairs();
        for ((from, to), count) in sent {
            // Checked before a node is added, because a guest can choose any number of names.
            if self.edges.len() >= MAX_EDGES {
                break;
            }
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
            let messages = if *count == 1 {
                "1 message".to_owned()
            } else {
                format!("{count} messages")
            };
            let label = vec![messages, "chosen at run time".to_owned()];
            self.edges.push(GraphEdge {
                from,
                to,
                kind: EdgeKind::Chosen,
                label,
            });
        }
    }

    /// Returns the pairs of nodes that are connected, directly or through a group.
    fn connected_pairs(&self) -> BTreeSet<(NodeId, NodeId)> {
        let is_group = |id: NodeId| self.nodes[id.0].kind == NodeKind::Group;
        let mut members: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for edge in self
            .edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Tie && is_group(edge.from))
        {
            members.entry(edge.from).or_default().push(edge.to);
        }
        let mut ways = BTreeSet::new();
        for edge in &self.edges {
            ways.insert((edge.from, edge.to));
            ways.extend(
                members
                    .get(&edge.to)
                    .into_iter()
                    .flatten()
                    .map(|member| (edge.from, *member)),
            );
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

    fn outside_node(&mut self, name: &str) -> NodeId {
        let name = sanitize(name);
        let known = self
            .nodes_with_ids()
            .find(|(_, node)| node.kind == NodeKind::Outside && node.name == name);
        if let Some((id, _)) = known {
            return id;
        }
        self.nodes.push(GraphNode {
            kind: NodeKind::Outside,
            name,
            note: "outside".into(),
            actions: Vec::new(),
        });
        NodeId(self.nodes.len() - 1)
    }
}

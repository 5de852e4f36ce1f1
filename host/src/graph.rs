//! A team as a graph: the idea, roles, joins, groups and the outside as nodes; what carries messages as edges.
//!
//! Here is what a graph is, and nothing of how it looks: it is made from a team in `of_team` and written as text or
//! drawn in `mermaid`, `dot` and `svg`. No component is opened for it.

mod dot;
mod mermaid;
mod observed;
mod of_team;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use strata_core::team::Team;

pub use observed::{Recipient, Sent};

/// More edges than this are no picture for anybody, and without a bound a team in which all watch all would have
/// billions.
const MAX_EDGES: usize = 10_000;

/// A team as a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The team's name.
    pub title: String,
    /// The nodes; an id is a place in here.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
}

/// The place of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// What sends or receives messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Its name in the team file.
    pub name: String,
    /// What else is to be said of it, in a few words; may be empty.
    pub note: String,
    /// The actions of a role.
    pub actions: Vec<String>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// The idea that everything starts from.
    Start,
    /// A role whose actions are components.
    Role,
    /// A role that a person plays.
    Human,
    /// A join.
    Join,
    /// A group of roles.
    Group,
    /// A label that is watched and that no action has: it comes with an emission, or from outside.
    Label,
    /// A recipient outside of the team.
    Outside,
}

/// A way from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Whether messages go this way.
    pub kind: EdgeKind,
    /// What is written at it, a line each; may be empty.
    pub label: Vec<String>,
}

/// Whether messages go an edge's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// They always do.
    Always,
    /// They do if a condition holds.
    Conditional,
    /// They went there in a run, because an action chose so.
    Chosen,
    /// It only tells that the two belong together: a group and its member, a join and a role that it waits for.
    Tie,
}

/// How a graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A flowchart for mermaid, as Markdown pages show it.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture.
    Svg,
}

/// Why a team cannot be drawn.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// It has too many edges for any format.
    #[error("cannot draw the team `{team}`: it has more than {MAX_EDGES} edges")]
    TooManyEdges {
        /// The team's name.
        team: String,
    },
    /// It is too large for a picture.
    #[error(
        "cannot lay out the team `{team}`: it has {size} nodes and edges, at most {most}; try `--format dot`"
    )]
    TooLarge {
        /// The team's name.
        team: String,
        /// How many nodes and edges it has.
        size: usize,
        /// How many can be laid out.
        most: usize,
    },
    /// The layout failed.
    #[error("cannot lay out the team `{team}`: {reason}; try `--format dot`")]
    Layout {
        /// The team's name.
        team: String,
        /// Why.
        reason: String,
    },
}

impl Graph {
    /// The graph of a team.
    pub fn of(team: &Team) -> Result<Self, GraphError> {
        of_team::graph(team)
    }

    /// Writes it in a format, with a line's end at the end.
    pub fn write(&self, format: Format) -> Result<String, GraphError> {
        match format {
            Format::Mermaid => Ok(mermaid::write(self)),
            Format::Dot => Ok(dot::write(self)),
            Format::Svg => svg::write(self),
        }
    }

    /// The nodes with their ids.
    fn numbered(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, node)| (NodeId(i), node))
    }
}

impl NodeKind {
    /// The word for it, as a class of nodes.
    fn class(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Role => "role",
            Self::Human => "human",
            Self::Join => "join",
            Self::Group => "group",
            Self::Label => "label",
            Self::Outside => "outside",
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

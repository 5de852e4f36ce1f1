//! A team as a graph: the nodes are the idea, roles, joins, groups and the outside; the edges are
//! what carries messages.
//!
//! This module defines the graph without its appearance. It is built from a team in `from_team`, and
//! rendered in `mermaid`, `dot` and `svg`. No component is opened for it.

mod dot;
mod from_team;
mod mermaid;
mod observed;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use strata_base::advice::Advice;
use strata_core::record::id::RoleId;
use strata_core::team::Team;

use strata_services::tools::ToolRole;

pub use observed::{ObservedRun, Recipient, Sender};

/// The largest number of edges. More are not readable as a picture, and without a bound a team in
/// which every role watches every other would have billions.
const MAX_EDGES: usize = 10_000;

/// A team as a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The team's name.
    pub title: String,
    /// The nodes. A `NodeId` is an index into this list.
    pub nodes: Vec<GraphNode>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
}

/// Where the nodes and edges of a graph lie, for a program that draws it by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedGraph {
    /// The total width.
    pub width: f64,
    /// The total height.
    pub height: f64,
    /// The nodes, in the order of the graph.
    pub nodes: Vec<PlacedNode>,
    /// The points along each edge with both of its ends, in the order of the graph.
    pub edges: Vec<Vec<(f64, f64)>>,
}

/// Where a node lies: its upper left corner and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedNode {
    /// The distance of its left side from the left.
    pub x: f64,
    /// The distance of its upper side from the top.
    pub y: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

/// The index of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// A sender or receiver of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// What it is.
    pub kind: NodeKind,
    /// Its name in the team file.
    pub name: String,
    /// A short remark about it; may be empty.
    pub note: String,
    /// The actions of a role.
    pub actions: Vec<GraphAction>,
    /// What the role spent in a run; empty if it spent nothing or no run is drawn.
    pub cost: String,
}

/// An action of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphAction {
    /// Its name in the team file.
    pub name: String,
    /// Whether a person has to approve each call of it.
    pub needs_approval: bool,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// The idea with which a run starts.
    Start,
    /// A role whose actions are components.
    Role,
    /// A role that a person plays.
    Human,
    /// A join.
    Join,
    /// A group of roles.
    Group,
    /// A label that is watched although no action has it. Messages with it come from emissions or
    /// from outside.
    Label,
    /// A recipient outside of the team.
    Outside,
}

/// An edge from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Whether messages go this way.
    pub kind: EdgeKind,
    /// The lines of its label; may be empty.
    pub label: Vec<String>,
    /// How often it was taken in a run; `None` if that is not known or no run is drawn.
    pub taken: Option<usize>,
}

/// Whether messages are sent along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// They always are.
    Always,
    /// They are if a condition holds.
    Conditional,
    /// They were in a run, because an action chose the recipient.
    Chosen,
    /// They are not. The edge only shows that two nodes belong together: a group and its member, a
    /// join and a role that it waits for, or a role and one that it calls as a tool.
    Tie,
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderFormat {
    /// A Mermaid flowchart, which can be embedded in Markdown.
    Mermaid,
    /// DOT, for Graphviz.
    Dot,
    /// An SVG image.
    Svg,
    /// An SVG image without a title and a background, for a page that has both.
    EmbeddedSvg,
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
    /// It is too large for automatic layout.
    #[error("cannot lay out the team `{team}`: it has {size} nodes and edges, at most {most}")]
    TooLarge {
        /// The team's name.
        team: String,
        /// How many nodes and edges it has.
        size: usize,
        /// How many can be laid out.
        most: usize,
    },
    /// The layout failed.
    #[error("cannot lay out the team `{team}`: {reason}")]
    Layout {
        /// The team's name.
        team: String,
        /// Why.
        reason: String,
    },
}

impl GraphError {
    /// Returns what the user can do about it, if a command of the program helps.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::TooLarge { .. } | Self::Layout { .. } => Some(Advice::WriteDot),
            Self::TooManyEdges { .. } => None,
        }
    }
}

impl Graph {
    /// Builds the graph of a team. `tool_roles` says which tools people have to approve.
    pub fn from_team(
        team: &Team,
        tool_roles: &BTreeMap<RoleId, ToolRole>,
    ) -> Result<Self, GraphError> {
        from_team::build_graph(team, tool_roles)
    }

    /// Returns where its nodes and edges lie. A team has the same layout each time.
    ///
    /// # Errors
    /// Fails if it is too large.
    pub fn place(&self) -> Result<PlacedGraph, GraphError> {
        svg::place(self)
    }

    /// Renders the graph in a format. The text ends with a line feed.
    pub fn render(&self, format: RenderFormat) -> Result<String, GraphError> {
        match format {
            RenderFormat::Mermaid => Ok(mermaid::render(self)),
            RenderFormat::Dot => Ok(dot::render(self)),
            RenderFormat::Svg => svg::render(self, svg::Frame::WithTitle),
            RenderFormat::EmbeddedSvg => svg::render(self, svg::Frame::None),
        }
    }

    /// Iterates over the nodes with their ids.
    fn nodes_with_ids(&self) -> impl Iterator<Item = (NodeId, &GraphNode)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, node)| (NodeId(i), node))
    }
}

impl NodeKind {
    /// Returns the CSS class of such nodes.
    fn css_class(self) -> &'static str {
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

//! Where cards and lines lie: layers from top to bottom, with room of its own for what is written at an edge.
//!
//! The work is done by `dugong`, which gives labels a place in the layout so that nothing lies upon them.

use dugong::graphlib::{self, GraphOptions};
use dugong::{EdgeLabel, GraphLabel, NodeLabel};

use super::card::Card;
use crate::graph::{Graph, GraphError};

/// What is larger takes more than seconds to lay out, and nobody finds anything in it.
const MAX_SIZE: usize = 1_500;
/// Between the cards of a layer.
const NODE_GAP: f64 = 44.0;
/// Between lines.
const EDGE_GAP: f64 = 18.0;
/// Between layers. A label lies in the middle of it.
const LAYER_GAP: f64 = 60.0;

/// A place in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

/// Where everything lies.
pub struct Placed {
    /// The width of all.
    pub width: f64,
    /// The height of all.
    pub height: f64,
    /// The centres of the nodes, by id.
    pub nodes: Vec<Point>,
    /// The ways of the edges, in their order.
    pub edges: Vec<Way>,
}

/// The way of an edge.
pub struct Way {
    /// What it passes, from end to end.
    pub points: Vec<Point>,
    /// The middle of what is written at it.
    pub label: Option<Point>,
}

/// Lays a graph out.
pub fn place(graph: &Graph, cards: &[Card], labels: &[Card]) -> Result<Placed, GraphError> {
    let size = graph.nodes.len() + graph.edges.len();
    if size > MAX_SIZE {
        return Err(GraphError::TooLarge { team: graph.title.clone(), size, most: MAX_SIZE });
    }
    let failed = |reason: String| GraphError::Layout { team: graph.title.clone(), reason };
    let mut layout = prepare(graph, cards, labels);
    dugong::layout(&mut layout).map_err(|error| failed(error.to_string()))?;
    let lost = || failed("the layout lost a part of it".into());
    collect(graph, &layout).ok_or_else(lost)
}

type Layout = graphlib::Graph<NodeLabel, EdgeLabel, GraphLabel>;

fn prepare(graph: &Graph, cards: &[Card], labels: &[Card]) -> Layout {
    let mut layout: Layout = Layout::new(GraphOptions { directed: true, multigraph: true, compound: false });
    layout.set_graph(GraphLabel { nodesep: NODE_GAP, edgesep: EDGE_GAP, ranksep: LAYER_GAP, ..GraphLabel::default() });
    for ((id, _), card) in graph.numbered().zip(cards) {
        let node = NodeLabel { width: card.width, height: card.height, ..NodeLabel::default() };
        layout.set_node(id.to_string(), node);
    }
    for ((i, edge), label) in graph.edges.iter().enumerate().zip(labels) {
        let edge_label = EdgeLabel { width: label.width, height: label.height, weight: 1.0, ..EdgeLabel::default() };
        let name = Some(i.to_string());
        layout.set_edge_named(edge.from.to_string(), edge.to.to_string(), name, Some(edge_label));
    }
    layout
}

fn collect(graph: &Graph, layout: &Layout) -> Option<Placed> {
    let node = |id: String| {
        let node = layout.node(&id)?;
        Some(Point { x: node.x?, y: node.y? })
    };
    let nodes = graph.numbered().map(|(id, _)| node(id.to_string())).collect::<Option<Vec<_>>>()?;
    let mut edges = Vec::new();
    for (i, edge) in graph.edges.iter().enumerate() {
        let way = layout.edge(&edge.from.to_string(), &edge.to.to_string(), Some(&i.to_string()))?;
        let points = way.points.iter().map(|point| Point { x: point.x, y: point.y }).collect();
        let label = way.x.zip(way.y).filter(|_| !edge.label.is_empty());
        edges.push(Way { points, label: label.map(|(x, y)| Point { x, y }) });
    }
    let label = layout.graph();
    Some(Placed { width: label.width, height: label.height, nodes, edges })
}

//! Positions cards and lines: in layers from top to bottom or from left to right, whichever is
//! smaller, with space of their own for the labels of edges.
//!
//! The layout is computed by `dugong`, which treats labels as part of it so that nothing covers
//! them. Disconnected parts are laid out one by one and arranged in `pack`.

use dugong::graphlib::{self, GraphOptions};
use dugong::{EdgeLabel, GraphLabel, NodeLabel, RankDir};

use super::card::Card;
use super::geometry::{EdgePath, GraphLayout, Point};
use super::pack::{self, ConnectedPart};
use crate::graph::{Graph, GraphError};

/// The largest number of nodes and edges together. Larger graphs take many seconds to lay out and
/// are not readable.
const MAX_NODES_AND_EDGES: usize = 1_500;
/// The distance between the cards of a layer.
const NODE_GAP: f64 = 44.0;
/// The distance between lines.
const EDGE_GAP: f64 = 18.0;
/// The distance between layers. Labels are in the middle of it.
const LAYER_GAP: f64 = 60.0;

/// Lays out a graph.
pub fn lay_out(graph: &Graph, cards: &[Card], labels: &[Card]) -> Result<GraphLayout, GraphError> {
    let size = graph.nodes.len() + graph.edges.len();
    if size > MAX_NODES_AND_EDGES {
        return Err(GraphError::TooLarge {
            team: graph.title.clone(),
            size,
            most: MAX_NODES_AND_EDGES,
        });
    }
    let parts = pack::connected_parts(graph);
    let blocks = parts
        .iter()
        .map(|part| lay_out_part(graph, part, cards, labels))
        .collect::<Result<Vec<_>, _>>();
    let blocks = blocks.map_err(|reason| GraphError::Layout {
        team: graph.title.clone(),
        reason,
    })?;
    Ok(pack::arrange(graph, &parts, blocks))
}

type DugongGraph = graphlib::Graph<NodeLabel, EdgeLabel, GraphLabel>;

/// Lays out a connected part of a graph by itself.
fn lay_out_part(
    graph: &Graph,
    part: &ConnectedPart,
    cards: &[Card],
    labels: &[Card],
) -> Result<GraphLayout, String> {
    if let ([node], []) = (part.nodes.as_slice(), part.edges.as_slice()) {
        let (width, height) = (cards[node.0].width, cards[node.0].height);
        let middle = Point {
            x: width / 2.0,
            y: height / 2.0,
        };
        return Ok(GraphLayout {
            width,
            height,
            nodes: vec![middle],
            edges: Vec::new(),
        });
    }
    let lay_out = |direction: RankDir| {
        let mut layout = to_dugong(graph, part, cards, labels);
        layout.graph_mut().rankdir = direction;
        dugong::layout(&mut layout).map_err(|error| error.to_string())?;
        let placed = from_dugong(graph, part, &layout);
        placed.ok_or_else(|| "the layout lost a part of it".to_owned())
    };
    let vertical = lay_out(RankDir::TB)?;
    let horizontal = lay_out(RankDir::LR)?;
    // What is wider than a screen has to be scrolled or made smaller.
    let is_smaller = horizontal.area() < vertical.area() && horizontal.width <= pack::MAX_ROW_WIDTH;
    Ok(if is_smaller { horizontal } else { vertical })
}

fn to_dugong(graph: &Graph, part: &ConnectedPart, cards: &[Card], labels: &[Card]) -> DugongGraph {
    let mut layout: DugongGraph = DugongGraph::new(GraphOptions {
        directed: true,
        multigraph: true,
        compound: false,
    });
    layout.set_graph(GraphLabel {
        nodesep: NODE_GAP,
        edgesep: EDGE_GAP,
        ranksep: LAYER_GAP,
        ..GraphLabel::default()
    });
    for id in &part.nodes {
        let card = &cards[id.0];
        let node = NodeLabel {
            width: card.width,
            height: card.height,
            ..NodeLabel::default()
        };
        layout.set_node(id.to_string(), node);
    }
    for i in &part.edges {
        let (edge, label) = (&graph.edges[*i], &labels[*i]);
        let edge_label = EdgeLabel {
            width: label.width,
            height: label.height,
            weight: 1.0,
            ..EdgeLabel::default()
        };
        let name = Some(i.to_string());
        layout.set_edge_named(
            edge.from.to_string(),
            edge.to.to_string(),
            name,
            Some(edge_label),
        );
    }
    layout
}

fn from_dugong(graph: &Graph, part: &ConnectedPart, layout: &DugongGraph) -> Option<GraphLayout> {
    let node = |id: String| {
        let node = layout.node(&id)?;
        Some(Point {
            x: node.x?,
            y: node.y?,
        })
    };
    let nodes = part
        .nodes
        .iter()
        .map(|id| node(id.to_string()))
        .collect::<Option<Vec<_>>>()?;
    let mut edges = Vec::new();
    for i in &part.edges {
        let edge = &graph.edges[*i];
        let way = layout.edge(
            &edge.from.to_string(),
            &edge.to.to_string(),
            Some(&i.to_string()),
        )?;
        let points = way
            .points
            .iter()
            .map(|point| Point {
                x: point.x,
                y: point.y,
            })
            .collect();
        let label = way.x.zip(way.y).filter(|_| !edge.label_lines().is_empty());
        edges.push(EdgePath {
            points,
            label: label.map(|(x, y)| Point { x, y }),
            is_horizontal: layout.graph().rankdir == RankDir::LR,
            ends: [None; 2],
        });
    }
    let label = layout.graph();
    Some(GraphLayout {
        width: label.width,
        height: label.height,
        nodes,
        edges,
    })
}

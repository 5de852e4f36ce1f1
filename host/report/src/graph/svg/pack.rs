//! Splits a graph into its connected parts, and arranges their layouts in rows.

use super::geometry::{EdgePath, GraphLayout, Point};
use crate::graph::{Graph, NodeId};

/// The distance between parts.
const PART_GAP: f64 = 56.0;
/// The largest width of a row, unless a single part is wider. Wider images do not fit on a screen.
pub const MAX_ROW_WIDTH: f64 = 1_200.0;

/// Nodes that are connected by edges, and these edges.
#[derive(Default)]
pub struct ConnectedPart {
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// The edges, by their indices in the graph.
    pub edges: Vec<usize>,
}

/// Splits a graph into its connected parts. They are in the order of their first nodes; nodes
/// without edges follow after all others.
pub fn connected_parts(graph: &Graph) -> Vec<ConnectedPart> {
    let mut leads: Vec<usize> = (0..graph.nodes.len()).collect();
    for edge in &graph.edges {
        let (a, b) = (
            find_root(&mut leads, edge.from.0),
            find_root(&mut leads, edge.to.0),
        );
        leads[a.max(b)] = a.min(b);
    }
    let mut parts: Vec<ConnectedPart> = graph
        .nodes
        .iter()
        .map(|_| ConnectedPart::default())
        .collect();
    for (id, _) in graph.nodes_with_ids() {
        parts[find_root(&mut leads, id.0)].nodes.push(id);
    }
    for (i, edge) in graph.edges.iter().enumerate() {
        parts[find_root(&mut leads, edge.from.0)].edges.push(i);
    }
    parts.retain(|part| !part.nodes.is_empty());
    parts.sort_by_key(|part| part.edges.is_empty());
    parts
}

/// Returns the first node of the part that a node belongs to, according to the edges so far
/// (union-find with path halving).
fn find_root(leads: &mut [usize], mut node: usize) -> usize {
    while leads[node] != node {
        leads[node] = leads[leads[node]];
        node = leads[node];
    }
    node
}

/// Arranges the layouts of the parts in one layout.
pub fn arrange(graph: &Graph, parts: &[ConnectedPart], blocks: Vec<GraphLayout>) -> GraphLayout {
    let widest = blocks
        .iter()
        .map(|block| block.width)
        .fold(MAX_ROW_WIDTH, f64::max);
    let mut all = GraphLayout {
        nodes: vec![Point::default(); graph.nodes.len()],
        edges: vec![EdgePath::default(); graph.edges.len()],
        ..GraphLayout::default()
    };
    let (mut corner, mut row_height) = (Point::default(), 0.0_f64);
    // Nodes without edges begin in a new row.
    let mut joined = true;
    for (part, block) in parts.iter().zip(blocks) {
        let starts_row = joined && part.edges.is_empty();
        joined = !part.edges.is_empty();
        if corner.x > 0.0 && (starts_row || corner.x + block.width > widest) {
            corner = Point {
                x: 0.0,
                y: corner.y + row_height + PART_GAP,
            };
            row_height = 0.0;
        }
        let moved = |point: Point| Point {
            x: point.x + corner.x,
            y: point.y + corner.y,
        };
        for (id, at) in part.nodes.iter().zip(block.nodes) {
            all.nodes[id.0] = moved(at);
        }
        for (i, way) in part.edges.iter().zip(block.edges) {
            let points = way.points.into_iter().map(moved).collect();
            all.edges[*i] = EdgePath {
                points,
                label: way.label.map(moved),
                is_horizontal: way.is_horizontal,
                ends: way.ends,
            };
        }
        all.width = all.width.max(corner.x + block.width);
        all.height = all.height.max(corner.y + block.height);
        row_height = row_height.max(block.height);
        corner.x += block.width + PART_GAP;
    }
    all
}

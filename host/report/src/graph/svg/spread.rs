//! Spreads the ends of lines that meet the same side of a card over that side, in the order in which
//! they come, so that neither the lines nor their arrowheads lie upon each other.

use std::collections::BTreeMap;

use super::card::{self, Card};
use super::geometry::{CardEnd, GraphLayout};
use crate::graph::{Graph, NodeId};

/// The distance between the ends of lines on a side that is long enough.
const END_GAP: f64 = 22.0;

/// How much flatter than the diagonal of a card a line may be that meets the side in the direction of
/// the layers.
const MAX_SLANT: f64 = 2.0;

/// An end of an edge: its index, and whether it is the end at which the edge arrives.
type EdgeEnd = (usize, bool);

/// A side of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Side {
    card: NodeId,
    is_left_or_right: bool,
    /// Whether it is the side of the greater coordinates.
    is_far: bool,
}

/// Sets where lines meet the sides of cards that several of them meet.
pub fn spread_ends(graph: &Graph, cards: &[Card], placed: &mut GraphLayout) {
    let mut sides: BTreeMap<Side, Vec<(f64, EdgeEnd)>> = BTreeMap::new();
    for (index, (edge, way)) in graph.edges.iter().zip(&placed.edges).enumerate() {
        let last = way.points.len().saturating_sub(1);
        if last < 2 || edge.from == edge.to {
            continue;
        }
        for (id, next, arrives) in [(edge.from, 1, false), (edge.to, last - 1, true)] {
            let (centre, next) = (placed.nodes[id.0], way.points[next]);
            let (x, y) = (next.x - centre.x, next.y - centre.y);
            let (side, order) = side_of(id, &cards[id.0], (x, y), way.is_horizontal);
            sides
                .entry(side)
                .or_default()
                .push((order, (index, arrives)));
        }
    }
    for (side, mut ends) in sides {
        if ends.len() < 2 {
            continue;
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let gaps = (ends.len() - 1) as f64;
        let reach = card::side_reach(&cards[side.card.0], side.is_left_or_right);
        let gap = (2.0 * reach / gaps).min(END_GAP);
        for (place, (_, (index, arrives))) in ends.into_iter().enumerate() {
            let way = &mut placed.edges[index];
            way.ends[usize::from(arrives)] = Some(CardEnd {
                is_left_or_right: side.is_left_or_right,
                offset: gap * (place as f64 - gaps / 2.0),
                is_perpendicular: side.is_left_or_right == way.is_horizontal,
            });
        }
    }
}

/// Returns the side at which a line leaves a card in a direction, and its place in the order of the
/// lines there. Lines leave in the direction in which the layers follow each other, unless that would
/// make them run along the layer.
fn side_of(id: NodeId, card: &Card, (x, y): (f64, f64), is_horizontal: bool) -> (Side, f64) {
    let (along_x, along_y) = (x.abs() / card.width, y.abs() / card.height);
    let is_left_or_right = if is_horizontal {
        along_x * MAX_SLANT > along_y
    } else {
        along_x > along_y * MAX_SLANT
    };
    let (ahead, across) = if is_left_or_right { (x, y) } else { (y, x) };
    let is_far = ahead > 0.0;
    let side = Side {
        card: id,
        is_left_or_right,
        is_far,
    };
    // The flatter of two lines that come from the same layer meets a lateral side farther from it.
    let order = if is_left_or_right == is_horizontal {
        across
    } else {
        across / ahead.abs().max(1.0)
    };
    (side, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::svg::geometry::{EdgePath, Point};
    use crate::graph::{EdgeKind, GraphEdge, GraphNode, NodeKind};

    #[test]
    fn lines_meet_a_side_in_the_order_in_which_they_come() {
        let node = |name: &str| GraphNode {
            kind: NodeKind::Role,
            name: name.into(),
            note: String::new(),
            actions: Vec::new(),
            cost: String::new(),
        };
        let edge = |from| GraphEdge {
            from: NodeId(from),
            to: NodeId(0),
            kind: EdgeKind::Always,
            label: Vec::new(),
            taken: None,
        };
        let graph = Graph {
            title: String::new(),
            nodes: vec![
                node("a long name of a role"),
                node("x"),
                node("y"),
                node("z"),
            ],
            edges: vec![edge(3), edge(1), edge(2)],
        };
        let cards: Vec<Card> = graph.nodes.iter().map(Card::for_node).collect();
        let at = |x: f64, y: f64| Point { x, y };
        let ends_from = |places: [f64; 3]| {
            let nodes = vec![
                at(0.0, 200.0),
                at(places[0], 0.0),
                at(places[1], 0.0),
                at(places[2], 0.0),
            ];
            let way = |from: usize| EdgePath {
                points: vec![nodes[from], at(nodes[from].x, 130.0), nodes[0]],
                ..EdgePath::default()
            };
            let mut placed = GraphLayout {
                edges: vec![way(3), way(1), way(2)],
                nodes: nodes.clone(),
                ..GraphLayout::default()
            };
            spread_ends(&graph, &cards, &mut placed);
            placed
                .edges
                .iter()
                .map(|edge| edge.ends[1])
                .collect::<Vec<_>>()
        };
        let end = |is_left_or_right: bool, offset: f64| {
            Some(CardEnd {
                is_left_or_right,
                offset,
                is_perpendicular: !is_left_or_right,
            })
        };
        let at_top = [end(false, END_GAP), end(false, -END_GAP), end(false, 0.0)];
        assert_eq!(ends_from([-90.0, 0.0, 90.0]), at_top);
        // Flat lines meet the left side, the flattest one farthest from the layer of its label.
        let ends = ends_from([-2000.0, -1000.0, 0.0]);
        let offset = |place: usize| ends[place].map(|end: CardEnd| end.offset);
        assert_eq!(ends[0], None, "it is alone at its side");
        assert!(ends[1].is_some_and(|end| end.is_left_or_right), "{ends:?}");
        assert!(offset(1) > offset(2), "{ends:?}");
    }
}

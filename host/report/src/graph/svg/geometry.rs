//! The positions of nodes and edges in the image.

/// A point in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The distance from the left.
    pub x: f64,
    /// The distance from the top.
    pub y: f64,
}

/// The positions of all nodes and edges.
#[derive(Default)]
pub struct GraphLayout {
    /// The total width.
    pub width: f64,
    /// The total height.
    pub height: f64,
    /// The centres of the nodes, by id.
    pub nodes: Vec<Point>,
    /// The paths of the edges, in the order of the graph.
    pub edges: Vec<EdgePath>,
}

impl GraphLayout {
    pub fn area(&self) -> f64 {
        self.width * self.height
    }
}

/// The path of an edge.
#[derive(Clone, Default)]
pub struct EdgePath {
    /// The points along the path, including both ends.
    pub points: Vec<Point>,
    /// The centre of the label, if there is one.
    pub label: Option<Point>,
    /// Whether it leads from left to right, rather than from top to bottom.
    pub is_horizontal: bool,
    /// Where it begins and ends; `None` if it does so where it points to the centre of the card.
    pub ends: [Option<CardEnd>; 2],
}

/// Where a line meets a card that other lines meet at the same side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CardEnd {
    /// Whether the side is the left or the right one, rather than the top or the bottom.
    pub is_left_or_right: bool,
    /// The distance from the middle of the side.
    pub offset: f64,
    /// Whether it meets the side at a right angle.
    pub is_perpendicular: bool,
}

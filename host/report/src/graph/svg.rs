//! Renders a graph as a self-contained SVG image that is legible on light and dark pages.
//!
//! `card` measures nodes and labels, `layout` positions them, `spread` says where lines meet cards, and
//! `curve` computes the lines of edges; this module writes the SVG. Colours and fonts are in `style.css`.

mod card;
mod curve;
mod geometry;
mod layout;
mod pack;
mod spread;

use std::fmt::Write;

use self::card::{Card, TextLine, TextStyle, estimate_width};
use self::geometry::{GraphLayout, Point};
use super::{EdgeKind, Graph, GraphEdge, GraphError, GraphNode, NodeKind, PlacedGraph, PlacedNode};

/// The margin around the drawing.
const MARGIN: f64 = 28.0;
/// The margin without a frame: room for the lines.
const EMBEDDED_MARGIN: f64 = 4.0;
/// The height that the title takes above the drawing.
const HEADER: f64 = 44.0;
/// The baseline of the title.
const TITLE_BASELINE: f64 = 36.0;
/// The length at which the title is truncated, in columns.
const TITLE_COLUMNS: usize = 60;

const CSS: &str = include_str!("svg/style.css");

/// What is drawn around a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A background and the title.
    WithTitle,
    /// Nothing.
    None,
}

/// Returns where the nodes and edges of a graph lie.
pub fn place(graph: &Graph) -> Result<PlacedGraph, GraphError> {
    let cards: Vec<Card> = graph.nodes.iter().map(Card::for_node).collect();
    let labels: Vec<Card> = graph.edges.iter().map(Card::for_edge_label).collect();
    let placed = layout::lay_out(graph, &cards, &labels)?;
    let nodes = placed
        .nodes
        .iter()
        .zip(&cards)
        .map(|(at, card)| PlacedNode {
            x: at.x - card.width / 2.0,
            y: at.y - card.height / 2.0,
            width: card.width,
            height: card.height,
        });
    let points = |path: &geometry::EdgePath| path.points.iter().map(|at| (at.x, at.y)).collect();
    Ok(PlacedGraph {
        width: placed.width,
        height: placed.height,
        nodes: nodes.collect(),
        edges: placed.edges.iter().map(points).collect(),
    })
}

/// Draws a graph.
pub fn render(graph: &Graph, frame: Frame) -> Result<String, GraphError> {
    let cards: Vec<Card> = graph.nodes.iter().map(Card::for_node).collect();
    let labels: Vec<Card> = graph.edges.iter().map(Card::for_edge_label).collect();
    let mut placed = layout::lay_out(graph, &cards, &labels)?;
    spread::spread_ends(graph, &cards, &mut placed);
    let title = super::text::wrap(&graph.title, TITLE_COLUMNS, 1).concat();
    let (margin, header, title_width) = match frame {
        Frame::WithTitle => (MARGIN, HEADER, estimate_width(&title, TextStyle::Title)),
        Frame::None => (EMBEDDED_MARGIN, 0.0, 0.0),
    };
    let wide = placed.width.max(title_width) + 2.0 * margin;
    let high = placed.height + header + 2.0 * margin;

    let mut svg = Svg::default();
    svg.push_line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"strata-graph\" role=\"img\" viewBox=\"0 0 {wide:.0} \
         {high:.0}\" width=\"{wide:.0}\" height=\"{high:.0}\">"
    ));
    svg.push_line(format_args!("<title>{}</title>", escape(&graph.title)));
    svg.push_line(format_args!("<style>\n{}</style>", CSS.trim_start()));
    svg.push_line(format_args!(
        "<defs><marker id=\"strata-arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" \
         markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"arrow\" d=\"M0 0.8 10 5 0 \
         9.2z\"/></marker></defs>"
    ));
    if frame == Frame::WithTitle {
        svg.push_line(format_args!(
            "<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"8\"/>"
        ));
        svg.push_line(format_args!(
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{TITLE_BASELINE}\">{}</text>",
            escape(&title)
        ));
    }
    let left = margin + (wide - 2.0 * margin - placed.width) / 2.0;
    svg.push_line(format_args!(
        "<g transform=\"translate({left:.1} {:.1})\">",
        margin + header
    ));
    svg.draw_edges(graph, &cards, &placed);
    for ((node, card), at) in graph.nodes.iter().zip(&cards).zip(&placed.nodes) {
        svg.draw_node(node, card, *at);
    }
    // Labels are drawn last, so that those that a line crosses stay legible.
    for ((edge, card), placed) in graph.edges.iter().zip(&labels).zip(&placed.edges) {
        svg.draw_label(edge, card, placed.label);
    }
    svg.push_line(format_args!("</g>"));
    svg.push_line(format_args!("</svg>"));
    Ok(svg.0)
}

/// The text of the image.
#[derive(Default)]
struct Svg(String);

impl Svg {
    fn push_line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{text}");
    }

    fn draw_edges(&mut self, graph: &Graph, cards: &[Card], placed: &GraphLayout) {
        for (edge, way) in graph.edges.iter().zip(&placed.edges) {
            let path = curve::edge_path(way, edge, cards, &placed.nodes);
            let class = match edge.kind {
                EdgeKind::Always => "edge",
                EdgeKind::Conditional => "edge conditional",
                EdgeKind::Chosen => "edge conditional chosen",
                EdgeKind::Tie => "edge tie",
            };
            let unused = if edge.taken == Some(0) { " unused" } else { "" };
            self.push_line(format_args!(
                "<path class=\"{class}{unused}\" d=\"{path}\"/>"
            ));
        }
    }

    fn draw_node(&mut self, node: &GraphNode, card: &Card, at: Point) {
        let (x, y) = (at.x, at.y);
        self.push_line(format_args!(
            "<g class=\"node {}\" transform=\"translate({x:.1} {y:.1})\">",
            node.kind.css_class()
        ));
        self.push_line(format_args!("<title>{}</title>", escape(&node.name)));
        self.draw_outline(card);
        if let Some(y) = card.rule {
            let half = card.width / 2.0 - 12.0;
            self.push_line(format_args!(
                "<path class=\"rule\" d=\"M{:.1} {y:.1}H{half:.1}\"/>",
                -half
            ));
        }
        for line in &card.lines {
            self.draw_text(line);
        }
        self.push_line(format_args!("</g>"));
    }

    fn draw_outline(&mut self, card: &Card) {
        let (w, h) = (card.width, card.height);
        let (left, top) = (-w / 2.0, -h / 2.0);
        let mut rect = |dx: f64, rx: f64| {
            let (x, y) = (left + dx, top + dx);
            self.push_line(format_args!(
                "<rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"{rx:.1}\"/>"
            ));
        };
        match card.kind {
            NodeKind::Role | NodeKind::Outside => rect(0.0, 8.0),
            NodeKind::Start | NodeKind::Human => rect(0.0, card::pill_radius(card)),
            // Two cards, one behind the other.
            NodeKind::Group => {
                rect(4.0, 6.0);
                rect(0.0, 6.0);
            }
            NodeKind::Join => {
                let corners = card::outline_corners(card)
                    .iter()
                    .map(|p| format!("{:.1},{:.1}", p.x, p.y))
                    .collect::<Vec<_>>();
                self.push_line(format_args!(
                    "<polygon class=\"box\" points=\"{}\"/>",
                    corners.join(" ")
                ));
            }
            NodeKind::Label => {}
        }
        if card.kind == NodeKind::Human {
            let x = left + card::PERSON_X;
            self.push_line(format_args!(
                "<path class=\"person\" d=\"M{x:.1} -8a4 4 0 1 1 0.01 0zM{:.1} 9a8 8 0 0 1 16 0z\"/>",
                x - 8.0
            ));
        }
    }

    fn draw_text(&mut self, line: &TextLine) {
        let (class, x, y) = (line.style.css_class(), line.x, line.y);
        let text = escape(&line.text);
        // The widths of non-ASCII characters differ between fonts, so the viewer fits such a text
        // into the estimated width.
        let fitted = if line.text.is_ascii() {
            String::new()
        } else {
            format!(
                " textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"",
                estimate_width(&line.text, line.style)
            )
        };
        self.push_line(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{fitted}>{text}</text>"
        ));
        if let Some(x) = line.lock_x {
            self.draw_lock(x, y);
        }
    }

    /// Draws a lock, 8 wide and 10 high, on the baseline at `y`.
    fn draw_lock(&mut self, x: f64, y: f64) {
        let top = y - 5.5;
        self.push_line(format_args!(
            "<path class=\"lock\" d=\"M{:.1} {top:.1}v-1.5a2.5 2.5 0 0 1 5 0v1.5\"/><rect class=\"lock-body\" \
             x=\"{x:.1}\" y=\"{top:.1}\" width=\"8\" height=\"6\" rx=\"1\"><title>a person approves each call</title></rect>",
            x + 1.5
        ));
    }

    fn draw_label(&mut self, edge: &GraphEdge, card: &Card, at: Option<Point>) {
        let Some(at) = at.filter(|_| !card.lines.is_empty()) else {
            return;
        };
        let class = match edge.kind {
            EdgeKind::Conditional => "at conditional",
            EdgeKind::Chosen => "at chosen",
            EdgeKind::Always | EdgeKind::Tie => "at",
        };
        let (w, h) = (card.width, card.height);
        self.push_line(format_args!(
            "<g class=\"{class}\" transform=\"translate({:.1} {:.1})\">",
            at.x, at.y
        ));
        self.push_line(format_args!(
            "<title>{}</title>",
            escape(&edge.label_lines().join(" "))
        ));
        self.push_line(format_args!(
            "<rect class=\"page\" x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"4\"/>",
            -w / 2.0,
            -h / 2.0
        ));
        for line in &card.lines {
            self.draw_text(line);
        }
        self.push_line(format_args!("</g>"));
    }
}

/// Escapes a text for element content or an attribute value.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

//! Renders a graph as DOT, for Graphviz. Nodes are identified by their names, so that the text can
//! be read and searched.

use std::fmt::Write;

use super::text::wrap;
use super::{EdgeKind, Graph, GraphEdge, GraphNode, NodeKind};

/// The length at which names and conditions are broken into lines, in columns.
const MAX_COLUMNS: usize = 40;

/// Renders a graph as DOT.
pub fn render(graph: &Graph) -> String {
    let mut out = String::new();
    let title = quote(&graph.title);
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format!("digraph {title} {{"));
    line(format!(
        "  graph [label={}, labelloc=t, fontname=\"Helvetica,Arial,sans-serif\"];",
        quote_label(std::slice::from_ref(&graph.title))
    ));
    line("  node [shape=box, style=rounded, fontname=\"Helvetica,Arial,sans-serif\"];".into());
    line("  edge [fontname=\"Helvetica,Arial,sans-serif\", fontsize=11];".into());
    for node in &graph.nodes {
        line(format!("  {} [{}];", quoted_id(node), attributes(node)));
    }
    for edge in &graph.edges {
        let [from, to] = [edge.from, edge.to].map(|end| quoted_id(&graph.nodes[end.0]));
        line(format!("  {from} -> {to}{};", edge_attributes(edge)));
    }
    line("}".into());
    out
}

/// Returns the id of a node. The names of a team are unique and do not begin with a space, so the
/// ids of nodes without a name begin with one.
fn quoted_id(node: &GraphNode) -> String {
    match node.kind {
        NodeKind::Start => quote(" idea"),
        NodeKind::Label => quote(&format!(" label {}", node.name)),
        NodeKind::Outside => quote(&format!(" outside {}", node.name)),
        NodeKind::Role | NodeKind::Human | NodeKind::Join | NodeKind::Group => quote(&node.name),
    }
}

fn attributes(node: &GraphNode) -> String {
    let look = match node.kind {
        NodeKind::Start => ", shape=oval, style=bold",
        NodeKind::Role => "",
        NodeKind::Human => ", shape=oval, style=solid",
        NodeKind::Join => ", shape=hexagon, style=solid",
        NodeKind::Group => ", shape=folder, style=solid",
        NodeKind::Label => ", shape=plaintext",
        NodeKind::Outside => ", style=dashed",
    };
    let mut lines = wrap(&node.name, MAX_COLUMNS, usize::MAX);
    lines.extend(
        wrap(&node.note, MAX_COLUMNS, usize::MAX)
            .into_iter()
            .filter(|line| !line.is_empty()),
    );
    lines.extend(
        node.actions
            .iter()
            .flat_map(|action| wrap(&action.name, MAX_COLUMNS, usize::MAX)),
    );
    format!("label={}{look}", quote_label(&lines))
}

fn edge_attributes(edge: &GraphEdge) -> String {
    let look = match edge.kind {
        EdgeKind::Always => None,
        EdgeKind::Conditional => Some("style=dashed".to_owned()),
        EdgeKind::Chosen => Some("style=dashed, color=chocolate".to_owned()),
        EdgeKind::Tie => Some("style=dotted, arrowhead=none".to_owned()),
    };
    let lines: Vec<String> = edge
        .label_lines()
        .iter()
        .flat_map(|line| wrap(line, MAX_COLUMNS, usize::MAX))
        .collect();
    let label = (!lines.is_empty()).then(|| format!("label={}", quote_label(&lines)));
    let all: Vec<String> = label.into_iter().chain(look).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!(" [{}]", all.join(", "))
    }
}

/// Quotes a label of several lines.
fn quote_label(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    format!("\"{}\"", lines.join("\\n"))
}

/// Quotes an id.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Escapes a line of a label. Graphviz interprets HTML entities, so `&` is escaped, too.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('&', "&amp;")
}

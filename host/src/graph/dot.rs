//! Renders a graph as DOT, for Graphviz. Nodes are identified by their names, so that the text can
//! be read and searched.

use std::fmt::Write;

use super::text::wrap;
use super::{Edge, EdgeKind, Graph, Node, NodeKind};

/// The length at which names and conditions are broken into lines, in columns.
const COLUMNS: usize = 40;

/// Renders a graph as DOT.
pub fn write(graph: &Graph) -> String {
    let mut out = String::new();
    let title = quote(&graph.title);
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format!("digraph {title} {{"));
    line(format!(
        "  graph [label={}, labelloc=t, fontname=\"Helvetica,Arial,sans-serif\"];",
        label(std::slice::from_ref(&graph.title))
    ));
    line("  node [shape=box, style=rounded, fontname=\"Helvetica,Arial,sans-serif\"];".into());
    line("  edge [fontname=\"Helvetica,Arial,sans-serif\", fontsize=11];".into());
    for node in &graph.nodes {
        line(format!("  {} [{}];", id(node), attributes(node)));
    }
    for edge in &graph.edges {
        let [from, to] = [edge.from, edge.to].map(|end| id(&graph.nodes[end.0]));
        line(format!("  {from} -> {to}{};", edge_attributes(edge)));
    }
    line("}".into());
    out
}

/// Returns the id of a node. The names of a team are unique and do not begin with a space, so the
/// ids of nodes without a name begin with one.
fn id(node: &Node) -> String {
    match node.kind {
        NodeKind::Start => quote(" idea"),
        NodeKind::Label => quote(&format!(" label {}", node.name)),
        NodeKind::Outside => quote(&format!(" outside {}", node.name)),
        NodeKind::Role | NodeKind::Human | NodeKind::Join | NodeKind::Group => quote(&node.name),
    }
}

fn attributes(node: &Node) -> String {
    let look = match node.kind {
        NodeKind::Start => ", shape=oval, style=bold",
        NodeKind::Role => "",
        NodeKind::Human => ", shape=oval, style=solid",
        NodeKind::Join => ", shape=hexagon, style=solid",
        NodeKind::Group => ", shape=folder, style=solid",
        NodeKind::Label => ", shape=plaintext",
        NodeKind::Outside => ", style=dashed",
    };
    let mut lines = wrap(&node.name, COLUMNS, usize::MAX);
    lines.extend(
        wrap(&node.note, COLUMNS, usize::MAX)
            .into_iter()
            .filter(|line| !line.is_empty()),
    );
    lines.extend(
        node.actions
            .iter()
            .flat_map(|action| wrap(action, COLUMNS, usize::MAX)),
    );
    format!("label={}{look}", label(&lines))
}

fn edge_attributes(edge: &Edge) -> String {
    let look = match edge.kind {
        EdgeKind::Always => None,
        EdgeKind::Conditional => Some("style=dashed".to_owned()),
        EdgeKind::Chosen => Some("style=dashed, color=chocolate".to_owned()),
        EdgeKind::Tie => Some("style=dotted, arrowhead=none".to_owned()),
    };
    let lines: Vec<String> = edge
        .label
        .iter()
        .flat_map(|line| wrap(line, COLUMNS, usize::MAX))
        .collect();
    let label = (!lines.is_empty()).then(|| format!("label={}", label(&lines)));
    let all: Vec<String> = label.into_iter().chain(look).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!(" [{}]", all.join(", "))
    }
}

/// Quotes a label of several lines.
fn label(lines: &[String]) -> String {
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

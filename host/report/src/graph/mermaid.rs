//! Renders a graph as a Mermaid flowchart. Nodes have numbers as ids, because which names are
//! allowed, and which words are reserved, differs between versions of Mermaid.

use std::fmt::Write;

use super::{EdgeKind, Graph, GraphEdge, GraphNode, NodeId, NodeKind};

/// Renders a graph as a flowchart.
pub fn render(graph: &Graph) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line("flowchart TB".into());
    line(format!("  accTitle: {}", escape(&graph.title)));
    for (id, node) in graph.nodes_with_ids() {
        line(format!("  {}", node_declaration(id, node)));
    }
    for edge in &graph.edges {
        line(format!("  {}", edge_declaration(edge)));
    }
    line("  classDef join stroke-width:2px".into());
    line("  classDef label fill:none,stroke:none".into());
    line("  classDef outside stroke-dasharray:4 4".into());
    out
}

/// Returns the declaration of a node, with the shape of its kind.
fn node_declaration(id: NodeId, node: &GraphNode) -> String {
    let actions = node.actions.iter().map(|action| &action.name);
    let lines = [&node.name, &node.note].into_iter().chain(actions);
    let text = quote_lines(lines.filter(|line| !line.is_empty()));
    match node.kind {
        NodeKind::Start => format!("{id}(({text}))"),
        NodeKind::Role => format!("{id}[{text}]"),
        NodeKind::Human => format!("{id}([{text}])"),
        NodeKind::Join => format!("{id}{{{{{text}}}}}:::join"),
        NodeKind::Group => format!("{id}[[{text}]]"),
        NodeKind::Label => format!("{id}[{text}]:::label"),
        NodeKind::Outside => format!("{id}[{text}]:::outside"),
    }
}

fn edge_declaration(edge: &GraphEdge) -> String {
    let GraphEdge { from, to, .. } = edge;
    let line = match edge.kind {
        EdgeKind::Always => "-->",
        EdgeKind::Conditional | EdgeKind::Chosen => "-.->",
        EdgeKind::Tie => "---",
    };
    let label = edge.label_lines();
    if label.is_empty() {
        format!("{from} {line} {to}")
    } else {
        format!("{from} {line}|{}| {to}", quote_lines(label.iter()))
    }
}

/// Quotes a text of several lines.
fn quote_lines<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    let lines: Vec<String> = lines.map(|line| escape(line)).collect();
    format!("\"{}\"", lines.join("<br/>"))
}

/// Escapes characters that may have a meaning in Mermaid, Markdown or HTML as numeric entities.
/// Letters, digits and harmless punctuation stay readable.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            ' ' | '-' | ',' | ':' | '(' | ')' | '/' | '=' | '!' | '?' | '\'' => escaped.push(c),
            c if c.is_ascii_punctuation() => {
                let _ = write!(escaped, "#{};", u32::from(c));
                // Mermaid interprets `\n` and `$$` even after it has decoded entities. A zero-width
                // character separates these characters from the next one.
                if matches!(c, '\\' | '$') {
                    escaped.push('\u{200c}');
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

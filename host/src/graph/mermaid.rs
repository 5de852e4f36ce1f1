//! A graph as a flowchart for mermaid. Nodes go by numbers: what may be a name and what mermaid takes for one of its
//! own words differs from version to version.

use std::fmt::Write;

use super::{Edge, EdgeKind, Graph, Node, NodeId, NodeKind};

/// Writes a graph as a flowchart.
pub fn write(graph: &Graph) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line("flowchart TB".into());
    line(format!("  accTitle: {}", escape(&graph.title)));
    for (id, node) in graph.numbered() {
        line(format!("  {}", shape(id, node)));
    }
    for edge in &graph.edges {
        line(format!("  {}", arrow(edge)));
    }
    line("  classDef join stroke-width:2px".into());
    line("  classDef label fill:none,stroke:none".into());
    line("  classDef outside stroke-dasharray:4 4".into());
    out
}

/// A node in the shape of its kind.
fn shape(id: NodeId, node: &Node) -> String {
    let lines = [&node.name, &node.note].into_iter().chain(&node.actions);
    let text = text(lines.filter(|line| !line.is_empty()));
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

fn arrow(edge: &Edge) -> String {
    let Edge { from, to, .. } = edge;
    let line = match edge.kind {
        EdgeKind::Always => "-->",
        EdgeKind::Conditional | EdgeKind::Chosen => "-.->",
        EdgeKind::Tie => "---",
    };
    match edge.label.is_empty() {
        true => format!("{from} {line} {to}"),
        false => format!("{from} {line}|{}| {to}", text(edge.label.iter())),
    }
}

/// Several lines as one quoted text.
fn text<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    let lines: Vec<String> = lines.map(|line| escape(line)).collect();
    format!("\"{}\"", lines.join("<br/>"))
}

/// Whatever mermaid, Markdown or HTML may give a meaning to is written by its number; letters, digits and what is
/// harmless between them stay readable.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            ' ' | '-' | ',' | ':' | '(' | ')' | '/' | '=' | '!' | '?' | '\'' => escaped.push(c),
            c if c.is_ascii_punctuation() => {
                let _ = write!(escaped, "#{};", u32::from(c));
                // Mermaid looks for `\n` and `$$` again when it has put the characters back: something that takes no
                // room keeps them apart from what follows.
                if matches!(c, '\\' | '$') {
                    escaped.push('\u{200c}');
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

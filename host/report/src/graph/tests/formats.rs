//! Tests of the output formats: the output for small graphs, and graphs whose texts contain syntax
//! of the formats.

use proptest::prelude::*;
use roxmltree::Document;

use super::{FAN_IN, graph};
use crate::graph::{
    EdgeKind, Graph, GraphAction, GraphEdge, GraphNode, NodeId, NodeKind, RenderFormat,
};

const KINDS: [NodeKind; 7] = [
    NodeKind::Start,
    NodeKind::Role,
    NodeKind::Human,
    NodeKind::Join,
    NodeKind::Group,
    NodeKind::Label,
    NodeKind::Outside,
];

/// Texts that have a meaning in some format.
const ODD: [&str; 16] = [
    "end",
    "say \"hi\"",
    "back\\slash\\",
    "\\n \\l \\N",
    "<script>alert(1)</script>",
    "</svg> ]]> <!-- -->",
    "&amp; &#65; #quot; #35;",
    "%%{init: {}}%%",
    "a; b --> c",
    "|x| [y] (z) {w}",
    "`code` **bold** $$x$$",
    "1. first",
    "- item",
    "日本語の役割 Größe שלום",
    "👩‍👩‍👧",
    "a name that is longer than any line of a picture may be, and longer still than that, to be sure of it",
];

fn written(graph: &Graph, format: RenderFormat) -> String {
    graph.render(format).expect("it can be written")
}

/// Returns a graph with one node for each text, of all kinds, each with edges to the next two.
fn graph_of(texts: &[String]) -> Graph {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        nodes.push(GraphNode {
            kind: KINDS[i % KINDS.len()],
            name: format!("{text}{i}"),
            note: text.clone(),
            actions: vec![GraphAction {
                name: text.clone(),
                needs_approval: i % 2 == 0,
            }],
            cost: "$0.0200".into(),
        });
        for step in 0..3 {
            edges.push(GraphEdge {
                from: NodeId(i),
                to: NodeId((i + step) % texts.len()),
                kind: [
                    EdgeKind::Always,
                    EdgeKind::Conditional,
                    EdgeKind::Tie,
                    EdgeKind::Chosen,
                ][i % 4],
                label: vec![text.clone(), text.clone()],
                taken: [None, Some(0), Some(3)][i % 3],
            });
        }
    }
    Graph {
        title: texts.concat(),
        nodes,
        edges,
    }
}

/// Checks that the image is valid XML and contains every text, and that no two boxes overlap.
fn check_svg(graph: &Graph) {
    let svg = written(graph, RenderFormat::Svg);
    let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    let view: Vec<f64> = root
        .attribute("viewBox")
        .expect("a view")
        .split(' ')
        .map(|n| n.parse().expect("n"))
        .collect();
    let title = |node: roxmltree::Node<'_, '_>| {
        node.children()
            .find(|n| n.has_tag_name("title"))
            .and_then(|n| n.text().map(str::to_owned))
    };
    assert_eq!(title(root).unwrap_or_default(), graph.title);
    let class = |node: &roxmltree::Node<'_, '_>, name: &str| {
        node.attribute("class")
            .is_some_and(|class| class.split(' ').any(|c| c == name))
    };
    let nodes: Vec<_> = document
        .descendants()
        .filter(|n| n.has_tag_name("g") && class(n, "node"))
        .collect();
    let names: Vec<String> = nodes.iter().filter_map(|node| title(*node)).collect();
    assert_eq!(
        names,
        graph
            .nodes
            .iter()
            .map(|node| node.name.clone())
            .collect::<Vec<_>>()
    );
    let lines = document
        .descendants()
        .filter(|n| n.has_tag_name("path") && class(n, "edge"));
    assert_eq!(lines.count(), graph.edges.len());
    let labels = document
        .descendants()
        .filter(|n| n.has_tag_name("g") && class(n, "at"));
    let boxes: Vec<[f64; 4]> = nodes.into_iter().chain(labels).filter_map(bounds).collect();
    for (i, a) in boxes.iter().enumerate() {
        // Positions are rounded to tenths.
        let within = |k: usize| a[k] >= -0.5 && a[k] + a[k + 2] <= view[k + 2] + 0.5;
        assert!(within(0) && within(1), "{a:?} of {view:?}");
        for b in &boxes[..i] {
            let apart = |k: usize| a[k] + a[k + 2] <= b[k] + 0.5 || b[k] + b[k + 2] <= a[k] + 0.5;
            assert!(apart(0) || apart(1), "{a:?} lies upon {b:?} in\n{svg}");
        }
    }
}

/// Returns left, top, width and height of an element with a rectangle.
fn bounds(node: roxmltree::Node<'_, '_>) -> Option<[f64; 4]> {
    let place = node
        .attribute("transform")?
        .strip_prefix("translate(")?
        .strip_suffix(')')?;
    let (x, y) = place.split_once(' ')?;
    let rect = node.children().find(|n| n.has_tag_name("rect"))?;
    let number = |name: &str| rect.attribute(name)?.parse::<f64>().ok();
    let (x, y): (f64, f64) = (x.parse().ok()?, y.parse().ok()?);
    Some([
        x + number("x")?,
        y + number("y")?,
        number("width")?,
        number("height")?,
    ])
}

/// Checks that quoted texts contain nothing that could end the quotes or be interpreted.
fn check_mermaid(graph: &Graph) {
    let text = written(graph, RenderFormat::Mermaid);
    assert!(text.starts_with("flowchart TB\n"));
    assert_eq!(
        text.lines().count(),
        graph.nodes.len() + graph.edges.len() + 5,
        "{text}"
    );
    for line in text.lines().skip(2) {
        let pieces: Vec<&str> = line.split('"').collect();
        assert!(matches!(pieces.len(), 1 | 3), "{line}");
        let Some(quoted) = pieces.get(1) else {
            continue;
        };
        let plain = quoted.replace("<br/>", "");
        assert!(
            !plain.contains(['<', '>', '\\', '`', '%', '|', '[', ']', '{', '}', '$', '*']),
            "{line}"
        );
        // The remaining ones are parts of numeric entities.
        for part in plain.split('#').skip(1) {
            let number = part.split(';').next().unwrap_or_default();
            assert!(
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
                "{line}"
            );
        }
    }
}

/// Checks that every quoted text ends where it should, so that no part of a name is outside of
/// quotes.
fn check_dot(graph: &Graph) {
    let text = written(graph, RenderFormat::Dot);
    let mut outside = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match (quoted, escaped, c) {
            (true, false, '\\') => escaped = true,
            (true, true, _) => escaped = false,
            (_, _, '"') => quoted = !quoted,
            (true, _, _) => assert_ne!(c, '\n', "{text}"),
            (false, _, c) => outside.push(c),
        }
    }
    assert!(!quoted);
    let harmless = |c: char| c.is_ascii_lowercase() || "{}[]=,;-> \n1".contains(c);
    assert!(outside.chars().all(harmless), "{outside}");
    assert_eq!(outside.matches("->").count(), graph.edges.len(), "{text}");
}

fn check(texts: &[String]) {
    let graph = graph_of(texts);
    check_svg(&graph);
    check_mermaid(&graph);
    check_dot(&graph);
}

#[test]
fn texts_that_mean_something_in_a_format_stay_texts() {
    check(&ODD.map(str::to_owned));
    for text in ODD {
        check(&[text.to_owned()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_texts_stay_texts(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let clean: Vec<String> = texts.iter().map(|text| crate::graph::text::sanitize(text)).collect();
        check(&clean);
    }
}

#[test]
fn a_fan_in_reads_well_in_mermaid_and_dot() {
    let graph = graph(FAN_IN).expect("it can be drawn");
    assert_eq!(
        written(&graph, RenderFormat::Mermaid),
        include_str!("fan-in.mermaid")
    );
    assert_eq!(
        written(&graph, RenderFormat::Dot),
        include_str!("fan-in.dot")
    );
    check_svg(&graph);
}

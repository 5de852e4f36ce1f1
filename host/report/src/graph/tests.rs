//! Tests of the graphs of teams, and of formats with names that have a meaning in them.

mod formats;

use std::path::Path;

use strata_base::advice::Advice;
use strata_manifest::Definition;

use super::{EdgeKind, Graph, GraphError, NodeKind};

/// A team in which `foo` has `bar` and `baz` work side by side and `quux` wait for both.
pub(super) const FAN_IN: &str = r#"
role = [{ name = "foo", watch = ["UserRequirement"], action = [{ name = "f", component = "x" }] },
    { name = "bar", action = [{ name = "r", component = "x" }] },
    { name = "baz", action = [{ name = "z", component = "x" }] },
    { name = "quux", profile = "writer", action = [{ name = "u", component = "x" }] }]
route = [{ from = "foo", to = ["bar", "baz"], label = "fan-out" }, { from = "bar", to = ["both"] },
    { from = "baz", case = [{ when = "data.ok", to = ["both"] }], default = ["foo"] }]
join = [{ id = "both", from = ["bar", "baz"], to = "quux" }]
"#;

/// Returns the graph of a team file without its header.
pub(super) fn graph(rest: &str) -> Result<Graph, GraphError> {
    let text = format!("schema = \"strata.team/1\"\nteam = {{ name = \"t\" }}\n{rest}");
    let definition =
        Definition::parse(&text, "team.toml", Path::new("/")).unwrap_or_else(|e| panic!("{e}"));
    Graph::from_team(&definition.team, &definition.tool_roles)
}

/// Roles with one action each, called like the role in lower case: `NAME` or `NAME<LABEL`.
fn roles(list: &str) -> String {
    let role = |text: &str| {
        let (name, watch) = text.split_once('<').unwrap_or((text, ""));
        let watch = watch
            .split('+')
            .filter(|label| !label.is_empty())
            .map(|label| format!("{label:?}"));
        let (watch, action) = (watch.collect::<Vec<_>>().join(", "), name.to_lowercase());
        format!(
            "{{ name = {name:?}, watch = [{watch}], action = [{{ name = {action:?}, component = \"x\" }}] }}"
        )
    };
    format!(
        "role = [{}]\n",
        list.split(' ').map(role).collect::<Vec<_>>().join(", ")
    )
}

/// The edges, one a line.
fn edges(graph: &Graph) -> String {
    let name = |id: super::NodeId| {
        let node = &graph.nodes[id.0];
        match node.kind {
            NodeKind::Role | NodeKind::Start => node.name.clone(),
            kind => format!("{}:{}", kind.css_class(), node.name),
        }
    };
    let line = |edge: &super::GraphEdge| {
        let arrow = match edge.kind {
            EdgeKind::Always => "->",
            EdgeKind::Conditional => "?>",
            EdgeKind::Chosen => "!>",
            EdgeKind::Tie => "--",
        };
        let line = format!(
            "{} {arrow} {} {}",
            name(edge.from),
            name(edge.to),
            edge.label.join("/")
        );
        line.trim_end().to_owned()
    };
    graph.edges.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(team: &str, expected: &[&str]) {
    let graph = graph(team).expect("it can be drawn");
    assert_eq!(edges(&graph), expected.join("\n"), "{team}");
}

#[test]
fn edges_follow_the_rules_of_routing() {
    let ab = roles("A<UserRequirement B");
    let cases: [(String, &[&str]); 12] = [
        (roles("A"), &[]),
        (roles("A<UserRequirement B<a"), &["idea -> A UserRequirement", "A -> B a"]),
        (roles("A<a+b B<a+b"), &["A -> A a", "A -> B a", "B -> A b", "B -> B b"]),
        // The messages of a role with routes do not go to the roles that watch its actions.
        (roles("A B<a C") + "route = [{ from = 'A', to = ['C'] }]", &["A -> C", "label:a -> B"]),
        (roles("A B<a") + "route = [{ from = 'A', to = ['<all>'], label = 'loud' }]", &["A -> B loud/a"]),
        (roles("A") + "route = [{ from = 'A', to = ['<self>'], when = 'data.again' }]", &["A ?> A data.again"]),
        (
            ab.clone()
                + "route = [{ from = 'A', case = [{ when = \"content == 'x'\", to = ['B'] }], default = ['A'] }]",
            &["idea -> A UserRequirement", "A ?> B content == 'x'", "A ?> A default"],
        ),
        (
            ab.clone() + "route = [{ from = 'A', to = ['B'], label = \" two\\n\\nlines \" }]",
            &["idea -> A UserRequirement", "A -> B two/lines"],
        ),
        (
            roles("A B C") + "env = { groups = { g = ['B', 'C'] } }\nroute = [{ from = 'A', to = ['g'] }]",
            &["A -> group:g", "group:g -- B", "group:g -- C"],
        ),
        (
            roles("A B C") + "route = [{ from = 'A', to = ['j'] }]\njoin = [{ id = 'j', from = ['A', 'B'], to = 'C' }]",
            &["A -> join:j", "B -- join:j", "join:j -> C"],
        ),
        (
            roles("A")
                + "env = { external = { kind = 'stdio', command = ['x'] } }\nroute = [{ from = 'A', to = ['X'] }]",
            &["A -> outside:X"],
        ),
        (
            "role = [{ name = 'A', addresses = ['alias'], action = [{ name = 'a', component = 'x' }] }]\n\
             route = [{ from = 'alias', to = ['A'] }, { from = 'A', to = ['alias'] }]"
                .into(),
            &["A -> A"],
        ),
    ];
    for (team, expected) in cases {
        check(&team, expected);
    }
}

#[test]
fn nodes_say_what_they_are() {
    let team = "role = [{ name = 'A', profile = 'chief', react = 'plan_and_act', action = [{ name = 'p', component = 'x' },
        { name = 'w', component = 'x' }] }, { name = 'B', react = 'react', max_react_loop = 3, think = { component = 'x' },
        action = [{ name = 'b', component = 'x' }] }, { name = 'C', action = [{ name = 'c', component = 'x' }] }, { name = 'D', kind = 'human' }]
        env = { groups = { g = ['B'] }, external = { kind = 'stdio', command = ['x'] } }
        route = [{ from = 'A', to = ['j'] }]
        join = [{ id = 'j', from = ['A'], to = 'C', mode = 'active', deliver = 'each' }]";
    let graph = graph(team).expect("it can be drawn");
    let nodes = graph.nodes.iter().map(|n| {
        let actions: Vec<&str> = n
            .actions
            .iter()
            .map(|action| action.name.as_str())
            .collect();
        format!(
            "{} {}: {} {}",
            n.kind.css_class(),
            n.name,
            n.note,
            actions.join(" ")
        )
    });
    let expected = [
        "start idea:  ",
        "role A: chief, plans and acts p w",
        "role B: chooses up to 3 b",
        "role C:  c",
        "human D: a person ",
        "join j: active, each ",
        "group g: group ",
        "outside outside:  ",
    ];
    assert_eq!(nodes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_team_in_which_all_hear_all_is_refused_and_a_large_one_is_written_as_text_only() {
    let team = |count: usize, watch: &str| {
        let role = |i| {
            format!(
                "{{ name = 'r{i}', watch = ['{watch}'], action = [{{ name = 'a', component = 'x' }}] }}"
            )
        };
        format!(
            "role = [{}]\n",
            (0..count).map(role).collect::<Vec<_>>().join(", ")
        )
    };
    let error = graph(&team(150, "a")).expect_err("it has too many edges");
    assert_eq!(
        error.to_string(),
        "cannot draw the team `t`: it has more than 10000 edges"
    );
    let large = graph(&team(1000, "UserRequirement")).expect("it has few edges");
    assert!(
        large.render(super::RenderFormat::Dot).is_ok()
            && large.render(super::RenderFormat::Mermaid).is_ok()
    );
    let error = large
        .render(super::RenderFormat::Svg)
        .expect_err("it is too large");
    assert!(
        error
            .to_string()
            .contains("it has 2001 nodes and edges, at most 1500"),
        "{error}"
    );
    assert_eq!(error.advice(), Some(Advice::WriteDot));
}

/// Returns the edges that a run changed or added, with how often each was taken.
fn taken_edges(graph: &Graph) -> Vec<String> {
    let taken = graph
        .edges
        .iter()
        .zip(edges(graph).lines().map(str::to_owned).collect::<Vec<_>>());
    taken
        .filter_map(|(edge, line)| Some(format!("{line}: {}", edge.taken?)))
        .collect()
}

#[test]
fn a_run_says_how_often_edges_were_taken_and_adds_those_that_actions_chose() {
    use strata_core::record::id::RoleId;
    use strata_core::record::money::Usd;

    use super::{ObservedRun, Recipient, Sender};
    let team = roles("A<UserRequirement B<a C D")
        + "env = { groups = { g = ['C'] }, external = { kind = 'stdio', command = ['x'] } }\n\
           route = [{ from = 'B', to = ['g'] }, { from = 'C', to = ['j'] }, { from = 'D', case = [\
           { when = 'data.a', to = ['A'] }], default = ['A'] }]\n\
           join = [{ id = 'j', from = ['C', 'D'], to = 'A' }]";
    let mut graph = graph(&team).expect("it can be drawn");
    let from = |place| Sender::Role(RoleId(place));
    let to = |place| Recipient::Role(RoleId(place));
    let sent = [
        ((Sender::Outside("UserRequirement".into()), to(0)), 1),
        // Along ways of the team file.
        ((from(1), to(2)), 5),
        ((from(2), Recipient::Join(0)), 7),
        ((Sender::Join(0), to(0)), 2),
        ((from(3), to(0)), 4),
        // Elsewhere.
        ((from(0), to(2)), 1),
        ((from(1), Recipient::Join(0)), 2),
        ((from(3), Recipient::Outside("X".into())), 3),
    ];
    graph.add_observed(&ObservedRun {
        sent: sent.into_iter().collect(),
        spent: [(RoleId(1), Usd::from_dollars(0.5))].into(),
        ..ObservedRun::default()
    });
    let expected = [
        "idea -> A UserRequirement: 1",
        "A -> B a: 0",
        "B -> group:g: 5",
        "C -> join:j: 7",
        "join:j -> A: 2",
        "A !> C chosen at run time: 1",
        "B !> join:j chosen at run time: 2",
        "D !> outside:X chosen at run time: 3",
    ];
    assert_eq!(
        taken_edges(&graph),
        expected,
        "which of two edges from D to A was taken is not known"
    );
    let costs: Vec<&str> = graph.nodes.iter().map(|node| node.cost.as_str()).collect();
    assert_eq!(costs[..4], ["", "", "$0.5000", ""]);
    for format in [
        super::RenderFormat::Mermaid,
        super::RenderFormat::Dot,
        super::RenderFormat::Svg,
    ] {
        let text = graph.render(format).expect("it is written");
        assert!(
            text.contains("chosen at run time") && text.contains("3 times"),
            "{format:?}"
        );
    }
}

#[test]
fn tools_that_need_approval_have_a_lock() {
    let team = "role = [{ name = 'A', react = 'tools', action = [{ name = 'read', component = 'x' },
        { name = 'remove', component = 'x', approve = true }], tool = [{ role = 'B', approve = true }] },
        { name = 'B', action = [{ name = 'b', component = 'x' }] }]";
    let graph = graph(team).expect("it can be drawn");
    let approved = |node: &super::GraphNode| {
        let actions = node.actions.iter().filter(|action| action.needs_approval);
        actions
            .map(|action| action.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        graph.nodes.iter().flat_map(approved).collect::<Vec<_>>(),
        ["remove"]
    );
    assert_eq!(edges(&graph), "A -- B calls/if approved");
    let svg = graph
        .render(super::RenderFormat::Svg)
        .expect("it is written");
    assert_eq!(svg.matches("class=\"lock\"").count(), 1, "{svg}");
}

//! `graph`: the edges of a team, even if no component exists. The drawing is tested with its code.

use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "drawn"
[[role]]
name = "Anna & Co"
watch = ["UserRequirement"]
[[role.action]]
name = "Write"
component = "missing.wasm"
[[role]]
name = "Reader"
watch = ["Write"]
[[role.action]]
name = "Read"
component = "missing"
"#;

#[test]
fn a_team_is_drawn_without_its_components() {
    let place = Workspace::with(TEAM);
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &[],
            &[
                "flowchart TB\n",
                "[\"Anna #38; Co<br/>Write\"]",
                "|\"Write\"|",
            ],
        ),
        (&["--format", "mermaid"], &["flowchart TB\n"]),
        (
            &["--format", "dot"],
            &[
                "digraph \"drawn\" {\n",
                "\"Anna & Co\" -> \"Reader\" [label=\"Write\"];",
            ],
        ),
        (
            &["--format", "svg"],
            &[
                "<svg xmlns=",
                "<title>drawn</title>",
                "Anna &amp; Co",
                "</svg>\n",
            ],
        ),
    ];
    for (args, expected) in cases {
        let ended = place
            .host(&[&["graph", "team.toml"], args].concat())
            .expect(0);
        expected
            .iter()
            .for_each(|part| assert!(ended.stdout.contains(part), "`{part}` in\n{}", ended.stdout));
        assert!(
            ended.stdout.ends_with('\n') && !ended.stdout.ends_with("\n\n"),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn a_team_is_drawn_without_any_of_the_files_that_it_names() {
    let named = "component = \"probe.wasm\"\noutput_schema = \"missing.json\"\n";
    let team = "schema = \"strata.team/1\"\n[team]\nname = \"bare\"\n[llm]\nprovider = \"scripted\"\n\
        replies = \"missing.toml\"\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"One\"\n";
    let place = Workspace::with(&format!("{team}{named}"));
    let ended = place.host(&["graph", "team.toml"]).expect(0);
    assert!(
        ended.stdout.starts_with("flowchart TB\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn stdout_is_empty_if_a_team_cannot_be_drawn() {
    let place = Workspace::with(&TEAM.replace("schema", "shema"));
    for args in [
        &["graph", "team.toml"][..],
        &["graph", "none.toml"],
        &["graph"],
        &["graph", "team.toml", "--format", "png"],
    ] {
        let ended = place.host(args).expect(2);
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(
            ended.stderr.contains("error: "),
            "{args:?}: {}",
            ended.stderr
        );
    }
}

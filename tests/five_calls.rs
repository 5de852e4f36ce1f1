//! No call is paid for twice: the team that ships with the product, with an HTTP server as its
//! provider, which counts the requests. With `--nocapture` it prints the table of the book.

use std::fs;
use std::os::unix::fs::symlink;

use crate::probe::{build, project};
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// Copies the plugins and the team's directory, and lets the team use the server.
fn copy(web: &Web) -> Workspace {
    let place = Workspace::empty();
    fs::create_dir_all(place.path("plugins/teams/five-calls")).unwrap();
    for plugin in ["ask-each", "probe"] {
        build(&format!("plugins/{plugin}"));
        symlink(
            project().join("plugins").join(plugin),
            place.path("plugins").join(plugin),
        )
        .unwrap();
    }
    let scripted = "provider = \"scripted\"\nreplies = \"replies.toml\"";
    let real = format!(
        "provider = \"openai\"\nbase_url = \"http://127.0.0.1:{}/v1\"\nmodel = \"m\"",
        web.port()
    );
    for file in ["team.toml", "trap.toml"] {
        let text =
            fs::read_to_string(project().join("plugins/teams/five-calls").join(file)).unwrap();
        assert!(text.contains(scripted), "{text}");
        place.write(
            &format!("plugins/teams/five-calls/{file}"),
            text.replace(scripted, &real),
        );
    }
    place
}

/// Returns the number of requests and the cost so far.
fn so_far(web: &Web, place: &Workspace, storage: &str) -> (usize, f64) {
    let saved: serde_json::Value =
        serde_json::from_slice(&place.read(&format!("{storage}/team.json"))).unwrap();
    (
        web.lines().len(),
        saved["strata"]["budget"]["total"].as_f64().unwrap(),
    )
}

#[test]
fn after_five_calls_and_a_trap_the_fixed_component_makes_one_more_call() {
    const TEAM: &str = "plugins/teams/five-calls/team.toml";
    const TRAP: &str = "plugins/teams/five-calls/trap.toml";
    let web = Web::new();
    let place = copy(&web);

    place.host(&["run", TRAP, "--storage", "store"]).expect(3);
    let trapped = so_far(&web, &place, "store");
    let ended = place
        .host(&["run", TEAM, "--recover_path", "store", "--events", "-"])
        .expect(0);
    let resumed = so_far(&web, &place, "store");
    place.host(&["run", TEAM, "--storage", "again"]).expect(0);
    let again = so_far(&web, &place, "again");

    println!("{:<44} {:>14} {:>9}", "", "provider calls", "USD");
    let line = |what: &str, calls: usize, usd: f64| println!("{what:<44} {calls:>14} {usd:>9.4}");
    line("until the trap behind the fifth call", trapped.0, trapped.1);
    line(
        "mended and resumed: to the end",
        resumed.0 - trapped.0,
        resumed.1 - trapped.1,
    );
    line(
        "mended and run again from the start",
        again.0 - resumed.0,
        again.1,
    );

    assert_eq!(
        (trapped.0, resumed.0 - trapped.0, again.0 - resumed.0),
        (5, 1, 5)
    );
    // All calls have the same cost.
    let of_five = |usd: f64| (usd / trapped.1 * 5.0).round();
    assert_eq!(
        (of_five(resumed.1 - trapped.1), of_five(again.1)),
        (1.0, 5.0)
    );
    let lines = ended.events();
    let sources: Vec<&str> = stream::of_kind(&lines, "host-call")
        .iter()
        .map(|line| stream::text(&line["source"]))
        .collect();
    assert_eq!(
        sources,
        ["recorded", "recorded", "recorded", "recorded", "live"]
    );
    let report = stream::of_kind(&lines, "action-finished")[0]["output"]["content"].clone();
    assert!(
        stream::text(&report).starts_with("re: Which trees")
            && stream::text(&report).ends_with("the town do?"),
        "{report}"
    );
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(shown.contains("4 served from the journal"), "{shown}");
}

#[test]
fn the_team_runs_with_scripted_replies_as_in_its_readme() {
    let web = Web::new();
    let place = copy(&web);
    for file in ["team.toml", "trap.toml", "replies.toml"] {
        let file = format!("plugins/teams/five-calls/{file}");
        fs::copy(project().join(&file), place.path(&file)).unwrap();
    }
    place
        .host(&[
            "run",
            "plugins/teams/five-calls/trap.toml",
            "--storage",
            "store",
        ])
        .expect(3);
    place
        .host(&[
            "run",
            "plugins/teams/five-calls/team.toml",
            "--recover_path",
            "store",
        ])
        .expect(0);
    let budget = place.team_json()["strata"]["budget"].clone();
    let (spent, saved) = (
        budget["total"].as_f64().unwrap(),
        budget["by"]["Ada/Report"]["saved"].as_f64().unwrap(),
    );
    assert_eq!(format!("{spent:.4} {saved:.4}"), "0.0777 0.0507");
    assert_eq!(web.lines(), [""; 0]);
}

//! `report`: the report of a team that failed, was resumed and forked, and the report in a real
//! browser.

use std::path::PathBuf;
use std::process::Command;

use crate::process::Process;
use crate::workspace::Workspace;

/// Markup that runs a script if a page does not escape it.
const HOSTILE: &str = "</script><script>document.title='taken'</script><img src=x onerror=\\\"document.title='taken'\\\">";

/// A team in which one action traps at first, another one makes a paid call and asks a question,
/// and all texts contain markup.
fn team() -> String {
    format!(
        r#"
schema = "strata.team/1"
[team]
name = "reported"
idea = "report {HOSTILE}"
on_fault = "park"
[env.scope.log]
reducer = "append"
[llm]
provider = "scripted"
replies = "replies.toml"
price = {{ input = 10.0, output = 10.0 }}
[[role]]
name = "Payer"
watch = ["UserRequirement"]
[[role.action]]
name = "Pay"
component = "probe.wasm"
config = {{ steps = [{{ llm = "how much {HOSTILE}" }}, {{ ask = "really?" }}, {{ set = "paid", value = 3 }}, {{ say = "{{reads}} {HOSTILE}" }}] }}
[role.action.allow]
llm = {{ models = ["*"] }}
[[role]]
name = "Trapper"
watch = ["UserRequirement"]
[[role.action]]
name = "Trap"
component = "probe.wasm"
config = {{ steps = [{{ set = "k", value = "{HOSTILE}", scope = "log" }}, {{ emit = "lost", to = ["Nobody"] }}, {{ fail = "trap", attempts = [1] }}] }}
"#
    )
}

/// Creates the team: it failed, was resumed until it was done, and was forked.
fn place() -> Workspace {
    let place = Workspace::with(&team());
    place.write(
        "replies.toml",
        format!("[[reply]]\ntext = \"reply {HOSTILE}\"\ninput = 1000\noutput = 1000\n"),
    );
    place.run().expect(3);
    let answer = [
        "run",
        "--recover_path",
        "store",
        "--calls",
        "reuse",
        "--answer",
        "ask-0-0-0-0=true",
    ];
    place.host(&answer).expect(0);
    place
}

fn report(place: &Workspace, path: &str) -> String {
    place.host(&["report", path]).expect(0).stdout
}

#[track_caller]
fn assert_contains(page: &str, parts: &[&str]) {
    let missing: Vec<_> = parts.iter().filter(|part| !page.contains(**part)).collect();
    assert!(missing.is_empty(), "the page does not hold {missing:#?}");
}

#[test]
fn a_report_contains_everything_of_a_team_that_failed_was_resumed_and_forked() {
    let place = place();
    place.host(&["fork", "store", "--at", "main-1"]).expect(0);
    let page = report(&place, "store");
    let safe = "reply &lt;/script&gt;&lt;script&gt;document.title=&#39;taken&#39;";
    // The fault with its stack, and that it is fixed; what stopped and continued; the call and the
    // saved costs; the question; a dead letter; states of both lineages.
    let fault = [
        "trap",
        "probe::misbehaviour::misbehave",
        "Attempt 2 succeeded.",
        ">failed</text>",
        ">resumed from main-",
    ];
    let calls = [
        safe,
        "served from the journal",
        "$0.0200 saved",
        "By model",
        "scripted",
        "really?",
        " answered, ",
    ];
    let rest = [
        "there is no role or alias Nobody",
        "log/k",
        "id=\"s-main-0\"",
        "left at <a href=\"#s-main-1\">",
        "strata-graph",
    ];
    assert_contains(&page, &[&fault[..], &calls, &rest].concat());
    assert_eq!(page.matches("<script").count(), 1);

    place
        .host(&["report", "store", "-o", "page.html"])
        .expect(0);
    assert_eq!(String::from_utf8(place.read("page.html")).unwrap(), page);
}

/// A team in which A publishes a document and sends messages to roles to which no route of the team
/// file leads.
const PUBLISHED: &str = r##"
schema = "strata.team/1"
[team]
name = "published"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Write"
component = "probe.wasm"
config = { steps = [{ emit = "one", to = ["B"] }, { emit = "two", to = ["B"] }, { say = """# Title

Some **bold** text and <b>markup</b>, [safe](https://a.example/) and [unsafe](javascript:a).
![picture](https://a.example/a.png)
""" }] }
[[role]]
name = "B"
watch = ["Nothing"]
[[role.action]]
name = "Read"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }] }
"##;

#[test]
fn a_report_begins_with_the_result_and_draws_messages_without_a_route() {
    let place = Workspace::with(PUBLISHED);
    place.run().expect(3);
    let page = report(&place, "store");
    assert!(page.find("id=\"result\"").unwrap() < page.find("id=\"summary\"").unwrap());
    let document = [
        "<h3>Title</h3>",
        "<strong>bold</strong>",
        "&lt;b&gt;markup&lt;/b&gt;",
        "and unsafe.",
    ];
    let more = [
        "<a href=\"https://a.example/\">safe</a>",
        "[image https://a.example/a.png: picture]",
        "Newest output",
    ];
    assert_contains(&page, &[&document[..], &more].concat());
    assert!(!page.contains("<img") && !page.contains("href=\"javascript"));
    assert_contains(
        &page,
        &[
            "edge conditional chosen",
            ">2 messages</text>",
            ">chosen at run time</text>",
        ],
    );
    assert!(
        !place
            .host(&["graph", "team.toml"])
            .expect(0)
            .stdout
            .contains("run time")
    );
}

#[test]
fn a_failed_run_is_shown_at_its_newest_checkpoint() {
    let place = Workspace::with(&team());
    place.write("replies.toml", "[[reply]]\ntext = \"r\"\n");
    place.run().expect(3);
    let page = report(&place, "store");
    let newest = place.team_json()["strata"]["checkpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_contains(
        &page,
        &[
            &format!("<details id=\"s-{newest}\" class=\"state\" open>"),
            "at each checkpoint.",
        ],
    );
    assert!(!page.contains("id=\"s-now\""), "nothing happened since");
}

#[test]
fn a_report_of_a_checkpoint_contains_what_happened_before_it() {
    let place = place();
    let page = report(&place, "store@main-0");
    assert_contains(
        &page,
        &["checkpoint <code>main-0</code>", "id=\"messages\""],
    );
    assert!(!page.contains("probe::misbehaviour::misbehave"));
    let ended = place.host(&["report", "store@main-77"]).expect(2);
    assert!(ended.stderr.contains("main-77"), "{}", ended.stderr);
}

#[test]
fn a_report_of_team_json_alone_contains_the_state() {
    let place = place();
    place.write("alone/team.json", place.read("store/team.json"));
    let page = report(&place, "alone/team.json");
    assert_contains(
        &page,
        &[
            "Only a <code>team.json</code> was there",
            "id=\"messages\"",
            "paid",
            "log/k",
        ],
    );
}

/// Returns the path of a browser, if this machine has one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let mut found = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.find(|path| path.is_file())
}

#[test]
fn a_browser_shows_a_report_and_runs_no_foreign_script() {
    let Some(browser) = browser() else {
        println!("skipped: there is no chromium on this machine");
        return;
    };
    let place = place();
    place
        .host(&["report", "store", "-o", "page.html"])
        .expect(0);
    let look = |how: &str| {
        let mut command = Command::new(&browser);
        let quiet = [
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ];
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args(quiet);
        command.arg(format!(
            "--user-data-dir={}",
            place.path("profile").display()
        ));
        command.args([
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--window-size=1000,3000",
            how,
        ]);
        command.arg(format!("file://{}", place.path("page.html").display()));
        Process::spawn(command).end().expect(0)
    };
    let dumped = look("--dump-dom");
    // The script of the report ran: it lists the states and shows the search fields.
    assert_contains(
        &dumped.stdout,
        &[
            "<title>reported",
            "<option>main-0 (step 0",
            "<p class=\"search\">",
            "strata-graph",
        ],
    );
    for bad in ["taken</title>", "<img"] {
        assert!(!dumped.stdout.contains(bad), "{}", dumped.stdout);
    }
    // The page does not violate its own content security policy, which would be reported here.
    assert!(!dumped.stderr.contains("CONSOLE"), "{}", dumped.stderr);
    look(&format!(
        "--screenshot={}",
        place.path("page.png").display()
    ));
    // The page is not empty.
    assert!(place.read("page.png").len() > 30_000);
}

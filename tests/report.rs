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
    let safe = "reply &lt;/script&gt;&lt;script&gt;document.title='taken'&lt;/script&gt;";
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
        "</b> answered ",
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
            ">2 times</text>",
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
            &format!("<details class=\"state\" id=\"s-{newest}\" open>"),
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
        &["checkpoint <code>main-0</code>", "id=\"activity\""],
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
            "id=\"activity\"",
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

/// Returns the part of a page from the beginning of a section to its end.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page
        .find(&format!("<section id=\"{id}\""))
        .unwrap_or_else(|| panic!("no {id}"));
    let end = page[start..].find("</section>").unwrap();
    &page[start..start + end]
}

#[test]
fn a_run_that_waits_shows_the_question_and_both_commands_as_no_failure() {
    let place = Workspace::with(
        r#"
schema = "strata.team/1"
[team]
name = "asking"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "shall I <b>go</b>?", choices = ["now", "later"] }] }
"#,
    );
    place.run().expect(4);
    let page = report(&place, "store");
    let status = section(&page, "attention");
    assert_contains(
        status,
        &[
            "class=\"panel held\"",
            "? waiting for a person",
            "shall I &lt;b&gt;go&lt;/b&gt;?",
            "<code>now</code> <code>later</code>",
            "strata-host answer store 'ask-0-0-0-0=ANSWER'",
            "strata-host run --recover_path store",
        ],
    );
    assert!(!status.contains("bad"), "{status}");
}

#[test]
fn a_failed_run_shows_the_advice_and_the_commands_that_run_printed() {
    let place = Workspace::with(&team());
    place.write("replies.toml", "[[reply]]\ntext = \"r\"\n");
    let printed = place.run().expect(3).stderr;
    let page = report(&place, "store");
    let status = section(&page, "attention");
    assert_contains(
        status,
        &[
            "class=\"panel bad\"",
            "<b>Trapper.Trap</b>",
            "How to fix it",
        ],
    );
    for command in [
        "strata-host run team.toml --recover_path store",
        "strata-host run --recover_path store --component Trapper.Trap=FIXED.wasm",
        "strata-host answer store 'ask-0-0-0-0=ANSWER'",
    ] {
        assert!(printed.contains(command), "{printed}");
        assert!(
            status.contains(&format!("<code>{command}</code>")),
            "{command}\n{status}"
        );
    }
    // The stack is where the advice is, and the activity leads to it.
    assert_eq!(page.matches("probe::misbehaviour::misbehave").count(), 1);
    assert_contains(section(&page, "activity"), &["href=\"#fault-0\""]);
    // A report of an earlier state says that it is one.
    let earlier = report(&place, "store@main-0");
    assert_contains(section(&earlier, "attention"), &["An earlier state"]);
    assert!(!earlier.contains("--recover_path"));
}

/// A role whose model calls three tools at the same time and then one that a person has to approve.
const TOOLS: &str = r#"
schema = "strata.team/1"
[team]
name = "tools"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 10.0, output = 10.0 }
[[role]]
name = "Desk"
watch = ["UserRequirement"]
react = "tools"
[[role.action]]
name = "measure"
component = "probe.wasm"
config = { steps = [{ sleep = "50ms" }, { say = "{\"town\":\"Aalborg\",\"degrees\":[12,13]}" }] }
[[role.action]]
name = "publish"
component = "probe.wasm"
approve = true
[[role]]
name = "Reader"
watch = ["Desk"]
[[role.action]]
name = "Read"
component = "probe.wasm"
config = { steps = [{ say = "{\"a\":1}", data = { a = 1 } }] }
"#;

const TOOL_REPLIES: &str = r#"
[[reply]]
turn = 0
text = "all at once"
input = 1000
output = 1000
tool_calls = [{ name = "measure", arguments = { n = 1 } }, { name = "measure", arguments = { n = 2 } }]
[[reply]]
turn = 1
tool_calls = [{ name = "publish", arguments = { body = "x" } }]
[[reply]]
turn = 2
text = "done"
"#;

#[test]
fn parallel_tools_have_lanes_and_each_thing_is_told_once() {
    let place = Workspace::with(TOOLS);
    place.write("replies.toml", TOOL_REPLIES);
    place.run().expect(4);
    let approve = [
        "run",
        "--recover_path",
        "store",
        "--answer",
        "ask-0-0-1-0={\"approve\": true}",
    ];
    place.host(&approve).expect(0);
    let page = report(&place, "store");
    let timeline = section(&page, "timeline");
    let (lanes, _) = timeline.split_once("</ul>").unwrap();
    assert_eq!(
        lanes.matches("<li class=\"further\">measure</li>").count(),
        2,
        "{lanes}"
    );
    let activity = section(&page, "activity");
    assert_contains(
        activity,
        &[
            "<code class=\"text\">{&quot;town&quot;: &quot;Aalborg&quot;, &quot;degrees&quot;: [12, 13]}</code>",
            " answered ",
            "answered after ",
        ],
    );
    for once in ["all at once", ">done<", "may `Desk` call `publish`?"] {
        assert_eq!(activity.matches(once).count(), 1, "{once}\n{activity}");
    }
    // The data of the message says what its text says.
    assert!(!activity.contains(">data<"), "{activity}");
    let picture = section(&page, "team");
    assert_contains(
        picture,
        &[
            "class=\"lock\"",
            "class=\"cost\"",
            ">once</text>",
            "edge\" d=",
        ],
    );
}

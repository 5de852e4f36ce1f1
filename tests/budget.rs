//! Budgets of the whole program: which calls they stop, what is saved, and what counts towards
//! them.

mod together;

use serde_json::Value;
use strata_host::StorageLocation;
use strata_host::launch::load_saved;
use strata_host::storage::StateSelector;

use crate::probe::build;
use crate::process::Signal;
use crate::stream;
use crate::workspace::Workspace;

/// A team in which each call costs one dollar and ten tokens.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
TEAM
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 100000, output = 100000 }
[[role]]
name = "A"
watch = ["UserRequirement"]
ROLE
[[role.action]]
name = "one"
component = "probe.wasm"
config = { steps = [{ llm = "1" }, { llm = "2" }, { say = "{reads}" }] }
ACTION
[role.action.allow]
llm = { models = ["*"] }
[[role.action]]
name = "two"
component = "probe.wasm"
config = { steps = [{ llm = "3" }] }
[role.action.allow]
llm = { models = ["*"] }
"#;

fn team(team: &str, role: &str, action: &str) -> String {
    TEAM.replace("TEAM", team)
        .replace("ROLE", role)
        .replace("ACTION", action)
}

fn place(text: &str) -> Workspace {
    let place = Workspace::with(text);
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\n",
    );
    place
}

/// Returns the team with a first action that makes these calls in parallel.
fn at_once(team: &str, prompts: &str) -> String {
    let steps = r#"{ steps = [{ llm = "1" }, { llm = "2" }, { say = "{reads}" }] }"#;
    team.replace(steps, &format!("{{ prompts = [{prompts}] }}"))
        .replacen("probe.wasm", "gather.wasm", 1)
}

/// Creates a directory for such a team.
fn team_with_parallel_calls(text: &str) -> Workspace {
    let place = place(text);
    std::fs::copy(build("tests/gather"), place.path("gather.wasm")).unwrap();
    place
}

fn budget(place: &Workspace) -> Value {
    place.team_json()["strata"]["budget"].clone()
}

fn live(place: &Workspace) -> usize {
    let all = place.recorded();
    stream::of_kind(&all, "host-call")
        .iter()
        .filter(|line| line["source"] == "live")
        .count()
}

#[test]
fn a_team_or_role_that_has_used_up_its_budget_stops_and_continues_with_more() {
    let cases = [
        ("investment = 2", "", "spent $2.0000 of $2.0000"),
        ("tokens = 15", "", "spent 20 of 15 tokens"),
        ("", "investment = 1.5", "role A used $2.0000 of $1.5000"),
        ("", "tokens = 20", "role A used 20 of 20 tokens"),
    ];
    for (of_team, of_role, said) in cases {
        let place = place(&team(of_team, of_role, ""));
        let stopped = place.run().expect(5);
        assert!(stopped.stderr.contains(said), "{}", stopped.stderr);
        assert_eq!((&budget(&place)["total"], live(&place)), (&2.0.into(), 2));
        place.resume().expect(5);
        place.write("team.toml", team("", "", ""));
        place
            .host(&[
                "run",
                "team.toml",
                "--recover_path",
                "store",
                "--investment",
                "9",
            ])
            .expect(0);
        assert_eq!((&budget(&place)["total"], live(&place)), (&3.0.into(), 3));
    }
}

#[test]
fn a_cap_is_removed_only_by_a_changed_team_file_or_an_edited_copy() {
    let place = place(&team("investment = 2", "", ""));
    place.run().expect(5);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    let resume =
        "strata-host run --recover_path store --investment USD   # more than $2.0000, in all\n";
    assert!(
        shown.ends_with(&format!("resume with\n  {resume}")),
        "{shown}"
    );
    let resumed = |team: &str, code: i32| {
        place.write("mended.toml", team);
        let _ = std::fs::remove_dir_all(place.path("copy"));
        place.write("copy/team.json", place.read("store/team.json"));
        place
            .host(&["run", "mended.toml", "--recover_path", "copy"])
            .expect(code);
    };
    resumed(&team("investment = 0", "", ""), 0);
    resumed(&team("investment = 3", "", ""), 0);
    // The earlier file had a cap, and this one has none.
    resumed(&team("", "", ""), 0);
    let edited = |pointer: &str, value: f64, code: i32| {
        let mut saved = place.team_json();
        *saved.pointer_mut(pointer).unwrap() = value.into();
        let _ = std::fs::remove_dir_all(place.path("copy"));
        place.write("copy/team.json", saved.to_string());
        place
            .host(&["run", "--recover_path", "copy", "--trust"])
            .expect(code);
    };
    edited("/investment", 3.0, 0);
    edited("/investment", 0.0, 0);
    edited("/investment", 1.0, 5);
    edited("/strata/budget/max", 3.0, 0);
    edited("/strata/budget/max", 1.0, 5);
}

#[test]
fn a_cap_of_the_command_line_is_kept_if_no_team_file_names_one() {
    let place = place(&team("", "", ""));
    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--investment",
            "2",
        ])
        .expect(5);
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(5);
    place
        .host(&[
            "run",
            "team.toml",
            "--recover_path",
            "store",
            "--investment",
            "9",
        ])
        .expect(0);
}

#[test]
fn the_smallest_budget_is_one() {
    let place = place(&team("investment = 1e-300", "", ""));
    place.run().expect(5);
    place
        .host(&["run", "--recover_path", "store", "--investment", "1e-13"])
        .expect(5);
    place
        .host(&["run", "--recover_path", "store", "--investment", "0"])
        .expect(0);
}

#[test]
fn an_attempt_without_money_is_suspended_and_pays_for_nothing_twice() {
    let place = place(&team("investment = 1", "", ""));
    let stopped = place.run().expect(5);
    assert_eq!(
        stream::of_kind(&stopped.events(), "action-suspended")[0]["reason"],
        "out-of-budget"
    );
    place
        .host(&["run", "--recover_path", "store", "--investment", "9"])
        .expect(0);
    assert_eq!(live(&place), 3);
    let by = &budget(&place)["by"]["A/one"];
    assert_eq!(
        (&by["usd"], &by["calls"], &by["served"], &by["saved"]),
        (&2.0.into(), &2.into(), &1.into(), &1.0.into())
    );
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown.contains("1 served from the journal, which saved $1.0000"),
        "{shown}"
    );
}

#[test]
fn parallel_calls_are_made_as_far_as_the_budget_allows() {
    // More is reserved for each call than it costs in the end.
    let at_once =
        |team: &str, action: &str| at_once(&self::team(team, "", action), r#""1", "2", "3""#);
    let place = team_with_parallel_calls;
    // The action handles its own budget, and a replay must know it.
    let own = place(&at_once("", "investment = 2"));
    let lines = own.run().expect(0).events();
    let said = &stream::of_kind(&lines, "action-finished")[0]["output"]["content"];
    assert_eq!(said, "r | r | HostErrorKind::OutOfBudget");
    own.host(&["replay", "store", "--verify"]).expect(0);

    let place = place(&at_once("investment = 2", ""));
    place.run().expect(5);
    assert_eq!(live(&place), 2);
    place.write("team.toml", at_once("investment = 4", ""));
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(live(&place), 4);
    assert_eq!(budget(&place)["total"], 4.0);
}

#[test]
fn failures_of_parallel_calls_are_reported_even_with_a_small_budget() {
    // The money would not suffice for two of them if they did not fail.
    let team = at_once(
        &team("tokens = 1500", "", "tokens = 1500"),
        r#""1", "2", "3""#,
    );
    let place = team_with_parallel_calls(&team.replace("{ llm = \"3\" }", "{ say = \"done\" }"));
    place.write("replies.toml", "[[reply]]\nstatus = 400\ntext = \"no\"\n");
    let lines = place.run().expect(0).events();
    let said = &stream::of_kind(&lines, "action-finished")[0]["output"]["content"];
    assert_eq!(
        said,
        "HostErrorKind::Upstream | HostErrorKind::Upstream | HostErrorKind::Upstream"
    );
    assert_eq!(stream::of_kind(&lines, "host-call").len(), 3);
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn calls_that_wait_for_reserved_money_are_not_made_after_the_run_is_stopped() {
    let team = at_once(&team("tokens = 1500", "", ""), r#""1", "2", "3""#);
    let place = team_with_parallel_calls(&team.replace("{ llm = \"3\" }", "{ say = \"done\" }"));
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\ndelay = \"2s\"\n",
    );
    let process = place.start(&["run", "team.toml", "--storage", "store"]);
    while !place.path("store/team.db").exists() {
        std::thread::yield_now();
    }
    reserved_amount(&place, "A");
    process.signal(Signal::INT);
    process.end().expect(130);
    assert_eq!(live(&place), 2);
    place.resume().expect(0);
    assert_eq!(live(&place), 3);
}

#[test]
fn a_replay_distinguishes_a_suspended_attempt_from_one_that_received_out_of_budget() {
    let place = team_with_parallel_calls(&at_once(
        &team("investment = 2", "", "investment = 50"),
        r#""1", "2", "3""#,
    ));
    place.run().expect(5);
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn an_action_whose_own_budget_is_used_up_receives_an_error() {
    let place = place(&team("", "", "tokens = 10"));
    let failed = place.run().expect(3);
    assert!(
        failed.stderr.contains("the action's own budget is used up"),
        "{}",
        failed.stderr
    );
    place.write("team.toml", team("", "", "tokens = 20"));
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(live(&place), 3);
}

/// Waits until something is reserved for a role of the saved team, and returns the amount in
/// dollars.
fn reserved_amount(place: &Workspace, role: &str) -> f64 {
    loop {
        if let Some(held) = current_reservation(place, role) {
            return held;
        }
    }
}

/// Returns the amount that is reserved for a role, if there is one.
fn current_reservation(place: &Workspace, role: &str) -> Option<f64> {
    let store = StorageLocation::new(place.path("store"));
    let saved = load_saved(&store, &StateSelector::Head);
    let stepper = saved.unwrap_or_else(|error| panic!("{error}")).stepper;
    let team = stepper.team();
    let calls = stepper.env().open_calls(team);
    let mut of_role = calls.filter(|(call, _)| team.role(call.role).name == role);
    let held = of_role.find_map(|(_, open)| open.progress.reservations.first());
    held.map(|held| held.amount.usd.to_dollars())
}

/// Returns a team with one more role, whose calls are answered if `answers` is true.
fn two_roles(of_role: &str, answers: bool) -> Workspace {
    let second = r#"[[role]]
name = "B"
watch = ["two"]
OF_ROLE
[[role.action]]
name = "three"
component = "probe.wasm"
config = { steps = [{ llm = "slow" }] }
[role.action.allow]
llm = { models = ["*"] }
"#;
    let place = place(&(team("", "", "") + &second.replace("OF_ROLE", of_role)));
    answer(&place, answers);
    place
}

fn answer(place: &Workspace, answers: bool) {
    let slow = if answers {
        ""
    } else {
        "[[reply]]\nmatch = \"slow\"\ntext = \"r\"\ndelay = \"60s\"\n"
    };
    place.write(
        "replies.toml",
        format!("{slow}[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\n"),
    );
}

#[test]
fn interrupted_calls_count_once_also_after_going_back() {
    let place = two_roles("", false);
    let killed = |args: &[&str]| {
        let mut process = place.start(&[args, &["--events", "-"]].concat());
        process.until("action-started", Some("B"));
        let held = reserved_amount(&place, "B");
        process.kill();
        held
    };
    let held = killed(&["run", "team.toml", "--storage", "store"]);
    assert!(held > 2.0, "far more than it costs: {held}");
    place
        .host(&["fork", "store", "--at", "main-0", "--to", "branch"])
        .expect(0);
    let of_branch: Value = serde_json::from_slice(&place.read("branch/team.json")).unwrap();
    assert_eq!(of_branch["strata"]["budget"]["total"], 3.0 + held);
    killed(&["run", "--recover_path", "store", "--checkpoint", "main-0"]);
    answer(&place, true);
    place
        .host(&["run", "--recover_path", "store", "--checkpoint", "main-0"])
        .expect(0);
    let all = budget(&place);
    assert_eq!(all["total"], 3.0 * 3.0 + 1.0 + 2.0 * held);
    assert_eq!(all["by"]["B/three"]["usd"], 1.0 + 2.0 * held);
    // The call that was killed first is made again: what was reserved for it has counted already.
    place
        .host(&["run", "--recover_path", "store", "--checkpoint", "main-1"])
        .expect(0);
    assert_eq!(budget(&place)["total"], 3.0 * 3.0 + 2.0 + 2.0 * held);
}

#[test]
fn caps_of_roles_are_not_reset_in_another_lineage() {
    // One more than what is reserved for the call that is interrupted: a reply of usual length, and
    // one word.
    let place = two_roles("tokens = 1026", false);
    let mut process = place.start_run(&[]);
    process.until("action-started", Some("B"));
    reserved_amount(&place, "B");
    process.kill();
    let forks = ["main.1", "main.2"].map(|name| {
        let id = place
            .host(&["fork", "store", "--at", "main-1"])
            .expect(0)
            .stdout
            .trim_end()
            .to_owned();
        assert!(id.starts_with(name), "{id}");
        id
    });
    answer(&place, true);
    let go_on = |id: &str, code: i32| {
        place
            .host(&["run", "--recover_path", "store", "--checkpoint", id])
            .expect(code);
        place.team_json()["strata"]["lineage"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        go_on(&forks[0], 0),
        "main.1",
        "it knows of all that was used up"
    );
    assert_eq!(
        go_on(&forks[1], 5),
        "main.3",
        "what it does not know of is said where another begins"
    );
    let by = &budget(&place)["by"]["B/three"];
    assert_eq!((&by["tokens"], &by["calls"]), (&1035.into(), &1.into()));
}

#[test]
fn an_interrupted_call_counts_with_the_reserved_amount() {
    let place = place(&team("", "", ""));
    place.write("replies.toml", "[[reply]]\ntext = \"r\"\ndelay = \"60s\"\n");
    let mut process = place.start_run(&[]);
    process.until("action-started", None);
    reserved_amount(&place, "A");
    process.kill();
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"r\"\ninput = 5\noutput = 5\n",
    );
    place.resume().expect(0);
    let total = budget(&place)["total"].as_f64().unwrap();
    assert!(
        total > 100.0,
        "three dollars and a reply of usual length: {total}"
    );
}

#[test]
fn tokens_are_reserved_for_running_calls_whatever_they_cost() {
    let free = |text: String| text.replace("price = { input = 100000, output = 100000 }", "");
    let together = team_with_parallel_calls(&free(at_once(
        &team("tokens = 1000", "", ""),
        "\"1\", \"2\", \"3\"",
    )));
    together.run().expect(0);
    assert_eq!(
        live(&together),
        4,
        "each is paid once it is known how little the one before took"
    );
    let used = |place: &Workspace| budget(place)["by"]["A/one"]["tokens"].as_u64().unwrap();
    assert_eq!(used(&together), 30);
    let shown = together.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown.contains("spent       $0.0000 of no limit and 40 of 1000 tokens"),
        "{shown}"
    );

    let place = place(&free(team("tokens = 1000", "", "")));
    place.write("replies.toml", "[[reply]]\ntext = \"r\"\ndelay = \"60s\"\n");
    let mut process = place.start_run(&[]);
    process.until("action-started", None);
    reserved_amount(&place, "A");
    process.kill();
    place.resume().expect(5);
    assert!(
        used(&place) > 1000,
        "a reply of usual length that nobody saw"
    );
}

#[test]
fn a_call_that_still_waited_for_its_turn_when_its_attempt_ended_costs_nothing() {
    let spent = |prompts: &str| {
        let llm = "[llm]\nrequests_per_minute = 1";
        let text = team("", "", "[role.action.limits]\ntimeout = \"500ms\"").replace("[llm]", llm);
        let place = team_with_parallel_calls(&at_once(&text, prompts));
        place.write("replies.toml", "[[reply]]\ntext = \"r\"\ndelay = \"60s\"\n");
        place.run().expect(3);
        (live(&place), budget(&place)["total"].as_f64().unwrap())
    };
    let (two, one) = std::thread::scope(|scope| {
        let one = scope.spawn(|| spent("\"1\""));
        (spent("\"1\", \"2\""), one.join().unwrap())
    });
    assert!(one.1 > 0.0);
    // The second call is recorded as one that failed before it was sent.
    assert_eq!(two, (1, one.1));
}

#[test]
fn caps_are_not_reset_by_a_finished_lineage() {
    for (team, role) in [
        ("tokens = 60", ""),
        ("", "tokens = 60"),
        ("", "investment = 6"),
    ] {
        let place = place(&self::team(team, role, ""));
        place.run().expect(0);
        let go_on = |id: &str, code: i32| {
            place
                .host(&["run", "--recover_path", "store", "--checkpoint", id])
                .expect(code);
        };
        go_on("main-0", 0);
        go_on("main-1", 0);
        go_on("main-0", 5);
        assert_eq!(live(&place), 0);
        assert_eq!(budget(&place)["total"], 6.0);
    }
}

#[test]
fn a_budget_of_a_policy_that_is_used_up_is_reported() {
    let place = place(&team("", "", ""));
    place.write(
        "policy.toml",
        "schema = \"strata.policy/1\"\n[budget]\ninvestment = 1\n",
    );
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--policy",
            "policy.toml",
        ])
        .expect(5);
    let told = "--investment USD   # once `policy.toml` allows more than $1.0000";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

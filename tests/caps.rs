//! What runs cost together is limited by caps in their database, whichever processes they are in and however
//! these end. Without PostgreSQL, these tests are skipped, and say so.

use crate::database_commands::new_database;
use crate::database_server::Server;
use crate::postgres_server::{ServerOptions, query};
use crate::process::{Ended, Process, Signal};
use crate::web::Web;
use crate::workers::{Pool, stop_workers, wait_until};
use crate::workspace::Workspace;

/// What each call of the team costs, in dollars.
const COST: f64 = 2.0;
/// What each call is expected to cost, at most: the longest reply that it may have, and a short request.
const EXPECTED: f64 = 2.9;

/// Returns a team that makes two paid calls to a server, one after the other. Each answer takes a while.
pub fn asker(web: &Web, delay_ms: u64) -> String {
    calls(web, delay_ms, 2)
}

fn calls(web: &Web, delay_ms: u64, count: usize) -> String {
    let prompts: Vec<String> = (0..count).map(|n| format!("{{ llm = \"{n}\" }}")).collect();
    format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"asker\"\nidea = \"go\"\n[llm]\nprovider = \"openai\"\n\
         base_url = \"http://127.0.0.1:{}/v1/slow/{delay_ms}\"\nmodel = \"m\"\nmax_tokens = 2800\n\
         price = {{ input = 1000.0, output = 1000.0 }}\n\
         [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Ask\"\n\
         component = \"probe.wasm\"\nconfig = {{ steps = [{}, {{ say = \"{{reads}}\" }}] }}\n\
         [role.action.allow]\nllm = {{ models = [\"*\"] }}\n",
        web.port(),
        prompts.join(", ")
    )
}

/// A place from which workers reach the server.
pub fn worker_place(web: &Web) -> Workspace {
    let place = Workspace::empty();
    place.write(
        "policy.toml",
        format!(
            "schema = \"strata.policy/1\"\n[allow]\nllm = {{ models = [\"*\"], endpoints = [{{ host = \"127.0.0.1:{}\" }}] }}\n",
            web.port()
        ),
    );
    place
}

fn start_worker(pool: &Pool, place: &Workspace, more: &[&str]) -> Process {
    pool.worker(place, &[&["--policy", "policy.toml"], more].concat())
}

fn cap(place: &Workspace, url: &str, more: &[&str]) -> String {
    let args = [&["database", "cap", url], more].concat();
    place.host(&args).expect(0).stdout.trim().to_owned()
}

/// Returns what is spent of the cap of all runs, and what processes hold of it, in dollars.
pub fn spent_and_held(url: &str) -> (f64, f64) {
    let sql = "SELECT (used - h) / 1e12, h / 1e12 FROM strata.cap c, LATERAL \
               (SELECT coalesce(sum(held), 0) AS h FROM strata.slice s WHERE s.scope = c.scope) s WHERE scope = 'all'";
    let row = query(url, sql);
    let (spent, held) = row.split_once('|').unwrap();
    (spent.parse().unwrap(), held.parse().unwrap())
}

#[track_caller]
fn assert_stopped_by_cap(ended: &Ended, whose: &str) {
    let cap = format!("out of budget: the cap of {whose} is used up");
    assert!(ended.stderr.contains(&cap), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("database cap URL"),
        "{}",
        ended.stderr
    );
}

#[test]
fn workers_that_share_a_cap_never_exceed_it_and_runs_continue_once_it_is_raised() {
    const RUNS: usize = 12;
    const CAP: f64 = 20.0;
    let Some(url) = new_database() else { return };
    let (web, pool) = (Web::new(), Pool::in_database(&url));
    let (place, elsewhere) = (Workspace::with(&asker(&web, 50)), worker_place(&web));
    assert_eq!(
        cap(&elsewhere, &url, &["--set", "20"]),
        "all: spent $0.0000 of $20.0000, $0.0000 held by processes"
    );
    let workers: Vec<Process> = (0..2)
        .map(|_| start_worker(&pool, &elsewhere, &[]))
        .collect();
    let name = |n: usize| format!("run-{n}");
    for n in 0..RUNS {
        pool.submit(&place, &name(n), &[]).end().expect(0);
    }
    for n in 0..RUNS {
        pool.until_rest(&name(n));
    }
    let asked = web.requests().len() as f64;
    assert!(asked * COST <= CAP, "{asked} calls");
    assert!(
        asked * COST > CAP - EXPECTED,
        "{asked} calls: the rest was enough for another"
    );
    // A run that rests leaves nothing behind.
    assert_eq!(spent_and_held(&url), (asked * COST, 0.0));
    let last = pool.submit(&place, "last", &["--wait"]).end().expect(5);
    assert_stopped_by_cap(&last, "$20.0000 for all runs");
    assert_eq!(web.requests().len() as f64, asked, "nothing more was asked");

    cap(&elsewhere, &url, &["--set", "100"]);
    let names: Vec<String> = (0..RUNS).map(name).chain(["last".into()]).collect();
    for name in &names {
        let place = pool.run(name);
        let events = elsewhere.host(&["events", &place]).expect(0).stdout;
        if !events.contains("\"status\":\"done\"") {
            assert!(events.contains("\"kind\":\"cap-reached\""), "{events}");
            elsewhere.host(&["resume", &place]).expect(0);
        }
        pool.until_event(&elsewhere, name, "\"status\":\"done\"");
    }
    assert_eq!(
        web.requests().len(),
        2 * names.len(),
        "nothing was paid for twice"
    );
    stop_workers(workers);
    assert_eq!(spent_and_held(&url), (COST * 2.0 * names.len() as f64, 0.0));
}

#[test]
fn what_a_killed_worker_held_is_given_back_except_for_what_it_may_have_spent() {
    let Some(url) = new_database() else { return };
    let (web, pool) = (Web::new(), Pool::in_database(&url));
    let (place, elsewhere) = (Workspace::with(&calls(&web, 3000, 1)), worker_place(&web));
    // A slice is a fiftieth.
    cap(&elsewhere, &url, &["--set", "1000"]);
    let killed = start_worker(&pool, &elsewhere, &[]);
    pool.submit(&place, "run", &[]).end().expect(0);
    web.wait(1);
    killed.kill();
    let (spent, held) = spent_and_held(&url);
    assert!(
        spent > COST && spent < EXPECTED && (spent + held - 20.0).abs() < 1e-9,
        "{spent}, {held}"
    );
    // All that is left of this is what the worker held.
    cap(&elsewhere, &url, &["--set", "20"]);
    let worker = start_worker(&pool, &elsewhere, &[]);
    pool.until_event(&elsewhere, "run", "\"status\":\"done\"");
    assert_eq!(
        web.requests().len(),
        2,
        "the call that was under way was made again"
    );
    stop_workers([worker]);
    let (after, held) = spent_and_held(&url);
    assert!(
        (after - spent - COST).abs() < 1e-9 && held == 0.0,
        "{after}, {held}"
    );
}

#[test]
fn a_cap_limits_the_runs_of_its_scope_in_any_process() {
    let Some(url) = new_database() else { return };
    let (web, pool) = (Web::new(), Pool::in_database(&url));
    let (place, elsewhere) = (Workspace::with(&asker(&web, 0)), worker_place(&web));
    cap(&place, &url, &["--scope", "small", "--set", "3"]);
    let worker = start_worker(&pool, &elsewhere, &[]);
    let submit = |run: &str, scope: &str| {
        pool.submit(&place, run, &["--wait", "--scope", scope])
            .end()
    };
    let stopped = submit("limited", "small").expect(5);
    assert_stopped_by_cap(&stopped, "$3.0000 for the runs of scope `small`");
    submit("other", "large").expect(0);
    pool.submit(&place, "none", &["--wait"]).end().expect(0);
    stop_workers([worker]);
    let refused = pool
        .submit(&place, "x", &["--scope", "all"])
        .end()
        .expect(2);
    assert!(
        refused.stderr.contains("each run belongs to `all`"),
        "{}",
        refused.stderr
    );

    // A run that no worker has.
    cap(&place, &url, &["--set", "3"]);
    let direct = format!("{url}&run=direct");
    let stopped = place
        .host(&["run", "team.toml", "--storage", &direct])
        .expect(5);
    assert_stopped_by_cap(&stopped, "$3.0000 for all runs");
    let again = place.host(&["run", "--recover_path", &direct]).expect(5);
    assert_stopped_by_cap(&again, "$3.0000 for all runs");
    let inspected = place.host(&["inspect", &direct]).expect(0).stdout;
    assert!(
        inspected.contains("database cap URL --scope all --set USD"),
        "{inspected}"
    );
    let asked = web.requests().len();
    cap(&place, &url, &["--set", "6"]);
    place.host(&["run", "--recover_path", &direct]).expect(0);
    assert_eq!(
        web.requests().len(),
        asked + 1,
        "the first call is recorded"
    );

    assert_eq!(
        cap(&place, &url, &[]),
        "all: spent $4.0000 of $6.0000, $0.0000 held by processes\n\
         small: spent $2.0000 of $3.0000, $0.0000 held by processes"
    );
    assert_eq!(
        cap(&place, &url, &["--reset"]),
        "all: spent $0.0000 of $6.0000, $0.0000 held by processes"
    );
    cap(&place, &url, &["--scope", "small", "--remove"]);
    let missing = ["database", "cap", &url, "--scope", "small", "--reset"];
    let missing = place.host(&missing).expect(2);
    assert!(
        missing.stderr.contains("has no cap of scope `small`"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_run_that_no_worker_has_in_a_file_costs_no_more_than_its_caps() {
    let web = Web::new();
    let place = Workspace::with(&asker(&web, 0));
    let url = format!("sqlite:{}", place.path("runs.db").display());
    let run = format!("{url}?run=direct");
    let start = ["run", "team.toml", "--storage", &run, "--investment", "9"];
    // Nothing was submitted to the file yet, so it has no settings.
    place.host(&start).expect(0);
    cap(&place, &url, &["--set", "3"]);
    let again = [&start[..], &["--force"]].concat();
    assert_stopped_by_cap(&place.host(&again).expect(5), "$3.0000 for all runs");
    // What was drawn and not spent is given back.
    let shown = cap(&place, &url, &[]);
    let expected = "all: spent $2.0000 of $3.0000, $0.0000 held by processes";
    assert_eq!(shown, expected);
    let resumed = place.host(&["resume", &run]).expect(5);
    assert_stopped_by_cap(&resumed, "$3.0000 for all runs");
    cap(&place, &url, &["--set", "6"]);
    place.host(&["resume", &run]).expect(0);
    assert_eq!(
        cap(&place, &url, &[]),
        "all: spent $4.0000 of $6.0000, $0.0000 held by processes"
    );
}

/// Returns how many statements about caps a server has carried out, heartbeats and the removal of what is old aside.
fn cap_statements(url: &str) -> u32 {
    let sql = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
               WHERE query ~ 'strata\\.(cap|slice)' AND query !~ 'strata\\.worker|SELECT DISTINCT scope|pg_stat_statements|CREATE TABLE'";
    query(url, sql).parse().unwrap()
}

#[test]
fn where_there_is_no_cap_no_call_and_no_step_takes_a_statement_more() {
    let options = ServerOptions {
        arguments: &["-c", "shared_preload_libraries=pg_stat_statements"],
        port: None,
    };
    let Some(server) = Server::start_with(options) else {
        return;
    };
    let url = server.url();
    let web = Web::new();
    query(&url, "CREATE EXTENSION pg_stat_statements");
    let statements = |run: &str, count: usize| {
        let place = Workspace::with(&calls(&web, 0, count));
        let before = cap_statements(&url);
        let storage = format!("{url}&run={run}");
        place
            .host(&["run", "team.toml", "--storage", &storage])
            .expect(0);
        cap_statements(&url) - before
    };
    let (few, many) = (statements("few", 1), statements("many", 40));
    assert_eq!(web.requests().len(), 41);
    // The first call finds that there is none, if no heartbeat has yet.
    assert!(few <= 3 && many <= 3, "{few}, {many}");
    cap(&Workspace::empty(), &url, &["--set", "100000"]);
    let capped = statements("capped", 40);
    assert!(
        (2..=8).contains(&capped),
        "{capped}: money is drawn for many calls at once"
    );
}

#[test]
fn several_databases_share_the_caps_of_the_first_one() {
    let (Some(first), Some(second)) = (new_database(), new_database()) else {
        return;
    };
    let (web, pool) = (Web::new(), Pool::in_database(&second));
    let (place, elsewhere) = (Workspace::with(&asker(&web, 0)), worker_place(&web));
    cap(&place, &first, &["--set", "3"]);
    cap(&place, &second, &["--set", "1000"]);
    let worker = elsewhere.start(&[
        "worker",
        "--database",
        &first,
        "--database",
        &second,
        "--label",
        &pool.label,
        "--policy",
        "policy.toml",
    ]);
    let stopped = pool.submit(&place, "run", &["--wait"]).end().expect(5);
    assert_stopped_by_cap(&stopped, "$3.0000 for all runs");
    stop_workers([worker]);
    assert_eq!(spent_and_held(&first), (COST, 0.0));
    assert_eq!(spent_and_held(&second), (0.0, 0.0));
}

#[test]
fn a_process_that_makes_no_calls_for_a_while_gives_back_what_it_holds() {
    let Some(url) = new_database() else { return };
    let web = Web::new();
    let place = Workspace::with(&calls(&web, 0, 1));
    cap(&place, &url, &["--set", "1000"]);
    let running = place.start_resting_in(&format!("{url}&run=stays"));
    assert!(spent_and_held(&url).1 > 0.0);
    wait_until(|| spent_and_held(&url) == (COST, 0.0));
    running.signal(Signal::TERM);
    running.end().expect(0);
}

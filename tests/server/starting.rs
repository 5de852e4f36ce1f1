//! What a server says when it starts, and about runs that nobody continues.

use super::ASKING;
use super::client::{Runs, TestServer};
use super::commands::host;
use crate::process::Signal;
use crate::workspace::Workspace;

#[test]
fn a_server_without_a_token_says_so_and_prints_an_address_that_it_answers() {
    let place = Workspace::with(ASKING);
    let serve = || {
        let mut server = place.start(&[
            "serve",
            "--storage",
            "served",
            "--listen",
            "0.0.0.0:0",
            "--behind-proxy",
            "--host",
            "strata.example",
        ]);
        server.until_line_contains("https://strata.example/");
        server.signal(Signal::TERM);
        server.end().stderr
    };
    assert!(serve().contains("there is no token; stop it, make one with"));
    let create = [
        "token",
        "create",
        "ann",
        "--rights",
        "view",
        "--storage",
        "served",
    ];
    place.host(&create).expect(0);
    assert!(!serve().contains("there is no token"));
}

#[test]
fn a_run_that_no_worker_continues_is_not_said_to_go_on() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    host(
        &server,
        &["submit", "team.toml", "--name", "one", "--wait"],
        4,
    );
    host(&server, &["cancel", "one"], 0);
    let database = format!("sqlite:{}", server.place.path("served/runs.db").display());
    let (from, to) = (
        format!("{database}?run=one"),
        format!("{database}?run=fork"),
    );
    server
        .place
        .host(&["fork", &from, "--at", "main-0", "--to", &to])
        .expect(0);
    let refused = host(&server, &["resume", "fork"], 9);
    assert!(
        refused.stderr.contains("no worker continues the run"),
        "{refused:?}"
    );
}

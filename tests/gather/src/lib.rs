//! `gather`: makes HTTP requests in parallel, then model calls in parallel, and returns the
//! results. For tests of parallel calls.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, HostError, Output, action, clock, http, llm};

/// The action's config.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// HTTP requests, as `GET http://…`.
    #[serde(default)]
    pub requests: Vec<String>,
    /// Prompts for the model.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// The attempts that wait for a minute at the end.
    #[serde(default)]
    pub wait: Vec<u32>,
}

/// The action.
pub struct Gather;

impl Action for Gather {
    type Config = Config;
    type Data = ();

    fn run(cx: &Context<Config>) -> Result<Output<()>, Failure> {
        let request = |line: &String| {
            let (method, url) = line.split_once(' ').unwrap_or(("GET", line));
            http::Request::new(method, url)
        };
        let Config {
            requests,
            prompts,
            wait,
        } = &cx.config;
        let mut came = Vec::new();
        if !requests.is_empty() {
            let requests: Vec<http::Request> = requests.iter().map(request).collect();
            came.extend(
                http::fetch_many(&requests)
                    .into_iter()
                    .map(|response| told(response.map(|r| r.text()))),
            );
        }
        if !prompts.is_empty() {
            let prompts: Vec<llm::Request> = prompts.iter().map(llm::Request::new).collect();
            came.extend(
                llm::ask_many(&prompts)
                    .into_iter()
                    .map(|reply| told(reply.map(|r| r.text))),
            );
        }
        if wait.contains(&cx.attempt.number) {
            clock::sleep(Duration::from_secs(60));
        }
        Ok(Output::new(came.join(" | ")))
    }
}

action!(Gather);

fn told(result: Result<String, HostError>) -> String {
    result.unwrap_or_else(|error| format!("{:?}", error.kind))
}

//! `mirror`: logs its whole input, then fails, waits or returns. For tests that compare the inputs
//! of the attempts of a call: if an attempt fails or is killed, only its log is left.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_action::{
    Action, Attempt, Context, Failure, Output, action, clock, log, memory, random,
};

/// The action's config.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The attempts that fail with a trap, as `step/role/index/attempt`.
    #[serde(default)]
    pub trap: Vec<String>,
    /// The attempts that wait for a minute.
    #[serde(default)]
    pub wait: Vec<String>,
}

/// The action.
pub struct Mirror;

impl Action for Mirror {
    type Config = Config;
    type Data = ();

    fn run(cx: &Context<Config>) -> Result<Output<()>, Failure> {
        let Attempt {
            number,
            idempotency_key,
            ..
        } = &cx.attempt;
        let call = idempotency_key
            .split_once('/')
            .map_or("", |(_run, call)| call);
        let attempt = format!("{call}/{number}");
        // One line, whatever the input contains.
        log::error(&format!(
            "given {attempt} {}",
            serde_json::Value::from(picture(cx))
        ));
        // An event that shows that the log was written.
        random::bytes(1)?;
        if cx.config.wait.contains(&attempt) {
            clock::sleep(Duration::from_secs(60));
        }
        if cx.config.trap.contains(&attempt) {
            panic!("told to");
        }
        Ok(Output::new(format!(
            "{} of {} news",
            cx.action,
            cx.news.len()
        )))
    }
}

action!(Mirror);

/// Returns the whole input, except for the number of the attempt.
fn picture(cx: &Context<Config>) -> String {
    let Context {
        attempt,
        role,
        action,
        index,
        config,
        news,
        outputs,
        task,
        raw_arguments,
    } = cx;
    let key = &attempt.idempotency_key;
    let remembered = memory::recent(1000);
    format!(
        "{key}\n{role:#?}\n{action} {index}\n{config:?}\n{news:#?}\n{outputs:#?}\n{task:?}\n{raw_arguments:?}\n{remembered:#?}\n"
    )
}

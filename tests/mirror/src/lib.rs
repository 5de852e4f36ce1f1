//! `mirror`: writes down all it is given, then fails, waits or returns. For tests that compare what the attempts of
//! one call are given; what an attempt that is killed was given can only be seen in a file.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Attempt, Context, Failure, Output, action, clock, files, memory};

/// What to do after it is written down.
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

    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<()>, Failure> {
        let Attempt { number, idempotency_key } = &cx.attempt;
        let call = idempotency_key.split_once('/').map_or("", |(_run, call)| call);
        let attempt = format!("{call}/{number}");
        files::write(&format!("/out/{}", attempt.replace('/', "-")), picture(cx))?;
        if cx.config.wait.contains(&attempt) {
            clock::sleep(Duration::from_secs(60));
        }
        if cx.config.trap.contains(&attempt) {
            panic!("told to");
        }
        Ok(Output::new(format!("{} of {} news", cx.action, cx.news.len())))
    }
}

action!(Mirror);

/// All that is given, but for the number of the attempt.
fn picture(cx: &Context<Config>) -> String {
    let Context { attempt, role, action, index, config, news, outputs, task } = cx;
    let key = &attempt.idempotency_key;
    let remembered = memory::recent(1000);
    format!("{key}\n{role:#?}\n{action} {index}\n{config:?}\n{news:#?}\n{outputs:#?}\n{task:?}\n{remembered:#?}\n")
}

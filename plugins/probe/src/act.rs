//! Executes the steps of the probe. How they are written in a team file is defined in `steps`.

use crate::excess;
use crate::steps::{Config, Deed, Leg, Planned};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use strata_action::environment::{Emission, emit};
use strata_action::{
    Failure, Hop, Message, Output, clock, env, files, http, human, llm, random, secrets, state,
};

/// The call for which steps are executed.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The action's name.
    pub action: &'a str,
    /// The number of the attempt.
    pub attempt: u32,
    /// The messages being handled.
    pub news: &'a [Message],
}

/// The results of the steps.
#[derive(Debug, Default)]
pub struct Deeds {
    /// The last output that was set.
    pub output: Option<Output<Value>>,
    /// The choices of a thinker, by round.
    pub choices: Option<Vec<i32>>,
    /// The tasks of a planner.
    pub plan: Option<Vec<Planned>>,
    /// The values read so far, as text.
    reads: Vec<String>,
}

/// Executes the steps that apply to this attempt, in order.
///
/// # Errors
/// Returns the failure of the first step that fails.
pub fn act(config: &Config, scene: &Scene<'_>) -> Result<Deeds, Failure> {
    let mut deeds = Deeds::default();
    for step in config
        .steps
        .iter()
        .filter(|step| step.acts_in(scene.attempt))
    {
        if let Deed::Fail { fail } = step.deed {
            if let Some(output) = excess::commit(fail, scene.action)? {
                return Ok(Deeds {
                    output: Some(output),
                    ..deeds
                });
            }
        } else {
            deeds.carry_out(&step.deed, scene)?;
        }
    }
    Ok(deeds)
}

impl Deeds {
    fn carry_out(&mut self, deed: &Deed, scene: &Scene<'_>) -> Result<(), Failure> {
        match deed {
            Deed::Say {
                say,
                data,
                to,
                route,
            } => {
                self.output = Some(Output {
                    content: self.fill_in(say, scene.news),
                    data: data.clone(),
                    to: to.clone(),
                    route: route.iter().map(hop).collect(),
                });
            }
            Deed::Emit {
                emit: text,
                data,
                to,
                cause,
            } => {
                let mut emission = Emission::new(text);
                if let Some(data) = data {
                    emission = emission.data(data)?;
                }
                emit(&Emission {
                    to: to.clone(),
                    cause_by: cause.clone(),
                    ..emission
                })?;
            }
            Deed::Set { set, value, scope } => state::scope(scope).set(set, value)?,
            Deed::Get { get, scope } => {
                self.reads
                    .push(state::scope(scope).get(get)?.map_or(String::new(), print));
            }
            Deed::Delete { delete, scope } => state::scope(scope).delete(delete)?,
            Deed::Llm { llm: prompt } => self.reads.push(llm::ask(prompt)?.text),
            Deed::Now { now } if *now => self.reads.push(format!("{:.0}", clock::unix_time_ms())),
            Deed::Count { count } if *count => self.reads.push(counted().to_string()),
            Deed::Now { .. } | Deed::Count { .. } => {}
            Deed::Random { random: length } => self.reads.push(hex(&random::bytes(*length)?)),
            Deed::Sleep { sleep } => clock::sleep(*sleep),
            Deed::Read { read } => self.reads.push(files::read_text(read)?),
            Deed::Write { write, text } => files::write(write, text)?,
            Deed::Remove { remove } => files::remove(remove)?,
            Deed::Http { .. } => self.reads.push(fetch(deed)?),
            Deed::GetEnv { getenv } => self.reads.push(env::var(getenv)?.unwrap_or_default()),
            Deed::Secret { secret } => self.reads.push(secrets::named(secret)?.to_string()),
            Deed::Choose { choose } => self.choices = Some(choose.clone()),
            Deed::Plan { plan } => self.plan = Some(plan.clone()),
            Deed::Fail { .. } => {}
            Deed::Ask { .. } => self.reads.push(print(ask_person(deed)?)),
        }
        Ok(())
    }

    /// Replaces `{inputs}` and `{reads}`. Replaced text is not searched for placeholders again.
    fn fill_in(&self, text: &str, news: &[Message]) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{inputs}") {
                let contents: Vec<&str> = news.iter().map(|m| m.content.as_str()).collect();
                filled.push_str(&contents.join(","));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{reads}") {
                filled.push_str(&self.reads.join(","));
                rest = after;
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled + rest
    }
}

/// Asks a person and returns the answer.
fn ask_person(deed: &Deed) -> Result<Value, Failure> {
    let Deed::Ask {
        ask,
        schema,
        choices,
        expires,
        default,
    } = deed
    else {
        return Ok(Value::Null);
    };
    let mut question = human::Question::new(ask).choices(choices);
    if let Some(schema) = schema {
        question = question.schema(schema)?;
    }
    if let Some(time) = expires {
        question = question.expires_in(*time);
    }
    if let Some(default) = default {
        question = question.default(default)?;
    }
    question.ask()?.parse()
}

/// Makes a request and returns the body of the response, whatever its status.
fn fetch(deed: &Deed) -> Result<String, Failure> {
    let Deed::Http {
        http: url,
        method,
        body,
        key,
        secret,
    } = deed
    else {
        return Ok(String::new());
    };
    let mut request = http::Request::new(method, url);
    if let Some(body) = body {
        request = request.body(body.as_str());
    }
    if let Some(key) = key {
        request = request.idempotency_key(key);
    }
    if let Some(name) = secret {
        request = request.bearer(&secrets::named(name)?);
    }
    Ok(request.send()?.text())
}

/// Formats a value for `{reads}`: strings without quotes, null as an empty text, everything else as
/// compact JSON.
fn print(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns how many times this instance has counted. The result is always 1 unless an instance is
/// used for more than one call.
fn counted() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hop(leg: &Leg) -> Hop {
    Hop {
        from: leg.from.clone(),
        to: leg.to.clone(),
    }
}

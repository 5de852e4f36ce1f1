//! A guest that calls the host with whatever its bytes spell: which functions, with which texts, numbers and lists.
//!
//! How bytes become values is in [`spell`].

pub mod spell;

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use spell::Spell;
use strata_action::environment::Emission;
use strata_action::human::Question;
use strata_action::llm::{ChatMessage, Request, Speaker, Tool, ToolCall};
use strata_action::{
    Action, Context, Failure, FailureKind, Hop, Output, action, clock, env, environment, files,
    http, llm, log, memory, random, secrets, state,
};

/// The most calls of one attempt. More of the same is another limit's business.
const MAX_CALLS: usize = 64;

/// The guest.
pub struct Guest;

/// Its configuration.
#[derive(Deserialize)]
pub struct Config {
    /// What it does.
    bytes: Vec<u8>,
}

impl Action for Guest {
    type Config = Config;
    type Data = Value;

    fn run(cx: &Context<Config>) -> Result<Output<Value>, Failure> {
        let mut spell = Spell::new(&cx.config.bytes);
        for _ in 0..MAX_CALLS {
            let Some(which) = spell.next() else { break };
            call(which, &mut spell);
        }
        match spell.byte() % 4 {
            0 => Err(Failure {
                kind: kind(&mut spell),
                message: spell.text(),
            }),
            _ => Ok(output(&mut spell)),
        }
    }
}

action!(Guest);

/// One call. What the host answers is of no interest here: that it answers is.
fn call(which: u8, spell: &mut Spell<'_>) {
    match which % 16 {
        0 => drop(environment::emit(&emission(spell))),
        1 => drop(state::scope(&spell.text()).get::<Value>(&spell.text())),
        2 => drop(state::scope(&spell.scope()).set(&spell.text(), &spell.value())),
        3 => drop(state::scope(&spell.scope()).delete(&spell.text())),
        4 => drop(state::scope(&spell.scope()).keys()),
        5 => drop(memory::recent(spell.number())),
        6 => drop(memory::labelled(&spell.text(), spell.number())),
        7 => log::write(log::Level::Info, &spell.text()),
        8 => drop(random::bytes(spell.number())),
        9 => drop(llm::ask_many(&spell.list(request))),
        10 => drop(files::read(&spell.path())),
        11 => drop(files::write(&spell.path(), spell.text())),
        12 => drop(files::list(&spell.path())),
        13 => drop(Question::ask(&question(spell))),
        14 => drop(http::fetch_many(&spell.list(exchange))),
        _ => small(spell),
    }
}

/// The calls that take next to nothing.
fn small(spell: &mut Spell<'_>) {
    match spell.byte() % 4 {
        0 => drop(env::var(&spell.text())),
        1 => drop(secrets::named(&spell.text())),
        2 => drop(clock::unix_time_ms()),
        _ => clock::sleep(Duration::from_millis(u64::from(spell.byte() % 2))),
    }
}

fn kind(spell: &mut Spell<'_>) -> FailureKind {
    match spell.byte() % 4 {
        0 => FailureKind::Error,
        1 => FailureKind::Retryable,
        2 => FailureKind::Denied,
        _ => FailureKind::Host,
    }
}

fn hop(spell: &mut Spell<'_>) -> Hop {
    Hop {
        from: spell.text(),
        to: spell.list(Spell::text),
    }
}

fn emission(spell: &mut Spell<'_>) -> Emission {
    Emission {
        content: spell.text(),
        data: spell.maybe(Spell::json),
        to: spell.list(Spell::text),
        cause_by: spell.maybe(Spell::text),
        route: spell.list(hop),
    }
}

fn output(spell: &mut Spell<'_>) -> Output<Value> {
    Output {
        content: spell.text(),
        data: spell.maybe(Spell::value),
        to: spell.list(Spell::text),
        route: spell.list(hop),
    }
}

fn question(spell: &mut Spell<'_>) -> Question {
    Question {
        text: spell.text(),
        schema: spell.maybe(Spell::json),
        choices: spell.list(Spell::text),
        expires_s: spell.maybe(Spell::number),
        default: spell.maybe(Spell::json),
    }
}

fn exchange(spell: &mut Spell<'_>) -> http::Request {
    http::Request {
        method: spell.method(),
        url: spell.url(),
        headers: spell.list(|spell| http::Header {
            name: spell.text(),
            value: spell.text(),
        }),
        body: spell.maybe(|spell| spell.text().into_bytes()),
        secrets: spell.list(Spell::text),
        timeout_ms: spell.maybe(Spell::number),
        idempotency_key: spell.maybe(Spell::text),
    }
}

fn turn(spell: &mut Spell<'_>) -> ChatMessage {
    let speaker = match spell.byte() % 4 {
        0 => Speaker::System,
        1 => Speaker::User,
        2 => Speaker::Assistant,
        _ => Speaker::Tool,
    };
    let call = |spell: &mut Spell<'_>| ToolCall {
        id: spell.text(),
        name: spell.text(),
        arguments: spell.json(),
    };
    ChatMessage {
        speaker,
        content: spell.text(),
        tool_calls: spell.list(call),
        tool_call_id: spell.maybe(Spell::text),
    }
}

fn request(spell: &mut Spell<'_>) -> Request {
    let tool = |spell: &mut Spell<'_>| Tool {
        name: spell.text(),
        description: spell.text(),
        parameters: spell.json(),
    };
    Request {
        model: spell.maybe(Spell::text),
        messages: spell.list(turn),
        tools: spell.list(tool),
        output_schema: spell.maybe(Spell::json),
        temperature: spell.maybe(|spell| f64::from_bits(u64::from(spell.number()) << 32)),
        max_tokens: spell.maybe(Spell::number),
        stop: spell.list(Spell::text),
        seed: spell.maybe(Spell::number),
    }
}

//! A guest that calls the host with arguments derived from bytes.
//!
//! [`spell`] converts bytes to values.

pub mod spell;

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use spell::Spell;
use strata_action::environment::Emission;
use strata_action::human::Question;
use strata_action::llm::{
    AssistantPart, ChatMessage, OpaquePart, Request, Tool, ToolCall, ToolChoice, ToolResult,
};
use strata_action::media::{Blob, Media, MediaSource};
use strata_action::memory::Bounds;
use strata_action::{
    Action, Context, Failure, FailureKind, Hop, Output, Part, action, clock, env, environment,
    files, http, llm, log, media, memory, random, secrets, state,
};

/// The maximum number of calls per attempt. More calls would only test the limit.
const MAX_CALLS: usize = 64;

/// The action.
pub struct Guest;

/// Its config.
#[derive(Deserialize)]
pub struct Config {
    /// The bytes that determine the calls.
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

/// Makes one call. The result is ignored: the test is that there is one.
fn call(which: u8, spell: &mut Spell<'_>) {
    match which % 16 {
        0 => drop(environment::emit(&emission(spell))),
        1 => drop(state::scope(&spell.text()).get::<Value>(&spell.text())),
        2 => drop(state::scope(&spell.scope()).set(&spell.text(), &spell.value())),
        3 => drop(state::scope(&spell.scope()).delete(&spell.text())),
        4 => drop(state::scope(&spell.scope()).keys()),
        5 => drop(memory::recent(bounds(spell))),
        6 => drop(memory::labelled(&spell.text(), bounds(spell))),
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

/// Makes a call that needs few bytes.
fn small(spell: &mut Spell<'_>) {
    match spell.byte() % 6 {
        0 => drop(env::var(&spell.text())),
        1 => drop(secrets::named(&spell.text())),
        2 => drop(clock::unix_time_ms()),
        3 => drop(media::load(&spell.text())),
        4 => drop(llm::embed(spell.list(Spell::text))),
        _ => clock::sleep(Duration::from_millis(u64::from(spell.byte() % 2))),
    }
}

fn bounds(spell: &mut Spell<'_>) -> Bounds {
    Bounds {
        messages: spell.number(),
        bytes: spell.number(),
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
        parts: spell.list(part),
        to: spell.list(Spell::text),
        cause_by: spell.maybe(Spell::text),
        route: spell.list(hop),
    }
}

fn output(spell: &mut Spell<'_>) -> Output<Value> {
    Output {
        content: spell.text(),
        data: spell.maybe(Spell::value),
        parts: spell.list(part),
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

fn part(spell: &mut Spell<'_>) -> Part {
    match spell.byte() % 3 {
        0 => Part::Text(spell.text()),
        1 => Part::Image(media(spell)),
        _ => Part::File(media(spell)),
    }
}

fn media(spell: &mut Spell<'_>) -> Media {
    let source = match spell.byte() % 3 {
        0 => MediaSource::Bytes(spell.text().into_bytes()),
        1 => MediaSource::Url(spell.url()),
        _ => MediaSource::Blob(Blob {
            digest: spell.text(),
            size: spell.number(),
        }),
    };
    Media {
        media_type: spell.text(),
        name: spell.maybe(Spell::text),
        source,
    }
}

fn assistant_part(spell: &mut Spell<'_>) -> AssistantPart {
    match spell.byte() % 4 {
        0 => AssistantPart::Text(spell.text()),
        1 => AssistantPart::Media(media(spell)),
        2 => AssistantPart::ToolCall(ToolCall {
            id: spell.text(),
            name: spell.text(),
            arguments: spell.json(),
        }),
        _ => AssistantPart::Opaque(OpaquePart {
            provider: spell.text(),
            model: spell.text(),
            data: spell.json(),
            reasoning: spell.text(),
        }),
    }
}

fn chat_message(spell: &mut Spell<'_>) -> ChatMessage {
    let result = |spell: &mut Spell<'_>| ToolResult {
        call: spell.text(),
        tool: spell.text(),
        content: spell.list(part),
        is_error: spell.byte().is_multiple_of(2),
    };
    match spell.byte() % 4 {
        0 => ChatMessage::System(spell.text()),
        1 => ChatMessage::User(spell.list(part)),
        2 => ChatMessage::Assistant(spell.list(assistant_part)),
        _ => ChatMessage::ToolResults(spell.list(result)),
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
        messages: spell.list(chat_message),
        tools: spell.list(tool),
        tool_choice: match spell.byte() % 4 {
            0 => ToolChoice::Auto,
            1 => ToolChoice::Required,
            2 => ToolChoice::None,
            _ => ToolChoice::Tool(spell.text()),
        },
        output_schema: spell.maybe(Spell::json),
        effort: spell.maybe(Spell::text),
        temperature: spell.maybe(|spell| f64::from_bits(u64::from(spell.number()) << 32)),
        max_tokens: spell.maybe(Spell::number),
        stop: spell.list(Spell::text),
        seed: spell.maybe(Spell::number),
    }
}

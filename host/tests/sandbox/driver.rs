//! The driver of these tests, which has a little state, and functions that make one call.

use std::sync::LazyLock;
use std::time::Duration;

use strata_core::environment::scope::{Change, ROLE_SCOPE, Write};
use strata_core::id::RoleId;
use strata_core::json::Json;
use strata_core::request::Answer as Answered;
use strata_core::team::Profile;
use strata_host::blob::digest_of;
use strata_host::gateway::{
    self, Answer, Ask, AttemptId, Gateway, HostError, HostErrorKind, QUEUE,
};
use strata_host::plugin::{Limits, Plugin};
use strata_host::sandbox::{Call, Ended, Metering, Sandbox, WasmSandbox};
use strata_host::services::human::Question;
use strata_host::services::{http, llm};
use tokio::sync::mpsc;

/// One sandbox for all tests, because its pool of instances is large.
pub static SANDBOX: LazyLock<WasmSandbox> =
    LazyLock::new(|| WasmSandbox::uncached().expect("the sandbox starts"));

/// Returns a plugin with these limits and no grants.
pub fn plugin(limits: Limits) -> Plugin {
    Plugin {
        limits,
        ..Plugin::new("/guest.wasm")
    }
}

/// Returns limits under which a test ends soon, whatever the guest does.
pub fn limits() -> Limits {
    Limits {
        memory_bytes: 8 << 20,
        cpu: Duration::from_secs(5),
        timeout: Duration::from_secs(10),
        output_bytes: 64 << 10,
        log_bytes: 4 << 10,
        ..Limits::default()
    }
}

/// Loads a guest and returns a call of it.
pub fn call(guest: &[u8], plugin: Plugin) -> Call {
    let metering = match plugin.limits.fuel {
        None => Metering::Plain,
        Some(_) => Metering::Fuel,
    };
    let loaded = match plugin.function {
        None => SANDBOX.load(guest, metering),
        Some(_) => SANDBOX.load_plain(digest_of(guest), guest, metering, &plugin.limits),
    };
    let loaded = loaded.expect("the guest loads");
    Call::first(
        loaded.digest,
        plugin,
        Profile {
            name: "R".into(),
            ..Profile::default()
        },
        "A",
    )
}

/// Makes a call; the driver answers on another thread.
pub fn run(call: Call) -> Ended {
    block_on(SANDBOX.call(call, gateway()))
}

/// Runs a guest with these limits and no grants.
pub fn run_within(limits: Limits, guest: &[u8]) -> Ended {
    run(call(guest, plugin(limits)))
}

/// Runs a future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(future)
}

/// Returns a gateway to a driver on a thread of its own.
pub fn gateway() -> Gateway {
    let (questions, mut asked) = mpsc::channel::<gateway::Question>(QUEUE);
    std::thread::spawn(move || {
        while let Some(question) = asked.blocking_recv() {
            // It is no error if the guest is gone.
            let _ = question.reply.send(answer(question.ask));
        }
    });
    Gateway::new(
        AttemptId {
            role: RoleId(0),
            serial: 0,
        },
        questions,
    )
}

fn answer(ask: Ask) -> Answer {
    match ask {
        Ask::Get {
            scope,
            key,
            seen,
            pending,
        } => {
            let seen = seen.filter(|_| pending.is_empty());
            Answer::Value(known(&scope).map(|()| seen.unwrap_or_else(|| value(&key, &pending))))
        }
        Ask::Keys { scope, pending } => Answer::Keys(
            known(&scope).map(|()| pending.into_iter().map(|write| write.key).collect()),
        ),
        Ask::Recent { .. } => Answer::Messages(Vec::new()),
        Ask::Now | Ask::Start => Answer::Time(1234.0),
        Ask::File(_) => Answer::File(None),
        Ask::Random { length } => Answer::Bytes(Ok(vec![b'r'; length as usize])),
        Ask::Person(question) => Answer::Person(person(&question)),
        // The body repeats the request.
        Ask::Fetch(requests) => {
            let response = |request: http::Request| http::Response {
                status: 200,
                headers: Vec::new(),
                body: said(&request),
            };
            Answer::Responses(
                requests
                    .into_iter()
                    .map(|request| Ok(response(request)))
                    .collect(),
            )
        }
        Ask::Complete(requests) => {
            Answer::Replies(requests.into_iter().map(|_| Ok(reply())).collect())
        }
    }
}

/// Answers with the number of choices, or not at all if the question expires at once.
fn person(question: &Question) -> Answered {
    match question.expires_s {
        Some(0) => Answered::Expired,
        _ => Answered::Given(Json::parse(&question.choices.len().to_string()).expect("a number")),
    }
}

fn said(request: &http::Request) -> Vec<u8> {
    let headers: Vec<String> = request
        .headers
        .iter()
        .map(|header| format!(" {}={}", header.name, header.value))
        .collect();
    format!("{} {}{}", request.method, request.url, headers.concat()).into_bytes()
}

fn known(scope: &str) -> Result<(), HostError> {
    if scope == ROLE_SCOPE || scope == "shared" {
        return Ok(());
    }
    Err(HostError::new(
        HostErrorKind::Invalid,
        format!("there is no scope `{scope}`"),
    ))
}

fn value(key: &str, pending: &[Write]) -> Option<Json> {
    let last = pending.iter().rev().find(|write| write.key == key)?;
    match &last.change {
        Change::Set(value) => Some(value.clone()),
        Change::Delete => None,
    }
}

fn reply() -> llm::Reply {
    llm::Reply {
        text: "yes".into(),
        data: None,
        tool_calls: Vec::new(),
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        cached_tokens: 0,
        finish: llm::Finish::Stop,
    }
}

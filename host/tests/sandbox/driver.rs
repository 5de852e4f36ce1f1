//! The driver of these tests, which has a little state, and functions that make one call.

use std::sync::LazyLock;
use std::time::Duration;

use strata_core::record::conversation::{AssistantPart, TokenUsage};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use strata_core::team::RoleProfile;
use strata_host::blob::digest_of;
use strata_host::gateway::{
    self, AttemptId, EnvironmentRequest, GUEST_REQUEST_QUEUE, Gateway, GuestRequest, HostAnswer,
    HostError, HostErrorKind, OutboundRequest,
};
use strata_host::plugin::{Limits, Plugin};
use strata_host::sandbox::{Metering, Sandbox, SandboxCall, SandboxOutcome, WasmSandbox};
use strata_host::services::human::HumanQuestion;
use strata_host::services::{http, models};
use tokio::sync::mpsc;

/// One sandbox for all tests, because its pool of instances is large.
pub static SANDBOX: LazyLock<WasmSandbox> =
    LazyLock::new(|| WasmSandbox::uncached().expect("the sandbox starts"));

/// The only bytes that are stored.
pub const STORED_BYTES: &[u8] = b"stored";

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
pub fn call(guest: &[u8], plugin: Plugin) -> SandboxCall {
    let metering = match plugin.limits.fuel {
        None => Metering::Plain,
        Some(_) => Metering::Fuel,
    };
    let loaded = match plugin.function {
        None => SANDBOX.load(guest, metering),
        Some(_) => SANDBOX.load_without_handler(digest_of(guest), &guest, metering, &plugin.limits),
    };
    let loaded = loaded.expect("the guest loads");
    SandboxCall::first_attempt(
        loaded.digest,
        plugin,
        RoleProfile {
            name: "R".into(),
            ..RoleProfile::default()
        },
        "A",
    )
}

/// Makes a call; the driver answers on another thread.
pub fn run(call: SandboxCall) -> SandboxOutcome {
    block_on(SANDBOX.call(call, gateway()))
}

/// Runs a guest with these limits and no grants.
pub fn run_within(limits: Limits, guest: &[u8]) -> SandboxOutcome {
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
    let (questions, mut asked) = mpsc::channel::<gateway::PendingGuestRequest>(GUEST_REQUEST_QUEUE);
    std::thread::spawn(move || {
        while let Some(question) = asked.blocking_recv() {
            // It is no error if the guest is gone.
            let _ = question.reply.send(answer(question.request));
        }
    });
    Gateway::new(AttemptId::first(RoleId(0)), questions)
}

fn answer(ask: GuestRequest) -> HostAnswer {
    match ask {
        GuestRequest::Environment(request) => answer_from_environment(request),
        GuestRequest::CurrentTime | GuestRequest::ClockStart => HostAnswer::Time(1234.0),
        GuestRequest::StoredFile(digest) => {
            HostAnswer::File((digest == digest_of(STORED_BYTES)).then(|| STORED_BYTES.into()))
        }
        GuestRequest::Random { length } => HostAnswer::Bytes(Ok(vec![b'r'; length as usize])),
        GuestRequest::AskHuman(question) => HostAnswer::Human(human_answer(&question)),
        GuestRequest::Outbound(request) => HostAnswer::Outbound(answer_from_outside(&request)),
        GuestRequest::ListTools => HostAnswer::Tools(Vec::new()),
        GuestRequest::Servers(_) => unreachable!("no guest asks for them"),
        GuestRequest::GuardedCalls(calls) => HostAnswer::GuardedCalls(vec![None; calls.len()]),
        GuestRequest::CallTools(calls) => {
            let results = calls.into_iter().map(|call| Ok(call.arguments));
            HostAnswer::Outbound(results.collect())
        }
    }
}

fn answer_from_outside(request: &OutboundRequest) -> Vec<Result<Json, HostError>> {
    if let Some(http::HttpBatch(requests)) = request.downcast_ref() {
        // The body repeats the request.
        let response = |request: &http::HttpRequest| http::HttpResponse {
            status: 200,
            headers: Vec::new(),
            body: request_text(request),
        };
        let responses = requests.iter().map(response);
        responses.map(|response| Ok(response.to_json())).collect()
    } else if let Some(models::ModelBatch { requests, .. }) = request.downcast_ref() {
        let reply = serde_json::to_value(reply()).expect("a reply is JSON");
        vec![Ok(reply.into()); requests.len()]
    } else {
        let none = HostError::new(HostErrorKind::Invalid, "there are none");
        vec![Err(none); request.count()]
    }
}

fn answer_from_environment(ask: EnvironmentRequest) -> HostAnswer {
    match ask {
        EnvironmentRequest::Get {
            scope,
            key,
            last_read: seen,
            pending,
        } => {
            let seen = seen.filter(|_| pending.is_empty());
            HostAnswer::Value(
                check_scope(&scope).map(|()| seen.unwrap_or_else(|| pending_value(&key, &pending))),
            )
        }
        EnvironmentRequest::Keys { scope, pending } => HostAnswer::Keys(
            check_scope(&scope).map(|()| pending.into_iter().map(|write| write.key).collect()),
        ),
        EnvironmentRequest::Recent { .. } => HostAnswer::Messages(Vec::new()),
    }
}

/// Answers with the number of choices, or not at all if the question expires at once.
fn human_answer(question: &HumanQuestion) -> HumanAnswer {
    match question.expires_s {
        Some(0) => HumanAnswer::Expired,
        _ => {
            HumanAnswer::Given(Json::parse(&question.choices.len().to_string()).expect("a number"))
        }
    }
}

fn request_text(request: &http::HttpRequest) -> Vec<u8> {
    let headers: Vec<String> = request
        .headers
        .iter()
        .map(|header| format!(" {}={}", header.name, header.value))
        .collect();
    format!("{} {}{}", request.method, request.url, headers.concat()).into_bytes()
}

fn check_scope(scope: &str) -> Result<(), HostError> {
    if scope == ROLE_SCOPE || scope == "shared" {
        return Ok(());
    }
    Err(HostError::new(
        HostErrorKind::Invalid,
        format!("there is no scope `{scope}`"),
    ))
}

fn pending_value(key: &str, pending: &[Write]) -> Option<Json> {
    let last = pending.iter().rev().find(|write| write.key == key)?;
    match &last.change {
        ScopeChange::Set(value) => Some(value.clone()),
        ScopeChange::Delete => None,
    }
}

fn reply() -> models::ModelReply {
    models::ModelReply {
        parts: vec![AssistantPart::Text("yes".into())],
        data: None,
        model: "m".into(),
        finish: models::FinishReason::Stop,
        usage: TokenUsage {
            input: 1,
            output: 1,
            ..TokenUsage::default()
        },
    }
}

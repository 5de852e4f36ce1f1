//! The boundary between guest and host: bytes that are not components, and guests that make
//! arbitrary calls.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use strata_core::record::human_request::HumanAnswer as Answered;
use strata_core::record::id::{Digest, RoleId};
use strata_core::record::json::Json;
use strata_core::team::RoleProfile;
use strata_host::gateway::{
    AttemptId, EnvironmentRequest, GUEST_REQUEST_QUEUE, Gateway, GuestRequest, HostAnswer,
    HostError, HostErrorKind, PendingGuestRequest,
};
use strata_host::manifest::Definition;
use strata_host::plugin::Plugin;
use strata_host::sandbox::{Metering, Sandbox, SandboxCall, WasmSandbox};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::Taker;

/// The content of a file beside the granted directories, which must not change.
const CANARY: &str = "nobody was here";

/// Returns the path of the component built from a directory of the project.
pub(super) fn built(dir: &str) -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = strata_host::build::build(&project.join(dir), &mut |line| eprintln!("{line}"));
    built.unwrap_or_else(|error| panic!("{error}")).component
}

/// A target that loads bytes, or the text of a component, as a component. It either can be called
/// or is rejected.
pub(super) fn component() -> Taker {
    let sandbox = WasmSandbox::uncached().unwrap();
    Box::new(move |bytes| {
        let encoded = if bytes.starts_with(b"(") {
            wat::parse_bytes(bytes).unwrap_or(Cow::Borrowed(bytes))
        } else {
            Cow::Borrowed(bytes)
        };
        if let Err(error) = sandbox.load(&encoded, Metering::Plain) {
            assert!(!error.to_string().trim().is_empty());
        }
    })
}

/// A target that runs a guest whose calls are derived from bytes. It returns or is at fault, and
/// changes nothing outside of its grants.
pub(super) fn guest() -> Taker {
    let stage = Stage::set();
    Box::new(move |bytes| stage.play(bytes))
}

/// A guest with its engine and a directory, whose `in` and `out` are granted.
struct Stage {
    folder: TempDir,
    sandbox: WasmSandbox,
    digest: Digest,
    plugin: Plugin,
    runtime: Runtime,
}

impl Stage {
    fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["in", "out"] {
            fs::create_dir(folder.path().join(dir)).unwrap();
        }
        fs::write(folder.path().join("in/a"), "a").unwrap();
        fs::write(folder.path().join("canary"), CANARY).unwrap();
        std::os::unix::fs::symlink("../canary", folder.path().join("out/link")).unwrap();
        let text = include_str!("../guest.toml");
        let definition = Definition::parse(text, "guest.toml", folder.path())
            .unwrap_or_else(|error| panic!("{error}"));
        let plugin = definition.plugins.into_values().next().unwrap();
        let sandbox = WasmSandbox::uncached().unwrap();
        let guest = fs::read(built("tests/fuzz/guest")).unwrap();
        let digest = sandbox.load(&guest, Metering::Fuel).unwrap().digest;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            folder,
            sandbox,
            digest,
            plugin,
            runtime,
        }
    }

    fn play(&self, bytes: &[u8]) {
        let mut plugin = self.plugin.clone();
        plugin.config = Json::from(serde_json::json!({ "bytes": bytes }));
        let role = RoleProfile {
            name: "R".into(),
            ..RoleProfile::default()
        };
        let call = SandboxCall::first_attempt(self.digest.clone(), plugin, role, "A");
        self.runtime.block_on(async {
            let (questions, asked) = mpsc::channel(GUEST_REQUEST_QUEUE);
            let answering = tokio::spawn(answer_all(asked));
            let ended = self
                .sandbox
                .call(call, Gateway::new(AttemptId::first(RoleId(0)), questions))
                .await;
            answering.abort();
            if let Err(fault) = ended.result {
                assert!(!fault.message.is_empty());
            }
        });
        let folder = self.folder.path();
        assert_eq!(fs::read_to_string(folder.join("canary")).unwrap(), CANARY);
        assert_eq!(fs::read_to_string(folder.join("in/a")).unwrap(), "a");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 3);
    }
}

/// Answers all requests of the gateway.
async fn answer_all(mut asked: mpsc::Receiver<PendingGuestRequest>) {
    while let Some(question) = asked.recv().await {
        // If the guest has ended, nobody receives the answer.
        let _ = question.reply.send(answer(question.request));
    }
}

fn answer(ask: GuestRequest) -> HostAnswer {
    match ask {
        GuestRequest::Environment(request) => match request {
            EnvironmentRequest::Get { pending, .. } => {
                HostAnswer::Value(Ok((pending.len() % 2 == 0).then(Json::null)))
            }
            EnvironmentRequest::Keys { pending, .. } => {
                HostAnswer::Keys(Ok(pending.into_iter().map(|write| write.key).collect()))
            }
            EnvironmentRequest::Recent { .. } => HostAnswer::Messages(Vec::new()),
        },
        GuestRequest::CurrentTime | GuestRequest::ClockStart => HostAnswer::Time(1234.0),
        GuestRequest::StoredFile(_) => HostAnswer::File(None),
        GuestRequest::Random { length } => HostAnswer::Bytes(Ok(vec![b'r'; length as usize])),
        GuestRequest::AskHuman(_) => HostAnswer::Human(Answered::Given(Json::null())),
        GuestRequest::Outbound(request) => {
            let failed = HostError::new(HostErrorKind::Upstream, "nobody is there");
            HostAnswer::Outbound(vec![Err(failed); request.count()])
        }
        GuestRequest::ListTools => HostAnswer::Tools(Vec::new()),
        GuestRequest::Servers(_) => unreachable!("no guest asks for them"),
        GuestRequest::GuardedCalls(calls) => HostAnswer::GuardedCalls(vec![None; calls.len()]),
        GuestRequest::CallTools(calls) => {
            let failed = HostError::new(HostErrorKind::Denied, "the tool is not granted");
            HostAnswer::Outbound(vec![Err(failed); calls.len()])
        }
    }
}

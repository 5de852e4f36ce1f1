//! The Rust SDK of the protocol as the client of a team that asks: over standard input and output, and over HTTP, with
//! the newest revision, with an older one, and with whichever of them the server has.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, RequestContext, RoleClient, RunningService,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, UnixSocketHttpClient};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixListener};

use crate::mcp_http::Served;
use crate::mcp_server::{ASKS, serve, team};
use crate::workspace::Workspace;

/// A client whose user answers 7, and remembers what was asked.
#[derive(Default)]
struct Person(Mutex<Vec<String>>);

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let forms = FormElicitationCapability::new();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(forms));
        ClientConfig::new(capabilities, Implementation::new("tests", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("it is no form", None));
        };
        self.0.lock().unwrap().push(message);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "n": 7 })))
    }
}

/// The ways in which a client can begin, with the revision that it speaks then.
fn lifecycles() -> [(ClientLifecycleMode, ProtocolVersion); 3] {
    let newest = ProtocolVersion::V_2026_07_28;
    let preferred_versions = vec![newest.clone()];
    [
        (
            ClientLifecycleMode::Auto {
                preferred_versions: preferred_versions.clone(),
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            newest.clone(),
        ),
        (ClientLifecycleMode::Discover { preferred_versions }, newest),
        (
            ClientLifecycleMode::Initialize,
            ProtocolVersion::V_2025_11_25,
        ),
    ]
}

/// Lists the tools, calls the team, and ends the session.
async fn use_team(client: RunningService<RoleClient, Person>) {
    let tools = client.list_all_tools().await.expect("a list");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["press"]);
    let Value::Object(arguments) = json!({ "idea": "go" }) else {
        unreachable!("it is an object");
    };
    let call = CallToolRequestParams::new("press").with_arguments(arguments);
    let result = client.call_tool(call).await.expect("a result");
    let result = serde_json::to_value(&result).expect("JSON");
    assert_eq!(result["structuredContent"]["status"], "done", "{result}");
    assert_eq!(result["content"][0]["text"], r#"answer {"n":7}"#);
    let asked = client.service().0.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].ends_with("> how many?"), "{asked:?}");
    client.cancel().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_sdk_of_the_protocol_calls_a_team_that_asks_over_standard_streams() {
    let place = Workspace::with(&team(ASKS));
    for (lifecycle, revision) in lifecycles() {
        let mut command = serve(&place);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect("the server starts");
        let input = OwnedFd::from(server.stdin.take().expect("a pipe"));
        let output = OwnedFd::from(server.stdout.take().expect("a pipe"));
        let streams = (
            pipe::Receiver::from_owned_fd(output).expect("a pipe"),
            pipe::Sender::from_owned_fd(input).expect("a pipe"),
        );
        let client = Person::default().serve_with_lifecycle(streams, lifecycle);
        let client = client.await.expect("a session");
        assert_eq!(spoken(&client), revision);
        use_team(client).await;
        assert_eq!(server.wait().expect("it ends").code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_sdk_of_the_protocol_calls_a_team_that_asks_over_http() {
    let place = Workspace::with(&team(ASKS));
    let served = Served::start(&place, &[]);
    let socket = place.path("http.sock");
    forward(&socket, served.port).expect("a socket");
    let socket = socket.to_str().expect("a text");
    let uri = format!("http://127.0.0.1:{}/mcp", served.port);
    for (lifecycle, revision) in lifecycles() {
        let transport = StreamableHttpClientTransport::with_client(
            UnixSocketHttpClient::new(socket, &uri),
            StreamableHttpClientTransportConfig::with_uri(uri.as_str()),
        );
        let client = Person::default().serve_with_lifecycle(transport, lifecycle);
        let client = client.await.expect("a session");
        assert_eq!(spoken(&client), revision);
        use_team(client).await;
    }
    served.end();
}

/// Returns the revision that was settled with the server.
fn spoken(client: &RunningService<RoleClient, Person>) -> ProtocolVersion {
    let server = client.peer_info().expect("it is settled");
    server.protocol_version.clone()
}

/// Passes connections to a socket on to a port of this machine. The client of the SDK without TLS connects to sockets
/// only.
fn forward(socket: &Path, port: u16) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    Ok(())
}

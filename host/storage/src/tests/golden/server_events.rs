//! Examples of the events of MCP servers.

use strata_core::record::asking_call::{AskingCall, AskingProgress, CallQuestion};
use strata_core::record::event::{
    AttemptEvent, CallAsks, Event, ServerChanged, ServerState, ServerToolOmitted, ToolsListed,
};
use strata_core::record::host_call::HostCallKind;
use strata_core::record::human_request::{AskingServer, HumanAnswer, HumanRequest};
use strata_core::record::server_tool::{ServerTool, ToolList};

use super::samples::json;

/// Returns the events of attempts.
pub(super) fn of_attempts() -> [AttemptEvent; 2] {
    [
        AttemptEvent::ToolsListed(ToolsListed {
            lists: [ToolList {
                server: "files".into(),
                instructions: Some("be brief".into()),
                tools: vec![ServerTool {
                    name: "read".into(),
                    model_name: "files__read".into(),
                    description: "reads".into(),
                    input_schema: json("{\"type\":\"object\"}"),
                }],
            }]
            .into(),
        }),
        AttemptEvent::CallAsks(CallAsks {
            call: AskingCall {
                kind: HostCallKind::Mcp,
                request: "request".into(),
                state: json("{}"),
                progress: AskingProgress::Interrupted,
                questions: vec![CallQuestion {
                    name: "question".into(),
                    request: HumanRequest {
                        id: "ask".into(),
                        question: "for whom?".into(),
                        schema: None,
                        choices: Vec::new(),
                        default: None,
                        expires_ms: None,
                        proposed: None,
                        asked_by: Some(AskingServer {
                            server: "files".into(),
                            tool: "read".into(),
                            url: Some("https://example.com".into()),
                        }),
                    },
                    answer: Some(HumanAnswer::Expired),
                }],
            },
        }),
    ]
}

/// Returns the events of runs.
pub(super) fn of_runs() -> [Event; 2] {
    [
        Event::ServerChanged(ServerChanged {
            server: "files".into(),
            state: ServerState::Ready,
            revision: Some("2026-07-28".into()),
            name: Some("name".into()),
            version: Some("version".into()),
            reason: Some("reason".into()),
        }),
        Event::ServerToolOmitted(ServerToolOmitted {
            server: "files".into(),
            tool: "tool".into(),
            reason: "reason".into(),
        }),
    ]
}

//! The events of MCP servers: which of them run, and which of their tools cannot be used.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// The state of a server changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerChanged {
    /// Its name in the team file.
    pub server: String,
    /// What it is now.
    pub state: ServerState,
    /// The revision of the protocol that is spoken with it.
    pub revision: Option<String>,
    /// What it calls itself.
    pub name: Option<String>,
    /// The version that it names.
    pub version: Option<String>,
    /// Why it is gone or omitted.
    pub reason: Option<String>,
}

/// What a server is, for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServerState {
    /// It answers, for the first time in this process of the host.
    Ready,
    /// It answers again, after it had ended.
    Restarted,
    /// It is not started again.
    Gone,
    /// It does not start, and its roles work without it.
    Omitted,
}

impl ServerState {
    /// Returns the name used in the public events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Restarted => "restarted",
            Self::Gone => "gone",
            Self::Omitted => "omitted",
        }
    }
}

/// A tool of a server is not offered to anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolOmitted {
    /// The name of the server in the team file.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
    /// Why it cannot be used.
    pub reason: String,
}

//! What a team file says of an MCP server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;

use super::{LockedTools, Revision};

/// The default of `start`: installing a server from a registry takes most of it.
pub const DEFAULT_START: Duration = Duration::from_secs(60);
/// The default of `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The default of `max_timeout`.
pub const DEFAULT_MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// An MCP server of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// How it is reached.
    pub transport: ServerTransport,
    /// Whether what it says about its tools decides whether they are writes.
    pub hints: HintUse,
    /// Patterns of the names of tools that change nothing.
    pub reads: Vec<String>,
    /// Patterns of the names of tools that may be called twice.
    pub repeatable: Vec<String>,
    /// What becomes of a write whose result is unknown.
    pub in_doubt: DoubtDefault,
    /// How long it may take from its start to its list of tools.
    pub start: Duration,
    /// The longest silence within a call.
    pub timeout: Duration,
    /// The longest call.
    pub max_timeout: Duration,
    /// Whether roles can work without it.
    pub requirement: Requirement,
    /// Whether models are told its instructions.
    pub instructions: InstructionUse,
    /// The revision that is spoken; `None` if that is settled with the server.
    pub revision: Option<Revision>,
    /// The tools that were locked; `None` if any will do.
    pub locked: Option<LockedTools>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// A process, by its standard streams.
    Stdio(StdioServer),
    /// An address.
    Http(HttpServer),
}

/// A server that is a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioServer {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory in which it runs. The path is absolute.
    pub dir: PathBuf,
    /// The names of variables of the host that it sees.
    pub env: Vec<String>,
    /// Variables with these values.
    pub set: Vec<(String, String)>,
    /// The names of secrets, which become variables of these names.
    pub secrets: Vec<String>,
}

/// A server at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpServer {
    /// The address.
    pub url: Url,
    /// Headers of each request. They may contain placeholders of secrets.
    pub headers: Vec<(String, String)>,
    /// The names of the secrets in the headers.
    pub secrets: Vec<String>,
}

/// Whether the hints of a server count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintUse {
    /// They count.
    Trusted,
    /// They do not: every tool is a write unless the team file says otherwise.
    Ignored,
}

/// What becomes of a write whose result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtDefault {
    /// The run stops until the operator has decided.
    Stop,
    /// A model that called the tool is told; for actions, the run stops.
    Unknown,
    /// It is sent again.
    Redo,
}

/// Whether roles can work without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// They cannot.
    Required,
    /// They can.
    Optional,
}

/// What is done with the instructions of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionUse {
    /// They are ignored.
    Ignored,
    /// They follow the instructions of roles that use the server.
    PassedOn,
}

impl ServerConfig {
    /// Returns the configuration of a server that is reached like this, with the defaults.
    pub fn new(transport: ServerTransport) -> Self {
        Self {
            transport,
            hints: HintUse::Trusted,
            reads: Vec::new(),
            repeatable: Vec::new(),
            in_doubt: DoubtDefault::Stop,
            start: DEFAULT_START,
            timeout: DEFAULT_TIMEOUT,
            max_timeout: DEFAULT_MAX_TIMEOUT,
            requirement: Requirement::Required,
            instructions: InstructionUse::Ignored,
            revision: None,
            locked: None,
        }
    }

    /// Lets it run in this directory, if it is a process.
    pub fn move_into(&mut self, directory: &Path) {
        if let ServerTransport::Stdio(stdio) = &mut self.transport {
            stdio.dir = directory.to_owned();
        }
    }

    /// Returns the names of the secrets that it is given.
    pub fn secrets(&self) -> &[String] {
        match &self.transport {
            ServerTransport::Stdio(stdio) => &stdio.secrets,
            ServerTransport::Http(http) => &http.secrets,
        }
    }
}

//! The MCP servers of a team.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use strata_base::text::display_path::display_path;
use strata_base::text::shell::shell_word;
use strata_services::mcp::config::{ServerConfig, ServerTransport};

use crate::Definition;

/// An MCP server, `[mcp.NAME]`. It is not in a sandbox: a command has the rights of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerPolicy {
    /// Its name.
    pub mcp_server: String,
    /// The program that is started and its arguments; `None` for a server at an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The directory in which the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The address; `None` for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The names of the variables of the host that the program sees, besides `PATH` and `HOME`.
    pub env: Vec<String>,
    /// The names of variables that the team file sets for it.
    pub set: Vec<String>,
    /// The names of the headers that are sent to the address.
    pub headers: Vec<String>,
    /// The names of the secrets that it receives.
    pub secrets: Vec<String>,
}

/// Returns the servers of a team, by name.
pub(super) fn servers(definition: &Definition) -> impl Iterator<Item = ServerPolicy> {
    let servers = definition.mcp.iter();
    servers.map(|(name, config)| ServerPolicy::new(name, config))
}

impl ServerPolicy {
    fn new(name: &str, config: &ServerConfig) -> Self {
        let names =
            |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect();
        let policy = Self {
            mcp_server: name.to_owned(),
            secrets: config.secrets().to_vec(),
            ..Self::default()
        };
        match &config.transport {
            ServerTransport::Stdio(stdio) => Self {
                command: Some(stdio.command.clone()),
                dir: Some(stdio.dir.clone()),
                env: stdio.env.clone(),
                set: names(&stdio.set),
                ..policy
            },
            ServerTransport::Http(http) => Self {
                url: Some(http.url.to_string()),
                headers: names(&http.headers),
                ..policy
            },
        }
    }

    /// Renders it as text for people.
    pub(super) fn render(&self) -> String {
        let mut text = format!("[mcp.{}]\n", self.mcp_server);
        if let Some(command) = &self.command {
            let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
            add_line(&mut text, "command", &words.join(" "));
        }
        if let Some(dir) = &self.dir {
            add_line(&mut text, "runs in", &display_path(dir));
            add_line(&mut text, "sandbox", "none: it has the rights of the user");
        }
        if let Some(url) = &self.url {
            add_line(&mut text, "url", url);
        }
        let lists = [
            ("headers", &self.headers),
            ("env", &self.env),
            ("set", &self.set),
            ("secrets", &self.secrets),
        ];
        for (name, values) in lists {
            if !values.is_empty() {
                add_line(&mut text, name, &values.join(", "));
            }
        }
        text
    }
}

/// Adds a line to a section for people.
pub(super) fn add_line(text: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {name:<11}{value}");
}

//! A plugin: a component in a slot of a team, with its configuration and what it may do.
//!
//! This is plain data. `manifest` creates it, `sandbox` enforces it, and the command `check` prints
//! it.

pub mod builtin;
pub mod http;
mod limits;
pub mod pattern;
mod schema;
pub mod script;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use strata_core::record::json::Json;

use crate::variables::Variables;
use http::HttpGrant;

pub use limits::{Limit, LimitAdvice, LimitReached, LimitTable, LimitUnit, Limits, UnsetLimits};
pub use schema::CompiledSchema;

/// A component in a slot of a team.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// A `.wasm` file, a directory of source code that is built first, or a script, depending on
    /// the file extension. The path is absolute. For a built-in component, this is its name.
    pub component: PathBuf,
    /// The SHA-256 that the component must have, in lower-case hex.
    pub pin: Option<String>,
    /// The exported function to call instead of the handler. The component then need not use the
    /// host's interfaces.
    pub function: Option<String>,
    /// Passed to the component with each call.
    pub config: Json,
    /// The schema of the output's data.
    pub output_schema: Option<CompiledSchema>,
    /// The schema of the answer of its role, if the output is that answer: its data, or else its
    /// content.
    pub answer_schema: Option<CompiledSchema>,
    /// The resources it may use.
    pub limits: Limits,
    /// The advice about limits that are reached.
    pub advice: LimitAdvice,
    /// What it may access.
    pub grants: Grants,
    /// Where the values of granted variables are looked up.
    pub variables: Variables,
}

impl Plugin {
    /// Returns whether its component is in a file or a directory, rather than in this program or in a
    /// message.
    pub fn needs_file(&self) -> bool {
        !script::is_passed_script(&self.component) && !builtin::is_builtin(&self.component)
    }

    /// Creates a plugin with the default limits, no configuration and no grants.
    pub fn new(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            pin: None,
            function: None,
            config: Json::null(),
            output_schema: None,
            answer_schema: None,
            limits: Limits::default(),
            advice: LimitAdvice::default(),
            grants: Grants::default(),
            variables: Variables::default(),
        }
    }
}

/// What a plugin may access. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Grants {
    /// Language models.
    pub llm: Option<LlmGrant>,
    /// Directories of the host.
    pub dirs: Vec<DirGrant>,
    /// Environment variables, by name.
    pub env: Vec<String>,
    /// Hosts on the network.
    pub http: Vec<HttpGrant>,
    /// Secrets that may be used, by name. `http` has the hosts to which they may be sent.
    pub secrets: Vec<String>,
    /// Tools of the role that may be called, by name; `*` matches any characters.
    pub tools: Vec<String>,
    /// Tools of MCP servers.
    pub mcp: Vec<McpGrant>,
}

impl Grants {
    /// Returns the names of all secrets that may be used.
    pub fn secrets(&self) -> impl Iterator<Item = &String> {
        self.secrets
            .iter()
            .chain(self.http.iter().flat_map(|grant| &grant.secrets))
    }
}

/// A grant of language models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LlmGrant {
    /// What requests may name: the team's names of models, or providers' ids; `*` matches any
    /// characters.
    pub models: Vec<String>,
    /// What requests that name no model are for: the name of the model and the provider's id of it.
    /// The model must be among `names`, and one of the two must match `models`. Empty if such
    /// requests are not restricted.
    #[serde(skip)]
    pub default: Vec<String>,
    /// The names of the team's models, without those that operators' policies removed.
    #[serde(skip)]
    pub names: BTreeSet<String>,
    /// What the operators' policies allow, one list of patterns a policy: an id that a request names
    /// must match a pattern of each list. The models in `names` have been checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<Vec<String>>,
    /// How many calls one attempt may make; `None` if there is no limit besides `host_calls`.
    pub calls: Option<u32>,
}

impl LlmGrant {
    /// Returns whether requests may be made that name this model, or none.
    pub fn allows(&self, named: Option<&str>) -> bool {
        let is_granted = |name: &str| pattern::matches_any(&self.models, name);
        match named {
            None => match self.default.first() {
                None => true,
                Some(name) => {
                    self.names.contains(name) && self.default.iter().any(|name| is_granted(name))
                }
            },
            Some(name) => is_granted(name) && (self.names.contains(name) || self.allows_id(name)),
        }
    }

    /// Returns whether the operators' policies allow a model with this id.
    fn allows_id(&self, id: &str) -> bool {
        let mut policies = self.ids.iter();
        policies.all(|patterns| pattern::matches_any(patterns, id))
    }
}

/// A grant of tools of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpGrant {
    /// The name of the server.
    pub server: String,
    /// Patterns of the names of tools; `*` matches any characters.
    pub tools: Vec<String>,
}

impl McpGrant {
    /// Returns whether a tool is granted.
    pub fn allows(&self, server: &str, tool: &str) -> bool {
        self.server == server && pattern::matches_any(&self.tools, tool)
    }
}

/// A grant of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirGrant {
    /// The absolute path on the host.
    pub host: PathBuf,
    /// The path for the guest, which starts with `/`.
    pub guest: String,
    /// Whether the guest may write there. A writable directory is created if it is missing.
    #[serde(rename = "write", serialize_with = "is_write")]
    pub access: Access,
    /// The maximum size of all files below it, in bytes; `None` for no limit.
    pub max_bytes: Option<u64>,
}

/// What a guest may do in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read, write, create and remove.
    Write,
}

fn is_write<S: Serializer>(access: &Access, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*access == Access::Write)
}

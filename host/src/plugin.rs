//! A plugin: a component in its place in a team, with its configuration and with what it may do.
//!
//! Plain data. It is written in `manifest`, enforced in `sandbox`, printed by `check`.

pub mod http;
mod limits;
mod meet;
pub(crate) mod pattern;
mod schema;

use std::path::PathBuf;

use strata_core::json::Json;

use crate::services::variables::Variables;
use http::HttpGrant;

pub use limits::{Advice, Limit, Limits, Place, Reached, Unit};
pub use meet::{Bounds, DirBound};
pub use schema::Schema;

/// A component's place in a team, filled.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// A `.wasm` file, a directory of source that is built first, or a script, as its ending tells. Absolute.
    pub component: PathBuf,
    /// The SHA-256 that the component must have, in lower-case hex.
    pub pin: Option<String>,
    /// The exported function that is called in place of the handler, of a component that may know nothing of the host.
    pub function: Option<String>,
    /// Handed to the component with each call.
    pub config: Json,
    /// What the output's data must look like.
    pub output_schema: Option<Schema>,
    /// What it may use up.
    pub limits: Limits,
    /// What to do about a limit that is reached.
    pub advice: Advice,
    /// What it may touch.
    pub grants: Grants,
    /// Where the variables are looked up that it may read.
    pub variables: Variables,
}

impl Plugin {
    /// A component under the default limits, with no configuration and nothing granted.
    pub fn new(component: impl Into<PathBuf>) -> Self {
        Self {
            component: component.into(),
            pin: None,
            function: None,
            config: Json::null(),
            output_schema: None,
            limits: Limits::default(),
            advice: Advice::default(),
            grants: Grants::default(),
            variables: Variables::default(),
        }
    }
}

/// What a plugin may touch. Empty by default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Language models.
    pub llm: Option<LlmGrant>,
    /// Directories of the host.
    pub dirs: Vec<DirGrant>,
    /// Environment variables, by name.
    pub env: Vec<String>,
    /// Hosts on the network.
    pub http: Vec<HttpGrant>,
    /// Secrets that may be referred to, by name. Where they may be sent is in `http`.
    pub secrets: Vec<String>,
}

impl Grants {
    /// The names of all secrets that may be referred to.
    pub fn secrets(&self) -> impl Iterator<Item = &String> {
        self.secrets
            .iter()
            .chain(self.http.iter().flat_map(|grant| &grant.secrets))
    }
}

/// The use of language models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmGrant {
    /// Names of models; `*` stands for any run of characters.
    pub models: Vec<String>,
    /// The model that answers a request that names none. It has to be among them, too.
    pub default: Option<String>,
    /// How many calls one attempt may make; none for no limit of its own.
    pub calls: Option<u32>,
}

impl LlmGrant {
    /// Whether a model may be asked.
    pub fn has(&self, model: &str) -> bool {
        self.models
            .iter()
            .any(|pattern| pattern::matches(pattern, model))
    }
}

/// The use of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirGrant {
    /// Where it is on the host. Absolute.
    pub host: PathBuf,
    /// What the guest calls it; begins with `/`.
    pub guest: String,
    /// Whether the guest may write there. A writable directory is created when it is missing.
    pub access: Access,
    /// The bytes of all files below it, beyond which nothing more is written; none for no limit of its own.
    pub max_bytes: Option<u64>,
}

/// What may be done in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reading.
    Read,
    /// Reading, writing, creating.
    Write,
}

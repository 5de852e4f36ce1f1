//! What running a team would start, contact, read or write outside of its storage directory.
//! Component files are not included: they run in the sandbox, and without any of these uses they
//! have no effect outside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::text::display_path::{absolute_path, display_path};
use strata_core::record::id::Slot;
use strata_services::external::ExternalEndpoint;
use strata_services::mcp::config::ServerTransport;
use strata_services::models::config::{Endpoint, ProviderConfig, table_name};
use strata_services::plugin::Plugin;

use super::component_location::ComponentOverride;
use super::diagnostic::{Problems, ReferencedFiles, SourceText};
use super::grants::{OutwardFilter, OutwardScope};
use super::schema::FileKind;
use super::table::TomlTable;
use super::{Definition, authored, grants, parse_document, read_source};

/// Something outside of the storage directory that a team would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutwardUse {
    /// A program is started, outside of any sandbox.
    Start {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// An MCP server is started, outside of any sandbox.
    StartServer {
        /// Its name.
        server: String,
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// An MCP server at an address is called.
    CallServer {
        /// Its name.
        server: String,
        /// Its address.
        url: String,
    },
    /// A directory of source is built, which runs code of its author outside of any sandbox.
    Build {
        /// Which action needs it: `ROLE.ACTION`.
        action: String,
        /// The directory.
        dir: PathBuf,
    },
    /// Messages of the team are sent to a server.
    Post {
        /// Its address.
        url: String,
    },
    /// What happens is told to a collector of telemetry.
    Report {
        /// Its address.
        url: String,
    },
    /// A language model is asked.
    Model {
        /// The table that describes it, e.g. `llm`.
        table: String,
        /// The address of its endpoint.
        base_url: String,
        /// The variable whose value is sent there as a key.
        key: Option<String>,
    },
    /// An action may use something that it is granted.
    Grant {
        /// `ROLE.ACTION`.
        action: String,
        /// What it may do, in words.
        what: String,
    },
    /// A secret is used.
    Secret {
        /// Its name.
        name: String,
    },
    /// A file is read: replies of a model, or a schema.
    File {
        /// The file.
        file: PathBuf,
    },
}

impl fmt::Display for OutwardUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { command } => {
                write!(f, "start the program {command:?} (`[env.external]`)")
            }
            Self::StartServer { server, command } => {
                write!(f, "start the MCP server {command:?} (`[mcp.{server}]`)")
            }
            Self::CallServer { server, url } => {
                write!(f, "call the MCP server at `{url}` (`[mcp.{server}]`)")
            }
            Self::Build { action, dir } => {
                write!(
                    f,
                    "build the source in `{}` (`{action}`)",
                    display_path(dir)
                )
            }
            Self::Post { url } => write!(f, "send messages to `{url}` (`[env.external]`)"),
            Self::Report { url } => write!(f, "report what happens to `{url}` (`[telemetry]`)"),
            Self::Model {
                table,
                base_url,
                key: None,
            } => write!(f, "ask the language model at `{base_url}` (`[{table}]`)"),
            Self::Model {
                table,
                base_url,
                key: Some(key),
            } => {
                write!(
                    f,
                    "ask the language model at `{base_url}` with the key in the variable `{key}` (`[{table}]`)"
                )
            }
            Self::Grant { action, what } => write!(f, "let `{action}` {what}"),
            Self::Secret { name } => write!(f, "use the secret `{name}`"),
            Self::File { file } => write!(f, "read the file `{}`", display_path(file)),
        }
    }
}

/// Returns whether the file names nothing that could be outside of a storage directory, even
/// before the operators' policies were applied.
pub fn is_confined(definition: &Definition) -> bool {
    let has_model = definition.llm.is_some()
        || definition
            .policy_reductions
            .iter()
            .any(|cut| cut.model.is_some());
    let grants = definition
        .locations
        .values()
        .any(|place| place.allow.is_some());
    let builds = definition
        .plugins
        .values()
        .any(|plugin| strata_build::is_built(&plugin.component));
    let reports = definition.telemetry.endpoint.is_some();
    let is_alone = definition.external.is_none() && definition.mcp.is_empty() && !reports;
    is_alone && definition.files.is_empty() && !has_model && !grants && !builds
}

/// Returns the files and directories that a team file names, as far as the file can be read:
/// the components or their sources, schemas and scripted replies.
pub fn referenced_files(path: &Path) -> BTreeSet<PathBuf> {
    read_source(path, FileKind::Team)
        .map(collect_referenced_files)
        .unwrap_or_default()
}

/// Returns the files and directories that the text of a team file names, as far as it can be
/// read.
pub fn referenced_files_in_text(text: &str, name: &str, base: &Path) -> BTreeSet<PathBuf> {
    collect_referenced_files(SourceText::new(
        text.to_owned(),
        name.to_owned(),
        base.to_owned(),
    ))
}

fn collect_referenced_files(source: SourceText) -> BTreeSet<PathBuf> {
    let source = Arc::new(source);
    // The named files are not read, because the text may come from someone who is not trusted.
    let file = FileKind::Team;
    let problems = Problems::new(Arc::clone(&source), file, ReferencedFiles::Ignored);
    if let Ok(document) = parse_document(&source, file) {
        authored::read_team_file(&TomlTable::root(document.get_ref(), &problems));
    }
    problems.files()
}

/// Returns everything outside of `storage` that running the team would use. Components that the
/// command line gives are left out: the operator has named them.
pub fn outward_uses(definition: &Definition, storage: &Path) -> Vec<OutwardUse> {
    let storage = storage.canonicalize().ok();
    // A path that does not exist yet cannot be resolved, so it counts as outside.
    let is_inside = |path: PathBuf| {
        storage
            .as_ref()
            .is_some_and(|storage| path.starts_with(storage))
    };
    let is_outside = |path: &Path| !path.canonicalize().is_ok_and(is_inside);
    let filter = OutwardFilter {
        scope: OutwardScope::All,
        is_outside: &is_outside,
    };
    uses_outside(definition, &filter)
}

/// Returns everything that running the team would use, as far as the filter includes it.
pub(super) fn uses_outside(definition: &Definition, filter: &OutwardFilter<'_>) -> Vec<OutwardUse> {
    let mut uses = Vec::new();
    match &definition.external {
        Some(ExternalEndpoint::Stdio { command, .. }) => uses.push(OutwardUse::Start {
            command: command.clone(),
        }),
        Some(ExternalEndpoint::Http { url }) => uses.push(OutwardUse::Post {
            url: url.to_string(),
        }),
        None => {}
    }
    uses.extend(
        definition
            .telemetry
            .endpoint
            .iter()
            .map(|url| OutwardUse::Report { url: url.clone() }),
    );
    for (server, config) in &definition.mcp {
        let server = server.clone();
        uses.push(match &config.transport {
            ServerTransport::Stdio(stdio) => OutwardUse::StartServer {
                server,
                command: stdio.command.clone(),
            },
            ServerTransport::Http(http) => OutwardUse::CallServer {
                server,
                url: http.url.to_string(),
            },
        });
        let secrets = config.secrets().iter();
        uses.extend(secrets.map(|name| OutwardUse::Secret { name: name.clone() }));
    }
    for (name, model) in definition.llm.iter().flat_map(|llm| &llm.models) {
        if let ProviderConfig::Endpoint(Endpoint {
            base_url,
            api_key_env,
            ..
        }) = &model.provider
        {
            uses.push(OutwardUse::Model {
                table: table_name(name),
                base_url: base_url.clone(),
                key: api_key_env.clone(),
            });
        }
    }
    for (slot, plugin) in &definition.plugins {
        let action = definition.team.slot_name(*slot);
        if strata_build::is_built(&plugin.component)
            && !definition
                .component_overrides
                .get(slot)
                .is_some_and(ComponentOverride::is_from_current_command)
        {
            uses.push(OutwardUse::Build {
                action: action.clone(),
                dir: absolute_path(&plugin.component),
            });
        }
        let granted = grants::outward_uses(&plugin.grants, filter);
        uses.extend(granted.into_iter().map(|what| OutwardUse::Grant {
            action: action.clone(),
            what,
        }));
    }
    let files = definition.files.iter();
    let files = files.filter(|file| (filter.is_outside)(file));
    uses.extend(files.map(|file| OutwardUse::File {
        file: absolute_path(file),
    }));
    uses
}

/// Returns the files that a team file refers to apart from components: schemas and scripted
/// replies.
pub(super) fn auxiliary_files(
    problems: &Problems,
    plugins: &BTreeMap<Slot, Plugin>,
) -> BTreeSet<PathBuf> {
    let mut files = problems.files();
    files.retain(|file| plugins.values().all(|plugin| plugin.component != *file));
    files
}

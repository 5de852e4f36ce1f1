//! Reads `[mcp.NAME]`: the MCP servers of the team. How they are started and spoken to is in
//! `services::mcp`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use strata_services::endpoint::{ServiceKind, parse_address};
use strata_services::http::secrets::placeholders;
use strata_services::mcp::Revision;
use strata_services::mcp::config::{
    DEFAULT_MAX_TIMEOUT, DEFAULT_START, DEFAULT_TIMEOUT, DoubtDefault, HintUse, HttpServer,
    InstructionUse, Requirement, ServerConfig, ServerTransport, StdioServer,
};

use super::slot::reject_unexpanded;
use crate::address::read_address;
use crate::grants::variables::check_name as check_variable;
use crate::names::check_name;
use crate::schema::{kind, map_schema};
use crate::table::{Located, TomlItem, TomlTable};

/// The keys that only a server that is a process has.
const STDIO_KEYS: [&str; 4] = ["cwd", "env", "set", "secrets"];

/// A server as it is written.
pub(crate) struct AuthoredServer {
    /// `None` if it could not be read.
    pub(crate) config: Option<ServerConfig>,
    /// The secrets that it names.
    pub(crate) secrets: Vec<Located<String>>,
}

/// Reads all servers.
pub(super) fn read_servers(root: &TomlTable<'_>) -> BTreeMap<String, AuthoredServer> {
    let servers = root
        .key(
            "mcp",
            "MCP servers, whose tools actions and models can call, by the names that grants use.",
        )
        .map_item(read_server)
        .and_then(|item| item.table("`[mcp]`"));
    let mut read = BTreeMap::new();
    for item in servers.iter().flat_map(TomlTable::entries) {
        let name = item.key_name();
        check_name(&name, root.problems);
        let table = item.table(format!("`[mcp.{}]`", name.value));
        let (config, secrets) = table.map(|table| read_server(&table)).unwrap_or_default();
        read.insert(name.value, AuthoredServer { config, secrets });
    }
    read
}

fn read_server(table: &TomlTable<'_>) -> (Option<ServerConfig>, Vec<Located<String>>) {
    table.define_as("mcp-server");
    table.rule(
        "oneOf",
        || json!([{ "required": ["command"] }, { "required": ["url"] }]),
    );
    let mut secrets = Vec::new();
    let transport = read_transport(table, &mut secrets);
    let hints = table
        .key(
            "hints",
            "Whether the hints of the server decide which of its tools change something. Otherwise all do that `reads` \
             does not name.",
        )
        .boolean(true);
    let reads = table
        .key(
            "reads",
            "Tools that change nothing, whatever the server says; `*` stands for any run of characters.",
        )
        .unique_texts();
    let repeatable = table
        .key(
            "repeatable",
            "Tools that may be called twice with the same arguments, whatever the server says; `*` stands for any run \
             of characters.",
        )
        .unique_texts();
    let in_doubt = read_in_doubt(table);
    let is_required = table
        .key(
            "required",
            "Whether its roles need it. Otherwise a role whose model works with tools runs without it if it does not \
             start.",
        )
        .boolean(true);
    let passes_instructions = table
        .key(
            "instructions",
            "Whether models are told its instructions, after those of the role; at most 2 KiB.",
        )
        .boolean(false);
    let limits = read_limits(table);
    let revision = read_revision(table);
    let config = transport.map(|transport| ServerConfig {
        hints: if hints {
            HintUse::Trusted
        } else {
            HintUse::Ignored
        },
        reads: values(reads),
        repeatable: values(repeatable),
        in_doubt,
        start: limits[0],
        timeout: limits[1],
        max_timeout: limits[2],
        requirement: if is_required {
            Requirement::Required
        } else {
            Requirement::Optional
        },
        instructions: if passes_instructions {
            InstructionUse::PassedOn
        } else {
            InstructionUse::Ignored
        },
        revision,
        ..ServerConfig::new(transport)
    });
    (config, secrets)
}

fn read_in_doubt(table: &TomlTable<'_>) -> DoubtDefault {
    table
        .key(
            "in_doubt",
            "What becomes of a call that changes something and whose answer is lost. `stop`: the run stops until the \
             operator decides. `unknown`: a model that made the call is told; for actions as `stop`. `redo`: it is sent \
             once more.",
        )
        .default("stop")
        .choice(&[
            ("stop", DoubtDefault::Stop),
            ("unknown", DoubtDefault::Unknown),
            ("redo", DoubtDefault::Redo),
        ])
        .unwrap_or(DoubtDefault::Stop)
}

fn values(texts: Vec<Located<String>>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}

/// Reads `start`, `timeout` and `max_timeout`.
fn read_limits(table: &TomlTable<'_>) -> [Duration; 3] {
    let read = |key, about, default| {
        let item = table
            .key(key, about)
            .default(kind::written_duration(default))
            .value(|| kind::duration(kind::SHORTEST));
        let time = item.and_then(|item| {
            let time = item.duration()?;
            if time.is_zero() {
                let message = format!("`{key}` cannot be zero");
                item.reject(message, "leave the key out for the default");
            }
            Some(time)
        });
        time.unwrap_or(default)
    };
    [
        read(
            "start",
            "How long it may take from its start to its list of tools.",
            DEFAULT_START,
        ),
        read(
            "timeout",
            "The longest silence within a call; progress of the call restarts it.",
            DEFAULT_TIMEOUT,
        ),
        read(
            "max_timeout",
            "The longest call, whatever its progress.",
            DEFAULT_MAX_TIMEOUT,
        ),
    ]
}

fn read_revision(table: &TomlTable<'_>) -> Option<Revision> {
    let mut words = vec![("auto", None)];
    words.extend(Revision::ALL.map(|revision| (revision.name(), Some(revision))));
    table
        .key(
            "revision",
            "The revision of the protocol that is spoken. `auto`: the newest that both know.",
        )
        .default("auto")
        .choice(&words)
        .flatten()
}

fn read_transport(
    table: &TomlTable<'_>,
    secrets: &mut Vec<Located<String>>,
) -> Option<ServerTransport> {
    let command = table
        .key(
            "command",
            "The program and its arguments. It speaks over its standard streams, and runs with the rights of the host.",
        )
        .value(|| json!({ "type": "array", "items": kind::text(), "minItems": 1 }));
    let url = table
        .key("url", "The address of a server that speaks over HTTP.")
        .value(kind::url);
    let stdio = read_process(table);
    let headers = table
        .key(
            "headers",
            "Headers of each request to `url`. `{{secret:NAME}}` stands for the value of a secret.",
        )
        .value(|| map_schema(kind::text()));
    match (&command, &url) {
        (Some(command), None) => {
            reject_keys(table, "url", headers.as_ref(), "command");
            secrets.extend(stdio.secrets.clone());
            read_stdio(command, stdio)
        }
        (None, Some(url)) => {
            for key in STDIO_KEYS.into_iter().filter(|key| table.has(key)) {
                let problem = table.problems.at(
                    &table.span,
                    format!("`{key}` is for a server with a `command`"),
                );
                table.problems.add(problem.hint("remove it"));
            }
            let parse = |text: &str| parse_address(text, ServiceKind::Messages);
            let address = read_address(url, parse)?;
            let headers = headers
                .as_ref()
                .map(|headers| read_headers(headers, secrets));
            Some(ServerTransport::Http(HttpServer {
                url: address.url,
                headers: headers.unwrap_or_default(),
                secrets: secrets.iter().map(|secret| secret.value.clone()).collect(),
            }))
        }
        (Some(_), Some(url)) => {
            url.reject(
                "a server has a `command` or a `url`",
                "remove one of the two",
            );
            None
        }
        (None, None) => {
            table.report_missing_one_of(&["command", "url"]);
            None
        }
    }
}

/// Reports a key that belongs to the other kind of server.
fn reject_keys(table: &TomlTable<'_>, needs: &str, item: Option<&TomlItem<'_>>, has: &str) {
    if let Some(item) = item {
        let message = format!("`{}` is for a server with a `{needs}`", item.key);
        let problem = table.problems.at(&item.key_span, message);
        let hint = format!("remove it, or name a `{needs}` in place of the `{has}`");
        table.problems.add(problem.hint(hint));
    }
}

/// The keys of a server that is a process.
struct ProcessKeys<'a> {
    cwd: Option<TomlItem<'a>>,
    env: Vec<String>,
    set: Vec<(String, String)>,
    secrets: Vec<Located<String>>,
}

fn read_process<'a>(table: &TomlTable<'a>) -> ProcessKeys<'a> {
    let cwd = table
        .key(
            "cwd",
            "Its directory; the default is that of the team file.",
        )
        .default(".")
        .value(kind::path);
    let names = |key, about| {
        let item = table.key(key, about).value(kind::variables);
        let names = item.map(|item| item.unique_strings()).unwrap_or_default();
        names.iter().for_each(|name| check_variable(table, name));
        names
    };
    let env = names(
        "env",
        "Variables of the host that it sees besides `PATH` and `HOME`.",
    );
    let set = table
        .key("set", "Variables that it sees with these values.")
        .value(|| map_schema(kind::text()))
        .and_then(|item| item.table("`set`"));
    let mut variables = Vec::new();
    for item in set.iter().flat_map(TomlTable::entries) {
        check_variable(table, &item.key_name());
        if let Some(value) = item.text() {
            variables.push((item.key_name().value, value.value));
        }
    }
    ProcessKeys {
        cwd,
        env: values(env),
        set: variables,
        secrets: names(
            "secrets",
            "Secrets that it sees as variables of these names.",
        ),
    }
}

fn read_stdio(command: &TomlItem<'_>, keys: ProcessKeys<'_>) -> Option<ServerTransport> {
    let words: Vec<String> = command
        .strings()
        .into_iter()
        .map(|word| word.value)
        .collect();
    if command.is_empty_list() {
        command.reject("`command` is empty", "name a program and its arguments");
    }
    if let Some(program) = words.first() {
        reject_unexpanded(command, program);
    }
    let mut dir = command.base_dir().to_owned();
    if let Some(item) = &keys.cwd
        && let Some(cwd) = item.text()
        && !reject_unexpanded(item, &cwd.value)
    {
        if cwd.value.is_empty() {
            item.reject("`cwd` is empty", "`.` is the directory of the team file");
        }
        dir = dir.join(cwd.value);
    }
    Some(ServerTransport::Stdio(StdioServer {
        command: words,
        dir,
        env: keys.env,
        set: keys.set,
        secrets: values(keys.secrets),
    }))
}

/// Reads the headers of requests. The secrets in them are added to `secrets`.
fn read_headers(item: &TomlItem<'_>, secrets: &mut Vec<Located<String>>) -> Vec<(String, String)> {
    let table = item.table("`headers`");
    let mut headers = Vec::new();
    for item in table.iter().flat_map(TomlTable::entries) {
        let Some(value) = item.text() else { continue };
        let name = item.key_name();
        let is_name = reqwest::header::HeaderName::from_bytes(name.value.as_bytes()).is_ok();
        let is_value = reqwest::header::HeaderValue::from_str(&value.value).is_ok();
        if !is_name || !is_value {
            item.reject(
                format!("`{}` is not a header that can be sent", name.value),
                "a header is a name and a text of one line",
            );
            continue;
        }
        for secret in placeholders(&value.value) {
            let span = value.span.clone();
            let secret = Located {
                value: secret.to_owned(),
                span,
            };
            if !secrets.iter().any(|known| known.value == secret.value) {
                secrets.push(secret);
            }
        }
        headers.push((name.value, value.value));
    }
    headers
}

//! Reads the keys of an action or of `think` that configure its component: the file, the
//! configuration, limits and grants.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use strata_core::json;

use super::limits::{self, Patch, Subject};
use super::section;
use crate::build::script;
use crate::manifest::http;
use crate::manifest::names::is_legible;
use crate::manifest::skill::{self, Chosen, Placed};
use crate::manifest::table::{At, Item, Table};
use crate::open;
use crate::plugin::{Access, DirGrant, Grants, LlmGrant, Schema};
use crate::tidy::tidy;

/// The largest schema file that is read. Schemas are written by hand, so a larger file is most
/// likely something else.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// A component of an action or of `think`, as it is written.
pub(in crate::manifest) struct Slot {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) component: Option<At<PathBuf>>,
    pub(in crate::manifest) pin: Option<At<String>>,
    /// The skill, if the component is named as one.
    pub(in crate::manifest) skill: Option<Chosen>,
    /// The exported function to call, for a component that does not use the host's interface.
    pub(in crate::manifest) function: Option<At<String>>,
    pub(in crate::manifest) config: Value,
    /// The span of the configuration.
    pub(in crate::manifest) config_span: Option<Range<usize>>,
    /// The schema of the output, and the file that contains it.
    pub(in crate::manifest) output_schema: Option<(Schema, PathBuf)>,
    pub(in crate::manifest) limits: Patch,
    pub(in crate::manifest) allow: Allow,
}

/// `[role.action.allow]`.
#[derive(Default)]
pub(in crate::manifest) struct Allow {
    pub(in crate::manifest) span: Option<Range<usize>>,
    pub(in crate::manifest) grants: Grants,
    /// The names of secrets, where they are written.
    pub(in crate::manifest) secrets: Vec<At<String>>,
}

/// Reads the keys of a component from the table of its action or of `think`.
pub(super) fn read(table: &Table<'_>, subject: Subject) -> Slot {
    bar_others(table);
    let config = table.item("config");
    let limits = section(table, "limits", "`limits`").map(|t| limits::read(&t, subject));
    let pin = table.item("sha256").and_then(|item| read_pin(&item));
    let (component, pin, skill) = match read_skill(table) {
        None => (read_component(table), pin, None),
        Some(None) => (None, pin, None),
        // The author's pin takes precedence over the digest on the shelf. Either is compared with
        // the component when it is loaded.
        Some(Some(Placed {
            component,
            pin: shelved,
            chosen,
        })) => {
            let shelved = shelved.map(|value| At {
                value,
                span: component.span.clone(),
            });
            (Some(component), pin.or(shelved), Some(chosen))
        }
    };
    Slot {
        span: table.span.clone(),
        component,
        pin,
        skill,
        function: match subject {
            Subject::Action => read_function(table),
            Subject::Thinker => None,
        },
        config: config.as_ref().map_or(Value::Null, Item::json),
        config_span: config.map(|item| item.span()),
        output_schema: match subject {
            Subject::Action => table
                .item("output_schema")
                .and_then(|item| read_schema(&item)),
            Subject::Thinker => None,
        },
        limits: limits.unwrap_or_default(),
        allow: section(table, "allow", "`allow`")
            .map(|allow| read_allow(&allow))
            .unwrap_or_default(),
    }
}

/// The keys of which exactly one names the component.
const WAYS: [&str; 3] = ["component", "script", "skill"];

/// Excludes the other ways of naming a component from suggestions, and `function` unless the
/// component is named by `component`.
fn bar_others(table: &Table<'_>) {
    if WAYS.iter().any(|way| table.has(way)) {
        table.bar(&WAYS);
    }
    if table.has("script") || table.has("skill") {
        table.bar(&["function"]);
    }
}

/// Reads `skill`. The outer `Option` is `None` if the key is absent, the inner one if it is
/// invalid.
fn read_skill(table: &Table<'_>) -> Option<Option<Placed>> {
    let item = table.item("skill")?;
    refuse_beside(table, "skill", &["component", "script"]);
    Some(skill::read(&item))
}

/// Reads `component` or `script`.
fn read_component(table: &Table<'_>) -> Option<At<PathBuf>> {
    let Some(item) = table.item("script") else {
        let Some(item) = table.item("component") else {
            table.lacks(&WAYS);
            return None;
        };
        let found = file(&item)?;
        if item.looks_beside() && script::is_script(&found.value) && !found.value.is_dir() {
            let message = format!("`{}` is a script, not a component", item.text()?.value);
            item.refuse(
                message,
                format!("write `script = \"{}\"`", item.text()?.value),
            );
            return None;
        }
        return Some(found);
    };
    refuse_beside(table, "script", &["component"]);
    let found = file(&item)?;
    if !script::is_script(&found.value) {
        let endings: Vec<String> = script::endings()
            .map(|ending| format!("`.{ending}`"))
            .collect();
        let hint = format!("the names of scripts end in {}", endings.join(", "));
        item.refuse(format!("`{}` is not a script", item.text()?.value), hint);
        return None;
    }
    if item.looks_beside() && found.value.is_dir() {
        let message = format!("`{}` is a directory, not a script", item.text()?.value);
        item.refuse(
            message,
            format!(
                "the source of a component is a `component = \"{}\"`",
                item.text()?.value
            ),
        );
        return None;
    }
    Some(found)
}

/// Reports each of the `others` that is present beside `key`.
fn refuse_beside(table: &Table<'_>, key: &str, others: &[&'static str]) {
    for other in others.iter().filter_map(|other| table.item(other)) {
        let message = format!("there cannot be both `{key}` and `{}`", other.key);
        let problem = table.problems.at(&other.key_span, message);
        table.problems.add(problem.hint("remove one of them"));
    }
}

/// Reads `function`, the name of an exported function. A skill is always called by its handler, and
/// a script exports only what its interpreter exports, so neither can have one.
fn read_function(table: &Table<'_>) -> Option<At<String>> {
    let item = table.item("function")?;
    for other in ["skill", "script"]
        .into_iter()
        .filter(|other| table.has(other))
    {
        let message = format!("there cannot be both `{other}` and `function`");
        let problem = table.problems.at(&item.key_span, message);
        table
            .problems
            .add(problem.hint("functions are called of a `component`"));
    }
    let function = item.text()?;
    if function.value.is_empty() {
        item.refuse(
            "a function has a name",
            "`name`, or `package:name/interface@1.0.0#name`",
        );
        return None;
    }
    Some(function)
}

/// Reads a path and makes it absolute.
pub(in crate::manifest) fn path(item: &Item<'_>) -> Option<At<PathBuf>> {
    let text = item.text()?;
    if text.value.is_empty() || text.value.contains('\0') {
        item.refuse(
            format!("`{}` is not a path", item.key),
            "a path is relative to the team file",
        );
        return None;
    }
    Some(At {
        value: item.base().join(&text.value),
        span: text.span,
    })
}

/// Reads the path of a file, or of the source directory that it is built from, and makes it
/// absolute. The file is recorded as one that the team file names.
pub(in crate::manifest) fn file(item: &Item<'_>) -> Option<At<PathBuf>> {
    let found = path(item)?;
    item.names(&found.value);
    Some(found)
}

fn read_pin(item: &Item<'_>) -> Option<At<String>> {
    let pin = item.text()?;
    if pin.value.len() != 64 || !pin.value.bytes().all(|b| b.is_ascii_hexdigit()) {
        item.refuse(
            format!("`{}` is not a SHA-256", pin.value),
            "it has 64 hexadecimal digits, as `sha256sum` prints them",
        );
        return None;
    }
    Some(At {
        value: pin.value.to_ascii_lowercase(),
        span: pin.span,
    })
}

fn read_schema(item: &Item<'_>) -> Option<(Schema, PathBuf)> {
    let file = file(item)?.value;
    if !item.looks_beside() {
        return None;
    }
    let schema = load_schema(&file);
    if let Err(reason) = &schema {
        let message = format!("cannot use the schema `{}`: {reason}", tidy(&file));
        item.refuse(message, "it must be a file that holds a JSON Schema");
    }
    Some((schema.ok()?, file))
}

fn load_schema(file: &Path) -> Result<Schema, String> {
    let meta = std::fs::metadata(file).map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("it is not a file".into());
    }
    if meta.len() > MAX_SCHEMA_BYTES {
        return Err(format!("it has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    let text = open::text(file).map_err(|e| e.to_string())?;
    let schema = json::read(&text).map_err(|e| format!("it is {e}"))?;
    Schema::compile(&schema)
}

fn read_allow(table: &Table<'_>) -> Allow {
    let dirs = table.item("dirs");
    let dirs = dirs.map(|dirs| read_dirs(&dirs.tables("`dirs`")));
    let mut secrets = read_named(table, "secrets");
    let named: Vec<String> = secrets.iter().map(|name| name.value.clone()).collect();
    let http = table
        .item("http")
        .map(|item| http::read(&item, &mut secrets));
    Allow {
        span: Some(table.span.clone()),
        grants: Grants {
            llm: section(table, "llm", "`llm`").and_then(|llm| read_llm(&llm)),
            dirs: dirs.unwrap_or_default(),
            env: read_names(table, "env"),
            http: http.unwrap_or_default(),
            secrets: named,
        },
        secrets,
    }
}

/// Reads a list of names of environment variables.
pub(in crate::manifest) fn read_names(table: &Table<'_>, key: &'static str) -> Vec<String> {
    read_named(table, key)
        .into_iter()
        .map(|name| name.value)
        .collect()
}

/// Reads a list of names of environment variables, with their positions.
pub(in crate::manifest) fn read_named(table: &Table<'_>, key: &'static str) -> Vec<At<String>> {
    let names = table.item(key).map(|item| item.texts()).unwrap_or_default();
    for name in &names {
        check_variable(table, name);
    }
    names
}

/// Reports a name that no environment variable can have.
pub(in crate::manifest) fn check_variable(table: &Table<'_>, name: &At<String>) {
    if !is_legible(name, table.problems) {
        return;
    }
    if name.value.is_empty() || name.value.contains('=') {
        let message = format!(
            "`{}` is not the name of an environment variable",
            name.value
        );
        table.problems.add(table.problems.at(&name.span, message));
    }
}

pub(in crate::manifest) fn read_llm(table: &Table<'_>) -> Option<LlmGrant> {
    let calls = table.item("calls");
    let calls = calls.and_then(|item| item.whole(1..=u64::from(u32::MAX)));
    let item = table.required("models")?;
    let models = item.texts();
    for model in &models {
        is_legible(model, table.problems);
    }
    if item.is_empty_list() {
        item.refuse("`models` grants no model", "`[\"*\"]` grants all");
    }
    Some(LlmGrant {
        models: models.into_iter().map(|model| model.value).collect(),
        default: None,
        calls: calls.map(|calls| calls as u32),
    })
}

fn read_dirs(tables: &[Table<'_>]) -> Vec<DirGrant> {
    let mut taken = BTreeSet::new();
    let mut dirs = Vec::new();
    for table in tables {
        let host = table.required("host");
        let host = host.and_then(|item| read_host_dir(&item));
        let write = table.item("write").and_then(|item| item.flag());
        let guest = table.required("guest").and_then(|item| {
            let guest = read_guest_dir(&item)?;
            if !taken.insert(guest.clone()) {
                item.refuse(format!("`{guest}` is granted twice"), "remove one of them");
            }
            Some(guest)
        });
        if let (Some(host), Some(guest)) = (host, guest) {
            let access = match write {
                Some(true) => Access::Write,
                _ => Access::Read,
            };
            dirs.push(DirGrant {
                host,
                guest,
                access,
                max_bytes: read_max_size(table, access),
            });
        }
    }
    dirs
}

/// Reads `max_size`: how large a directory may become, in bytes. It is valid for writable
/// directories only.
pub(in crate::manifest) fn read_max_size(table: &Table<'_>, access: Access) -> Option<u64> {
    let item = table.item("max_size")?;
    if access == Access::Read {
        item.refuse(
            "`max_size` is for directories that may be written",
            "add `write = true`, or remove it",
        );
    }
    item.size()
}

/// Reads the path of a directory on the host. It need not exist yet: an earlier action may create
/// it.
fn read_host_dir(item: &Item<'_>) -> Option<PathBuf> {
    let host = path(item)?.value;
    if item.looks_beside() && host.exists() && !host.is_dir() {
        let message = format!("`{}` is not a directory", tidy(&host));
        item.refuse(message, "grant the directory that holds it");
    }
    Some(host)
}

fn read_guest_dir(item: &Item<'_>) -> Option<String> {
    let guest = item.text()?.value;
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let rest = guest.strip_prefix('/');
    if !rest.is_some_and(|rest| rest.is_empty() || rest.split('/').all(plain)) {
        item.refuse(
            format!("`{guest}` cannot be a guest's directory"),
            "it begins with `/` and is written without `.`, `..` or a `/` at the end: `/out`",
        );
        return None;
    }
    Some(guest)
}

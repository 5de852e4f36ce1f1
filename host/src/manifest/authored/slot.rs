//! Reads the keys of an action or of `think` that configure its component: the file, the
//! configuration, limits and grants.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use strata_core::record::json;

use super::limits::{self, ComponentKind, LimitsPatch};
use super::optional_table;
use crate::build::script;
use crate::display_path::display_path;
use crate::manifest::http;
use crate::manifest::names::check_legible;
use crate::manifest::skill::{self, ResolvedSkill, SkillReference};
use crate::manifest::table::{Located, TomlItem, TomlTable};
use crate::open;
use crate::plugin::{Access, CompiledSchema, DirGrant, Grants, LlmGrant};

/// The largest schema file that is read. Schemas are written by hand, so a larger file is most
/// likely something else.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// A component of an action or of `think`, as it is written.
pub(in crate::manifest) struct AuthoredSlot {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) component: Option<Located<PathBuf>>,
    pub(in crate::manifest) pin: Option<Located<String>>,
    /// The skill, if the component is named as one.
    pub(in crate::manifest) skill: Option<SkillReference>,
    /// The exported function to call, for a component that does not use the host's interface.
    pub(in crate::manifest) function: Option<Located<String>>,
    pub(in crate::manifest) config: Value,
    /// The span of the configuration.
    pub(in crate::manifest) config_span: Option<Range<usize>>,
    /// The schema of the output, and the file that contains it.
    pub(in crate::manifest) output_schema: Option<(CompiledSchema, PathBuf)>,
    pub(in crate::manifest) limits: LimitsPatch,
    pub(in crate::manifest) allow: AuthoredGrants,
}

/// `[role.action.allow]`.
#[derive(Default)]
pub(in crate::manifest) struct AuthoredGrants {
    pub(in crate::manifest) span: Option<Range<usize>>,
    pub(in crate::manifest) grants: Grants,
    /// The names of secrets, where they are written.
    pub(in crate::manifest) secrets: Vec<Located<String>>,
}

/// Reads the keys of a component from the table of its action or of `think`.
pub(super) fn read_slot(table: &TomlTable<'_>, subject: ComponentKind) -> AuthoredSlot {
    forbid_conflicting_keys(table);
    let config = table.item("config");
    let limits =
        optional_table(table, "limits", "`limits`").map(|t| limits::read_limits_patch(&t, subject));
    let pin = table.item("sha256").and_then(|item| read_pin(&item));
    let (component, pin, skill) = match read_skill(table) {
        None => (read_component(table), pin, None),
        Some(None) => (None, pin, None),
        // The author's pin takes precedence over the digest on the shelf. Either is compared with
        // the component when it is loaded.
        Some(Some(ResolvedSkill {
            component,
            pin: shelved,
            reference: chosen,
        })) => {
            let shelved = shelved.map(|value| Located {
                value,
                span: component.span.clone(),
            });
            (Some(component), pin.or(shelved), Some(chosen))
        }
    };
    AuthoredSlot {
        span: table.span.clone(),
        component,
        pin,
        skill,
        function: match subject {
            ComponentKind::Action => read_function(table),
            ComponentKind::Thinker => None,
        },
        config: config.as_ref().map_or(Value::Null, TomlItem::json),
        config_span: config.map(|item| item.span()),
        output_schema: match subject {
            ComponentKind::Action => table
                .item("output_schema")
                .and_then(|item| read_schema(&item)),
            ComponentKind::Thinker => None,
        },
        limits: limits.unwrap_or_default(),
        allow: optional_table(table, "allow", "`allow`")
            .map(|allow| read_allow(&allow))
            .unwrap_or_default(),
    }
}

/// The keys of which exactly one names the component.
const COMPONENT_KEYS: [&str; 3] = ["component", "script", "skill"];

/// Excludes the other ways of naming a component from suggestions, and `function` unless the
/// component is named by `component`.
fn forbid_conflicting_keys(table: &TomlTable<'_>) {
    if COMPONENT_KEYS.iter().any(|way| table.has(way)) {
        table.exclude(&COMPONENT_KEYS);
    }
    if table.has("script") || table.has("skill") {
        table.exclude(&["function"]);
    }
}

/// Reads `skill`. The outer `Option` is `None` if the key is absent, the inner one if it is
/// invalid.
fn read_skill(table: &TomlTable<'_>) -> Option<Option<ResolvedSkill>> {
    let item = table.item("skill")?;
    reject_conflicting_keys(table, "skill", &["component", "script"]);
    Some(skill::resolve_skill(&item))
}

/// Reads `component` or `script`.
fn read_component(table: &TomlTable<'_>) -> Option<Located<PathBuf>> {
    let Some(item) = table.item("script") else {
        let Some(item) = table.item("component") else {
            table.report_missing_one_of(&COMPONENT_KEYS);
            return None;
        };
        let found = read_file_path(&item)?;
        if item.checks_files() && script::is_script(&found.value) && !found.value.is_dir() {
            let message = format!("`{}` is a script, not a component", item.text()?.value);
            item.reject(
                message,
                format!("write `script = \"{}\"`", item.text()?.value),
            );
            return None;
        }
        return Some(found);
    };
    reject_conflicting_keys(table, "script", &["component"]);
    let found = read_file_path(&item)?;
    if !script::is_script(&found.value) {
        let endings: Vec<String> = script::extensions()
            .map(|ending| format!("`.{ending}`"))
            .collect();
        let hint = format!("the names of scripts end in {}", endings.join(", "));
        item.reject(format!("`{}` is not a script", item.text()?.value), hint);
        return None;
    }
    if item.checks_files() && found.value.is_dir() {
        let message = format!("`{}` is a directory, not a script", item.text()?.value);
        item.reject(
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
fn reject_conflicting_keys(table: &TomlTable<'_>, key: &str, others: &[&'static str]) {
    for other in others.iter().filter_map(|other| table.item(other)) {
        let message = format!("there cannot be both `{key}` and `{}`", other.key);
        let problem = table.problems.at(&other.key_span, message);
        table.problems.add(problem.hint("remove one of them"));
    }
}

/// Reads `function`, the name of an exported function. A skill is always called by its handler, and
/// a script exports only what its interpreter exports, so neither can have one.
fn read_function(table: &TomlTable<'_>) -> Option<Located<String>> {
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
        item.reject(
            "a function has a name",
            "`name`, or `package:name/interface@1.0.0#name`",
        );
        return None;
    }
    Some(function)
}

/// Reads a path and makes it absolute.
pub(in crate::manifest) fn read_path(item: &TomlItem<'_>) -> Option<Located<PathBuf>> {
    let text = item.text()?;
    if text.value.is_empty() || text.value.contains('\0') {
        item.reject(
            format!("`{}` is not a path", item.key),
            "a path is relative to the team file",
        );
        return None;
    }
    Some(Located {
        value: item.base_dir().join(&text.value),
        span: text.span,
    })
}

/// Reads the path of a file, or of the source directory that it is built from, and makes it
/// absolute. The file is recorded as one that the team file names.
pub(in crate::manifest) fn read_file_path(item: &TomlItem<'_>) -> Option<Located<PathBuf>> {
    let found = read_path(item)?;
    item.add_file(&found.value);
    Some(found)
}

fn read_pin(item: &TomlItem<'_>) -> Option<Located<String>> {
    let pin = item.text()?;
    if pin.value.len() != 64 || !pin.value.bytes().all(|b| b.is_ascii_hexdigit()) {
        item.reject(
            format!("`{}` is not a SHA-256", pin.value),
            "it has 64 hexadecimal digits, as `sha256sum` prints them",
        );
        return None;
    }
    Some(Located {
        value: pin.value.to_ascii_lowercase(),
        span: pin.span,
    })
}

fn read_schema(item: &TomlItem<'_>) -> Option<(CompiledSchema, PathBuf)> {
    let file = read_file_path(item)?.value;
    if !item.checks_files() {
        return None;
    }
    let schema = load_schema(&file);
    if let Err(reason) = &schema {
        let message = format!("cannot use the schema `{}`: {reason}", display_path(&file));
        item.reject(message, "it must be a file that holds a JSON Schema");
    }
    Some((schema.ok()?, file))
}

fn load_schema(file: &Path) -> Result<CompiledSchema, String> {
    let meta = std::fs::metadata(file).map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("it is not a file".into());
    }
    if meta.len() > MAX_SCHEMA_BYTES {
        return Err(format!("it has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    let text = open::read_to_string(file).map_err(|e| e.to_string())?;
    let schema = json::parse_untrusted(&text).map_err(|e| format!("it is {e}"))?;
    CompiledSchema::compile(&schema)
}

fn read_allow(table: &TomlTable<'_>) -> AuthoredGrants {
    let dirs = table.item("dirs");
    let dirs = dirs.map(|dirs| read_dirs(&dirs.tables("`dirs`")));
    let mut secrets = read_located_variables(table, "secrets");
    let named: Vec<String> = secrets.iter().map(|name| name.value.clone()).collect();
    let http = table
        .item("http")
        .map(|item| http::read_grants(&item, &mut secrets));
    AuthoredGrants {
        span: Some(table.span.clone()),
        grants: Grants {
            llm: optional_table(table, "llm", "`llm`").and_then(|llm| read_llm(&llm)),
            dirs: dirs.unwrap_or_default(),
            env: read_variable_names(table, "env"),
            http: http.unwrap_or_default(),
            secrets: named,
        },
        secrets,
    }
}

/// Reads a list of names of environment variables.
pub(in crate::manifest) fn read_variable_names(
    table: &TomlTable<'_>,
    key: &'static str,
) -> Vec<String> {
    read_located_variables(table, key)
        .into_iter()
        .map(|name| name.value)
        .collect()
}

/// Reads a list of names of environment variables, with their positions.
pub(in crate::manifest) fn read_located_variables(
    table: &TomlTable<'_>,
    key: &'static str,
) -> Vec<Located<String>> {
    let names = table
        .item(key)
        .map(|item| item.unique_strings())
        .unwrap_or_default();
    for name in &names {
        check_variable(table, name);
    }
    names
}

/// Reports a name that no environment variable can have.
pub(in crate::manifest) fn check_variable(table: &TomlTable<'_>, name: &Located<String>) {
    if !check_legible(name, table.problems) {
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

pub(in crate::manifest) fn read_llm(table: &TomlTable<'_>) -> Option<LlmGrant> {
    let calls = table.item("calls");
    let calls = calls.and_then(|item| item.integer(1..=u64::from(u32::MAX)));
    let item = table.required("models")?;
    let models = item.unique_strings();
    for model in &models {
        check_legible(model, table.problems);
    }
    if item.is_empty_list() {
        item.reject("`models` grants no model", "`[\"*\"]` grants all");
    }
    Some(LlmGrant {
        models: models.into_iter().map(|model| model.value).collect(),
        default: None,
        calls: calls.map(|calls| calls as u32),
    })
}

fn read_dirs(tables: &[TomlTable<'_>]) -> Vec<DirGrant> {
    let mut taken = BTreeSet::new();
    let mut dirs = Vec::new();
    for table in tables {
        let host = table.required("host");
        let host = host.and_then(|item| read_host_dir(&item));
        let write = table.item("write").and_then(|item| item.boolean());
        let guest = table.required("guest").and_then(|item| {
            let guest = read_guest_dir(&item)?;
            if !taken.insert(guest.clone()) {
                item.reject(format!("`{guest}` is granted twice"), "remove one of them");
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
                max_bytes: read_max_bytes(table, access),
            });
        }
    }
    dirs
}

/// Reads `max_size`: how large a directory may become, in bytes. It is valid for writable
/// directories only.
pub(in crate::manifest) fn read_max_bytes(table: &TomlTable<'_>, access: Access) -> Option<u64> {
    let item = table.item("max_size")?;
    if access == Access::Read {
        item.reject(
            "`max_size` is for directories that may be written",
            "add `write = true`, or remove it",
        );
    }
    item.size()
}

/// Reads the path of a directory on the host. It need not exist yet: an earlier action may create
/// it.
fn read_host_dir(item: &TomlItem<'_>) -> Option<PathBuf> {
    let host = read_path(item)?.value;
    if item.checks_files() && host.exists() && !host.is_dir() {
        let message = format!("`{}` is not a directory", display_path(&host));
        item.reject(message, "grant the directory that holds it");
    }
    Some(host)
}

fn read_guest_dir(item: &TomlItem<'_>) -> Option<String> {
    let guest = item.text()?.value;
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let rest = guest.strip_prefix('/');
    if !rest.is_some_and(|rest| rest.is_empty() || rest.split('/').all(plain)) {
        item.reject(
            format!("`{guest}` cannot be a guest's directory"),
            "it begins with `/` and is written without `.`, `..` or a `/` at the end: `/out`",
        );
        return None;
    }
    Some(guest)
}

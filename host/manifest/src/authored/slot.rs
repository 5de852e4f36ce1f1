//! Reads the keys of an action or of `think` that configure its component: the file, the
//! configuration, limits and grants.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strata_base::files::open;
use strata_base::text::display_path::display_path;
use strata_base::text::ordered_json::OrderedJson;
use strata_base::text::unexpanded_path::UnexpandedPath;
use strata_services::models::arguments_schema;
use strata_services::plugin::CompiledSchema;
use strata_services::plugin::builtin::BuiltinComponent;
use strata_services::plugin::script;

use super::limits::{self, ComponentKind, LimitsPatch};
use crate::grants::{self, AuthoredGrants};
use crate::schema::kind;
use crate::skill::{self, ResolvedSkill, SkillReference};
use crate::table::{Located, TomlItem, TomlTable};

/// The largest schema file that is read. Schemas are written by hand, so a larger file is most
/// likely something else.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// A component of an action or of `think`, as it is written.
pub(crate) struct AuthoredSlot {
    pub(crate) span: Range<usize>,
    pub(crate) component: Option<Located<PathBuf>>,
    pub(crate) pin: Option<Located<String>>,
    /// The skill, if the component is named as one.
    pub(crate) skill: Option<SkillReference>,
    /// The exported function to call, for a component that does not use the host's interface.
    pub(crate) function: Option<Located<String>>,
    pub(crate) config: Value,
    /// The span of the configuration.
    pub(crate) config_span: Option<Range<usize>>,
    /// The schema of the output, and the file that contains it.
    pub(crate) output_schema: Option<(CompiledSchema, PathBuf)>,
    pub(crate) limits: LimitsPatch,
    pub(crate) allow: AuthoredGrants,
}

/// Reads the keys of a component from the table of its action or of `think`.
pub(super) fn read_slot(table: &TomlTable<'_>, subject: ComponentKind) -> AuthoredSlot {
    let config = table
        .key("config", "Handed to the component with each call, as JSON.")
        .value(|| json!({}));
    let limits = table
        .key(
            "limits",
            "What it may use up. What is not written is that of the team.",
        )
        .table("`limits`", |limits| {
            limits::read_limits_patch(limits, subject)
        });
    let named = ComponentKeys::look_up(table, subject).read(table);
    let output_schema = match subject {
        ComponentKind::Action => table
            .key(
                "output_schema",
                "A file with a JSON Schema that the output's data has to follow.",
            )
            .value(kind::path),
        ComponentKind::Thinker | ComponentKind::Summariser => None,
    };
    let allow = table
        .key("allow", "What it may touch. Nothing else is allowed.")
        .table("`allow`", grants::read_grants);
    AuthoredSlot {
        span: table.span.clone(),
        component: named.component,
        pin: named.pin,
        skill: named.skill,
        function: named.function,
        config: config
            .as_ref()
            .map_or(Value::Null, |item| item.json("a component")),
        config_span: config.map(|item| item.span()),
        output_schema: output_schema.and_then(|item| read_schema(&item)),
        limits: limits.unwrap_or_default(),
        allow: allow.unwrap_or_default(),
    }
}

/// The keys that name a component and what is called of it.
struct ComponentKeys<'a> {
    component: Option<TomlItem<'a>>,
    script: Option<TomlItem<'a>>,
    skill: Option<TomlItem<'a>>,
    pin: Option<TomlItem<'a>>,
    function: Option<TomlItem<'a>>,
    subject: ComponentKind,
}

/// A component, as these keys name it.
#[derive(Default)]
struct NamedComponent {
    component: Option<Located<PathBuf>>,
    pin: Option<Located<String>>,
    skill: Option<SkillReference>,
    function: Option<Located<String>>,
}

/// The keys of which exactly one names the component.
const COMPONENT_KEYS: [&str; 3] = ["component", "script", "skill"];

impl<'a> ComponentKeys<'a> {
    fn look_up(table: &TomlTable<'a>, subject: ComponentKind) -> Self {
        let keys = Self {
            component: table
                .key(
                    "component",
                    "A component, or a directory with the source of one, which is built first. Relative to this file. \
                     `builtin:probe`: the probe, which is part of the program and does what its `config` says.",
                )
                .value(kind::path),
            script: table
                .key(
                    "script",
                    "A file in JavaScript or Python that is run as it is. Relative to this file. `<newest>.js`, \
                     `<newest>.py`: the code in the newest message. `<arguments.NAME>.js`, `<arguments.NAME>.py`: \
                     the code in an argument of a tool call.",
                )
                .value(|| {
                    let extensions: Vec<&str> = script::extensions().collect();
                    kind::matching(&format!(".\\.({})$", extensions.join("|")))
                }),
            skill: table
                .key(
                    "skill",
                    "A component on this machine's shelf: `name@1.2.3`, or the newest of `name@^1.2`. See \
                     `strata-host shelf`.",
                )
                .matching("^[0-9A-Za-z][0-9A-Za-z._-]*@[\\^~]?\\s*[0-9]"),
            pin: table
                .key("sha256", "The SHA-256 that the component must have.")
                .matching("^[0-9A-Fa-f]{64}$"),
            function: match subject {
                ComponentKind::Action => table
                    .key(
                        "function",
                        "What is called of a component that knows nothing of the host: an exported function's \
                         `name`, or `package:name/interface@version#name`.",
                    )
                    .value(kind::non_empty_text),
                ComponentKind::Thinker | ComponentKind::Summariser => None,
            },
            subject,
        };
        // A model may write summaries instead.
        if subject != ComponentKind::Summariser {
            table.rule("oneOf", || {
                COMPONENT_KEYS
                    .map(|key| json!({ "required": [key] }))
                    .into()
            });
        }
        if subject == ComponentKind::Action {
            table.rule("dependentRequired", || json!({ "function": ["component"] }));
        }
        keys
    }

    fn read(&self, table: &TomlTable<'_>) -> NamedComponent {
        self.exclude_conflicting(table);
        let pin = self.pin.as_ref().and_then(read_pin);
        let function = self.read_function(table);
        let Some(skill) = &self.skill else {
            return NamedComponent {
                component: self.read_component(table),
                pin,
                skill: None,
                function,
            };
        };
        reject_conflicting(table, "skill", [&self.component, &self.script]);
        let Some(resolved) = skill::resolve_skill(skill) else {
            return NamedComponent {
                pin,
                function,
                ..NamedComponent::default()
            };
        };
        let ResolvedSkill {
            component,
            pin: shelved,
            reference,
        } = resolved;
        // The author's pin takes precedence over the digest on the shelf. Either is compared with
        // the component when it is loaded.
        let shelved = shelved.map(|value| Located {
            value,
            span: component.span.clone(),
        });
        NamedComponent {
            component: Some(component),
            pin: pin.or(shelved),
            skill: Some(reference),
            function,
        }
    }

    /// Excludes the other ways of naming a component from suggestions, and `function` unless the
    /// component is named by `component`.
    fn exclude_conflicting(&self, table: &TomlTable<'_>) {
        let other = self.script.is_some() || self.skill.is_some();
        if self.component.is_some() || other {
            table.exclude(&COMPONENT_KEYS);
        }
        if other {
            table.exclude(&["function"]);
        }
    }

    /// Reads `component` or `script`.
    fn read_component(&self, table: &TomlTable<'_>) -> Option<Located<PathBuf>> {
        if let Some(script) = &self.script {
            reject_conflicting(table, "script", [&self.component]);
            return read_script(script);
        }
        let Some(item) = &self.component else {
            if self.subject != ComponentKind::Summariser {
                table.report_missing_one_of(&COMPONENT_KEYS);
            }
            return None;
        };
        let text = item.text()?;
        match BuiltinComponent::parse(&text.value) {
            Ok(None) => {}
            // It is no file.
            Ok(Some(builtin)) => {
                return Some(Located {
                    value: builtin.name().into(),
                    span: text.span,
                });
            }
            Err(unknown) => {
                item.reject(
                    format!("there is no built-in component `{}`", unknown.name),
                    unknown.hint,
                );
                return None;
            }
        }
        let found = read_file_path(item)?;
        if item.checks_files() && script::is_script(&found.value) && !found.value.is_dir() {
            let message = format!("`{}` is a script, not a component", item.text()?.value);
            item.reject(
                message,
                format!("write `script = \"{}\"`", item.text()?.value),
            );
            return None;
        }
        Some(found)
    }

    /// Reads `function`, the name of an exported function. A skill is always called by its handler,
    /// and a script exports only what its interpreter exports, so neither can have one.
    fn read_function(&self, table: &TomlTable<'_>) -> Option<Located<String>> {
        let item = self.function.as_ref()?;
        for other in [&self.skill, &self.script].into_iter().flatten() {
            let message = format!("there cannot be both `{}` and `function`", other.key);
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
}

fn read_script(item: &TomlItem<'_>) -> Option<Located<PathBuf>> {
    let found = read_file_path(item)?;
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
fn reject_conflicting<const N: usize>(
    table: &TomlTable<'_>,
    key: &str,
    others: [&Option<TomlItem<'_>>; N],
) {
    for other in others.into_iter().flatten() {
        let message = format!("there cannot be both `{key}` and `{}`", other.key);
        let problem = table.problems.at(&other.key_span, message);
        table.problems.add(problem.hint("remove one of them"));
    }
}

/// Reads a path and makes it absolute.
pub(crate) fn read_path(item: &TomlItem<'_>) -> Option<Located<PathBuf>> {
    let text = item.text()?;
    if text.value.is_empty() || text.value.contains('\0') {
        item.reject(
            format!("`{}` is not a path", item.key),
            "a path is relative to the team file",
        );
        return None;
    }
    if reject_unexpanded(item, &text.value) {
        return None;
    }
    Some(Located {
        value: item.base_dir().join(&text.value),
        span: text.span,
    })
}

/// Returns whether a shell would replace something in a path, and reports it if so.
pub(crate) fn reject_unexpanded(item: &TomlItem<'_>, path: &str) -> bool {
    let unexpanded = UnexpandedPath::find(path);
    if let Some(unexpanded) = &unexpanded {
        item.reject(unexpanded.to_string(), unexpanded.hint());
    }
    unexpanded.is_some()
}

/// Reads the path of a file, or of the source directory that it is built from, and makes it
/// absolute. The file is recorded as one that the team file names.
pub(crate) fn read_file_path(item: &TomlItem<'_>) -> Option<Located<PathBuf>> {
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

/// Reads the JSON Schema in the file that a value names.
pub(super) fn read_schema(item: &TomlItem<'_>) -> Option<(CompiledSchema, PathBuf)> {
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

/// Reads the JSON Schema in the file that a value names, which has to be one of the arguments of a
/// tool.
pub(super) fn read_arguments_schema(item: &TomlItem<'_>) -> Option<(CompiledSchema, PathBuf)> {
    let (schema, file) = read_schema(item)?;
    if let Err(reason) = arguments_schema(schema.ordered()) {
        let file = display_path(&file);
        item.reject(
            format!("cannot use the schema `{file}` for arguments: {reason}"),
            "give it `\"type\": \"object\"`, and describe the arguments under `properties`",
        );
        return None;
    }
    Some((schema, file))
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
    let schema = OrderedJson::parse(&text).map_err(|e| format!("it is {e}"))?;
    CompiledSchema::compile_ordered(schema)
}

//! Which parts of a team an edit concerns: of its file, or of a file that it names. Whether the content
//! of a component has changed is known only when it is loaded.
//!
//! The tables of roles are compared as they are written, key by key. A key that is not listed here
//! counts as something that the model of the role is told, so that no key is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::rules::Thinker;
use strata_core::record::turn::ToolRef;
use strata_core::team::{React, Role};
use strata_services::mcp::config::ServerConfig;
use strata_services::models::config::ProviderConfig;
use strata_services::plugin::pattern;
use strata_services::skills::SKILL_FILE;
use toml::{Table, Value};

use super::Definition;
use super::authored::tools::OUTPUT_SCHEMA;

/// A part of a team whose results an edit may alter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EditedPart {
    /// What a component makes.
    Slot(Slot),
    /// What the model of a role replies.
    Requests(RoleId),
    /// What becomes of the tool calls of the model of a role.
    Calls(RoleId),
}

/// How the keys of a table are compared.
struct ComparedKeys {
    /// Keys that decide what becomes of tool calls.
    calls: &'static [&'static str],
    /// Keys that do not alter results, and those that are compared as parts of the team or of slots.
    elsewhere: &'static [&'static str],
}

const ROLE_KEYS: ComparedKeys = ComparedKeys {
    calls: &[
        "max_calls",
        "repeat",
        "tool_faults",
        "before",
        "after",
        "skill",
    ],
    elsewhere: &[
        "name",
        "kind",
        "watch",
        "addresses",
        "deliver",
        "react",
        "max_react_loop",
        "think",
        "max_turns",
        "parallel",
        "limits",
        "investment",
        "tokens",
        ACTIONS,
        TOOLS,
    ],
};

const ACTION_KEYS: ComparedKeys = ComparedKeys {
    calls: &["max_calls", "approve", "on_fault", "final"],
    elsewhere: &[
        "name",
        "component",
        "script",
        "skill",
        "function",
        "sha256",
        "config",
        OUTPUT_SCHEMA,
        "exclusive",
        "limits",
        "allow",
        "investment",
        "tokens",
    ],
};

const TOOL_KEYS: ComparedKeys = ComparedKeys {
    calls: &["max_calls", "approve", "on_fault"],
    elsewhere: &["limits", "allow"],
};

const ACTIONS: &str = "action";
const TOOLS: &str = "tool";

/// Returns the parts that are edited in the text of the team file from `before` to `now`. Limits do not
/// count, because they do not alter results. Both definitions must have been read in the same way, without
/// files.
pub fn parts_edited(before: &Definition, now: &Definition) -> BTreeSet<EditedPart> {
    WrittenTeam::new(now).parts_edited_since(&WrittenTeam::new(before))
}

/// Returns the parts whose results depend on the content of `file`, as far as the team file shows: it is
/// a schema, a file of a skill, or holds the replies of a model. Components are not considered.
pub fn parts_that_read(definition: &Definition, file: &Path) -> BTreeSet<EditedPart> {
    WrittenTeam::new(definition).parts_that_read(file)
}

/// A team with the tables of its roles as they are written.
struct WrittenTeam<'a> {
    read: &'a Definition,
    roles: Vec<(RoleId, Table)>,
}

impl<'a> WrittenTeam<'a> {
    fn new(read: &'a Definition) -> Self {
        let document: Table = read.source.text.parse().unwrap_or_default();
        let roles = tables(&document, "role").cloned();
        let roles = (0..).map(RoleId).zip(roles).collect();
        Self { read, roles }
    }

    fn parts_edited_since(&self, before: &Self) -> BTreeSet<EditedPart> {
        let mut parts: BTreeSet<EditedPart> = self
            .read
            .plugins
            .keys()
            .filter(|slot| self.is_slot_edited(**slot, before))
            .map(|slot| EditedPart::Slot(*slot))
            .collect();
        for ((id, was), (_, is)) in before.roles.iter().zip(&self.roles) {
            let id = *id;
            let actions = tables(was, ACTIONS).zip(tables(is, ACTIONS));
            for ((was, is), action) in actions.zip((0..).map(ActionId)) {
                if was.get(OUTPUT_SCHEMA) != is.get(OUTPUT_SCHEMA) {
                    let kind = SlotKind::Action(action);
                    parts.insert(EditedPart::Slot(Slot { role: id, kind }));
                }
            }
            if !self.is_led_by_model(id) {
                continue;
            }
            parts.extend(edited_in_role(id, was, is));
            if self.read.llm != before.read.llm
                || self.servers_of(id) != before.servers_of(id)
                || self.called_roles(id) != before.called_roles(id)
            {
                parts.insert(EditedPart::Requests(id));
            }
        }
        parts
    }

    fn parts_that_read(&self, file: &Path) -> BTreeSet<EditedPart> {
        let has_replies = self.has_replies_in(file);
        let slots = self.read.plugins.iter().filter(|(slot, plugin)| {
            let place = self.read.locations.get(slot);
            let schema = place.and_then(|place| place.output_schema.as_deref());
            schema == Some(file) || (has_replies && plugin.grants.llm.is_some())
        });
        let mut parts: BTreeSet<EditedPart> =
            slots.map(|(slot, _)| EditedPart::Slot(*slot)).collect();
        for (id, table) in &self.roles {
            let id = *id;
            if !self.is_led_by_model(id) {
                continue;
            }
            if has_replies || self.names_schema(table, file) {
                parts.insert(EditedPart::Requests(id));
            }
            if self.has_in_skill(table, file) {
                // The model is told what a skill is for, and sees the other files if it calls a tool.
                let is_described = file.file_name().is_some_and(|name| name == SKILL_FILE);
                parts.insert(if is_described {
                    EditedPart::Requests(id)
                } else {
                    EditedPart::Calls(id)
                });
            }
        }
        parts
    }

    /// Returns whether a model decides what a role does.
    fn is_led_by_model(&self, id: RoleId) -> bool {
        let react = self.read.team.roles.get(id.index()).map(|role| &role.react);
        let chooses = |react: &React| {
            matches!(
                react,
                React::Choose {
                    thinker: Thinker::Model,
                    ..
                }
            )
        };
        self.read.tool_roles.contains_key(&id) || react.is_some_and(chooses)
    }

    fn is_slot_edited(&self, slot: Slot, before: &Self) -> bool {
        let (Some(was), Some(is)) = (before.read.plugins.get(&slot), self.read.plugins.get(&slot))
        else {
            return true;
        };
        let description = |role: &Role| {
            [&role.profile, &role.goal, &role.constraints, &role.desc].map(Clone::clone)
        };
        let is_described_otherwise = description(before.read.team.role(slot.role))
            != description(self.read.team.role(slot.role));
        was.config != is.config
            || was.function != is.function
            || was.grants != is.grants
            || (is.grants.llm.is_some() && before.read.llm != self.read.llm)
            || is_described_otherwise
    }

    /// Returns the settings of the MCP servers whose tools a role can call.
    fn servers_of(&self, id: RoleId) -> Vec<Option<&ServerConfig>> {
        let servers = self.read.tool_roles.get(&id).map(|role| &role.servers);
        let names = servers.into_iter().flatten().map(|tools| &tools.server);
        names.map(|server| self.read.mcp.get(server)).collect()
    }

    /// Returns what the model of a role is told about the roles that it can call.
    fn called_roles(&self, id: RoleId) -> BTreeMap<&str, Option<&str>> {
        let known = self.read.team.roles.get(id.index());
        let known = known.and_then(Role::tool_loop).map(|tools| &tools.tools);
        let settings = self.read.tool_roles.get(&id).map(|role| &role.tools);
        let tools = known.into_iter().flatten();
        tools
            .zip(settings.into_iter().flatten())
            .filter(|(tool, _)| matches!(tool.target.tool, ToolRef::Role(_)))
            .map(|(tool, settings)| (tool.name.as_str(), settings.description.as_deref()))
            .collect()
    }

    /// Returns whether a model replies with what a file says.
    fn has_replies_in(&self, file: &Path) -> bool {
        let mut models = self.read.llm.iter().flat_map(|llm| llm.models.values());
        models.any(|model| match &model.provider {
            ProviderConfig::Scripted { replies } | ProviderConfig::Recorded { replies } => {
                replies == file
            }
            ProviderConfig::Endpoint(_) => false,
        })
    }

    /// Returns whether a role with tools names this file as the schema of its answer or of arguments.
    fn names_schema(&self, role: &Table, file: &Path) -> bool {
        let of_actions = tables(role, ACTIONS).filter_map(|action| action.get("input_schema"));
        let named = role.get(OUTPUT_SCHEMA).into_iter().chain(of_actions);
        let mut paths = named.filter_map(Value::as_str);
        paths.any(|path| self.read.source.base.join(path) == file)
    }

    /// Returns whether a file is in a directory that a role names as a skill.
    fn has_in_skill(&self, role: &Table, file: &Path) -> bool {
        let patterns = role.get("skills").and_then(Value::as_array);
        let mut patterns = patterns.into_iter().flatten().filter_map(Value::as_str);
        patterns.any(|written| {
            let path = self.read.source.base.join(written);
            let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else {
                return false;
            };
            let last = last.to_string_lossy().into_owned();
            let below = file.strip_prefix(parent).ok();
            let mut below = below.into_iter().flat_map(Path::components);
            below.next().is_some_and(|skill| {
                let skill = skill.as_os_str().to_string_lossy();
                pattern::matches_any(&[last], &skill)
            }) && below.next().is_some()
        })
    }
}

/// Returns the tables of a list, or nothing if the key has another value.
fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    let list = table.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_table)
}

/// Returns the parts of a role with a model that its table concerns where it differs.
fn edited_in_role(id: RoleId, was: &Table, is: &Table) -> BTreeSet<EditedPart> {
    let mut parts = ROLE_KEYS.edited_parts(id, was, is);
    for (list, keys) in [(ACTIONS, ACTION_KEYS), (TOOLS, TOOL_KEYS)] {
        if tables(was, list).count() != tables(is, list).count() {
            parts.insert(EditedPart::Requests(id));
        }
        for (was, is) in tables(was, list).zip(tables(is, list)) {
            parts.extend(keys.edited_parts(id, was, is));
        }
    }
    parts
}

impl ComparedKeys {
    fn edited_parts(&self, id: RoleId, was: &Table, is: &Table) -> BTreeSet<EditedPart> {
        let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let differing = keys.into_iter().filter(|key| {
            !self.elsewhere.contains(&key.as_str())
                && was.get(*key).map(without_limits) != is.get(*key).map(without_limits)
        });
        let part = |key: &String| {
            if self.calls.contains(&key.as_str()) {
                EditedPart::Calls(id)
            } else {
                EditedPart::Requests(id)
            }
        };
        differing.map(part).collect()
    }
}

/// Returns a value without the limits of a component.
fn without_limits(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Table(table) = &mut value {
        table.remove("limits");
    }
    value
}

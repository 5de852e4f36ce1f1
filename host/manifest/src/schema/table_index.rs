//! An index of the tables of a kind of file and their keys, taken from the schema. With it, the
//! message about a key in the wrong table can name the right one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::{FileKind, document};

/// Stands for a name that the author chooses.
pub(crate) const ANY_NAME: &str = "*";

/// The tables of a kind of file by their paths: the keys that lead to them, joined with points, such
/// as `role.action`.
pub(crate) struct TableIndex(BTreeMap<String, IndexedTable>);

struct IndexedTable {
    /// Whether it is a list of tables: `[[…]]`.
    is_list: bool,
    keys: BTreeSet<String>,
}

/// Returns the index of the schema's tables.
pub(crate) fn table_index(file: FileKind) -> &'static TableIndex {
    static TEAM: LazyLock<TableIndex> = LazyLock::new(|| TableIndex::of(FileKind::Team));
    static POLICY: LazyLock<TableIndex> = LazyLock::new(|| TableIndex::of(FileKind::Policy));
    static REPLIES: LazyLock<TableIndex> = LazyLock::new(|| TableIndex::of(FileKind::Replies));
    match file {
        FileKind::Team => &TEAM,
        FileKind::Policy => &POLICY,
        FileKind::Replies => &REPLIES,
    }
}

/// Returns the path of a key in a table.
pub(crate) fn child_path(table: &str, key: &str) -> String {
    if table.is_empty() {
        key.to_owned()
    } else {
        format!("{table}.{key}")
    }
}

impl TableIndex {
    fn of(file: FileKind) -> Self {
        let schema = document(file);
        let mut index = Self(BTreeMap::new());
        index.collect(&schema, &schema, String::new(), false);
        index
    }

    /// Adds the table that `schema` describes, and those below it. `whole` is the complete schema,
    /// which `$ref`s refer to; `at` is the path of the table.
    fn collect(&mut self, schema: &Value, whole: &Value, at: String, is_list: bool) {
        let named = schema["$ref"]
            .as_str()
            .and_then(|name| whole.pointer(name.trim_start_matches('#')));
        let schema = named.unwrap_or(schema);
        if schema["type"] == "array" {
            return self.collect(&schema["items"], whole, at, true);
        }
        if schema["additionalProperties"].is_object() {
            self.collect(
                &schema["additionalProperties"],
                whole,
                child_path(&at, ANY_NAME),
                false,
            );
            self.0.insert(
                at,
                IndexedTable {
                    is_list,
                    keys: BTreeSet::new(),
                },
            );
            return;
        }
        let Some(keys) = schema["properties"].as_object() else {
            return;
        };
        for (key, value) in keys {
            self.collect(value, whole, child_path(&at, key), false);
        }
        self.0.insert(
            at,
            IndexedTable {
                is_list,
                keys: keys.keys().cloned().collect(),
            },
        );
    }

    /// Returns whether a path is that of a list of tables.
    pub(crate) fn is_list(&self, place: &str) -> bool {
        self.0.get(place).is_some_and(|place| place.is_list)
    }

    /// Returns whether a table has this key.
    pub(crate) fn has(&self, table: &str, key: &str) -> bool {
        self.0
            .get(table)
            .is_some_and(|place| place.keys.contains(key))
    }

    /// Returns the keys of a table.
    pub(crate) fn keys(&self, table: &str) -> impl Iterator<Item = &str> {
        self.0
            .get(table)
            .into_iter()
            .flat_map(|place| place.keys.iter().map(String::as_str))
    }

    /// Returns the header of a table, quoted: `` `[[role.action]]` ``.
    pub(crate) fn quoted_header(&self, place: &str) -> String {
        let name = place.replace(ANY_NAME, "NAME");
        if self.is_list(place) {
            format!("`[[{name}]]`")
        } else {
            format!("`[{name}]`")
        }
    }

    /// Returns a hint where a key belongs that `table` does not have: in the nearest tables below
    /// that have it, or else in the one above. Only tables below for which `can_be` holds are
    /// considered.
    pub(crate) fn nearby_hint(
        &self,
        table: &str,
        key: &str,
        can_be: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let prefix = if table.is_empty() {
            String::new()
        } else {
            format!("{table}.")
        };
        let deeper = self
            .0
            .keys()
            .filter(|place| self.has(place, key))
            .filter_map(|place| {
                let mut below = place
                    .strip_prefix(&prefix)?
                    .split('.')
                    .filter(|part| !part.is_empty());
                let first = below.next().filter(|first| can_be(first))?;
                Some((std::iter::once(first).chain(below).count(), place.as_str()))
            });
        let mut deeper: Vec<(usize, &str)> = deeper.collect();
        deeper.sort();
        let nearest = deeper.first().map(|(levels, _)| *levels);
        deeper.retain(|(levels, _)| Some(*levels) == nearest);
        self.hint_for_tables(
            &deeper
                .into_iter()
                .map(|(_, place)| place)
                .collect::<Vec<_>>(),
            key,
        )
        .or_else(|| {
            let (above, _) = table.rsplit_once('.').unwrap_or(("", table));
            let is_above = !table.is_empty() && self.has(above, key);
            if is_above {
                self.hint_for_tables(&[above], key)
            } else {
                None
            }
        })
    }

    /// Returns a hint where a key belongs that exists in exactly one table, unless that is `table`.
    pub(crate) fn unique_table_hint(&self, table: &str, key: &str) -> Option<String> {
        let all: Vec<&str> = self
            .0
            .keys()
            .map(String::as_str)
            .filter(|place| self.has(place, key))
            .collect();
        if all.len() == 1 && all != [table] {
            self.hint_for_tables(&all, key)
        } else {
            None
        }
    }

    /// Returns a hint that a key belongs into one of these tables.
    fn hint_for_tables(&self, tables: &[&str], key: &str) -> Option<String> {
        if tables.contains(&"") && !self.0.contains_key(key) {
            return Some("it belongs to the beginning of the file, before all tables".to_owned());
        }
        let own: Vec<String> = tables.iter().map(|table| child_path(table, key)).collect();
        let is_table = own.iter().all(|place| self.0.contains_key(place));
        let heads: Vec<String> = if is_table {
            own.iter().map(|place| self.quoted_header(place)).collect()
        } else {
            tables
                .iter()
                .map(|table| self.quoted_header(table))
                .collect()
        };
        let verb = if is_table { "write" } else { "it belongs to" };
        Some(heads)
            .filter(|heads| !heads.is_empty())
            .map(|heads| format!("{verb} {}", heads.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_one_level_away_and_elsewhere() {
        let near =
            |table: &str, key: &str| table_index(FileKind::Team).nearby_hint(table, key, |_| true);
        assert_eq!(near("", "groups").as_deref(), Some("write `[env.groups]`"));
        assert_eq!(
            near("", "action").as_deref(),
            Some("write `[[role.action]]`")
        );
        assert_eq!(near("", "idea").as_deref(), Some("it belongs to `[team]`"));
        assert_eq!(near("role", "route").as_deref(), Some("write `[[route]]`"));
        assert_eq!(
            near("role.action", "cpu").as_deref(),
            Some("it belongs to `[role.action.limits]`")
        );
        assert_eq!(
            near("team", "schema").as_deref(),
            Some("it belongs to the beginning of the file, before all tables")
        );
        assert_eq!(
            near("role.action", "models").as_deref(),
            Some("it belongs to `[role.action.allow.llm]`"),
            "two levels deeper"
        );
        assert_eq!(
            near("", "name").as_deref(),
            Some("it belongs to `[[role]]` or `[team]`")
        );
        assert_eq!(near("role", "colour"), None);
        assert_eq!(
            table_index(FileKind::Team)
                .nearby_hint("role", "component", |table| table == "think")
                .as_deref(),
            Some("it belongs to `[role.think]`")
        );
        assert_eq!(
            table_index(FileKind::Team)
                .unique_table_hint("team", "max_steps")
                .as_deref(),
            Some("it belongs to `[run]`")
        );
        assert_eq!(
            table_index(FileKind::Team).unique_table_hint("role", "name"),
            None
        );
        assert_eq!(
            table_index(FileKind::Team).quoted_header("env.scope.*"),
            "`[env.scope.NAME]`"
        );
    }
}

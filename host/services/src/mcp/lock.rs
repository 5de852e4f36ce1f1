//! The tools of a server as they were locked, compared with those that it lists now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use strata_base::files::sha256::sha256;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;

use super::tool::Tool;
use crate::plugin::pattern;

/// The fields of a tool that are locked, as the server sent them.
const FIELDS: [&str; 5] = [
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];
/// How many differences are named.
const MAX_DIFFERENCES: usize = 8;

/// The digests of the fields of tools, by tool and by field.
pub type ToolDigests = BTreeMap<String, BTreeMap<String, String>>;

/// The tools of a server that were locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedTools {
    /// Patterns of the tools that the team grants to anybody. Others are not compared.
    pub granted: Vec<String>,
    /// What was locked.
    pub tools: ToolDigests,
}

/// Returns the digests of the fields of an entry of a list.
pub(super) fn field_digests(entry: &Value) -> BTreeMap<String, String> {
    let present = FIELDS.iter().filter_map(|field| {
        let value = Json::from(entry.get(field)?.clone());
        Some(((*field).to_owned(), to_hex(&sha256(value.as_str()))))
    });
    present.collect()
}

/// Under which name the instructions of a server are locked. No tool has an empty name.
const INSTRUCTIONS: &str = "";

/// Returns the digests of the tools that match these patterns, and of the instructions if models are told them.
pub(super) fn digests(
    tools: &[Tool],
    instructions: Option<&str>,
    granted: &[String],
) -> ToolDigests {
    let granted = tools
        .iter()
        .filter(|tool| pattern::matches_any(granted, &tool.name));
    let tools = granted.map(|tool| (tool.name.clone(), tool.digests.clone()));
    let instructions = instructions.map(|text| ("instructions".to_owned(), to_hex(&sha256(text))));
    // Written even if there are none, so that a server without granted tools is known to be locked.
    let instructions = (INSTRUCTIONS.to_owned(), instructions.into_iter().collect());
    tools.chain([instructions]).collect()
}

/// Returns how the tools of a server differ from those that were locked: which are new, gone or changed,
/// and in what. Returns `None` if they do not.
pub(super) fn difference(
    locked: &LockedTools,
    now: &[Tool],
    instructions: Option<&str>,
) -> Option<String> {
    let now = digests(now, instructions, &locked.granted);
    let mut differences = Vec::new();
    let names: BTreeSet<&String> = locked.tools.keys().chain(now.keys()).collect();
    for name in names {
        let shown = name.replace(strata_core::text::is_invisible, " ");
        match (locked.tools.get(name), now.get(name)) {
            (Some(before), Some(after)) if before == after => {}
            // They count only where they are used.
            (_, Some(after)) if name == INSTRUCTIONS && after.is_empty() => {}
            _ if name == INSTRUCTIONS => differences.push("it has other instructions".to_owned()),
            (Some(before), Some(after)) => {
                let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                let changed = fields
                    .into_iter()
                    .filter(|field| before.get(*field) != after.get(*field));
                let changed: Vec<&str> = changed.map(String::as_str).collect();
                differences.push(format!("`{shown}` has another {}", changed.join(" and ")));
            }
            // What is not granted any more was locked before.
            (Some(_), None) if !pattern::matches_any(&locked.granted, name) => {}
            (Some(_), None) => differences.push(format!("`{shown}` is gone")),
            (None, _) => differences.push(format!("`{shown}` is new")),
        }
    }
    let more = differences.len().saturating_sub(MAX_DIFFERENCES);
    differences.truncate(MAX_DIFFERENCES);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    (!differences.is_empty()).then(|| differences.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tool::read_tools;
    use super::*;

    fn tools(entries: Value) -> Vec<Tool> {
        let Value::Array(entries) = entries else {
            panic!("a list")
        };
        read_tools(entries, false).0
    }

    #[test]
    fn what_changed_of_granted_tools_is_named() {
        let schema = json!({ "type": "object" });
        let before = tools(json!([
            { "name": "read_a", "description": "a", "inputSchema": schema },
            { "name": "read_b", "inputSchema": schema },
        ]));
        let granted = vec!["read_*".to_owned()];
        let locked = LockedTools {
            tools: digests(&before, Some("Be brief."), &granted),
            granted,
        };
        assert_eq!(difference(&locked, &before, Some("Be brief.")), None);
        assert_eq!(difference(&locked, &before, None), None);
        let other = difference(&locked, &before, Some("Be long."));
        assert_eq!(other.as_deref(), Some("it has other instructions"));
        let after = tools(json!([
            { "name": "read_a", "description": "b", "title": "A", "inputSchema": schema },
            { "name": "read_c", "inputSchema": schema },
            { "name": "write", "inputSchema": schema },
        ]));
        let expected =
            "`read_a` has another description and title, `read_b` is gone, `read_c` is new";
        assert_eq!(difference(&locked, &after, None).as_deref(), Some(expected));
    }
}

//! Values that a fork changes in a team's state. Scopes are named as in `team.json`: a shared scope
//! by its name, that of a role as `role/NAME`.

use std::fmt;

use strata_base::text::suggest::did_you_mean;
use strata_core::record::edit::{Edit, EditedScope};
use strata_core::record::json::Json;
use strata_core::record::scope_write::ROLE_SCOPE;
use strata_core::team::Team;

use strata_services::human::looks_like_json;

/// A value that is changed in a fork.
///
/// A program gives the scope, the key and the value apart. The command line gives them as one text,
/// which is kept until the team is known, because names of scopes may contain `/`.
///
/// ```
/// use strata_host::core::record::json::Json;
/// use strata_host::launch::{EditScope, StateEdit};
///
/// let edit = StateEdit::Value {
///     scope: EditScope::Role("Engineer".into()),
///     key: "plan".into(),
///     value: Json::parse("\"shorter\"")?,
/// };
/// let text = StateEdit::from("role/Engineer/plan=shorter");
/// # let _ = (edit, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateEdit {
    /// The parts are known.
    Value {
        /// The scope.
        scope: EditScope,
        /// The key.
        key: String,
        /// The new value.
        value: Json,
    },
    /// `SCOPE/KEY=JSON`, as one text. What is not JSON is a string, unless it begins like an object,
    /// an array or a string in JSON.
    Text(String),
}

/// The scope of an edit, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditScope {
    /// A scope of the team file.
    Shared(String),
    /// The private scope of a role.
    Role(String),
}

/// A scope of a team that can be edited.
struct EditableScope {
    /// Its name in the text of an edit.
    name: String,
    scope: EditedScope,
}

impl StateEdit {
    /// Returns the edit of a team's state. Fails if the team has no such scope, or if a text is not
    /// an edit.
    pub(super) fn resolve(&self, team: &Team) -> Result<Edit, String> {
        match self {
            Self::Value { scope, key, value } => {
                let found = match scope {
                    EditScope::Shared(name) => team
                        .scopes
                        .contains_key(name)
                        .then(|| EditedScope::Shared(name.clone())),
                    // Aliases are not meant.
                    EditScope::Role(name) => team
                        .role_ids()
                        .find(|id| team.role(*id).name == *name)
                        .map(EditedScope::Role),
                };
                let Some(found) = found else {
                    return Err(unknown_scope(scope, &editable_scopes(team)));
                };
                new_edit(&found, key, value.clone())
                    .ok_or_else(|| format!("a value of scope `{scope}` is set without a key"))
            }
            Self::Text(text) => parse_edit(&editable_scopes(team), text),
        }
    }
}

impl From<String> for StateEdit {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for StateEdit {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for EditScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared(name) => f.write_str(name),
            Self::Role(name) => write!(f, "{ROLE_SCOPE}/{name}"),
        }
    }
}

fn parse_edit(scopes: &[EditableScope], text: &str) -> Result<Edit, String> {
    // Names may contain slashes. The longest matching name wins.
    let fits = |editable: &&EditableScope| {
        text.strip_prefix(editable.name.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let longest = scopes
        .iter()
        .filter(fits)
        .max_by_key(|editable| editable.name.len());
    let Some(EditableScope { name, scope }) = longest else {
        let place = text.split_once('=').map_or(text, |(place, _)| place);
        let name = place.rsplit_once('/').map_or(place, |(name, _)| name);
        let known = list_scopes(name, scopes.iter());
        return Err(format!(
            "`{text}` sets nothing: it has to be SCOPE/KEY=JSON, and the scopes are {known}"
        ));
    };
    let rest = &text[name.len() + 1..];
    // Keys may contain equal signs. The value begins behind the first one that is followed by valid
    // JSON.
    let read =
        |(at, _): (usize, &str)| Some((&rest[..at], Json::parse_decision(&rest[at + 1..]).ok()?));
    let Some((key, value)) = rest
        .match_indices('=')
        .find_map(read)
        .or_else(|| parse_bare_word(rest))
    else {
        return Err(format!(
            "`{text}` sets no value: JSON or a text has to follow `=`, and what begins as JSON has to end as it"
        ));
    };
    new_edit(scope, key, value)
        .ok_or_else(|| format!("`{text}` names no key: it has to be SCOPE/KEY=JSON"))
}

/// Returns the edit of a key, or `None` if the key is empty.
fn new_edit(scope: &EditedScope, key: &str, value: Json) -> Option<Edit> {
    (!key.is_empty()).then(|| Edit {
        scope: scope.clone(),
        key: key.into(),
        value,
    })
}

/// Describes a scope that the team does not have.
fn unknown_scope(scope: &EditScope, scopes: &[EditableScope]) -> String {
    let is_role = matches!(scope, EditScope::Role(_));
    let same_kind = scopes
        .iter()
        .filter(|editable| matches!(editable.scope, EditedScope::Role(_)) == is_role);
    let kind = match scope {
        EditScope::Shared(_) => "shared scope",
        EditScope::Role(_) => "scope of a role",
    };
    let known = list_scopes(&scope.to_string(), same_kind);
    format!("the team has no {kind} `{scope}`; it has {known}")
}

/// Lists the names of scopes. If `name` is similar to one of them, the text ends with a hint.
fn list_scopes<'a>(name: &str, scopes: impl Iterator<Item = &'a EditableScope>) -> String {
    let names: Vec<&str> = scopes.map(|editable| editable.name.as_str()).collect();
    let known = match names.as_slice() {
        [] => "none".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    };
    known + &did_you_mean(name, names.iter().copied())
}

/// Returns the key before the first equal sign, and the rest as a string. Returns `None` if the
/// rest is empty or looks like the beginning of a JSON object, array or string.
fn parse_bare_word(rest: &str) -> Option<(&str, Json)> {
    let (key, text) = rest.split_once('=')?;
    (!text.is_empty() && !looks_like_json(text))
        .then(|| (key, Json::from(serde_json::Value::from(text))))
}

/// Returns the `SCOPE/KEY` that an edit changes.
pub(super) fn edit_target(team: &Team, edit: &Edit) -> String {
    match &edit.scope {
        EditedScope::Shared(name) => format!("{name}/{}", edit.key),
        EditedScope::Role(id) => format!("{ROLE_SCOPE}/{}/{}", team.role(*id).name, edit.key),
    }
}

fn editable_scopes(team: &Team) -> Vec<EditableScope> {
    let shared = team.scopes.keys().map(|name| EditableScope {
        name: EditScope::Shared(name.clone()).to_string(),
        scope: EditedScope::Shared(name.clone()),
    });
    let own = team.role_ids().map(|id| EditableScope {
        name: EditScope::Role(team.role(id).name.clone()).to_string(),
        scope: EditedScope::Role(id),
    });
    shared.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use strata_core::record::id::RoleId;
    use strata_manifest::Definition;

    use super::*;

    const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[env.scope.tracking]
[env.scope."a/b"]
[env.scope.a]
[[role]]
name = "X"
[[role.action]]
name = "x"
component = "x.wasm"
[[role]]
name = "X/Y=Z"
[[role.action]]
name = "y"
component = "x.wasm"
"#;

    fn check(edit: impl Into<StateEdit>, expected: Result<(EditedScope, &str, &str), &str>) {
        let team = Definition::parse(TEAM, "team.toml", std::path::Path::new("/"))
            .expect("a team")
            .team;
        let edit = edit.into();
        let text = format!("{edit:?}");
        match (edit.resolve(&team), expected) {
            (Ok(edit), Ok((scope, key, value))) => {
                assert_eq!(
                    (edit.scope, edit.key.as_str(), edit.value.as_str()),
                    (scope, key, value),
                    "{text}"
                );
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn edits_name_scope_key_and_value() {
        let shared = |name: &str| EditedScope::Shared(name.into());
        check("tracking/k=9", Ok((shared("tracking"), "k", "9")));
        check(
            "tracking/k=\"a=b\"",
            Ok((shared("tracking"), "k", "\"a=b\"")),
        );
        check("tracking/k=1=2", Ok((shared("tracking"), "k=1", "2")));
        check("tracking/a/b=null", Ok((shared("tracking"), "a/b", "null")));
        check("tracking/k=nine", Ok((shared("tracking"), "k", "\"nine\"")));
        check(
            "tracking/k=two words",
            Ok((shared("tracking"), "k", "\"two words\"")),
        );
        check("tracking/k=a=b", Ok((shared("tracking"), "k", "\"a=b\"")));
        check("tracking/k=1a", Ok((shared("tracking"), "k", "\"1a\"")));
        check("a/k=[1,2]", Ok((shared("a"), "k", "[1,2]")));
        check("a/b/k={}", Ok((shared("a/b"), "k", "{}")));
        check(
            "role/X/k=true",
            Ok((EditedScope::Role(RoleId(0)), "k", "true")),
        );
        check(
            "role/X/Y=Z/k=true",
            Ok((EditedScope::Role(RoleId(1)), "k", "true")),
        );
    }

    #[test]
    fn what_is_no_edit_is_refused_with_what_there_is() {
        check(
            "nowhere/k=9",
            Err("the scopes are `a`, `a/b`, `tracking`, `role/X`, `role/X/Y=Z`"),
        );
        check("role/k=9", Err("the scopes are"));
        check("tracking=9", Err("SCOPE/KEY=JSON"));
        check("tracking/k", Err("sets no value"));
        check("tracking/k=", Err("sets no value"));
        for broken in ["{", "{x", "[1", "\"open", " {"] {
            check(
                format!("tracking/k={broken}"),
                Err("what begins as JSON has to end as it"),
            );
        }
        check("tracking/=9", Err("names no key"));
        check("", Err("SCOPE/KEY=JSON"));
    }

    #[test]
    fn the_parts_of_an_edit_may_be_given_apart() {
        let value = |scope: EditScope, key: &str| StateEdit::Value {
            scope,
            key: key.into(),
            value: Json::from(serde_json::Value::from(9)),
        };
        let shared = |name: &str| EditScope::Shared(name.into());
        let role = |name: &str| EditScope::Role(name.into());
        check(
            value(shared("a"), "b/k=1"),
            Ok((EditedScope::Shared("a".into()), "b/k=1", "9")),
        );
        check(
            value(role("X/Y=Z"), "k"),
            Ok((EditedScope::Role(RoleId(1)), "k", "9")),
        );
        check(
            value(shared("role/X"), "k"),
            Err("the team has no shared scope `role/X`; it has `a`, `a/b`, `tracking`"),
        );
        check(
            value(role("Y"), "k"),
            Err("the team has no scope of a role `role/Y`; it has `role/X`, `role/X/Y=Z`"),
        );
        check(
            value(shared("a"), ""),
            Err("a value of scope `a` is set without a key"),
        );
    }
}

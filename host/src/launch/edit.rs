//! Parses the argument of `--set`: `SCOPE/KEY=JSON`, or a bare word for a string. Scopes are named
//! as in `team.json`: a shared scope by its name, that of a role as `role/NAME`.

use strata_core::record::edit::{Edit, EditedScope};
use strata_core::record::json::Json;
use strata_core::record::scope_write::ROLE_SCOPE;
use strata_core::team::Team;

use crate::services::human::looks_like_json;
use crate::suggest::did_you_mean;

/// Parses an edit of a team's state.
pub(super) fn parse_edit(team: &Team, text: &str) -> Result<Edit, String> {
    let scopes = editable_scopes(team);
    // Names may contain slashes. The longest matching name wins.
    let fits = |(name, _): &&(String, EditedScope)| {
        text.strip_prefix(name.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let Some((name, scope)) = scopes
        .iter()
        .filter(fits)
        .max_by_key(|(name, _)| name.len())
    else {
        let known: Vec<String> = scopes.iter().map(|(name, _)| format!("`{name}`")).collect();
        let known = known.join(", ");
        let place = text.split_once('=').map_or(text, |(place, _)| place);
        let name = place.rsplit_once('/').map_or(place, |(name, _)| name);
        let meant = did_you_mean(name, scopes.iter().map(|(name, _)| name.as_str()));
        return Err(format!(
            "`{text}` sets nothing: it has to be SCOPE/KEY=JSON, and the scopes are {known}{meant}"
        ));
    };
    let rest = &text[name.len() + 1..];
    // Keys may contain equal signs. The value begins behind the first one that is followed by valid
    // JSON.
    let read = |(at, _): (usize, &str)| Some((&rest[..at], Json::parse(&rest[at + 1..]).ok()?));
    let Some((key, value)) = rest
        .match_indices('=')
        .find_map(read)
        .or_else(|| parse_bare_word(rest))
    else {
        return Err(format!(
            "`{text}` sets no value: JSON or a text has to follow `=`, and what begins as JSON has to end as it"
        ));
    };
    if key.is_empty() {
        return Err(format!(
            "`{text}` names no key: it has to be SCOPE/KEY=JSON"
        ));
    }
    Ok(Edit {
        scope: scope.clone(),
        key: key.into(),
        value,
    })
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

fn editable_scopes(team: &Team) -> Vec<(String, EditedScope)> {
    let shared = team
        .scopes
        .keys()
        .map(|name| (name.clone(), EditedScope::Shared(name.clone())));
    let own = team.role_ids().map(|id| {
        (
            format!("{ROLE_SCOPE}/{}", team.role(id).name),
            EditedScope::Role(id),
        )
    });
    shared.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Definition;
    use strata_core::record::id::RoleId;

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

    fn check(text: &str, expected: Result<(EditedScope, &str, &str), &str>) {
        let team = Definition::parse(TEAM, "team.toml", std::path::Path::new("/"))
            .expect("a team")
            .team;
        match (parse_edit(&team, text), expected) {
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
                &format!("tracking/k={broken}"),
                Err("what begins as JSON has to end as it"),
            );
        }
        check("tracking/=9", Err("names no key"));
        check("", Err("SCOPE/KEY=JSON"));
    }
}

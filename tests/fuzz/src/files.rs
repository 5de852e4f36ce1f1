//! Files that a person writes or carries here: `team.toml`, `team.json`.

use std::path::Path;

use strata_host::manifest::{Definition, Paint};
use strata_host::storage::SavedDefinition;
use strata_host::storage::team_json;

use crate::Taker;

/// A team file is taken or explained; and what is explained can be shown.
pub(super) fn team_toml() -> Taker {
    // Whatever a team file names relative to itself is not there.
    let empty = tempfile::tempdir().unwrap();
    Box::new(move |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match Definition::parse(&text, "team.toml", empty.path()) {
            Ok(definition) => {
                let again = Definition::parse(&text, "team.toml", empty.path()).unwrap();
                assert_eq!(
                    format!("{:?}", definition.team),
                    format!("{:?}", again.team)
                );
            }
            Err(problems) => {
                let shown = problems.render(Paint::Plain);
                assert!(!shown.trim().is_empty());
                // Files come from strangers, and the terminal is the operator's.
                assert!(!shown.contains('\u{1b}'), "{shown}");
            }
        }
    })
}

/// A state is taken or refused; what is taken comes out as it went in.
pub(super) fn team_json() -> Taker {
    let text = include_str!("../team.toml");
    let definition = Definition::parse(text, "team.toml", Path::new("/"))
        .unwrap_or_else(|error| panic!("{error}"));
    let team = definition.team;
    Box::new(move |bytes| {
        let _ = team_json::is_finished(bytes);
        let definition = team_json::saved_definition(bytes)
            .ok()
            .flatten()
            .unwrap_or_else(|| SavedDefinition {
                name: "team.toml".into(),
                base: "/".into(),
                text: String::new(),
                components: Vec::new(),
            });
        let Ok(env) = team_json::import(&team, bytes) else {
            return;
        };
        let written = team_json::export(&team, &env, &definition);
        let again = team_json::import(&team, written.as_bytes())
            .unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(team_json::export(&team, &again, &definition), written);
    })
}

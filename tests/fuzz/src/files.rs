//! Files that a user writes or copies: `team.toml` and `team.json`.

use std::path::Path;

use strata_host::manifest::{Definition, Paint};
use strata_host::storage::SavedDefinition;
use strata_host::team_json;

use crate::Taker;

/// A target that reads a team file. It is accepted or rejected with errors that can be shown.
pub(super) fn team_toml() -> Taker {
    // No file that a team file names exists.
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
                // A team file may come from a stranger, so errors must not change the terminal.
                assert!(!shown.contains('\u{1b}'), "{shown}");
            }
        }
    })
}

/// A target that reads a saved state. It is rejected, or accepted and written again without
/// changes.
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

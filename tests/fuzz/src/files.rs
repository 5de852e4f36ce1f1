//! Files that a user writes or copies: `team.toml` and `team.json`.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use strata_base::scripted_run::continue_with_faults;
use strata_core::state::environment::Environment;
use strata_core::team::Team;
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
    let team = team(include_str!("../team.toml"));
    Box::new(move |bytes| {
        let _ = team_json::is_finished(bytes);
        let _ = take_state(&team, bytes);
    })
}

/// A target that reads the machine part of an open activation, given as its bytes. It is rejected, or
/// the team can go on from it.
pub(super) fn machine_part() -> Taker {
    let team = team(include_str!("../tools.toml"));
    let saved: Value = serde_json::from_str(include_str!("../tools.json")).unwrap();
    Box::new(move |bytes| {
        let mut saved = saved.clone();
        let text = format!(
            "1.{:08x}.{}",
            crc32fast::hash(bytes),
            BASE64_STANDARD.encode(bytes)
        );
        saved["strata"]["open"]["Clerk"]["machine"] = text.into();
        if let Some(env) = take_state(&team, saved.to_string().as_bytes()) {
            continue_with_faults(&team, env, 50);
        }
    })
}

fn team(text: &str) -> Arc<Team> {
    let definition = Definition::parse_without_files(text, "team.toml", Path::new("/"));
    Arc::new(definition.unwrap_or_else(|error| panic!("{error}")).team)
}

/// Returns the state in a file, if it is accepted. It must be written again without changes.
fn take_state(team: &Team, bytes: &[u8]) -> Option<Environment> {
    let definition = team_json::saved_definition(bytes)
        .ok()
        .flatten()
        .unwrap_or_else(|| SavedDefinition {
            name: "team.toml".into(),
            base: "/".into(),
            text: String::new(),
            components: Vec::new(),
        });
    let env = team_json::import(team, bytes).ok()?;
    let written = team_json::export(team, &env, &definition);
    let again = team_json::import(team, written.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(team_json::export(team, &again, &definition), written);
    Some(env)
}

//! Where the message of a fault says that a limit can be raised, for components that have no table of an action.

use std::fs;

use strata_core::record::id::{ActionId, RoleId, SkillLanguage, Slot, SlotKind};
use strata_manifest::Definition;
use strata_services::plugin::{Limit, LimitReached};

/// Returns the advice about the host calls of the component in a slot of a team with a skill and a tool for code.
fn advice(beginning: &str, tool: &str, kind: SlotKind) -> String {
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("skills/report");
    fs::create_dir_all(skill.join("scripts")).unwrap();
    let text = "---\nname: report\ndescription: Writes a report.\n---\nRun scripts/a.js.\n";
    fs::write(skill.join("SKILL.md"), text).unwrap();
    fs::write(skill.join("scripts/a.js"), "").unwrap();
    fs::write(dir.path().join("replies.toml"), "").unwrap();
    let team = format!(
        "schema = \"strata.team/1\"\n{beginning}[team]\nname = \"t\"\nidea = \"go\"\n[llm]\nprovider = \"scripted\"\n\
         replies = \"replies.toml\"\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n\
         skills = [\"skills/*\"]\n[[role.tool]]\ncode = \"js\"\ntools = [\"*\"]\n{tool}"
    );
    let file = dir.path().join("team.toml");
    fs::write(&file, team).unwrap();
    let team = Definition::read(&file).unwrap();
    let slot = Slot {
        role: RoleId(0),
        kind,
    };
    let reached = LimitReached::with_demand(Limit::HostCalls, 1025);
    let text = team.plugins[&slot].advice.for_limit(reached);
    text.replace(&format!("{}/", dir.path().display()), "")
}

#[test]
fn limits_of_scripts_of_skills_are_those_of_the_team() {
    let skill = SlotKind::SkillScript(SkillLanguage::JavaScript);
    assert_eq!(
        advice("", "", skill),
        "raise `limits.host_calls` (add the table `[limits]` with `host_calls = 2048`, team.toml)"
    );
    assert_eq!(
        advice("[limits]\ncpu = \"1s\"\n", "", skill),
        "raise `limits.host_calls` (add `host_calls = 2048` to the team's `[limits]`, team.toml:2)"
    );
    assert_eq!(
        advice("[limits]\nhost_calls = 7\n", "", skill),
        "raise `limits.host_calls` (team.toml:3)"
    );
}

#[test]
fn limits_of_a_tool_that_runs_code_are_its_own() {
    let code = SlotKind::Action(ActionId(0));
    assert_eq!(
        advice("", "", code),
        "raise `limits.host_calls` (add `limits = { host_calls = 2048 }`, team.toml:13)"
    );
    assert_eq!(
        advice("", "[role.tool.limits]\ncpu = \"1s\"\n", code),
        "raise `limits.host_calls` (add `host_calls = 2048` to `limits`, team.toml:16)"
    );
}

//! Tests of how an operator overrides a team file, and of the policy that is shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use strata_core::record::id::{Digest, RoleId};
use strata_core::record::money::Usd;
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::{Definition, Diagnostics, Overrides, policy, warnings};

use crate::{action, good, think};

#[test]
fn the_command_line_has_the_last_word() {
    let mut whole = good("whole.toml");
    let overrides = Overrides {
        max_steps: Some(0),
        max_parallel: Some(1),
        investment: Some(0.5),
        components: vec![
            "RoleB.ActionOK=/tried/a=b.wasm".into(),
            "RoleB.a.b=/tried/b.wasm".into(),
            "Chooser.think=/tried/c.wasm".into(),
        ],
        ..Overrides::default()
    };
    whole.apply_overrides(&overrides).unwrap();
    let policy = &whole.team.policy;
    assert_eq!((policy.max_steps, policy.max_parallel), (None, 1));
    assert_eq!(policy.budget, Some(Usd::from_dollars(0.5)));
    let plugin = &whole.plugins[&action(0, 0)];
    assert_eq!(plugin.component, Path::new("/tried/a=b.wasm"));
    assert_eq!(plugin.pin, None);
    let component = |slot| whole.plugins[&slot].component.clone();
    assert_eq!(component(action(0, 1)), Path::new("/tried/b.wasm"));
    assert_eq!(component(think(1)), Path::new("/tried/c.wasm"));
    let error = whole.component_problem(think(1), "broken").to_string();
    assert!(error.contains("--component Chooser.think=/tried/c.wasm"));
}

#[test]
fn overrides_that_do_not_fit_are_refused() {
    let check = |overrides: Overrides, reason: &str| {
        let error = good("whole.toml").apply_overrides(&overrides).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    };
    let component = |argument: &str| Overrides {
        components: vec![argument.into()],
        ..Overrides::default()
    };
    check(
        component("RoleB.ActonOK=x.wasm"),
        "did you mean `RoleB.ActionOK`?",
    );
    check(
        component("RoleB.ActionOK"),
        "names no file; expected `RoleB.ActionOK=FILE`",
    );
    check(
        component("RoleB.ActionOK="),
        "names no file; expected `RoleB.ActionOK=FILE`",
    );
    check(component(""), "expected one of: `Asker.x`");
    check(component("RoleB.think=x.wasm"), "names no action");
    let parallel = Overrides {
        max_parallel: Some(0),
        ..Overrides::default()
    };
    check(parallel, "from 1 to 1024");
    let investment = Overrides {
        investment: Some(-1.0),
        ..Overrides::default()
    };
    check(investment, "not negative");
}

#[test]
fn the_policy_is_shown_for_people_and_for_scripts() {
    let whole = good("whole.toml");
    let digests = BTreeMap::from([(action(0, 0), Digest("abc".into()))]);
    let rows = policy::rows(&whole, &digests);
    assert_eq!(rows.len(), whole.plugins.len());
    let text = policy::render(&rows);
    for expected in [
        "RoleB.ActionOK\n",
        "Chooser.think\n",
        "memory     256 MiB\n",
        "memory     32 MiB\n",
        "fuel       1000\n",
        "timeout    2 m\n",
        "retries    2, the first after 1500 ms\n",
        "models small, large-*, at most 20 calls\n",
        "may read   /in = ",
        "may write  /out = ",
        "env LANG\n",
        "may call   POST a.example.com/v1/* with secrets TOKEN\n",
        "may call   GET, HEAD *.b.org:8443/* with headers x-forwarded-for\n",
        "may name   secrets TOKEN, OTHER\n",
        "sha256     abc\n",
        "touch nothing outside\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let json = serde_json::to_value(&rows).unwrap();
    let row = json.as_array().unwrap().iter();
    let row = row
        .clone()
        .find(|row| row["slot"] == "RoleB.ActionOK")
        .unwrap();
    assert_eq!(row["memory_bytes"], 256 << 20);
    assert_eq!(row["dirs"][1]["write"], true);
    assert_eq!(row["digest"], "abc");
}

#[test]
fn what_holds_for_the_calls_of_tools_is_shown_and_an_odd_handoff_is_warned_of() {
    let text = r#"
schema = "strata.team/1"
[team]
name = "desk"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.files]
command = ["server"]
[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
max_turns = 7
max_calls = 9
handoff = ["Clerk", "Auditor"]
[[role.action]]
name = "pay"
component = "pay.wasm"
approve = { expires = "1h", default = true }
max_calls = 2
[[role.action]]
name = "look"
component = "look.wasm"
[[role.tool]]
role = "Sum"
approve = true
max_calls = 3
[[role.tool]]
mcp = "files"
tools = ["read"]
max_calls = 4
[[role]]
name = "Auditor"
[[role.action]]
name = "audit"
component = "audit.wasm"
[[role]]
name = "Sum"
[[role.action]]
name = "add"
component = "add.wasm"
"#;
    let team = Definition::parse_without_files(text, "team.toml", Path::new("/teams")).unwrap();
    let rows = policy::rows(&team, &BTreeMap::new());
    let text = policy::render(&rows);
    let sections: Vec<&str> = text.split("\n\n").collect();
    let section = |name: &str| {
        let found = sections.iter().find(|section| section.starts_with(name));
        (*found.unwrap_or_else(|| panic!("no {name}: {text}"))).to_owned()
    };
    let pay = section("Clerk.pay\n");
    assert!(
        pay.ends_with(
            "  approve    a person decides on each call; without an answer in 1 h it is made\n  \
             calls      at most 2 in an activation"
        ),
        "{pay}"
    );
    assert!(
        !section("Clerk.look\n").contains("in an activation"),
        "{text}"
    );
    assert_eq!(
        section("Clerk.turn\n"),
        "Clerk.turn\n  \
         may call   tools read of the MCP server files\n  \
         calls      at most 4 of the tools of files in an activation\n  \
         may call   the role Sum\n  \
         approve    a person decides on calls of Sum\n  \
         calls      at most 3 of Sum in an activation\n  \
         calls      at most 9 in an activation\n  \
         turns      at most 7 in an activation"
    );
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!(json[0]["tool"]["approve"]["expires_ms"], 3_600_000);
    assert_eq!(json[0]["tool"]["max_calls"], 2);
    let warnings = warnings(&team);
    let odd: Vec<&String> = warnings
        .iter()
        .filter(|text| text.contains("itself"))
        .collect();
    assert_eq!(odd.len(), 1, "{warnings:?}");
    assert!(
        odd[0].starts_with("`Clerk` can hand over to itself"),
        "{odd:?}"
    );
}

/// Applies a policy to a team.
fn bound(team: &mut Definition, policy: &str) -> Result<(), Diagnostics> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.toml");
    fs::write(&file, format!("schema = \"strata.policy/1\"\n{policy}")).unwrap();
    team.apply_policies(&[OperatorPolicy::read(&file)?])
}

/// Reads the team `models.toml` and applies a policy to it.
fn bounded(policy: &str) -> Result<Definition, Diagnostics> {
    let mut team = good("models.toml");
    bound(&mut team, policy)?;
    Ok(team)
}

#[test]
fn an_operator_bounds_models_by_their_ids_and_endpoints() {
    let team = bounded(
        r#"[allow.llm]
        models = ["small-*", "r"]
        endpoints = [{ host = "127.0.0.1:8080" }, { host = "api.openai.com" }]"#,
    )
    .unwrap();
    let models = &team.llm.as_ref().unwrap().models;
    let left: Vec<&str> = models.keys().map(String::as_str).collect();
    assert_eq!(left, ["cheap", "responses", "script"]);
    assert!(models["cheap"].fallback.is_empty(), "it was `default`");
    let grant = team.plugins[&action(0, 0)].grants.llm.as_ref().unwrap();
    let check = |named, expected| assert_eq!(grant.allows(named), expected, "{named:?}");
    check(Some("cheap"), true);
    check(None, true);
    check(Some("large-1"), false);
    check(Some("script"), false);
    let told = team.describe_reductions().join("\n");
    assert!(
        told.contains("`[llm]` is not there: the model `large-1`"),
        "{told}"
    );
    assert!(
        told.contains("`[model.gemini]` is not there: the model `g`"),
        "{told}"
    );
    assert!(
        told.contains("`A.a`: `allow.llm` is not all allowed"),
        "{told}"
    );
}

#[test]
fn a_role_whose_model_a_policy_removes_is_refused_with_the_name_of_the_policy() {
    let mut team = good("tools.toml");
    bound(&mut team, "[allow]\n").unwrap();
    let told = team.check_ready().unwrap_err().to_string();
    let expected =
        "there is no model for it: `[llm]` is not there: a language model is not allowed (";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("policy.toml"), "{told}");
}

#[test]
fn a_policy_has_to_allow_the_addresses_of_whole_and_of_streamed_replies() {
    let has_gemini = |path: &str| {
        let team = bounded(&format!(
            r#"[allow.llm]
            models = ["*"]
            endpoints = [{{ host = "127.0.0.1:8081", path = "{path}" }}]"#
        ));
        team.unwrap()
            .llm
            .is_some_and(|llm| llm.models.contains_key("gemini"))
    };
    assert!(has_gemini("/v1beta/models/*"));
    assert!(!has_gemini("/v1beta/models/g:generateContent"));
    assert!(!has_gemini("/v1beta/models/g:streamGenerateContent"));
}

#[test]
fn each_policy_bounds_where_requests_to_models_go() {
    let team = bounded(
        r#"[allow.llm]
        models = ["*"]
        endpoints = [{ host = "127.0.0.1:8080" }]"#,
    );
    let bounds = team.unwrap().llm.unwrap().bounds;
    assert_eq!(bounds.len(), 1);
    assert_eq!(bounds[0].endpoints.len(), 1);
    // A policy that does not say what may be granted bounds no address.
    let team = bounded("[limits]\nmemory = \"1GiB\"").unwrap();
    assert_eq!(team.llm.unwrap().bounds, []);
}

#[test]
fn a_role_whose_model_is_removed_asks_no_other() {
    let team = bounded(
        r#"[allow.llm]
        models = ["*"]
        endpoints = [{ host = "api.anthropic.com", secrets = ["LARGE_KEY"] }]"#,
    )
    .unwrap();
    let models = &team.llm.as_ref().unwrap().models;
    assert!(models.contains_key("default") && !models.contains_key("cheap"));
    let grant = team.plugins[&action(0, 0)].grants.llm.as_ref().unwrap();
    assert!(!grant.allows(None), "its role asks `cheap`");
    assert!(grant.allows(Some("large-1")));
}

#[test]
fn an_operator_bounds_what_models_are_told_of_roles_that_they_call() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[limits]\nresult = \"9KiB\"\n\
                [llm]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n[[role.tool]]\nrole = \"B\"\n\
                [[role]]\nname = \"B\"\nreact = \"tools\"\n";
    let mut team = Definition::parse(text, "team.toml", dir.path()).unwrap();
    let told = |team: &Definition| team.tool_roles[&RoleId(0)].role_result_bytes;
    assert_eq!(told(&team), 9 << 10);
    bound(&mut team, "[limits]\nresult = \"2KiB\"\n").unwrap();
    assert_eq!(told(&team), 2 << 10);
    let lines = team.describe_reductions();
    let expected = "policy: `limits.result` is 2 KiB, not 9 KiB, for the roles that `A` calls";
    assert!(
        lines.len() == 1 && lines[0].starts_with(expected),
        "{lines:?}"
    );
}

#[test]
fn a_hosted_model_without_a_price_is_warned_of_and_can_be_refused() {
    let error = bounded("budget = { needs_prices = true }").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the model of `[model.responses]` has no `price`"),
        "{text}"
    );
    assert_eq!(error.iter().count(), 1, "others have a price or are local");
    let team = bounded("budget = { investment = 1.0 }").unwrap();
    let doubts = warnings(&team);
    let named = doubts
        .iter()
        .any(|doubt| doubt.contains("`[model.responses]` has no `price`"));
    assert!(named, "{doubts:?}");
    // A model that the policy removes needs no price, and the price of another is that of the policy.
    let without_hosted = r#"budget = { needs_prices = true, investment = 1.0 }
        [allow.llm]
        models = ["*"]
        endpoints = [{ host = "127.0.0.1:8080", price = { input = 0 } }]"#;
    let doubts = warnings(&bounded(without_hosted).unwrap());
    assert!(!doubts.iter().any(|doubt| doubt.contains("no `price`")));
}

#[test]
fn a_hosted_model_without_a_price_is_warned_of_if_a_role_or_an_action_has_a_budget() {
    let check = |role: &str, action: &str, expected: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        let team = format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[llm]\nprovider = \"openai\"\n\
             base_url = \"https://api.example.com/v1\"\nmodel = \"m\"\n[[role]]\nname = \"A\"\n\
             watch = [\"UserRequirement\"]\n{role}\n[[role.action]]\nname = \"work\"\ncomponent = \"p.wasm\"\n{action}\n"
        );
        fs::write(dir.path().join("p.wasm"), "").unwrap();
        let file = dir.path().join("team.toml");
        fs::write(&file, team).unwrap();
        let doubts = warnings(&Definition::read(&file).unwrap());
        let mut priced = doubts.iter().filter(|doubt| doubt.contains("`price`"));
        assert_eq!(priced.next().map(String::as_str), expected);
    };
    check("", "", None);
    check("tokens = 5", "tokens = 5", None);
    let end = "has an `investment`, and the model of `[llm]` has no `price`: what it costs is not counted";
    check("investment = 1", "", Some(&format!("the role `A` {end}")));
    check("", "investment = 1", Some(&format!("`A.work` {end}")));
}

//! Tests of parsing team files, good and bad.
//!
//! The errors of each file in `manifest/bad` must equal the `.stderr` file next to it. With
//! `BLESS=1` those files are rewritten.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_base::files::durability::Durability;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::money::Usd;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::team::{Join, OnFault, React, RetryPolicy};
use strata_manifest::{Definition, Diagnostics, Paint, RunConfig};
use strata_services::models::config::{
    Endpoint, ModelConfig, ModelsConfig, Price, ProtocolName, ProviderConfig,
};
use strata_services::plugin::{Access, DirGrant, Limits};

#[path = "manifest/bounds.rs"]
mod bounds;
#[path = "manifest/limit_advice.rs"]
mod limit_advice;
#[path = "manifest/operator.rs"]
mod operator;
#[path = "manifest/properties.rs"]
mod properties;
#[path = "manifest/schema.rs"]
mod schema;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/manifest")
        .join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths
        .filter(|p| p.extension() == Some("toml".as_ref()))
        .collect();
    paths.retain(|path| !path.ends_with("replies.toml"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn parse(file: &Path) -> Result<Definition, Diagnostics> {
    let text = fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    Definition::parse(&text, name, file.parent().unwrap())
}

fn good(name: &str) -> Definition {
    parse(&folder("good").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn action(role: u16, action: u16) -> Slot {
    Slot {
        role: RoleId(role),
        kind: SlotKind::Action(ActionId(action)),
    }
}

fn think(role: u16) -> Slot {
    Slot {
        role: RoleId(role),
        kind: SlotKind::Think,
    }
}

#[test]
fn bad_files_are_explained() {
    let bless = std::env::var_os("BLESS").is_some();
    let here = folder("bad").display().to_string();
    let mut different = Vec::new();
    for file in files("bad") {
        let error = parse(&file).expect_err(&format!("{} is accepted", file.display()));
        let found = format!("{error}\n").replace(&here, "[HERE]");
        let golden = file.with_extension("stderr");
        if bless {
            fs::write(&golden, &found).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != found {
            different.push(format!("--- {}\n{found}", file.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn good_files_are_read() {
    for file in files("good") {
        if let Err(error) = parse(&file) {
            panic!("{error}");
        }
    }
}

#[test]
fn what_is_not_written_has_its_default() {
    let team = good("smallest.toml");
    assert_eq!(team.run, RunConfig::default());
    assert_eq!((&team.idea, &team.llm), (&None, &None));
    let policy = &team.team.policy;
    assert_eq!(policy.on_fault, OnFault::Stop);
    assert_eq!((policy.max_steps, policy.max_parallel), (None, 8));
    assert_eq!(policy.budget, None);
    let role = &team.team.roles[0];
    assert_eq!(role.react, React::ByOrder);
    let retry = RetryPolicy {
        retries: 0,
        backoff_ms: 500,
    };
    assert_eq!(role.actions[0].retry, retry);
    let plugin = &team.plugins[&action(0, 0)];
    assert_eq!(plugin.component, folder("good").join("p.wasm"));
    assert_eq!(plugin.config.as_str(), "null");
    assert_eq!(plugin.limits, Limits::default());
    assert_eq!(plugin.grants, Default::default());
}

#[test]
fn what_is_written_is_kept() {
    let whole = good("whole.toml");
    assert_eq!(whole.idea.as_deref(), Some("write a snake game"));
    assert_eq!(whole.run.durability, Durability::Process);
    assert_eq!(whole.run.checkpoints_kept, Some(3));
    let endpoint = Endpoint {
        protocol: ProtocolName::OpenAi,
        base_url: "http://127.0.0.1:8080/v1".into(),
        api_key_env: Some("PROBE_KEY".into()),
        retries: 0,
        timeout: Duration::from_secs(30),
    };
    let price = Price {
        input: Usd::from_dollars(0.15),
        output: Some(Usd::from_dollars(1.0)),
        cache_read: Some(Usd::from_dollars(0.075)),
        cache_write: None,
    };
    let llm = ModelConfig {
        model: Some("m".into()),
        price: Some(price),
        ..ModelConfig::with_provider(ProviderConfig::Endpoint(endpoint))
    };
    assert_eq!(whole.llm, Some(ModelsConfig::with_default(llm)));
    let team = &whole.team;
    assert_eq!(team.desc, "software company");
    assert_eq!(team.policy.budget, Some(Usd::from_dollars(10.0)));
    assert_eq!(team.scopes["log"], Some(Reducer::Append));
    assert_eq!(team.scopes["plain"], None);
    let everyone = vec![RoleId(0), RoleId(1), RoleId(2)];
    assert_eq!(team.groups["everyone"], everyone);
    let chooser = React::Choose {
        max_loop: 3,
        thinker: Thinker::Component,
    };
    let asker = React::Choose {
        max_loop: 1,
        thinker: Thinker::OnlyAction,
    };
    assert_eq!(team.roles[1].react, chooser);
    assert_eq!(team.roles[2].react, React::PlanAndAct);
    assert_eq!(team.roles[3].react, asker);
    assert_eq!(
        (team.roles[4].react.clone(), team.roles[4].actions.len()),
        (React::Human, 0)
    );
    let form = &team.roles[4].answer_form;
    assert_eq!(form.choices, ["ship", "wait"]);
    assert_eq!(team.routes[0].from, RoleId(0));
    assert_eq!(team.routes[0].arms[0].to, ["everyone", "<self>", "<all>"]);
    assert_eq!(team.routes[1].arms.len(), 3);
    assert!(team.routes[1].arms[2].when.is_none());
    let join = |at: usize| {
        let Join {
            id,
            from,
            to,
            mode,
            deliver,
        } = &team.joins[at];
        (
            id.as_str(),
            from.iter().map(|id| id.0).collect::<Vec<_>>(),
            to.as_str(),
            *mode,
            *deliver,
        )
    };
    assert_eq!(
        join(0),
        (
            "review",
            vec![2, 0, 3],
            "publish",
            JoinMode::Active,
            DeliveryMode::Each
        )
    );
    assert_eq!(
        join(1),
        (
            "publish",
            vec![0, 3, 2],
            "everyone",
            JoinMode::All,
            DeliveryMode::Batch
        )
    );
    assert_eq!(
        join(2),
        (
            "any of them",
            vec![3],
            "RoleB",
            JoinMode::Any,
            DeliveryMode::Batch
        )
    );
    assert_eq!(team.joins.len(), 3);
}

#[test]
fn a_team_has_not_more_joins_than_can_be_gone_through() {
    let with = |joins: usize| {
        let mut text = fs::read_to_string(folder("good").join("smallest.toml")).unwrap();
        for join in 0..joins {
            text += &format!("[[route]]\nfrom = \"A\"\nto = [\"j{join}\"]\n");
            text += &format!("[[join]]\nid = \"j{join}\"\nfrom = [\"A\"]\nto = \"A\"\n");
        }
        Definition::parse(&text, "team.toml", &folder("good"))
    };
    assert_eq!(with(1000).unwrap().team.joins.len(), 1000);
    let refused = with(1001).unwrap_err();
    let messages: Vec<&str> = refused.iter().map(|problem| problem.message()).collect();
    assert_eq!(messages, ["a team cannot have more than 1000 joins"]);
}

#[test]
fn plugins_get_the_teams_limits_and_their_own_on_top() {
    let whole = good("whole.toml");
    let plugin = &whole.plugins[&action(0, 0)];
    let limits = Limits {
        memory_bytes: 256 << 20,
        fuel: Some(1000),
        log_bytes: 0,
        ..Limits::default()
    };
    assert_eq!(plugin.limits, limits);
    assert_eq!(whole.plugins[&action(0, 1)].limits.memory_bytes, 32 << 20);
    assert_eq!(whole.plugins[&think(1)].limits.cpu, Duration::from_secs(1));
    assert_eq!(whole.team.roles[0].actions[0].retry.retries, 0);
    assert_eq!(whole.team.roles[0].actions[1].retry.backoff_ms, 1500);
    assert!(plugin.pin.as_ref().is_some_and(|pin| pin.ends_with("ab")));
    let config =
        r#"{"date":"1979-05-27T07:32:00Z","list":[1,-2,16,1.5,true],"table":{"k":"v"},"text":"t"}"#;
    assert_eq!(plugin.config.as_str(), config);
    assert!(plugin.output_schema.is_some());
    let dirs = [
        ("in", "/in", Access::Read, None),
        ("../out", "/out", Access::Write, Some(1 << 20)),
    ];
    let dirs = dirs.map(|(host, guest, access, max_bytes)| DirGrant {
        host: folder("good").join(host),
        guest: guest.into(),
        access,
        max_bytes,
    });
    assert_eq!(plugin.grants.dirs, dirs);
    assert_eq!(plugin.grants.env, ["LANG"]);
    assert_eq!(plugin.grants.llm.as_ref().unwrap().calls, Some(20));
    let http: Vec<_> = plugin
        .grants
        .http
        .iter()
        .map(|g| (g.host.to_string(), g.methods.join(" "), &*g.path))
        .collect();
    let host = |host: &str, methods: &str| (host.to_owned(), methods.to_owned());
    let ((a, post), (b, reads)) = (
        host("a.example.com", "POST"),
        host("*.b.org:8443", "GET HEAD"),
    );
    assert_eq!(http, [(a, post, "/v1/*"), (b, reads, "/*")]);
    assert_eq!(
        plugin.grants.secrets().collect::<Vec<_>>(),
        ["TOKEN", "OTHER", "TOKEN"]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let check = |path: &Path, reason: &str| {
        let error = Definition::read(path).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains(reason), "{error}");
    };
    check(Path::new("nowhere.toml"), "No such file");
    check(&folder("good"), "not a file");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("team.toml");
    fs::write(&file, b"schema = 1\nx = \"\xff\"").unwrap();
    check(&file, "not UTF-8 in line 2");
    fs::write(&file, vec![b'#'; (4 << 20) + 1]).unwrap();
    check(&file, "more than 4194304 bytes");
}

#[test]
fn a_file_is_read_with_paths_relative_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("team.toml");
    fs::copy(folder("good").join("smallest.toml"), &file).unwrap();
    let team = Definition::read(&file).unwrap();
    let component = dir.path().join("p.wasm");
    assert_eq!(team.plugins[&action(0, 0)].component, component);
    let error = team.check_ready().unwrap_err().to_string();
    assert!(error.contains("team.toml:9:13"), "{error}");
    fs::write(component, "").unwrap();
    team.check_ready().unwrap();
}

#[test]
fn a_role_that_nothing_chooses_for_is_not_ready() {
    let text = fs::read_to_string(folder("good").join("smallest.toml")).unwrap();
    let text = text.replace("[[role]]", "[[role]]\nreact = \"react\"");
    let text = format!("{text}[[role.action]]\nname = \"q\"\ncomponent = \"p.wasm\"\n");
    let team = Definition::parse(&text, "team.toml", &folder("good")).unwrap();
    let error = team.check_ready().unwrap_err().to_string();
    assert!(error.contains("team.toml:6:9"), "{error}");
    assert!(error.contains("nothing chooses"), "{error}");
}

#[test]
fn a_role_with_one_action_needs_nothing_that_chooses() {
    let smallest = fs::read_to_string(folder("good").join("smallest.toml")).unwrap();
    let thinker = |more: &str, llm: &str| {
        let text = smallest.replace(
            "[[role]]",
            &format!("{llm}[[role]]\nreact = \"react\"\n{more}"),
        );
        let team = Definition::parse(&text, "team.toml", &folder("good")).unwrap();
        // Its component does not exist, so loading fails later.
        let error = team.check_ready().unwrap_err().to_string();
        assert!(!error.contains("nothing chooses"), "{error}");
        let React::Choose { thinker, .. } = team.team.roles[0].react else {
            panic!("it chooses")
        };
        thinker
    };
    let llm = "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"m\"\n";
    assert_eq!(thinker("", ""), Thinker::OnlyAction);
    assert_eq!(thinker("max_react_loop = 3", ""), Thinker::OnlyAction);
    assert_eq!(thinker("", llm), Thinker::OnlyAction);
    assert_eq!(thinker("max_react_loop = 3", llm), Thinker::Model);
    assert_eq!(
        thinker("think = { component = \"p.wasm\" }", llm),
        Thinker::Component
    );
}

#[test]
fn later_problems_are_shown_where_the_component_is_written() {
    let whole = good("whole.toml");
    let check = |problem: Diagnostics, place: &str| {
        let text = problem.to_string();
        assert!(text.contains(place) && text.contains("broken"), "{text}");
    };
    check(
        whole.component_problem(action(0, 0), "broken"),
        "whole.toml:62:13",
    );
    check(
        whole.pin_problem(action(0, 0), "broken"),
        "whole.toml:63:10",
    );
    check(
        whole.pin_problem(action(0, 1), "broken"),
        "whole.toml:78:13",
    );
    check(
        whole.missing_grant(action(0, 0), "broken", "x"),
        "whole.toml:70:1",
    );
    check(
        whole.missing_grant(action(0, 1), "broken", "x"),
        "whole.toml:76:1",
    );
    check(
        whole.component_problem(think(1), "broken"),
        "whole.toml:87:13",
    );
    check(whole.component_problem(think(0), "broken"), "error: broken");
    check(
        whole.secret_problem("TOKEN", "broken").unwrap(),
        "whole.toml:75:12",
    );
    assert!(whole.secret_problem("NONE", "broken").is_none());
}

#[test]
fn of_very_many_problems_the_first_are_shown() {
    let mut text = fs::read_to_string(folder("good/smallest.toml")).unwrap() + "[run]\n";
    (0..30).for_each(|i| text.push_str(&format!("k{i} = 1\n")));
    let error = Definition::parse(&text, "team.toml", &folder("good")).unwrap_err();
    assert_eq!(error.iter().count(), 30);
    let text = error.to_string();
    assert!(text.contains("`k19`") && !text.contains("`k20`"), "{text}");
    assert!(text.ends_with("… and 10 more"), "{text}");
}

#[test]
fn colours_are_for_terminals_only() {
    let error = parse(&folder("bad/no-schema.toml")).unwrap_err();
    assert!(error.render(Paint::Colour).contains("\u{1b}["));
    assert!(!error.render(Paint::Plain).contains('\u{1b}'));
    assert_eq!(error.render(Paint::Plain), error.to_string());
}

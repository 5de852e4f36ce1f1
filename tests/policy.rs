//! The operator's policy restricts every team, whatever its team file says.

use crate::process::Process;
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
investment = 10.0
[[role]]
name = "R"
watch = ["UserRequirement"]
[[role.action]]
name = "Writes"
component = "probe.wasm"
config = { steps = [{ write = "/out/a", text = "x" }] }
[role.action.limits]
memory = "128MiB"
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }, { host = "/etc", guest = "/etc" }]
env = ["LANG", "HOME"]
http = [{ host = "*", methods = ["GET", "POST"] }]
[[role.action]]
name = "Spins"
component = "probe.wasm"
config = { steps = [{ fail = "spin", attempts = [1] }] }
"#;

const POLICY: &str = r#"schema = "strata.policy/1"
[limits]
memory = "32MiB"
cpu = "200ms"
[budget]
investment = 2.5
[allow]
dirs = [{ host = ".", write = true, max_size = "1MiB" }]
env = ["LANG"]
http = [{ host = "*.example.com" }]
"#;

#[test]
fn restrictions_of_a_policy_are_reported_once_and_shown_by_check() {
    let place = Workspace::with(TEAM);
    place.write("policy.toml", POLICY);
    let checked = place
        .host(&["check", "team.toml", "--policy", "policy.toml"])
        .expect(0);
    for line in [
        "policy: `R.Writes`: `limits.memory` is 32 MiB, not 128 MiB (policy.toml:3)",
        "policy: `R.Writes`: `allow.dirs` is not all allowed (policy.toml)",
        "policy: `R.Writes`: `allow.env` is not all allowed (policy.toml)",
        "policy: `R.Writes`: `allow.http` is not all allowed (policy.toml)",
        "policy: `investment` is 2.5 USD, not 10 (policy.toml)",
    ] {
        assert_eq!(
            checked.stderr.matches(line).count(),
            1,
            "`{line}`\n{}",
            checked.stderr
        );
    }
    // Restrictions of what the team does not use are not reported, but they are shown.
    assert!(!checked.stderr.contains("cpu"), "{}", checked.stderr);
    for line in [
        "`limits.cpu` is 200 ms, not 10 s (policy.toml:4)",
        "may see    env LANG\n",
        "GET *.example.com/*",
        "up to 1 MiB",
    ] {
        assert!(
            checked.stdout.contains(line),
            "`{line}`\n{}",
            checked.stdout
        );
    }
    assert!(!checked.stdout.contains("/etc"), "{}", checked.stdout);

    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--policy",
            "policy.toml",
        ])
        .expect(3);
    let told = "CPU limit of 200ms reached; raise `limits.cpu` (its operator allows no more, policy.toml:4)";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(place.path("out/a").exists());
}

#[test]
fn a_policy_without_a_bound_on_fuel_changes_none() {
    let place = Workspace::with(&TEAM.replace("memory = \"128MiB\"", "fuel = 9000000"));
    let policy = |fuel: u32| format!("schema = \"strata.policy/1\"\n[limits]\nfuel = {fuel}\n");
    place.write("config/strata-host/policy.toml", policy(5_000_000));
    place.write("none.toml", policy(0));
    let checked = place
        .host(&["check", "team.toml", "--policy", "none.toml"])
        .expect(0);
    assert_eq!(
        checked.stdout.matches("fuel       5000000\n").count(),
        2,
        "{}",
        checked.stdout
    );
    place.write("config/strata-host/policy.toml", policy(0));
    let checked = place.host(&["check", "team.toml"]).expect(0);
    assert!(
        checked.stdout.contains("fuel       9000000\n"),
        "{}",
        checked.stdout
    );
}

#[test]
fn a_resume_follows_the_current_policy() {
    let steps = r#"{ random = 1 }, { random = 1 }, { write = "/etc/a", text = "x" }"#;
    let place = Workspace::with(&TEAM.replace(r#"{ fail = "spin", attempts = [1] }"#, steps));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    let narrow = "schema = \"strata.policy/1\"\n[limits]\nhost_calls = 1\n";
    place.write("config/strata-host/policy.toml", narrow);
    let ended = place.resume().expect(3);
    assert!(
        ended.stderr.contains("limit of 1 host calls reached"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("its operator allows no more, "),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_denial_that_a_policy_caused_names_the_policy() {
    let place = Workspace::with(&TEAM.replace(
        r#"{ fail = "spin", attempts = [1] }"#,
        r#"{ read = "/etc/hostname" }"#,
    ));
    place.write(
        "policy.toml",
        "schema = \"strata.policy/1\"\n[allow]\nenv = [\"LANG\"]\n",
    );
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--policy",
            "policy.toml",
        ])
        .expect(3);
    let told = "its operator does not allow it: `allow.dirs` is not all allowed (policy.toml)";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let again = "strata-host run --recover_path store --policy policy.toml";
    assert!(ended.stderr.contains(again), "{}", ended.stderr);
}

#[test]
fn a_replay_follows_the_current_policy() {
    let place = Workspace::with(&TEAM.replace(
        r#"{ fail = "spin", attempts = [1] }"#,
        r#"{ read = "/etc/hostname" }"#,
    ));
    place.host(&["run", "team.toml", "--storage", "store"]);
    place.host(&["replay", "store", "--verify"]).expect(0);
    place.write("none.toml", "schema = \"strata.policy/1\"\n[allow]\n");
    let ended = place
        .host(&["replay", "store", "--verify", "--policy", "none.toml"])
        .expect(3);
    assert!(
        ended.stdout.contains("lies in no granted directory"),
        "{}",
        ended.stdout
    );
    place.write(
        "config/strata-host/policy.toml",
        "schema = \"strata.policy/1\"\n[allow]\n",
    );
    place.host(&["replay", "store", "--verify"]).expect(3);
}

#[test]
fn a_policy_that_cannot_be_read_stops_everything() {
    let place = Workspace::with(TEAM);
    let check = |args: &[&str], text: &str| {
        let refused = place
            .host(&[&["check", "team.toml"], args].concat())
            .expect(2);
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    };
    check(
        &["--policy", "none.toml"],
        "cannot read the policy file `none.toml`",
    );
    place.write(
        "wrong.toml",
        "schema = \"strata.policy/1\"\n[limits]\nmemory = \"much\"\nmemry = 1\n[alow]\n",
    );
    check(&["--policy", "wrong.toml"], "wrong.toml:3:10");
    check(&["--policy", "wrong.toml"], "did you mean `allow`?");
    place.write("closed.toml", "schema = \"strata.policy/1\"\n[allow]\n");
    place.write(
        "team.toml",
        TEAM.replace(
            "[[role]]",
            "[env.external]\nkind = \"stdio\"\ncommand = [\"true\"]\n[[role]]",
        ),
    );
    check(
        &["--policy", "closed.toml"],
        "the team has an `[env.external]`, which its operator does not allow",
    );
}

#[test]
fn models_use_only_endpoints_and_keys_that_the_policy_allows() {
    let place = Workspace::with("");
    let check = |llm: &str, allow: &str, cut: &str| {
        let head = format!(
            "[llm]\nprovider = \"openai\"\nmodel = \"m\"\nprice = {{ input = 1.0 }}\n{llm}\n[[role]]"
        );
        place.write("team.toml", TEAM.replacen("[[role]]", &head, 1));
        let allow = format!("llm = {{ models = [\"*\"], {allow} }}\nsecrets = [\"HOME\"]\n");
        place.write(
            "policy.toml",
            format!("schema = \"strata.policy/1\"\n[allow]\n{allow}"),
        );
        let checked = place
            .host(&["check", "team.toml", "--policy", "policy.toml"])
            .expect(0);
        let told = checked
            .stderr
            .lines()
            .find(|line| line.contains("`[llm]`"))
            .unwrap_or_default();
        assert_eq!(told, cut, "{llm}");
    };
    let cut =
        |what: &str| format!("policy: `[llm]` is not there: {what} is not allowed (policy.toml)");
    let ours = "base_url = \"https://api.example.com/v1\"";
    let key = "base_url = \"https://api.example.com/v1\"\napi_key = { env = \"HOME\" }";
    check(
        ours,
        "calls = 1",
        &cut("the endpoint `https://api.example.com/v1`"),
    );
    check(
        ours,
        "endpoints = [{ host = \"*.example.com\", path = \"/v1/*\" }]",
        "",
    );
    check(
        ours,
        "endpoints = [{ host = \"*.example.com\", path = \"/v2/*\" }]",
        &cut("the endpoint `https://api.example.com/v1`"),
    );
    check(
        key,
        "endpoints = [{ host = \"*.example.com\" }]",
        &cut("the key `HOME` for `api.example.com`"),
    );
    check(
        key,
        "endpoints = [{ host = \"*.example.com\", secrets = [\"HOME\"] }]",
        "",
    );
    let private = "base_url = \"http://10.0.0.1/v1\"";
    check(
        private,
        "endpoints = [{ host = \"*\" }]",
        &cut("the endpoint `http://10.0.0.1/v1`"),
    );
    check(private, "endpoints = [{ host = \"10.0.0.1\" }]", "");
}

#[test]
fn source_is_built_where_the_policy_allows_it_only() {
    let place = Workspace::with(&TEAM.replace("probe.wasm", "src"));
    // A user who builds it is told that it may not be built.
    place.write("src/readme.txt", "");
    let checked = |policy: &str, text: &str| {
        place.write(
            "policy.toml",
            format!("schema = \"strata.policy/1\"\n{policy}"),
        );
        let refused = place
            .host(&["check", "team.toml", "--policy", "policy.toml"])
            .expect(2);
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
        assert!(refused.stderr.contains("team.toml:"), "{}", refused.stderr);
    };
    let told = "is a directory of source, and its operator does not allow to build any";
    checked("[allow]\n", told);
    let locked = place
        .host(&["lock", "team.toml", "--policy", "policy.toml"])
        .expect(2);
    assert!(locked.stderr.contains(told), "{}", locked.stderr);
    checked("[allow]\nbuild = false\n", told);
    checked(
        "[allow]\nbuild = true\n",
        "no source of an action was found",
    );
    checked("[limits]\n", "no source of an action was found");
}

#[test]
fn a_policy_on_the_command_line_does_not_replace_that_of_the_variable() {
    let place = Workspace::with(TEAM);
    place.write("strict.toml", POLICY);
    place.write("lax.toml", "schema = \"strata.policy/1\"\n");
    let mut command = place.command(&["check", "team.toml", "--policy", "lax.toml"]);
    command.env("STRATA_POLICY", "strict.toml");
    let checked = Process::spawn(command).end().expect(0);
    assert!(
        checked
            .stderr
            .contains("`investment` is 2.5 USD, not 10 (strict.toml)"),
        "{}",
        checked.stderr
    );
}

#[test]
fn an_invalid_policy_of_the_variable_is_rejected_with_its_origin() {
    let place = Workspace::with(TEAM);
    place.write("broken.toml", "schema = \"strata.policy/1\"\nlimit = 1\n");
    for (file, why) in [
        ("absent.toml", "cannot read the policy file `absent.toml`"),
        ("broken.toml", "no key `limit`"),
    ] {
        let mut command = place.command(&["check", "team.toml"]);
        command.env("STRATA_POLICY", file);
        let refused = Process::spawn(command).end().expect(2).stderr;
        assert!(
            refused.contains(why) && refused.contains("(`$STRATA_POLICY` names this policy)"),
            "{refused}"
        );
    }
}

//! Tests of how an operator overrides a team file, and of the policy that is shown.

use std::collections::BTreeMap;
use std::path::Path;

use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_host::manifest::{Overrides, policy};

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

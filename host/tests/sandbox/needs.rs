//! Tests of what components declare about themselves: declared needs must be granted, undeclared
//! ones are denied, and the declaration is the same each time.

use strata_core::record::fault::FaultKind;
use strata_host::launch::Components;
use strata_host::manifest::Definition;
use strata_host::plugin::Grants;
use strata_host::sandbox::{Metering, WasmSandbox};

use crate::driver::SANDBOX;
use crate::grants::{self, run_with_grants};
use crate::guest::Guest;

/// Returns a guest that declares a need.
fn guest_that_needs(need: &str) -> Guest<'static> {
    let length = need.len();
    let items = format!(
        "(data (i32.const 700) \"{need}\") (func $needs
            (i32.store (i32.const 720) (i32.const 700)) (i32.store (i32.const 724) (i32.const {length}))
            (i32.store (i32.const 572) (i32.const 720)) (i32.store (i32.const 576) (i32.const 1)))"
    );
    Guest {
        items: items.leak(),
        describe: "(call $needs) (i32.const 512)",
        ..Guest::default()
    }
}

/// Loads a team of one action with this `allow`. Returns the errors.
fn load_errors(component: &[u8], allow: &str) -> String {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("a.wasm"), component).expect("it is written");
    let text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[[role]]\nname = \"R\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"A\"\ncomponent = \"a.wasm\"\nallow = {{ {allow} }}\n"
    );
    let definition = Definition::parse(&text, "team.toml", home.path()).expect("a team");
    let loaded = Components::load(&definition, &SANDBOX, &mut |_| ());
    loaded.map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn what_a_component_needs_is_granted_or_an_error_with_the_line_to_add() {
    let check = |need: &str, line: &str| {
        let guest = guest_that_needs(need).build();
        let told = load_errors(&guest, "");
        assert!(
            told.contains(&format!(
                "`A` of role `R` needs `{need}`, which it is not granted"
            )),
            "{told}"
        );
        assert!(
            told.contains(&format!("add to `[role.action.allow]`: `{line}`")),
            "{told}"
        );
        assert_eq!(load_errors(&guest, line), "", "the line is right");
    };
    check("env", "env = [\"LANG\"]");
    check(
        "files",
        "dirs = [{ host = \"out\", guest = \"/out\", write = true }]",
    );
    check(
        "http",
        "http = [{ host = \"api.example.com\", methods = [\"GET\"], path = \"/*\" }]",
    );
    check("secrets", "secrets = [\"TOKEN\"]");
    let llm = load_errors(&guest_that_needs("llm").build(), "");
    assert!(
        llm.contains("needs `llm`") && llm.contains("`llm = { models = [\"*\"] }`"),
        "{llm}"
    );
}

#[test]
fn what_needs_no_grant_may_be_needed_and_what_nobody_has_may_not() {
    for need in ["human", "state", "clock"] {
        assert_eq!(load_errors(&guest_that_needs(need).build(), ""), "");
    }
    let told = load_errors(&guest_that_needs("telepathy").build(), "");
    assert!(
        told.contains(
            "needs `telepathy`, which this host does not have; it can grant `env`, `files`"
        ),
        "{told}"
    );
}

#[test]
fn a_component_that_needs_more_than_it_says_is_denied_it() {
    let liar = grants::read("/etc/passwd");
    assert_eq!(load_errors(&liar, ""), "", "it says that it needs nothing");
    assert_eq!(
        run_with_grants(&liar, Grants::default()).unwrap_err().0,
        FaultKind::Denied
    );
}

#[test]
fn a_component_describes_itself_alike_each_time() {
    // It counts its calls, and includes what may differ: the time, random numbers, the content of
    // its memory.
    let guest = Guest {
        items: "(global $asked (mut i32) (i32.const 48))",
        describe: "(global.set $asked (i32.add (global.get $asked) (i32.const 1)))
            (i32.store8 (i32.const 640) (global.get $asked))
            (i32.store8 (i32.const 641) (i32.add (i32.const 48) (f64.gt (call $now) (f64.const 0))))
            (call $random (i32.const 8) (i32.const 2048))
            (i32.store8 (i32.const 642) (i32.add (i32.const 48) (i32.load8_u (i32.const 2048))))
            (i32.const 512)",
        ..Guest::default()
    };
    let guest = guest.build();
    let described = || {
        let sandbox = WasmSandbox::uncached().unwrap();
        sandbox.load(&guest, Metering::Plain).unwrap();
        sandbox
            .load(&guest, Metering::Fuel)
            .unwrap()
            .manifest
            .name
            .clone()
    };
    assert_eq!(
        described(),
        "101st",
        "first time, no clock, randomness refused"
    );
    assert_eq!(described(), described());
}

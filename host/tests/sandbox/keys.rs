//! Tests that every key of `[limits]` and `[allow]` has a guest that does what it forbids. The list
//! of keys comes from the parser of team files, so that no key can be added without one.

use std::path::Path;
use std::time::Duration;

use strata_core::record::fault::FaultKind;
use strata_host::manifest::Definition;
use strata_host::plugin::{Limit, Limits};
use strata_host::sandbox::Metering;

use crate::driver::{SANDBOX, limits, run_within};
use crate::guest;
use crate::{grants, http, human};

/// Returns the keys that a table of an action can have, sorted.
fn keys(table: &str) -> Vec<String> {
    let text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[[role]]\nname = \"R\"\n[[role.action]]\nname = \"A\"\n\
         component = \"a.wasm\"\n[role.action.{table}]\n0 = 1\n"
    );
    let refused = Definition::parse(&text, "team.toml", Path::new("/"))
        .expect_err("no key is called `0`")
        .to_string();
    let (_, listed) = refused
        .split_once("expected one of: ")
        .expect("the possible keys are listed");
    let quoted = listed
        .lines()
        .next()
        .unwrap_or_default()
        .split('`')
        .skip(1)
        .step_by(2);
    let mut keys: Vec<String> = quoted.map(str::to_owned).collect();
    keys.sort_unstable();
    keys
}

/// Returns limits, and a guest that exceeds one of them.
fn exceeding(limit: Limit) -> (Limits, String) {
    let short = Duration::from_millis(30);
    let spin = "(loop $again (br $again)) unreachable";
    let (limits, run) = match limit {
        Limit::Memory => (
            Limits {
                memory_bytes: 140_000,
                ..limits()
            },
            "(drop (memory.grow (i32.const 1))) unreachable",
        ),
        Limit::TableElements => (
            Limits {
                table_elements: 10,
                ..limits()
            },
            "(drop (table.grow $t (ref.null func) (i32.const 10))) unreachable",
        ),
        Limit::Cpu => (
            Limits {
                cpu: short,
                ..limits()
            },
            spin,
        ),
        Limit::Timeout => (
            Limits {
                timeout: short,
                ..limits()
            },
            spin,
        ),
        Limit::Fuel => (
            Limits {
                fuel: Some(100),
                ..limits()
            },
            spin,
        ),
        Limit::Output => (
            Limits {
                output_bytes: 100,
                ..limits()
            },
            "(call $emit (i32.const 640) (i32.const 5)) unreachable",
        ),
        Limit::Result => unreachable!("it limits no guest"),
        Limit::Log => (
            Limits {
                log_bytes: 3,
                ..limits()
            },
            "(call $log (i32.const 1) (i32.const 640) (i32.const 5)) unreachable",
        ),
        Limit::HostCalls => (
            Limits {
                host_calls: 0,
                ..limits()
            },
            "(drop (call $now)) unreachable",
        ),
        Limit::HostBytes => (
            Limits {
                host_bytes: 7,
                ..limits()
            },
            "(drop (call $now)) unreachable",
        ),
        Limit::Component => (
            Limits {
                component_bytes: 100,
                ..limits()
            },
            "",
        ),
        Limit::Compile => (
            Limits {
                compile: Duration::from_nanos(1),
                ..limits()
            },
            "",
        ),
    };
    (limits, run.to_owned())
}

#[test]
fn every_limit_bites_and_names_its_key() {
    // What a model is told of a result is not the guest's concern; see `driver::turns`.
    let of_guests = Limit::ALL
        .into_iter()
        .filter(|limit| *limit != Limit::Result);
    for limit in of_guests {
        let (limits, run) = exceeding(limit);
        if run.is_empty() {
            // Another function name makes another component, which is not compiled yet.
            let guest = guest::with(&format!("(func $only_for_{})", limit.key()), "unreachable");
            let refused = SANDBOX
                .load_within(&guest, Metering::Plain, &limits)
                .unwrap_err();
            assert_eq!(
                refused.limit_reached().map(|reached| reached.limit),
                Some(limit),
                "{refused}"
            );
            continue;
        }
        let fault = run_within(limits, &guest::with("(table $t 1 funcref)", &run))
            .result
            .expect_err("the guest fails");
        let told = format!("{}\n{}", fault.message, fault.log.join("\n"));
        assert!(
            told.contains(&format!("; raise `limits.{}`", limit.key())),
            "{limit:?}: {told}"
        );
    }
}

#[test]
fn the_keys_of_limits_are_those_that_are_tried() {
    let mut tried: Vec<&str> = Limit::ALL.iter().map(|limit| limit.key()).collect();
    // The keys about retries are the driver's and limit nothing.
    tried.extend(["retries", "backoff"]);
    tried.sort_unstable();
    assert_eq!(keys("limits"), tried);
}

#[test]
fn every_grant_is_missed_by_a_guest_that_lacks_it() {
    let told = |guest: &[u8]| {
        let roomy = Limits {
            memory_bytes: 32 << 20,
            ..limits()
        };
        let fault = run_within(roomy, guest)
            .result
            .expect_err("nothing is granted");
        (fault.kind, fault.message)
    };
    for key in keys("allow") {
        let guest = match key.as_str() {
            "llm" => grants::ask(None),
            "dirs" => grants::read("/in/a"),
            "env" => http::variable("PATH"),
            "http" => http::asking(&http::TestHttpRequest::default()),
            "secrets" => http::placeholder("TOKEN"),
            "tools" => guest::with(
                "",
                "(call $tools (i32.const 2048)) (call $told (i32.const 0))",
            ),
            // The server, the tool and the arguments are each the name of the guest.
            "mcp" => guest::with(
                "",
                "(call $call_tool (i32.const 640) (i32.const 5) (i32.const 640) (i32.const 5)
                    (i32.const 640) (i32.const 5) (i32.const 2048))
                 (call $told (i32.const 0))",
            ),
            "human" => {
                assert!(
                    human::text_or_fault(run_within(limits(), &human::asking("", None))).is_ok(),
                    "needs no grant"
                );
                continue;
            }
            other => panic!("`allow.{other}` has no guest that tries to do without it"),
        };
        let (kind, message) = told(&guest);
        assert_eq!(kind, FaultKind::Denied, "{key}: {message}");
        assert!(message.contains("add"), "{key}: {message}");
    }
}

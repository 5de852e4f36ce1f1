//! Tests that errors of loading a component give the reason and advice.

use std::fs;
use std::time::Duration;

use strata_host::blob::digest_of;
use strata_host::plugin::Limits;
use strata_host::sandbox::{Exports, Metering, Sandbox, WasmSandbox};

use crate::driver::{SANDBOX, block_on, call, gateway, limits, plugin};
use crate::guest::Guest;

fn refusal(bytes: &[u8]) -> String {
    let error = SANDBOX
        .load(bytes, Metering::Plain)
        .expect_err("it does not load");
    error.to_string()
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the component's text is right")
}

#[test]
fn a_guest_is_loaded_with_what_it_says_about_itself() {
    let loaded = SANDBOX
        .load(&Guest::default().build(), Metering::Plain)
        .unwrap();
    let manifest = loaded.manifest;
    assert_eq!(
        (manifest.name.as_str(), manifest.version.as_str()),
        ("guest", "0.1.0")
    );
    assert_eq!(
        (manifest.description.as_str(), manifest.needs.len()),
        ("tests.", 0)
    );
    assert_eq!(
        loaded.exports,
        Exports {
            handler: true,
            thinker: false,
            planner: false
        }
    );
    assert_eq!(loaded.digest.0.len(), 64);
}

#[test]
fn what_is_no_action_says_what_it_is() {
    let check = |bytes: &[u8], expected: &str| {
        let message = refusal(bytes);
        assert!(message.contains(expected), "{message}");
    };
    check(b"", "not WebAssembly");
    check(
        b"(module)",
        "not WebAssembly: a component begins with the bytes `\\0asm`, this with `(module)`",
    );
    check(
        &component("(module)"),
        "a core WebAssembly module, not a component",
    );
    check(b"\0asm", "has the version ``");
    check(b"\0asm\x0a\0\x01\0", "has the version `0a000100`");
    check(b"\0asm\x0d\0\x01\0\xff\xff", "the component is not valid");
    check(
        &component("(component)"),
        "does not export `strata:action/handler@0.2.0`, so it is not an action (it exports nothing)",
    );
    let cli = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (instance $x (export "run" (func $f)))
        (export "wasi:cli/run@0.2.0" (instance $x)))"#;
    check(&component(cli), "(it exports `wasi:cli/run@0.2.0`)");
    let newer = cli.replace("wasi:cli/run@0.2.0", "strata:action/handler@0.3.0");
    check(
        &component(&newer),
        "exports `strata:action/handler@0.3.0`, this host calls `strata:action/handler@0.2.0`",
    );
    let empty = cli.replace("wasi:cli/run@0.2.0", "strata:action/handler@0.2.0");
    check(
        &component(&empty),
        "`strata:action/handler@0.2.0` lacks `describe` or `run`",
    );
}

#[test]
fn what_would_keep_the_compiler_busy_is_refused_before_it_sees_it() {
    let within = |guest: &[u8], limits: Limits| {
        let loaded = SANDBOX.load_within(guest, Metering::Plain, &limits);
        loaded.expect_err("it does not load").to_string()
    };
    let guest = Guest::default().build();
    let small = Limits {
        component_bytes: 1 << 10,
        ..Limits::default()
    };
    assert!(within(&guest, small).ends_with("KiB, its limit is 1 KiB"));
    let body = "(drop (v128.const i64x2 0 0))".repeat(60_000);
    let guest = Guest {
        items: &format!("(func {body})"),
        ..Guest::default()
    }
    .build();
    let message = within(&guest, Limits::default());
    assert!(
        message.starts_with("a function of the component has 1.")
            && message.contains("takes 1 MiB"),
        "{message}"
    );
    // An abandoned compilation does not affect others.
    let functions = "(func (result i32) (i32.const 1))".repeat(2_000);
    let guest = Guest {
        items: &functions,
        ..Guest::default()
    }
    .build();
    let hasty = Limits {
        compile: Duration::from_millis(1),
        ..Limits::default()
    };
    assert_eq!(
        within(&guest, hasty),
        "the component is not compiled within its limit of 1ms"
    );
    assert!(
        SANDBOX
            .load(&Guest::default().build(), Metering::Plain)
            .is_ok()
    );
    assert!(SANDBOX.load(&guest, Metering::Plain).is_ok());
}

#[test]
fn what_no_compiler_needs_of_webassembly_is_refused() {
    let load = |module: &str| {
        let bytes = component(&format!("(component (core module {module}))"));
        SANDBOX
            .load_without_handler(digest_of(&bytes), &bytes, Metering::Plain, &limits())
            .map_err(|error| error.to_string())
    };
    let check = |module: &str, expected: &str| {
        let message = load(module).expect_err(module);
        assert!(
            message.contains("not valid") && message.contains(expected),
            "{module}: {message}"
        );
    };
    check("(memory i64 1)", "memory64");
    // A growth that was too large was reported as failed, which used to release memory that had
    // been granted.
    check("(table i64 1 funcref)", "memory64");
    check("(memory 1 1 shared)", "threads");
    check("(tag)", "exceptions");
    check("(type (struct))", "gc");
    check(
        "(type $f (func)) (func (param (ref null $f)))",
        "function references",
    );
    let needed = "(memory 1) (memory 1) (table 1 funcref) (func (result i32 v128) (i32.const 1) (v128.const i64x2 0 0))
        (func (return_call 0)) (func (drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0))))
        (global i32 (i32.add (i32.const 1) (i32.const 1))) (func (memory.fill (i32.const 0) (i32.const 0) (i32.const 0)))";
    load(&needed.replace(
        "(func (return_call 0))",
        "(func $t) (func (return_call $t))",
    ))
    .expect("it is needed");
}

#[test]
fn functions_of_other_types_do_not_load() {
    let guest = |exports: &str| {
        component(&format!(
            r#"(component
            (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (instance $x (export "describe" (func $f)) (export "run" (func $f)))
            {exports}
            (export "strata:action/handler@0.2.0" (instance $x)))"#
        ))
    };
    let message = refusal(&guest(""));
    assert!(
        message.starts_with("the component's functions do not have the types of"),
        "{message}"
    );
}

#[test]
fn imports_that_the_host_does_not_have_are_named() {
    let check = |import: &str, expected: &str| {
        let text = format!(
            r#"(component
            (import "{import}" (instance (export "f" (func))))
            (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (instance $x (export "describe" (func $f)) (export "run" (func $f)))
            (export "strata:action/handler@0.2.0" (instance $x)))"#
        );
        let message = refusal(&component(&text));
        assert!(message.contains(expected), "{message}");
    };
    check(
        "foo:bar/baz@1.0.0",
        "imports `foo:bar/baz@1.0.0`, which this host does not have",
    );
    check(
        "strata:action/state@0.3.0",
        "imports `strata:action/state@0.3.0`, which this host does not have",
    );
    check(
        "strata:action/telepathy@0.2.0",
        "imports `strata:action/telepathy@0.2.0`, which",
    );
    check(
        "wasi:http/types@0.2.0",
        "imports `wasi:http/types@0.2.0`, which this host does not have",
    );
    check(
        "strata:action/state@0.2.0",
        "do not have the types of `strata:action/*@0.2.0`: ",
    );
}

#[test]
fn a_component_with_too_many_memories_is_refused() {
    let guest = Guest {
        items: "(memory $m0 0) (memory $m1 0) (memory $m2 0) (memory $m3 0) (memory $m4 0) (memory $m5 0)
            (memory $m6 0) (memory $m7 0)",
        ..Guest::default()
    };
    let message = refusal(&guest.build());
    assert!(
        message.contains("memories") && message.contains('9') && message.contains('8'),
        "{message}"
    );
}

#[test]
fn a_component_that_cannot_describe_itself_is_refused_with_what_it_left() {
    let guest = Guest {
        items: r#"(data (i32.const 4096) "no!")"#,
        describe: "(call $log (i32.const 3) (i32.const 4096) (i32.const 3)) unreachable",
        ..Guest::default()
    };
    let message = refusal(&guest.build());
    assert!(
        message.starts_with("the component fails to describe itself (trap): wasm `unreachable`"),
        "{message}"
    );
    assert!(message.contains("\n  at describe (guest+0x"), "{message}");
    assert!(message.ends_with("\n  log: no!"), "{message}");
}

#[test]
fn describing_itself_a_component_takes_no_more_than_its_own_limits() {
    let home = tempfile::tempdir().unwrap();
    let sandbox = WasmSandbox::caching_in(home.path()).unwrap();
    let check = |guest: &[u8], own: Limits, kind: &str| {
        let refused = sandbox
            .load_within(guest, Metering::Plain, &own)
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with(&format!("the component fails to describe itself ({kind})")),
            "{refused}"
        );
        // A failure for lack of memory is not cached.
        sandbox
            .load_within(guest, Metering::Plain, &limits())
            .expect("it has room");
    };
    let large = Guest {
        memory: "30",
        ..Guest::default()
    }
    .build();
    check(
        &large,
        Limits {
            memory_bytes: 1 << 20,
            ..limits()
        },
        "memory",
    );
    let many = Guest {
        items: "(table 2000 funcref)",
        ..Guest::default()
    }
    .build();
    check(
        &many,
        Limits {
            table_elements: 1000,
            ..limits()
        },
        "memory",
    );
    let spin = "(local $n i32) (loop $again (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $n) (i32.const 100000000)))) (i32.const 512)";
    let slow = Guest {
        describe: spin,
        ..Guest::default()
    }
    .build();
    check(
        &slow,
        Limits {
            cpu: Duration::from_nanos(1),
            ..limits()
        },
        "cpu",
    );
}

#[test]
fn while_it_describes_itself_a_component_is_denied_everything() {
    let guest = Guest {
        describe: "(call $random (i32.const 8) (i32.const 2048))
            (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
            (if (i32.load8_u (i32.const 2052)) (then unreachable))
            (call $emit (i32.const 640) (i32.const 5))
            (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
            (i32.const 512)",
        ..Guest::default()
    };
    SANDBOX.load(&guest.build(), Metering::Plain).unwrap();
}

#[test]
fn loading_works_inside_a_runtime_and_for_each_way_of_counting() {
    let guest = Guest::default().build();
    let sandbox = WasmSandbox::uncached().unwrap();
    block_on(async {
        let plain = sandbox.load(&guest, Metering::Plain).unwrap();
        let fuel = sandbox.load(&guest, Metering::Fuel).unwrap();
        assert_eq!(plain.digest, fuel.digest);
        assert_eq!(plain.manifest, fuel.manifest);
    });
}

#[test]
fn compiled_code_is_kept_and_damage_to_it_goes_unnoticed() {
    let home = tempfile::tempdir().unwrap();
    let guest = Guest::default().build();
    let load = || {
        let sandbox = WasmSandbox::caching_in(&home.path().join("compiled")).unwrap();
        let loaded = sandbox.load(&guest, Metering::Plain).unwrap();
        let call = call(&guest, plugin(limits()));
        assert!(block_on(sandbox.call(call, gateway())).result.is_ok());
        loaded.manifest
    };
    let kept = || {
        let files = fs::read_dir(home.path().join("compiled")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        // Skips the lock file.
        files.retain(|file| {
            !file
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("lock-")
        });
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    };
    let compiled = load();
    let code = fs::read(kept()).unwrap();
    assert_eq!(load(), compiled);
    for damaged in [&code[..code.len() / 2], b"", b"something else"] {
        fs::write(kept(), damaged).unwrap();
        assert_eq!(load(), compiled);
        assert_eq!(
            fs::read(kept()).unwrap().len(),
            code.len(),
            "it is kept anew"
        );
    }
}

//! Tests that results are the same on every machine: what WebAssembly leaves open is fixed. Fuel is
//! tested in `limits`, random numbers in `grants`.

use crate::driver::{limits, run_within};
use crate::guest::running;

/// Runs a guest that traps if it finds an unexpected value.
#[track_caller]
fn check(what: &str, body: &str) {
    // The operands are read from memory, so that the compiler cannot fold them.
    let guest = running(&format!("{body} (call $ok (i32.const 640) (i32.const 5))"));
    let ended = run_within(limits(), &guest);
    assert!(ended.result.is_ok(), "{what}: {:?}", ended.result);
}

#[test]
fn what_is_not_a_number_has_one_form() {
    let zero = "(f32.load (i32.const 8192))";
    let odd = "(f32.reinterpret_i32 (i32.or (i32.load (i32.const 8192)) (i32.const 0xffa00001)))";
    let cases = [
        ("0/0", format!("(f32.div {zero} {zero})")),
        (
            "the root of -1",
            format!("(f32.sqrt (f32.sub {zero} (f32.const 1)))"),
        ),
        (
            "a sum with one of another form",
            format!("(f32.add {odd} (f32.const 1))"),
        ),
        (
            "the least of one of another form",
            format!("(f32.min {zero} {odd})"),
        ),
    ];
    for (what, value) in cases {
        let odd = format!("(i32.ne (i32.reinterpret_f32 {value}) (i32.const 0x7fc00000))");
        check(what, &format!("(if {odd} (then unreachable))"));
    }
}

#[test]
fn relaxed_vector_instructions_give_what_the_strict_ones_do() {
    let zero = "(f32.load (i32.const 8192))";
    let cases = [
        ("not a number", format!("(f32.div {zero} {zero})"), 0),
        (
            "too large",
            format!("(f32.add {zero} (f32.const 3e9))"),
            i32::MAX,
        ),
        (
            "too small",
            format!("(f32.sub {zero} (f32.const 3e9))"),
            i32::MIN,
        ),
    ];
    for (what, value, expected) in cases {
        let lane =
            format!("(i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (f32x4.splat {value})))");
        check(
            what,
            &format!("(if (i32.ne {lane} (i32.const {expected})) (then unreachable))"),
        );
    }
}

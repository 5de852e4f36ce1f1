//! The entry point for coverage-guided fuzzing of one target. An environment variable names it,
//! because libFuzzer uses the arguments.

#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_fuzz::Taker;

thread_local! {
    static TAKER: Taker = {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
        let target = strata_fuzz::target(&name).unwrap_or_else(|| panic!("there is no target `{name}`"));
        (target.start)()
    };
}

fuzz_target!(|bytes: &[u8]| TAKER.with(|taker| taker(bytes)));

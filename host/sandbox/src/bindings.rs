//! The code that is generated from the WIT packages.

pub(super) use generated::VersatileAction;
pub(super) use generated::exports::strata::action::{handler, thinker};
// All interfaces that actions can import, so that nothing changes here when one is added.
pub(super) use generated::strata::action::*;

pub(super) use interpreter::strata::interpreter::script;

// The parameters and results of the exported functions as the WIT defines them.
pub(super) type ActParams<'a> = (&'a types::Attempt, &'a types::Input);
pub(super) type ChooseParams<'a> = (&'a types::Attempt, &'a thinker::Situation);
pub(super) type RunResult = (Result<types::Output, types::Failure>,);
pub(super) type PlanResult = (Result<Vec<types::Task>, types::Failure>,);
pub(super) type ChooseResult = (Result<i32, types::Failure>,);
pub(super) type DescribeResult = (handler::Manifest,);

mod interpreter {
    #![allow(missing_docs, reason = "generated; the WIT is its documentation")]

    wasmtime::component::bindgen!({
        path: ["../../wit", "../../guest-sdk/interpreter/script.wit"],
        world: "strata:interpreter/script-host",
        imports: { default: trappable },
    });
}

mod generated {
    #![allow(missing_docs, reason = "generated; the WIT is its documentation")]

    // Functions that only touch the attempt's own buffers are not async, which saves a fiber
    // switch.
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "versatile-action",
        imports: {
            "strata:action/log": trappable,
            "strata:action/environment": trappable,
            "strata:action/env": trappable,
            "strata:action/secrets": trappable,
            default: async | trappable,
        },
        exports: { default: async },
    });
}

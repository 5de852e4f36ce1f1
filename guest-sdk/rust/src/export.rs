//! Converts between the types of the component's exports and the author's types, and defines the
//! macro that exports them.
//!
//! Only [`action!`](crate::action!) uses this module; its items are public because the macro needs
//! them.

use crate::bindings::exports::strata::action as exports;
use crate::bindings::strata::action::types;
use crate::log::{self, Level};
use crate::{
    Action, Candidate, Choice, Context, Failure, Output, Planner, Situation, Task, Thinker, json,
};
use std::panic::PanicHookInfo;

pub use crate::bindings::worlds;
pub use exports::{handler, planner, thinker};
pub use types::{Attempt, Input};

/// Returns the component's manifest. The name, version and description are those of its crate.
pub fn describe<A: Action>(name: &str, version: &str, description: &str) -> handler::Manifest {
    handler::Manifest {
        name: name.to_owned(),
        version: version.to_owned(),
        description: description.to_owned(),
        config_schema: A::config_schema(),
        input_schema: A::input_schema(),
        output_schema: A::output_schema(),
        needs: A::NEEDS.iter().map(|need| (*need).to_owned()).collect(),
    }
}

/// Runs an action.
///
/// # Errors
/// Returns the action's failure, or a failure if its config or data cannot be converted.
pub fn run<A: Action>(attempt: Attempt, input: Input) -> Result<types::Output, Failure> {
    report_panics();
    let Output {
        content,
        data,
        parts,
        to,
        route,
    } = A::run(&context(attempt, input)?)?;
    Ok(types::Output {
        content,
        data: json::write_data(data)?,
        parts,
        to,
        route,
    })
}

/// Runs a planner.
///
/// # Errors
/// Returns the planner's failure, or a failure if its config cannot be converted.
pub fn plan<P: Planner>(attempt: Attempt, input: Input) -> Result<Vec<Task>, Failure> {
    report_panics();
    P::plan(&context(attempt, input)?)
}

/// Runs a thinker. Returns the index of the chosen action, or -1 to end the activation.
///
/// # Errors
/// Returns the thinker's failure, or a failure if its config cannot be converted.
pub fn choose<T: Thinker>(attempt: Attempt, situation: thinker::Situation) -> Result<i32, Failure> {
    report_panics();
    let candidates = situation.candidates.into_iter();
    let situation = Situation {
        attempt,
        role: situation.role,
        config: json::parse_config(&situation.config)?,
        round: situation.round,
        candidates: candidates
            .map(|thinker::Candidate { name, description }| Candidate { name, description })
            .collect(),
        news: situation.news,
        outputs: situation.outputs,
    };
    match T::choose(&situation)? {
        Choice::End => Ok(-1),
        Choice::Run(index) => i32::try_from(index)
            .map_err(|_| Failure::error(format!("choosing action `{index}`: no role has as many"))),
    }
}

fn context<C: serde::de::DeserializeOwned>(
    attempt: Attempt,
    input: Input,
) -> Result<Context<C>, Failure> {
    Ok(Context {
        attempt,
        role: input.role,
        action: input.action,
        index: input.index,
        config: json::parse_config(&input.config)?,
        news: input.news,
        outputs: input.outputs,
        task: input.task,
        raw_arguments: input.arguments,
    })
}

/// Logs panics, each on one line. A panic ends in a trap, which has no message.
fn report_panics() {
    if cfg!(target_arch = "wasm32") {
        std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
            let text = info.to_string();
            log::write(Level::Error, &text.replace(":\n", ": ").replace('\n', " "));
        }));
    }
}

/// Exports an action from the component, and with it a thinker, a planner or both.
///
/// ```
/// # use strata_action::*;
/// # struct Act; struct Think; struct Plan;
/// # impl Action for Act {
/// #     type Config = (); type Data = ();
/// #     fn run(_: &Context<()>) -> Result<Output, Failure> { Ok(Output::new("")) }
/// # }
/// # impl Thinker for Think {
/// #     type Config = ();
/// #     fn choose(_: &Situation<()>) -> Result<Choice, Failure> { Ok(Choice::End) }
/// # }
/// # impl Planner for Plan {
/// #     type Config = ();
/// #     fn plan(_: &Context<()>) -> Result<Vec<Task>, Failure> { Ok(Vec::new()) }
/// # }
/// action!(Act, thinker = Think, planner = Plan);
/// ```
///
/// It can be used once in a crate, and does nothing outside of WebAssembly.
#[macro_export]
macro_rules! action {
    ($action:ty) => {
        $crate::__component!(ACTION, handler = $action);
    };
    ($action:ty, thinker = $thinker:ty) => {
        $crate::__component!(THINKING_ACTION, handler = $action, thinker = $thinker);
    };
    ($action:ty, planner = $planner:ty) => {
        $crate::__component!(PLANNING_ACTION, handler = $action, planner = $planner);
    };
    ($action:ty, thinker = $thinker:ty, planner = $planner:ty) => {
        $crate::__component!(
            VERSATILE_ACTION,
            handler = $action,
            thinker = $thinker,
            planner = $planner
        );
    };
}

/// Defines the exports of a component and, in a custom section, the world they belong to.
#[doc(hidden)]
#[macro_export]
macro_rules! __component {
    ($world:ident, $($interface:ident = $implementation:ty),+) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        const _: () = {
            struct Component;
            $($crate::__interface!(Component, $interface, $implementation);)+
            #[unsafe(link_section = "component-type:strata-action")]
            static WORLD: [u8; $crate::export::worlds::$world.len()] = $crate::export::worlds::$world;
        };
    };
}

/// Defines the exports of one interface.
#[doc(hidden)]
#[macro_export]
macro_rules! __interface {
    ($component:ident, handler, $action:ty) => {
        impl $crate::export::handler::Guest for $component {
            fn describe() -> $crate::export::handler::Manifest {
                $crate::export::describe::<$action>(
                    env!("CARGO_PKG_NAME"),
                    env!("CARGO_PKG_VERSION"),
                    env!("CARGO_PKG_DESCRIPTION"),
                )
            }
            fn run(
                attempt: $crate::export::Attempt,
                input: $crate::export::Input,
            ) -> Result<$crate::export::handler::Output, $crate::Failure> {
                $crate::export::run::<$action>(attempt, input)
            }
        }
        $crate::export::handler::__export_strata_action_handler_0_2_0_cabi!(
            $component with_types_in $crate::export::handler
        );
    };
    ($component:ident, thinker, $thinker:ty) => {
        impl $crate::export::thinker::Guest for $component {
            fn choose(
                attempt: $crate::export::Attempt,
                situation: $crate::export::thinker::Situation,
            ) -> Result<i32, $crate::Failure> {
                $crate::export::choose::<$thinker>(attempt, situation)
            }
        }
        $crate::export::thinker::__export_strata_action_thinker_0_2_0_cabi!(
            $component with_types_in $crate::export::thinker
        );
    };
    ($component:ident, planner, $planner:ty) => {
        impl $crate::export::planner::Guest for $component {
            fn plan(
                attempt: $crate::export::Attempt,
                input: $crate::export::Input,
            ) -> Result<Vec<$crate::Task>, $crate::Failure> {
                $crate::export::plan::<$planner>(attempt, input)
            }
        }
        $crate::export::planner::__export_strata_action_planner_0_2_0_cabi!(
            $component with_types_in $crate::export::planner
        );
    };
}

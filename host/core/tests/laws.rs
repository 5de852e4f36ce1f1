//! The laws of the core: property tests over simulated runs of random teams.
//!
//! Tools: `teams` generates a team, `script` decides what its actions return, `lifecycle` drives a
//! run through kills, stops, messages from outside and changes of the team, with
//! decisions from `rng`; `state_view` is the part of a state that is compared; `manual_run` drives
//! a run step by step.
//!
//! The laws: what is recorded (`replay`, `illegal_events`, with events from `forged_events`), order
//! and privacy (`order`), who receives what (`routing`), the cost of conditions (`conditions`),
//! joins (`joins`), shared state (`scopes`), requests to humans (`human_requests`), how runs end
//! (`termination`), crashes and resumes (`recovery`), going back (`lineages`), roles that work with
//! tools (`tool_roles`), whose code calls tools (`nested_calls`), what of a conversation is replaced
//! (`memory_plan`), and everything at once (`simulation`).
//!
//! Examples: the react modes (`react_modes`), roles as tools (`role_calls`), guards that see their results
//! (`reviewed_results`), joins (`fan_in`), files (`files`), budgets
//! (`budgets`), attempts (`attempts`), calls in doubt (`writes_in_doubt`), errors of the past
//! (`regressions`), shapes and idempotency keys (`shapes`).

#[path = "laws/forged_events.rs"]
mod forged_events;
#[path = "laws/lifecycle.rs"]
mod lifecycle;
#[path = "laws/manual_run.rs"]
mod manual_run;
#[path = "laws/rng.rs"]
mod rng;
#[path = "laws/script.rs"]
mod script;
#[path = "laws/state_view.rs"]
mod state_view;
#[path = "laws/teams.rs"]
mod teams;

#[path = "laws/attempts.rs"]
mod attempts;
#[path = "laws/budgets.rs"]
mod budgets;
#[path = "laws/call_limits.rs"]
mod call_limits;
#[path = "laws/conditions.rs"]
mod conditions;
#[path = "laws/consent.rs"]
mod consent;
#[path = "laws/fan_in.rs"]
mod fan_in;
#[path = "laws/files.rs"]
mod files;
#[path = "laws/human_requests.rs"]
mod human_requests;
#[path = "laws/illegal_events.rs"]
mod illegal_events;
#[path = "laws/joins.rs"]
mod joins;
#[path = "laws/kept_bytes.rs"]
mod kept_bytes;
#[path = "laws/lineages.rs"]
mod lineages;
#[path = "laws/memory_plan.rs"]
mod memory_plan;
#[path = "laws/nested_calls.rs"]
mod nested_calls;
#[path = "laws/order.rs"]
mod order;
#[path = "laws/react_modes.rs"]
mod react_modes;
#[path = "laws/recorded_replies.rs"]
mod recorded_replies;
#[path = "laws/recovery.rs"]
mod recovery;
#[path = "laws/regressions.rs"]
mod regressions;
#[path = "laws/replay.rs"]
mod replay;
#[path = "laws/request_ids.rs"]
mod request_ids;
#[path = "laws/reviewed_results.rs"]
mod reviewed_results;
#[path = "laws/revised_calls.rs"]
mod revised_calls;
#[path = "laws/role_calls.rs"]
mod role_calls;
#[path = "laws/routing.rs"]
mod routing;
#[path = "laws/scopes.rs"]
mod scopes;
#[path = "laws/shapes.rs"]
mod shapes;
#[path = "laws/simulation.rs"]
mod simulation;
#[path = "laws/termination.rs"]
mod termination;
#[path = "laws/tool_roles.rs"]
mod tool_roles;
#[path = "laws/writes_in_doubt.rs"]
mod writes_in_doubt;

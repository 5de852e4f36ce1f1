//! One attempt, from a fresh store to its end. `component` loads components, `limits` defines what
//! an attempt may use, `fault` describes failures.

use std::pin::pin;
use std::sync::Arc;

use strata_core::fault::{Fault, FaultKind};
use strata_core::message::Draft;
use wasmtime::Store;

use super::bindings::{thinker, types};
use super::component::{Ready, ScriptFile};
use super::ctx::Ctx;
use super::{Call, Ended, Entry, Returned, Usage, Value, convert, fault, plain};
use crate::blob::Blobs;
use crate::gateway::Gateway;
use crate::plugin::Grants;

// The parameters and results of the exported functions as the WIT defines them.
pub(super) type Acting<'a> = (&'a types::Attempt, &'a types::Input);
pub(super) type Choosing<'a> = (&'a types::Attempt, &'a thinker::Situation);
pub(super) type Run = (Result<types::Output, types::Failure>,);
pub(super) type Plan = (Result<Vec<types::Task>, types::Failure>,);
pub(super) type Choose = (Result<i32, types::Failure>,);

/// Runs an attempt. It ends within its limits whatever the guest does. `script` is what the
/// component interprets, if it is an interpreter.
pub(super) async fn run(
    ready: &Ready,
    script: Option<&ScriptFile>,
    call: Call,
    gateway: Gateway,
) -> Ended {
    let mut ctx = Ctx::new(&call, gateway);
    if ready.uses_wasi() {
        match tokio::time::timeout_at(ctx.meter.deadline(), ctx.capabilities.files.stage()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return ended(Err(fault::of_files(why, &ctx)), &ctx),
            Err(_) => return ended(Err(fault::of_staging(&ctx)), &ctx),
        }
        let dirs = ctx.capabilities.files.dirs();
        ctx.add_wasi(
            &Grants {
                dirs,
                ..call.plugin.grants.clone()
            },
            &call.seed,
        );
    }
    // Pinned in place: a future that is moved into another becomes part of it, and would be copied
    // by each function on the way.
    let overflow = pin!(ctx.capabilities.files.overflow());
    let mut store = store(ready, ctx);
    let meter = Arc::clone(&store.data().meter);
    let result = {
        let attempt = pin!(tokio::time::timeout_at(
            meter.deadline(),
            execute(&mut store, ready, &call)
        ));
        let attempt = async move {
            tokio::select! {
                biased;
                ended = attempt => Ok(ended),
                why = overflow => Err(why),
            }
        };
        meter.measure(attempt).await
    };
    let ctx = store.data_mut();
    ctx.capabilities.flush();
    let result = match result {
        Err(why) => Err(fault::of_files(why, ctx)),
        Ok(result) => finished(result, &call, ctx).await,
    };
    ctx.capabilities.files.let_go().await;
    let mut ended = ended(result, ctx);
    if let (Some(script), Err(fault)) = (script, &mut ended.result) {
        script.locate(fault, ctx.script_line);
    }
    ended
}

/// Builds the result of the attempt.
async fn finished(
    result: Result<wasmtime::Result<Result<Given, Fault>>, tokio::time::error::Elapsed>,
    call: &Call,
    ctx: &mut Ctx,
) -> Result<Returned, Fault> {
    let output = match result {
        Ok(Ok(output)) => output?,
        Ok(Err(error)) => return Err(fault::of_error(&error, ctx)),
        Err(_) => return Err(fault::of_error(&ctx.meter.timed_out(None).into(), ctx)),
    };
    let returned = returned(output, call, ctx)?;
    if matches!(returned.value, Value::Choice(_)) {
        // A choice has no effects, whatever the guest wrote.
        return Ok(returned);
    }
    let (files, blobs) = ctx
        .capabilities
        .files
        .finish()
        .await
        .map_err(|why| fault::of_files(why, ctx))?;
    Ok(Returned {
        files,
        blobs,
        ..returned
    })
}

fn ended(result: Result<Returned, Fault>, ctx: &Ctx) -> Ended {
    let cpu_us = u64::try_from(ctx.meter.spent().as_micros()).unwrap_or(u64::MAX);
    let usage = Usage {
        cpu_us,
        peak_memory_bytes: ctx.memory.peak(),
        host_calls: ctx.calls(),
    };
    Ended { result, usage }
}

/// Creates a store with all limits set.
pub(super) fn store(ready: &Ready, mut ctx: Ctx) -> Store<Ctx> {
    ctx.sources = Arc::clone(ready.sources());
    let fuel = ctx.limits.fuel;
    let transfer_bytes = fault::transfer_bytes(ctx.limits.memory_bytes);
    let mut store = Store::new(ready.engine(), ctx);
    store.limiter(|ctx| &mut ctx.memory);
    store.set_hostcall_fuel(transfer_bytes);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| Ok(context.data().meter.tick()?));
    if let Some(fuel) = fuel {
        // Fails only if the engine does not count fuel, which means that the component was loaded
        // without it.
        store
            .set_fuel(fuel)
            .expect("a call with a fuel limit uses a component loaded for it");
    }
    store
}

/// What the guest returned, not yet validated.
enum Given {
    Output(types::Output),
    /// Returned by a function of a foreign component.
    Made(Draft),
    Tasks(Vec<types::Task>),
    Choice(i32),
}

/// Instantiates the component and calls it. The inner error is the guest's own failure.
async fn execute(
    store: &mut Store<Ctx>,
    ready: &Ready,
    call: &Call,
) -> wasmtime::Result<Result<Given, Fault>> {
    let instance = ready.instantiate(&mut *store).await?;
    let attempt = convert::attempt(call);
    let output = match &call.entry {
        Entry::Run { .. } if let Some(function) = &call.plugin.function => {
            plain::call(&mut *store, &instance, ready.functions(), function, call)
                .await?
                .map(Given::Made)
        }
        Entry::Run {
            action,
            index,
            task,
        } => {
            let input = convert::input(call, action, *index, task.as_ref());
            let Some(run) = ready.run() else {
                return Ok(Err(lacks("handler")));
            };
            let run = instance.get_typed_func::<Acting<'_>, Run>(&mut *store, run)?;
            let (result,) = run.call_async(&mut *store, (&attempt, &input)).await?;
            result.map(Given::Output)
        }
        Entry::Plan { action, index } => {
            let Some(plan) = ready.plan() else {
                return Ok(Err(lacks("planner")));
            };
            let input = convert::input(call, action, *index, None);
            let plan = instance.get_typed_func::<Acting<'_>, Plan>(&mut *store, plan)?;
            let (result,) = plan.call_async(&mut *store, (&attempt, &input)).await?;
            result.map(Given::Tasks)
        }
        Entry::Choose { round, candidates } => {
            let Some(choose) = ready.choose() else {
                return Ok(Err(lacks("thinker")));
            };
            let situation = convert::situation(call, *round, candidates);
            let choose = instance.get_typed_func::<Choosing<'_>, Choose>(&mut *store, choose)?;
            let (result,) = choose
                .call_async(&mut *store, (&attempt, &situation))
                .await?;
            result.map(Given::Choice)
        }
    };
    Ok(output.map_err(|failure| fault::of_failure(failure, store.data())))
}

fn lacks(interface: &str) -> Fault {
    Fault::new(
        FaultKind::Error,
        format!("the component does not export `{interface}`"),
    )
}

/// Validates what the guest returned and adds its effects.
fn returned(output: Given, call: &Call, ctx: &mut Ctx) -> Result<Returned, Fault> {
    let value = match output {
        Given::Choice(index) => Value::Choice(index),
        Given::Tasks(tasks) => {
            let tasks = convert::tasks(tasks);
            let counted = ctx.count_output("the plan", convert::tasks_bytes(&tasks));
            counted.map_err(|stop| fault::of_error(&stop.into(), ctx))?;
            Value::Tasks(tasks)
        }
        Given::Output(output) => {
            let draft = convert::output(output).map_err(|error| {
                fault::of_output(format!("the output's `data` is {error}"), ctx)
            })?;
            Value::Output(fitting(draft, call, ctx)?)
        }
        Given::Made(draft) => Value::Output(fitting(draft, call, ctx)?),
    };
    let (emissions, writes) = ctx.take_effects();
    Ok(Returned {
        value,
        emissions,
        writes,
        files: Vec::new(),
        blobs: Blobs::new(),
    })
}

/// Returns the output if it is within its limit and matches its schema.
fn fitting(draft: Draft, call: &Call, ctx: &mut Ctx) -> Result<Draft, Fault> {
    let counted = ctx.count_output("the output", convert::draft_bytes(&draft));
    counted.map_err(|stop| fault::of_error(&stop.into(), ctx))?;
    fits_schema(&draft, call).map_err(|message| fault::of_output(message, ctx))?;
    Ok(draft)
}

fn fits_schema(draft: &Draft, call: &Call) -> Result<(), String> {
    let Some(schema) = &call.plugin.output_schema else {
        return Ok(());
    };
    let Some(data) = &draft.data else {
        return Err("the output has no `data`, and `output_schema` asks for it".into());
    };
    schema
        .check(&data.value())
        .map_err(|why| format!("the output's `data` breaks `output_schema`: {why}"))
}

//! One attempt, from a fresh store to its end. `component` loads components, `limits` defines what
//! an attempt may use, `fault` describes failures.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;

use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_services::gateway::Gateway;
use strata_services::models::read_answer;
use strata_services::plugin::CompiledSchema;
use wasmtime::Store;

use super::bindings::types;
use super::capability::wasi;
use super::component::{LinkedComponent, LoadedScript};
use super::ctx::Ctx;
use super::media::bytes_from_guest;
use super::{
    AttemptNotes, AttemptOutput, EntryPoint, ResourceUsage, ReturnValue, SandboxCall,
    SandboxOutcome, convert, fault, foreign_component,
};

/// Runs an attempt. It ends within its limits whatever the guest does. `script` is what the
/// component interprets, if it is an interpreter.
pub(super) async fn run(
    ready: &LinkedComponent,
    script: Option<&LoadedScript>,
    call: SandboxCall,
    gateway: Gateway,
) -> SandboxOutcome {
    let mut ctx = Ctx::new(&call, gateway);
    let config = match script {
        None => Cow::from(call.plugin.config.as_str()),
        Some(script) => match script.interpreter_config(&call) {
            Ok(config) => Cow::from(config),
            Err(fault) => return attempt_outcome(Err(fault), &ctx),
        },
    };
    if ready.uses_wasi() {
        match tokio::time::timeout_at(ctx.meter.deadline(), ctx.capabilities.files.stage()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return attempt_outcome(Err(fault::from_files_fault(why, &ctx)), &ctx),
            Err(_) => return attempt_outcome(Err(fault::staging_timeout(&ctx)), &ctx),
        }
        wasi::add_to_attempt(&mut ctx, &call.seed);
    }
    // Pinned in place: a future that is moved into another becomes part of it, and would be copied
    // by each function on the way.
    let overflow = pin!(ctx.capabilities.files.wait_for_overflow());
    let mut store = new_store(ready, ctx);
    let meter = Arc::clone(&store.data().meter);
    let result = {
        let attempt = pin!(tokio::time::timeout_at(
            meter.deadline(),
            execute(&mut store, ready, &call, &config)
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
        Err(why) => Err(fault::from_files_fault(why, ctx)),
        Ok(result) => attempt_result(result, &call, ctx).await,
    };
    ctx.capabilities.files.discard_staged().await;
    let mut ended = attempt_outcome(result, ctx);
    if let (Some(script), Err(fault)) = (script, &mut ended.result) {
        script.file().replace_backtrace(fault, ctx.script_line);
    }
    ended
}

/// Builds the result of the attempt.
async fn attempt_result(
    result: Result<wasmtime::Result<Result<GuestOutput, Fault>>, tokio::time::error::Elapsed>,
    call: &SandboxCall,
    ctx: &mut Ctx,
) -> Result<AttemptOutput, Fault> {
    let output = match result {
        Ok(Ok(output)) => output?,
        Ok(Err(error)) => return Err(fault::from_error(&error, ctx)),
        Err(_) => {
            return Err(fault::from_error(
                &ctx.meter.timeout_error(None).into(),
                ctx,
            ));
        }
    };
    let returned = validate_output(output, call, ctx)?;
    if matches!(returned.value, ReturnValue::Choice(_)) {
        // A choice has no effects, whatever the guest wrote.
        return Ok(returned);
    }
    let (files, mut blobs) = ctx
        .capabilities
        .files
        .take_all_changes()
        .await
        .map_err(|why| fault::from_files_fault(why, ctx))?;
    blobs.extend(returned.blobs);
    Ok(AttemptOutput {
        files,
        blobs,
        ..returned
    })
}

fn attempt_outcome(result: Result<AttemptOutput, Fault>, ctx: &Ctx) -> SandboxOutcome {
    let cpu_us = u64::try_from(ctx.meter.cpu_time().as_micros()).unwrap_or(u64::MAX);
    let usage = ResourceUsage {
        cpu_us,
        peak_memory_bytes: ctx.memory.peak(),
        host_calls: ctx.calls(),
    };
    let notes = AttemptNotes {
        logged: ctx.log().recorded(),
        denied_lookups: ctx.denied_lookups.paths().to_vec(),
    };
    SandboxOutcome {
        result,
        usage,
        notes,
    }
}

/// Creates a store with all limits set.
pub(super) fn new_store(ready: &LinkedComponent, mut ctx: Ctx) -> Store<Ctx> {
    ctx.sources = Arc::clone(ready.sources());
    ctx.tick_guard = Some(ready.tick_guard());
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
pub(super) enum GuestOutput {
    Output(types::Output),
    /// Returned by a function of a foreign component.
    Foreign(Draft),
    Tasks(Vec<types::Task>),
    Choice(i32),
}

/// Instantiates the component and calls it with this configuration. The inner error is the guest's
/// own failure.
pub(super) async fn execute(
    store: &mut Store<Ctx>,
    ready: &LinkedComponent,
    call: &SandboxCall,
    config: &str,
) -> wasmtime::Result<Result<GuestOutput, Fault>> {
    let instance = ready.instantiate(&mut *store).await?;
    let attempt = convert::attempt(call, store.data().meter.deadline_unix_ms());
    let output = match &call.entry {
        EntryPoint::Run { .. } if let Some(function) = &call.plugin.function => {
            foreign_component::call(&mut *store, &instance, ready.functions(), function, call)
                .await?
                .map(GuestOutput::Foreign)
        }
        EntryPoint::Run { action, index, .. } => {
            let input = convert::input(call, config, action, *index);
            let Some(run) = ready.run(&mut *store, &instance)? else {
                return Ok(Err(missing_export("handler")));
            };
            let (result,) = run.call_async(&mut *store, (&attempt, &input)).await?;
            result.map(GuestOutput::Output)
        }
        EntryPoint::Plan { action, index } => {
            let Some(plan) = ready.plan(&mut *store, &instance)? else {
                return Ok(Err(missing_export("planner")));
            };
            let input = convert::input(call, config, action, *index);
            let (result,) = plan.call_async(&mut *store, (&attempt, &input)).await?;
            result.map(GuestOutput::Tasks)
        }
        EntryPoint::Choose { round, candidates } => {
            let Some(choose) = ready.choose(&mut *store, &instance)? else {
                return Ok(Err(missing_export("thinker")));
            };
            let situation = convert::situation(call, config, *round, candidates);
            let (result,) = choose
                .call_async(&mut *store, (&attempt, &situation))
                .await?;
            result.map(GuestOutput::Choice)
        }
    };
    Ok(output.map_err(|failure| fault::from_guest_failure(failure, store.data())))
}

fn missing_export(interface: &str) -> Fault {
    Fault::new(
        FaultKind::Error,
        format!("the component does not export `{interface}`"),
    )
}

/// Validates what the guest returned and adds its effects.
fn validate_output(
    output: GuestOutput,
    call: &SandboxCall,
    ctx: &mut Ctx,
) -> Result<AttemptOutput, Fault> {
    let value = match output {
        GuestOutput::Choice(index) => ReturnValue::Choice(index),
        GuestOutput::Tasks(tasks) => {
            let tasks = convert::tasks(tasks);
            let counted = ctx.count_output("the plan", convert::tasks_bytes(&tasks));
            counted.map_err(|stop| fault::from_error(&stop.into(), ctx))?;
            ReturnValue::Tasks(tasks)
        }
        GuestOutput::Output(output) => {
            let counted = ctx.count_output("the output", bytes_from_guest(&output.parts));
            counted.map_err(|stop| fault::from_error(&stop.into(), ctx))?;
            let draft = convert::output(output, &mut ctx.media)
                .map_err(|error| fault::invalid_output(format!("the output's {error}"), ctx))?;
            ReturnValue::Output(check_output(draft, call, ctx)?)
        }
        GuestOutput::Foreign(draft) => ReturnValue::Output(check_output(draft, call, ctx)?),
    };
    let (emissions, writes) = ctx.take_effects();
    let output = match &value {
        ReturnValue::Output(draft) => Some(draft),
        ReturnValue::Tasks(_) | ReturnValue::Choice(_) => None,
    };
    let blobs = ctx.media.created_in(output.into_iter().chain(&emissions));
    Ok(AttemptOutput {
        value,
        emissions,
        writes,
        files: Vec::new(),
        blobs,
        memory: ctx.memory_request.take(),
    })
}

/// Returns the output if it is within its limit and matches its schema.
fn check_output(draft: Draft, call: &SandboxCall, ctx: &mut Ctx) -> Result<Draft, Fault> {
    let counted = ctx.count_output("the output", convert::draft_bytes(&draft));
    counted.map_err(|stop| fault::from_error(&stop.into(), ctx))?;
    check_schema(&draft, call)
        .and_then(|()| read_as_answer(draft, call))
        .map_err(|message| fault::invalid_output(message, ctx))
}

fn check_schema(draft: &Draft, call: &SandboxCall) -> Result<(), String> {
    let Some(schema) = &call.plugin.output_schema else {
        return Ok(());
    };
    let Some(data) = &draft.data else {
        return Err("the output has no `data`, and `output_schema` asks for it".into());
    };
    check_data(schema, data, "`output_schema`")
}

/// Checks the data of an output against a schema that messages call by this name.
fn check_data(schema: &CompiledSchema, data: &Json, name: &str) -> Result<(), String> {
    schema
        .check(&data.value())
        .map_err(|why| format!("the output's `data` breaks {name}: {why}"))
}

/// Returns an output that may be the answer of its role. If that has to follow a schema, it is the
/// data; without data it is the content, as in a reply of a model, which then becomes the data.
fn read_as_answer(mut draft: Draft, call: &SandboxCall) -> Result<Draft, String> {
    let Some(schema) = &call.plugin.answer_schema else {
        return Ok(draft);
    };
    if let Some(data) = &draft.data {
        check_data(schema, data, "the role's `output_schema`")?;
        return Ok(draft);
    }
    let data = read_answer(schema, &draft.content);
    draft.data = Some(data.map_err(|why| {
        format!("the output breaks the role's `output_schema`, without `data`: {why}")
    })?);
    Ok(draft)
}

//! One action without a team. A team of one role is made for it, which is kept in memory: the driver,
//! the sandbox and the services are those of any run, and nothing is saved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::text::display_path::absolute_path;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, ToolCall};
use strata_core::record::event::Status;
use strata_core::record::host_call::FinishReason;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::turn::{
    CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ReplyMessage, ToolRef, TurnOutcome,
    TurnReply,
};
use strata_core::record::work::CallResult;
use strata_core::state::environment::Environment;
use strata_core::team::tools::{CallOrder, Summariser, Tool, ToolFaults, ToolLoop};
use strata_core::team::{React, RetryPolicy};
use strata_driver::{Driver, DriverError, Journal, LineListener, StopSignal};
use strata_manifest::Definition;
use strata_manifest::operator::OperatorPolicy;
use strata_sandbox::{ComponentManifest, HiddenStorage, WasmSandbox};
use strata_services::models::StreamObserverFactory;
use strata_services::plugin::CompiledSchema;
use strata_services::plugin::builtin::BuiltinComponent;
use strata_services::plugin::script::is_script;
use strata_storage::{Durability, FIRST_LINE, create_in_memory};

use strata_view::Provenance;

use super::attached_files::AttachedFiles;
use super::provenance::provenance_of;
use super::{Components, LaunchError, Notice, saved_definition};

/// The name of the team file that is made of the arguments, in messages.
const SOURCE_NAME: &str = "arguments of `try`";
/// The name of the role.
const ROLE_NAME: &str = "Try";
/// The name of an action whose component has no name that an action could have.
const ACTION_NAME: &str = "action";
/// The slot of the action.
const SLOT: Slot = Slot {
    role: RoleId(0),
    kind: SlotKind::Action(ActionId(0)),
};

/// An action to be run without a team.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// A component, a directory with the source of one, a script, a skill (`name@1.0.0`), or a built-in
    /// component (`builtin:probe`).
    pub component: String,
    /// The function to call, of a component that does not use the host's interfaces.
    pub function: Option<String>,
    /// The text of the message that the action receives.
    pub message: String,
    /// Images and files that belong to the message.
    pub files: Vec<PathBuf>,
    /// The arguments with which the action is called as a tool: a JSON object. `None` runs it as an
    /// ordinary action.
    pub arguments: Option<Json>,
    /// Its configuration.
    pub config: Option<Json>,
    /// Lines of `[role.action.allow]`.
    pub allow: Vec<String>,
    /// Lines of `[role.action.limits]`.
    pub limits: Vec<String>,
    /// Lines of `[llm]`.
    pub llm: Vec<String>,
    /// The policies of operators that apply.
    pub operators: Vec<OperatorPolicy>,
}

/// An action that is ready to run.
pub struct TrialRun {
    driver: Driver,
    provenance: Provenance,
}

impl TrialRun {
    /// Runs the action once, to its end.
    pub async fn run(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        match self.driver.run(stop).await? {
            // What the action sent to itself is not handled.
            Status::StepLimit => Ok(Status::Done),
            status => Ok(status),
        }
    }

    /// Registers an observer of the replies of models while they are written.
    pub fn observe(&mut self, factory: StreamObserverFactory) {
        self.driver.set_observer_factory(factory);
    }

    /// Returns the team of one role, and its state.
    pub fn stepper(&self) -> &Stepper {
        self.driver.journal().stepper()
    }

    /// Returns where the component comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }
}

/// Prepares a trial. `report` receives the slow operations that begin; `on_line` receives every
/// public event line.
pub fn prepare_trial(
    trial: &Trial,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<TrialRun, LaunchError> {
    let files = AttachedFiles::read(&trial.files)?;
    let mut definition = define(trial, report)?;
    let sandbox = WasmSandbox::one_shot()?;
    let components = Components::load(&definition, &sandbox, report)?;
    if let Some(arguments) = &trial.arguments {
        check_arguments(arguments, components.input_schema(SLOT))?;
        definition.team.roles[0].react = tool_loop(&definition.team.roles[0].actions[0].name);
    }
    let services = components.services(&definition, sandbox, HiddenStorage::default())?;
    let (saved, provenance) = (saved_definition(&definition), provenance_of(&definition));
    let mut env = Environment::new(&definition.team);
    env.idea_parts = files.parts;
    let mut lease = create_in_memory(&env, &saved)?;
    lease.put_blobs(&files.blobs)?;
    let stepper = Stepper::new(Arc::new(definition.team), env);
    let journal = Journal::new(stepper, lease, FIRST_LINE, Durability::Process);
    let mut journal = journal.with_listener(on_line);
    let started = journal.stepper().run_started_event(
        ROLE_NAME.into(),
        trial.message.clone(),
        components.digests(),
    );
    journal.stage(started)?;
    if let Some(arguments) = &trial.arguments {
        stage_tool_call(&mut journal, arguments)?;
    }
    journal.flush_blocking()?;
    Ok(TrialRun {
        driver: Driver::new(journal, services),
        provenance,
    })
}

/// Loads the component of a trial, and returns what it says about itself. Nothing of it is run but its
/// description.
pub fn describe_trial(
    trial: &Trial,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<Arc<ComponentManifest>, LaunchError> {
    let definition = define(trial, report)?;
    let components = Components::load(&definition, &WasmSandbox::one_shot()?, report)?;
    Ok(components.manifest(SLOT).unwrap_or_default())
}

/// Returns the team of one role that is made for a trial, within the bounds of the policies.
fn define(trial: &Trial, report: &mut dyn FnMut(Notice<'_>)) -> Result<Definition, LaunchError> {
    let base = absolute_path(Path::new("."));
    let mut definition = Definition::parse(&team_file(trial)?, SOURCE_NAME, &base)?;
    if let (Some(config), Some(plugin)) = (&trial.config, definition.plugins.get_mut(&SLOT)) {
        plugin.config = config.clone();
    }
    definition.apply_policies(&trial.operators)?;
    for cut in definition.describe_reductions() {
        report(Notice::Note(&cut));
    }
    Ok(definition)
}

/// Returns a team file with one role, which has the action. The arguments keep the spelling that they
/// have in team files, so they are read, checked and explained by the same code.
fn team_file(trial: &Trial) -> Result<String, LaunchError> {
    let quote = |text: &str| toml::Value::from(text).to_string();
    let mut text =
        String::from("schema = \"strata.team/1\"\n[team]\nname = \"try\"\n[run]\nmax_steps = 1\n");
    if !trial.llm.is_empty() {
        push_lines(&mut text, "[llm]", "--llm", &trial.llm)?;
    }
    let path = Path::new(&trial.component);
    let builtin = BuiltinComponent::from_path(path).map(BuiltinComponent::file_name);
    let named = builtin.map_or(path, Path::new);
    let file_name = || named.file_stem().and_then(|stem| stem.to_str());
    let (key, name) = if trial.component.contains('@') && !path.exists() {
        ("skill", trial.component.split('@').next())
    } else if is_script(path) && !path.is_dir() {
        ("script", file_name())
    } else {
        ("component", file_name())
    };
    text.push_str(&format!(
        "[[role]]\nname = \"{ROLE_NAME}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = {}\n{key} = {}\n",
        quote(action_name(name)),
        quote(&trial.component)
    ));
    if let Some(function) = &trial.function {
        text.push_str(&format!("function = {}\n", quote(function)));
    }
    push_lines(&mut text, "[role.action.allow]", "--allow", &trial.allow)?;
    push_lines(&mut text, "[role.action.limits]", "--limit", &trial.limits)?;
    Ok(text)
}

/// Returns the name of a component as the name of the action, if it can be one.
fn action_name(component: Option<&str>) -> &str {
    let is_name = |name: &&str| {
        !name.is_empty()
            && *name != ROLE_NAME
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    component.filter(is_name).unwrap_or(ACTION_NAME)
}

/// Appends a table with these lines.
fn push_lines(
    text: &mut String,
    table: &str,
    option: &str,
    lines: &[String],
) -> Result<(), LaunchError> {
    text.push_str(&format!("{table}\n"));
    for line in lines {
        // A line must not begin another table.
        if line.contains('\n') || line.trim_start().starts_with('[') {
            return Err(LaunchError::InvalidInput(format!(
                "`{option}` takes one `KEY = VALUE` on one line, as `{table}` of a team file has it, not `{line}`"
            )));
        }
        text.push_str(&format!("{line}\n"));
    }
    Ok(())
}

/// Fails if arguments are no object, or do not match the schema that the component declares.
fn check_arguments(arguments: &Json, schema: Option<&str>) -> Result<(), LaunchError> {
    let invalid =
        |why: String| LaunchError::InvalidInput(format!("the value of `--arguments` {why}"));
    let value = arguments.value();
    if !value.is_object() {
        return Err(invalid("is no JSON object".into()));
    }
    let Some(schema) = schema else {
        return Ok(());
    };
    let schema = Json::parse(schema).map_err(|error| error.to_string());
    let compiled = schema.and_then(|schema| CompiledSchema::compile_bounded(&schema.value()));
    let compiled = compiled.map_err(|why| {
        LaunchError::InvalidInput(format!(
            "the component's schema of its arguments is invalid: {why}"
        ))
    })?;
    let checked = compiled.check(&value);
    checked.map_err(|why| invalid(format!("does not match the component's schema: {why}")))
}

/// Returns a loop in which the first call of the action ends the activation.
fn tool_loop(action: &str) -> React {
    React::Tools(Box::new(ToolLoop {
        max_turns: 1,
        max_calls: 1,
        repeat: None,
        order: CallOrder::Parallel,
        faults: ToolFaults::Stop,
        retry: RetryPolicy {
            retries: 0,
            backoff_ms: 0,
        },
        summariser: Summariser::Model,
        tools: vec![Tool {
            name: action.to_owned(),
            target: TARGET,
            faults: None,
            order: CallOrder::Parallel,
            max_calls: None,
        }],
        reviews_results: false,
        server_limits: Vec::new(),
    }))
}

/// The id of the tool call.
const CALL_ID: &str = "try";
/// The action as a tool.
const TARGET: CallTarget = CallTarget {
    tool: ToolRef::Action(ActionId(0)),
    effect: CallEffect::Ends,
};

/// Records a reply that calls the action, as if a model had given it.
fn stage_tool_call(journal: &mut Journal, arguments: &Json) -> Result<(), DriverError> {
    loop {
        let call = match journal.stepper().next() {
            Effect::Record(event) => {
                journal.stage(event)?;
                continue;
            }
            Effect::Call(call) => call,
            Effect::Wait | Effect::Halt(_) => return Ok(()),
        };
        journal.stage(journal.stepper().call_started_event(&call))?;
        let tool = journal.stepper().team().roles[0].actions[0].name.clone();
        let reply = TurnReply {
            model: String::new(),
            finish: FinishReason::ToolCalls,
            cost: Usd::ZERO,
            message: ReplyMessage::Parts(vec![AssistantPart::ToolCall(ToolCall {
                id: CALL_ID.into(),
                name: tool.clone(),
                arguments: arguments.as_str().to_owned(),
            })]),
            outcome: TurnOutcome::Calls(vec![CallPlan {
                id: CALL_ID.into(),
                tool,
                form: CallForm::Direct,
                decision: CallDecision::Make(TARGET),
            }]),
            changed_tools: Vec::new(),
            skills: Vec::new(),
        };
        let stepper = journal.stepper();
        let ended = stepper.call_ended_event(call.key(), Ok(CallResult::Replied(reply)));
        return ended.map_or(Ok(()), |event| journal.stage(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_begins_another_table_is_refused() {
        for line in ["[role.action.limits]", "  [[role]]", "a = 1\n[run]"] {
            let trial = Trial {
                allow: vec![line.into()],
                ..Trial::default()
            };
            let error = team_file(&trial).unwrap_err().to_string();
            assert!(
                error.contains("`--allow` takes one `KEY = VALUE`"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_action_is_named_after_its_component() {
        for (component, expected) in [
            (Some("count-words"), "count-words"),
            (Some("two words"), ACTION_NAME),
            (Some(ROLE_NAME), ACTION_NAME),
            (None, ACTION_NAME),
        ] {
            assert_eq!(action_name(component), expected);
        }
    }
}

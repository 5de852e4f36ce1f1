//! Components and actions as tools, without a team. Each call runs in an instance of its own, with the
//! default limits and nothing granted, like `try`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool};
use serde_json::{Value, json};
use strata_base::files::blob::digest_of;
use strata_core::record::event::Status;
use strata_core::record::json::Json;
use strata_driver::LineListener;
use strata_manifest::interface::component::functions_document;
use strata_manifest::operator::OperatorPolicy;
use strata_sandbox::{Metering, WasmSandbox};
use strata_services::plugin::builtin::BuiltinComponent;
use strata_services::plugin::{CompiledSchema, Limits};
use strata_view::TrialResult;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::ReportNotice;
use super::arguments::object;
use super::client_call::{ClientCall, tool_name};
use super::result::{error, invalid_arguments};
use crate::launch::{LaunchError, Trial, describe_trial, prepare_trial, read_component};

/// A component that is offered as a tool.
pub(super) struct ComponentTool {
    tool: Tool,
    /// What its arguments have to match.
    schema: CompiledSchema,
    trial: Trial,
    report: ReportNotice,
}

/// Loads components, so that their tools can be described. A component that does not use the host's
/// interfaces is a tool if it has one function, and otherwise each of its functions is one.
pub(super) fn load(
    components: &[String],
    operators: &[OperatorPolicy],
    report: &ReportNotice,
) -> Result<Vec<ComponentTool>, LaunchError> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut tools = Vec::new();
    for component in components {
        for (name, function) in tools_of_component(component)? {
            if let Some(other) = names.insert(name.clone(), component) {
                return Err(LaunchError::InvalidInput(format!(
                    "`{other}` and `{component}` would both be the tool `{name}`; rename one of them"
                )));
            }
            let trial = Trial {
                component: component.clone(),
                function,
                operators: operators.to_vec(),
                ..Trial::default()
            };
            let tool = describe(name, &trial, report)?;
            let schema = Value::Object(tool.input_schema.as_ref().clone());
            let schema = CompiledSchema::compile_bounded(&schema).map_err(|why| {
                LaunchError::InvalidInput(format!(
                    "`{component}`: the schema of its arguments is invalid: {why}"
                ))
            })?;
            tools.push(ComponentTool {
                tool,
                schema,
                trial,
                report: Arc::clone(report),
            });
        }
    }
    Ok(tools)
}

/// Returns the names of the tools that a component is, each with the function that it calls, if it is
/// not an action.
fn tools_of_component(component: &str) -> Result<Vec<(String, Option<String>)>, LaunchError> {
    let name = file_name(component);
    let functions = functions_of_plain_component(Path::new(component))?;
    let short = |function: &str| match function.rsplit_once('#') {
        Some((_, short)) => short.to_owned(),
        None => function.to_owned(),
    };
    Ok(match functions.as_slice() {
        [] => vec![(tool_name(&name), None)],
        [only] => vec![(tool_name(&name), Some(only.clone()))],
        several => {
            let tools = several.iter().map(|function| {
                let name = tool_name(&format!("{name}.{}", short(function)));
                (name, Some(function.clone()))
            });
            tools.collect()
        }
    })
}

/// Returns the functions of a component that does not use the host's interfaces. Returns none for an
/// action, and for what is not the file of a component.
fn functions_of_plain_component(path: &Path) -> Result<Vec<String>, LaunchError> {
    let is_component = path
        .extension()
        .is_some_and(|extension| extension == "wasm");
    if !is_component || !path.is_file() {
        return Ok(Vec::new());
    }
    let invalid = |why: &str| LaunchError::InvalidInput(format!("`{}`: {why}", path.display()));
    let (_, bytes) = read_component(path, &mut |_| ()).map_err(LaunchError::InvalidInput)?;
    let sandbox = WasmSandbox::one_shot()?;
    let limits = Limits::default();
    let loaded = sandbox
        .load_without_handler(digest_of(&bytes), &bytes, Metering::Plain, &limits)
        .map_err(|why| invalid(&why.to_string()))?;
    if loaded.exports.handler {
        return Ok(Vec::new());
    }
    let document = functions_document(&bytes).map_err(|why| invalid(&why.to_string()))?;
    let functions = document["functions"].as_object();
    let functions: Vec<String> = functions
        .into_iter()
        .flat_map(|all| all.keys().cloned())
        .collect();
    if functions.is_empty() {
        return Err(invalid("it is no action, and exports no functions"));
    }
    Ok(functions)
}

/// Describes a component as a tool.
fn describe(name: String, trial: &Trial, report: &ReportNotice) -> Result<Tool, LaunchError> {
    let manifest = describe_trial(trial, &mut |notice| report(notice))?;
    let schema = input_schema(manifest.input_schema.as_deref());
    let mut tool = Tool::new(name, manifest.description.clone(), schema);
    let declared = manifest.output_schema.as_deref().and_then(parse_object);
    // Older revisions know no other results.
    tool.output_schema = declared.filter(is_of_object).map(Arc::new);
    Ok(tool)
}

/// Returns the name of a component's file, without `.wasm`.
fn file_name(component: &str) -> String {
    let path = Path::new(component);
    if let Some(builtin) = BuiltinComponent::from_path(path) {
        let name = builtin.file_name();
        return name.strip_suffix(".wasm").unwrap_or(name).to_owned();
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy();
    name.strip_suffix(".wasm").unwrap_or(&name).to_owned()
}

/// Returns the schema of the arguments: that which the component declares, if it is one of an object.
fn input_schema(declared: Option<&str>) -> JsonObject {
    let declared = declared.and_then(parse_object);
    declared
        .filter(is_of_object)
        .unwrap_or_else(|| object(json!({ "type": "object" })))
}

fn is_of_object(schema: &JsonObject) -> bool {
    schema.get("type") == Some(&json!("object"))
}

fn parse_object(text: &str) -> Option<JsonObject> {
    serde_json::from_str::<JsonObject>(text).ok()
}

impl ComponentTool {
    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Carries out a call, in an instance of its own.
    pub(super) async fn call(
        &self,
        arguments: Option<JsonObject>,
        call: &ClientCall<'_>,
    ) -> CallToolResult {
        let arguments = Value::Object(arguments.unwrap_or_default());
        if let Err(why) = self.schema.check(&arguments) {
            return invalid_arguments(&why.to_string());
        }
        let trial = Trial {
            arguments: Some(Json::from(arguments)),
            ..self.trial.clone()
        };
        let report = Arc::clone(&self.report);
        let (stop, mut stopped) = watch::channel(false);
        let run = tokio::task::spawn_blocking(move || {
            let report = &mut |notice: crate::launch::Notice<'_>| report(notice);
            let mut run = prepare_trial(&trial, report, LineListener::none())
                .map_err(|why| why.to_string())?;
            let status = Handle::current().block_on(run.run(&mut stopped));
            let status = status.map_err(|why| why.to_string())?;
            Ok::<_, String>(TrialResult::new(run.stepper(), run.provenance(), status))
        });
        tokio::pin!(run);
        let ended = tokio::select! {
            ended = &mut run => ended,
            () = call.cancelled_or_closing() => {
                stop.send_replace(true);
                run.await
            }
        };
        match ended {
            Ok(Ok(result)) => describe_result(&result, self.tool.output_schema.is_some()),
            Ok(Err(why)) => error(why),
            Err(_) => error("the thread of the call ended unexpectedly"),
        }
    }
}

/// Returns the result of a call, as the client gets it.
fn describe_result(result: &TrialResult, has_schema: bool) -> CallToolResult {
    if let Some(fault) = result.faults.first() {
        return error(format!("{}: {}", fault.kind, fault.message));
    }
    match result.status {
        Status::Done => {}
        Status::Waiting => {
            let questions = result.questions.join("\n");
            return error(format!(
                "the action asks a person, and nobody can answer it here: {questions}"
            ));
        }
        status => return error(format!("the call ended as {}", status.name())),
    }
    let text = result.output_text().unwrap_or_default();
    let mut done = CallToolResult::success(vec![ContentBlock::text(text)]);
    let data = result
        .output
        .as_ref()
        .map(|output| &output["instruct_content"]["value"]);
    if let Some(data) = data.filter(|data| has_schema && !data.is_null()) {
        done.structured_content = Some(data.clone());
    }
    done
}

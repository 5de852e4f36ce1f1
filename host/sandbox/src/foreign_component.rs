//! Foreign components, which do not use the host's interfaces: lists the functions they export, and
//! calls one of them instead of the handler. `arguments` collects the arguments, `value` converts
//! values to and from JSON.

use std::collections::BTreeMap;

use serde_json::Value;
use strata_core::record::json::{Json, JsonError, MAX_DEPTH, depth};
use strata_core::record::message::Draft;
use wasmtime::Store;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Instance, Type, Val};

use super::SandboxCall;
use super::bindings::types::{Failure, FailureKind};
use super::ctx::Ctx;

mod arguments;
mod mismatch;
mod value;

/// The prefix of the host's own interfaces. Their functions are not listed.
const HOST_PREFIX: &str = "strata:action/";
/// The functions that the JavaScript and Python toolchains use to start their engines while they
/// build a component, with their first parameter. They remain in the component and are not actions.
const TOOLCHAIN_FUNCTIONS: [(&str, &str); 2] = [("init", "shim"), ("exports#init", "app-name")];
/// How many names an error lists at most.
const MAX_LISTED_NAMES: usize = 20;

/// Why a function of a component cannot be called as an action.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// There is no function with this name.
    #[error("the component has no function `{function}`; {}", list_names(.known))]
    Unknown {
        /// The requested name.
        function: String,
        /// The names of the existing functions.
        known: Vec<String>,
    },
    /// A type of the function cannot be represented as JSON.
    #[error("cannot call `{function}`: {place} has {what} in it, which cannot be written as JSON")]
    NotJson {
        /// The name of the function.
        function: String,
        /// The parameter, or the result.
        place: String,
        /// The type that has no JSON form.
        what: &'static str,
    },
    /// The configured arguments do not fit the parameters.
    #[error("cannot call `{function}` with this `config`: {why}")]
    Config {
        /// The name of the function.
        function: String,
        /// The mismatch.
        why: String,
    },
}

/// The functions that a component exports outside the host's interfaces.
pub(super) struct ForeignFunctions(BTreeMap<String, ForeignFunction>);

struct ForeignFunction {
    index: ComponentExportIndex,
    ty: ComponentFunc,
}

/// Returns whether a function, identified by its name and first parameter, was added by a
/// toolchain.
pub fn is_toolchain_function(name: &str, first: Option<&str>) -> bool {
    TOOLCHAIN_FUNCTIONS
        .iter()
        .any(|start| (start.0, Some(start.1)) == (name, first))
}

impl ForeignFunctions {
    /// Lists the functions under the names that team files use: `name`, or
    /// `package:name/interface@version#function`.
    pub(super) fn of_component(component: &Component) -> Self {
        let mut found = BTreeMap::new();
        let engine = component.engine();
        for (name, export) in component.component_type().exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(ty) => {
                    if let Some(index) = component.get_export_index(None, name) {
                        found.insert(name.to_owned(), ForeignFunction { index, ty });
                    }
                }
                ComponentItem::ComponentInstance(interface) if !name.starts_with(HOST_PREFIX) => {
                    let Some(parent) = component.get_export_index(None, name) else {
                        continue;
                    };
                    for (inner, export) in interface.exports(engine) {
                        let index = component.get_export_index(Some(&parent), inner);
                        if let (ComponentItem::ComponentFunc(ty), Some(index)) = (export.ty, index)
                        {
                            found.insert(format!("{name}#{inner}"), ForeignFunction { index, ty });
                        }
                    }
                }
                _ => {}
            }
        }
        found.retain(|name, ForeignFunction { ty, .. }| {
            !is_toolchain_function(name, ty.params().next().map(|(first, _)| first))
        });
        Self(found)
    }

    /// Checks that a function exists, can be called with JSON, and accepts the configured
    /// arguments.
    pub(super) fn check(&self, function: &str, config: &Json) -> Result<(), FunctionError> {
        let Some(ForeignFunction { ty, .. }) = self.0.get(function) else {
            let known = self.0.keys().cloned().collect();
            return Err(FunctionError::Unknown {
                function: function.to_owned(),
                known,
            });
        };
        let params = ty
            .params()
            .map(|(name, ty)| (format!("its parameter `{name}`"), ty));
        for (place, ty) in params.chain(ty.results().map(|ty| ("its result".to_owned(), ty))) {
            if let Some(what) = value::type_without_json(&ty) {
                return Err(FunctionError::NotJson {
                    function: function.to_owned(),
                    place,
                    what,
                });
            }
        }
        let fits = arguments::check(ty, config);
        fits.map_err(|why| FunctionError::Config {
            function: function.to_owned(),
            why,
        })
    }
}

fn list_names(known: &[String]) -> String {
    if known.is_empty() {
        return "it exports no functions".into();
    }
    let names: Vec<String> = known
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = known
        .len()
        .checked_sub(MAX_LISTED_NAMES)
        .filter(|more| *more > 0);
    let more = more
        .map(|more| format!(" and {more} more"))
        .unwrap_or_default();
    format!("it has {}{more}", names.join(", "))
}

/// Calls a function for an action. The inner error is a refusal of the arguments, or the function's
/// own failure.
pub(super) async fn call(
    store: &mut Store<Ctx>,
    instance: &Instance,
    functions: &ForeignFunctions,
    function: &str,
    call: &SandboxCall,
) -> wasmtime::Result<Result<Draft, Failure>> {
    let refused = |message: String| {
        Ok(Err(Failure {
            kind: FailureKind::Error,
            message,
        }))
    };
    let Some(ForeignFunction { index, ty }) = functions.0.get(function) else {
        return refused(format!("the component has no function `{function}`"));
    };
    let arguments = match arguments::collect_arguments(ty, call) {
        Ok(arguments) => arguments,
        Err(why) => return refused(format!("cannot call `{function}`: {why}")),
    };
    let Some(callee) = instance.get_func(&mut *store, index) else {
        return refused(format!("`{function}` of the component is no function"));
    };
    let mut results = vec![Val::Bool(false); ty.results().len()];
    callee
        .call_async(&mut *store, &arguments, &mut results)
        .await?;
    // A function has at most one result.
    Ok(match ty.results().zip(results).next() {
        None => Ok(to_draft(Value::Null)),
        Some((ty, value)) => convert_result(&ty, value),
    })
}

/// Converts a function's result. A `result` type is the function's own way to fail; any other value
/// is its output.
fn convert_result(ty: &Type, value: Val) -> Result<Draft, Failure> {
    let refused = |why| Failure {
        kind: FailureKind::Error,
        message: format!("the result is {why}"),
    };
    value::check_size(&value).map_err(refused)?;
    let part = |ty: Option<Type>, value: Option<Box<Val>>| match (ty, value) {
        (Some(ty), Some(value)) => value::to_json(&ty, *value),
        _ => Value::Null,
    };
    let content = match (ty, value) {
        (Type::Result(ty), Val::Result(Ok(value))) => part(ty.ok(), value),
        (Type::Result(ty), Val::Result(Err(value))) => {
            return Err(Failure {
                kind: FailureKind::Error,
                message: to_text(&part(ty.err(), value)),
            });
        }
        (ty, value) => value::to_json(ty, value),
    };
    if depth(&content) > MAX_DEPTH {
        return Err(refused(JsonError::TooDeep));
    }
    Ok(to_draft(content))
}

fn to_draft(value: Value) -> Draft {
    Draft {
        content: to_text(&value),
        data: (!value.is_null()).then(|| Json::from(value)),
        parts: Vec::new(),
        to: Vec::new(),
        cause_by: None,
        route: Vec::new(),
    }
}

/// Returns a value as the text of a message: a string as it is, null as an empty text, everything
/// else as JSON.
fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! The arguments of a function of a foreign component: fixed ones from the team file, then those of
//! the tool call or of the newest message, then the defaults of the team file.

use serde::Deserialize;
use serde_json::{Map, Value};
use strata_core::record::json;
use strata_core::record::json::Json;
use strata_core::record::json::size_budget::SizeBudget;
use wasmtime::component::types::ComponentFunc;
use wasmtime::component::{Type, Val};

use super::value::from_json;
use crate::{EntryPoint, SandboxCall};

/// The `config` of an action that is a function of a foreign component.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ArgumentConfig {
    /// Arguments by parameter, which override the message.
    args: Map<String, Value>,
    /// Arguments by parameter, for those that the message does not have.
    defaults: Map<String, Value>,
}

impl ArgumentConfig {
    fn parse(config: &Json) -> Result<Self, String> {
        match config.value() {
            Value::Null => Ok(Self::default()),
            config => serde_json::from_value(config).map_err(|error| error.to_string()),
        }
    }

    fn provides(&self, name: &str) -> bool {
        self.args.contains_key(name) || self.defaults.contains_key(name)
    }
}

/// Checks that the arguments in the team file fit the parameters.
pub(super) fn check(ty: &ComponentFunc, config: &Json) -> Result<(), String> {
    let ArgumentConfig { args, defaults } = ArgumentConfig::parse(config)?;
    let mut budget = SizeBudget::for_document();
    for (table, values) in [("args", args), ("defaults", defaults)] {
        for (name, value) in values {
            let Some((_, ty)) = ty.params().find(|(param, _)| *param == name) else {
                let params: Vec<String> =
                    ty.params().map(|(name, _)| format!("`{name}`")).collect();
                let params = if params.is_empty() {
                    "none".into()
                } else {
                    params.join(", ")
                };
                return Err(format!(
                    "`{table}` has `{name}`, but the function's parameters are {params}"
                ));
            };
            from_json(&ty, &value, &mut budget)
                .map_err(|error| format!("`{name}` in `{table}`: {error}"))?;
        }
    }
    Ok(())
}

/// Returns the arguments of a call, in the order of the parameters.
pub(super) fn collect_arguments(
    ty: &ComponentFunc,
    call: &SandboxCall,
) -> Result<Vec<Val>, String> {
    let bindings = ArgumentConfig::parse(&call.plugin.config)?;
    let needed =
        |(name, ty): &(&str, Type)| !bindings.provides(name) && !matches!(ty, Type::Option(_));
    let open: Vec<(&str, Type)> = ty.params().filter(needed).collect();
    let newest = CallInput::from_call(call);
    let whole = match open.as_slice() {
        [(name, ty)] if !newest.is_tool_call => newest.as_single_argument(name, ty),
        _ => None,
    };
    // A text that is itself the argument is not searched for named arguments.
    let named = if whole.is_some() {
        newest.data.clone()
    } else {
        newest.as_document()
    };
    let named = named.as_ref().and_then(Value::as_object);
    let mut budget = SizeBudget::for_document();
    let argument = |(name, ty): (&str, Type)| {
        let fixed = bindings.args.get(name);
        let value = fixed
            .or(named.and_then(|named| named.get(name)))
            .or(bindings.defaults.get(name));
        let value = match (value, &whole) {
            (Some(value), _) => value,
            (None, _) if matches!(ty, Type::Option(_)) => &Value::Null,
            (None, Some(whole)) => whole,
            (None, None) => return Err(missing_argument(name, named, newest.is_tool_call)),
        };
        from_json(&ty, value, &mut budget).map_err(|error| format!("argument `{name}`: {error}"))
    };
    ty.params().map(argument).collect()
}

fn missing_argument(name: &str, named: Option<&Map<String, Value>>, is_tool_call: bool) -> String {
    let source = if is_tool_call {
        "the tool call"
    } else {
        "the newest message"
    };
    let found = match named {
        None => format!("{source} holds no object with arguments"),
        Some(named) => {
            let keys: Vec<String> = named.keys().map(|key| format!("`{key}`")).collect();
            format!(
                "{source} has {}",
                if keys.is_empty() {
                    "none".into()
                } else {
                    keys.join(", ")
                }
            )
        }
    };
    format!(
        "argument `{name}` is missing: {found}; or write it in `config = {{ args = {{ {name} = … }} }}`"
    )
}

/// The input of a call: the arguments of the tool call or the planned task that it carries out, or
/// the newest message.
struct CallInput<'a> {
    content: &'a str,
    data: Option<Value>,
    is_tool_call: bool,
}

impl<'a> CallInput<'a> {
    fn from_call(call: &'a SandboxCall) -> Self {
        if let EntryPoint::Run {
            tool_call: Some(tool_call),
            ..
        } = &call.entry
        {
            return Self {
                content: "",
                data: Some(tool_call.arguments.value()),
                is_tool_call: true,
            };
        }
        if let EntryPoint::Run {
            task: Some(task), ..
        } = &call.entry
        {
            return Self {
                content: &task.text,
                data: None,
                is_tool_call: false,
            };
        }
        match call.outputs.last().or(call.news.last()) {
            Some(message) => Self {
                content: &message.content,
                data: message
                    .instruct
                    .as_ref()
                    .map(|instruct| instruct.value.value()),
                is_tool_call: false,
            },
            None => Self {
                content: "",
                data: None,
                is_tool_call: false,
            },
        }
    }

    /// Returns the data of the message, or its text if that is JSON.
    fn as_document(&self) -> Option<Value> {
        self.data
            .clone()
            .or_else(|| json::parse_untrusted(self.content).ok())
    }

    /// Returns the whole message as the only argument that a function needs, unless the message
    /// names that argument.
    fn as_single_argument(&self, name: &str, ty: &Type) -> Option<Value> {
        let names_it = |value: &Value| value.get(name).is_some();
        if *ty == Type::String {
            return match &self.data {
                Some(data) if names_it(data) => None,
                Some(Value::String(text)) => Some(Value::String(text.clone())),
                _ => Some(Value::String(self.content.to_owned())),
            };
        }
        self.as_document().filter(|document| !names_it(document))
    }
}

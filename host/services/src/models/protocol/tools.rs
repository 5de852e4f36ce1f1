//! The tools and the schema of a request, as far as protocols have them in common.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use strata_base::text::ordered_json::OrderedJson;
use strata_core::record::conversation::AssistantPart;
use strata_core::record::json;

use super::body::is_blank;
use super::json_writer;
use super::schema::{arguments_schema, basic_schema, complete, is_object_at_top, is_strict};
use crate::gateway::HostError;
use crate::models::error_text::invalid;
use crate::models::{ModelRequest, ToolDefinition};
use crate::tool_name::{NameRule, model_name, model_names};

/// The name of the schema of a reply, which some protocols require.
pub(super) const SCHEMA_NAME: &str = "reply";

/// A JSON Schema that is sent.
pub(super) struct SchemaText {
    /// Its text, in its own order.
    pub(super) json: String,
    /// Whether a provider can enforce all of it.
    pub(super) is_strict: bool,
}

impl SchemaText {
    fn new(schema: &OrderedJson) -> Self {
        Self {
            json: json_writer::value(schema),
            is_strict: is_object_at_top(schema) && is_strict(schema),
        }
    }

    /// Returns the schema of a tool's arguments. Fails if they could not be an object.
    fn of_tool(tool: &ToolDefinition) -> Result<Self, HostError> {
        let what = || format!("the parameters of the tool `{}`", tool.name);
        let schema = parse(&tool.parameters, what)?;
        let schema = arguments_schema(&schema).map_err(|error| {
            invalid(format!(
                "cannot ask a model: {} are no schema of arguments: {error}",
                what()
            ))
        })?;
        Ok(Self::new(&schema))
    }
}

/// What a provider enforces of the schemas of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// Any schema.
    Any,
    /// Schemas of objects.
    Objects,
    /// Schemas of closed objects with basic keywords.
    Basic,
}

/// How a provider is told what the reply has to match.
pub(super) enum ReplySchema {
    /// Nothing is demanded.
    None,
    /// The provider enforces a schema.
    Enforced(SchemaText),
    /// The model is told the schema in words.
    InWords(String),
}

impl ReplySchema {
    /// Returns how a provider is told the schema of a request.
    pub(super) fn of(request: &ModelRequest, enforcement: Enforcement) -> Result<Self, HostError> {
        let Some(text) = &request.output_schema else {
            return Ok(Self::None);
        };
        let whole = parse(text, || "`output-schema`".to_owned())?;
        let mut schema = whole.clone();
        complete(&mut schema);
        let enforced = match enforcement {
            Enforcement::Any => Some(schema),
            Enforcement::Objects => Some(schema).filter(is_object_at_top),
            Enforcement::Basic => basic_schema(&whole),
        };
        Ok(match enforced {
            Some(schema) => Self::Enforced(SchemaText::new(&schema)),
            None => Self::InWords(json_writer::value(&whole)),
        })
    }

    /// Returns the schema that the provider enforces.
    pub(super) fn enforced(&self) -> Option<&SchemaText> {
        match self {
            Self::Enforced(schema) => Some(schema),
            Self::None | Self::InWords(_) => None,
        }
    }

    /// Returns the instructions of a request, with the schema if the model is told it in words.
    /// Returns `None` if there are none.
    pub(super) fn instructions<'a>(&self, request: &'a ModelRequest) -> Option<Cow<'a, str>> {
        let system = Some(request.system.as_str()).filter(|system| !is_blank(system));
        let Self::InWords(schema) = self else {
            return system.map(Cow::Borrowed);
        };
        let before = system
            .map(|system| format!("{system}\n\n"))
            .unwrap_or_default();
        Some(Cow::Owned(format!(
            "{before}Your reply is a JSON document that follows this JSON Schema, and nothing else:\n{schema}"
        )))
    }
}

fn parse(text: &str, what: impl Fn() -> String) -> Result<OrderedJson, HostError> {
    OrderedJson::parse(text).map_err(|error| {
        invalid(format!(
            "cannot ask a model: {} is {error}; give a JSON Schema",
            what()
        ))
    })
}

/// A tool as it is sent.
pub(super) struct SentTool<'a> {
    pub(super) tool: &'a ToolDefinition,
    /// The schema of its arguments.
    pub(super) schema: SchemaText,
}

/// Returns the tools of a request.
pub(super) fn sent_tools(request: &ModelRequest) -> Result<Vec<SentTool<'_>>, HostError> {
    let tools = request.tools.iter().map(|tool| {
        let schema = SchemaText::of_tool(tool)?;
        Ok(SentTool { tool, schema })
    });
    tools.collect()
}

/// The names under which the tools of a request are sent.
pub(super) struct ToolNames<'a> {
    rule: NameRule,
    /// The name that is sent, by the name of the tool.
    sent: BTreeMap<&'a str, String>,
}

impl<'a> ToolNames<'a> {
    pub(super) fn new(request: &'a ModelRequest, rule: NameRule) -> Self {
        let names = || request.tools.iter().map(|tool| tool.name.as_str());
        Self {
            rule,
            sent: names().zip(model_names(names(), rule)).collect(),
        }
    }

    /// Returns the name under which a tool is sent. A model may have called one that does not exist.
    pub(super) fn sent(&self, name: &str) -> String {
        let known = self.sent.get(name).cloned();
        known.unwrap_or_else(|| model_name(name, self.rule))
    }

    /// Gives the calls of a reply the names that their tools have in the request.
    pub(super) fn restore(&self, parts: &mut [AssistantPart]) {
        for part in parts {
            if let AssistantPart::ToolCall(call) = part
                && let Some(original) = self.original(&call.name)
            {
                original.clone_into(&mut call.name);
            }
        }
    }

    /// Returns the name of the tool that is sent under a name.
    fn original(&self, sent: &str) -> Option<&'a str> {
        let mut names = self.sent.iter();
        names.find_map(|(original, name)| (name == sent).then_some(*original))
    }
}

/// Returns the arguments of a tool call as the text of an object, in which they are sent back: as
/// the model wrote them if that is one. Arguments that are none are put into one. Many endpoints
/// refuse other texts.
pub(super) fn arguments_object(arguments: &str) -> String {
    let Ok(value @ Value::Object(_)) = json::parse_untrusted(arguments) else {
        return json_writer::object(|object| object.field("arguments", arguments));
    };
    match json_writer::document(arguments) {
        Ok(text) => text,
        Err(_) => json_writer::value(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_always_an_object() {
        let check =
            |text: &str, expected: &str| assert_eq!(arguments_object(text), expected, "{text}");
        check(r#" {"b": 1, "a": 2} "#, r#"{"b": 1, "a": 2}"#);
        check(
            r#"{"a": 12345678901234567890123}"#,
            r#"{"a": 12345678901234567890123}"#,
        );
        check(r#"{"a": "\ud83d"}"#, "{\"a\":\"\u{fffd}\"}");
        check(r#"{"a": "\u0000"}"#, "{\"a\": \"\\ufffd\"}");
        check("[1]", r#"{"arguments":"[1]"}"#);
        check("{\"a\":", r#"{"arguments":"{\"a\":"}"#);
        check("", r#"{"arguments":""}"#);
    }
}

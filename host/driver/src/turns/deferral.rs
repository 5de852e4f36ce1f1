//! Tools that are not sent: how a model finds them and calls them.
//!
//! The list of tools in a request stays the same while they are found and called, so that providers
//! can take it from their caches.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde_json::{Value, json};
use strata_core::record::conversation::ToolCall;
use strata_core::record::json::{self, Json};
use strata_core::record::turn::{CallForm, INNER_ARGUMENTS, ToolRef};
use strata_services::tools::{Exposure, RoleTool, ToolRole};

use super::reply::{NamedCall, ReplyRules, UnknownCall, shown_name};

/// How many tools a search returns at most: enough to choose from, without filling the conversation.
const MAX_FOUND_TOOLS: usize = 5;
/// How many words of a query are looked for.
const MAX_QUERY_WORDS: usize = 32;
/// How much more a word in the name of a tool counts than one in its description or its arguments.
const NAME_WEIGHT: usize = 4;

/// Returns the tools that fit a query best, as they are told to the model: their names, descriptions
/// and the schemas of their arguments.
pub(super) fn found_tools(settings: &ToolRole, query: &str) -> Json {
    let words: Vec<String> = words(query).take(MAX_QUERY_WORDS).collect();
    let mut found: Vec<(usize, &RoleTool)> = Vec::new();
    for tool in settings
        .tools
        .iter()
        .filter(|tool| tool.exposure == Exposure::Searched)
    {
        let score = score(tool, &words);
        if score > 0 {
            found.push((score, tool));
        }
    }
    // The sort is stable, so tools that fit equally well stay in the order of the file.
    found.sort_by_key(|(score, _)| Reverse(*score));
    let mut tools = Vec::new();
    for (_, tool) in found.into_iter().take(MAX_FOUND_TOOLS) {
        let schema = tool.input_schema.as_ref();
        tools.push(json!({
            "name": tool.model_name,
            "description": tool.description.clone().unwrap_or_default(),
            "parameters": schema.map_or_else(|| json!({ "type": "object" }), |schema| schema.document().clone()),
        }));
    }
    Json::from(Value::from(tools))
}

/// Returns how well a tool fits the words of a query; 0 if not at all.
fn score(tool: &RoleTool, query: &[String]) -> usize {
    let name: Vec<String> = words(&tool.model_name).collect();
    let mut about: Vec<String> = words(tool.description.as_deref().unwrap_or_default()).collect();
    let properties = tool
        .input_schema
        .as_ref()
        .map(|schema| &schema.document()["properties"]);
    if let Some(Value::Object(properties)) = properties {
        about.extend(properties.keys().flat_map(|key| words(key)));
    }
    let mut score = 0;
    for word in query {
        score += NAME_WEIGHT * fit(word, &name) + fit(word, &about);
    }
    score
}

/// Returns how well a word fits one of others: 2 if it is one of them, 1 if one of them begins with it
/// or it begins with one of them, such as a plural. Otherwise 0.
fn fit(word: &str, others: &[String]) -> usize {
    const MIN_PREFIX: usize = 3;
    if others.iter().any(|other| other == word) {
        return 2;
    }
    let is_prefix = |of: &str, prefix: &str| prefix.len() >= MIN_PREFIX && of.starts_with(prefix);
    let fits = others
        .iter()
        .any(|other| is_prefix(other, word) || is_prefix(word, other));
    usize::from(fits)
}

/// Returns the words of a text in lower case. Words are also separated by changes from lower to upper
/// case, as in `readFile`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut separated = String::with_capacity(text.len());
    let mut was_lower = false;
    for c in text.chars() {
        if was_lower && c.is_uppercase() {
            separated.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        separated.push(c);
    }
    let words: Vec<String> = separated
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.into_iter()
}

/// Returns the call of a tool that a call of `call_tool` stands for.
pub(super) fn inner_call<'a>(
    rules: ReplyRules<'a>,
    call: &ToolCall,
) -> Result<NamedCall<'a>, UnknownCall> {
    let form = CallForm::ByCallTool;
    let unnamed = |reason: String| UnknownCall {
        name: shown_name(&call.name),
        form,
        reason,
    };
    let sent = json::parse_untrusted(&call.arguments)
        .map_err(|error| unnamed(format!("the arguments are {error}")))?;
    let Some(name) = sent["name"].as_str() else {
        return Err(unnamed("`name` is not the name of a tool".into()));
    };
    let mut tools = rules.tools.tools.iter().zip(&rules.settings.tools);
    let found = tools.find(|(tool, settings)| {
        let can_be_called = !matches!(tool.target.tool, ToolRef::Host(_))
            && settings.exposure != Exposure::Withheld;
        can_be_called && settings.model_name == name
    });
    let Some((tool, settings)) = found else {
        let name = shown_name(name);
        let reason = format!("there is no tool `{name}`; search with `find_tools`");
        return Err(UnknownCall { name, form, reason });
    };
    let arguments = sent
        .get(INNER_ARGUMENTS)
        .cloned()
        .unwrap_or_else(|| json!({}));
    Ok(NamedCall {
        tool,
        settings,
        form,
        arguments: Cow::Owned(arguments.to_string()),
    })
}

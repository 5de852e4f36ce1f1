//! Tools that are not sent: how a model finds them. How it calls them is in `named_call`.
//!
//! The list of tools in a request stays the same while they are found and called, so that providers
//! can take it from their caches.

use std::cmp::Reverse;

use serde_json::{Value, json};
use strata_core::record::json::Json;
use strata_services::tools::{Exposure, RoleTool, ToolRole};

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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use strata_services::models::ModelRequest;

    use strata_core::record::conversation::ToolCall;

    use super::super::named_call::{ReplyRules, inner_call};
    use super::super::turn_request::request_frame;
    use super::*;
    use crate::tests::fixture::RunningTeam;

    /// Starts a team with this many roles that can be called, as tools with this `defer`.
    fn team(count: usize, defer: &str) -> RunningTeam {
        let mut text =
            "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\
                        [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n"
                .to_owned();
        for index in 0..count {
            let _ = writeln!(
                text,
                "[[role.tool]]\nrole = \"Role{index}\"\ndefer = {defer}"
            );
        }
        for index in 0..count {
            let _ = writeln!(
                text,
                "[[role]]\nname = \"Role{index}\"\ndesc = \"handles invoices of region {index}\"\n\
                 [[role.action]]\nname = \"r\"\ncomponent = \"r.wasm\""
            );
        }
        RunningTeam::start(&text)
    }

    fn request(team: &RunningTeam) -> ModelRequest {
        let id = team.invocations[0].role;
        let role = team.stepper.team().role(id);
        request_frame(role, &team.services.tool_roles[&id], true)
    }

    fn size(team: &RunningTeam) -> usize {
        let tools = request(team).tools;
        let tools = tools.iter();
        tools
            .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len())
            .sum()
    }

    #[test]
    fn five_hundred_deferred_tools_cost_a_request_as_much_as_ten() {
        assert_eq!(size(&team(500, "true")), size(&team(10, "true")));
        assert!(size(&team(11, "false")) > size(&team(10, "false")));
    }

    #[test]
    fn tools_are_deferred_by_themselves_only_if_they_are_many() {
        let names = |team: &RunningTeam| {
            let tools = request(team).tools;
            tools
                .into_iter()
                .map(|tool| tool.name)
                .collect::<Vec<String>>()
        };
        assert_eq!(names(&team(2, "\"auto\"")), ["Role0", "Role1"]);
        assert_eq!(names(&team(500, "\"auto\"")), ["find_tools", "call_tool"]);
    }

    #[test]
    fn tools_are_found_by_words_in_their_names_and_descriptions() {
        let team = team(20, "true");
        let settings = &team.services.tool_roles[&team.invocations[0].role];
        let check = |query: &str, expected: &[&str]| {
            let Value::Array(found) = found_tools(settings, query).value() else {
                panic!("a list");
            };
            let names: Vec<&str> = found
                .iter()
                .filter_map(|tool| tool["name"].as_str())
                .collect();
            assert_eq!(names, expected, "{query}");
        };
        check("role7", &["Role7"]);
        check("Role 7", &["Role7", "Role0", "Role1", "Role2", "Role3"]);
        check(
            "which region is 13?",
            &["Role13", "Role0", "Role1", "Role2", "Role3"],
        );
        check("invoice", &["Role0", "Role1", "Role2", "Role3", "Role4"]);
        check("weather", &[]);
        check("", &[]);
    }

    #[test]
    fn a_call_of_a_tool_that_was_found_is_planned_as_one_of_that_tool() {
        let team = team(2, "true");
        let id = team.invocations[0].role;
        let rules = ReplyRules {
            tools: team.stepper.team().role(id).tool_loop().expect("tools"),
            settings: &team.services.tool_roles[&id],
        };
        let check = |arguments: &str, expected: Result<(&str, &str), &str>| {
            let call = ToolCall {
                id: "c".into(),
                name: "call_tool".into(),
                arguments: arguments.into(),
            };
            let called = inner_call(rules, &call);
            let called = called
                .as_ref()
                .map(|call| (&*call.tool.name, &*call.arguments));
            assert_eq!(called.map_err(|call| &*call.name), expected, "{arguments}");
        };
        check(
            r#"{"name": "Role1", "arguments": {"message": "a"}}"#,
            Ok(("Role1", r#"{"message":"a"}"#)),
        );
        check(r#"{"name": "Role1"}"#, Ok(("Role1", "{}")));
        check(r#"{"name": "Role9"}"#, Err("Role9"));
        check(r#"{"name": "call_tool"}"#, Err("call_tool"));
        check(r#"{"name": 7}"#, Err("call_tool"));
        check("[", Err("call_tool"));
    }
}

//! Reads a file of scripted replies, `replies.toml`, with the same checks as a team file. Which reply
//! answers a request is decided in `services::models::scripted`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json::json;
use strata_core::record::json::Json;
use strata_services::models::scripted::{
    ReplyFilter, ScriptedAnswer, ScriptedEntry, ScriptedReply, ScriptedToolCall,
};

use super::diagnostic::{Diagnostics, Problems, ReferencedFiles, SourceText};
use super::schema::{FileKind, kind};
use super::table::{TomlItem, TomlTable};
use super::{parse_document, read_source};

/// The lowest `status` that is a failure.
const MIN_FAILURE_STATUS: u64 = 400;

/// Reads a file of replies.
pub fn read_replies_file(path: &Path) -> Result<Vec<ScriptedEntry>, Diagnostics> {
    let source = read_source(path, FileKind::Replies)
        .map_err(|error| error.with_note("is `replies` of its model right?"))?;
    parse(source)
}

fn parse(source: SourceText) -> Result<Vec<ScriptedEntry>, Diagnostics> {
    let source = Arc::new(source);
    let file = FileKind::Replies;
    let problems = Problems::new(Arc::clone(&source), file, ReferencedFiles::Checked);
    let document = parse_document(&source, file)?;
    let entries = read_replies(&TomlTable::root(document.get_ref(), &problems));
    problems.into_result()?;
    Ok(entries)
}

pub(super) fn read_replies(root: &TomlTable<'_>) -> Vec<ScriptedEntry> {
    let item = root
        .key(
            "reply",
            "The replies. The first that fits a request answers it.",
        )
        .required_with_line("[[reply]]")
        .keyword("minItems", 1)
        .list_item(read_entry);
    let Some(item) = item else { return Vec::new() };
    if item.is_empty_list() {
        item.reject("the file holds no replies", "add a `[[reply]]`");
    }
    let tables = item.tables("`[[reply]]`");
    tables.iter().filter_map(read_entry).collect()
}

fn read_entry(table: &TomlTable<'_>) -> Option<ScriptedEntry> {
    let pattern = table
        .key(
            "match",
            "A regular expression that the newest message of a request has to match. Without it every request fits.",
        )
        .value(kind::text)
        .map(|item| read_pattern(&item));
    let turn = table
        .key(
            "turn",
            "The turn of a role with `react = \"tools\"` that it is for, counted from 0 in each activation. Without it \
             every request fits.",
        )
        .integer(0..=u64::from(u32::MAX));
    let answer = read_answer(table);
    let times = table
        .key(
            "times",
            "How often it may be used in a run, resumes included. Without it there is no limit.",
        )
        .integer(1..=u64::from(u32::MAX));
    let delay = table
        .key("delay", "How long it takes to answer.")
        .default("0s")
        .duration();
    Some(ScriptedEntry::new(
        ReplyFilter {
            // An invalid pattern is reported.
            pattern: pattern.flatten(),
            turn: turn.map(|turn| turn as u32),
        },
        answer?,
        delay.unwrap_or(Duration::ZERO),
        times.map(|times| times as u32),
    ))
}

fn read_pattern(item: &TomlItem<'_>) -> Option<Regex> {
    let text = item.text()?;
    let error = match Regex::new(&text.value) {
        Ok(pattern) => return Some(pattern),
        Err(error) => error.to_string(),
    };
    // The library displays the pattern above its last line, which contains the reason.
    let why = error.lines().last().unwrap_or_default();
    let why = why.trim_start_matches("error: ");
    item.reject(
        format!("`match` is not a regular expression: {why}"),
        "put a backslash before characters that stand for themselves",
    );
    None
}

fn read_answer(table: &TomlTable<'_>) -> Option<ScriptedAnswer> {
    let text = table
        .key("text", "What is answered, or the body of a failure.")
        .text();
    let data = table
        .key(
            "data",
            "The data of the reply, as JSON. Without `text` it is the text, too.",
        )
        .value(|| json!({}));
    let calls = table
        .key("tool_calls", "The tools that the model calls.")
        .list_item(read_call);
    let tokens = |key, about| {
        let tokens = table.key(key, about).integer(0..=u64::from(u32::MAX));
        tokens.map(|tokens| tokens as u32)
    };
    let input = tokens(
        "input",
        "Tokens of the request. Without it they are estimated.",
    );
    let output = tokens(
        "output",
        "Tokens of the reply. Without it they are estimated.",
    );
    let status = table
        .key(
            "status",
            "The HTTP status with which an endpoint is played. From 400 on the request fails.",
        )
        .integer(100..=599);
    let text = text.map(|text| text.value);
    if let Some(status) = status.filter(|status| *status >= MIN_FAILURE_STATUS) {
        return Some(ScriptedAnswer::Failure {
            status: status as u16,
            body: text.unwrap_or_default(),
        });
    }
    let is_silent = text.is_none() && data.is_none() && calls.is_none();
    if is_silent && !table.has("text") {
        table.report_missing_one_of(&["text", "data", "tool_calls"]);
    }
    let data = data.map(|item| item.json("a component").to_string());
    let tool_calls = calls.map(|item| item.tables("a tool call"));
    Some(ScriptedAnswer::Reply(ScriptedReply {
        text: text.or_else(|| data.clone()).unwrap_or_default(),
        data,
        tool_calls: tool_calls.iter().flatten().filter_map(read_call).collect(),
        input,
        output,
    }))
}

fn read_call(table: &TomlTable<'_>) -> Option<ScriptedToolCall> {
    let id = table
        .key("id", "Its id. Without it one is made from the request.")
        .text();
    let name = table.key("name", "The tool.").required().text();
    let arguments = table
        .key("arguments", "The arguments: a table, or JSON as text.")
        .value(|| json!({}))
        .map_or(Some("{}".to_owned()), |item| read_arguments(&item));
    Some(ScriptedToolCall {
        id: id.map(|id| id.value),
        name: name?.value,
        arguments: arguments?,
    })
}

/// Reads the arguments of a call. As in the protocols of models, they may be given as text.
fn read_arguments(item: &TomlItem<'_>) -> Option<String> {
    if !item.is_text() {
        return Some(item.json("a component").to_string());
    }
    match Json::parse(&item.text()?.value) {
        Ok(json) => Some(json.as_str().to_owned()),
        Err(error) => {
            item.reject(format!("`arguments` are {error}"), "write them as a table");
            None
        }
    }
}

#[cfg(test)]
mod tests;

//! The results of calls, as clients get them: how a run ended, and how to go on.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;
use strata_core::record::event::Status;
use strata_view::wording::{commented_command, shell_command};
use strata_view::{FaultView, RequestView, RunEnding};

use super::arguments::RunName;

/// Returns the result for a run that has ended.
pub(super) fn ended(tool: &str, run: &RunName, ending: &RunEnding) -> CallToolResult {
    let output = ending.output.as_ref().map(|output| output.content.clone());
    let structured = json!({
        "run": run.as_str(),
        "status": ending.status.name(),
        "output": output,
    });
    let mut result = if ending.status == Status::Done {
        CallToolResult::success(vec![ContentBlock::text(output.unwrap_or_default())])
    } else {
        error(describe(tool, run, ending))
    };
    result.structured_content = Some(structured);
    result
}

/// Returns the result for a call that failed before there was a run, or because of an error of the
/// machine.
pub(super) fn error(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// Returns the result for arguments that do not match the schema of the tool, so that a model can do
/// better.
pub(super) fn invalid_arguments(why: &str) -> CallToolResult {
    error(format!("invalid: the arguments do not match: {why}"))
}

/// Describes why a run is not done, and how it goes on.
fn describe(tool: &str, run: &RunName, ending: &RunEnding) -> String {
    let mut lines: Vec<String> = ending.faults.iter().map(FaultView::headline).collect();
    let name = run.as_str();
    lines.push(format!(
        "The run `{name}` {}.",
        status_phrase(ending.status)
    ));
    for doubt in &ending.in_doubt {
        lines.push(format!(
            "Whether {} took effect is not known: {}",
            doubt.id, doubt.what
        ));
    }
    if let Some(answer) = &ending.requests.answer_command {
        for request in &ending.requests.requests {
            lines.push(describe_request(request));
        }
        lines.push(format!(
            "A person answers with:\n  {}",
            shell_command(answer)
        ));
    }
    let again = format!("Call `{tool}` again with `run` = `{name}` to go on with it");
    lines.push(if ending.resume_commands.is_empty() {
        format!("{again}.")
    } else {
        format!("{again}, or use one of these commands:")
    });
    for command in &ending.resume_commands {
        lines.push(format!("  {}", commented_command(command)));
    }
    lines.join("\n")
}

fn describe_request(request: &RequestView) -> String {
    let mut text = format!(
        "{} asks ({}): {}",
        request.role, request.id, request.question
    );
    if let Some(arguments) = &request.arguments {
        text += &format!("\n  with {}", arguments.as_str());
    }
    text
}

fn status_phrase(status: Status) -> &'static str {
    match status {
        Status::Done => "is done",
        Status::Failed => "failed",
        Status::Waiting => "waits for a person",
        Status::OutOfBudget => "is out of budget",
        Status::Stalled => "is stalled: a join waits for messages, and no role is running",
        Status::StepLimit => "reached its limit of steps",
        Status::InDoubt => "is in doubt: a write was begun, and its result is not known",
        Status::Interrupted => "was interrupted and is saved",
        Status::Running => "was cut off and is saved",
        Status::Cancelled => "was cancelled",
        Status::Paused => "is paused",
    }
}

//! `inspect --conversation`: shows what the model of a role was told, its replies, and what became of
//! its tool calls.

use strata_core::record::conversation::Part;
use strata_core::record::money::Usd;
use strata_core::team::Team;
use strata_host::launch::for_each_conversation;
use strata_host::storage::{StateSelector, StorageLocation};
use strata_host::suggest::did_you_mean;
use strata_host::view::SavedTeam;
use strata_host::view::{
    ActionFault, CommandArgument, ConversationView, NestedCallView, ReplacementView,
    SuggestedCommand, ToolCallOutcome, ToolCallView, TurnView, describe_part,
};
use strata_host::wording::shell_command;

use super::Inspected;
use crate::run_at_server::add_server;
use crate::{CommandFailure, Printer, pluralize, preview};

/// The maximum number of characters shown of a text. `--json` has all of it.
const PREVIEW_CHARS: usize = 1000;
/// The maximum number of stack frames shown.
const MAX_FRAMES: usize = 8;

/// Shows the newest conversation of a role.
pub(super) fn show(
    inspected: &Inspected<'_>,
    saved: &SavedTeam,
    role: &str,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut newest = None;
    let mut count: u64 = 0;
    for_each_conversation(
        inspected.location,
        inspected.at,
        saved,
        &mut |conversation| {
            if conversation.role == role {
                newest = Some(conversation);
                count += 1;
            }
        },
    )?;
    let Some(conversation) = newest else {
        printer.print_line(&format!("`{role}` has not talked to a model yet"));
        return Ok(());
    };
    show_conversation(&conversation, printer);
    let place = CommandArgument::Path(inspected.place().into());
    let words = ["--conversation", role, "--json"].map(CommandArgument::word);
    let mut command = SuggestedCommand::from_subcommand("inspect", [place]).with(words);
    if let Some(run) = inspected.served {
        add_server(&mut command, run.server);
    }
    let all = match count {
        1 => String::new(),
        count => format!(", and {} before it", pluralize(count - 1, "conversation")),
    };
    printer.print_line("");
    printer.print_line(&format!("in full{all}: {}", shell_command(&command)));
    Ok(())
}

/// Prints the conversations of a role as JSON, oldest first, an object a line.
pub(super) fn print_json(
    location: &StorageLocation,
    at: &StateSelector,
    saved: &SavedTeam,
    role: &str,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    for_each_conversation(location, at, saved, &mut |conversation| {
        if conversation.role == role {
            // Only maps with keys that are not strings cannot be serialised, and there are none.
            printer.print_json(&serde_json::to_string(&conversation).unwrap_or_default());
        }
    })?;
    Ok(())
}

/// Fails unless the team has a role of this name whose model works with tools.
pub(super) fn require_tool_role(team: &Team, name: &str) -> Result<(), CommandFailure> {
    let role = team.roles.iter().find(|role| role.name == name);
    if role.is_some_and(|role| role.tool_loop().is_some()) {
        return Ok(());
    }
    let with_tools = team.roles.iter().filter(|role| role.tool_loop().is_some());
    let names: Vec<&str> = with_tools.map(|role| role.name.as_str()).collect();
    let hint = did_you_mean(name, names.iter().copied());
    Err(CommandFailure::usage(match (role, names.is_empty()) {
        (Some(_), _) => format!(
            "the model of `{name}` does not work with tools, so there is no conversation; \
             `inspect --calls` lists its model calls"
        ),
        (None, true) => {
            format!("the team has no role `{name}`, and no role whose model works with tools")
        }
        (None, false) => format!(
            "the team has no role `{name}`{hint}; roles whose model works with tools: {}",
            names.join(", ")
        ),
    }))
}

fn show_conversation(conversation: &ConversationView, printer: &Printer) {
    printer.print_line(&format!(
        "{}, step {}, {}{}",
        conversation.role,
        conversation.step,
        pluralize(conversation.turns.len() as u64, "turn"),
        describe_cost(conversation.cost)
    ));
    for news in &conversation.news {
        let from = match news.from.as_str() {
            "" => "outside",
            from => from,
        };
        printer.print_line("");
        printer.print_line(&format!("{from} [{}]", news.cause_by));
        print_indented(&news.content, 1, printer);
        show_parts(&news.parts, 1, printer);
    }
    let mut replacements = conversation.replacements.iter().peekable();
    for turn in &conversation.turns {
        while let Some(replaced) = replacements.next_if(|replaced| replaced.turn <= turn.turn) {
            show_replacement(replaced, printer);
        }
        show_turn(turn, printer);
    }
    for replaced in replacements {
        show_replacement(replaced, printer);
    }
    if let Some(fault) = &conversation.fault {
        printer.print_line("");
        printer.print_line(&format!("turn {}  FAILED", conversation.turns.len()));
        print_indented(&format!("{}: {}", fault.kind, fault.message), 1, printer);
    }
}

/// Shows which messages are no longer sent from here on, and what is sent in their place.
fn show_replacement(replaced: &ReplacementView, printer: &Printer) {
    let messages = match replaced.messages {
        Some((from, to)) => format!("messages {from} to {to} replaced"),
        None => "no message replaced".to_owned(),
    };
    printer.print_line("");
    printer.print_line(&format!(
        "before turn {}  {messages}: {}, about {} tokens instead of {}{}",
        replaced.turn,
        replaced.how,
        replaced.tokens_after,
        replaced.tokens_before,
        describe_cost(replaced.cost)
    ));
    if let Some(summary) = &replaced.summary {
        print_indented(summary, 1, printer);
    }
    if let Some(failure) = &replaced.failure {
        print_indented(&format!("no summary: {failure}"), 1, printer);
    }
}

fn show_turn(turn: &TurnView, printer: &Printer) {
    printer.print_line("");
    printer.print_line(&format!(
        "turn {}  {}, {}{}",
        turn.turn,
        turn.model,
        turn.finish.name(),
        describe_cost(turn.cost)
    ));
    if !turn.reasoning.is_empty() {
        print_indented(&format!("(reasoning) {}", turn.reasoning), 1, printer);
    }
    if !turn.text.trim().is_empty() {
        print_indented(&turn.text, 1, printer);
    }
    if let Some(reason) = &turn.misfit {
        print_indented(&format!("not accepted: {reason}"), 1, printer);
    }
    for call in &turn.calls {
        show_tool_call(call, printer);
    }
}

fn show_tool_call(call: &ToolCallView, printer: &Printer) {
    let attempts = match call.attempts {
        0 | 1 => String::new(),
        attempts => format!(" (attempts {attempts})"),
    };
    print_indented(
        &format!(
            "{}{attempts}{} {}",
            call.tool,
            describe_cost(call.cost),
            preview(&call.arguments, PREVIEW_CHARS)
        ),
        1,
        printer,
    );
    let person = call.decided_by.as_deref().unwrap_or("a person");
    if let Some(edited) = &call.edited_arguments {
        let text = format!("changed by {person} to {}", edited.as_str());
        print_indented(&text, 2, printer);
    } else if call.was_approved() {
        print_indented(&format!("approved by {person}"), 2, printer);
    }
    for fault in &call.earlier_faults {
        let text = format!(
            "an earlier attempt failed: {}: {}",
            fault.kind, fault.message
        );
        print_indented(&text, 2, printer);
    }
    show_nested_calls(&call.nested, 2, printer);
    show_outcome(&call.outcome, person, 2, printer);
}

/// Prints the calls that code made, each followed by those within it and by what became of it.
fn show_nested_calls(calls: &[NestedCallView], levels: usize, printer: &Printer) {
    for call in calls {
        let attempts = match call.attempts {
            0 | 1 => String::new(),
            attempts => format!(" (attempts {attempts})"),
        };
        let arguments = preview(&call.arguments, PREVIEW_CHARS);
        let text = format!("call {}: {}{attempts} {arguments}", call.number, call.tool);
        print_indented(&text, levels, printer);
        show_nested_calls(&call.nested, levels + 1, printer);
        let person = call.decided_by.as_deref().unwrap_or("a person");
        show_outcome(&call.outcome, person, levels + 1, printer);
    }
}

fn show_outcome(outcome: &ToolCallOutcome, person: &str, levels: usize, printer: &Printer) {
    let print = |text: &str| print_indented(text, levels, printer);
    match outcome {
        ToolCallOutcome::Returned { parts, .. } => {
            print(outcome.result().unwrap_or_default());
            show_parts(parts, levels, printer);
        }
        ToolCallOutcome::FaultReturned { fault } => {
            show_fault("failed, and the model was told", fault, levels, printer);
        }
        ToolCallOutcome::Failed { fault } => show_fault("FAILED", fault, levels, printer),
        ToolCallOutcome::Rejected { reason } => print(&format!("rejected: {reason}")),
        ToolCallOutcome::Declined { reason } => print(&format!("declined by {person}: {reason}")),
        ToolCallOutcome::WaitsForHuman => print("waits for a person"),
        ToolCallOutcome::Running => print("running"),
        ToolCallOutcome::Pending => print("not made yet"),
    }
}

/// Shows the images, files and further texts of a message or a result.
fn show_parts(parts: &[Part], levels: usize, printer: &Printer) {
    for part in parts {
        print_indented(&describe_part(part), levels, printer);
    }
}

fn show_fault(what: &str, fault: &ActionFault, levels: usize, printer: &Printer) {
    let text = format!("{what}: {}: {}", fault.kind, fault.message);
    print_indented(&text, levels, printer);
    for frame in fault.backtrace.iter().take(MAX_FRAMES) {
        print_indented(frame, levels + 1, printer);
    }
}

/// Prints the beginning of a text, each line indented by `levels`.
fn print_indented(text: &str, levels: usize, printer: &Printer) {
    let shown: String = text.trim_end().chars().take(PREVIEW_CHARS).collect();
    let more = if shown.len() < text.trim_end().len() {
        "…"
    } else {
        ""
    };
    for line in format!("{shown}{more}").lines() {
        printer.print_line(&format!("{}{line}", "  ".repeat(levels)));
    }
}

/// Returns `, $0.01`, or nothing if it was free.
fn describe_cost(cost: Usd) -> String {
    if cost == Usd::ZERO {
        String::new()
    } else {
        format!(", {cost}")
    }
}

//! The section with the conversations of roles whose model works with tools.

use strata_core::record::money::Usd;

use super::super::conversation::ToolCallEntryOutcome;
use super::super::{ConversationEntry, Excerpt, Report, ToolCallEntry, TurnEntry};
use super::HtmlPage;
use super::escape::esc;
use super::time::{format_money, format_number, pluralize};

/// Writes the conversations, newest first. The newest is unfolded.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.conversations.total() == 0 {
        return;
    }
    page.open_section(
        "conversations",
        "Conversations",
        Some(report.conversations.total()),
    );
    page.note_omitted_rows(&report.conversations, "conversations");
    for (place, conversation) in report.conversations.iter().rev().enumerate() {
        write_conversation(page, conversation, place == 0);
    }
    page.close_section();
}

fn write_conversation(page: &mut HtmlPage, conversation: &ConversationEntry, is_newest: bool) {
    let open = if is_newest { " open" } else { "" };
    page.write(format_args!(
        "<details class=\"conversation\"{open}><summary><b>{}</b> <span class=\"note\">step {}, {}{}</span></summary>\n\
         <ol class=\"turns\">\n",
        esc(&conversation.role),
        conversation.step,
        pluralize(conversation.turns.total(), "turn", "turns"),
        describe_cost(conversation.cost),
    ));
    for news in &conversation.news {
        let from = match news.from.as_str() {
            "" => "outside",
            from => from,
        };
        page.write(format_args!(
            "<li class=\"news\"><div class=\"way\"><b>{}</b> <span class=\"label\">{}</span></div>\n",
            esc(from),
            esc(&news.cause)
        ));
        page.write_text(&news.text);
        page.write(format_args!("</li>\n"));
    }
    let gap = conversation.turns.gap();
    for (place, turn) in conversation.turns.iter().enumerate() {
        if let Some((_, count)) = gap.filter(|(at, _)| *at == place) {
            page.write(format_args!(
                "<li class=\"gap\">{} turns are left out here</li>\n",
                format_number(count)
            ));
        }
        write_turn(page, turn);
    }
    if let Some(fault) = &conversation.fault {
        page.write(format_args!(
            "<li><span class=\"tag bad\">the next turn failed</span> "
        ));
        page.write_text(fault);
        page.write(format_args!("</li>\n"));
    }
    page.write(format_args!("</ol></details>\n"));
}

fn write_turn(page: &mut HtmlPage, turn: &TurnEntry) {
    page.write(format_args!(
        "<li><div class=\"way\"><b>{}</b> <span class=\"note\">turn {}, {}{}</span></div>\n",
        esc(&turn.model),
        turn.number,
        turn.finish,
        describe_cost(turn.cost),
    ));
    if let Some(reasoning) = &turn.reasoning {
        page.write(format_args!(
            "<div class=\"reasoning\"><span class=\"note\">reasoning</span> "
        ));
        page.write_text(reasoning);
        page.write(format_args!("</div>\n"));
    }
    let has_text = !turn.text.shown.trim().is_empty();
    if has_text || turn.calls.total() == 0 {
        page.write_text(&turn.text);
    }
    if let Some(misfit) = &turn.misfit {
        page.write(format_args!(
            "<p><span class=\"tag bad\">not accepted</span> "
        ));
        page.write_text(misfit);
        page.write(format_args!("</p>\n"));
    }
    if turn.calls.total() > 0 {
        page.write(format_args!("<ol class=\"tool-calls\">\n"));
        for call in turn.calls.iter() {
            write_tool_call(page, call);
        }
        if let Some((_, count)) = turn.calls.gap() {
            page.write(format_args!(
                "<li class=\"gap\">{} tool calls are left out</li>\n",
                format_number(count)
            ));
        }
        page.write(format_args!("</ol>\n"));
    }
    page.write(format_args!("</li>\n"));
}

fn write_tool_call(page: &mut HtmlPage, call: &ToolCallEntry) {
    let attempts = match call.attempts {
        0 | 1 => String::new(),
        attempts => format!(" <span class=\"again\">{attempts} attempts</span>"),
    };
    page.write(format_args!(
        "<li><div class=\"way\"><b>{}</b>{attempts}{} <span class=\"note\">{}</span></div>\n",
        esc(&call.tool),
        outcome_tag(call.outcome),
        describe_cost(call.cost).trim_start_matches(", "),
    ));
    write_labelled(page, "arguments", &call.arguments);
    if let Some(edited) = &call.edited_arguments {
        write_labelled(page, "changed by a person to", edited);
    }
    if let Some(person) = &call.decided_by {
        write_labelled(page, "decided by", person);
    }
    for fault in &call.earlier_faults {
        write_labelled(page, "an earlier attempt failed", fault);
    }
    if call.outcome != ToolCallEntryOutcome::Open
        && call.outcome != ToolCallEntryOutcome::WaitsForHuman
    {
        write_labelled(page, "result", &call.text);
    }
    if !call.backtrace.is_empty() {
        page.write(format_args!("<pre class=\"lines\">"));
        for frame in &call.backtrace {
            page.write(format_args!("{}\n", esc(&frame.shown)));
        }
        page.write(format_args!("</pre>\n"));
    }
    page.write(format_args!("</li>\n"));
}

fn write_labelled(page: &mut HtmlPage, label: &str, text: &Excerpt) {
    page.write(format_args!(
        "<div class=\"data\"><span class=\"note\">{label}</span> "
    ));
    page.write_text(text);
    page.write(format_args!("</div>\n"));
}

fn outcome_tag(outcome: ToolCallEntryOutcome) -> &'static str {
    match outcome {
        ToolCallEntryOutcome::Returned => "",
        ToolCallEntryOutcome::FaultReturned => {
            " <span class=\"tag bad\">failed; the model was told</span>"
        }
        ToolCallEntryOutcome::Rejected => " <span class=\"tag bad\">rejected</span>",
        ToolCallEntryOutcome::Declined => " <span class=\"tag\">declined by a person</span>",
        ToolCallEntryOutcome::Failed => " <span class=\"tag bad\">failed</span>",
        ToolCallEntryOutcome::WaitsForHuman => " <span class=\"tag\">waits for a person</span>",
        ToolCallEntryOutcome::Open => " <span class=\"tag\">not finished</span>",
    }
}

/// Returns `, $0.01`, or nothing if it was free.
fn describe_cost(cost: Usd) -> String {
    if cost == Usd::ZERO {
        String::new()
    } else {
        format!(", {}", format_money(cost))
    }
}

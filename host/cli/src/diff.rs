//! `diff`: shows how two states of a run differ. `difference` compares them.

use serde::Deserialize;
use serde_json::{Value, json};
use strata_host::difference::{MessageDifference, MessageSummary, StateDifference, ValueChange};
use strata_host::excerpt::around_difference;
use strata_host::launch::{ComparedState, compare};

use super::sanitize::sanitize;
use super::{CommandFailure, DiffArgs, Printer, preview};

/// The maximum number of characters shown of a value or a message.
const PREVIEW_CHARS: usize = 60;
/// The maximum number of characters shown of each of two values that differ, around their first difference.
const DIFFERENCE_CHARS: usize = 160;

pub(super) fn diff(args: &DiffArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let compared = compare(&args.one, &args.other)?;
    if args.json {
        let document = json!({
            "one": side_json(&compared.one), "other": side_json(&compared.other),
            "common": compared.common.as_ref().map(|id| &id.0),
            "difference": compared.difference,
        });
        printer.print_json(&document.to_string());
        return Ok(0);
    }
    let sides = [side_of(&compared.one), side_of(&compared.other)];
    let common = compared.common.as_ref().map(|id| id.0.as_str());
    show(&sides, common, &compared.difference, printer);
    Ok(0)
}

/// One of the two states, as it is shown.
#[derive(Deserialize)]
pub(super) struct ComparedSide {
    /// What names the run. A server does not repeat it.
    #[serde(default)]
    pub(super) place: String,
    lineage: String,
    checkpoint: Option<String>,
    /// The first checkpoint that the other state does not come from.
    first: Option<String>,
}

/// Shows how two states differ.
pub(super) fn show(
    sides: &[ComparedSide; 2],
    common: Option<&str>,
    difference: &StateDifference,
    printer: &Printer,
) {
    show_divergence(sides, common, printer);
    if difference.is_empty() {
        printer.print_line("");
        printer.print_line("the states are the same");
    }
    show_difference(difference, printer);
}

fn side_of(side: &ComparedState) -> ComparedSide {
    ComparedSide {
        place: side.storage.to_string(),
        lineage: side.lineage.clone(),
        checkpoint: side.checkpoint.as_ref().map(|id| id.0.clone()),
        first: side.first.as_ref().map(|id| id.0.clone()),
    }
}

fn side_json(side: &ComparedState) -> Value {
    json!({
        "path": side.storage.path(), "lineage": side.lineage,
        "checkpoint": side.checkpoint.as_ref().map(|id| &id.0), "first": side.first.as_ref().map(|id| &id.0),
    })
}

/// Shows where the two lineages diverge.
fn show_divergence(sides: &[ComparedSide; 2], common: Option<&str>, printer: &Printer) {
    const NONE: &str = "none";
    for (mark, side) in ['-', '+'].into_iter().zip(sides) {
        let checkpoint = side.checkpoint.as_deref().unwrap_or(NONE);
        printer.print_line(&format!(
            "{mark} {} at {checkpoint}, lineage {}",
            side.place, side.lineage
        ));
    }
    printer.print_line("");
    printer.print_line(&format!("last in common  {}", common.unwrap_or(NONE)));
    let [one, other] = sides
        .each_ref()
        .map(|side| side.first.as_deref().unwrap_or(NONE));
    printer.print_line(&format!("first apart     - {one}"));
    printer.print_line(&format!("                + {other}"));
}

fn show_difference(difference: &StateDifference, printer: &Printer) {
    show_changes("run", &difference.run, format_value, printer);
    let scopes = difference.scopes.iter().map(|key| {
        let name = format!("{}/{}", key.scope, key.change.name);
        ValueChange {
            name,
            ..key.change.clone()
        }
    });
    show_changes(
        "scopes",
        &scopes.collect::<Vec<_>>(),
        Value::to_string,
        printer,
    );
    for mailbox in &difference.mailboxes {
        show_messages(&format!("mailbox of {}", mailbox.name), mailbox, printer);
    }
    for join in &difference.joins {
        show_messages(&format!("join {}", join.name), join, printer);
    }
    if let Some(published) = &difference.published {
        show_messages("published", published, printer);
    }
    show_changes("at work", &difference.open, format_value, printer);
    show_changes(
        "messages remembered",
        &difference.memory,
        format_value,
        printer,
    );
    show_changes("components", &difference.components, format_value, printer);
}

fn show_changes(
    title: &str,
    changes: &[ValueChange],
    text: fn(&Value) -> String,
    printer: &Printer,
) {
    if changes.is_empty() {
        return;
    }
    printer.print_line("");
    printer.print_line(title);
    for change in changes {
        printer.print_line(&format!("  {}", change.name));
        let previews = match (&change.one, &change.other) {
            (Some(one), Some(other)) => preview_difference(&text(one), &text(other)).map(Some),
            (one, other) => [one, other].map(|value| {
                let value = value.as_ref();
                value.map(|value| preview(&text(value), PREVIEW_CHARS))
            }),
        };
        for (mark, value) in ['-', '+'].into_iter().zip(previews) {
            if let Some(value) = value {
                printer.print_line(&format!("    {mark} {value}"));
            }
        }
    }
}

/// Returns the parts of two texts around their first difference, each on one line.
fn preview_difference(one: &str, other: &str) -> [String; 2] {
    around_difference(one, other, DIFFERENCE_CHARS).map(|part| sanitize(&part).replace('\n', "\\n"))
}

fn show_messages(title: &str, messages: &MessageDifference, printer: &Printer) {
    printer.print_line("");
    printer.print_line(title);
    let sides = [
        ('-', &messages.one, &messages.other),
        ('+', &messages.other, &messages.one),
    ];
    for (mark, side, opposite) in sides {
        for message in side {
            let counterpart = opposite.iter().find(|other| other.id == message.id);
            let content = match counterpart {
                // The first of the two parts is that of the first text.
                Some(other) => {
                    let [own, _] = preview_difference(&message.content, &other.content);
                    own
                }
                None => preview(&message.content, PREVIEW_CHARS),
            };
            printer.print_line(&format!("  {mark} {}", describe_message(message, &content)));
        }
    }
}

/// Describes a message of which `content` is shown.
fn describe_message(message: &MessageSummary, content: &str) -> String {
    let from = if message.from.is_empty() {
        "outside"
    } else {
        &message.from
    };
    format!(
        "{} from {from} [{}] {content}",
        message.id, message.cause_by
    )
}

/// Formats a value for people: strings without quotes, lists as one line.
fn format_value(value: &Value) -> String {
    match value {
        Value::Array(list) if list.iter().all(Value::is_string) && !list.is_empty() => list
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("; "),
        Value::Array(list) if list.is_empty() => "none".into(),
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

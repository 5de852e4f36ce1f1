//! `diff`: shows how two states of a run differ. `difference` compares them.

use serde_json::{Value, json};

use super::{DiffArgs, Failure, preview, show_json, show_line};
use crate::difference::{Brief, Change, Difference, Messages};
use crate::launch::{Comparison, Side, compare};

/// The maximum number of characters shown of a value or a message.
const PREVIEW: usize = 60;

pub(super) fn diff(args: &DiffArgs) -> Result<u8, Failure> {
    let compared = compare(&args.one, &args.other)?;
    if args.json {
        let told = json!({
            "one": side_json(&compared.one), "other": side_json(&compared.other),
            "common": compared.common.as_ref().map(|id| &id.0),
            "difference": compared.difference,
        });
        show_json(&told.to_string());
        return Ok(0);
    }
    parting(&compared);
    let difference = &compared.difference;
    if difference.is_empty() {
        show_line("");
        show_line("the states are the same");
    }
    show(difference);
    Ok(0)
}

fn side_json(side: &Side) -> Value {
    json!({
        "path": side.path, "lineage": side.lineage,
        "checkpoint": side.checkpoint.as_ref().map(|id| &id.0), "first": side.first.as_ref().map(|id| &id.0),
    })
}

/// Shows where the two lineages diverge.
fn parting(compared: &Comparison) {
    for (mark, side) in [('-', &compared.one), ('+', &compared.other)] {
        let checkpoint = side.checkpoint.as_ref().map_or("none", |id| id.0.as_str());
        show_line(&format!(
            "{mark} {} at {checkpoint}, lineage {}",
            side.path.display(),
            side.lineage
        ));
    }
    show_line("");
    show_line(&format!(
        "last in common  {}",
        compared.common.as_ref().map_or("none", |id| id.0.as_str())
    ));
    let first = |side: &Side| {
        side.first
            .as_ref()
            .map_or("none".to_owned(), |id| id.0.clone())
    };
    show_line(&format!("first apart     - {}", first(&compared.one)));
    show_line(&format!("                + {}", first(&compared.other)));
}

fn show(difference: &Difference) {
    changes("run", &difference.run, plain);
    let scopes = difference.scopes.iter().map(|key| {
        let name = format!("{}/{}", key.scope, key.change.name);
        Change {
            name,
            ..key.change.clone()
        }
    });
    changes("scopes", &scopes.collect::<Vec<_>>(), Value::to_string);
    for mailbox in &difference.mailboxes {
        messages(&format!("mailbox of {}", mailbox.name), mailbox);
    }
    for join in &difference.joins {
        messages(&format!("join {}", join.name), join);
    }
    if let Some(published) = &difference.published {
        messages("published", published);
    }
    changes("at work", &difference.open, plain);
    changes("messages remembered", &difference.memory, plain);
    changes("components", &difference.components, plain);
}

fn changes(title: &str, changes: &[Change], text: fn(&Value) -> String) {
    if changes.is_empty() {
        return;
    }
    show_line("");
    show_line(title);
    for change in changes {
        show_line(&format!("  {}", change.name));
        for (mark, value) in [('-', &change.one), ('+', &change.other)] {
            if let Some(value) = value {
                show_line(&format!("    {mark} {}", preview(&text(value), PREVIEW)));
            }
        }
    }
}

fn messages(title: &str, messages: &Messages) {
    show_line("");
    show_line(title);
    for (mark, side) in [('-', &messages.one), ('+', &messages.other)] {
        for message in side {
            show_line(&format!("  {mark} {}", told(message)));
        }
    }
}

fn told(message: &Brief) -> String {
    let from = if message.from.is_empty() {
        "outside"
    } else {
        &message.from
    };
    format!(
        "{} from {from} [{}] {}",
        message.id,
        message.cause_by,
        preview(&message.content, PREVIEW)
    )
}

/// Formats a value for people: strings without quotes, lists as one line.
fn plain(value: &Value) -> String {
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

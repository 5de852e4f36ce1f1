//! `inspect --calls`: lists the recorded host calls with requests and responses.

use std::path::Path;

use strata_core::host_call::HostCall;
use strata_core::money::Usd;

use super::table::Table;
use crate::cli::fault::answer;
use crate::cli::{Failure, path_word, preview, shell_word, show_json, show_line};
use crate::launch::calls;
use crate::narrator::Line;

/// The maximum number of characters shown of a request and of a response.
const PREVIEW: usize = 40;

/// Shows the calls of one action, `ROLE.ACTION`, or of all.
pub(super) fn show(path: &Path, action: Option<&str>) -> Result<(), Failure> {
    let mut table = Table::new(&[
        "time", "step", "action", "call", "source", "cost", "finish", "request", "answer",
    ]);
    each(path, action, &mut |line, call| {
        let field = |name: &str| {
            line.fields
                .get(name)
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        let cost = line
            .fields
            .get("cost")
            .and_then(serde_json::Value::as_f64)
            .unwrap_or_default();
        let row = [
            crate::narrator::rfc3339(line.time_ms),
            field("step"),
            name(line),
            line.text("call").to_owned(),
            line.text("source").to_owned(),
            Usd::from_dollars(cost).to_string(),
            call.finish
                .map_or_else(|| "-".to_owned(), |finish| finish.name().to_owned()),
            preview(line.text("what"), PREVIEW),
            preview(&answer(call), PREVIEW),
        ];
        table.row(row);
    })?;
    table.print();
    if !table.is_empty() {
        let action = action
            .map(|name| format!(" --action {}", shell_word(name)))
            .unwrap_or_default();
        show_line("");
        show_line(&format!(
            "in full: strata-host inspect {} --calls{action} --json",
            path_word(path)
        ));
    }
    Ok(())
}

/// Prints the calls as JSON, one object a line: their public events, with the field `response`.
pub(super) fn print_json(path: &Path, action: Option<&str>) -> Result<(), Failure> {
    each(path, action, &mut |line, call| {
        let mut line = line.clone();
        line.fields
            .insert("response".to_owned(), call.response.value());
        show_json(&line.to_json());
    })
}

fn each(
    path: &Path,
    action: Option<&str>,
    tell: &mut dyn FnMut(&Line, &HostCall),
) -> Result<(), Failure> {
    calls(path, &mut |line, call| {
        if action.is_none_or(|action| action == name(line)) {
            tell(line, call);
        }
    })
    .map_err(Failure::from)
}

fn name(line: &Line) -> String {
    format!("{}.{}", line.text("role"), line.text("action"))
}

//! The page about event lines.

use strata_host::narrator::{KINDS, Presence};

use super::cell;

const HEAD: &str = "# Events

Everything that happens in a run is told as a line of JSON: by `run --events FILE` (`-` for stdout) while it happens, by
`events PATH` afterwards, the same lines both times. Every line is on record before it is
printed and survives `kill -9`; finished work, answers and payments also survive a power failure. Each has `n`, which
counts lines from 1 over all runs on a storage, `time`, in UTC, `kind`, and the fields below. Fields in *italics* are
there where there is something to tell. New kinds and fields may come; those that are here stay.

How a run ended (`status` of `run-ended`) is also its [exit code](commands.md#exit-codes).

";

pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for kind in KINDS {
        page += &format!("## `{}`\n\n{}\n\n", kind.name, kind.about);
        if kind.fields().next().is_some() {
            page += "| field | holds |\n|---|---|\n";
        }
        for field in kind.fields() {
            let name = match field.presence {
                Presence::Always => format!("`{}`", field.name),
                Presence::Sometimes => format!("*`{}`*", field.name),
            };
            page += &format!("| {name} | {} |\n", cell(field.about));
        }
        page += "\n";
    }
    page.trim_end().to_owned() + "\n"
}

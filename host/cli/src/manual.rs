//! `completions` and `man`: generate shell completions and manual pages from the declared
//! arguments.

use std::path::Path;

use clap_complete::Shell;

use super::help::command;
use super::{CommandFailure, Printer};

pub(super) fn completions(shell: Shell, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "strata-host", &mut text);
    let text = String::from_utf8_lossy(&text);
    // clap_complete generates two different names for the subcommands of a program with a hyphen in
    // its name.
    printer.print(
        text.replace("strata__subcmd__host", "strata__host")
            .trim_end(),
    );
    Ok(0)
}

pub(super) fn pages(dir: &Path, printer: &Printer) -> Result<u8, CommandFailure> {
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command(), dir));
    written.map_err(|error| {
        CommandFailure::usage(format!(
            "cannot write manual pages to `{}`: {error}",
            dir.display()
        ))
    })?;
    printer.note(format_args!(
        "written to `{}`; `man -l {}` shows the first",
        dir.display(),
        first_page(dir)
    ));
    Ok(0)
}

fn first_page(dir: &Path) -> String {
    super::shell_word(&dir.join("strata-host.1").display().to_string())
}

//! `clean`: lists the contents of the caches and removes them.

use strata_host::caches::{CachePart, list_parts, remove_part};
use strata_host::suggest::suggest;
use strata_host::units::format_bytes;

use super::args::CleanArgs;
use super::{CommandFailure, Printer};

pub(super) fn clean(args: &CleanArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let parts = list_parts();
    if parts.is_empty() {
        printer.note("there is no cache directory: set XDG_CACHE_HOME or HOME");
    }
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    if let Some(unknown) = args
        .parts
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        let hint = suggest(unknown, &names)
            .map(|hint| format!("; {hint}"))
            .unwrap_or_default();
        return Err(CommandFailure::usage(format!(
            "the caches have no part `{unknown}`{hint}"
        )));
    }
    let is_chosen = |part: &CachePart| args.all || args.parts.iter().any(|name| name == part.name);
    if args.json {
        printer.print_document(&parts)?;
    } else {
        for part in &parts {
            printer.print_line(&format_row(part));
        }
    }
    if !args.all && args.parts.is_empty() {
        printer.note(
            "nothing was removed; `strata-host clean NAME…` removes these parts, `--all` removes all of them",
        );
        return Ok(0);
    }
    let mut freed = 0;
    for part in parts.iter().filter(|part| is_chosen(part)) {
        let place = part.path.display();
        let failed = |error: std::io::Error| {
            CommandFailure::internal(format!("cannot remove what is in `{place}`: {error}"))
        };
        if args.dry_run {
            freed += part.bytes;
            continue;
        }
        let removed = remove_part(part).map_err(failed)?;
        freed += removed.bytes;
        for path in removed.in_use {
            printer.note(format_args!(
                "`{}` is being made by another process and was left",
                path.display()
            ));
        }
    }
    let would = if args.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    printer.note(format_args!("{} {would}", format_bytes(freed)));
    Ok(0)
}

fn format_row(part: &CachePart) -> String {
    format!(
        "{:<11} {:>10}  {}, in `{}`",
        part.name,
        format_bytes(part.bytes),
        part.what,
        part.path.display()
    )
}

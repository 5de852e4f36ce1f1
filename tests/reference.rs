//! The pages of the documentation that are generated: team files and policies from their schemas,
//! commands from their help, events from their types. With `BLESS=1`, the pages are written.
//! `reference/team_file`, `commands` and `events` generate them.

mod commands;
mod events;
mod team_file;

use std::fs;

use crate::probe::project;

/// The notice at the beginning of each page.
const MADE: &str = "<!-- Made from the program by `BLESS=1 cargo test -p strata-tests reference`; not to be edited. -->\n\n";

/// Compares a page with the generated one.
fn check(page: &str, made: &str) {
    check_file(&format!("{page}.md"), &format!("{MADE}{made}"));
}

/// Compares a file of the documentation with the generated one.
fn check_file(name: &str, made: &str) {
    let file = project().join("docs/src").join(name);
    if std::env::var_os("BLESS").is_some() {
        crate::book::replace_page(&file, made);
    }
    let stands = fs::read_to_string(&file).unwrap_or_default();
    let differs = stands
        .lines()
        .zip(made.lines())
        .find(|(stands, made)| stands != made);
    assert!(
        stands == made,
        "{name} is not what the program says, first at {differs:?}; run with BLESS=1"
    );
}

/// Returns a text escaped for a cell of a table.
fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('\n', " ");
    // Text between backquotes is not escaped.
    let pieces = text.split('`').enumerate();
    let shown = pieces.map(|(n, piece)| {
        if n % 2 == 0 {
            piece.replace('<', "&lt;")
        } else {
            piece.to_owned()
        }
    });
    shown.collect::<Vec<_>>().join("`")
}

#[test]
fn the_page_about_team_files_is_made_from_their_schema() {
    check("reference", &team_file::page());
}

#[test]
fn the_page_about_policies_is_made_from_their_schema() {
    check("policy-reference", &team_file::policy_page());
}

#[test]
fn the_page_about_scripted_replies_is_made_from_their_schema() {
    check("replies-reference", &team_file::replies_page());
}

#[test]
fn the_page_about_commands_is_made_from_their_help() {
    check("commands", &commands::page());
}

#[test]
fn the_page_and_the_schema_of_events_are_made_from_their_type() {
    check("events", &events::page());
    check_file("events.schema.json", &events::schema());
}

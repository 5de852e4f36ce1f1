//! The page about commands.

use crate::workspace::Workspace;

const HEAD: &str = "# Commands

Data goes to stdout, everything else to stderr, with `--json` where programs want to read it. `strata-host man DIR` writes
the same as manual pages, `strata-host completions SHELL` writes a completion script.

";

/// The maximum number of words of a command: `skill add`.
const DEEPEST: usize = 2;

pub fn page() -> String {
    let place = Workspace::empty();
    let mut page = HEAD.to_owned();
    let whole = help(&place, &[]);
    page += &format!("## Exit codes\n\n```text\n{}\n```\n\n", exit_codes(&whole));
    for command in commands(&whole) {
        add(&mut page, &place, &[&command]);
    }
    page.trim_end().to_owned() + "\n"
}

/// Adds a command and its subcommands.
fn add(page: &mut String, place: &Workspace, path: &[&str]) {
    let help = help(place, path);
    let level = "#".repeat(path.len() + 1);
    *page += &format!(
        "{level} {}\n\n```text\n{}\n```\n\n",
        path.join(" "),
        help.trim_end()
    );
    if path.len() < DEEPEST {
        for command in commands(&help) {
            add(page, place, &[path, &[&command]].concat());
        }
    }
}

fn help(place: &Workspace, path: &[&str]) -> String {
    let text = place.host(&[path, &["--help"]].concat()).expect(0).stdout;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Returns the commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    // Long descriptions continue in the next line, with a larger indentation.
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

fn exit_codes(help: &str) -> &str {
    let at = help.find("Exit codes:").expect("the help tells them");
    help[at..]
        .trim_start_matches("Exit codes:")
        .trim_start_matches('\n')
        .trim_end()
}

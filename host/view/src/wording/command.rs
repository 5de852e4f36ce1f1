//! Suggested commands as text, quoted so that a shell interprets a copied command as intended.

use std::path::Path;

use strata_base::text::display_path::relative_path;
use strata_base::text::shell::{shell_path, shell_word, single_quoted};

use crate::{CommandArgument, SuggestedArguments, SuggestedCommand};

/// Returns a command for a shell, without its comment.
pub fn shell_command(command: &SuggestedCommand) -> String {
    format!(
        "{} {}",
        command.program,
        shell_arguments(&command.arguments)
    )
}

/// Returns a command for a shell, followed by its comment if it has one.
pub fn commented_command(command: &SuggestedCommand) -> String {
    add_comment(shell_command(command), command.comment.as_deref())
}

/// Returns arguments for a shell, followed by their comment if they have one.
pub fn commented_arguments(suggested: &SuggestedArguments) -> String {
    let text = shell_arguments(&suggested.arguments);
    add_comment(text, suggested.comment.as_deref())
}

fn add_comment(text: String, comment: Option<&str>) -> String {
    match comment {
        Some(comment) => format!("{text}   # {comment}"),
        None => text,
    }
}

/// Returns arguments for a shell, separated by spaces.
pub fn shell_arguments(arguments: &[CommandArgument]) -> String {
    let words: Vec<String> = arguments.iter().map(shell_argument).collect();
    words.join(" ")
}

fn shell_argument(argument: &CommandArgument) -> String {
    match argument {
        CommandArgument::Word(text) => shell_word(text),
        CommandArgument::Path(path) => shell_path(path),
        CommandArgument::TeamFile(path) => shell_path(Path::new(&relative_path(path))),
        CommandArgument::Placeholder(text) => text.clone(),
        CommandArgument::Template(text) => single_quoted(text),
        CommandArgument::Assignment { name, placeholder } => {
            format!("{}={placeholder}", shell_word(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_by_what_they_are() {
        let command =
            SuggestedCommand::from_subcommand("run", [CommandArgument::Path("-a b".into())])
                .with([
                    CommandArgument::word("it's"),
                    CommandArgument::placeholder("redo|skip|VALUE"),
                    CommandArgument::Template("ask-0=ANSWER".into()),
                    CommandArgument::Assignment {
                        name: "A.One".into(),
                        placeholder: "FIXED.wasm".into(),
                    },
                ])
                .commented("as an example");
        assert_eq!(
            commented_command(&command),
            r"strata-host run './-a b' 'it'\''s' redo|skip|VALUE 'ask-0=ANSWER' A.One=FIXED.wasm   # as an example"
        );
    }
}

//! Renders suggested commands, quoted so that a shell interprets a copied command as intended.

use std::path::Path;

use super::{display_relative_path, shell_path, shell_word};
use crate::shell::single_quoted;
use crate::view::{CommandArgument, SuggestedCommand};

/// Returns a command for a shell, without its comment.
pub(super) fn shell_command(command: &SuggestedCommand) -> String {
    format!(
        "{} {}",
        command.program,
        shell_arguments(&command.arguments)
    )
}

/// Returns arguments for a shell, separated by spaces.
pub(super) fn shell_arguments(arguments: &[CommandArgument]) -> String {
    let words: Vec<String> = arguments.iter().map(shell_argument).collect();
    words.join(" ")
}

fn shell_argument(argument: &CommandArgument) -> String {
    match argument {
        CommandArgument::Word(text) => shell_word(text),
        CommandArgument::Path(path) => shell_path(path),
        CommandArgument::TeamFile(path) => shell_path(Path::new(&display_relative_path(path))),
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
        let command = SuggestedCommand::new("run", [CommandArgument::Path("-a b".into())]).with([
            CommandArgument::word("it's"),
            CommandArgument::placeholder("redo|skip|VALUE"),
            CommandArgument::Template("ask-0=ANSWER".into()),
            CommandArgument::Assignment {
                name: "A.One".into(),
                placeholder: "FIXED.wasm".into(),
            },
        ]);
        assert_eq!(
            shell_command(&command),
            r"strata-host run './-a b' 'it'\''s' redo|skip|VALUE 'ask-0=ANSWER' A.One=FIXED.wasm"
        );
    }
}

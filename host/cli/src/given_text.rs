//! Texts that are given on the command line, or through stdin in place of `-`.

use std::io::Read;

use strata_host::launch::MAX_MESSAGE_BYTES;

use super::CommandFailure;

/// The word that stands for what stdin contains.
const STDIN: &str = "-";

/// Returns the content of a message, which is read from stdin if `text` is `-`.
pub(super) fn read_content(text: String) -> Result<String, CommandFailure> {
    let content = match text.as_str() {
        STDIN => std::io::read_to_string(std::io::stdin().take(MAX_MESSAGE_BYTES + 1)).map_err(
            |error| CommandFailure::usage(format!("cannot read the text from stdin: {error}")),
        )?,
        _ => text,
    };
    if content.len() as u64 > MAX_MESSAGE_BYTES {
        let hint = "put it into a file that is granted to the action, and send its name";
        return Err(CommandFailure::usage(format!(
            "the text has more than 16 MiB; {hint}"
        )));
    }
    Ok(content)
}

/// Returns the idea that a run starts with. One that is read from stdin has no line ends at its end. Fails if there is no
/// text in it.
pub(super) fn read_idea(text: Option<String>) -> Result<Option<String>, CommandFailure> {
    let Some(text) = text else { return Ok(None) };
    let is_from_stdin = text == STDIN;
    let mut idea = read_content(text)?;
    if is_from_stdin {
        idea.truncate(idea.trim_end_matches(['\r', '\n']).len());
    }
    if idea.trim().is_empty() {
        let what = "the idea is empty; leave it out to start with the one in the team file";
        return Err(CommandFailure::usage(what));
    }
    Ok(Some(idea))
}

//! The two words of a command that starts a run: the team file and the idea. A word is the team file if it ends in
//! `.toml`. A word that is or looks like another file is refused, because a misspelled team file would otherwise be paid
//! for as the idea of the team that is used by default.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use strata_host::manifest::{find_team_file, similar_path};
use strata_host::shell::{shell_path, shell_word};
use strata_host::unexpanded_path::UnexpandedPath;

use crate::failure::CommandFailure;

/// The team file if none is named.
pub(crate) const DEFAULT_TEAM: &str = "team.toml";

/// The extension of team files.
const TEAM_EXTENSION: &str = "toml";

/// How many letters the extension of a file has at most.
const MAX_EXTENSION_LETTERS: usize = 5;

/// What a command does with the idea.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdeaUse {
    /// It starts a run with the idea.
    Start {
        /// The command's name.
        command: &'static str,
    },
    /// It resumes a run, whose idea is saved.
    Ignore,
}

/// What the positional arguments of the command line name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TeamAndIdea {
    pub(crate) team: Option<PathBuf>,
    pub(crate) idea: Option<String>,
}

impl TeamAndIdea {
    /// Separates the team file from the idea. Fails if there are several of one kind, or if no team file is named and the
    /// idea is or looks like a file.
    pub(crate) fn parse(words: &[String], idea_use: IdeaUse) -> Result<Self, CommandFailure> {
        let (mut teams, mut ideas) = (Vec::new(), Vec::new());
        for word in words {
            if word.ends_with(".toml") {
                teams.push(word.clone());
            } else {
                ideas.push(word.clone());
            }
        }
        // An idea may end in the name of a file, too.
        if ideas.is_empty() && teams.len() > 1 {
            ideas.extend(teams.pop_if(|last| last.contains(char::is_whitespace)));
        }
        if let [one, two, ..] = teams.as_slice() {
            return Err(CommandFailure::usage(format!(
                "two team files were given, `{one}` and `{two}`; a run has one"
            )));
        }
        if teams.is_empty()
            && let Some(refusal) = ideas.iter().find_map(|idea| refuse_file(idea, idea_use))
        {
            return Err(CommandFailure::usage(refusal));
        }
        if ideas.len() > 1 {
            let what = "two ideas were given; put an idea of several words in quotes";
            return Err(CommandFailure::usage(what));
        }
        let unexpanded = teams.first().and_then(|team| UnexpandedPath::find(team));
        if let Some(unexpanded) = unexpanded {
            let hint = unexpanded.hint();
            return Err(CommandFailure::usage(format!("{unexpanded}: {hint}")));
        }
        Ok(Self {
            team: teams.into_iter().next().map(PathBuf::from),
            idea: ideas.into_iter().next(),
        })
    }

    /// Returns a warning if a team file is named and the idea may have been meant as another file.
    pub(crate) fn doubt(&self) -> Option<String> {
        let idea = self.idea.as_deref()?;
        is_likely_file(idea)
            .then(|| format!("`{idea}` does not end in `.toml`, so it was taken as the idea"))
    }
}

/// Fails if nothing is at the path that a word is, and a team file has a similar name.
pub(crate) fn refuse_misspelled_team(word: &str) -> Result<(), CommandFailure> {
    let path = Path::new(word);
    let meant = (looks_like_path(word) && !path.exists())
        .then(|| similar_team(path))
        .flatten();
    match meant {
        Some(meant) => Err(CommandFailure::usage(format!(
            "there is no `{word}`; did you mean `{meant}`?"
        ))),
        None => Ok(()),
    }
}

/// Returns why a word cannot be an idea, if it is that of a file or of a team's directory, or looks like the path of a
/// file.
fn refuse_file(word: &str, idea_use: IdeaUse) -> Option<String> {
    if word.contains(char::is_whitespace) {
        return None;
    }
    let path = Path::new(word);
    let (what, meant) = if path.is_dir() {
        (
            "is a directory, and no team file",
            Some(find_team_file(path)?),
        )
    } else if path.is_file() {
        (
            "is a file, but no team file, whose name ends in `.toml`",
            None,
        )
    } else if looks_like_path(word) {
        (
            "looks like the path of a file, and there is none",
            similar_team(path),
        )
    } else {
        return None;
    };
    let question = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let IdeaUse::Start { command } = idea_use else {
        return Some(format!("`{word}` {what}{question}"));
    };
    let team = if Path::new(DEFAULT_TEAM).is_file() {
        DEFAULT_TEAM
    } else {
        "TEAM.toml"
    };
    let how = format!(
        "to give this text as the idea all the same, name the team before it: `strata-host {command} {team} {}`",
        shell_word(word)
    );
    let content = if path.is_file() {
        format!(
            "; to give what is in the file: `strata-host {command} {team} \"$(cat {})\"`",
            shell_path(path)
        )
    } else {
        String::new()
    };
    let separator = if question.is_empty() { "; " } else { " " };
    Some(format!(
        "`{word}` {what}{question}{separator}{how}{content}"
    ))
}

/// Returns the team file that was most likely meant by a path at which nothing is.
fn similar_team(path: &Path) -> Option<String> {
    let named = path.with_extension(TEAM_EXTENSION);
    let found = if named.is_file() {
        Some(named)
    } else {
        similar_path(&named).filter(|found| found.is_file())
    };
    let is_team = |path: &PathBuf| path.extension() == Some(OsStr::new(TEAM_EXTENSION));
    found.filter(is_team).map(|path| path.display().to_string())
}

/// Returns whether a word looks like a path: it contains a separator, or ends in an extension. An address is none.
fn looks_like_path(word: &str) -> bool {
    let extension = Path::new(word).extension().and_then(OsStr::to_str);
    let has_extension = extension.is_some_and(|extension| {
        (1..=MAX_EXTENSION_LETTERS).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    !word.contains("://") && (has_extension || word.contains('/'))
}

/// Returns whether an idea for a team that is named is more likely a file: one that exists, or a misspelled team file.
fn is_likely_file(idea: &str) -> bool {
    let kind = Path::new(idea)
        .extension()
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    !idea.contains(char::is_whitespace)
        && ((kind.starts_with('t') && kind.ends_with("ml")) || Path::new(idea).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_separator_or_an_extension_looks_like_a_path() {
        for (word, expected) in [
            ("team.tml", true),
            ("team.TOML", true),
            ("teams/snake", true),
            ("./team", true),
            ("notes.md", true),
            ("snake", false),
            ("snake.", false),
            (".hidden", false),
            ("v1.2", false),
            ("3.14", false),
            ("note.longer", false),
            ("https://example.com/page.html", false),
        ] {
            assert_eq!(looks_like_path(word), expected, "{word}");
        }
    }

    #[test]
    fn a_word_that_looks_like_a_path_is_an_idea_only_after_a_team() {
        let idea_use = IdeaUse::Start { command: "run" };
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            TeamAndIdea::parse(&words, idea_use)
        };
        for idea in ["of/this", "a.game", "missing.tml"] {
            assert!(parse(&[idea]).is_err(), "{idea}");
            let parsed = parse(&["some.toml", idea]).expect("the team is named");
            assert_eq!(parsed.idea.as_deref(), Some(idea));
        }
        for idea in ["write a/b.c", "https://example.com/a", "snake"] {
            let parsed = parse(&[idea]).expect("it is an idea");
            assert_eq!(parsed.idea.as_deref(), Some(idea));
        }
        let refusal = refuse_file("missing.tml", IdeaUse::Ignore).expect("it is refused");
        assert!(!refusal.contains("as the idea"), "{refusal}");
    }
}

//! A component that replaces the one in a team file, as a program or the command line gives it, and
//! as it is saved with the team. Which slot it is for is decided in `manifest::overrides`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A component that replaces the one that a team file names.
///
/// It is for a slot of the team: `ROLE.ACTION`, or `ROLE.think` for what a role chooses with. A
/// relative path is relative to the working directory.
///
/// A program gives the slot and the file apart. The command line gives them as one text, in which
/// both may contain `=`. The text is therefore kept until the team is known: it is split at the
/// first `=` that follows the name of one of the team's slots.
///
/// ```
/// use strata_host::{ComponentReplacement, Overrides};
///
/// let overrides = Overrides {
///     components: vec![
///         ComponentReplacement::new("Engineer.WriteCode", "fixed.wasm"),
///         ComponentReplacement::from("Engineer.Review=review.wasm"),
///     ],
///     ..Overrides::default()
/// };
/// assert_eq!(overrides.components[0].to_string(), "Engineer.WriteCode=fixed.wasm");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ComponentReplacement {
    /// The slot and the file are known.
    Slot {
        /// The name of the slot.
        slot: String,
        /// The component, a directory with the source of one, or a script.
        file: PathBuf,
    },
    /// `SLOT=FILE`, as one text.
    Text(String),
}

/// A slot and a file that a replacement may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplacementReading<'a> {
    /// The name of the slot.
    pub(crate) slot: &'a str,
    /// The file.
    pub(crate) file: &'a Path,
}

impl ComponentReplacement {
    /// Returns the replacement of the component in a slot.
    pub fn new(slot: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self::Slot {
            slot: slot.into(),
            file: file.into(),
        }
    }

    /// Returns all that it may be about, in the order in which it is looked for in a team.
    pub(crate) fn readings(&self) -> Vec<ReplacementReading<'_>> {
        match self {
            Self::Slot { slot, file } => vec![ReplacementReading { slot, file }],
            Self::Text(text) => text
                .match_indices('=')
                .map(|(at, _)| ReplacementReading {
                    slot: &text[..at],
                    file: Path::new(&text[at + 1..]),
                })
                .collect(),
        }
    }
}

impl From<String> for ComponentReplacement {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ComponentReplacement {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<ComponentReplacement> for String {
    fn from(replacement: ComponentReplacement) -> Self {
        match replacement {
            ComponentReplacement::Text(text) => text,
            ComponentReplacement::Slot { .. } => replacement.to_string(),
        }
    }
}

impl fmt::Display for ComponentReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot { slot, file } => write!(f, "{slot}={}", file.display()),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_be_split_at_each_equal_sign() {
        let check = |replacement: ComponentReplacement, expected: &[(&str, &str)]| {
            let readings = replacement.readings();
            let found: Vec<_> = readings
                .iter()
                .map(|reading| (reading.slot, reading.file))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(slot, file)| (*slot, Path::new(*file)))
                .collect();
            assert_eq!(found, expected, "{replacement:?}");
        };
        check("A.p=p.wasm".into(), &[("A.p", "p.wasm")]);
        check("A.p=x=y".into(), &[("A.p", "x=y"), ("A.p=x", "y")]);
        check("A.p".into(), &[]);
        check(
            ComponentReplacement::new("A.p=x", "y=z"),
            &[("A.p=x", "y=z")],
        );
    }

    #[test]
    fn a_replacement_is_saved_as_one_text() {
        let both = [
            ComponentReplacement::new("A.p", "/p.wasm"),
            "A.p=/p.wasm".into(),
        ];
        let saved = serde_json::to_string(&both).unwrap();
        assert_eq!(saved, r#"["A.p=/p.wasm","A.p=/p.wasm"]"#);
        let read: Vec<ComponentReplacement> = serde_json::from_str(&saved).unwrap();
        assert_eq!(read, [both[1].clone(), both[1].clone()]);
    }
}

//! A component that replaces the one in a team file, as a program or the command line gives it, and
//! as it is saved with the team. Which slot it is for is decided in `manifest::overrides`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest path that the kernel accepts, in bytes, with the zero byte that ends it.
const MAX_PATH_BYTES: usize = 4096;
/// The longest text that is saved. A slot and the path of a file are shorter, even if each byte of
/// the path is replaced by a replacement character, which has three bytes.
const MAX_SAVED_BYTES: usize = 16 << 10;

/// A component that replaces the one that a team file names.
///
/// It is for a slot of the team: `ROLE.ACTION`, or `ROLE.think` for what a role chooses with. A
/// relative path is relative to the working directory.
///
/// A program gives the slot and the file apart. The command line gives them as one text, in which
/// both may contain `=`. The text is therefore kept until the team is known: it is split after the
/// longest name of one of the team's slots that `=` follows.
///
/// ```
/// use strata_base::text::component_replacement::ComponentReplacement;
///
/// let replacement = ComponentReplacement::new("Engineer.WriteCode", "fixed.wasm");
/// assert_eq!(replacement.to_string(), "Engineer.WriteCode=fixed.wasm");
/// let text = ComponentReplacement::from("Engineer.WriteCode=fixed.wasm");
/// assert_eq!(text.to_string(), replacement.to_string());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
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
pub struct ReplacementReading<'a> {
    /// The name of the slot.
    pub slot: &'a str,
    /// The file.
    pub file: &'a Path,
}

impl ComponentReplacement {
    /// Returns the replacement of the component in a slot.
    pub fn new(slot: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self::Slot {
            slot: slot.into(),
            file: file.into(),
        }
    }

    /// Returns the replacement with a saved text, which may be a stranger's. Fails with a description
    /// if no slot and no path are that long.
    pub fn from_saved(text: String) -> Result<Self, String> {
        match text.len() {
            0..=MAX_SAVED_BYTES => Ok(Self::Text(text)),
            bytes => Err(format!(
                "contains a text of {bytes} bytes, but a slot and the path of a file have at most {MAX_SAVED_BYTES}"
            )),
        }
    }

    /// Returns the possible pairs of slot and file, that with the longest slot first. The first
    /// whose slot exists is meant.
    pub fn readings(&self) -> impl Iterator<Item = ReplacementReading<'_>> {
        let (known, text) = match self {
            Self::Slot { slot, file } => (Some(ReplacementReading { slot, file }), ""),
            Self::Text(text) => (None, text.as_str()),
        };
        let split = |(at, _): (usize, &'_ str)| ReplacementReading {
            slot: &text[..at],
            file: Path::new(&text[at + 1..]),
        };
        known.into_iter().chain(text.rmatch_indices('=').map(split))
    }

    /// Returns the files that it may name.
    pub fn possible_files(&self) -> impl Iterator<Item = &Path> {
        self.readings()
            .map(|reading| reading.file)
            .filter(|file| file.as_os_str().len() < MAX_PATH_BYTES)
    }
}

impl<'de> Deserialize<'de> for ComponentReplacement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_saved(String::deserialize(deserializer)?).map_err(D::Error::custom)
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
            let found: Vec<_> = replacement
                .readings()
                .map(|reading| (reading.slot, reading.file))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(slot, file)| (*slot, Path::new(*file)))
                .collect();
            assert_eq!(found, expected, "{replacement:?}");
        };
        check("A.p=p.wasm".into(), &[("A.p", "p.wasm")]);
        check("A.p=x=y".into(), &[("A.p=x", "y"), ("A.p", "x=y")]);
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

    #[test]
    fn a_saved_text_that_no_slot_and_path_can_have_is_refused() {
        let read = |bytes: usize| {
            let saved = serde_json::to_string(&"=".repeat(bytes)).unwrap();
            serde_json::from_str::<ComponentReplacement>(&saved).map_err(|why| why.to_string())
        };
        assert!(read(MAX_SAVED_BYTES).is_ok());
        let refused = read(MAX_SAVED_BYTES + 1).unwrap_err();
        assert!(
            refused.contains("contains a text of 16385 bytes"),
            "{refused}"
        );
    }

    #[test]
    fn a_path_that_is_too_long_for_the_kernel_is_no_possible_file() {
        let replacement = ComponentReplacement::from("=".repeat(10_000));
        let longest = replacement
            .possible_files()
            .map(|file| file.as_os_str().len());
        assert_eq!(longest.max(), Some(MAX_PATH_BYTES - 1));
    }
}

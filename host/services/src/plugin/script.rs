//! Scripts: source files that are used as actions without a build. Which files they are is decided
//! here, how their interpreters are built in `build::script`, and how a script is passed to its
//! interpreter in `sandbox`.

use std::ffi::OsStr;
use std::path::Path;

/// The maximum size of a script in bytes. A script is passed with each call; anything larger is a
/// bundle and should be built.
pub const MAX_SCRIPT_BYTES: u64 = 1 << 20;
/// Used as file name for a script that is taken from the newest message.
const NEWEST_MESSAGE_STEM: &str = "<newest>";
/// The beginning and the end of the file name for a script that is taken from an argument of a tool
/// call.
const ARGUMENT_STEM: (&str, &str) = ("<arguments.", ">");

/// A language of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLanguage {
    /// JavaScript, and TypeScript, whose types are removed.
    JavaScript,
    /// Python.
    Python,
}

impl ScriptLanguage {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::JavaScript, Self::Python];

    /// Returns the language of a script according to its extension; `None` if it is not a script.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?;
        Self::ALL
            .into_iter()
            .find(|language| language.extensions().contains(&extension))
    }

    /// Returns the name of the language, for people and models.
    pub fn name(self) -> &'static str {
        match self {
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        }
    }

    /// Returns the file extensions of scripts in this language.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::JavaScript => &["js", "mjs", "ts", "mts"],
            Self::Python => &["py"],
        }
    }
}

/// Returns the file extensions of scripts in all languages.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    ScriptLanguage::ALL
        .into_iter()
        .flat_map(ScriptLanguage::extensions)
        .copied()
}

/// Returns whether a path is that of a script, according to its extension.
pub fn is_script(path: &Path) -> bool {
    ScriptLanguage::from_path(path).is_some()
}

/// Returns whether a path stands for a script that each call brings along: the one in the newest
/// message, `<newest>.js`, or the one in an argument of a tool call, `<arguments.code>.js`.
pub fn is_passed_script(path: &Path) -> bool {
    let is_newest = path.file_stem() == Some(OsStr::new(NEWEST_MESSAGE_STEM));
    is_script(path) && (is_newest || script_argument(path).is_some())
}

/// Returns the name of the argument of a tool call from which a script is taken.
pub fn script_argument(path: &Path) -> Option<&str> {
    let (beginning, end) = ARGUMENT_STEM;
    let stem = path.file_stem().and_then(OsStr::to_str)?;
    let name = stem.strip_prefix(beginning)?.strip_suffix(end)?;
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_told_by_its_ending() {
        let cases = [
            ("work.js", (true, false)),
            ("work.ts", (true, false)),
            ("a/work.rb", (false, false)),
            ("/a/<newest>.mjs", (true, true)),
            ("<newest>.py", (true, true)),
            ("/a/<arguments.code>.py", (true, true)),
            ("<arguments.>.py", (true, false)),
            ("<newest>.wasm", (false, false)),
            ("<newest>", (false, false)),
            ("js", (false, false)),
        ];
        for (path, expected) in cases {
            let path = Path::new(path);
            assert_eq!(
                (is_script(path), is_passed_script(path)),
                expected,
                "{}",
                path.display()
            );
        }
    }
}

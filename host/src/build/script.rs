//! Scripts: source files that are used as actions without a build. A script runs in an interpreter
//! for its language, which is an ordinary action that ships with the language's SDK as source and
//! is built once per machine.
//!
//! How a script is passed to its interpreter is decided in `sandbox`.

use super::sdk::{JAVASCRIPT, JAVASCRIPT_TOOLS, Kit, PYTHON, WIT, digest_of};
use super::{BuildError, Built, at, javascript, python};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use strata_core::id::Digest;

/// Used as file name for a script that is taken from the newest message.
const NEWEST: &str = "<newest>";
/// The directory of the interpreter in its language's SDK.
const INTERPRETER: &str = "interpreter";

/// The interpreter of a script.
#[derive(Debug)]
pub struct Interpreter {
    /// The component.
    pub component: PathBuf,
    /// The digest of its sources and of the list of tools that it is made with. It is the same on
    /// every machine with this program. The digest of the component itself differs after each
    /// build, because the tools store random numbers and the time in it.
    pub made_from: Digest,
}

/// A language of scripts.
struct Language {
    /// The file extensions of scripts.
    endings: &'static [&'static str],
    sdk: Kit,
    /// Everything that the interpreter is made from.
    parts: &'static [Kit],
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
}

const LANGUAGES: [Language; 2] = [
    Language {
        endings: &["js", "mjs"],
        sdk: JAVASCRIPT,
        parts: &[WIT, JAVASCRIPT, JAVASCRIPT_TOOLS],
        build: javascript::build,
    },
    // The list of the tools for Python is a file of the SDK.
    Language {
        endings: &["py"],
        sdk: PYTHON,
        parts: &[WIT, PYTHON],
        build: python::build_interpreter,
    },
];

/// Returns the file extensions of scripts in all languages.
pub fn endings() -> impl Iterator<Item = &'static str> {
    LANGUAGES
        .iter()
        .flat_map(|language| language.endings)
        .copied()
}

/// Returns whether a path is that of a script, according to its extension.
pub fn is_script(path: &Path) -> bool {
    find(path).is_some()
}

/// Returns whether a path stands for the script in the newest message: `<newest>.js`.
pub fn is_newest(path: &Path) -> bool {
    is_script(path) && path.file_stem() == Some(OsStr::new(NEWEST))
}

/// Returns the interpreter of a script, and builds it if necessary. `report` is called with
/// progress messages.
///
/// # Errors
/// Fails if the interpreter cannot be built.
///
/// # Panics
/// Panics if the path is not that of a script.
pub fn interpreter(script: &Path, report: &mut dyn FnMut(&str)) -> Result<Interpreter, BuildError> {
    let language = find(script).expect("it is asked for scripts only");
    let dir = language.sdk.unpack()?.join(INTERPRETER);
    let dir = at(&dir, dir.canonicalize())?;
    let component = (language.build)(&dir, report)?.component;
    Ok(Interpreter {
        component,
        made_from: Digest(digest_of(language.parts)),
    })
}

fn find(path: &Path) -> Option<&'static Language> {
    let ending = path.extension().and_then(OsStr::to_str)?;
    LANGUAGES
        .iter()
        .find(|language| language.endings.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_told_by_its_ending() {
        let cases = [
            ("work.js", (true, false)),
            ("a/work.rb", (false, false)),
            ("/a/<newest>.mjs", (true, true)),
            ("<newest>.py", (true, true)),
            ("<newest>.wasm", (false, false)),
            ("<newest>", (false, false)),
            ("js", (false, false)),
        ];
        for (path, expected) in cases {
            let path = Path::new(path);
            assert_eq!(
                (is_script(path), is_newest(path)),
                expected,
                "{}",
                path.display()
            );
        }
    }
}

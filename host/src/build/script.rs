//! Scripts: source files that are used as actions without a build. A script runs in an interpreter
//! for its language, which is an ordinary action that ships with the language's SDK as source and
//! is built once per machine.
//!
//! How a script is passed to its interpreter is decided in `sandbox`.

use super::sdk::{JAVASCRIPT, JAVASCRIPT_TOOLS, Kit, PYTHON, WIT, combined_digest};
use super::{BuildError, Built, javascript, python, with_path};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use strata_core::record::id::Digest;

/// Used as file name for a script that is taken from the newest message.
const NEWEST_MESSAGE_STEM: &str = "<newest>";
/// The directory of the interpreter in its language's SDK.
const INTERPRETER_DIR: &str = "interpreter";

/// The interpreter of a script.
#[derive(Debug)]
pub struct BuiltInterpreter {
    /// The component.
    pub component: PathBuf,
    /// The digest of its sources and of the list of tools that it is made with. It is the same on
    /// every machine with this program. The digest of the component itself differs after each
    /// build, because the tools store random numbers and the time in it.
    pub source_digest: Digest,
}

/// A language of scripts.
struct ScriptLanguage {
    /// The file extensions of scripts.
    extensions: &'static [&'static str],
    sdk: Kit,
    /// Everything that the interpreter is made from.
    inputs: &'static [Kit],
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
}

const LANGUAGES: [ScriptLanguage; 2] = [
    ScriptLanguage {
        extensions: &["js", "mjs"],
        sdk: JAVASCRIPT,
        inputs: &[WIT, JAVASCRIPT, JAVASCRIPT_TOOLS],
        build: javascript::build,
    },
    // The list of the tools for Python is a file of the SDK.
    ScriptLanguage {
        extensions: &["py"],
        sdk: PYTHON,
        inputs: &[WIT, PYTHON],
        build: python::build_interpreter,
    },
];

/// Returns the file extensions of scripts in all languages.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    LANGUAGES
        .iter()
        .flat_map(|language| language.extensions)
        .copied()
}

/// Returns whether a path is that of a script, according to its extension.
pub fn is_script(path: &Path) -> bool {
    language_of(path).is_some()
}

/// Returns whether a path stands for the script in the newest message: `<newest>.js`.
pub fn is_newest_message_script(path: &Path) -> bool {
    is_script(path) && path.file_stem() == Some(OsStr::new(NEWEST_MESSAGE_STEM))
}

/// Returns the interpreter of a script, and builds it if necessary. `report` is called with
/// progress messages.
///
/// # Errors
/// Fails if the interpreter cannot be built.
///
/// # Panics
/// Panics if the path is not that of a script.
pub fn interpreter(
    script: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<BuiltInterpreter, BuildError> {
    let language = language_of(script).expect("it is asked for scripts only");
    let dir = language.sdk.unpack()?.join(INTERPRETER_DIR);
    let dir = with_path(&dir, dir.canonicalize())?;
    let component = (language.build)(&dir, report)?.component;
    Ok(BuiltInterpreter {
        component,
        source_digest: Digest(combined_digest(language.inputs)),
    })
}

fn language_of(path: &Path) -> Option<&'static ScriptLanguage> {
    let ending = path.extension().and_then(OsStr::to_str)?;
    LANGUAGES
        .iter()
        .find(|language| language.extensions.contains(&ending))
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
                (is_script(path), is_newest_message_script(path)),
                expected,
                "{}",
                path.display()
            );
        }
    }
}

//! Scripts: source files that stand in an action's place as they are. What they run in is an ordinary action, the
//! interpreter of their language, which ships with its SDK as source and is built once per machine.
//!
//! How a script is handed to its interpreter is the sandbox's business.

use super::sdk::{JAVASCRIPT, JAVASCRIPT_TOOLS, Kit, PYTHON, WIT, digest_of};
use super::{BuildError, Built, at, javascript, python};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use strata_core::id::Digest;

/// Stands for a file's name where the script comes with the newest message.
const NEWEST: &str = "<newest>";
/// Where the interpreter lies in its language's SDK.
const INTERPRETER: &str = "interpreter";

/// What a script runs in.
#[derive(Debug)]
pub struct Interpreter {
    /// The component.
    pub component: PathBuf,
    /// Of its sources and of the list of the tools that made it: the same on every machine with this program. That of
    /// the component itself is another one after each build, for its tools keep in it the random numbers and the time
    /// that the language's engine drew when it was started for them.
    pub made_from: Digest,
}

/// A language of scripts.
struct Language {
    /// The endings of scripts' names.
    endings: &'static [&'static str],
    sdk: Kit,
    /// All that the interpreter is made from.
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
    // The list of its tools is a file of the SDK.
    Language {
        endings: &["py"],
        sdk: PYTHON,
        parts: &[WIT, PYTHON],
        build: python::build,
    },
];

/// The endings of scripts' names.
pub fn endings() -> impl Iterator<Item = &'static str> {
    LANGUAGES
        .iter()
        .flat_map(|language| language.endings)
        .copied()
}

/// Whether a path is that of a script, told by its ending.
pub fn is_script(path: &Path) -> bool {
    find(path).is_some()
}

/// Whether a path stands for the script that comes with the newest message: `<newest>.js`.
pub fn is_newest(path: &Path) -> bool {
    is_script(path) && path.file_stem() == Some(OsStr::new(NEWEST))
}

/// What runs this script, built unless that was done. `report` is told what takes long.
///
/// # Errors
/// Fails as a build does.
///
/// # Panics
/// If it is no script.
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

//! Scripts: source files that stand in an action's place as they are. What they run in is an ordinary action, the
//! interpreter of their language, which ships with its SDK as source and is built once per machine.
//!
//! How a script is handed to its interpreter is the sandbox's business.

use super::sdk::{JAVASCRIPT, Kit, PYTHON};
use super::{BuildError, Built, at, javascript, python};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Stands for a file's name where the script comes with the newest message.
const NEWEST: &str = "<newest>";
/// Where the interpreter lies in its language's SDK.
const INTERPRETER: &str = "interpreter";

/// What runs the scripts of a language.
struct Interpreter {
    /// The endings of scripts' names.
    endings: &'static [&'static str],
    sdk: Kit,
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
}

const INTERPRETERS: [Interpreter; 2] = [
    Interpreter { endings: &["js", "mjs"], sdk: JAVASCRIPT, build: javascript::build },
    Interpreter { endings: &["py"], sdk: PYTHON, build: python::build },
];

/// The endings of scripts' names.
pub fn endings() -> impl Iterator<Item = &'static str> {
    INTERPRETERS.iter().flat_map(|interpreter| interpreter.endings).copied()
}

/// Whether a path is that of a script, told by its ending.
pub fn is_script(path: &Path) -> bool {
    find(path).is_some()
}

/// Whether a path stands for the script that comes with the newest message: `<newest>.js`.
pub fn is_newest(path: &Path) -> bool {
    is_script(path) && path.file_stem() == Some(OsStr::new(NEWEST))
}

/// The component that runs this script, built unless that was done. `report` is told what takes long.
///
/// # Errors
/// Fails as a build does.
///
/// # Panics
/// If it is no script.
pub fn interpreter(script: &Path, report: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    let interpreter = find(script).expect("it is asked for scripts only");
    let dir = interpreter.sdk.unpack()?.join(INTERPRETER);
    let dir = at(&dir, dir.canonicalize())?;
    Ok((interpreter.build)(&dir, report)?.component)
}

fn find(path: &Path) -> Option<&'static Interpreter> {
    let ending = path.extension().and_then(OsStr::to_str)?;
    INTERPRETERS.iter().find(|interpreter| interpreter.endings.contains(&ending))
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
            assert_eq!((is_script(path), is_newest(path)), expected, "{}", path.display());
        }
    }
}

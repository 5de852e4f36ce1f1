//! The interpreters of scripts. An interpreter is an ordinary action that ships with the SDK of the
//! language as source. It is installed with the program or, where it is not, built once per machine.
//!
//! Which files are scripts is decided in `plugin::script`.

use std::path::{Path, PathBuf};

use strata_core::record::id::Digest;
use strata_services::plugin::script::ScriptLanguage;

use super::prebuilt::PrebuiltComponents;
use super::sdk::{
    INTERPRETER_WIT, JAVASCRIPT, JAVASCRIPT_TOOLS, Kit, PYTHON, WIT, combined_digest,
};
use super::{BuildError, Built, javascript, python, with_path};

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
    /// What the user should know.
    pub warning: Option<String>,
}

/// How the interpreter of a language is built.
struct InterpreterRecipe {
    sdk: Kit,
    /// Everything that the interpreter is made from.
    inputs: &'static [Kit],
    build: fn(&Path, &mut dyn FnMut(&str)) -> Result<Built, BuildError>,
}

impl InterpreterRecipe {
    fn of_language(language: ScriptLanguage) -> Self {
        match language {
            ScriptLanguage::JavaScript => Self {
                sdk: JAVASCRIPT,
                inputs: &[WIT, INTERPRETER_WIT, JAVASCRIPT, JAVASCRIPT_TOOLS],
                build: javascript::build_interpreter,
            },
            // The list of the tools for Python is a file of the SDK.
            ScriptLanguage::Python => Self {
                sdk: PYTHON,
                inputs: &[WIT, INTERPRETER_WIT, PYTHON],
                build: python::build_interpreter,
            },
        }
    }
}

/// Returns the interpreter of a language: the installed one, or one that is built if necessary. `report` is called with
/// progress messages.
///
/// # Errors
/// Fails if the interpreter cannot be built.
pub fn interpreter(
    language: ScriptLanguage,
    report: &mut dyn FnMut(&str),
) -> Result<BuiltInterpreter, BuildError> {
    let recipe = InterpreterRecipe::of_language(language);
    let source_digest = Digest(combined_digest(recipe.inputs));
    if let Some(installed) = PrebuiltComponents::installed()
        && let Some(unpacked) = installed.interpreter(&source_digest)?
    {
        return Ok(BuiltInterpreter {
            component: unpacked.component,
            source_digest,
            warning: unpacked.warning,
        });
    }
    let dir = recipe.sdk.unpack()?.join(INTERPRETER_DIR);
    let dir = with_path(&dir, dir.canonicalize())?;
    let component = (recipe.build)(&dir, report)?.component;
    Ok(BuiltInterpreter {
        component,
        source_digest,
        warning: None,
    })
}

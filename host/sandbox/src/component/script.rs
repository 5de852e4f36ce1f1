//! Scripts: an interpreter component together with the script that it runs. To all other modules
//! they are one component with a digest of its own, so an edited script is a changed component.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use strata_base::files::blob::digest_of;
use strata_base::text::excerpt::excerpt;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::id::Digest;
use strata_services::plugin::{Limits, script};

use super::translation::{Preparation, ScriptDescription};
use super::{
    ComponentBytes, ComponentInfo, ComponentManifest, Exports, LoadError, LoadedComponent,
    Metering, WasmSandbox,
};
use crate::EntryPoint;

/// The maximum length of a line of a script in a fault.
const LINE_CHARS: usize = 80;

/// A script, or a directory with the source of an action that is run like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// The name that errors show.
    pub name: String,
    /// The source code.
    pub source: ScriptSource,
}

/// The source code of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// Each call brings it along.
    Passed,
    /// One file.
    Text(String),
    /// The modules of a directory.
    Modules(ScriptModules),
}

/// The source of an action in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptModules {
    /// The name of the module with the action.
    pub module: String,
    /// The version of the action.
    pub version: String,
    /// The description of the action; empty if its source describes it.
    pub description: String,
    /// The files, sorted by their paths.
    pub files: Vec<ModuleFile>,
}

/// A file of a directory that is run like a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The path relative to the directory, with `/`.
    pub path: String,
    /// The source code.
    pub text: String,
    /// The paths of the files that its imports name, if its interpreter does not find them itself.
    pub imports: BTreeMap<String, String>,
}

/// The component of an interpreter.
#[derive(Clone, Copy)]
pub struct InterpreterComponent<'a> {
    /// The SHA-256 of its bytes.
    pub digest: &'a Digest,
    /// The component.
    pub bytes: &'a dyn ComponentBytes,
}

impl WasmSandbox {
    /// Loads a script under its own digest, to run in this interpreter, which describes it.
    ///
    /// # Errors
    /// Fails if the interpreter cannot be loaded. A script with a syntax error is loaded, and fails when it
    /// is called.
    pub fn load_script(
        &self,
        script: &ScriptFile,
        script_digest: &Digest,
        interpreter: InterpreterComponent<'_>,
        metering: Metering,
        limits: &Limits,
    ) -> Result<ComponentInfo, LoadError> {
        let InterpreterComponent { digest, bytes } = interpreter;
        let interpreter = self.load_with_digest(digest.clone(), bytes, metering, limits)?;
        let component = self
            .find_loaded(digest, metering)
            .expect("it was loaded just now");
        let preparation = Preparation {
            interpreter: &component.linked,
            cache: &self.inner.cache,
            script,
            digest: script_digest,
        };
        let (loaded, description) = {
            let _alone = self.describe_alone();
            preparation.prepare()?
        };
        let info = script.info(script_digest, &interpreter, description);
        self.register(
            metering,
            LoadedComponent {
                linked: Arc::clone(&component.linked),
                info: info.clone(),
                script: Some(loaded),
            },
        );
        Ok(info)
    }
}

impl ScriptFile {
    /// Returns the digest of script and interpreter together, given the digest of what the
    /// interpreter is built from.
    pub fn digest(&self, interpreter: &Digest) -> Digest {
        let content = match &self.source {
            ScriptSource::Passed => json!(["script", interpreter.0, self.name, null]),
            ScriptSource::Text(text) => json!(["script", interpreter.0, self.name, text]),
            ScriptSource::Modules(modules) => {
                let ScriptModules {
                    module,
                    version,
                    description,
                    files,
                } = modules;
                let files: Vec<_> = files.iter().map(|file| [&file.path, &file.text]).collect();
                json!([
                    "modules",
                    interpreter.0,
                    self.name,
                    module,
                    version,
                    description,
                    files
                ])
            }
        };
        digest_of(content.to_string().as_bytes())
    }

    /// Returns the size of the source code in bytes.
    pub fn size(&self) -> u64 {
        let bytes = match &self.source {
            ScriptSource::Passed => 0,
            ScriptSource::Text(text) => text.len(),
            ScriptSource::Modules(modules) => {
                modules.files.iter().map(|file| file.text.len()).sum()
            }
        };
        bytes as u64
    }

    /// Returns whether errors may name a file: the script itself, or a file of its directory.
    pub(super) fn has_file(&self, name: &str) -> bool {
        match &self.source {
            ScriptSource::Modules(modules) => modules.files.iter().any(|file| file.path == name),
            ScriptSource::Passed | ScriptSource::Text(_) => self.name == name,
        }
    }

    /// Returns what is known of the script once its interpreter has described it.
    fn info(
        &self,
        digest: &Digest,
        interpreter: &ComponentInfo,
        described: ScriptDescription,
    ) -> ComponentInfo {
        let manifest = &interpreter.manifest;
        let (name, version, description) = match &self.source {
            ScriptSource::Modules(modules) => {
                let declared = described.declared;
                let from_manifest = Some(&modules.description).filter(|text| !text.is_empty());
                (
                    declared.name.unwrap_or_else(|| self.name.clone()),
                    declared.version.unwrap_or_else(|| modules.version.clone()),
                    declared.description.or_else(|| from_manifest.cloned()),
                )
            }
            ScriptSource::Passed | ScriptSource::Text(_) => {
                (self.name.clone(), manifest.version.clone(), None)
            }
        };
        let description = description.unwrap_or(described.description);
        let exports = |name: &str| {
            let exports = described.exports.as_ref();
            exports.is_none_or(|exports| exports.iter().any(|export| export == name))
        };
        let Exports {
            handler,
            thinker,
            planner,
        } = interpreter.exports;
        ComponentInfo {
            digest: digest.clone(),
            exports: Exports {
                handler,
                thinker: thinker && exports("thinker"),
                planner: planner && exports("planner"),
            },
            manifest: Arc::new(ComponentManifest {
                name,
                version,
                description,
                config_schema: described.config_schema,
                input_schema: described.input_schema,
                output_schema: described.output_schema,
                needs: described.needs,
            }),
            problem: described.failure.map(Arc::new),
        }
    }

    /// Replaces the interpreter's frames in a fault, which say nothing about the script, with the
    /// line that the interpreter reported last. A fault that the script declared itself is not
    /// changed.
    pub(crate) fn replace_backtrace(&self, fault: &mut Fault, line: Option<u32>) {
        let is_too_long = matches!(
            fault.cause,
            FaultCause::CpuLimit | FaultCause::FuelLimit | FaultCause::TimeLimit
        );
        if fault.backtrace.is_empty() && !is_too_long {
            return;
        }
        fault.backtrace = match line {
            Some(line) => vec![self.reached(line)],
            None => vec![format!("{} (a script; no line of it has run)", self.name)],
        };
    }

    /// Describes the last line that ran for the first time.
    fn reached(&self, line: u32) -> String {
        let (name, line, text) = self.line(line as usize);
        let text = match text.trim() {
            "" => String::new(),
            text => format!(": {}", excerpt(text, LINE_CHARS)),
        };
        format!("{name}:{line}, the last line to run for the first time{text}")
    }

    /// Returns a line that the interpreter has reported: the name of its file, its number there, and its
    /// text. The lines of several files are counted as if they were one.
    fn line(&self, mut line: usize) -> (&str, usize, &str) {
        let single = [(&*self.name, "")];
        let files: Vec<(&str, &str)> = match &self.source {
            ScriptSource::Passed => single.to_vec(),
            ScriptSource::Text(text) => vec![(&self.name, text)],
            ScriptSource::Modules(modules) => {
                let files = modules.files.iter();
                files.map(|file| (&*file.path, &*file.text)).collect()
            }
        };
        let last = files.len().saturating_sub(1);
        for (index, (name, text)) in files.into_iter().enumerate() {
            let count = text.matches('\n').count() + 1;
            if line <= count || index == last {
                let text = text.lines().nth(line.wrapping_sub(1));
                return (name, line, text.unwrap_or_default());
            }
            line -= count;
        }
        (&self.name, line, "")
    }

    /// Returns the script as its interpreter receives it, without a translation. Returns `None` if each
    /// call brings it along.
    pub(super) fn passed_value(&self) -> Option<Value> {
        match &self.source {
            ScriptSource::Passed => None,
            ScriptSource::Text(text) => Some(json!({ "name": self.name, "text": text })),
            ScriptSource::Modules(modules) => {
                let file = |file: &ModuleFile| json!({ "name": file.path, "text": file.text, "imports": file.imports });
                let files: Vec<Value> = modules.files.iter().map(file).collect();
                Some(json!({ "name": self.name, "module": modules.module, "files": files }))
            }
        }
    }

    /// Returns the script of a call as its interpreter receives it, without a translation.
    ///
    /// # Errors
    /// Fails if the script is that of an argument, and the call has no such argument.
    pub(super) fn script_of_call(&self, entry: &EntryPoint) -> Result<Value, Fault> {
        if let Some(value) = self.passed_value() {
            return Ok(value);
        }
        let name = Path::new(&self.name);
        let Some(argument) = script::script_argument(name) else {
            // The interpreter takes it from the newest message.
            return Ok(Value::Null);
        };
        let extension = name.extension().unwrap_or_default().to_string_lossy();
        let text = argument_text(entry, argument)?;
        let name = format!("{argument}.{extension}");
        Ok(json!({ "name": name, "text": text, "passed": true }))
    }
}

/// Returns the script in an argument of a tool call.
fn argument_text(entry: &EntryPoint, argument: &str) -> Result<String, Fault> {
    let missing = |why: &str| {
        let what = format!("cannot run the script in the argument `{argument}`: {why}");
        Fault::new(FaultKind::Error, what).with_cause(FaultCause::Declared)
    };
    let EntryPoint::Run {
        tool_call: Some(tool_call),
        ..
    } = entry
    else {
        return Err(missing("the action is not called as a tool"));
    };
    match tool_call
        .arguments
        .value()
        .get_mut(argument)
        .map(Value::take)
    {
        Some(Value::String(text)) => Ok(text),
        _ => Err(missing("the tool call has no such text")),
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::json::Json;

    use super::*;
    use crate::ToolCallInput;

    fn script(text: &str) -> ScriptFile {
        ScriptFile {
            name: "a.js".into(),
            source: ScriptSource::Text(text.into()),
        }
    }

    #[test]
    fn the_digest_covers_interpreter_and_script() {
        let interpreter = Digest("i".into());
        let one = script("1").digest(&interpreter);
        assert_eq!(one, script("1").digest(&interpreter));
        assert_ne!(one, script("2").digest(&interpreter));
        assert_ne!(one, script("1").digest(&Digest("j".into())));
    }

    #[test]
    fn a_fault_shows_lines_of_the_script_and_no_frames_of_its_interpreter() {
        let check = |text: &str, line: Option<u32>, cause: FaultCause, expected: &[&str]| {
            let frames = vec!["PyEval_EvalFrame".to_owned()];
            let mut fault = Fault {
                backtrace: frames,
                ..Fault::new(FaultKind::Cpu, "")
            }
            .with_cause(cause);
            script(text).replace_backtrace(&mut fault, line);
            assert_eq!(fault.backtrace, expected, "{text}");
        };
        let none = "a.js (a script; no line of it has run)";
        check("while (true) {}", None, FaultCause::CpuLimit, &[none]);
        check("f()", None, FaultCause::Unspecified, &[none]);
        let reached = "a.js:2, the last line to run for the first time";
        let shown = format!("{reached}: f()");
        for cause in [FaultCause::CpuLimit, FaultCause::Unspecified] {
            check("while (0) {}\n  f()\n", Some(2), cause, &[&shown]);
            check("", Some(2), cause, &[reached]);
        }
    }

    #[test]
    fn the_script_of_a_tool_call_is_in_an_argument() {
        let of_argument = ScriptFile {
            name: "<arguments.code>.py".into(),
            source: ScriptSource::Passed,
        };
        let call = |arguments: Option<&str>| EntryPoint::Run {
            action: "A".into(),
            index: 0,
            task: None,
            tool_call: arguments.map(|arguments| ToolCallInput {
                arguments: Json::parse(arguments).unwrap(),
                turn: 0,
                call: 0,
            }),
        };
        let script = |arguments: Option<&str>| of_argument.script_of_call(&call(arguments));
        assert_eq!(
            script(Some(r#"{"code":"return 1"}"#)).unwrap(),
            json!({ "name": "code.py", "text": "return 1", "passed": true })
        );
        let told = |arguments: Option<&str>| script(arguments).unwrap_err().message;
        assert!(told(Some(r#"{"code":1}"#)).ends_with("the tool call has no such text"));
        assert!(told(None).ends_with("the action is not called as a tool"));
        let newest = ScriptFile {
            name: "<newest>.py".into(),
            source: ScriptSource::Passed,
        };
        assert_eq!(newest.script_of_call(&call(None)).unwrap(), Value::Null);
    }

    #[test]
    fn a_fault_that_a_script_declares_is_left_as_it_is() {
        let declared = Fault::new(FaultKind::Error, "no").with_cause(FaultCause::Declared);
        let mut fault = declared.clone();
        script("f()").replace_backtrace(&mut fault, Some(1));
        assert_eq!(fault, declared);
    }

    #[test]
    fn a_line_of_a_directory_is_one_of_its_files() {
        let file = |path: &str, text: &str| ModuleFile {
            path: path.into(),
            text: text.into(),
            imports: BTreeMap::new(),
        };
        let directory = ScriptFile {
            name: "greet".into(),
            source: ScriptSource::Modules(ScriptModules {
                module: "action".into(),
                version: "1.0.0".into(),
                description: String::new(),
                files: vec![file("a.py", "a\nb\n"), file("b/c.py", "c\n  d")],
            }),
        };
        assert_eq!(directory.line(2), ("a.py", 2, "b"));
        assert_eq!(directory.line(3), ("a.py", 3, ""));
        assert_eq!(directory.line(5), ("b/c.py", 2, "  d"));
        assert_eq!(directory.line(9), ("b/c.py", 6, ""));
    }
}

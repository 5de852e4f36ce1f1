//! Scripts: an interpreter component together with the script that it runs. To all other modules
//! they are one component with a digest of its own, so an edited script is a changed component.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::id::Digest;

use super::{
    ComponentBytes, ComponentInfo, ComponentManifest, LoadError, LoadedComponent, LoadedScript,
    Metering, WasmSandbox,
};
use crate::blob::digest_of;
use crate::excerpt::excerpt;
use crate::plugin::{Limits, script};
use crate::sandbox::EntryPoint;

/// The maximum length of a line of a script in a fault.
const LINE_CHARS: usize = 80;

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// The name that errors show.
    pub name: String,
    /// The source code; `None` if each call brings it along.
    pub text: Option<String>,
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
    /// Loads a script under its own digest, to run in this interpreter.
    ///
    /// # Errors
    /// Fails if the interpreter cannot be loaded. Errors in the script itself only show when it is
    /// called.
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
        let manifest = ComponentManifest {
            name: script.name.clone(),
            description: script.description(),
            config_schema: None,
            input_schema: None,
            output_schema: None,
            ..(*interpreter.manifest).clone()
        };
        let info = ComponentInfo {
            digest: script_digest.clone(),
            exports: interpreter.exports,
            manifest: Arc::new(manifest),
        };
        let component = self
            .find_loaded(digest, metering)
            .expect("it was loaded just now");
        let linked = Arc::clone(&component.linked);
        self.register(
            metering,
            LoadedComponent {
                linked,
                info: info.clone(),
                script: Some(LoadedScript::new(
                    script.clone(),
                    script_digest,
                    &self.inner.cache,
                )),
            },
        );
        Ok(info)
    }
}

impl ScriptFile {
    /// Returns the digest of script and interpreter together, given the digest of what the
    /// interpreter is built from.
    pub fn digest(&self, interpreter: &Digest) -> Digest {
        let content = json!(["script", interpreter.0, self.name, self.text]);
        digest_of(content.to_string().as_bytes())
    }

    /// Returns the description of the script: the comment at its start, or the first paragraph of
    /// its docstring.
    fn description(&self) -> String {
        let text = self.text.as_deref().unwrap_or_default();
        let head = if text.starts_with("#!") {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        } else {
            text
        };
        let lines: Vec<&str> = match head.strip_prefix("\"\"\"") {
            Some(doc) => {
                let doc = doc.split("\"\"\"").next().unwrap_or_default().trim_start();
                doc.lines()
                    .map(str::trim)
                    .take_while(|line| !line.is_empty())
                    .collect()
            }
            None => head.lines().map_while(comment_text).collect(),
        };
        lines.join(" ").trim().to_owned()
    }

    /// Replaces the interpreter's frames in a fault, which say nothing about the script, with the
    /// line that the interpreter reported last. A fault that the script declared itself is not
    /// changed.
    pub(in crate::sandbox) fn replace_backtrace(&self, fault: &mut Fault, line: Option<u32>) {
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
        let text = self.text.as_deref().unwrap_or_default();
        let index = usize::try_from(line).unwrap_or_default().wrapping_sub(1);
        let shown = text.lines().nth(index).map(str::trim).unwrap_or_default();
        let shown = match shown {
            "" => String::new(),
            shown => format!(": {}", excerpt(shown, LINE_CHARS)),
        };
        format!(
            "{}:{line}, the last line to run for the first time{shown}",
            self.name
        )
    }

    /// Returns the script of a call as its interpreter receives it, without a translation.
    ///
    /// # Errors
    /// Fails if the script is that of an argument, and the call has no such argument.
    pub(super) fn script_of_call(&self, entry: &EntryPoint) -> Result<Value, Fault> {
        let name = Path::new(&self.name);
        match (&self.text, script::script_argument(name)) {
            (Some(text), _) => Ok(json!({ "name": self.name, "text": text })),
            // The interpreter takes it from the newest message.
            (None, None) => Ok(Value::Null),
            (None, Some(argument)) => {
                let extension = name.extension().unwrap_or_default().to_string_lossy();
                let text = argument_text(entry, argument)?;
                Ok(json!({ "name": format!("{argument}.{extension}"), "text": text }))
            }
        }
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

/// Returns the text of a line comment.
fn comment_text(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("//")
        .or(line.strip_prefix('#'))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use strata_core::record::json::Json;

    use super::*;
    use crate::sandbox::ToolCallInput;

    fn script(text: &str) -> ScriptFile {
        ScriptFile {
            name: "a.js".into(),
            text: Some(text.into()),
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
            text: None,
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
            json!({ "name": "code.py", "text": "return 1" })
        );
        let told = |arguments: Option<&str>| script(arguments).unwrap_err().message;
        assert!(told(Some(r#"{"code":1}"#)).ends_with("the tool call has no such text"));
        assert!(told(None).ends_with("the action is not called as a tool"));
        let newest = ScriptFile {
            name: "<newest>.py".into(),
            text: None,
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
    fn the_comment_at_its_head_describes_a_script() {
        let cases = [
            ("// Counts\n//words.\nlet a; // not this", "Counts words."),
            (
                "#!/usr/bin/env python3\n# Counts\n# words.\nimport re",
                "Counts words.",
            ),
            (
                "\"\"\"\nCounts\nwords.\n\nAnd more.\n\"\"\"\nimport re",
                "Counts words.",
            ),
            ("let a;", ""),
            ("\n// late", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(script(text).description(), expected, "{text}");
        }
    }
}

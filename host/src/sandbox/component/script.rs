//! Scripts: a component that interprets, together with what it is to run. To everything outside they are one component
//! with a digest of its own, so that a mended script is a changed component.

use std::sync::Arc;

use serde_json::json;
use strata_core::fault::{Fault, FaultCause};
use strata_core::id::Digest;
use strata_core::json::Json;

use super::{LoadError, Loaded, Manifest, Metering, Shelved, WasmSandbox};
use crate::blob::digest_of;
use crate::excerpt::excerpt;
use crate::plugin::{Limits, Plugin};

/// How many loops of a script a fault lists, and how much of each line.
const LOOPS: usize = 8;
const LINE_CHARS: usize = 80;

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// What errors call it.
    pub name: String,
    /// Its source; none if it is in the newest message of each call.
    pub text: Option<String>,
}

impl WasmSandbox {
    /// Makes a script ready to be called, under its own digest, in the interpreter with these bytes and their digest.
    ///
    /// # Errors
    /// Fails if the interpreter cannot be loaded. What is wrong with the script itself shows when it is called.
    pub fn load_script(
        &self,
        (script, whole): (&ScriptFile, &Digest),
        (digest, interpreter): (&Digest, &[u8]),
        (metering, limits): (Metering, &Limits),
    ) -> Result<Loaded, LoadError> {
        let runs = self.load_as(digest.clone(), interpreter, (metering, limits))?;
        let manifest = Manifest {
            name: script.name.clone(),
            description: script.description(),
            config_schema: None,
            output_schema: None,
            ..(*runs.manifest).clone()
        };
        let loaded = Loaded {
            digest: whole.clone(),
            exports: runs.exports,
            manifest: Arc::new(manifest),
        };
        let shelved = self
            .shelved(digest, metering)
            .expect("it was loaded just now");
        let ready = Arc::clone(&shelved.ready);
        self.put(
            metering,
            Shelved {
                ready,
                loaded: loaded.clone(),
                script: Some(script.clone()),
            },
        );
        Ok(loaded)
    }
}

impl ScriptFile {
    /// That of script and interpreter together, given that of what the interpreter is made from.
    pub fn digest(&self, interpreter: &Digest) -> Digest {
        let whole = json!(["script", interpreter.0, self.name, self.text]);
        digest_of(whole.to_string().as_bytes())
    }

    /// The comment at its head, or the first paragraph of the text there: in it a script says what it does.
    fn description(&self) -> String {
        let text = self.text.as_deref().unwrap_or_default();
        let head = if text.starts_with("#!") {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        } else {
            text
        };
        let said: Vec<&str> = match head.strip_prefix("\"\"\"") {
            Some(doc) => {
                let doc = doc.split("\"\"\"").next().unwrap_or_default().trim_start();
                doc.lines()
                    .map(str::trim)
                    .take_while(|line| !line.is_empty())
                    .collect()
            }
            None => head.lines().map_while(comment).collect(),
        };
        said.join(" ").trim().to_owned()
    }

    /// Replaces the frames of the interpreter in a fault, which say nothing about the script. Where the script was is not known
    /// to the host; if it computed for too long, it was in one of its loops, which are listed, or recursed.
    pub(super) fn locate(&self, fault: &mut Fault) {
        if fault.backtrace.is_empty() {
            return;
        }
        fault.backtrace = match fault.cause {
            FaultCause::CpuLimit | FaultCause::FuelLimit | FaultCause::TimeLimit => self.loops(),
            _ => Vec::new(),
        };
        if fault.backtrace.is_empty() {
            fault.backtrace.push(format!(
                "{} (a script; the interpreter does not say at which line)",
                self.name
            ));
        }
    }

    /// Returns the lines of the script in which a loop begins.
    fn loops(&self) -> Vec<String> {
        let text = self.text.as_deref().unwrap_or_default();
        let is_loop = |line: &str| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            comment(line).is_none() && words.any(|word| matches!(word, "while" | "for" | "do"))
        };
        let numbered = (1..).zip(text.lines()).filter(|(_, line)| is_loop(line));
        let shown = |(number, line): (usize, &str)| {
            format!(
                "{}:{number}: a loop, perhaps this one: {}",
                self.name,
                excerpt(line.trim(), LINE_CHARS)
            )
        };
        numbered.map(shown).take(LOOPS).collect()
    }

    /// The plugin as the interpreter is called with it: its config is the script and the script's own config.
    pub(super) fn configure(&self, plugin: &Plugin) -> Plugin {
        let script = self
            .text
            .as_ref()
            .map(|text| json!({ "name": self.name, "text": text }));
        let config = json!({ "script": script, "config": plugin.config.value() });
        Plugin {
            config: Json::from(config),
            ..plugin.clone()
        }
    }
}

/// What a line of a comment says.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("//")
        .or(line.strip_prefix('#'))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        use strata_core::fault::FaultKind;
        let check = |text: &str, cause: FaultCause, expected: &[&str]| {
            let frames = vec!["PyEval_EvalFrame".to_owned()];
            let mut fault = Fault {
                backtrace: frames,
                ..Fault::new(FaultKind::Cpu, "")
            }
            .caused_by(cause);
            script(text).locate(&mut fault);
            assert_eq!(fault.backtrace, expected, "{text}");
        };
        let unknown = "a.js (a script; the interpreter does not say at which line)";
        let found = "a.js:3: a loop, perhaps this one: while (true) {}";
        check(
            "// for all\nlet format = 1;\n  while (true) {}\n",
            FaultCause::CpuLimit,
            &[found],
        );
        check("while (true) {}", FaultCause::Unspecified, &[unknown]);
        check("f()", FaultCause::FuelLimit, &[unknown]);
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

//! Scripts: a component that interprets, together with what it is to run. To everything outside they are one component
//! with a digest of its own, so that a mended script is a changed component.

use std::sync::Arc;

use serde_json::json;
use strata_core::id::Digest;
use strata_core::json::Json;

use super::{LoadError, Loaded, Manifest, Metering, Shelved, WasmSandbox};
use crate::blob::digest_of;
use crate::plugin::{Limits, Plugin};

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
        let loaded = Loaded { digest: whole.clone(), exports: runs.exports, manifest: Arc::new(manifest) };
        let shelved = self.shelved(digest, metering).expect("it was loaded just now");
        let ready = Arc::clone(&shelved.ready);
        self.put(metering, Shelved { ready, loaded: loaded.clone(), script: Some(script.clone()) });
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
        let head = if text.starts_with("#!") { text.split_once('\n').map_or("", |(_, rest)| rest) } else { text };
        let said: Vec<&str> = match head.strip_prefix("\"\"\"") {
            Some(doc) => {
                let doc = doc.split("\"\"\"").next().unwrap_or_default().trim_start();
                doc.lines().map(str::trim).take_while(|line| !line.is_empty()).collect()
            }
            None => head.lines().map_while(comment).collect(),
        };
        said.join(" ").trim().to_owned()
    }

    /// The plugin as the interpreter is called with it: its config is the script and the script's own config.
    pub(super) fn configure(&self, plugin: &Plugin) -> Plugin {
        let script = self.text.as_ref().map(|text| json!({ "name": self.name, "text": text }));
        let config = json!({ "script": script, "config": plugin.config.value() });
        Plugin { config: Json::from(config), ..plugin.clone() }
    }
}

/// What a line of a comment says.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("//").or(line.strip_prefix('#')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> ScriptFile {
        ScriptFile { name: "a.js".into(), text: Some(text.into()) }
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
    fn the_comment_at_its_head_describes_a_script() {
        let cases = [
            ("// Counts\n//words.\nlet a; // not this", "Counts words."),
            ("#!/usr/bin/env python3\n# Counts\n# words.\nimport re", "Counts words."),
            ("\"\"\"\nCounts\nwords.\n\nAnd more.\n\"\"\"\nimport re", "Counts words."),
            ("let a;", ""),
            ("\n// late", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(script(text).description(), expected, "{text}");
        }
    }
}

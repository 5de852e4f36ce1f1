//! Translations of scripts. A script is translated once, to what its interpreter can run without
//! parsing the script. The interpreter does this in an instance of its own that receives nothing but
//! the script, within limits that are the same for all actions, so the translation depends on nothing
//! else. It is cached like compiled code. The host only passes it back.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use strata_core::record::fault::Fault;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::team::RoleProfile;

use super::{LinkedComponent, ScriptFile};
use crate::plugin::Plugin;
use crate::sandbox::SandboxCall;
use crate::sandbox::attempt::{self, GuestOutput, new_store};
use crate::sandbox::ctx::Ctx;
use crate::sandbox::engine::cache::CompileCache;

/// The maximum size of a translation, many times that of a script. It is passed with each call.
const MAX_TRANSLATION_BYTES: usize = 8 << 20;
/// The name of the action and the seed with which an interpreter is called to translate.
const TRANSLATING: &str = "translate";

/// A script that can be called.
pub(in crate::sandbox) struct LoadedScript {
    file: ScriptFile,
    /// Where its translation is kept for other processes, and under which name.
    cache: CompileCache,
    cache_key: String,
    /// The script with its translation, as the interpreter receives it. Empty until the script has been
    /// translated, and always if each call brings it along.
    translated: OnceLock<String>,
}

impl LoadedScript {
    /// Creates a script with this digest, and with its translation if that is in the cache.
    pub(super) fn new(file: ScriptFile, digest: &Digest, cache: &CompileCache) -> Self {
        let script = Self {
            file,
            cache: cache.clone(),
            cache_key: CompileCache::translation_key(digest),
            translated: OnceLock::new(),
        };
        if script.lacks_translation()
            && let Some(entry) = cache.get(&script.cache_key)
            && let Ok(text) = str::from_utf8(entry.manifest())
            && let Ok(translation) = Json::parse(text)
        {
            script.keep(&translation);
        }
        script
    }

    fn keep(&self, translation: &Json) {
        let (name, text) = (json!(self.file.name), json!(self.file.text));
        // Another attempt may have translated it at the same time, with the same result.
        self.translated.get_or_init(|| {
            format!(r#"{{"name":{name},"text":{text},"translation":{translation}}}"#)
        });
    }

    pub(in crate::sandbox) fn file(&self) -> &ScriptFile {
        &self.file
    }

    /// Returns whether the script can be translated and has not been.
    pub(in crate::sandbox) fn lacks_translation(&self) -> bool {
        self.file.text.is_some() && self.translated.get().is_none()
    }

    /// Translates the script, before an attempt for which `ctx` was prepared. If this fails, nothing
    /// is kept: the interpreter then receives the script without a translation and fails in the
    /// attempt for the same reason, and the next attempt tries again.
    pub(in crate::sandbox) async fn translate(
        &self,
        interpreter: &LinkedComponent,
        call: &SandboxCall,
        ctx: Ctx,
    ) {
        let config = json!({ "translate": { "name": self.file.name, "text": self.file.text } });
        // Tells the interpreter nothing about the attempt.
        let call = SandboxCall::first_attempt(
            call.digest.clone(),
            Plugin::new(&call.plugin.component),
            RoleProfile::default(),
            TRANSLATING,
        );
        let translation = translation_of(interpreter, &call, &config.to_string(), ctx).await;
        if let Some(translation) = translation {
            self.cache
                .put(&self.cache_key, translation.as_str().as_bytes(), &[]);
            self.keep(&translation);
        }
    }

    /// Returns the configuration with which the interpreter is called: the script, with its
    /// translation if there is one, and the script's own configuration.
    ///
    /// # Errors
    /// Fails if the script is that of an argument, and the call has no such argument.
    pub(in crate::sandbox) fn interpreter_config(
        &self,
        call: &SandboxCall,
    ) -> Result<String, Fault> {
        let script = match self.translated.get() {
            Some(translated) => Cow::from(translated),
            None => Cow::from(self.file.script_of_call(&call.entry)?.to_string()),
        };
        let config = &call.plugin.config;
        Ok(format!(r#"{{"config":{config},"script":{script}}}"#))
    }
}

/// Returns the translation that the interpreter makes in this call. Returns `None` if it fails or
/// reaches a limit.
async fn translation_of(
    interpreter: &LinkedComponent,
    call: &SandboxCall,
    config: &str,
    mut ctx: Ctx,
) -> Option<Json> {
    if interpreter.uses_wasi() {
        ctx.add_wasi(TRANSLATING);
    }
    let meter = Arc::clone(&ctx.meter);
    let mut store = new_store(interpreter, ctx);
    let translating = attempt::execute(&mut store, interpreter, call, config);
    let ended = meter
        .measure(tokio::time::timeout_at(meter.deadline(), translating))
        .await;
    match ended {
        Ok(Ok(Ok(GuestOutput::Output(output)))) => {
            let data = output
                .data
                .filter(|data| data.len() <= MAX_TRANSLATION_BYTES)?;
            Json::parse(&data).ok()
        }
        _ => None,
    }
}

//! Preparation of scripts. Before a script is called for the first time, its interpreter translates it,
//! to what it can run without parsing the script, and describes it. It does this in instances of their
//! own that receive nothing but the script, within limits that are the same for all actions, so the
//! results depend on nothing else. They are cached like compiled code. The host only passes the
//! translation back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use strata_core::record::fault::Fault;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::team::RoleProfile;
use strata_services::plugin::{Limits, Plugin};

use super::describe::run_alone;
use super::{LinkedComponent, LoadError, ScriptFile, ScriptProblem};
use crate::attempt::{self, GuestOutput, new_store};
use crate::capability::wasi;
use crate::ctx::Ctx;
use crate::engine::cache::CompileCache;
use crate::{SandboxCall, fault};

/// The maximum size of a translation, many times that of a script. It is passed with each call.
const MAX_TRANSLATION_BYTES: usize = 8 << 20;
/// Many times what it takes to translate a script, and to run its definitions.
const MAX_CPU_TIME: Duration = Duration::from_secs(5);
/// The interpreter has nothing to wait for here, so only a busy machine makes it slow.
const MAX_WALL_TIME: Duration = Duration::from_secs(30);
/// The name of the action and the seed with which an interpreter is called to prepare a script.
const PREPARING: &str = "prepare";

/// A script that can be called.
pub(crate) struct LoadedScript {
    file: ScriptFile,
    /// The script with its translation, as the interpreter receives it. `None` if each call brings the
    /// script along, or it could not be translated.
    translated: Option<String>,
}

/// What a script says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScriptDescription {
    pub(super) description: String,
    pub(super) config_schema: Option<String>,
    pub(super) input_schema: Option<String>,
    pub(super) output_schema: Option<String>,
    pub(super) needs: Vec<String>,
    /// What the action itself declares.
    pub(super) declared: DeclaredManifest,
    /// What it exports, as its language names it. `None` if that is not known.
    pub(super) exports: Option<Vec<String>>,
    /// Why its language cannot say more of it.
    problem: Option<String>,
    /// Why each call of it will fail.
    error: Option<RefusedScript>,
    /// Why more is not known of it.
    #[serde(skip)]
    pub(super) failure: Option<ScriptProblem>,
}

/// The parts of an action's manifest that its source may declare, and that take precedence over those in
/// the manifest of its package.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeclaredManifest {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) description: Option<String>,
}

/// The answer of an interpreter to a script that it cannot translate.
#[derive(Deserialize)]
struct Refusal {
    error: RefusedScript,
}

/// What is wrong with a script that cannot be called, and where.
#[derive(Clone, Debug, Deserialize)]
struct RefusedScript {
    message: String,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

impl LoadedScript {
    pub(crate) fn file(&self) -> &ScriptFile {
        &self.file
    }

    /// Returns the configuration with which the interpreter is called: the script, with its
    /// translation if there is one, and the script's own configuration.
    ///
    /// # Errors
    /// Fails if the script is that of an argument, and the call has no such argument.
    pub(crate) fn interpreter_config(&self, call: &SandboxCall) -> Result<String, Fault> {
        let script = match &self.translated {
            Some(translated) => Cow::from(translated),
            None => Cow::from(self.file.script_of_call(&call.entry)?.to_string()),
        };
        let config = &call.plugin.config;
        Ok(format!(r#"{{"config":{config},"script":{script}}}"#))
    }
}

/// An interpreter that prepares a script.
pub(super) struct Preparation<'a> {
    pub(super) interpreter: &'a LinkedComponent,
    pub(super) cache: &'a CompileCache,
    pub(super) script: &'a ScriptFile,
    /// The digest of the script, which also covers its interpreter.
    pub(super) digest: &'a Digest,
}

impl Preparation<'_> {
    /// Prepares a script to be called, unless each call brings it along. If it cannot be translated, the
    /// interpreter tries that again in each call, and fails there for the same reason.
    ///
    /// # Errors
    /// Fails if the interpreter cannot be called.
    pub(super) fn prepare(&self) -> Result<(LoadedScript, ScriptDescription), LoadError> {
        let loaded = |translated| LoadedScript {
            file: self.script.clone(),
            translated,
        };
        let Some(script) = self.script.passed_value() else {
            return Ok((loaded(None), ScriptDescription::default()));
        };
        let translation = self.obtain(CompileCache::translation_key(self.digest), || {
            self.ask("translate", &script.to_string())
        })?;
        let translation = match translation {
            Ok(translation) => translation,
            Err(why) => return Ok((loaded(None), ScriptDescription::undescribed(why))),
        };
        if let Ok(Refusal { error }) = serde_json::from_str(translation.as_str()) {
            let failure = Some(self.unusable(error));
            let description = ScriptDescription {
                failure,
                ..ScriptDescription::default()
            };
            return Ok((loaded(None), description));
        }
        let script = with_translation(&script, &translation);
        let description = self.obtain(CompileCache::description_key(self.digest), || {
            self.ask("describe", &script)
        })?;
        let description = description.and_then(|description| {
            serde_json::from_str(description.as_str()).map_err(|error| error.to_string())
        });
        let mut description = description.unwrap_or_else(ScriptDescription::undescribed);
        if let Some(problem) = description.problem.take() {
            description.failure = Some(ScriptProblem::Undescribed(problem));
        }
        if let Some(error) = description.error.take() {
            description.failure = Some(self.unusable(error));
        }
        Ok((loaded(Some(script)), description))
    }

    /// Returns what is cached under this key, or else what `make` returns. The inner error says why
    /// that failed.
    fn obtain(
        &self,
        key: String,
        make: impl FnOnce() -> Result<Result<Json, String>, LoadError>,
    ) -> Result<Result<Json, String>, LoadError> {
        let cached = self.cache.get(&key).and_then(|entry| {
            let text = str::from_utf8(entry.manifest()).ok()?;
            Json::parse(text).ok()
        });
        if let Some(cached) = cached {
            return Ok(Ok(cached));
        }
        let answer = make()?;
        if let Ok(answer) = &answer {
            self.cache.put(&key, answer.as_str().as_bytes(), &[]);
        }
        Ok(answer)
    }

    /// Asks the interpreter for something about a script. The inner error says why it has no answer.
    fn ask(&self, request: &str, script: &str) -> Result<Result<Json, String>, LoadError> {
        let config = format!(r#"{{"{request}":{script}}}"#);
        Ok(run_alone(|| {
            answer(self.interpreter, self.digest, &config)
        })?)
    }

    fn unusable(&self, error: RefusedScript) -> ScriptProblem {
        let file = error
            .file
            .filter(|file| self.script.has_file(file))
            .unwrap_or_else(|| self.script.name.clone());
        ScriptProblem::Unusable {
            file,
            line: error.line,
            column: error.column,
            message: error.message,
        }
    }
}

impl ScriptDescription {
    /// Returns the description of a script of which nothing is known for this reason.
    fn undescribed(why: String) -> Self {
        Self {
            failure: Some(ScriptProblem::Undescribed(why)),
            ..Self::default()
        }
    }
}

/// Returns a script, as its interpreter receives it, with its translation.
fn with_translation(script: &Value, translation: &Json) -> String {
    let script = script.to_string();
    let members = script.strip_suffix('}').unwrap_or(&script);
    format!(r#"{members},"translation":{translation}}}"#)
}

/// Calls the interpreter with this configuration, and returns the data of its output. Fails with a
/// description if there is none.
async fn answer(
    interpreter: &LinkedComponent,
    digest: &Digest,
    config: &str,
) -> Result<Json, String> {
    let limits = Limits {
        cpu: MAX_CPU_TIME,
        timeout: MAX_WALL_TIME,
        fuel: interpreter.counts_fuel().then_some(u64::MAX),
        ..Limits::default()
    };
    let call = SandboxCall::first_attempt(
        digest.clone(),
        Plugin::new(""),
        RoleProfile::default(),
        PREPARING,
    );
    let mut ctx = Ctx::for_describe(limits);
    if interpreter.uses_wasi() {
        wasi::add_to_attempt(&mut ctx, PREPARING);
    }
    let meter = Arc::clone(&ctx.meter);
    let mut store = new_store(interpreter, ctx);
    let answering = attempt::execute(&mut store, interpreter, &call, config);
    let ended = meter
        .measure(tokio::time::timeout_at(meter.deadline(), answering))
        .await;
    let summary = |fault: Fault| {
        let message = fault.message;
        message.lines().next().unwrap_or_default().to_owned()
    };
    let output = match ended {
        Ok(Ok(Ok(GuestOutput::Output(output)))) => output,
        Ok(Ok(Ok(_))) => return Err("the interpreter returned no output".into()),
        Ok(Ok(Err(fault))) => return Err(summary(fault)),
        Ok(Err(error)) => return Err(summary(fault::from_error(&error, store.data()))),
        Err(_) => {
            let error = meter.timeout_error(None).into();
            return Err(summary(fault::from_error(&error, store.data())));
        }
    };
    let data = output.data.unwrap_or_default();
    if data.len() > MAX_TRANSLATION_BYTES {
        return Err(format!(
            "it has more than {MAX_TRANSLATION_BYTES} bytes once translated"
        ));
    }
    Json::parse(&data).map_err(|error| error.to_string())
}

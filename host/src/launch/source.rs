//! Obtains the bytes of a component: reads them, or builds the component first. For a script, these
//! are the bytes of its interpreter. Only the digest of the bytes is computed here; they are not
//! parsed.

mod known_digests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use strata_core::record::id::Digest;

use crate::blob::digest_of;
use crate::build::{self, script::BuiltInterpreter};
use crate::display_path::display_path;
use crate::open;
use crate::plugin::script::{self, ScriptLanguage};
use crate::plugin::{LimitReached, Limits, Plugin};
use crate::sandbox::{
    ComponentInfo, InterpreterComponent, LoadError, Metering, ScriptFile, WasmSandbox,
};
use crate::trust::lock::LockedComponent;
use crate::trust::signature::{TrustedKeys, UntrustedComponent};

use known_digests::FileState;
pub(super) use known_digests::KnownDigests;

/// The maximum size of a script in bytes. A script is passed with each call; anything larger is a
/// bundle and should be built.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// The size in bytes above which compiling a component takes seconds.
const SLOW_COMPILE_BYTES: usize = 4 << 20;

/// What a team file names as a component.
pub(super) struct ComponentSource {
    /// The file that was read. If the team file names a directory, this is the built component.
    pub(super) file: PathBuf,
    /// The bytes of the component, or of the interpreter of a script.
    pub(super) bytes: Vec<u8>,
    script: Option<ScriptWithInterpreter>,
    /// The digest of everything that is run.
    pub(super) digest: Digest,
    /// Whether a trusted key has signed it.
    pub(super) signed: Result<(), Box<UntrustedComponent>>,
}

/// A script and its interpreter.
struct ScriptWithInterpreter {
    script: ScriptFile,
    /// The digest of the interpreter, under which its compiled code is cached.
    interpreter: Digest,
}

impl ComponentSource {
    /// Reads a component of at most `limit` bytes. A directory is built first. `report` receives
    /// the slow operations that begin.
    pub(super) fn read(
        component: &Path,
        limit: u64,
        trusted: &TrustedKeys,
        known: &KnownDigests,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, UnloadableComponent> {
        if let Some(language) = ScriptLanguage::from_path(component)
            && !component.is_dir()
        {
            let interpreter = build::script::interpreter(language, report);
            let interpreter = interpreter.map_err(|error| error.to_string())?;
            return Self::read_script(component, interpreter, limit, trusted, known);
        }
        let file = if component.is_dir() {
            build::build(component, report)
                .map_err(|error| error.to_string())?
                .component
        } else {
            component.to_owned()
        };
        let ComponentBytes { bytes, digest } = read_component_bytes(&file, limit, known)?;
        let signed = trusted.check(&file, &bytes, &digest);
        Ok(Self {
            file,
            bytes,
            script: None,
            digest,
            signed,
        })
    }

    /// Reads a script. Its signature is that of its author; the interpreter is the host's own. A
    /// script that arrives in a message has no signature.
    fn read_script(
        path: &Path,
        interpreter: BuiltInterpreter,
        limit: u64,
        trusted: &TrustedKeys,
        known: &KnownDigests,
    ) -> Result<Self, UnloadableComponent> {
        let written = if script::is_passed_script(path) {
            None
        } else {
            Some(read_text(path)?)
        };
        let BuiltInterpreter {
            component: file,
            source_digest: made_from,
        } = interpreter;
        let ComponentBytes {
            bytes,
            digest: interpreter,
        } = read_component_bytes(&file, limit, known)?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Editors may write a byte order mark. No scripting language treats it as part of the
        // program.
        let text = written
            .as_ref()
            .map(|text| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned());
        let script = ScriptFile { name, text };
        let digest = script.digest(&made_from);
        let signed = trusted.check(
            path,
            written.as_deref().unwrap_or_default().as_bytes(),
            &digest,
        );
        Ok(Self {
            file,
            bytes,
            script: Some(ScriptWithInterpreter {
                script,
                interpreter,
            }),
            digest,
            signed,
        })
    }

    /// Returns the notice to display while it is compiled, if that takes a while.
    pub(super) fn compile_notice(&self, sandbox: &WasmSandbox, plugin: &Plugin) -> Option<String> {
        let (name, digest) = match &self.script {
            Some(ScriptWithInterpreter {
                script,
                interpreter,
            }) => (format!("the interpreter of {}", script.name), interpreter),
            None => (display_path(&self.file), &self.digest),
        };
        let waits = self.bytes.len() > SLOW_COMPILE_BYTES
            && !sandbox.is_compiled(digest, Metering::for_limits(&plugin.limits));
        waits.then(|| format!("compiling {name} to machine code, once"))
    }

    /// Prepares the component to be called as the plugin specifies.
    pub(super) fn load(
        &self,
        sandbox: &WasmSandbox,
        plugin: &Plugin,
    ) -> Result<ComponentInfo, UnloadableComponent> {
        let (metering, limits) = (Metering::for_limits(&plugin.limits), &plugin.limits);
        let loaded = match (&self.script, &plugin.function) {
            (None, None) => {
                sandbox.load_with_digest(self.digest.clone(), &self.bytes, metering, limits)
            }
            (None, Some(_)) => {
                sandbox.load_without_handler(self.digest.clone(), &self.bytes, metering, limits)
            }
            (
                Some(ScriptWithInterpreter {
                    script,
                    interpreter,
                }),
                _,
            ) => {
                let interpreter = InterpreterComponent {
                    digest: interpreter,
                    bytes: &self.bytes,
                };
                sandbox.load_script(script, &self.digest, interpreter, metering, limits)
            }
        };
        loaded.map_err(|error| UnloadableComponent::from_load_error(&self.file, &error))
    }

    /// Returns its entry for the lock file.
    pub(super) fn lock_entry(&self) -> LockedComponent {
        // For a script, only the size of the script counts, because the interpreter's size varies
        // between builds.
        let size = match &self.script {
            Some(interpreted) => interpreted.script.text.as_ref().map_or(0, String::len),
            None => self.bytes.len(),
        };
        LockedComponent {
            sha256: self.digest.clone(),
            size: size as u64,
        }
    }
}

/// The bytes of a component, with their digest.
struct ComponentBytes {
    bytes: Vec<u8>,
    digest: Digest,
}

fn read_component_bytes(
    file: &Path,
    limit: u64,
    known: &KnownDigests,
) -> Result<ComponentBytes, UnloadableComponent> {
    let unreadable = |error: io::Error| {
        format!(
            "cannot read the component `{}`: {error}",
            display_path(file)
        )
    };
    // If the file is in the same state before and after, so it was while it was read.
    let state = || fs::metadata(file).map(|meta| FileState::from_metadata(&meta));
    let before = state().ok();
    let read = open::read_bounded(file, limit).map_err(unreadable)?;
    let bytes = read.map_err(|length| {
        UnloadableComponent::from_load_error(file, &LoadError::TooLarge { length, limit })
    })?;
    let digest = match (before, state()) {
        (Some(before), Ok(after)) if after == before => known.digest(&before, &bytes),
        _ => digest_of(&bytes),
    };
    Ok(ComponentBytes { bytes, digest })
}

fn read_text(script: &Path) -> Result<String, UnloadableComponent> {
    let refused = |why: String| {
        UnloadableComponent::from(format!(
            "cannot read the script `{}`: {why}",
            display_path(script)
        ))
    };
    let read =
        open::read_bounded(script, MAX_SCRIPT_BYTES).map_err(|error| refused(error.to_string()))?;
    let bytes = read.map_err(|length| {
        refused(format!(
            "it has {length} bytes, at most {MAX_SCRIPT_BYTES} are run; build an action of it"
        ))
    })?;
    String::from_utf8(bytes).map_err(|error| refused(error.utf8_error().to_string()))
}

/// Reads a component, within the limits of an action that sets none, and returns its file and its
/// bytes. A directory of source is built first.
pub fn read_component(
    path: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<(PathBuf, Vec<u8>), String> {
    if script::is_script(path) && !path.is_dir() {
        return Err(format!("`{}` is a script, not a component", path.display()));
    }
    let limit = Limits::default().component_bytes;
    let (trusted, known) = (TrustedKeys::default(), KnownDigests::none());
    let source = ComponentSource::read(path, limit, &trusted, &known, report)
        .map_err(|error| error.message)?;
    Ok((source.file, source.bytes))
}

/// The reason why a component cannot be loaded.
pub(super) struct UnloadableComponent {
    message: String,
    /// The limit that was exceeded.
    reached: Option<LimitReached>,
}

impl UnloadableComponent {
    pub(super) fn from_load_error(file: &Path, error: &LoadError) -> Self {
        let message = format!(
            "cannot load the component `{}`: {error}",
            display_path(file)
        );
        Self {
            message,
            reached: error.limit_reached(),
        }
    }

    /// Returns the message with advice for the plugin.
    pub(super) fn message_with_advice(&self, plugin: &Plugin) -> String {
        match self.reached {
            Some(reached) => format!("{}; {}", self.message, plugin.advice.for_limit(reached)),
            None => self.message.clone(),
        }
    }
}

impl From<String> for UnloadableComponent {
    fn from(message: String) -> Self {
        Self {
            message,
            reached: None,
        }
    }
}

//! Obtains a component: finds its file, or builds it first. For a script, this is the file of its
//! interpreter. Only the digest of the bytes is computed here; they are not parsed, and mostly not
//! even read (`component_file`).

mod component_file;

use std::path::{Path, PathBuf};

use strata_core::record::id::Digest;

use crate::build::{self, script::BuiltInterpreter};
use crate::caches::CacheName;
use crate::display_path::display_path;
use crate::known_files::KnownFiles;
use crate::open;
use crate::plugin::script::{self, ScriptLanguage};
use crate::plugin::{LimitReached, Limits, Plugin};
use crate::sandbox::{
    ComponentBytes, ComponentInfo, InterpreterComponent, LoadError, Metering, ScriptFile,
    WasmSandbox,
};
use crate::trust::lock::LockedComponent;
use crate::trust::signature::{TrustedKeys, UntrustedComponent};
use crate::user;

use component_file::ComponentFile;

/// The maximum size of a script in bytes. A script is passed with each call; anything larger is a
/// bundle and should be built.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// The size in bytes above which compiling a component takes seconds.
const SLOW_COMPILE_BYTES: u64 = 4 << 20;

/// What a team file names as a component.
pub(super) struct ComponentSource {
    /// The component, or the interpreter of a script. If the team file names a directory, this is the
    /// built component.
    file: ComponentFile,
    script: Option<ScriptFile>,
    /// The digest of everything that is run.
    pub(super) digest: Digest,
    /// Whether a trusted key has signed it.
    pub(super) signed: Result<(), Box<UntrustedComponent>>,
}

/// Returns the digests of component files that are remembered for this user.
pub(super) fn known_digests() -> KnownFiles {
    user::cache_dir().map_or_else(KnownFiles::none, |cache| {
        KnownFiles::in_directory(&CacheName::Digests.path_in(&cache))
    })
}

impl ComponentSource {
    /// Finds a component of at most `limit` bytes. A directory is built first. `known` has digests of
    /// files, which are not read for them. `report` receives the slow operations that begin.
    pub(super) fn find(
        component: &Path,
        limit: u64,
        trusted: &TrustedKeys,
        known: &KnownFiles,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, UnloadableComponent> {
        if let Some(language) = ScriptLanguage::from_path(component)
            && !component.is_dir()
        {
            let interpreter = build::script::interpreter(language, report);
            let interpreter = interpreter.map_err(|error| error.to_string())?;
            return Self::find_script(component, interpreter, limit, trusted, known);
        }
        let file = if component.is_dir() {
            build::build(component, report)
                .map_err(|error| error.to_string())?
                .component
        } else {
            component.to_owned()
        };
        let file = ComponentFile::open(&file, limit, known)?;
        let signed_bytes = match trusted.require_signatures() {
            true => file.bytes()?,
            false => &[],
        };
        Ok(Self {
            signed: trusted.check(file.path(), signed_bytes, file.digest()),
            digest: file.digest().clone(),
            script: None,
            file,
        })
    }

    /// Finds a script. Its signature is that of its author; the interpreter is the host's own. A
    /// script that arrives in a message has no signature.
    fn find_script(
        path: &Path,
        interpreter: BuiltInterpreter,
        limit: u64,
        trusted: &TrustedKeys,
        known: &KnownFiles,
    ) -> Result<Self, UnloadableComponent> {
        let written = if script::is_passed_script(path) {
            None
        } else {
            Some(read_text(path)?)
        };
        let BuiltInterpreter {
            component,
            source_digest: made_from,
        } = interpreter;
        let file = ComponentFile::open(&component, limit, known)?;
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
            script: Some(script),
            digest,
            signed,
        })
    }

    /// Returns the file of the component, or of the interpreter of a script.
    pub(super) fn file(&self) -> &Path {
        self.file.path()
    }

    /// Returns the bytes of the component, or of the interpreter of a script.
    pub(super) fn bytes(&self) -> Result<&[u8], UnloadableComponent> {
        self.file.bytes()
    }

    /// Returns the notice to display while it is compiled, if that takes a while.
    pub(super) fn compile_notice(&self, sandbox: &WasmSandbox, plugin: &Plugin) -> Option<String> {
        let name = match &self.script {
            Some(script) => format!("the interpreter of {}", script.name),
            None => display_path(self.file()),
        };
        let metering = Metering::for_limits(&plugin.limits);
        let waits = self.file.size() > SLOW_COMPILE_BYTES
            && !sandbox.is_compiled(self.file.digest(), metering);
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
                sandbox.load_with_digest(self.digest.clone(), &self.file, metering, limits)
            }
            (None, Some(_)) => {
                sandbox.load_without_handler(self.digest.clone(), &self.file, metering, limits)
            }
            (Some(script), _) => {
                let interpreter = InterpreterComponent {
                    digest: self.file.digest(),
                    bytes: &self.file,
                };
                sandbox.load_script(script, &self.digest, interpreter, metering, limits)
            }
        };
        loaded.map_err(|error| UnloadableComponent::from_load_error(self.file(), &error))
    }

    /// Returns its entry for the lock file.
    pub(super) fn lock_entry(&self) -> LockedComponent {
        // For a script, only the size of the script counts, because the interpreter's size varies
        // between builds.
        let size = match &self.script {
            Some(script) => script.text.as_ref().map_or(0, |text| text.len() as u64),
            None => self.file.size(),
        };
        LockedComponent {
            sha256: self.digest.clone(),
            size,
        }
    }
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
    let (trusted, known) = (TrustedKeys::default(), KnownFiles::none());
    let source = ComponentSource::find(path, limit, &trusted, &known, report)
        .map_err(|error| error.message)?;
    let bytes = source.bytes().map_err(|error| error.message)?;
    Ok((source.file().to_owned(), bytes.to_owned()))
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

//! Obtains a component: finds its file, or builds it first. For a script, this is the file of its
//! interpreter. Only the digest of the bytes is computed here; they are not parsed, and mostly not
//! even read (`component_file`).

mod component_file;

use std::path::{Path, PathBuf};

use strata_base::advice::Advice;
use strata_base::files::caches::CacheName;
use strata_base::files::known_files::KnownFiles;
use strata_base::files::open;
use strata_base::files::user;
use strata_base::text::display_path::display_path;
use strata_build::SourceUse;
use strata_core::record::id::Digest;
use strata_sandbox::{
    ComponentBytes, ComponentInfo, InterpreterComponent, LoadError, Metering, ScriptFile,
    ScriptProblem, ScriptSource, WasmSandbox,
};
use strata_services::plugin::builtin::BuiltinComponent;
use strata_services::plugin::script::{self, MAX_SCRIPT_BYTES, ScriptLanguage};
use strata_services::plugin::{LimitReached, Limits, Plugin};

use strata_manifest::trust::lock::LockedComponent;
use strata_manifest::trust::signature::{TrustedKeys, UntrustedComponent};

use component_file::ComponentFile;

/// The size in bytes above which compiling a component takes seconds.
const SLOW_COMPILE_BYTES: u64 = 4 << 20;

/// What a team file names as a component.
pub(super) struct ComponentSource {
    /// The component, or the interpreter of a script. If the team file names a directory that is
    /// built, this is the built component.
    file: ComponentFile,
    script: Option<ScriptFile>,
    /// The files that a script comes from, without those that arrive in a message.
    script_files: Vec<PathBuf>,
    /// The digest of everything that is run.
    pub(super) digest: Digest,
    /// Whether a trusted key has signed it.
    pub(super) signed: Result<(), Box<UntrustedComponent>>,
    /// What the operator should know about how it was obtained.
    pub(super) warning: Option<String>,
}

/// How a component is found.
pub(super) struct ComponentFinder<'a> {
    /// The maximum size of a component in bytes.
    pub(super) limit: u64,
    /// Who may sign components.
    pub(super) trusted: &'a TrustedKeys,
    /// The digests of files, which are not read for them.
    pub(super) known: &'a KnownFiles,
    /// The digest that the component must have, if that is known. If it is that of the component which
    /// was built from a directory, this component is used where a build is not necessary.
    pub(super) demanded: Option<Digest>,
}

/// Returns the digests of component files that are remembered for this user.
pub(super) fn known_digests() -> KnownFiles {
    user::cache_dir().map_or_else(KnownFiles::none, |cache| {
        KnownFiles::in_directory(&CacheName::Digests.path_in(&cache))
    })
}

impl ComponentFinder<'_> {
    /// Finds a component. A directory is built first, unless an interpreter can run its source.
    /// `report` receives the slow operations that begin.
    pub(super) fn find(
        &self,
        component: &Path,
        report: &mut dyn FnMut(&str),
    ) -> Result<ComponentSource, UnloadableComponent> {
        if let Some(builtin) = BuiltinComponent::from_path(component) {
            return self.find_builtin(builtin);
        }
        if component.is_dir() {
            return self.find_in_directory(component, report);
        }
        match ScriptLanguage::from_path(component) {
            Some(language) => self.find_script(component, language, report),
            None => self.find_component(component),
        }
    }

    fn find_in_directory(
        &self,
        directory: &Path,
        report: &mut dyn FnMut(&str),
    ) -> Result<ComponentSource, UnloadableComponent> {
        let source_use = strata_build::source_use(directory).map_err(|error| error.to_string())?;
        let because = match source_use {
            SourceUse::Built { because } => because,
            SourceUse::Interpreted {
                language,
                script,
                files,
            } => {
                let interpreted = InterpretedScript {
                    language,
                    script,
                    files,
                };
                return self.find_interpreted(directory, interpreted, report);
            }
        };
        let mut report_reason = |line: &str| match &because {
            Some(because) => report(&format!("{line} ({because})")),
            None => report(line),
        };
        let built = strata_build::build(directory, &mut report_reason);
        let built = built.map_err(|error| error.to_string())?;
        self.find_component(&built.component)
    }

    /// Finds the source in a directory that an interpreter can run. Nothing is built for it: what runs
    /// may be a stranger's.
    fn find_interpreted(
        &self,
        directory: &Path,
        interpreted: InterpretedScript,
        report: &mut dyn FnMut(&str),
    ) -> Result<ComponentSource, UnloadableComponent> {
        if self.demanded.is_some() || self.trusted.require_signatures() {
            let built = strata_build::up_to_date_component(directory);
            if let Some(component) = built.map_err(|error| error.to_string())? {
                let found = self.find_component(&component)?;
                let is_demanded = self
                    .demanded
                    .as_ref()
                    .is_some_and(|demanded| *demanded == found.digest);
                if is_demanded || self.trusted.require_signatures() {
                    return Ok(found);
                }
            }
            if self.trusted.require_signatures() {
                let shown = display_path(directory);
                return Err(UnloadableComponent {
                    advice: Some(Advice::BuildAndSign),
                    ..UnloadableComponent::from(format!(
                        "`{shown}` is a directory of source, and components must be signed"
                    ))
                });
            }
        }
        self.with_interpreter(interpreted, report)
    }

    /// Finds a component that is part of this program. Like the program, it needs no signature.
    fn find_builtin(
        &self,
        builtin: BuiltinComponent,
    ) -> Result<ComponentSource, UnloadableComponent> {
        let file = ComponentFile::builtin(builtin, self.limit)?;
        Ok(ComponentSource {
            digest: file.digest().clone(),
            script: None,
            script_files: Vec::new(),
            warning: None,
            signed: Ok(()),
            file,
        })
    }

    /// Finds a component in this file.
    fn find_component(&self, file: &Path) -> Result<ComponentSource, UnloadableComponent> {
        let file = ComponentFile::open(file, self.limit, self.known)?;
        let signed_bytes = if self.trusted.require_signatures() {
            file.bytes()?
        } else {
            &[]
        };
        Ok(ComponentSource {
            signed: self.trusted.check(file.path(), signed_bytes, file.digest()),
            digest: file.digest().clone(),
            script: None,
            script_files: Vec::new(),
            warning: None,
            file,
        })
    }

    /// Finds a script. Its signature is that of its author; the interpreter is the host's own. A
    /// script that arrives in a message has no signature.
    fn find_script(
        &self,
        path: &Path,
        language: ScriptLanguage,
        report: &mut dyn FnMut(&str),
    ) -> Result<ComponentSource, UnloadableComponent> {
        let name = path.file_name().unwrap_or_default();
        let (source, files, signed_bytes) = if script::is_passed_script(path) {
            (ScriptSource::Passed, Vec::new(), Vec::new())
        } else {
            let text = read_text(path)?;
            // Editors may write a byte order mark. No scripting language treats it as part of the
            // program.
            let program = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
            let source = ScriptSource::Text(program);
            (source, vec![path.to_owned()], text.into_bytes())
        };
        let interpreted = InterpretedScript {
            language,
            script: ScriptFile {
                name: name.to_string_lossy().into_owned(),
                source,
            },
            files,
        };
        let mut found = self.with_interpreter(interpreted, report)?;
        found.signed = self.trusted.check(path, &signed_bytes, &found.digest);
        Ok(found)
    }

    /// Returns the source of a script, with its interpreter.
    fn with_interpreter(
        &self,
        interpreted: InterpretedScript,
        report: &mut dyn FnMut(&str),
    ) -> Result<ComponentSource, UnloadableComponent> {
        let InterpretedScript {
            language,
            script,
            files,
        } = interpreted;
        let interpreter = strata_build::script::interpreter(language, report);
        let interpreter = interpreter.map_err(|error| error.to_string())?;
        Ok(ComponentSource {
            file: ComponentFile::open(&interpreter.component, self.limit, self.known)?,
            digest: script.digest(&interpreter.source_digest),
            script: Some(script),
            script_files: files,
            signed: Ok(()),
            warning: interpreter.warning,
        })
    }
}

/// What an interpreter runs.
struct InterpretedScript {
    language: ScriptLanguage,
    script: ScriptFile,
    files: Vec<PathBuf>,
}

impl ComponentSource {
    /// Returns the files that a script comes from. Returns `None` for a component.
    pub(super) fn script_files(&self) -> Option<&[PathBuf]> {
        self.script.as_ref().map(|_| &*self.script_files)
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
        let how_often = if sandbox.keeps_compiled() {
            "once"
        } else {
            "at each start, because there is no cache that can be written: `export XDG_CACHE_HOME=DIRECTORY`"
        };
        waits.then(|| format!("compiling {name} to machine code, {how_often}"))
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
            Some(script) => script.size(),
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
    let builtin = path.to_str().map_or(Ok(None), BuiltinComponent::parse);
    let builtin = builtin.map_err(|unknown| unknown.to_string())?;
    let known = KnownFiles::none();
    let finder = default_finder(&known);
    let source = match builtin {
        Some(builtin) => finder.find_builtin(builtin),
        None if path.is_dir() => {
            let built = strata_build::build(path, report).map_err(|error| error.to_string())?;
            finder.find_component(&built.component)
        }
        None if script::is_script(path) => {
            return Err(format!("`{}` is a script, not a component", path.display()));
        }
        None => finder.find_component(path),
    };
    let source = source.map_err(|error| error.message)?;
    let bytes = source.bytes().map_err(|error| error.message)?;
    Ok((source.file().to_owned(), bytes.to_owned()))
}

/// Loads a script, or the source in a directory that an interpreter runs, within the limits of an
/// action that sets none. Returns `None` for everything else.
///
/// # Errors
/// Fails with a description if it cannot be loaded.
pub fn load_script(
    path: &Path,
    sandbox: &WasmSandbox,
    report: &mut dyn FnMut(&str),
) -> Result<Option<ComponentInfo>, String> {
    let is_interpreted = if path.is_dir() {
        !strata_build::is_built(path)
    } else {
        script::is_script(path)
    };
    if !is_interpreted {
        return Ok(None);
    }
    let source = default_finder(&KnownFiles::none()).find(path, report);
    let loaded = source.and_then(|source| source.load(sandbox, &Plugin::new(path)));
    let loaded = loaded.map_err(|error| error.message)?;
    match unusable_script(path, &loaded) {
        Some(error) => Err(error),
        None => Ok(Some(loaded)),
    }
}

/// Returns why a script, or the source in a directory, cannot be called, with the position.
pub(super) fn unusable_script(named: &Path, info: &ComponentInfo) -> Option<String> {
    let Some(ScriptProblem::Unusable {
        file,
        line,
        column,
        message,
    }) = info.problem.as_deref()
    else {
        return None;
    };
    let path = if named.is_dir() {
        named.join(file)
    } else {
        named.to_owned()
    };
    let mut place = display_path(&path);
    for number in line.iter().chain(line.and(column.as_ref())) {
        place += &format!(":{number}");
    }
    Some(format!("{place}: {message}"))
}

/// Returns how a component is found outside of a team.
fn default_finder(known: &KnownFiles) -> ComponentFinder<'_> {
    const ANYBODY: &TrustedKeys = &TrustedKeys(Vec::new());
    ComponentFinder {
        limit: Limits::default().component_bytes,
        trusted: ANYBODY,
        known,
        demanded: None,
    }
}

/// The reason why a component cannot be loaded.
pub(super) struct UnloadableComponent {
    message: String,
    /// The limit that was exceeded.
    reached: Option<LimitReached>,
    /// What the user can do about it.
    pub(super) advice: Option<Advice>,
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
            advice: error.advice(),
        }
    }

    /// Returns the message. If a limit was exceeded, it says how the plugin's is raised.
    pub(super) fn message_for(&self, plugin: &Plugin) -> String {
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
            advice: None,
        }
    }
}

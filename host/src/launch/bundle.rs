//! Collects the files that a team needs to run on another machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::files::blob::{Blobs, digest_of};
use strata_base::files::known_files::KnownFiles;
use strata_base::files::open;
use strata_base::text::component_replacement::ComponentReplacement;
use strata_base::text::display_path::{absolute_path, display_path};
use strata_core::record::id::Digest;
use strata_manifest::Definition;
use strata_manifest::submission::relative_directory;
use strata_manifest::trust::lock::{ComponentLock, LOCK_FILE, LockedName};
use strata_manifest::trust::signature::signature_path;
use strata_services::plugin::builtin::BuiltinComponent;
use strata_services::plugin::script;
use strata_storage::SavedDefinition;

use super::components::demanded_digest;
use super::skill_lock::skill_entries;
use super::source::{ComponentFinder, ComponentSource, UnloadableComponent};
use super::{LaunchError, Notice};
use crate::bundle::{COMPONENTS, MAX_BYTES, MAX_FILES, TEAM, WORKSPACE, saved_path};

/// The files of a team, and its team file with the paths that they have in the bundle.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) files: BTreeMap<String, Digest>,
    pub(super) contents: Blobs,
    pub(super) definition: SavedDefinition,
    bytes: u64,
}

impl Bundle {
    /// Collects the files of a team. Components are built where that is necessary.
    pub(super) fn collect(
        definition: &Definition,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Self, LaunchError> {
        let source = &definition.source;
        let mut bundle = Self {
            files: BTreeMap::new(),
            contents: Blobs::new(),
            definition: SavedDefinition {
                name: source.name.clone(),
                base: saved_path(TEAM),
                text: source.text.clone(),
                components: Vec::new(),
            },
            bytes: 0,
        };
        bundle.add_components(definition, report)?;
        for file in definition.read_files() {
            bundle.add_file_of_team(file, &source.base)?;
        }
        // Those of a submitted team are in a workspace, and were submitted with it.
        let plugins = definition.plugins.values();
        for plugin in plugins.filter(|_| !definition.is_submitted()) {
            for grant in &plugin.grants.dirs {
                match relative_directory(&grant.host, &source.base) {
                    Some(rest) => bundle.add_directory(&grant.host, &rest, report)?,
                    None => report(Notice::Warning(&format!(
                        "`{}` is not beside the team file, so it is that directory of the worker, if its policy allows it",
                        display_path(&grant.host)
                    ))),
                }
            }
        }
        Ok(bundle)
    }

    /// Adds the components with their signatures, and a lock file for them if the team has one.
    fn add_components(
        &mut self,
        definition: &Definition,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), LaunchError> {
        let base = &definition.source.base;
        let present = ComponentLock::read_in(base)?;
        let mut lock = ComponentLock::new(base);
        for (slot, plugin) in &definition.plugins {
            let component = &plugin.component;
            let busy = &mut |line: &str| report(Notice::Busy(line));
            let finder = ComponentFinder {
                limit: plugin.limits.component_bytes,
                trusted: &definition.trust,
                // What is submitted is computed from the bytes.
                known: &KnownFiles::none(),
                demanded: demanded_digest(definition, *slot, plugin, present.as_ref()),
            };
            let source = finder.find(component, busy);
            let refuse = |why: UnloadableComponent| {
                let message = why.message_for(plugin);
                match why.advice {
                    Some(advice) => LaunchError::Unsuitable { message, advice },
                    None => LaunchError::InvalidInput(message),
                }
            };
            let source = source.map_err(refuse)?;
            let entry = source.lock_entry();
            if script::is_passed_script(component) {
                lock.set(LockedName::for_component(component, None, base), entry);
                continue;
            }
            let path = match source.script_files() {
                Some(files) if component.is_dir() => self.add_source(component, files, &source)?,
                Some(_) => self.add_component(component, self.read(component)?)?,
                None => {
                    let bytes = source.bytes().map_err(refuse)?.to_owned();
                    // A worker may have another version of a built-in component, so it is submitted, too.
                    let builtin = BuiltinComponent::from_path(component);
                    let file =
                        builtin.map_or(source.file(), |builtin| builtin.file_name().as_ref());
                    self.add_component(file, bytes)?
                }
            };
            let slot = definition.team.slot_name(*slot);
            let replacement = ComponentReplacement::new(slot, saved_path(&path));
            self.definition.components.push(replacement);
            lock.set(LockedName::of_submitted(&path), entry);
        }
        for (name, entry) in skill_entries(definition)? {
            lock.set(name, entry);
        }
        // Whoever runs the team can then run no other components.
        match present {
            Some(_) => self.add(format!("{TEAM}/{LOCK_FILE}"), lock.to_text().into_bytes()),
            None => Ok(()),
        }
    }

    /// Adds a component or a script, with its signature, and returns its path in the bundle.
    fn add_component(&mut self, file: &Path, bytes: Vec<u8>) -> Result<String, LaunchError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{COMPONENTS}/{}/{name}", &digest_of(&bytes).0[..16]);
        let signature = signature_path(file);
        if signature.exists() {
            let beside = signature_path(Path::new(&path));
            self.add_file(&signature, beside.to_string_lossy().into_owned())?;
        }
        self.add(path.clone(), bytes)?;
        Ok(path)
    }

    /// Adds the files of a directory that an interpreter runs, and returns the path of the directory in
    /// the bundle.
    fn add_source(
        &mut self,
        directory: &Path,
        files: &[PathBuf],
        source: &ComponentSource,
    ) -> Result<String, LaunchError> {
        let directory = directory
            .canonicalize()
            .map_err(|error| unreadable(directory, &error))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{COMPONENTS}/{}/{name}", &source.digest.0[..16]);
        for file in files {
            let inside = file.strip_prefix(&directory).unwrap_or(file);
            self.add_file(file, format!("{path}/{}", inside.display()))?;
        }
        Ok(path)
    }

    /// Adds a file that the team file names, which has to lie beside it or below.
    fn add_file_of_team(&mut self, file: &Path, base: &Path) -> Result<(), LaunchError> {
        let Some(rest) = relative_directory(&absolute_path(file), base) else {
            return Err(LaunchError::InvalidInput(format!(
                "`{}` is not in the directory of the team file, so it cannot be submitted with it; move it there",
                display_path(file)
            )));
        };
        self.add_file(file, format!("{TEAM}/{}", rest.display()))
    }

    /// Adds all files of a directory that an action may use.
    fn add_directory(
        &mut self,
        directory: &Path,
        inside: &Path,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), LaunchError> {
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| unreadable(directory, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(directory, &error))?;
            let path = entry.path();
            let kind = entry
                .file_type()
                .map_err(|error| unreadable(&path, &error))?;
            let inside = inside.join(entry.file_name());
            if kind.is_dir() {
                self.add_directory(&path, &inside, report)?;
            } else if kind.is_file() {
                self.add_file(&path, format!("{WORKSPACE}/{}", inside.display()))?;
            } else {
                report(Notice::Warning(&format!(
                    "`{}` is no regular file, so it is not submitted",
                    display_path(&path)
                )));
            }
        }
        Ok(())
    }

    /// Adds a file, unless it is there already.
    fn add_file(&mut self, file: &Path, path: String) -> Result<(), LaunchError> {
        if self.files.contains_key(&path) {
            return Ok(());
        }
        let bytes = self.read(file)?;
        self.add(path, bytes)
    }

    /// Returns the bytes of a file, which is not read if it does not fit.
    fn read(&self, file: &Path) -> Result<Vec<u8>, LaunchError> {
        let read = open::read_bounded(file, MAX_BYTES - self.bytes);
        match read.map_err(|error| unreadable(file, &error))? {
            Ok(bytes) => Ok(bytes),
            Err(bytes) => Err(self.too_large(&display_path(file), bytes)),
        }
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), LaunchError> {
        if self.files.contains_key(&path) {
            return Ok(());
        }
        let size = bytes.len() as u64;
        if size > MAX_BYTES - self.bytes || self.files.len() >= MAX_FILES {
            return Err(self.too_large(&path, size));
        }
        let digest = digest_of(&bytes);
        self.bytes += size;
        self.files.insert(path, digest.clone());
        self.contents.insert(digest, Arc::from(bytes));
        Ok(())
    }

    /// Returns the error for a file with which the bundle would be too large.
    fn too_large(&self, file: &str, bytes: u64) -> LaunchError {
        LaunchError::InvalidInput(format!(
            "the files of the team are too many to submit: with `{file}` they are {} with {} bytes, and at most \
             {MAX_FILES} with {MAX_BYTES} bytes are taken; grant a smaller directory",
            self.files.len() + 1,
            self.bytes.saturating_add(bytes)
        ))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> LaunchError {
    LaunchError::InvalidInput(format!("cannot read `{}`: {error}", display_path(path)))
}

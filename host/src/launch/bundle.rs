//! Collects the files that a team needs to run on another machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use strata_core::record::id::Digest;

use super::{LaunchError, Notice, read_component};
use crate::blob::{Blobs, digest_of};
use crate::bundle::{COMPONENTS, MAX_BYTES, MAX_FILES, TEAM, WORKSPACE, saved_path};
use crate::display_path::{absolute_path, display_path};
use crate::manifest::Definition;
use crate::manifest::submission::relative_directory;
use crate::open;
use crate::plugin::script;
use crate::storage::SavedDefinition;

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
        for plugin in definition.plugins.values() {
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

    fn add_components(
        &mut self,
        definition: &Definition,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), LaunchError> {
        for (slot, plugin) in &definition.plugins {
            let component = &plugin.component;
            if script::is_passed_script(component) {
                continue;
            }
            let (file, bytes) = if script::is_script(component) && !component.is_dir() {
                let bytes = open::read(component).map_err(|error| unreadable(component, &error))?;
                (component.clone(), bytes)
            } else {
                read_component(component, &mut |line| report(Notice::Busy(line)))
                    .map_err(LaunchError::InvalidInput)?
            };
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{COMPONENTS}/{}/{name}", &digest_of(&bytes).0[..16]);
            let argument = format!(
                "{}={}",
                definition.team.slot_name(*slot),
                saved_path(&path).display()
            );
            self.definition.components.push(argument);
            self.add(path, bytes)?;
        }
        Ok(())
    }

    /// Adds a file that the team file names, which has to lie beside it or below.
    fn add_file_of_team(&mut self, file: &Path, base: &Path) -> Result<(), LaunchError> {
        let Some(rest) = relative_directory(&absolute_path(file), base) else {
            return Err(LaunchError::InvalidInput(format!(
                "`{}` is not in the directory of the team file, so it cannot be submitted with it; move it there",
                display_path(file)
            )));
        };
        let bytes = open::read(file).map_err(|error| unreadable(file, &error))?;
        self.add(format!("{TEAM}/{}", rest.display()), bytes)
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
                let bytes = open::read(&path).map_err(|error| unreadable(&path, &error))?;
                self.add(format!("{WORKSPACE}/{}", inside.display()), bytes)?;
            } else {
                report(Notice::Warning(&format!(
                    "`{}` is no regular file, so it is not submitted",
                    display_path(&path)
                )));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), LaunchError> {
        let digest = digest_of(&bytes);
        if self.files.insert(path.clone(), digest.clone()).is_none() {
            self.bytes += bytes.len() as u64;
        }
        if self.bytes > MAX_BYTES || self.files.len() > MAX_FILES {
            return Err(LaunchError::InvalidInput(format!(
                "the files of the team are too many to submit: with `{path}` they are {} with {} bytes, and at most \
                 {MAX_FILES} with {MAX_BYTES} bytes are taken; grant a smaller directory",
                self.files.len(),
                self.bytes
            )));
        }
        self.contents.insert(digest, Arc::from(bytes));
        Ok(())
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> LaunchError {
    LaunchError::InvalidInput(format!("cannot read `{}`: {error}", display_path(path)))
}

//! The files of the in-memory host: their contents by path, and which directories are granted.

use crate::{HostError, HostErrorKind};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Directories {
    contents: BTreeMap<String, Vec<u8>>,
    readable: BTreeSet<String>,
    writable: BTreeSet<String>,
}

impl Directories {
    pub fn put(&mut self, path: &str, content: &[u8]) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.readable.insert(directory.to_owned());
        self.contents.insert(path.to_owned(), content.to_vec());
    }

    pub fn grant_writing(&mut self, directory: &str) {
        let directory = directory.trim_end_matches('/').to_owned();
        self.readable.insert(directory.clone());
        self.writable.insert(directory);
    }

    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.contents.get(path).map(Vec::as_slice)
    }

    pub fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        check_granted(&self.readable, path, "reading")?;
        let not_found = || {
            error(
                HostErrorKind::NotFound,
                format!("reading `{path}`: no such file"),
            )
        };
        self.contents.get(path).cloned().ok_or_else(not_found)
    }

    pub fn write(&mut self, path: &str, content: &[u8]) -> Result<(), HostError> {
        check_granted(&self.writable, path, "writing")?;
        self.contents.insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    pub fn remove(&mut self, path: &str) -> Result<(), HostError> {
        check_granted(&self.writable, path, "removing")?;
        let not_found = || {
            error(
                HostErrorKind::NotFound,
                format!("removing `{path}`: no such file"),
            )
        };
        self.contents.remove(path).map(drop).ok_or_else(not_found)
    }

    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let directory = path.trim_end_matches('/');
        check_granted(&self.readable, directory, "listing")?;
        let inside = self.contents.keys().filter_map(|file| {
            let rest = file.strip_prefix(directory)?.strip_prefix('/')?;
            Some(
                rest.split_once('/')
                    .map_or(rest.to_owned(), |(name, _)| format!("{name}/")),
            )
        });
        let names: BTreeSet<String> = inside.collect();
        Ok(names.into_iter().collect())
    }
}

fn check_granted(directories: &BTreeSet<String>, path: &str, verb: &str) -> Result<(), HostError> {
    let inside = |directory: &String| {
        path.strip_prefix(directory.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let leads_out = path.split('/').any(|part| part == "..");
    if !leads_out && directories.iter().any(inside) {
        return Ok(());
    }
    Err(error(
        HostErrorKind::Denied,
        format!("{verb} `{path}`: not granted"),
    ))
}

fn error(kind: HostErrorKind, message: String) -> HostError {
    HostError { kind, message }
}

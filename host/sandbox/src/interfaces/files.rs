//! `files`: the host functions for files below the granted directories, which `capability::files` reads
//! and checks.

use crate::bindings::files;
use crate::convert;
use crate::ctx::{Ctx, HostResult};

impl files::Host for Ctx {
    async fn read(&mut self, path: String) -> HostResult<Vec<u8>> {
        self.count_calls("files.read", 1)?;
        self.note_lookup(&path);
        // A file larger than the guest's memory could not be returned to it.
        let limit = self.limits.memory_bytes;
        let read = self.capabilities.files.read(path, limit);
        let read = self.meter.by_deadline("files.read", read).await?;
        self.count_bytes("files.read", read.as_ref().map_or(0, Vec::len) as u64)?;
        Ok(read.map_err(|error| self.refuse(error)))
    }

    async fn write(&mut self, path: String, content: Vec<u8>) -> HostResult<()> {
        self.count_calls("files.write", 1)?;
        self.count_bytes("files.write", (path.len() + content.len()) as u64)?;
        if let Err(refusal) = self.check_effects_allowed() {
            return Ok(Err(refusal));
        }
        let write = self.capabilities.files.write(path, content);
        let written = self.meter.by_deadline("files.write", write).await?;
        Ok(written.map_err(|error| self.refuse(error)))
    }

    async fn remove(&mut self, path: String) -> HostResult<()> {
        self.count_calls("files.remove", 1)?;
        self.count_bytes("files.remove", path.len() as u64)?;
        if let Err(refusal) = self.check_effects_allowed() {
            return Ok(Err(refusal));
        }
        let remove = self.capabilities.files.remove(path);
        let removed = self.meter.by_deadline("files.remove", remove).await?;
        Ok(removed.map_err(|error| self.refuse(error)))
    }

    async fn list(&mut self, path: String) -> HostResult<Vec<String>> {
        self.count_calls("files.list", 1)?;
        self.note_lookup(&path);
        let list = self.capabilities.files.list(path);
        let list = self.meter.by_deadline("files.list", list).await?;
        let names = list.iter().flatten().map(|name| convert::item_bytes(name));
        self.count_bytes("files.list", names.sum())?;
        Ok(list.map_err(|error| self.refuse(error)))
    }
}

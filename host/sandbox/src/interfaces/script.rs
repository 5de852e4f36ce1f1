//! `script`: the host functions for interpreters of scripts, whose WIT is in `guest-sdk/interpreter/`.

use crate::bindings::script;
use crate::ctx::Ctx;

impl script::Host for Ctx {
    // Neither counted nor recorded: it costs the host an assignment, and changes nothing but the text of a fault.
    fn line_reached(&mut self, line: u32) -> wasmtime::Result<()> {
        self.script_line = Some(line);
        Ok(())
    }

    // Neither counted nor recorded: it changes nothing but what people are told.
    fn path_missing(&mut self, path: String) -> wasmtime::Result<()> {
        self.note_lookup(&path);
        Ok(())
    }
}

//! The formatting of the file: it is indented, except for messages, which are on one line each. The
//! file repeats a message for each role that handled it, and most of an indented message would be
//! indentation.

use std::cell::Cell;
use std::io::{self, Write};

use serde_json::ser::{Formatter, PrettyFormatter};

/// Whether what is being written goes on one line.
#[derive(Debug, Default)]
pub(super) struct OneLine(Cell<bool>);

impl OneLine {
    /// Writes on one line whatever `write` serialises.
    pub(super) fn run<T>(&self, write: impl FnOnce() -> T) -> T {
        let outer = self.0.replace(true);
        let written = write();
        self.0.set(outer);
        written
    }
}

/// The formatter of the file.
pub(super) struct TeamJsonFormatter<'a> {
    line: &'a OneLine,
    indented: PrettyFormatter<'static>,
}

impl<'a> TeamJsonFormatter<'a> {
    pub(super) fn new(line: &'a OneLine) -> Self {
        Self {
            line,
            indented: PrettyFormatter::new(),
        }
    }

    /// Returns the formatter that indents, unless everything goes on one line.
    fn indented(&mut self) -> Option<&mut PrettyFormatter<'static>> {
        if self.line.0.get() {
            None
        } else {
            Some(&mut self.indented)
        }
    }
}

/// Writes the separator before an item or a key on one line.
fn write_separator<W: Write + ?Sized>(out: &mut W, first: bool) -> io::Result<()> {
    if first { Ok(()) } else { out.write_all(b", ") }
}

impl Formatter for TeamJsonFormatter<'_> {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.begin_array(out),
            None => out.write_all(b"["),
        }
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.end_array(out),
            None => out.write_all(b"]"),
        }
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.begin_array_value(out, first),
            None => write_separator(out, first),
        }
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.end_array_value(out),
            None => Ok(()),
        }
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.begin_object(out),
            None => out.write_all(b"{"),
        }
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.end_object(out),
            None => out.write_all(b"}"),
        }
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.begin_object_key(out, first),
            None => write_separator(out, first),
        }
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        match self.indented() {
            Some(indented) => indented.end_object_value(out),
            None => Ok(()),
        }
    }
}

//! Writes a long document to standard output in pieces, so that it is never in memory as a whole.

use std::io::{self, ErrorKind, Write};

use super::Printer;
use crate::sanitize::sanitize_json;

/// How a document is made safe to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentText {
    /// It is printed unchanged.
    Unchanged,
    /// It is JSON, and invisible characters are escaped.
    EscapedJson,
}

/// Writes UTF-8 to standard output. A failure ends the writing; `Printer::take_stdout_error` returns
/// it at the end of the command.
pub(super) struct DocumentWriter<'a> {
    printer: &'a Printer,
    text: DocumentText,
    /// The beginning of a character whose end was not written yet.
    incomplete: Vec<u8>,
}

impl<'a> DocumentWriter<'a> {
    pub(super) fn new(printer: &'a Printer, text: DocumentText) -> Self {
        Self {
            printer,
            text,
            incomplete: Vec::new(),
        }
    }

    fn print(&self, text: &str) -> io::Result<()> {
        let mut screen = self.printer.screen();
        match self.text {
            DocumentText::Unchanged => screen.print_piece(text.as_bytes()),
            DocumentText::EscapedJson => screen.print_piece(sanitize_json(text).as_bytes()),
        }
        if screen.has_stdout_failed() {
            Err(ErrorKind::BrokenPipe.into())
        } else {
            Ok(())
        }
    }
}

impl Write for DocumentWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = std::mem::take(&mut self.incomplete);
        piece.extend_from_slice(bytes);
        let complete = match std::str::from_utf8(&piece) {
            Ok(_) => piece.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(ErrorKind::InvalidData.into()),
        };
        self.incomplete = piece.split_off(complete);
        let text = String::from_utf8(piece).map_err(|_| ErrorKind::InvalidData)?;
        self.print(&text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Finds the end of a JSON object or array whose text arrives in pieces. Parsing the text again with
//! each piece would take quadratic time.

/// The nesting depth of a JSON document, updated as its text arrives.
#[derive(Debug, Default)]
pub(in super::super) struct Nesting {
    depth: u32,
    has_begun: bool,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Adds a piece of the text.
    pub(in super::super) fn follow(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => {
                    self.has_begun = true;
                    self.depth = self.depth.saturating_add(1);
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Returns whether an object or array has ended.
    pub(in super::super) fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_string
    }
}

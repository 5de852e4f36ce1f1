//! Conversion of bytes to values. When no bytes are left, all values are empty or zero, so every
//! sequence ends.

use serde_json::Value;

/// Words that mean something to the host, from which texts are composed.
const WORDS: [&str; 16] = [
    "role",
    "shared",
    "/in",
    "/out",
    "/out/a",
    "..",
    "/",
    "\u{0}",
    "<all>",
    "<self>",
    "{{secret:TOKEN}}",
    "TOKEN",
    "127.0.0.1",
    "http://example.com/",
    "{\"type\":\"object\"}",
    "\u{1b}[2J",
];

/// The remaining bytes.
pub struct Spell<'a>(&'a [u8]);

impl<'a> Spell<'a> {
    /// Creates a source of values from bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next byte, or zero at the end.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// Returns a number, often a small or a very large one.
    pub fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
            small => u32::from(small),
        }
    }

    /// Returns a text: known words, arbitrary bytes, or a repeated text.
    pub fn text(&mut self) -> String {
        let length = usize::from(self.byte());
        match length {
            0..64 => (0..length % 4)
                .map(|_| WORDS[usize::from(self.byte()) % WORDS.len()])
                .collect(),
            64..250 => String::from_utf8_lossy(self.take(length - 64)).into_owned(),
            _ => self.text_of_bytes().repeat(1 << (length - 240)),
        }
    }

    fn text_of_bytes(&mut self) -> String {
        let length = usize::from(self.byte() % 8);
        String::from_utf8_lossy(self.take(length)).into_owned()
    }

    /// Returns the name of a scope, usually of one that exists.
    pub fn scope(&mut self) -> String {
        match self.byte() % 4 {
            0 | 1 => "role".into(),
            2 => "shared".into(),
            _ => self.text(),
        }
    }

    /// Returns a path, usually one in a granted directory.
    pub fn path(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            1 => format!("/in/{}", self.text()),
            _ => format!("/out/{}", self.text()),
        }
    }

    /// Returns a method, usually one that exists.
    pub fn method(&mut self) -> String {
        match self.byte() % 4 {
            0 => "GET".into(),
            1 => "POST".into(),
            2 => "HEAD".into(),
            _ => self.text(),
        }
    }

    /// Returns a URL, usually one of a granted host.
    pub fn url(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            _ => format!("http://example.com/{}", self.text()),
        }
    }

    /// Returns a text that may be JSON.
    pub fn json(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            1 => "[".repeat(self.number().min(1 << 16) as usize),
            _ => self.value().to_string(),
        }
    }

    /// Returns a JSON value whose depth depends on the bytes.
    pub fn value(&mut self) -> Value {
        let mut value = match self.byte() % 4 {
            0 => Value::Null,
            1 => self.number().into(),
            2 => self.text().into(),
            _ => serde_json::json!({ self.text(): self.text(), "type": self.text() }),
        };
        for _ in 0..self.byte() {
            value = Value::Array(vec![value]);
        }
        value
    }

    /// Returns a value or `None`.
    pub fn maybe<T>(&mut self, something: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 2 == 1).then(|| something(self))
    }

    /// Returns up to seven values.
    pub fn list<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % 8).map(|_| one(self)).collect()
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

impl Iterator for Spell<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

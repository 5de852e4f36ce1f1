//! Bytes read as values. When there are no more bytes everything is empty or zero, so every spell ends.

use serde_json::Value;

/// What texts are put together from where they shall mean something to the host.
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

/// The bytes that are left.
pub struct Spell<'a>(&'a [u8]);

impl<'a> Spell<'a> {
    /// These bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A byte; zero after the last.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// A number, often a small or a very large one.
    pub fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
            small => u32::from(small),
        }
    }

    /// A text: words the host knows, bytes as they come, or the same over and over.
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

    /// The name of a scope, most often of one that there is.
    pub fn scope(&mut self) -> String {
        match self.byte() % 4 {
            0 | 1 => "role".into(),
            2 => "shared".into(),
            _ => self.text(),
        }
    }

    /// A path, most often below a granted directory.
    pub fn path(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            1 => format!("/in/{}", self.text()),
            _ => format!("/out/{}", self.text()),
        }
    }

    /// A method, most often one that there is.
    pub fn method(&mut self) -> String {
        match self.byte() % 4 {
            0 => "GET".into(),
            1 => "POST".into(),
            2 => "HEAD".into(),
            _ => self.text(),
        }
    }

    /// An address, most often of a granted host.
    pub fn url(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            _ => format!("http://example.com/{}", self.text()),
        }
    }

    /// What may be JSON.
    pub fn json(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            1 => "[".repeat(self.number().min(1 << 16) as usize),
            _ => self.value().to_string(),
        }
    }

    /// A document, as deep as the bytes say.
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

    /// Something, or nothing.
    pub fn maybe<T>(&mut self, something: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 2 == 1).then(|| something(self))
    }

    /// Up to seven of them.
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

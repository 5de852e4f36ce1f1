//! For tests: golden files of everything that is persisted, in `tests/format-1`.
//!
//! What is written now is compared with these files, and they are read back to the values that they
//! were made from. `BLESS=1` rewrites them. Until the first release, a change of what is written
//! means new golden files and a new number of the format. After it, old golden files are kept beside
//! the new ones, because the program has to read them for ever.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The directory of the files, relative to that of the package whose tests run. Cargo runs tests there.
const DIRECTORY: &str = "tests/format-1";

/// How many bytes a line of hexadecimal digits contains.
const BYTES_PER_LINE: usize = 32;

/// Returns the content of a golden file. Fails unless it is equal to what is written now.
#[track_caller]
pub fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let content = stored(name, written);
    assert!(
        content == written,
        "`{name}` is not what is written now. Until the first release, a change of a format needs a \
         new number of the format, and new golden files: run the tests with BLESS=1. After the first \
         release, old golden files must stay readable.\n--- golden\n{}\n--- written\n{}",
        String::from_utf8_lossy(&content),
        String::from_utf8_lossy(written)
    );
    content
}

/// Returns the content of a golden file of bytes that are no text. The file contains them in
/// hexadecimal digits. Fails unless they are equal to what is written now.
#[track_caller]
pub fn golden_bytes(name: &str, written: &[u8]) -> Vec<u8> {
    from_hex(&golden(name, to_hex_lines(written).as_bytes()))
}

/// Returns the bytes of such a file without comparing them, for bytes that a library may change
/// although the format is the same.
pub fn stored_bytes(name: &str, written: &[u8]) -> Vec<u8> {
    from_hex(&stored(name, to_hex_lines(written).as_bytes()))
}

fn stored(name: &str, written: &[u8]) -> Vec<u8> {
    let path = Path::new(DIRECTORY).join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(DIRECTORY).unwrap();
        fs::write(&path, written).unwrap();
    }
    fs::read(&path).unwrap_or_default()
}

fn to_hex_lines(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(BYTES_PER_LINE) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

/// Returns the bytes that are given in hexadecimal digits. White space is skipped.
pub fn from_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = text
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|digit| (*digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

//! How events and states become bytes, and how damage to those bytes is noticed. Where the bytes lie is elsewhere.
//!
//! Each blob starts with a byte that names its format. Its checksum covers the numbers it is stored under as well.

use serde::Serialize;
use serde::de::DeserializeOwned;

use strata_core::environment::Environment;
use strata_core::event::Event;

/// The format of events and snapshots: postcard. The next one gets the next number.
const POSTCARD: u8 = 1;

/// Why bytes are not what they should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("its checksum does not match")]
    Checksum,
    #[error("its format {0} is unknown")]
    Format(u8),
    #[error("it is empty")]
    Empty,
    #[error("it cannot be decoded: {0}")]
    Content(postcard::Error),
}

/// Encodes an event behind what `buffer` holds.
pub(super) fn encode_event(event: &Event, buffer: Vec<u8>) -> Vec<u8> {
    encode(event, buffer)
}

pub(super) fn decode_event(bytes: &[u8]) -> Result<Event, Damage> {
    decode(bytes)
}

pub(super) fn encode_snapshot(env: &Environment) -> Vec<u8> {
    encode(env, Vec::new())
}

pub(super) fn decode_snapshot(bytes: &[u8]) -> Result<Environment, Damage> {
    decode(bytes)
}

fn encode<T: Serialize>(value: &T, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.push(POSTCARD);
    // Writing to memory cannot fail, and every length in our types is known beforehand.
    postcard::to_extend(value, buffer).expect("events and environments can always be encoded")
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Damage> {
    match bytes.split_first() {
        Some((&POSTCARD, body)) => postcard::from_bytes(body).map_err(Damage::Content),
        Some((&other, _)) => Err(Damage::Format(other)),
        None => Err(Damage::Empty),
    }
}

/// The checksum of a blob and of the numbers that go with it.
pub(super) fn checksum(numbers: &[i64], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}

/// Compares a checksum with the one that was stored.
pub(super) fn verify(stored: u32, numbers: &[i64], bytes: &[u8]) -> Result<(), Damage> {
    if checksum(numbers, bytes) == stored { Ok(()) } else { Err(Damage::Checksum) }
}

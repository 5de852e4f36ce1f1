//! The encoding of values that are stored, and the detection of damage to it. Where the bytes are
//! stored is elsewhere.
//!
//! Each blob starts with a byte that names its format. The checksum of a blob may also cover the
//! numbers under which it is stored. A matching checksum does not prove that this program wrote the
//! blob, so the memory that a blob takes when it is decompressed is limited here, and whoever decodes
//! it validates the value.

use std::borrow::Cow;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use postcard::de_flavors::Flavor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format of values: postcard. It stays 1 until the first release, and a change of what is
/// encoded only needs new golden files. After it, a new format gets the next number, and all old ones
/// stay readable.
pub const POSTCARD: u8 = 1;

/// The format of values in postcard, compressed: the length in four bytes, then a block of LZ4.
const COMPRESSED: u8 = 2;
/// The number of bytes before the block.
const HEADER_BYTES: usize = 5;
/// Smaller blobs are not compressed, so that a new run is saved quickly.
const MIN_COMPRESSED_BYTES: u32 = 4 << 10;
/// Up to this decompressed size, any compression ratio is accepted. Beyond it, the ratio may be at
/// most `MAX_RATIO`, so that a small file cannot fill the memory.
const ANY_RATIO_BYTES: usize = 16 << 20;
const MAX_RATIO: usize = 16;

/// Why stored bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They are not those that were written.
    #[error("its checksum does not match")]
    Checksum,
    /// They are of a later program.
    #[error("its format {0} is unknown")]
    Format(u8),
    /// There are none.
    #[error("it is empty")]
    Empty,
    /// They are no block of the compression, or would take far more memory than they are.
    #[error("it cannot be unpacked")]
    Compression,
    /// They are no value of the expected type.
    #[error("it cannot be decoded: {0}")]
    Content(postcard::Error),
    /// There are more than the value has.
    #[error("it goes on after its end")]
    Trailing,
}

/// Encodes a value at the end of `buffer`.
pub fn encode<T: Serialize>(value: &T, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.push(POSTCARD);
    append(value, buffer)
}

/// Encodes a value without its format at the end of `buffer`.
pub fn append<T: Serialize>(value: &T, buffer: Vec<u8>) -> Vec<u8> {
    // Writing to memory cannot fail, and every length in our types is known beforehand.
    postcard::to_extend(value, buffer).expect("events and environments can always be encoded")
}

/// Decodes a value. Fails if anything follows it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, rest) =
        postcard::take_from_bytes(strip_format(bytes)?).map_err(CodecError::Content)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::Trailing)
    }
}

/// Decodes a value of a stranger. Fails if anything follows it, or if more than `structure_bytes` of
/// it are neither text nor anything else that takes as much memory as it is long: a list of empty
/// records takes up to forty times as much. What is taken is subtracted.
pub fn decode_limited<T: DeserializeOwned>(
    bytes: &[u8],
    structure_bytes: &mut usize,
) -> Result<T, CodecError> {
    let flavor = LimitedSlice {
        left: strip_format(bytes)?,
        structure_bytes: *structure_bytes,
    };
    let mut decoder = postcard::Deserializer::from_flavor(flavor);
    let value = T::deserialize(&mut decoder).map_err(CodecError::Content)?;
    let rest = decoder.finalize().map_err(CodecError::Content)?;
    *structure_bytes = rest.structure_bytes;
    if rest.left.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::Trailing)
    }
}

/// Bytes of which only so many may be structure.
struct LimitedSlice<'a> {
    left: &'a [u8],
    structure_bytes: usize,
}

impl<'a> Flavor<'a> for LimitedSlice<'a> {
    type Remainder = Self;
    type Source = &'a [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let spent = self.structure_bytes.checked_sub(1);
        let (first, left) = self
            .left
            .split_first()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.structure_bytes = spent.ok_or(postcard::Error::SerializeBufferFull)?;
        self.left = left;
        Ok(*first)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let (taken, left) = self
            .left
            .split_at_checked(count)
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.left = left;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<Self> {
        Ok(self)
    }
}

/// Decodes `count` consecutive values without a format.
pub fn decode_sequence<'a, T: Deserialize<'a>>(
    mut left: &'a [u8],
    count: u32,
) -> impl Iterator<Item = Result<T, CodecError>> {
    (0..count).map(move |_| {
        let (value, rest) = postcard::take_from_bytes(left).map_err(CodecError::Content)?;
        left = rest;
        Ok(value)
    })
}

/// Returns the bytes after the format byte. Fails if the format is not `POSTCARD`.
pub fn strip_format(bytes: &[u8]) -> Result<&[u8], CodecError> {
    match bytes.split_first() {
        Some((&POSTCARD, body)) => Ok(body),
        Some((&other, _)) => Err(CodecError::Format(other)),
        None => Err(CodecError::Empty),
    }
}

/// Compresses an encoded blob, if that makes it smaller.
pub fn compress(plain: Vec<u8>) -> Vec<u8> {
    let Some(length) = u32::try_from(plain.len())
        .ok()
        .filter(|length| *length >= MIN_COMPRESSED_BYTES)
    else {
        return plain;
    };
    let mut packed = vec![0; HEADER_BYTES + get_maximum_output_size(plain.len())];
    match compress_into(&plain, &mut packed[HEADER_BYTES..]) {
        Ok(size) if HEADER_BYTES + size < plain.len() && is_ratio_allowed(size, plain.len()) => {
            packed.truncate(HEADER_BYTES + size);
            packed[0] = COMPRESSED;
            packed[1..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
            packed.shrink_to_fit();
            packed
        }
        _ => plain,
    }
}

/// Whether a block of `block` bytes may decompress to `plain` bytes.
fn is_ratio_allowed(block: usize, plain: usize) -> bool {
    plain <= ANY_RATIO_BYTES.max(block.saturating_mul(MAX_RATIO))
}

/// Decompresses a blob, if it is compressed.
pub fn decompress(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CodecError> {
    let Some((&COMPRESSED, rest)) = bytes.split_first() else {
        return Ok(Cow::Borrowed(bytes));
    };
    let (length, block) = rest.split_first_chunk().ok_or(CodecError::Compression)?;
    let length = u32::from_le_bytes(*length) as usize;
    // Checked before memory is allocated for the claimed length.
    if !is_ratio_allowed(block.len(), length) {
        return Err(CodecError::Compression);
    }
    let mut plain = vec![0; length];
    match decompress_into(block, &mut plain) {
        Ok(size) if size == length => Ok(Cow::Owned(plain)),
        _ => Err(CodecError::Compression),
    }
}

/// Returns the size of what decompresses to these bytes, which was verified, or at least of what it
/// claims.
pub fn plain_bytes(bytes: &[u8]) -> u64 {
    let claimed = bytes.split_first().filter(|(kind, _)| **kind == COMPRESSED);
    let length = claimed.and_then(|(_, rest)| rest.first_chunk());
    length.map_or(bytes.len() as u64, |length| {
        u32::from_le_bytes(*length).into()
    })
}

/// Returns the checksum of a blob and of the numbers that are stored with it.
pub fn checksum(numbers: &[i64], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}

/// Fails if the stored checksum does not match.
pub fn verify(stored: u32, numbers: &[i64], bytes: &[u8]) -> Result<(), CodecError> {
    if checksum(numbers, bytes) == stored {
        Ok(())
    } else {
        Err(CodecError::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use crate::scripted_run::pseudorandom;

    use super::*;

    fn check(plain: Vec<u8>, expected: u8) {
        let packed = compress(plain.clone());
        assert_eq!(
            packed.first().copied(),
            Some(expected),
            "{} bytes",
            plain.len()
        );
        assert!(packed.len() <= plain.len());
        assert_eq!(decompress(&packed).unwrap(), plain);
    }

    #[test]
    fn what_becomes_smaller_is_packed_and_all_of_it_is_unpacked() {
        let encoded = |body: Vec<u8>| [vec![POSTCARD], body].concat();
        let least = MIN_COMPRESSED_BYTES as usize;
        check(encoded(vec![7; least - 2]), POSTCARD);
        check(encoded(vec![7; least - 1]), COMPRESSED);
        check(encoded(vec![7; 10 << 20]), COMPRESSED);
        // Too high a ratio: it would be taken for a decompression bomb.
        check(encoded(vec![7; 17 << 20]), POSTCARD);
        check(encoded(pseudorandom(1, 2 << 20).repeat(10)), POSTCARD);
        check(encoded(pseudorandom(1, 100_000)), POSTCARD);
        check(encoded(pseudorandom(1, 50_000).repeat(2)), COMPRESSED);
    }

    #[test]
    fn what_lies_about_its_length_is_refused() {
        let whole = compress([vec![POSTCARD], vec![7; 100_000]].concat());
        for length in [0, 99_999, 100_002, 16 << 20, 90_000_000, u32::MAX] {
            let lie = [
                &[COMPRESSED][..],
                &length.to_le_bytes(),
                &whole[HEADER_BYTES..],
            ]
            .concat();
            assert_eq!(decompress(&lie), Err(CodecError::Compression), "{length}");
        }
        for end in 1..HEADER_BYTES + 10 {
            assert_eq!(
                decompress(&whole[..end]),
                Err(CodecError::Compression),
                "{end}"
            );
        }
    }

    #[test]
    fn what_would_take_far_more_room_than_it_has_is_given_none() {
        let plain = [vec![POSTCARD], vec![0; ANY_RATIO_BYTES]].concat();
        let mut block = vec![0; get_maximum_output_size(plain.len())];
        let size = compress_into(&plain, &mut block).unwrap();
        let bomb = [
            &[COMPRESSED][..],
            &(plain.len() as u32).to_le_bytes(),
            &block[..size],
        ]
        .concat();
        assert_eq!(decompress(&bomb), Err(CodecError::Compression));
        assert_eq!(decompress(&compress(plain.clone())).unwrap(), plain);
    }

    #[test]
    fn structure_is_limited_and_text_is_not() {
        let decoded = |value: &Vec<String>, mut left: usize| {
            let bytes = encode(value, Vec::new());
            let read = decode_limited::<Vec<String>>(&bytes, &mut left);
            read.map(|read| {
                assert_eq!(read, *value);
                left
            })
        };
        // The number of the texts, and the length of each, in two bytes.
        let long = vec!["x".repeat(1000); 3];
        assert_eq!(decoded(&long, 8), Ok(1));
        let full = CodecError::Content(postcard::Error::SerializeBufferFull);
        assert_eq!(decoded(&long, 6), Err(full.clone()));
        assert_eq!(decoded(&vec![String::new(); 100], 100), Err(full));
    }

    #[test]
    fn what_goes_on_after_its_end_is_refused() {
        let longer = [encode(&7_u64, Vec::new()), vec![0]].concat();
        assert_eq!(decode::<u64>(&longer), Err(CodecError::Trailing));
        let limited = decode_limited::<u64>(&longer, &mut 9);
        assert_eq!(limited, Err(CodecError::Trailing));
    }
}

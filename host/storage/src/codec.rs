//! The encoding of events and states, and the detection of damage to it. Where the bytes are stored
//! is elsewhere.
//!
//! Each blob starts with a byte that names its format. The checksum of a blob also covers the
//! numbers under which it is stored. A matching checksum does not prove that this program wrote the
//! blob, so the memory that a blob takes when it is decoded is limited here as well.

mod message_size;

use std::borrow::Cow;
use std::sync::Arc;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use strata_core::record::event::Event;
use strata_core::record::message::Message;
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::InvalidState;
use strata_core::state::messages::TextSize;

use message_size::MessageSize;

/// The format of events and states: postcard. It stays 1 until the first release, and a change of
/// what is encoded only needs new golden files. After it, a new format gets the next number, and all
/// old ones stay readable.
const POSTCARD: u8 = 1;

/// The format of events and states in postcard, compressed: the length in four bytes, then a block of LZ4.
const COMPRESSED: u8 = 2;
/// The number of bytes before the block.
const HEADER_BYTES: usize = 5;
/// Smaller blobs are not compressed, so that a new run is saved quickly.
const MIN_COMPRESSED_BYTES: u32 = 4 << 10;
/// Up to this decompressed size, any compression ratio is accepted. Beyond it, the ratio may be at
/// most `MAX_RATIO`, so that a small file cannot fill the memory.
const ANY_RATIO_BYTES: usize = 16 << 20;
const MAX_RATIO: usize = 16;

/// How much is put into one bundle, not counting its last message: small compared with a state, but
/// large enough that the number of bundles does not matter.
const BUNDLE_BYTES: usize = 128 << 10;

/// A sequence of messages that is stored in one blob, as a state refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MessageBundle {
    /// Its key.
    pub key: i64,
    /// How many messages it contains.
    pub messages: u32,
    /// How long they are.
    pub texts: TextSize,
}

/// Messages that are encoded for one bundle.
pub(super) struct EncodedMessages {
    pub messages: u32,
    pub texts: TextSize,
    pub body: Vec<u8>,
}

/// Why stored bytes are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("its checksum does not match")]
    Checksum,
    #[error("its format {0} is unknown")]
    Format(u8),
    #[error("it is empty")]
    Empty,
    #[error("it cannot be unpacked")]
    Compression,
    #[error("it cannot be decoded: {0}")]
    Content(postcard::Error),
    #[error("no storage has these numbers")]
    OutOfRange,
    #[error("{0}")]
    Inconsistent(#[from] InvalidState),
    #[error("its bundles are not in order")]
    Order,
    #[error("its messages are not as long as its state says")]
    Length,
    #[error("its messages would take more memory than any that were saved")]
    Memory,
}

/// Encodes an event at the end of `buffer`.
pub(super) fn encode_event(event: &Event, buffer: Vec<u8>) -> Vec<u8> {
    encode(event, buffer)
}

pub(super) fn decode_event(bytes: &[u8]) -> Result<Event, DecodeError> {
    decode(bytes)
}

/// Encodes a state. Of its messages, only those that may still change are included.
pub(super) fn encode_snapshot(env: &Environment) -> Vec<u8> {
    let open: Vec<&Arc<Message>> = env
        .messages
        .range(env.final_message_count()..env.messages.len())
        .collect();
    compress(encode(&(open, env), Vec::new()))
}

/// Returns the messages of a state that may still change, and the rest of the state.
pub(super) fn decode_snapshot(
    bytes: &[u8],
) -> Result<(Vec<Arc<Message>>, Environment), DecodeError> {
    decode(&decompress(bytes)?)
}

/// Encodes the list of bundles of a state.
pub(super) fn encode_bundles(bundles: &[MessageBundle]) -> Vec<u8> {
    encode(&bundles, Vec::new())
}

/// Decodes the list of bundles of a state. Fails unless their keys ascend.
pub(super) fn decode_bundles(bytes: &[u8]) -> Result<Vec<MessageBundle>, DecodeError> {
    let bundles: Vec<MessageBundle> = decode(bytes)?;
    if bundles.is_sorted_by(|one, next| one.key < next.key) {
        Ok(bundles)
    } else {
        Err(DecodeError::Order)
    }
}

/// Encodes as many messages as belong into one bundle: at least one, if there are any.
pub(super) fn encode_messages<'a>(
    messages: &mut impl Iterator<Item = &'a Arc<Message>>,
) -> EncodedMessages {
    let (mut count, mut texts, mut buffer) = (0, TextSize::ZERO, vec![POSTCARD]);
    while buffer.len() <= BUNDLE_BYTES
        && let Some(message) = messages.next()
    {
        buffer = append(message, buffer);
        texts = texts.plus(TextSize::from_message(message));
        count += 1;
    }
    EncodedMessages {
        messages: count,
        texts,
        body: compress(buffer),
    }
}

/// The sizes of the messages of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BundleSize {
    /// How many bytes of memory they will take.
    pub memory_bytes: u64,
    /// How long they are.
    pub texts: TextSize,
}

/// The messages of a bundle, decompressed but not decoded.
pub(super) struct UnpackedMessages<'a> {
    plain: Cow<'a, [u8]>,
    count: u32,
}

impl<'a> UnpackedMessages<'a> {
    /// Decompresses a bundle of `count` messages.
    pub(super) fn from_body(body: &'a [u8], count: u32) -> Result<Self, DecodeError> {
        Ok(Self {
            plain: decompress(body)?,
            count,
        })
    }

    /// Measures them. Fails if they cannot be decoded. This takes a fraction of the time of decoding
    /// them.
    pub(super) fn measure(&self) -> Result<BundleSize, DecodeError> {
        let mut size = BundleSize {
            memory_bytes: 0,
            texts: TextSize::ZERO,
        };
        for message in decode_sequence::<MessageSize>(strip_format(&self.plain)?, self.count) {
            let message = message?;
            size.memory_bytes += message.memory_bytes() as u64;
            size.texts = size.texts.plus(message.texts());
        }
        Ok(size)
    }

    /// Decodes them.
    pub(super) fn decode(&self) -> Result<Vec<Arc<Message>>, DecodeError> {
        decode_sequence(strip_format(&self.plain)?, self.count)
            .map(|message| message.map(Arc::new))
            .collect()
    }
}

/// Decompresses and decodes a bundle of `count` messages.
#[cfg(test)]
pub(super) fn decode_messages(body: &[u8], count: u32) -> Result<Vec<Arc<Message>>, DecodeError> {
    UnpackedMessages::from_body(body, count)?.decode()
}

/// Decodes `count` consecutive values.
fn decode_sequence<'a, T: Deserialize<'a>>(
    mut left: &'a [u8],
    count: u32,
) -> impl Iterator<Item = Result<T, DecodeError>> {
    (0..count).map(move |_| {
        let (value, rest) = postcard::take_from_bytes(left).map_err(DecodeError::Content)?;
        left = rest;
        Ok(value)
    })
}

fn encode<T: Serialize>(value: &T, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.push(POSTCARD);
    append(value, buffer)
}

fn append<T: Serialize>(value: &T, buffer: Vec<u8>) -> Vec<u8> {
    // Writing to memory cannot fail, and every length in our types is known beforehand.
    postcard::to_extend(value, buffer).expect("events and environments can always be encoded")
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    postcard::from_bytes(strip_format(bytes)?).map_err(DecodeError::Content)
}

/// Returns the bytes after the format byte. Fails if the format is not `POSTCARD`.
fn strip_format(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    match bytes.split_first() {
        Some((&POSTCARD, body)) => Ok(body),
        Some((&other, _)) => Err(DecodeError::Format(other)),
        None => Err(DecodeError::Empty),
    }
}

/// Compresses an encoded blob, if that makes it smaller.
fn compress(plain: Vec<u8>) -> Vec<u8> {
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
pub(super) fn decompress(bytes: &[u8]) -> Result<Cow<'_, [u8]>, DecodeError> {
    let Some((&COMPRESSED, rest)) = bytes.split_first() else {
        return Ok(Cow::Borrowed(bytes));
    };
    let (length, block) = rest.split_first_chunk().ok_or(DecodeError::Compression)?;
    let length = u32::from_le_bytes(*length) as usize;
    // Checked before memory is allocated for the claimed length.
    if !is_ratio_allowed(block.len(), length) {
        return Err(DecodeError::Compression);
    }
    let mut plain = vec![0; length];
    match decompress_into(block, &mut plain) {
        Ok(size) if size == length => Ok(Cow::Owned(plain)),
        _ => Err(DecodeError::Compression),
    }
}

/// Returns the size of what decompresses to these bytes, which was verified, or at least of what it
/// claims.
pub(super) fn plain_bytes(bytes: &[u8]) -> u64 {
    let claimed = bytes.split_first().filter(|(kind, _)| **kind == COMPRESSED);
    let length = claimed.and_then(|(_, rest)| rest.first_chunk());
    length.map_or(bytes.len() as u64, |length| {
        u32::from_le_bytes(*length).into()
    })
}

/// Returns the checksum of a blob and of the numbers that are stored with it.
pub(super) fn checksum(numbers: &[i64], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}

/// Fails if the stored checksum does not match.
pub(super) fn verify(stored: u32, numbers: &[i64], bytes: &[u8]) -> Result<(), DecodeError> {
    if checksum(numbers, bytes) == stored {
        Ok(())
    } else {
        Err(DecodeError::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::conversation::{Media, MediaSource, Part};
    use strata_core::record::json::Json;
    use strata_core::record::message::{Hop, Instruct};

    use super::*;
    use crate::tests::script::pseudorandom;

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
            assert_eq!(decompress(&lie), Err(DecodeError::Compression), "{length}");
        }
        for end in 1..HEADER_BYTES + 10 {
            assert_eq!(
                decompress(&whole[..end]),
                Err(DecodeError::Compression),
                "{end}"
            );
        }
    }

    #[test]
    fn a_bundle_ends_with_the_message_that_fills_it() {
        let message = |size| {
            Arc::new(Message::from_user(
                "m".into(),
                "x".repeat(size),
                "label".into(),
            ))
        };
        let many = vec![message(1000); 1000];
        let EncodedMessages {
            messages: count,
            texts,
            body,
        } = encode_messages(&mut many.iter());
        assert_eq!(texts.content_bytes, 1000 * u64::from(count));
        assert!(
            (BUNDLE_BYTES / 1100..BUNDLE_BYTES / 1000 + 1).contains(&(count as usize)),
            "{count}"
        );
        assert_eq!(
            decode_messages(&body, count).unwrap(),
            many[..count as usize]
        );
        let large = [message(1), message(3 * BUNDLE_BYTES), message(1)];
        assert_eq!(encode_messages(&mut large.iter()).messages, 2);
        assert_eq!(encode_messages(&mut [].iter()).messages, 0);
    }

    #[test]
    fn what_is_found_good_can_be_decoded_and_nothing_else() {
        let plain = Message::from_user("m".into(), "said".into(), "label".into());
        let full = Message {
            instruct: Some(Instruct::untyped(Json::null())),
            parts: vec![
                Part::Image(Media {
                    media_type: "image/png".into(),
                    name: None,
                    source: MediaSource::Url("u".into()),
                }),
                Part::File(Media {
                    media_type: "t/f".into(),
                    name: Some("n".into()),
                    source: MediaSource::Blob {
                        digest: "d".into(),
                        size: 7,
                    },
                }),
                Part::Text("t".into()),
            ],
            send_to: vec!["A".into(), "é".into()],
            meta: [("a".into(), Json::null()), ("b".into(), Json::null())].into(),
            route: vec![
                Hop {
                    from: "A".into(),
                    to: vec!["B".into()],
                },
                Hop {
                    from: "B".into(),
                    to: Vec::new(),
                },
            ],
            ..plain.clone()
        };
        let messages = [plain, full].map(Arc::new);
        let EncodedMessages {
            messages: count,
            body: good,
            ..
        } = encode_messages(&mut messages.iter());
        assert_eq!(good[0], POSTCARD);
        let check = |bytes: &[u8], count| {
            let found = UnpackedMessages::from_body(bytes, count).and_then(|plain| plain.measure());
            assert_eq!(
                found.as_ref().map(drop),
                decode_messages(bytes, count).as_ref().map(drop)
            );
            found.is_ok()
        };
        assert!(check(&good, count) && !check(&good, count + 1));
        let changed = (0..good.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)));
        let refused = changed.filter(|(at, byte)| {
            let mut bad = good.clone();
            bad[*at] = *byte;
            !check(&bad, count)
        });
        assert!(refused.count() > good.len());
        assert!((0..good.len()).all(|end| !check(&good[..end], count)));
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
        assert_eq!(decompress(&bomb), Err(DecodeError::Compression));
        assert_eq!(decompress(&compress(plain.clone())).unwrap(), plain);
    }

    #[test]
    fn a_list_names_each_bundle_once() {
        let bundle = |n| MessageBundle {
            key: n,
            messages: 1,
            texts: TextSize::ZERO,
        };
        let check = |list: &[i64]| {
            decode_bundles(&encode_bundles(
                &list.iter().map(|n| bundle(*n)).collect::<Vec<_>>(),
            ))
        };
        assert_eq!(check(&[1, 2, 7]).unwrap().len(), 3);
        assert_eq!(
            (check(&[1, 1]), check(&[2, 1])),
            (Err(DecodeError::Order), Err(DecodeError::Order))
        );
    }
}

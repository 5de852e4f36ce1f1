//! The encoding of events, states and bundles of messages. Where the bytes are stored is elsewhere, and
//! how values become bytes is in `strata_base::codec`.

mod message_size;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use strata_base::codec::{
    CodecError, POSTCARD, append, compress, decode, decode_sequence, decompress, encode,
    strip_format,
};
use strata_core::record::event::Event;
use strata_core::record::message::Message;
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::InvalidState;
use strata_core::state::messages::TextSize;

use message_size::MessageSize;

pub use strata_base::codec::{checksum, plain_bytes};

/// How much is put into one bundle, not counting its last message: small compared with a state, but
/// large enough that the number of bundles does not matter.
const BUNDLE_BYTES: usize = 128 << 10;

/// A sequence of messages that is stored in one blob, as a state refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageBundle {
    /// Its key.
    pub key: i64,
    /// How many messages it contains.
    pub messages: u32,
    /// How long they are.
    pub texts: TextSize,
}

/// Messages that are encoded for one bundle.
pub struct EncodedMessages {
    /// How many they are.
    pub messages: u32,
    /// How long they are.
    pub texts: TextSize,
    /// The bytes of the bundle.
    pub body: Vec<u8>,
}

/// Why stored bytes are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The encoding is wrong, or the checksum.
    #[error("{0}")]
    Encoding(#[from] CodecError),
    /// A number is out of range.
    #[error("no storage has these numbers")]
    OutOfRange,
    /// The state contradicts itself.
    #[error("{0}")]
    Inconsistent(#[from] InvalidState),
    /// Keys are not in their order.
    #[error("its bundles are not in order")]
    Order,
    /// There are more or fewer messages than were counted.
    #[error("its messages are not as long as its state says")]
    Length,
    /// It would take far more memory than its file.
    #[error("its messages would take more memory than any that were saved")]
    Memory,
}

/// Fails if the stored checksum does not match.
pub(crate) fn verify(stored: u32, numbers: &[i64], bytes: &[u8]) -> Result<(), DecodeError> {
    Ok(strata_base::codec::verify(stored, numbers, bytes)?)
}

/// Encodes an event at the end of `buffer`.
pub fn encode_event(event: &Event, buffer: Vec<u8>) -> Vec<u8> {
    encode(event, buffer)
}

/// Decodes an event.
///
/// # Errors
/// Fails if the bytes are not those of an event.
pub fn decode_event(bytes: &[u8]) -> Result<Event, DecodeError> {
    Ok(decode(bytes)?)
}

/// Encodes a state. Of its messages, only those that may still change are included.
pub fn encode_snapshot(env: &Environment) -> Vec<u8> {
    let open: Vec<&Arc<Message>> = env
        .messages
        .range(env.final_message_count()..env.messages.len())
        .collect();
    compress(encode(&(open, env), Vec::new()))
}

/// Returns the messages of a state that may still change, and the rest of the state.
pub fn decode_snapshot(bytes: &[u8]) -> Result<(Vec<Arc<Message>>, Environment), DecodeError> {
    Ok(decode(&decompress(bytes)?)?)
}

/// Encodes the list of bundles of a state.
pub fn encode_bundles(bundles: &[MessageBundle]) -> Vec<u8> {
    encode(&bundles, Vec::new())
}

/// Decodes the list of bundles of a state. Fails unless their keys ascend.
pub fn decode_bundles(bytes: &[u8]) -> Result<Vec<MessageBundle>, DecodeError> {
    let bundles: Vec<MessageBundle> = decode(bytes)?;
    if bundles.is_sorted_by(|one, next| one.key < next.key) {
        Ok(bundles)
    } else {
        Err(DecodeError::Order)
    }
}

/// Encodes as many messages as belong into one bundle: at least one, if there are any.
pub fn encode_messages<'a>(
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
pub(crate) struct BundleSize {
    /// How many bytes of memory they will take.
    pub memory_bytes: u64,
    /// How long they are.
    pub texts: TextSize,
}

/// The messages of a bundle, decompressed but not decoded.
pub(crate) struct UnpackedMessages<'a> {
    plain: Cow<'a, [u8]>,
    count: u32,
}

impl<'a> UnpackedMessages<'a> {
    /// Decompresses a bundle of `count` messages.
    pub(crate) fn from_body(body: &'a [u8], count: u32) -> Result<Self, DecodeError> {
        Ok(Self {
            plain: decompress(body)?,
            count,
        })
    }

    /// Measures them. Fails if they cannot be decoded. This takes a fraction of the time of decoding
    /// them.
    pub fn measure(&self) -> Result<BundleSize, DecodeError> {
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
    pub fn decode(&self) -> Result<Vec<Arc<Message>>, DecodeError> {
        decode_sequence(strip_format(&self.plain)?, self.count)
            .map(|message| Ok(Arc::new(message?)))
            .collect()
    }
}

/// Decompresses and decodes a bundle of `count` messages.
#[cfg(any(test, feature = "test-support"))]
pub fn decode_messages(body: &[u8], count: u32) -> Result<Vec<Arc<Message>>, DecodeError> {
    UnpackedMessages::from_body(body, count)?.decode()
}

#[cfg(test)]
mod tests {
    use strata_core::record::conversation::{Media, MediaSource, Part};
    use strata_core::record::json::Json;
    use strata_core::record::message::{Hop, Instruct};

    use strata_base::codec::POSTCARD;

    use super::*;

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

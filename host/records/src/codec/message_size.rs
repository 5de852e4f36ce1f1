//! Checks that messages in a bundle can be decoded, and computes how much memory they will take,
//! without building them.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use strata_core::record::conversation::Part;
use strata_core::record::message::{Hop, Instruct, Message};
use strata_core::state::messages::TextSize;

/// The size of an `Arc`'s reference counts.
const ARC_COUNT_BYTES: usize = 16;

/// The sizes of a message's fields. Its fields are those of `Message`, in the same order.
#[derive(Deserialize)]
pub(crate) struct MessageSize {
    id: StringSize,
    content: StringSize,
    instruct: Option<(StringSize, StringSize)>,
    parts: ListSize<PartSize>,
    role: StringSize,
    cause_by: StringSize,
    sent_from: StringSize,
    send_to: ListSize<StringSize>,
    meta: MapSize,
    route: ListSize<(StringSize, ListSize<StringSize>)>,
}

impl MessageSize {
    /// Returns how long the message is.
    pub fn texts(&self) -> TextSize {
        TextSize {
            content_bytes: self.content.0 as u64,
            all_labelled: self.cause_by.0 > 0,
        }
    }

    /// Returns how many bytes of memory the decoded message takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let texts = [
            &self.id,
            &self.content,
            &self.role,
            &self.cause_by,
            &self.sent_from,
        ];
        let texts: usize = texts.iter().map(|text| text.0).sum();
        let instruct = self.instruct.as_ref().map_or(0, |(class, value)| {
            size_of::<Instruct>() + class.0 + value.0
        });
        let lists = self.parts.memory_bytes
            + self.send_to.memory_bytes
            + self.meta.0
            + self.route.memory_bytes;
        ARC_COUNT_BYTES + size_of::<Message>() + texts + instruct + lists
    }
}

/// Something whose decoded value takes memory.
trait DecodedSize {
    fn memory_bytes(&self) -> usize;
}

/// A string, reduced to its length in bytes.
struct StringSize(usize);

impl DecodedSize for StringSize {
    fn memory_bytes(&self) -> usize {
        size_of::<String>() + self.0
    }
}

impl<'de> Deserialize<'de> for StringSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&str>::deserialize(from).map(|text| Self(text.len()))
    }
}

impl DecodedSize for (StringSize, ListSize<StringSize>) {
    fn memory_bytes(&self) -> usize {
        size_of::<Hop>() + self.0.0 + self.1.memory_bytes
    }
}

/// The sizes of a part's fields. Its variants and fields are those of `Part`, in the same order.
#[derive(Deserialize)]
enum PartSize {
    Text(StringSize),
    Image(MediaSize),
    File(MediaSize),
}

/// The sizes of the fields of an image or a file.
#[derive(Deserialize)]
struct MediaSize {
    media_type: StringSize,
    name: Option<StringSize>,
    source: MediaSourceSize,
}

#[derive(Deserialize)]
enum MediaSourceSize {
    Blob(
        StringSize,
        #[expect(
            dead_code,
            reason = "part of the format; a number takes no memory of its own"
        )]
        u64,
    ),
    Url(StringSize),
}

impl DecodedSize for PartSize {
    fn memory_bytes(&self) -> usize {
        let texts = match self {
            Self::Text(text) => text.0,
            Self::Image(media) | Self::File(media) => {
                let (MediaSourceSize::Blob(source, _) | MediaSourceSize::Url(source)) =
                    &media.source;
                media.media_type.0 + media.name.as_ref().map_or(0, |name| name.0) + source.0
            }
        };
        size_of::<Part>() + texts
    }
}

/// A list, reduced to the memory that its items take.
struct ListSize<T> {
    memory_bytes: usize,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de> + DecodedSize> Deserialize<'de> for ListSize<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(SizeVisitor::<T>(PhantomData))
            .map(|room| Self {
                memory_bytes: room,
                items: PhantomData,
            })
    }
}

/// A map from strings to strings, reduced to the memory that they take.
struct MapSize(usize);

impl<'de> Deserialize<'de> for MapSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SizeVisitor::<StringSize>(PhantomData))
            .map(Self)
    }
}

/// Adds up the memory that the items of a list or a map take.
struct SizeVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + DecodedSize> Visitor<'de> for SizeVisitor<T> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or a map")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut room: usize = 0;
        while let Some(item) = list.next_element::<T>()? {
            room = room.saturating_add(item.memory_bytes());
        }
        Ok(room)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut room: usize = 0;
        while let Some((name, value)) = map.next_entry::<T, T>()? {
            room = room
                .saturating_add(name.memory_bytes())
                .saturating_add(value.memory_bytes());
        }
        Ok(room)
    }
}

//! Checks that messages in a bundle can be decoded, and computes how much memory they will take,
//! without building them.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use strata_core::message::{Hop, Instruct, Message};

/// The size of an `Arc`'s reference counts.
const COUNTS: usize = 16;

/// The sizes of a message's fields. Its fields are those of `Message`, in the same order.
#[derive(Deserialize)]
pub(super) struct Seen {
    id: Text,
    content: Text,
    instruct: Option<(Text, Text)>,
    role: Text,
    cause_by: Text,
    sent_from: Text,
    send_to: List<Text>,
    meta: Map,
    route: List<(Text, List<Text>)>,
}

impl Seen {
    /// Returns how many bytes of memory the decoded message takes.
    pub(super) fn room(&self) -> usize {
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
        let lists = self.send_to.room + self.meta.0 + self.route.room;
        COUNTS + size_of::<Message>() + texts + instruct + lists
    }
}

/// Something whose decoded value takes memory.
trait Item {
    fn room(&self) -> usize;
}

/// A string, reduced to its length in bytes.
struct Text(usize);

impl Item for Text {
    fn room(&self) -> usize {
        size_of::<String>() + self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&str>::deserialize(from).map(|text| Self(text.len()))
    }
}

impl Item for (Text, List<Text>) {
    fn room(&self) -> usize {
        size_of::<Hop>() + self.0.0 + self.1.room
    }
}

/// A list, reduced to the memory that its items take.
struct List<T> {
    room: usize,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de> + Item> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Sum::<T>(PhantomData))
            .map(|room| Self {
                room,
                items: PhantomData,
            })
    }
}

/// A map from strings to strings, reduced to the memory that they take.
struct Map(usize);

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Sum::<Text>(PhantomData)).map(Self)
    }
}

/// Adds up the memory that the items of a list or a map take.
struct Sum<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Item> Visitor<'de> for Sum<T> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or a map")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut room: usize = 0;
        while let Some(item) = list.next_element::<T>()? {
            room = room.saturating_add(item.room());
        }
        Ok(room)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut room: usize = 0;
        while let Some((name, value)) = map.next_entry::<T, T>()? {
            room = room
                .saturating_add(name.room())
                .saturating_add(value.room());
        }
        Ok(room)
    }
}

//! Reads messages from the file: each once, however often the file repeats it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use strata_core::record::json::Json;
use strata_core::record::message::{Hop, Instruct, Message, TO_ALL};
use strata_core::record::shape::Shape;
use strata_core::state::environment::Environment;
use strata_core::state::messages::MessageRef;

use super::ImportError;
use super::field::MessageLink;
use super::layout::{HopJson, INSTRUCT_PREFIX, PartJson};
use super::located_value::{LocatedValue, child_pointer};
use super::metagpt::foreign_names::ForeignNames;
use super::warnings::ImportWarnings;

/// The names of a message's fields, the usual one first.
const ID_FIELDS: &[&str] = &["id"];
const CONTENT_FIELDS: &[&str] = &["content"];
const INSTRUCT_FIELDS: &[&str] = &["instruct_content"];
const PART_FIELDS: &[&str] = &["parts"];
const ROLE_NAME_FIELDS: &[&str] = &["role"];
const CAUSE_BY_FIELDS: &[&str] = &["cause_by"];
const SENT_FROM_FIELDS: &[&str] = &["sent_from", "send_from", "tx_from"];
pub(super) const SEND_TO_FIELDS: &[&str] = &["send_to", "restricted_to"];
const META_FIELDS: &[&str] = &["meta_info", "meta_info_"];
const ROUTE_FIELDS: &[&str] = &["route", "route_"];
const ALL_FIELDS: [&[&str]; 10] = [
    ID_FIELDS,
    CONTENT_FIELDS,
    INSTRUCT_FIELDS,
    PART_FIELDS,
    ROLE_NAME_FIELDS,
    CAUSE_BY_FIELDS,
    SENT_FROM_FIELDS,
    SEND_TO_FIELDS,
    META_FIELDS,
    ROUTE_FIELDS,
];

/// The messages that have been read so far.
pub(super) struct ImportedMessages<'a> {
    env: &'a mut Environment,
    by_id: BTreeMap<String, MessageRef>,
    names: ForeignNames,
    /// The copies of each message, if the file lists its messages once and repeats them elsewhere.
    copies: Option<BTreeMap<MessageRef, MessageCopies>>,
    /// The number for the id of the next message that has none, or that cannot keep its id. It only
    /// grows, so that the search stays fast even if the file uses many such ids.
    next_number: usize,
    /// The warnings about the file.
    pub(super) warnings: ImportWarnings,
}

/// The copies of a listed message.
#[derive(Default)]
struct MessageCopies {
    /// Whether a copy is equal to the listed message.
    has_equal: bool,
    /// A copy that differs from the listed message.
    different: Option<Message>,
}

impl<'a> ImportedMessages<'a> {
    /// Reads the list of messages, if the file has one.
    pub(super) fn read(
        env: &'a mut Environment,
        list: Option<LocatedValue<'_>>,
        names: ForeignNames,
    ) -> Result<Self, ImportError> {
        let copies = list.map(|_| BTreeMap::new());
        let mut messages = Self {
            env,
            by_id: BTreeMap::new(),
            names,
            copies,
            next_number: 0,
            warnings: ImportWarnings::default(),
        };
        let Some(list) = list else {
            return Ok(messages);
        };
        for (id, place) in list.fields()? {
            let message = Message {
                id: id.into(),
                ..messages.parse(&place)?
            };
            messages.add(message);
        }
        Ok(messages)
    }

    pub(super) fn add(&mut self, message: Message) -> MessageRef {
        let id = message.id.0.clone();
        let reference = self.env.add_message(message);
        self.by_id.insert(id, reference);
        reference
    }

    /// Returns the shape of the team.
    pub(super) fn shape(&self) -> &Shape {
        &self.env.shape
    }

    /// Returns the names of roles and labels in the file.
    pub(super) fn names(&self) -> &ForeignNames {
        &self.names
    }

    /// Returns a message that was read.
    pub(super) fn get(&self, id: MessageRef) -> &Message {
        self.env.message(id)
    }

    /// Returns the ids of all messages.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// Returns the message that a value names or contains.
    pub(super) fn resolve(&mut self, place: &LocatedValue<'_>) -> Result<MessageRef, ImportError> {
        if let Value::String(id) = place.value() {
            return self.named(id, place);
        }
        let mut message = self.parse(place)?;
        if message.id.0.is_empty() {
            message.id = self.unused_id("imported").as_str().into();
        }
        let Some(known) = self.by_id.get(&message.id.0).copied() else {
            return Ok(self.add(message));
        };
        if let Some(copies) = &mut self.copies {
            let copies = copies.entry(known).or_default();
            match &copies.different {
                _ if **self.env.message(known) == message => copies.has_equal = true,
                None => copies.different = Some(message),
                Some(other) if *other == message => {}
                Some(_) => {
                    let what = format!(
                        "says something else of message `{}` than two other places do",
                        message.id
                    );
                    return Err(place.invalid(what));
                }
            }
            return Ok(known);
        }
        let earlier = self.get(known);
        if (&earlier.content, &earlier.cause_by) == (&message.content, &message.cause_by) {
            return Ok(known);
        }
        // Two messages with one id, in a file of another program.
        message.id = self.unused_id(&message.id.0).as_str().into();
        Ok(self.add(message))
    }

    fn named(&self, id: &str, place: &LocatedValue<'_>) -> Result<MessageRef, ImportError> {
        let found = self.by_id.get(id).copied();
        found.ok_or_else(|| {
            let what = format!("names message `{id}`, which the file does not hold");
            place.invalid(what)
        })
    }

    /// Returns the message that a reference names, or that stands in place of it.
    pub(super) fn read_link(
        &mut self,
        link: &MessageLink<'_>,
        place: &LocatedValue<'_>,
    ) -> Result<MessageRef, ImportError> {
        match &link.id {
            Some(id) => self.named(id, place),
            None => self.resolve(place),
        }
    }

    /// Returns the messages of a list of references.
    pub(super) fn read_links(
        &mut self,
        links: &[MessageLink<'_>],
        list: &LocatedValue<'_>,
    ) -> Result<Vec<MessageRef>, ImportError> {
        let links = links.iter().enumerate();
        links
            .map(|(index, link)| self.read_link(link, &list.item(index)))
            .collect()
    }

    /// Returns the messages of a list that names each of them once.
    pub(super) fn read_unique_links(
        &mut self,
        links: &[MessageLink<'_>],
        list: &LocatedValue<'_>,
    ) -> Result<Vec<MessageRef>, ImportError> {
        let listed = self.read_links(links, list)?;
        Ok(self.first_per_message(|| list.pointer(), listed, |message| *message))
    }

    /// Reads the messages in a field that lists them.
    pub(super) fn read_list(
        &mut self,
        place: &LocatedValue<'_>,
        name: &str,
    ) -> Result<Vec<MessageRef>, ImportError> {
        place.read_items(name, |item| self.resolve(&item))
    }

    /// Reads the messages in a field that lists each of them once.
    pub(super) fn read_unique(
        &mut self,
        place: &LocatedValue<'_>,
        name: &str,
    ) -> Result<Vec<MessageRef>, ImportError> {
        let listed = self.read_list(place, name)?;
        Ok(self.first_per_message(
            || child_pointer(&place.pointer(), name),
            listed,
            |message| *message,
        ))
    }

    /// Returns the first of the entries for each message, and warns about others.
    pub(super) fn first_per_message<T>(
        &mut self,
        pointer: impl FnOnce() -> String,
        entries: Vec<T>,
        message: impl Fn(&T) -> MessageRef,
    ) -> Vec<T> {
        let env = &self.env;
        let name = |entry: &T| format!("message `{}`", env.message(message(entry)).id);
        self.warnings
            .first_per_key(pointer, entries, &message, name)
    }

    /// Returns the messages that arrived, of which each is there once, and those of `again` twice.
    /// Warns about others.
    pub(super) fn first_arrivals(
        &mut self,
        pointer: impl FnOnce() -> String,
        listed: Vec<MessageRef>,
        again: &BTreeSet<MessageRef>,
    ) -> Vec<MessageRef> {
        let mut seen = BTreeSet::new();
        let arrivals = listed.into_iter().map(|message| {
            let is_second = !seen.insert(message) && again.contains(&message);
            (message, is_second)
        });
        let arrivals: Vec<(MessageRef, bool)> = arrivals.collect();
        let env = &self.env;
        let name =
            |(message, _): &(MessageRef, bool)| format!("message `{}`", env.message(*message).id);
        let distinct = self
            .warnings
            .first_per_key(pointer, arrivals, |arrival| *arrival, name);
        distinct.into_iter().map(|(message, _)| message).collect()
    }

    /// Decides which version of an edited message counts: if somebody has edited a copy, and
    /// another copy still equals the listed message, the edited one; otherwise the listed one.
    /// Returns the warnings about the file.
    pub(super) fn finish(self) -> Vec<String> {
        for (id, copies) in self.copies.into_iter().flatten() {
            if let (true, Some(edited)) = (copies.has_equal, copies.different) {
                let place = id.0 as usize;
                self.env
                    .messages
                    .update(place, |message| *message = edited.into());
            }
        }
        self.warnings.into_warnings()
    }

    /// Returns an id that no message has.
    pub(super) fn unused_id(&mut self, base: &str) -> String {
        self.next_number = self.next_number.max(self.by_id.len());
        loop {
            let id = format!("{base}-{}", self.next_number);
            self.next_number += 1;
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    fn parse(&self, place: &LocatedValue<'_>) -> Result<Message, ImportError> {
        parse_message(place, &self.names)
    }
}

/// Reads the message that a value contains.
pub(super) fn parse_message(
    place: &LocatedValue<'_>,
    names: &ForeignNames,
) -> Result<Message, ImportError> {
    let fields = place.object()?;
    let mut meta = BTreeMap::new();
    if let Some(known) = present_field(place, META_FIELDS) {
        for (name, value) in known.fields()? {
            meta.insert(name.into(), value.json()?);
        }
    }
    let used: Vec<&str> = ALL_FIELDS
        .iter()
        .filter_map(|names| present_name(place, names))
        .collect();
    let idle =
        |name: &str| ALL_FIELDS.iter().any(|names| names.contains(&name)) && fields[name].is_null();
    for (name, value) in place.fields()? {
        if !used.contains(&name) && !idle(name) {
            meta.insert(name.into(), value.json()?);
        }
    }
    let text = |names: &[&str]| {
        present_field(place, names)
            .map(|p| p.text().map(String::from))
            .transpose()
    };
    let send_to = match present_name(place, SEND_TO_FIELDS) {
        Some(name) => place.get_texts(name)?.unwrap_or_default(),
        None => vec![TO_ALL.into()],
    };
    // Early versions of MetaGPT use an empty string for everybody.
    let send_to = if send_to == [""] {
        vec![TO_ALL.into()]
    } else {
        send_to
    };
    let role = text(ROLE_NAME_FIELDS)?.unwrap_or_default();
    // If `role` says only whether a person or a model speaks, version 1.0 of MetaGPT names the
    // agent in the metadata.
    let agent = place
        .get("metadata")
        .and_then(|metadata| metadata.value().get("agent")?.as_str());
    let sent_from = names.resolve_sender(
        &text(SENT_FROM_FIELDS)?.unwrap_or_default(),
        agent.unwrap_or(&role),
    );
    Ok(Message {
        id: read_id(place)?.as_str().into(),
        content: text(CONTENT_FIELDS)?.unwrap_or_default(),
        instruct: present_field(place, INSTRUCT_FIELDS)
            .map(|p| read_instruct(&p, &mut meta))
            .transpose()?,
        parts: present_name(place, PART_FIELDS)
            .map(|name| {
                place.read_items(name, |part| {
                    Ok(part.decode::<PartJson<'_>>()?.0.into_owned())
                })
            })
            .transpose()?
            .unwrap_or_default(),
        role,
        cause_by: names.translate_label(&text(CAUSE_BY_FIELDS)?.unwrap_or_default()),
        sent_from,
        send_to,
        meta,
        route: present_name(place, ROUTE_FIELDS)
            .map(|name| place.read_items(name, |hop| hop.decode::<HopJson<'_>>().map(Hop::from)))
            .transpose()?
            .unwrap_or_default(),
    })
}

fn present_name<'n>(place: &LocatedValue<'_>, names: &[&'n str]) -> Option<&'n str> {
    names.iter().copied().find(|name| place.get(name).is_some())
}

fn present_field<'b>(place: &'b LocatedValue<'b>, names: &[&'b str]) -> Option<LocatedValue<'b>> {
    present_name(place, names).and_then(|name| place.get(name))
}

/// Reads the id of a message. Some programs use numbers.
fn read_id(place: &LocatedValue<'_>) -> Result<String, ImportError> {
    match place.get("id") {
        None => Ok(String::new()),
        Some(id) => match id.value() {
            Value::Number(number) => Ok(number.to_string()),
            _ => id.text().map(String::from),
        },
    }
}

/// Reads structured content: a class with its value, or otherwise the value alone. Other fields go
/// into the metadata.
fn read_instruct(
    place: &LocatedValue<'_>,
    meta: &mut BTreeMap<String, Json>,
) -> Result<Box<Instruct>, ImportError> {
    let Some(value) = place.value().get("value") else {
        return Ok(Instruct::untyped(place.json()?));
    };
    let value = LocatedValue::root(value)
        .json()
        .map_err(|_| place.invalid("is nested too deep"))?;
    for (name, more) in place.fields()? {
        if !matches!(name, "class" | "value") {
            meta.insert(format!("{INSTRUCT_PREFIX}{name}"), more.json()?);
        }
    }
    Ok(Box::new(Instruct {
        class: place.get_text("class")?,
        value,
    }))
}

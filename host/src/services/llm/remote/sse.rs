//! Server-sent events, as far as streamed replies need them: the name and the data of each event, from bytes in whatever
//! pieces. Ids and pauses of events are ignored. How much may come is bounded by whoever reads.

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Empty for an event without a name.
    pub(super) name: String,
    /// Its lines of data.
    pub(super) data: String,
}

/// Reads events.
#[derive(Default)]
pub(super) struct Events {
    /// Bytes of a line whose end did not come yet.
    line: Vec<u8>,
    /// The name of an event whose end did not come yet.
    name: String,
    /// Its data.
    data: Option<String>,
    /// Whether the last byte was a carriage return: a line feed behind it ends no other line.
    returned: bool,
}

impl Events {
    /// Takes in more bytes and returns the events that end with them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut ended = Vec::new();
        for &byte in bytes {
            let returned = std::mem::replace(&mut self.returned, byte == b'\r');
            match byte {
                b'\n' if returned => {}
                b'\n' | b'\r' => ended.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        ended
    }

    /// The stream has ended. Returns the event whose empty line is missing: some endpoints leave it out at the end.
    pub(super) fn end(&mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| Event { name, data })
    }

    /// A line has ended. An empty one ends its event.
    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        let value = match line.split_once(':') {
            Some(("data", value)) => value.strip_prefix(' ').unwrap_or(value),
            Some(("event", name)) => {
                name.strip_prefix(' ')
                    .unwrap_or(name)
                    .clone_into(&mut self.name);
                return None;
            }
            None if line == "data" => "",
            _ => return None,
        };
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{feff}data: one\n\n: a comment\r\nevent: x\r\ndata:two\r\ndata:  lines\r\n\r\nid: 7\r\rdata\r\r\
                          data: ü\n\ndata: never ended";

    #[test]
    fn events_are_read_whatever_pieces_they_come_in() {
        for size in 1..=STREAM.len() {
            let mut events = Events::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let found: Vec<Event> = pieces.flat_map(|piece| events.feed(piece)).collect();
            let found: Vec<_> = found
                .iter()
                .map(|event| (event.name.as_str(), event.data.as_str()))
                .collect();
            assert_eq!(
                found,
                [("", "one"), ("x", "two\n lines"), ("", ""), ("", "ü")],
                "in pieces of {size}"
            );
            assert_eq!(
                events.end().map(|event| event.data).as_deref(),
                Some("never ended")
            );
        }
    }
}

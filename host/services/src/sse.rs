//! A parser for server-sent events, as far as streamed replies and MCP servers need it: the name and the
//! data of each event, from bytes in chunks of any size. Ids and retry delays are ignored. The caller
//! limits the amount of data.

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Empty for an event without a name.
    pub(crate) name: String,
    /// Its lines of data.
    pub(crate) data: String,
}

/// Parses events.
#[derive(Default)]
pub(crate) struct SseParser {
    /// The bytes of an incomplete line.
    line: Vec<u8>,
    /// The name of an incomplete event.
    name: String,
    /// The data of an incomplete event.
    data: Option<String>,
    /// Whether the last byte was a carriage return. A line feed that follows it does not end
    /// another line.
    after_carriage_return: bool,
}

impl SseParser {
    /// Adds bytes and returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut ended = Vec::new();
        for &byte in bytes {
            let returned = std::mem::replace(&mut self.after_carriage_return, byte == b'\r');
            match byte {
                b'\n' if returned => {}
                b'\n' | b'\r' => ended.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        ended
    }

    /// Ends the stream. Returns the last event if its empty line is missing, which some endpoints
    /// leave out.
    pub(crate) fn end(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| SseEvent { name, data })
    }

    /// Handles the end of a line. An empty line ends its event.
    fn end_line(&mut self) -> Option<SseEvent> {
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
            let mut events = SseParser::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let found: Vec<SseEvent> = pieces.flat_map(|piece| events.feed(piece)).collect();
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

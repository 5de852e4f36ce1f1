//! Server-sent events, as far as streamed replies need them: the data of each event, from bytes in whatever pieces.
//! Names, ids and pauses of events are nothing to us. How much may come is bounded by whoever reads.

/// Reads events.
#[derive(Default)]
pub(super) struct Events {
    /// Bytes of a line whose end did not come yet.
    line: Vec<u8>,
    /// The data of an event whose end did not come yet.
    data: Option<String>,
    /// Whether the last byte was a carriage return: a line feed behind it ends no other line.
    returned: bool,
}

impl Events {
    /// Takes in more bytes; the data of the events that end with them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
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

    /// A line has ended. An empty one ends its event.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        let value = match line.split_once(':') {
            Some(("data", value)) => value.strip_prefix(' ').unwrap_or(value),
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
            let found: Vec<String> = pieces.flat_map(|piece| events.feed(piece)).collect();
            assert_eq!(found, ["one", "two\n lines", "", "ü"], "in pieces of {size}");
        }
    }
}

//! The text in which a request to the owner of a run is stored: a line with the name of its operation,
//! then its body. The text of a reply is a line with its status, then its body.

use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};

/// Returns the text of a request.
pub(super) fn encode_request(request: &RunRequest) -> String {
    format!("{}\n{}", request.operation.name(), request.body)
}

/// Returns the request that a text describes, if it describes one.
pub(super) fn decode_request(text: Vec<u8>) -> Option<RunRequest> {
    let (name, body) = split_first_line(text)?;
    Some(RunRequest {
        operation: RunOperation::from_name(&name)?,
        body,
    })
}

/// Returns the text of a reply.
pub(super) fn encode_reply(reply: &RunReply) -> String {
    format!("{}\n{}", reply.status.name(), reply.body)
}

/// Returns the reply that a text describes, if it describes one.
pub(super) fn decode_reply(text: Vec<u8>) -> Option<RunReply> {
    let (name, body) = split_first_line(text)?;
    Some(RunReply {
        status: ReplyStatus::from_name(&name)?,
        body,
    })
}

/// Returns the first line of a text, and what follows it.
fn split_first_line(text: Vec<u8>) -> Option<(String, String)> {
    let mut first = String::from_utf8(text).ok()?;
    let rest = first.split_off(first.find('\n')? + 1);
    first.pop();
    Some((first, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_read_as_they_were_written() {
        for operation in RunOperation::ALL {
            let body = format!("{operation:?}\n\u{1}");
            let request = RunRequest { operation, body };
            let text = encode_request(&request).into_bytes();
            assert_eq!(decode_request(text), Some(request));
        }
        for status in ReplyStatus::ALL {
            let body = format!("{status:?}\n");
            let reply = RunReply { status, body };
            assert_eq!(decode_reply(encode_reply(&reply).into_bytes()), Some(reply));
        }
    }

    #[test]
    fn other_texts_describe_nothing() {
        for text in [&b""[..], b"cancel", b"\n{}", b"remove\n{}", b"cancel\n\xff"] {
            assert_eq!(decode_request(text.to_vec()), None);
            assert_eq!(decode_reply(text.to_vec()), None);
        }
    }
}

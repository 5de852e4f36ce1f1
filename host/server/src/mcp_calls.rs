//! What is remembered of calls of the Model Context Protocol: records of the server, so that a call may be repeated and
//! continued at another server with the same database.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use strata_host::mcp_server::CallStore;
use strata_host::storage::{ServerRecord, ServerRecords};

/// The kind of the records.
const KIND: &str = "mcp";

/// Keeps what has to be remembered in the records of the server.
pub struct RecordedCalls(pub Arc<dyn ServerRecords>);

impl CallStore for RecordedCalls {
    fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let present = self.0.insert_record(&ServerRecord {
            kind: KIND.into(),
            name: name.into(),
            text: STANDARD_NO_PAD.encode(bytes),
            ..ServerRecord::default()
        });
        let Some(present) = present.map_err(io::Error::other)? else {
            return Ok(None);
        };
        let decoded = STANDARD_NO_PAD.decode(&present.text);
        let damaged = |_| io::Error::new(ErrorKind::InvalidData, format!("`{name}` is damaged"));
        decoded.map(Some).map_err(damaged)
    }
}

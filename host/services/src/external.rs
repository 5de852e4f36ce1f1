//! The environment outside of a team: it receives the messages whose recipients are no roles of the
//! team, and messages can come from it. It is a program that reads and writes one JSON message per
//! line, or a server that receives one POST per message.
//!
//! `storage::team_json` defines the format of a message. The driver ensures that each message is
//! delivered once.

mod http;
mod stdio;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use reqwest::Url;

use strata_base::process::children;

/// The mode bits that make a file executable.
const EXECUTABLE_BITS: u32 = 0o111;

/// How the outside is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalEndpoint {
    /// A program that reads messages from its standard input and writes messages to its standard
    /// output.
    Stdio {
        /// The program and its arguments. It contains at least the program.
        command: Vec<String>,
        /// The working directory.
        dir: PathBuf,
    },
    /// A server that receives each message in a POST and responds with a list of messages.
    Http {
        /// The address.
        url: Url,
    },
}

impl ExternalEndpoint {
    /// Returns the program if it does not exist or is not executable.
    pub fn missing_program(&self) -> Option<PathBuf> {
        let Self::Stdio { command, dir } = self else {
            return None;
        };
        let program = stdio::program_path(command.first()?, dir);
        let can_be = |file: &Path| {
            file.metadata().is_ok_and(|meta| {
                meta.is_file() && meta.permissions().mode() & EXECUTABLE_BITS != 0
            })
        };
        let is_there = if program.is_absolute() {
            can_be(&program)
        } else {
            let places = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&places).any(|place| can_be(&place.join(&program)))
        };
        (!is_there).then_some(program)
    }
}

/// A message as text, with a key that identifies it.
#[derive(Clone, Debug)]
pub struct OutboundMessage {
    /// Its run and its id. The key is unique and stays the same if the message is delivered again
    /// after a crash.
    pub key: String,
    /// The message as one line of JSON.
    pub text: String,
}

/// How often the delivery of a message is retried that a server does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryRetries {
    /// A limited number of times, because somebody waits for the end of the run.
    Limited,
    /// Until it is accepted.
    Unlimited,
}

/// What the program sends on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalEvent {
    /// A message, as text.
    Message(String),
    /// The program sends nothing more.
    Closed {
        /// How the program ended.
        reason: String,
        /// Whether it ended as expected.
        well: bool,
    },
}

/// The connection to the outside. It is opened with the first message at the latest.
pub struct ExternalConnection {
    external: ExternalEndpoint,
    /// The storage directory of the team.
    storage: Option<PathBuf>,
    program: Option<stdio::ExternalProgram>,
    client: Option<http::MessagePoster>,
}

impl ExternalConnection {
    /// Creates a connection for a team that is saved in `storage`, without opening it.
    pub fn new(external: ExternalEndpoint, storage: Option<&Path>) -> Self {
        Self {
            external,
            storage: storage.map(Path::to_owned),
            program: None,
            client: None,
        }
    }

    /// Opens the connection if the outside may send messages on its own.
    pub fn open(&mut self) -> Result<(), String> {
        if let (ExternalEndpoint::Stdio { command, dir }, None) = (&self.external, &self.program) {
            // If an earlier process was killed, its program may still be running until its watcher
            // kills it.
            let storage = self.storage.as_deref();
            if let Some(storage) = storage {
                children::wait_for_previous_children(storage);
            }
            self.program = Some(stdio::ExternalProgram::start(command, dir, storage)?);
        }
        Ok(())
    }

    /// Delivers a message. Returns the messages that are the direct response, or why the delivery
    /// failed.
    pub fn deliver(
        &mut self,
        letter: OutboundMessage,
        tries: DeliveryRetries,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let opened = self.open();
        let sending = match &self.external {
            ExternalEndpoint::Stdio { .. } => match (opened, &mut self.program) {
                (Ok(()), Some(program)) => Ok(program.write(letter.text, tries)),
                (opened, _) => Err(opened.err().unwrap_or_default()),
            },
            ExternalEndpoint::Http { url } => match &self.client {
                Some(client) => Ok(client.post(letter, tries)),
                None => http::MessagePoster::new(url)
                    .map(|client| self.client.insert(client).post(letter, tries)),
            },
        };
        sending.unwrap_or_else(|why| Box::pin(async { Err(why) }))
    }

    /// Returns whether the outside may send messages on its own.
    pub fn is_listening(&self) -> bool {
        self.program.is_some()
    }

    /// Returns whether a message can be delivered now. A program whose input was closed has to end
    /// before it is started again.
    pub fn is_open(&self) -> bool {
        self.program
            .as_ref()
            .is_none_or(stdio::ExternalProgram::is_open)
    }

    /// Notes that there is nothing more to deliver. If the program writes nothing for a moment, its
    /// input is closed. It can still write then, and has some time to end.
    pub fn close_input_when_idle(&mut self) {
        if let Some(program) = &mut self.program {
            program.close_input_soon();
        }
    }

    /// Returns the next thing that the program sends on its own. May be called while
    /// `is_listening`. Cancelling the future loses nothing.
    pub async fn next_incoming(&mut self) -> ExternalEvent {
        let Some(program) = &mut self.program else {
            return std::future::pending().await;
        };
        let incoming = program.next_event().await;
        if matches!(incoming, ExternalEvent::Closed { .. }) {
            self.program = None;
        }
        incoming
    }
}

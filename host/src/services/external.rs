//! The environment outside of a team: where messages go whose recipients stand for nobody in it, and where messages
//! come from. One JSON message a line over a program's standard streams, or one POST each.
//!
//! What a message looks like is `store::team_json`'s; that each is handed over once is the driver's care.

mod http;
mod stdio;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use reqwest::Url;

pub use stdio::kill_all;

use crate::children;

/// The bits of a file's mode that let somebody run it.
const EXECUTABLE: u32 = 0o111;

/// How the outside is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// A program that reads messages from its standard input and writes messages to its standard output.
    Stdio {
        /// The program and its arguments; at least the program.
        command: Vec<String>,
        /// Where it runs.
        dir: PathBuf,
    },
    /// A server that is POSTed each message and answers with a list of messages.
    Http {
        /// Where.
        url: Url,
    },
}

impl External {
    /// The program, where it is not there to be started.
    pub fn missing(&self) -> Option<PathBuf> {
        let Self::Stdio { command, dir } = self else {
            return None;
        };
        let program = stdio::program(command.first()?, dir);
        let can_be = |file: &Path| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & EXECUTABLE != 0)
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

/// A message as text, with what names it.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Its run and its id: the same when it is handed over again after a crash, and no other's.
    pub key: String,
    /// The message as one line of JSON.
    pub text: String,
}

/// How often a message is handed over that a server does not take for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// Some times: somebody waits for the end of the run.
    Few,
    /// Until it is taken.
    Endless,
}

/// What comes from outside without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message, as text.
    Message(String),
    /// Nothing more comes.
    Closed {
        /// How the other side ended.
        how: String,
        /// Whether it ended as it should.
        well: bool,
    },
}

/// The way to the outside. It is opened with the first message, if not before.
pub struct Bridge {
    external: External,
    /// Where the team is saved whose outside this is; none once that was taken over from an earlier process.
    storage: Option<PathBuf>,
    program: Option<stdio::Program>,
    client: Option<http::Client>,
}

impl Bridge {
    /// A way that is not open yet, of a team that is saved here.
    pub fn new(external: External, storage: Option<&Path>) -> Self {
        Self {
            external,
            storage: storage.map(Path::to_owned),
            program: None,
            client: None,
        }
    }

    /// Opens the way before there is anything to hand over, where something may come by itself.
    pub fn open(&mut self) -> Result<(), String> {
        if let (External::Stdio { command, dir }, None) = (&self.external, &self.program) {
            // A process that was killed may have left one that is about to be killed, too.
            self.storage
                .take()
                .iter()
                .for_each(|storage| children::take_over(storage));
            self.program = Some(stdio::Program::start(command, dir)?);
        }
        Ok(())
    }

    /// Hands a message over. Gives what came back for it at once, or why it could not be handed over.
    pub fn hand_over(
        &mut self,
        letter: Letter,
        tries: Tries,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let opened = self.open();
        let made = match &self.external {
            External::Stdio { .. } => match (opened, &mut self.program) {
                (Ok(()), Some(program)) => Ok(program.write(letter.text, tries)),
                (opened, _) => Err(opened.err().unwrap_or_default()),
            },
            External::Http { url } => match &self.client {
                Some(client) => Ok(client.post(letter, tries)),
                None => http::Client::new(url)
                    .map(|client| self.client.insert(client).post(letter, tries)),
            },
        };
        made.unwrap_or_else(|why| Box::pin(async { Err(why) }))
    }

    /// Whether something may come by itself.
    pub fn is_listening(&self) -> bool {
        self.program.is_some()
    }

    /// Whether a message can be handed over now. A program whose input has ended has to end first; then it is started
    /// again.
    pub fn is_open(&self) -> bool {
        self.program.as_ref().is_none_or(stdio::Program::is_open)
    }

    /// Says that there is nothing more to hand over: a program that says nothing for a moment sees the end of its
    /// input. It may still say something then, and has a while to end.
    pub fn rest(&mut self) {
        if let Some(program) = &mut self.program {
            program.rest();
        }
    }

    /// What comes next by itself. To be asked for while `is_listening`; may be dropped and asked for again.
    pub async fn incoming(&mut self) -> Incoming {
        let Some(program) = &mut self.program else {
            return std::future::pending().await;
        };
        let incoming = program.incoming().await;
        if matches!(incoming, Incoming::Closed { .. }) {
            self.program = None;
        }
        incoming
    }
}

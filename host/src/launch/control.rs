//! What other processes ask of the one that runs a team, and what it replies: messages and answers of
//! people, and the end of the run. How requests are delivered is up to where the run is kept.

use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_base::text::units::format_bytes;
use strata_core::record::message::Message;
use strata_driver::{AnsweredRequest, CommandRequest, DriverHandle, Halt, HumanReply, SendReceipt};
use strata_sandbox::MAX_PARTS;
use strata_services::models::MAX_MEDIA_BYTES;
use strata_storage::{
    Epoch, IncomingRequest, Mailbox, Pruned, RequestHandler, RequestOutcome, StorageLocation,
};

use super::{Author, LaunchError};

/// The maximum size of the text of a message that a person sends, in bytes. Every role that receives
/// it stores it in its memory, and a saved team holds it in several places.
pub const MAX_MESSAGE_BYTES: u64 = 16 << 20;

/// What `RunOperation::Send` is about. The result is a `SendReceipt`.
#[derive(Serialize, Deserialize)]
pub(super) struct SentMessage {
    pub(super) message: Box<Message>,
    /// The bytes of its images and files, in base64.
    #[serde(default)]
    pub(super) files: Vec<String>,
}

impl SentMessage {
    /// Fails if it is larger than what a person can send. Whoever reaches the socket of a run, or its
    /// mailbox in a database, need not be this program.
    pub(super) fn check_size(&self) -> Result<(), String> {
        let refuse = |what: &str, bytes: u64, limit: u64| {
            let (bytes, limit) = (format_bytes(bytes), format_bytes(limit));
            Err(format!("{what} {bytes}, at most {limit} are taken"))
        };
        let text = self.message.content.len() as u64;
        if text > MAX_MESSAGE_BYTES {
            return refuse("the text has", text, MAX_MESSAGE_BYTES);
        }
        let others = Message {
            content: String::new(),
            ..Message::clone(&self.message)
        };
        let others = serde_json::to_string(&others).map_or(0, |text| text.len() as u64);
        if others > MAX_MESSAGE_BYTES {
            return refuse("what belongs to the text has", others, MAX_MESSAGE_BYTES);
        }
        let count = self.message.parts.len().max(self.files.len());
        if count > MAX_PARTS {
            return Err(format!(
                "{count} files are too many, at most {MAX_PARTS} are taken"
            ));
        }
        let files = self
            .files
            .iter()
            .map(|file| file.len() as u64 / 4 * 3)
            .sum();
        if files > MAX_MEDIA_BYTES {
            return refuse("the files have", files, MAX_MEDIA_BYTES);
        }
        Ok(())
    }
}

/// What `RunOperation::Answer` is about.
#[derive(Serialize, Deserialize)]
pub(super) struct SentAnswers {
    pub(super) answers: Vec<HumanReply>,
}

/// The result of `RunOperation::Answer`.
#[derive(Serialize, Deserialize)]
pub(super) struct TakenAnswers {
    pub(super) answered: Vec<AnsweredRequest>,
}

/// What `RunOperation::Cancel` and `RunOperation::Pause` are about.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct SentHalt {
    /// Who says so.
    #[serde(default)]
    pub(super) by: Option<Author>,
}

/// What `RunOperation::Prune` is about. The result is a `Pruned`.
#[derive(Serialize, Deserialize)]
pub(super) struct SentPrune {
    /// How many checkpoints of each lineage are kept.
    pub(super) keep: u32,
    /// Who says so.
    #[serde(default)]
    pub(super) by: Option<Author>,
}

/// The empty body of operations without arguments or result.
#[derive(Serialize)]
struct Nothing {}

/// The outcome of a request to the process that runs a team.
pub(super) enum ControlOutcome<T> {
    /// No process listens.
    Nobody,
    /// The process ended, and has certainly not carried out the request.
    Ended,
    Answered(Result<T, LaunchError>),
}

impl<T> ControlOutcome<T> {
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> ControlOutcome<U> {
        match self {
            Self::Nobody => ControlOutcome::Nobody,
            Self::Ended => ControlOutcome::Ended,
            Self::Answered(result) => ControlOutcome::Answered(result.map(convert)),
        }
    }
}

/// Starts to answer the requests of other processes with this handle, under a lease with this epoch.
/// Must be called within a tokio runtime.
pub(super) fn listen(
    location: &StorageLocation,
    epoch: Epoch,
    orders: DriverHandle,
) -> std::io::Result<Mailbox> {
    let handler: RequestHandler = Arc::new(move |request| {
        let orders = orders.clone();
        Box::pin(async move { handle_request(&request, &orders).await })
    });
    location.receive_requests(epoch, handler)
}

/// Carries out a request.
async fn handle_request(incoming: &IncomingRequest, orders: &DriverHandle) -> RunReply {
    match incoming.request.operation {
        RunOperation::Send => send(incoming, orders).await,
        RunOperation::Answer => answer(incoming, orders).await,
        RunOperation::Cancel => halt(incoming, Halt::Cancel, orders).await,
        RunOperation::Pause => halt(incoming, Halt::Pause, orders).await,
        RunOperation::Prune => prune(incoming, orders).await,
        RunOperation::Operate => RunReply::refused("that is not about a run"),
    }
}

async fn send(incoming: &IncomingRequest, orders: &DriverHandle) -> RunReply {
    let sent: SentMessage = match serde_json::from_str(&incoming.request.body) {
        Ok(sent) => sent,
        Err(error) => return not_understood(&error),
    };
    if let Err(why) = sent.check_size() {
        return RunReply::refused(why);
    }
    let files = match decode_files(&sent.files) {
        Ok(files) => files,
        Err(error) => return RunReply::refused(format!("a file is not understood: {error}")),
    };
    let stored = stored_reply(incoming, done);
    match orders.send_with_files(*sent.message, files, stored).await {
        Ok(receipt) => done(&receipt),
        Err(why) => why.into(),
    }
}

async fn answer(incoming: &IncomingRequest, orders: &DriverHandle) -> RunReply {
    let sent: SentAnswers = match serde_json::from_str(&incoming.request.body) {
        Ok(sent) => sent,
        Err(error) => return not_understood(&error),
    };
    let stored = stored_reply(incoming, |answered: &Vec<_>| taken(answered));
    match orders.answer_request(sent.answers, stored).await {
        Ok(Ok(answered)) => taken(&answered),
        Ok(Err(why)) => RunReply::refused(why.to_string()),
        Err(why) => why.into(),
    }
}

async fn halt(incoming: &IncomingRequest, halt: Halt, orders: &DriverHandle) -> RunReply {
    let sent: SentHalt = match serde_json::from_str(&incoming.request.body) {
        Ok(sent) => sent,
        Err(error) => return not_understood(&error),
    };
    let stored = stored_reply(incoming, |()| done(&Nothing {}));
    match orders
        .halt_request(halt, sent.by.map(String::from), stored)
        .await
    {
        Ok(()) => done(&Nothing {}),
        Err(why) => why.into(),
    }
}

async fn prune(incoming: &IncomingRequest, orders: &DriverHandle) -> RunReply {
    let sent: SentPrune = match serde_json::from_str(&incoming.request.body) {
        Ok(sent) => sent,
        Err(error) => return not_understood(&error),
    };
    match orders.prune(sent.keep, sent.by.map(String::from)).await {
        Ok(pruned) => done(&pruned),
        Err(why) => why.into(),
    }
}

/// Returns the reply with the result of a request.
fn done(result: &impl Serialize) -> RunReply {
    RunReply {
        status: ReplyStatus::Done,
        body: serde_json::to_string(result).unwrap_or_default(),
    }
}

/// Returns the reply for answers that were accepted.
fn taken(answered: &[AnsweredRequest]) -> RunReply {
    done(&TakenAnswers {
        answered: answered.to_vec(),
    })
}

fn not_understood(error: &serde_json::Error) -> RunReply {
    RunReply::refused(format!("the request is not understood: {error}"))
}

/// Returns how the reply to a request is stored with what it becomes, if the request is in a database.
fn stored_reply<T>(
    incoming: &IncomingRequest,
    reply: fn(&T) -> RunReply,
) -> Option<CommandRequest<T>> {
    incoming.id.map(|id| CommandRequest { id, reply })
}

/// Returns files that were sent in base64, by their digests.
pub(super) fn decode_files(files: &[String]) -> Result<Blobs, DecodeError> {
    let mut blobs = Blobs::new();
    for file in files {
        let bytes = STANDARD.decode(file)?;
        blobs.insert(digest_of(&bytes), bytes.into());
    }
    Ok(blobs)
}

/// Sends a message to the process that runs the team at a location.
pub(super) fn send_message(
    location: &StorageLocation,
    message: &Message,
    files: &Blobs,
) -> ControlOutcome<SendReceipt> {
    let sent = SentMessage {
        message: Box::new(message.clone()),
        files: files.values().map(|bytes| STANDARD.encode(bytes)).collect(),
    };
    request_owner(location, RunOperation::Send, &sent)
}

/// Sends answers to the process that runs the team at a location.
pub(super) fn send_answers(
    location: &StorageLocation,
    replies: &[HumanReply],
) -> ControlOutcome<Vec<AnsweredRequest>> {
    let sent = SentAnswers {
        answers: replies.to_vec(),
    };
    request_owner(location, RunOperation::Answer, &sent).map(|taken: TakenAnswers| taken.answered)
}

/// Tells the process that runs the team at a location to end the run.
pub(super) fn send_halt(
    location: &StorageLocation,
    halt: Halt,
    by: Option<&Author>,
) -> ControlOutcome<()> {
    let operation = match halt {
        Halt::Cancel => RunOperation::Cancel,
        Halt::Pause => RunOperation::Pause,
    };
    let sent = SentHalt { by: by.cloned() };
    request_owner(location, operation, &sent).map(|_: IgnoredAny| ())
}

/// Tells the process that runs the team at a location to remove old checkpoints.
pub(super) fn send_prune(
    location: &StorageLocation,
    keep: u32,
    by: Option<&Author>,
) -> ControlOutcome<Pruned> {
    let sent = SentPrune {
        keep,
        by: by.cloned(),
    };
    request_owner(location, RunOperation::Prune, &sent)
}

/// Sends a request to the process that runs the team at a location, and returns its result.
fn request_owner<T: DeserializeOwned>(
    location: &StorageLocation,
    operation: RunOperation,
    about: &impl Serialize,
) -> ControlOutcome<T> {
    let Ok(body) = serde_json::to_string(about) else {
        return ControlOutcome::Nobody;
    };
    let unconfirmed = |why: String| ControlOutcome::Answered(Err(LaunchError::Unconfirmed(why)));
    let reply = match location.request_owner(RunRequest { operation, body }) {
        RequestOutcome::NoOwner => return ControlOutcome::Nobody,
        RequestOutcome::NotSent(error) => return ControlOutcome::Answered(Err(error.into())),
        RequestOutcome::Ended => return ControlOutcome::Ended,
        RequestOutcome::Unknown(error) => return unconfirmed(error.to_string()),
        RequestOutcome::Replied(reply) => reply,
    };
    match reply.status {
        ReplyStatus::Done => match serde_json::from_str(&reply.body) {
            Ok(result) => ControlOutcome::Answered(Ok(result)),
            Err(_) => unconfirmed("it answered something else".into()),
        },
        ReplyStatus::Ended => ControlOutcome::Ended,
        ReplyStatus::Refused => ControlOutcome::Answered(Err(LaunchError::InvalidInput(format!(
            "the process that runs the team did not take it: {}",
            reply.body
        )))),
        ReplyStatus::Unsaved => unconfirmed(format!("it could not save it: {}", reply.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_no_larger_than_what_the_command_sends() {
        let check = |content: usize, label: usize, files: &[usize], expected: Result<(), &str>| {
            let text = |length: usize| "x".repeat(length);
            let sent = SentMessage {
                message: Box::new(Message::from_user("m".into(), text(content), text(label))),
                files: files.iter().map(|length| text(*length)).collect(),
            };
            assert_eq!(sent.check_size(), expected.map_err(str::to_owned));
        };
        let most = MAX_MESSAGE_BYTES as usize;
        check(most, 10, &[4 << 20; 3], Ok(()));
        let text = "the text has 16.1 MiB, at most 16 MiB are taken";
        check(most + 1, 10, &[], Err(text));
        let others = "what belongs to the text has 17.1 MiB, at most 16 MiB are taken";
        check(0, 17 << 20, &[], Err(others));
        check(
            0,
            0,
            &[0; 65],
            Err("65 files are too many, at most 64 are taken"),
        );
        let files = "the files have 72 MiB, at most 64 MiB are taken";
        check(0, 0, &[48 << 20; 2], Err(files));
    }
}

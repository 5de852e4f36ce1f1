//! What other processes ask of the one that runs a team, and what it replies: messages and answers of
//! people. Each is JSON; how it is delivered is up to where the run is kept.

use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde::{Deserialize, Serialize};
use strata_core::record::message::Message;

use super::LaunchError;
use crate::blob::{Blobs, digest_of};
use crate::driver::{
    AnsweredRequest, CommandError, CommandRequest, DriverHandle, Halt, HumanReply, SendReceipt,
};
use crate::storage::{
    Epoch, IncomingRequest, Mailbox, RequestHandler, RequestOutcome, StorageLocation,
};

/// A request to the process that runs the team.
#[derive(Serialize, Deserialize)]
enum ControlRequest {
    Send {
        message: Box<Message>,
        /// The bytes of its images and files, in base64.
        #[serde(default)]
        files: Vec<String>,
    },
    Answer(Vec<HumanReply>),
    Halt(Halt),
}

/// The response to a request.
#[derive(Serialize, Deserialize)]
enum ControlResponse {
    Sent(SendReceipt),
    Answered(Vec<AnsweredRequest>),
    Halted,
    Refused(String),
    /// The request may have been carried out, but it could not be saved, for this reason.
    Unsaved(String),
    /// The run ended before the request was handled.
    Ended,
}

impl ControlResponse {
    fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<CommandError> for ControlResponse {
    fn from(why: CommandError) -> Self {
        match why {
            CommandError::Ended => Self::Ended,
            CommandError::Unsaved(why) => Self::Unsaved(why),
        }
    }
}

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
        Box::pin(async move { handle_request(&request, &orders).await.to_json() })
    });
    location.receive_requests(epoch, handler)
}

/// Carries out a request.
async fn handle_request(request: &IncomingRequest, orders: &DriverHandle) -> ControlResponse {
    match serde_json::from_str(&request.text) {
        Ok(ControlRequest::Send { message, files }) => match decode_files(&files) {
            Ok(files) => match orders
                .send_with_files(
                    *message,
                    files,
                    stored_reply(request, |sent| {
                        ControlResponse::Sent(sent.clone()).to_json()
                    }),
                )
                .await
            {
                Ok(sent) => ControlResponse::Sent(sent),
                Err(why) => why.into(),
            },
            Err(error) => ControlResponse::Refused(format!("a file is not understood: {error}")),
        },
        Ok(ControlRequest::Answer(replies)) => match orders
            .answer_request(
                replies,
                stored_reply(request, |answered| {
                    ControlResponse::Answered(answered.clone()).to_json()
                }),
            )
            .await
        {
            Ok(Ok(answered)) => ControlResponse::Answered(answered),
            Ok(Err(why)) => ControlResponse::Refused(why.to_string()),
            Err(why) => why.into(),
        },
        Ok(ControlRequest::Halt(halt)) => match orders
            .halt_request(
                halt,
                stored_reply(request, |()| ControlResponse::Halted.to_json()),
            )
            .await
        {
            Ok(()) => ControlResponse::Halted,
            Err(why) => why.into(),
        },
        Err(error) => ControlResponse::Refused(format!("the request is not understood: {error}")),
    }
}

/// Returns how the reply to a request is stored with what it becomes, if the request is in a database.
fn stored_reply<T>(
    request: &IncomingRequest,
    encode: fn(&T) -> String,
) -> Option<CommandRequest<T>> {
    request.id.map(|id| CommandRequest { id, encode })
}

/// Returns files that were sent in base64, by their digests.
fn decode_files(files: &[String]) -> Result<Blobs, DecodeError> {
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
    let request = ControlRequest::Send {
        message: Box::new(message.clone()),
        files: files.values().map(|bytes| STANDARD.encode(bytes)).collect(),
    };
    request_owner(location, &request, |response| match response {
        ControlResponse::Sent(sent) => Ok(sent),
        other => Err(other),
    })
}

/// Sends answers to the process that runs the team at a location.
pub(super) fn send_answers(
    location: &StorageLocation,
    replies: &[HumanReply],
) -> ControlOutcome<Vec<AnsweredRequest>> {
    let request = ControlRequest::Answer(replies.to_vec());
    request_owner(location, &request, |response| match response {
        ControlResponse::Answered(answered) => Ok(answered),
        other => Err(other),
    })
}

/// Tells the process that runs the team at a location to end the run.
pub(super) fn send_halt(location: &StorageLocation, halt: Halt) -> ControlOutcome<()> {
    request_owner(
        location,
        &ControlRequest::Halt(halt),
        |response| match response {
            ControlResponse::Halted => Ok(()),
            other => Err(other),
        },
    )
}

/// Sends a request to the process that runs the team at a location. `expect` returns the result if
/// the response is of the right kind, else the response.
fn request_owner<T>(
    location: &StorageLocation,
    request: &ControlRequest,
    expect: impl FnOnce(ControlResponse) -> Result<T, ControlResponse>,
) -> ControlOutcome<T> {
    let Ok(request) = serde_json::to_string(request) else {
        return ControlOutcome::Nobody;
    };
    let unconfirmed = |why: String| ControlOutcome::Answered(Err(LaunchError::Unconfirmed(why)));
    let reply = match location.request_owner(&request) {
        RequestOutcome::NoOwner => return ControlOutcome::Nobody,
        RequestOutcome::Ended => return ControlOutcome::Ended,
        RequestOutcome::Unknown(error) => return unconfirmed(error.to_string()),
        RequestOutcome::Replied(reply) => reply,
    };
    let Ok(response) = serde_json::from_str(&reply) else {
        return unconfirmed("it answered something else".into());
    };
    match expect(response) {
        Ok(result) => ControlOutcome::Answered(Ok(result)),
        Err(ControlResponse::Ended) => ControlOutcome::Ended,
        Err(ControlResponse::Refused(why)) => {
            ControlOutcome::Answered(Err(LaunchError::InvalidInput(format!(
                "the process that runs the team did not take it: {why}"
            ))))
        }
        Err(ControlResponse::Unsaved(why)) => unconfirmed(format!("it could not save it: {why}")),
        Err(_) => unconfirmed("it answered something else".into()),
    }
}

//! What other processes ask the worker of a file of many runs about runs that nobody owns. They cannot open the file
//! themselves while the worker has it open.

use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_driver::Halt;
use strata_storage::StorageLocation;

use super::LaunchError;
use super::control::{SentAnswers, SentHalt, SentMessage, SentPrune, TakenAnswers, decode_files};
use super::prune::prune_by;
use super::via_owner::{answer, halt_by, send_decoded};

/// Does what is asked about a run, as the process does that owns a run, and waits until it is done.
pub fn carry_out_for_others(location: &StorageLocation, request: &RunRequest) -> RunReply {
    let body = &request.body;
    match request.operation {
        RunOperation::Send => carry_out(body, |sent: SentMessage| {
            sent.check_size().map_err(LaunchError::InvalidInput)?;
            let files = decode_files(&sent.files).map_err(|error| {
                LaunchError::InvalidInput(format!("a file is not understood: {error}"))
            })?;
            send_decoded(location, &sent.message, &files)
        }),
        RunOperation::Answer => carry_out(body, |sent: SentAnswers| {
            let accepted = answer(location, &sent.answers)?;
            Ok(TakenAnswers {
                answered: accepted.answers,
            })
        }),
        RunOperation::Cancel => halt(location, body, Halt::Cancel),
        RunOperation::Pause => halt(location, body, Halt::Pause),
        RunOperation::Prune => carry_out(body, |sent: SentPrune| {
            let result = prune_by(location, Some(sent.keep), sent.by.as_ref())?;
            Ok(result.pruned)
        }),
        RunOperation::Operate => RunReply::refused("that is not about a run"),
    }
}

fn halt(location: &StorageLocation, body: &str, halt: Halt) -> RunReply {
    carry_out(body, |sent: SentHalt| {
        halt_by(location, halt, sent.by.as_ref())
    })
}

fn carry_out<S: DeserializeOwned, T: Serialize>(
    body: &str,
    act: impl FnOnce(S) -> Result<T, LaunchError>,
) -> RunReply {
    let sent = match serde_json::from_str(body) {
        Ok(sent) => sent,
        Err(error) => return RunReply::refused(format!("the request is not understood: {error}")),
    };
    match act(sent) {
        Ok(result) => RunReply {
            status: ReplyStatus::Done,
            body: serde_json::to_string(&result).unwrap_or_default(),
        },
        // What has begun may have been stored in part.
        Err(error @ LaunchError::Driver(_)) => RunReply {
            status: ReplyStatus::Unsaved,
            body: error.to_string(),
        },
        Err(error) => RunReply::refused(error.to_string()),
    }
}

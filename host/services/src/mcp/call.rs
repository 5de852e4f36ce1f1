//! One call of a tool: it is sent, its progress is watched, and it is given up when a limit is hit.

use std::time::Duration;

use serde_json::{Map, Value};
use strata_base::text::units::format_duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, Lost, QUEUED_SIGNALS, Request, Signal};
use super::message::{Reply, RpcError};
use super::question::{KnownAnswers, question_digest};

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallLimits {
    /// The longest silence.
    pub(super) silence: Duration,
    /// The longest call.
    pub(super) total: Duration,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum CallEnd {
    /// The server returned this.
    Result(Map<String, Value>),
    /// The server answered with an error.
    Refused(RpcError),
    /// The server asks a person within the call, with these parameters. It gets no answer.
    Asked(Value),
    /// There is no answer.
    Lost(Lost),
    /// A limit was hit, which this names.
    TimedOut(String),
}

/// Tells the server that a call is given up, if that was not forgotten before.
struct CancelOnDrop<'a> {
    connection: &'a Connection,
    id: u64,
    reason: Option<&'static str>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(reason) = self.reason {
            self.connection.cancel(self.id, reason);
        }
    }
}

fn digest_of(question: &Value) -> String {
    question_digest(&question["params"])
}

/// Makes a call. Questions of the server to which answers are known are answered. If the returned future is
/// dropped, the server is told.
pub(super) async fn call(
    connection: &Connection,
    request: Request,
    limits: CallLimits,
    known: &KnownAnswers,
) -> CallEnd {
    let (sender, mut signals) = mpsc::channel(QUEUED_SIGNALS);
    let mut cancel = CancelOnDrop {
        connection,
        id: request.id,
        reason: Some("the caller does not wait any longer"),
    };
    let mut exchange = std::pin::pin!(connection.exchange(&request, sender));
    let begun = Instant::now();
    let end = begun + limits.total;
    let mut silent_until = begun + limits.silence;
    loop {
        tokio::select! {
            biased;
            reply = &mut exchange => {
                cancel.reason = None;
                return match reply {
                    Ok(Reply::Result(result)) => CallEnd::Result(result),
                    Ok(Reply::Error(error)) => CallEnd::Refused(error),
                    Err(lost) => CallEnd::Lost(lost),
                };
            }
            Some(signal) = signals.recv() => match signal {
                Signal::Progress => silent_until = Instant::now() + limits.silence,
                Signal::Question(question) if known.contains_key(&digest_of(&question)) => {
                    silent_until = Instant::now() + limits.silence;
                    connection.respond(&question["id"], &known[&digest_of(&question)]);
                }
                Signal::Question(question) => {
                    cancel.reason = Some("a person is asked first");
                    return CallEnd::Asked(question["params"].clone());
                }
            },
            () = sleep_until(silent_until.min(end)) => {
                cancel.reason = Some("it takes too long");
                let (limit, key) = match end <= silent_until {
                    true => (limits.total, "max_timeout"),
                    false => (limits.silence, "timeout"),
                };
                let what = match key {
                    "timeout" => "said nothing for",
                    _ => "took longer than",
                };
                return CallEnd::TimedOut(format!(
                    "the call {what} {} (`{key}` of the server)",
                    format_duration(limit)
                ));
            }
        }
    }
}

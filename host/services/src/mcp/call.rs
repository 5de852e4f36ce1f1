//! One call of a tool: it is sent, its progress is watched, and it is given up when a limit is hit. While a
//! person is asked within it, it is kept, and its time does not run.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use strata_base::text::units::format_duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::exchange::{ExchangeResult, LostAnswer, QUEUED_SIGNALS, Request, Signal};
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
pub(super) enum CallEnd {
    /// The server returned this.
    Result(Map<String, Value>),
    /// The server answered with an error.
    Refused(RpcError),
    /// The server asks a person within the call, and goes on when it is answered.
    Asked(Box<AskingCall>),
    /// The server sent a request with this method, which is not answered. It may wait for that for ever.
    Unexpected(String),
    /// There is no answer.
    Lost(LostAnswer),
    /// A limit was hit, which this names.
    TimedOut(String),
}

/// A call within which the server asks a person.
pub(super) struct AskingCall {
    call: OpenCall,
    /// The id of the question, which the answer names.
    id: Value,
    /// What is asked.
    pub(super) params: Value,
}

impl AskingCall {
    /// Returns whether the server can still take the answer.
    pub(super) fn is_alive(&self) -> bool {
        self.call.cancel.connection.is_alive()
    }

    /// Answers the question. Returns the call, which goes on.
    pub(super) fn answer(self, response: &Value) -> OpenCall {
        self.call.cancel.connection.respond(&self.id, response);
        self.call
    }
}

/// A call that was sent. If it is dropped, the server is told that it is given up.
pub(super) struct OpenCall {
    exchange: BoxFuture<'static, ExchangeResult>,
    signals: mpsc::Receiver<Signal>,
    limits: CallLimits,
    /// How long it has taken so far, without the time in which people were asked.
    taken: Duration,
    cancel: CancelOnDrop,
}

/// Tells the server that a call is given up, if that was not forgotten before.
struct CancelOnDrop {
    connection: Connection,
    id: u64,
    reason: Option<&'static str>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(reason) = self.reason {
            self.connection.cancel(self.id, reason);
        }
    }
}

fn digest_of(question: &Value) -> String {
    question_digest(&question["params"])
}

impl OpenCall {
    /// Returns a call. It is sent when it is waited for.
    pub(super) fn new(connection: Connection, request: Request, limits: CallLimits) -> Self {
        let (sender, signals) = mpsc::channel(QUEUED_SIGNALS);
        let cancel = CancelOnDrop {
            connection: connection.clone(),
            id: request.id,
            reason: Some("the caller does not wait any longer"),
        };
        Self {
            exchange: Box::pin(async move { connection.exchange(&request, sender).await }),
            signals,
            limits,
            taken: Duration::ZERO,
            cancel,
        }
    }

    /// Waits for the end of the call. Questions of the server to which answers are known are answered.
    pub(super) async fn wait(mut self, known: &KnownAnswers) -> CallEnd {
        let start = Instant::now();
        let end = start + self.limits.total.saturating_sub(self.taken);
        let mut silent_until = start + self.limits.silence;
        loop {
            tokio::select! {
                biased;
                reply = &mut self.exchange => {
                    self.cancel.reason = None;
                    return match reply {
                        Ok(Reply::Result(result)) => CallEnd::Result(result),
                        Ok(Reply::Error(error)) => CallEnd::Refused(error),
                        Err(lost) => CallEnd::Lost(lost),
                    };
                }
                Some(signal) = self.signals.recv() => match signal {
                    Signal::Progress => silent_until = Instant::now() + self.limits.silence,
                    Signal::Unexpected(method) => return CallEnd::Unexpected(method),
                    Signal::Question(mut question) => match known.get(&digest_of(&question)) {
                        Some(answer) => {
                            silent_until = Instant::now() + self.limits.silence;
                            self.cancel.connection.respond(&question["id"], answer);
                        }
                        None => {
                            self.taken += start.elapsed();
                            return CallEnd::Asked(Box::new(AskingCall {
                                call: self,
                                id: question["id"].take(),
                                params: question["params"].take(),
                            }));
                        }
                    },
                },
                () = sleep_until(silent_until.min(end)) => {
                    self.cancel.reason = Some("it takes too long");
                    let mut what = self.limits.describe_hit(end <= silent_until);
                    if let Some(line) = self.cancel.connection.stray_line(self.cancel.id) {
                        what = format!("{what}; meanwhile {line}");
                    }
                    return CallEnd::TimedOut(what);
                }
            }
        }
    }
}

impl CallLimits {
    /// Returns which limit was hit, for people.
    fn describe_hit(&self, is_total: bool) -> String {
        let (what, limit, key) = if is_total {
            ("took longer than", self.total, "max_timeout")
        } else {
            ("said nothing for", self.silence, "timeout")
        };
        let limit = format_duration(limit);
        format!("the call {what} {limit} (`{key}` of the server)")
    }
}

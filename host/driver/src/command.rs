//! Commands from outside to a running team, and the handle that sends them to its driver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strata_base::files::blob::Blobs;
use strata_base::owner::{ReplyStatus, RunReply};
use strata_base::process::wait::wait;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{Event, MessageSent, Status};
use strata_core::record::id::RoleId;
use strata_core::record::message::Message;
use strata_storage::{LoadedState, MailId, MailReply, PruneNote, Pruned};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    AnswerError, AnsweredRequest, DriverError, Halt, HumanReply, Journal, ReplyError, RunState,
};

/// How many commands may be queued. Each caller waits for its answer, so this is the number of
/// callers that need not wait to send, not a limit on what is accepted.
const COMMAND_QUEUE: usize = 64;

/// A request in a database that a command carries out, and the reply to it for a result.
#[derive(Clone, Copy, Debug)]
pub struct CommandRequest<T> {
    /// The id of the request in the mailbox.
    pub id: MailId,
    /// Turns the result into the reply that is stored.
    pub reply: fn(&T) -> RunReply,
}

impl<T> CommandRequest<T> {
    /// Returns the reply that is stored with what the request became.
    fn reply(&self, result: &T) -> MailReply {
        MailReply {
            id: self.id,
            reply: (self.reply)(result),
        }
    }
}

/// A command to a running team.
#[derive(Debug)]
pub(super) enum DriverCommand {
    /// Publish a message from outside.
    Send {
        message: Box<Message>,
        files: Blobs,
        request: Option<CommandRequest<SendReceipt>>,
        reply: oneshot::Sender<Result<SendReceipt, CommandError>>,
    },
    /// Record people's answers.
    Answer {
        replies: Vec<HumanReply>,
        request: Option<CommandRequest<Vec<AnsweredRequest>>>,
        reply: oneshot::Sender<Result<Result<Vec<AnsweredRequest>, AnswerError>, CommandError>>,
    },
    /// Return a copy of the team and its state.
    Snapshot {
        reply: oneshot::Sender<Box<Stepper>>,
    },
    /// Remove old checkpoints.
    Prune {
        by: Option<String>,
        keep: u32,
        reply: oneshot::Sender<Result<Pruned, CommandError>>,
    },
    /// End the run.
    Halt(HaltCommand),
    /// Write `team.json`.
    Save {
        reply: oneshot::Sender<Result<(), DriverError>>,
    },
}

/// An operator's command to end the run.
#[derive(Debug)]
pub(super) struct HaltCommand {
    pub(super) halt: Halt,
    /// Who gave it.
    pub(super) by: Option<String>,
    request: Option<CommandRequest<()>>,
    reply: oneshot::Sender<Result<(), CommandError>>,
}

/// What is recorded with the end of a run besides its status.
#[derive(Debug, Default)]
pub(super) struct EndOrder {
    /// Who ended it.
    pub(super) by: Option<String>,
    /// The reply to the request in a database that asked for it.
    pub(super) reply: Option<MailReply>,
}

impl HaltCommand {
    /// Returns what is recorded with the end of the run.
    pub(super) fn end_order(&self) -> EndOrder {
        EndOrder {
            by: self.by.clone(),
            reply: self.request.map(|request| request.reply(&())),
        }
    }

    /// Tells the caller how the run ended.
    pub(super) fn answer(self, ended: &Result<Status, DriverError>) {
        let answer = match ended {
            // A file that could not be placed does not keep the run from ending.
            Ok(_) | Err(DriverError::Files(_)) => Ok(()),
            Err(error) => Err(CommandError::Unsaved(error.to_string())),
        };
        // It is no error if the caller is gone.
        let _ = self.reply.send(answer);
    }
}

impl DriverCommand {
    /// Returns whether the caller is gone.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Send { reply, .. } => reply.is_closed(),
            Self::Answer { reply, .. } => reply.is_closed(),
            Self::Snapshot { reply } => reply.is_closed(),
            Self::Prune { reply, .. } => reply.is_closed(),
            Self::Halt(command) => command.reply.is_closed(),
            Self::Save { reply } => reply.is_closed(),
        }
    }
}

/// What became of a message from outside. It is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendReceipt {
    /// The id that the environment assigned.
    pub id: String,
    /// The roles whose mailboxes received it.
    pub to: Vec<String>,
    /// Names in its recipients that denote nobody.
    pub dead: Vec<String>,
    /// Whether it is a repetition, by its idempotency key, and was not published again. The
    /// recipients of the first time are not listed.
    pub known: bool,
}

impl SendReceipt {
    /// Returns whether it reached nobody and named no unknown recipient. Joins and the external
    /// program do not receive messages from outside.
    pub fn is_undelivered(&self) -> bool {
        self.to.is_empty() && self.dead.is_empty() && !self.known
    }

    /// Returns the receipt for the recording of a message; `None` for other events.
    fn from_event(event: &Event, stepper: &Stepper) -> Option<Self> {
        let Event::MessageSent(MessageSent { routed, .. }) = event else {
            return None;
        };
        let name = |id: &RoleId| stepper.team().role(*id).name.clone();
        let to = routed.to.iter().map(name).collect();
        Some(Self {
            id: routed.id.0.clone(),
            to,
            dead: routed.undeliverable.clone(),
            known: false,
        })
    }
}

impl Journal {
    /// Removes all checkpoints but the newest `keep` of each lineage, and what only they needed. Nothing may be staged.
    fn prune(&mut self, keep: u32, by: Option<String>) -> Result<Pruned, String> {
        let current = self.stepper().clone();
        let mut build_state = |saved: LoadedState| {
            let mut stepper = current.with_env(saved.base);
            for record in &saved.tail {
                let applied = stepper.apply(&record.event);
                applied.map_err(|error| error.to_string())?;
            }
            Ok(stepper.into_env())
        };
        let pruned = self.store().prune(keep, &mut build_state);
        let pruned = pruned.map_err(|error| error.to_string())?;
        if let Err(error) = PruneNote::store(self.store(), by, keep, &pruned) {
            tracing::debug!("who pruned the run is not noted: {error}");
        }
        Ok(pruned)
    }

    /// Publishes a message from outside, unless it is a repetition. The next flush makes it
    /// durable.
    pub fn publish_external(&mut self, message: Message) -> Result<SendReceipt, DriverError> {
        if let Some(id) = self.find_repetition(&message) {
            return Ok(SendReceipt {
                id: id.0.clone(),
                to: Vec::new(),
                dead: Vec::new(),
                known: true,
            });
        }
        let event = self.stepper().message_sent_event(message);
        let sent = SendReceipt::from_event(&event, self.stepper());
        self.stage(event)?;
        Ok(sent.expect("what was sent is told"))
    }

    /// Publishes a message with images and files, whose bytes are `files`, from outside, unless it is
    /// a repetition. The next flush makes it durable.
    pub fn publish_external_with_files(
        &mut self,
        message: Message,
        files: Blobs,
    ) -> Result<SendReceipt, DriverError> {
        if self.find_repetition(&message).is_none() {
            self.stage_blobs(files);
        }
        self.publish_external(message)
    }
}

/// Sends commands to one run of a driver. Cheap to clone. A handle may outlive the run; its
/// commands then fail with `CommandError::Ended`.
#[derive(Clone, Debug)]
pub struct DriverHandle(mpsc::Sender<DriverCommand>);

/// Why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The run has ended before the command was carried out.
    #[error("the team does not run any more")]
    Ended,
    /// The change could not be saved, which ended the run. It may still be there when the team is
    /// resumed.
    #[error("{0}; whether it was saved all the same shows when the team is resumed")]
    Unsaved(String),
    /// The run would keep more than it may.
    #[error("{0}")]
    Refused(String),
}

impl From<CommandError> for RunReply {
    fn from(why: CommandError) -> Self {
        match why {
            CommandError::Ended => Self {
                status: ReplyStatus::Ended,
                body: CommandError::Ended.to_string(),
            },
            CommandError::Unsaved(why) => Self {
                status: ReplyStatus::Unsaved,
                body: why,
            },
            CommandError::Refused(why) => Self::refused(why),
        }
    }
}

impl DriverHandle {
    fn channel() -> (Self, mpsc::Receiver<DriverCommand>) {
        let (send, receive) = mpsc::channel(COMMAND_QUEUE);
        (Self(send), receive)
    }

    /// Publishes a message from outside, unless it is a repetition by its idempotency key, and
    /// returns where it went. It is durable when this returns. The environment assigns its id.
    pub async fn send(&self, message: Message) -> Result<SendReceipt, CommandError> {
        self.send_with_files(message, Blobs::new(), None).await
    }

    /// Publishes a message with images and files, whose bytes are `files`, as `send` does one without.
    /// `request` is the request in a database that asks for it, if there is one.
    pub async fn send_with_files(
        &self,
        message: Message,
        files: Blobs,
        request: Option<CommandRequest<SendReceipt>>,
    ) -> Result<SendReceipt, CommandError> {
        self.execute(|reply| DriverCommand::Send {
            message: Box::new(message),
            files,
            request,
            reply,
        })
        .await?
    }

    /// Records people's answers: all of them, or none. They are durable when this returns, and the
    /// roles that asked continue.
    pub async fn answer(
        &self,
        replies: Vec<HumanReply>,
    ) -> Result<Result<Vec<AnsweredRequest>, AnswerError>, CommandError> {
        self.answer_request(replies, None).await
    }

    /// Records people's answers as `answer` does. `request` is the request in a database that asks for
    /// it, if there is one.
    pub async fn answer_request(
        &self,
        replies: Vec<HumanReply>,
        request: Option<CommandRequest<Vec<AnsweredRequest>>>,
    ) -> Result<Result<Vec<AnsweredRequest>, AnswerError>, CommandError> {
        self.execute(|reply| DriverCommand::Answer {
            replies,
            request,
            reply,
        })
        .await?
    }

    /// Returns a copy of the team's definition and state, all of which is durable.
    pub async fn snapshot(&self) -> Result<Box<Stepper>, CommandError> {
        self.execute(|reply| DriverCommand::Snapshot { reply })
            .await
    }

    /// Ends the run in an orderly way, and returns when that is recorded.
    pub async fn halt(&self, halt: Halt) -> Result<(), CommandError> {
        self.halt_request(halt, None, None).await
    }

    /// Ends the run in an orderly way, and returns when that is recorded, with who said so. `request` is the request in
    /// a database that asks for it, if there is one.
    pub async fn halt_request(
        &self,
        halt: Halt,
        by: Option<String>,
        request: Option<CommandRequest<()>>,
    ) -> Result<(), CommandError> {
        self.execute(|reply| {
            DriverCommand::Halt(HaltCommand {
                halt,
                by,
                request,
                reply,
            })
        })
        .await?
    }

    /// Removes all checkpoints but the newest `keep` of each lineage, and what only they needed. If that fails, the run
    /// goes on. Notes who asks for it.
    pub async fn prune(&self, keep: u32, by: Option<String>) -> Result<Pruned, CommandError> {
        self.execute(|reply| DriverCommand::Prune { by, keep, reply })
            .await?
    }

    /// Writes `team.json` with the current state. The inner error does not affect the run.
    pub async fn save(&self) -> Result<Result<(), DriverError>, CommandError> {
        self.execute(|reply| DriverCommand::Save { reply }).await
    }

    /// Sends a command and waits for its answer.
    async fn execute<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> DriverCommand,
    ) -> Result<T, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.0
            .send(order(reply))
            .await
            .map_err(|_| CommandError::Ended)?;
        answer.await.map_err(|_| CommandError::Ended)
    }
}

/// The commands to a driver that have not been carried out.
pub(super) struct CommandQueue {
    handle: DriverHandle,
    commands: mpsc::Receiver<DriverCommand>,
}

impl CommandQueue {
    pub(super) fn new() -> Self {
        let (handle, commands) = DriverHandle::channel();
        Self { handle, commands }
    }

    /// Returns a handle that sends commands to this queue.
    pub(super) fn handle(&self) -> DriverHandle {
        self.handle.clone()
    }

    /// Waits for the next command. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<DriverCommand> {
        // The channel never closes, because this queue holds a sender.
        self.commands.recv().await
    }

    /// Returns a command that is there by now.
    pub(super) fn next_now(&mut self) -> Option<DriverCommand> {
        self.commands.try_recv().ok()
    }

    /// Carries out commands until one has changed the state, and those that are there by then. Fails if
    /// another process takes the run over. Cancel safe: a command that is being carried out blocks
    /// this thread.
    pub(super) async fn serve_until_change(
        &mut self,
        journal: &mut Journal,
        run_state: &watch::Sender<RunState>,
    ) -> Result<(), DriverError> {
        let before = journal.next_line();
        let mut status = journal.lease_status();
        let mut server = status.clone();
        while journal.next_line() == before {
            tokio::select! {
                biased;
                // Nothing runs that could be ended, so whoever wants that is told that the run has ended.
                Some(command) = self.next() => drop(wait(command.execute(journal, run_state))?),
                taken_over = status.lost() => return Err(taken_over.into()),
                () = server.reconnected() => journal.store().ensure_stored()?,
            }
        }
        while let Some(command) = self.next_now() {
            drop(wait(command.execute(journal, run_state))?);
        }
        Ok(())
    }

    /// Rejects all commands: their callers, and those who use a handle of before, get
    /// `CommandError::Ended`.
    pub(super) fn reject_all(&mut self) {
        *self = Self::new();
    }
}

impl DriverCommand {
    /// Carries out the command, unless its caller is gone: the caller assumes that it was not
    /// carried out and may have repeated it. Returns the command if it is to end the run. Fails if the run
    /// cannot continue.
    pub(super) async fn execute(
        self,
        journal: &mut Journal,
        run_state: &watch::Sender<RunState>,
    ) -> Result<Option<HaltCommand>, DriverError> {
        if self.is_abandoned() {
            return Ok(None);
        }
        // Whatever a command returns or saves must be durable.
        journal.flush().await?;
        match self {
            Self::Send {
                message,
                files,
                request,
                reply,
            } => {
                if let Err(full) = journal.stepper().check_room_for(&message) {
                    let _ = reply.send(Err(CommandError::Refused(full.message)));
                    return Ok(None);
                }
                let sent = match journal.publish_external_with_files(*message, files) {
                    Ok(sent) => {
                        if let Some(request) = request {
                            journal.stage_reply(request.reply(&sent));
                        }
                        journal.flush().await.map(|()| sent)
                    }
                    Err(error) => Err(error),
                };
                // A caller that checks the run state after this answer must see that work is in
                // progress.
                if sent.as_ref().is_ok_and(|sent| !sent.known) {
                    run_state.send_replace(RunState::Busy);
                }
                respond(reply, sent)?;
            }
            Self::Answer {
                replies,
                request,
                reply,
            } => {
                let answered = match journal.stage_replies(&replies) {
                    Ok(answered) => {
                        if let Some(request) = request {
                            journal.stage_reply(request.reply(&answered));
                        }
                        journal.flush().await.map(|()| Ok(answered))
                    }
                    Err(ReplyError::Refused(why)) => Ok(Err(why)),
                    Err(ReplyError::Driver(error)) => Err(error),
                };
                if matches!(answered, Ok(Ok(_))) {
                    run_state.send_replace(RunState::Busy);
                }
                respond(reply, answered)?;
            }
            Self::Snapshot { reply } => {
                let _ = reply.send(Box::new(journal.stepper().clone()));
            }
            Self::Save { reply } => {
                let _ = reply.send(journal.save());
            }
            Self::Prune { by, keep, reply } => {
                let pruned = journal.prune(keep, by);
                // Nothing of the run depends on it.
                let _ = reply.send(pruned.map_err(CommandError::Refused));
            }
            Self::Halt(command) => return Ok(Some(command)),
        }
        Ok(None)
    }
}

/// Sends the result of a command to its caller. An error ends the run.
fn respond<T>(
    reply: oneshot::Sender<Result<T, CommandError>>,
    result: Result<T, DriverError>,
) -> Result<(), DriverError> {
    let (answer, run) = match result {
        Ok(result) => (Ok(result), Ok(())),
        Err(error) => (Err(CommandError::Unsaved(error.to_string())), Err(error)),
    };
    // It is no error if the caller is gone.
    let _ = reply.send(answer);
    run
}

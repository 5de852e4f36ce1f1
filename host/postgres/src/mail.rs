//! Brings requests to the process that owns a run, and its replies back: as rows, which it looks at when
//! it is notified.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use strata_base::owner::{RunReply, RunRequest};
use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_records::error::StoreError;
use strata_records::mailbox::{MailReceiver, RESPONSE_TIMEOUT, no_reply};
use strata_records::{Epoch, IncomingRequest, MailId, RequestHandler, RequestOutcome};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use super::connect::background;
use super::connection::Connection;
use super::database::Database;
use super::mail_text::{decode_reply, decode_request, encode_reply, encode_request};
use super::notifications::{Subject, Subscription, notify_owner};
use super::owner::{read_owner, take_from_dead};
use super::recent::RecentChanges;
use super::run_name::find_run;
use super::session::Session;
use super::silence::Silence;

/// How soon an owner looks for requests again if it could not.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often a reply is looked for.
const REPLY_INTERVAL: Duration = Duration::from_millis(5);
/// How often it is looked at whether the owner still is one.
const OWNER_INTERVAL: Duration = Duration::from_millis(500);
/// How long `close` waits until pending requests are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers requests to the owner of a run until it is closed or dropped.
pub struct DatabaseMailbox {
    answering: AbortOnDrop<()>,
    closing: Arc<Notify>,
}

impl MailReceiver for DatabaseMailbox {
    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.closing.notify_one();
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.answering).await;
        })
    }
}

/// Starts to answer requests to the owner of a run, which is this process.
pub fn receive_requests(
    database: &Database,
    epoch: Epoch,
    handler: RequestHandler,
) -> io::Result<DatabaseMailbox> {
    let begin = || -> Result<DatabaseMailbox, StoreError> {
        let run = find_run(&database.connect()?)?;
        let (closing, notified) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let requests = Inbox {
            run,
            epoch: epoch.0 as i64,
            recent: database.recent()?,
            subscription: Subscription::begin(
                database.listener()?,
                Subject::Mail(run),
                Arc::clone(&notified),
            ),
            notified,
            handler,
        };
        let answering = requests.answer(Arc::clone(&closing));
        Ok(DatabaseMailbox {
            answering: AbortOnDrop::new(background(&database.to_path())?.spawn(answering)),
            closing,
        })
    };
    begin().map_err(io::Error::other)
}

/// The requests to the owner of a run.
struct Inbox {
    run: i64,
    /// The epoch of the owner, who takes up no more requests when there is a newer one.
    epoch: i64,
    /// Where the lease notes which requests became events.
    recent: Arc<RecentChanges>,
    subscription: Subscription,
    notified: Arc<Notify>,
    handler: RequestHandler,
}

impl Inbox {
    /// Answers them until it is told to close.
    async fn answer(self, closing: Arc<Notify>) {
        loop {
            let is_closing = tokio::select! {
                biased;
                () = closing.notified() => true,
                () = self.notified.notified() => false,
            };
            let pending = async {
                self.answer_pending(&*self.subscription.client().await)
                    .await
            };
            if let Err(error) = pending.await {
                tracing::debug!("requests of other processes are not read: {error}");
                if !is_closing {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    self.notified.notify_one();
                }
            }
            if is_closing {
                return;
            }
        }
    }

    /// Answers the requests that are there. Those that an earlier owner took up and did not answer came
    /// to nothing.
    async fn answer_pending(&self, client: &Session) -> Result<(), tokio_postgres::Error> {
        let take = "UPDATE strata.mail SET epoch = $2 WHERE id = ( \
                        SELECT m.id FROM strata.mail m JOIN strata.run r ON r.id = m.run \
                        WHERE m.run = $1 AND r.epoch = $2 AND m.reply IS NULL \
                          AND (m.epoch IS NULL OR m.epoch < $2) \
                        ORDER BY m.id LIMIT 1 FOR UPDATE OF m SKIP LOCKED \
                    ) RETURNING id, request, (extract(epoch FROM sent_at) * 1000000)::bigint";
        // What became events has its reply already.
        let reply = "UPDATE strata.mail SET reply = $4 WHERE id = $3 AND reply IS NULL \
                     AND EXISTS (SELECT FROM strata.run WHERE id = $1 AND epoch = $2)";
        let owner = [(&self.run as _, Type::INT8), (&self.epoch as _, Type::INT8)];
        while let Some(row) = client.query_typed_opt(take, &owner).await? {
            let (number, request): (i64, Vec<u8>) = (row.get(0), row.get(1));
            let id = MailId {
                number,
                sent_us: row.get(2),
            };
            if self.recent.have_answered(self.run, id) {
                // The database lost that. The lease stores the reply again, together with the events.
                continue;
            }
            let answer = match decode_request(request) {
                Some(request) => {
                    let id = Some(id);
                    (self.handler)(IncomingRequest { request, id }).await
                }
                None => RunReply::refused("the request is not understood"),
            };
            let answer = encode_reply(&answer);
            let answer = answer.as_bytes();
            let [run, epoch] = owner.clone();
            let arguments = [
                run,
                epoch,
                (&number as _, Type::INT8),
                (&answer as _, Type::BYTEA),
            ];
            client.execute_typed(reply, &arguments).await?;
        }
        Ok(())
    }
}

/// Sends a request to the owner of a run and waits for the reply.
pub fn request_owner(database: &Database, request: &RunRequest) -> RequestOutcome {
    let connection = match database.connect() {
        Ok(connection) => connection,
        Err(error) => return RequestOutcome::NotSent(error),
    };
    let run = match owned_run(&connection) {
        Ok(Some(run)) => run,
        Ok(None) => return RequestOutcome::NoOwner,
        Err(error) => return RequestOutcome::NotSent(error),
    };
    PendingRequest::send(&connection, run, request)
        .and_then(PendingRequest::wait)
        .unwrap_or_else(|error| RequestOutcome::Unknown(io::Error::other(error)))
}

/// Returns the key of the run that a connection is for, if the run has an owner that is not gone.
fn owned_run(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let run = find_run(connection)?;
    let owner = read_owner(connection, run)?.owner;
    Ok(owner.is_some_and(|owner| !owner.is_gone()).then_some(run))
}

/// A request that was sent and has no reply yet.
pub(super) struct PendingRequest<'a> {
    pub(super) connection: &'a Connection,
    pub(super) run: i64,
    pub(super) id: i64,
}

impl<'a> PendingRequest<'a> {
    pub(super) fn send(
        connection: &'a Connection,
        run: i64,
        request: &RunRequest,
    ) -> Result<Self, StoreError> {
        let sql = "INSERT INTO strata.mail (run, request) VALUES ($1, $2) RETURNING id";
        let request = encode_request(request);
        let request = request.as_bytes();
        let row = connection.query_optional(sql, &[(&run, Type::INT8), (&request, Type::BYTEA)])?;
        notify_owner(connection, run)?;
        Ok(Self {
            connection,
            run,
            id: row.map_or(0, |row| row.get(0)),
        })
    }

    /// Waits for the reply as long as some owner can give it.
    fn wait(self) -> Result<RequestOutcome, StoreError> {
        let sent = Instant::now();
        let mut last = read_owner(self.connection, self.run)?;
        let mut owner_read = sent;
        let mut silence = Silence::begin(sent);
        while sent.elapsed() < RESPONSE_TIMEOUT {
            if let Some(reply) = self.reply()? {
                self.remove()?;
                return Ok(match decode_reply(reply) {
                    Some(reply) => RequestOutcome::Replied(reply),
                    None => {
                        let what = "it answered something else";
                        RequestOutcome::Unknown(io::Error::other(what))
                    }
                });
            }
            if owner_read.elapsed() >= OWNER_INTERVAL {
                owner_read = Instant::now();
                let now = read_owner(self.connection, self.run)?;
                if now == last {
                    silence.note_still(Instant::now());
                } else {
                    silence = Silence::begin(Instant::now());
                }
                match &now.owner {
                    None if self.withdraw_from_nobody()? => return Ok(RequestOutcome::Ended),
                    // Whoever is next takes the request up.
                    Some(owner) if owner.is_gone() || silence.is_death() => {
                        take_from_dead(self.connection, self.run, &now)?;
                    }
                    _ => {}
                }
                last = now;
            }
            std::thread::sleep(REPLY_INTERVAL);
        }
        self.withdraw_unseen()?;
        Ok(RequestOutcome::Unknown(no_reply()))
    }

    /// Returns the text of the reply, if there is one.
    pub(super) fn reply(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT reply FROM strata.mail WHERE id = $1";
        let row = self.connection.repeat_if_broken(|connection| {
            connection.query_optional(sql, &[(&self.id, Type::INT8)])
        })?;
        Ok(row.and_then(|row| row.get(0)))
    }

    fn remove(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM strata.mail WHERE id = $1";
        self.connection.execute(sql, &[(&self.id, Type::INT8)])?;
        Ok(())
    }

    /// Removes the request if nobody owns the run, so that it certainly comes to nothing. Returns
    /// whether it did.
    fn withdraw_from_nobody(&self) -> Result<bool, StoreError> {
        let sql = "DELETE FROM strata.mail m USING ( \
                       SELECT id FROM strata.run WHERE id = $2 AND owner IS NULL FOR NO KEY UPDATE \
                   ) r WHERE m.id = $1 AND m.run = r.id AND m.reply IS NULL";
        let arguments = [(&self.id as _, Type::INT8), (&self.run as _, Type::INT8)];
        Ok(self.connection.execute(sql, &arguments)? == 1)
    }

    /// Removes the request unless an owner has taken it up.
    fn withdraw_unseen(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM strata.mail WHERE id = $1 AND epoch IS NULL";
        self.connection.execute(sql, &[(&self.id, Type::INT8)])?;
        Ok(())
    }
}

//! Appends the events of all runs of this process over a few connections. What the runs queue while one
//! statement is carried out goes into the next one. The statement checks for each run in passing that
//! its lease is the newest and that the event before is the one that this process knows, so that one
//! run's refusal fails no other's append. It takes a shared lock on the runs, which only a take-over
//! waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use strata_records::DEFAULT_PATIENCE;
use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::append::{AppendRequest, AppendRight, RETRY_INTERVAL, key_and_sum, push_row};
use super::append_statement::{AppendColumns, AppendKind};
use super::connect::{StatementError, background, connect, statement_error};
use super::session::Argument;
use super::session::Session;

/// How many connections append to a database.
const WRITERS: usize = 2;
/// The most runs that are appended to by one statement, and about the most bytes of events: a statement
/// that is much larger makes the others wait.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: u64 = 16 << 20;
/// How many bytes of events are kept for longer than the usual time while a server is away.
const MAX_WAITING_BYTES: u64 = 64 << 20;
/// How many appends are remembered for somebody who watches and is slow.
const MAX_APPENDS: usize = 4096;
/// How long a plan of a statement is used. One that was made for a small table may read all of it.
const PLAN_LIFETIME: Duration = Duration::from_secs(10);

/// Returns for each request whether its lease is the newest, whether its last event is stored, and whether
/// the last event is that the server had to keep.
const LOOK_UP: &str = "
    SELECT coalesce(run.epoch = wanted.epoch AND run.owner = wanted.owner, false),
           EXISTS (SELECT FROM strata.event
                   WHERE event.run = wanted.run AND event.n = wanted.n AND event.sum = wanted.sum),
           wanted.kept < 0 OR EXISTS (
                   SELECT FROM strata.event
                   WHERE event.run = wanted.run AND event.n = wanted.kept AND event.sum = wanted.kept_sum)
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
             WITH ORDINALITY AS wanted (run, epoch, n, sum, kept, kept_sum, owner, request)
         LEFT JOIN strata.run ON run.id = wanted.run
    ORDER BY wanted.request";

/// A request whose sender waits for the reply.
struct PendingAppend {
    request: AppendRequest,
    since: Instant,
    /// Counts its bytes among those that wait.
    _waiting: WaitingBytes,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Bytes of events that wait to be stored. They count until this is dropped.
struct WaitingBytes {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl WaitingBytes {
    fn count(bytes: u64, all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(bytes, Ordering::Relaxed);
        Self {
            bytes,
            all: Arc::clone(all),
        }
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppendOutcome {
    Stored,
    /// There is a newer lease.
    Fenced,
    /// The newest event is not the one that was appended last, or a file is missing, and the server had to keep
    /// that event or one before it.
    Lost,
    /// The newest event is not the one that was appended last, or a file is missing, but the server had to keep
    /// nothing of what is gone.
    RolledBack,
}

impl PendingAppend {
    fn answer(self, outcome: AppendOutcome) {
        let path = self.request.path;
        let result = match outcome {
            AppendOutcome::Stored => Ok(()),
            AppendOutcome::Fenced => Err(StoreError::Fenced { path }),
            AppendOutcome::Lost => Err(StoreError::lost(
                &path,
                "its newest events are not those that were appended last",
            )),
            AppendOutcome::RolledBack => Err(StoreError::RolledBack { path }),
        };
        // The run may have ended meanwhile.
        let _ = self.reply.send(result);
    }

    fn fail(self, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

/// The connections over which this process appends to a database.
#[derive(Debug)]
pub(super) struct Writers {
    queues: Vec<mpsc::UnboundedSender<PendingAppend>>,
    /// How many bytes of events wait to be stored.
    waiting: Arc<AtomicU64>,
    /// Tells what was appended.
    appended: broadcast::Sender<AppendedEvents>,
}

/// Events that were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppendedEvents {
    /// The key of the run.
    pub run: i64,
    /// The key of its newest event.
    pub newest: i64,
}

impl Writers {
    /// Starts those to a database. They connect when something is appended.
    pub(super) fn start(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let background = background(&url.to_path())?;
        let mut queues = Vec::new();
        let waiting = Arc::new(AtomicU64::new(0));
        let appended = broadcast::Sender::new(MAX_APPENDS);
        for _ in 0..WRITERS {
            let (queue, requests) = mpsc::unbounded_channel();
            let writer = Writer {
                waiting: Arc::clone(&waiting),
                appended: appended.clone(),
                ..Writer::new(url.clone(), requests)
            };
            background.spawn(writer.run());
            queues.push(queue);
        }
        Ok(Self {
            queues,
            waiting,
            appended,
        })
    }

    /// Tells what this process appends from now on.
    pub(super) fn watch_appends(&self) -> broadcast::Receiver<AppendedEvents> {
        self.appended.subscribe()
    }

    /// Appends events, also if the connection breaks meanwhile. The queue holds one request of a run at
    /// most, since the run waits for it. If the future is dropped, it is not known whether they were
    /// appended.
    pub(super) fn append(
        &self,
        request: AppendRequest,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let path = request.path.clone();
        let queue = request.right.run.unsigned_abs() as usize % self.queues.len();
        let pending = PendingAppend {
            _waiting: WaitingBytes::count(request.new.events.bytes(), &self.waiting),
            request,
            since: Instant::now(),
            reply,
        };
        // If the writer is gone, so is the reply.
        let _ = self.queues[queue].send(pending);
        async move {
            let ended = |_| StoreError::Unreachable {
                path,
                what: "what writes to it has ended".into(),
            };
            answer.await.map_err(ended)?
        }
    }
}

/// Carries out the requests of a queue over one connection.
struct Writer {
    url: DatabaseUrl,
    path: PathBuf,
    requests: mpsc::UnboundedReceiver<PendingAppend>,
    client: Option<Session>,
    prepared: BTreeMap<AppendKind, PreparedAppend>,
    /// How many bytes of events wait to be stored, in all queues.
    waiting: Arc<AtomicU64>,
    appended: broadcast::Sender<AppendedEvents>,
}

/// A statement that was prepared on the connection.
struct PreparedAppend {
    statement: Statement,
    since: Instant,
}

impl Writer {
    fn new(url: DatabaseUrl, requests: mpsc::UnboundedReceiver<PendingAppend>) -> Self {
        Self {
            waiting: Arc::default(),
            appended: broadcast::Sender::new(1),
            path: url.to_path(),
            url,
            requests,
            client: None,
            prepared: BTreeMap::new(),
        }
    }

    async fn run(mut self) {
        while let Some(first) = self.requests.recv().await {
            let mut bytes = first.request.new.events.bytes();
            let mut batch = vec![first];
            while batch.len() < MAX_BATCH
                && bytes < MAX_BATCH_BYTES
                && let Ok(next) = self.requests.try_recv()
            {
                bytes += next.request.new.events.bytes();
                batch.push(next);
            }
            self.append_all(batch).await;
        }
    }

    /// Carries out requests until each is answered.
    async fn append_all(&mut self, mut batch: Vec<PendingAppend>) {
        let mut may_be_stored = false;
        while !batch.is_empty() {
            let error = match self.attempt(&batch, may_be_stored).await {
                Ok(outcomes) => {
                    for (pending, outcome) in batch.into_iter().zip(outcomes) {
                        self.tell(&pending.request, outcome);
                        pending.answer(outcome);
                    }
                    return;
                }
                Err(error) => error,
            };
            if error.is_disconnected {
                if self.client.take().is_some() || !may_be_stored {
                    tracing::warn!("waiting for the database: {}", error.meaning);
                }
                self.prepared.clear();
                may_be_stored = true;
                let is_full = self.waiting.load(Ordering::Relaxed) > MAX_WAITING_BYTES;
                batch = fail_overdue(batch, is_full, &self.path, &error.meaning);
                tokio::time::sleep(RETRY_INTERVAL).await;
            } else if batch.len() > 1 {
                // One of them is to blame. The others must not suffer from it.
                for one in batch {
                    Box::pin(self.append_all(vec![one])).await;
                }
                return;
            } else if let Some(only) = batch.pop() {
                if error.is_duplicate {
                    only.answer(AppendOutcome::Lost);
                } else {
                    let needed = only.request.new.events.bytes();
                    only.fail(error.meaning.needing(needed));
                }
            }
        }
    }

    /// Tells those who watch what was stored.
    fn tell(&self, request: &AppendRequest, outcome: AppendOutcome) {
        if let (AppendOutcome::Stored, Some(last)) = (outcome, request.new.events.last()) {
            // Nobody may be watching.
            let _ = self.appended.send(AppendedEvents {
                run: request.right.run,
                newest: last.key,
            });
        }
    }

    /// Tries to carry out requests, and returns what became of each. `may_be_stored` says whether an
    /// earlier attempt may have succeeded although its answer was lost.
    async fn attempt(
        &mut self,
        batch: &[PendingAppend],
        may_be_stored: bool,
    ) -> Result<Vec<AppendOutcome>, StatementError> {
        let mut outcomes = vec![None; batch.len()];
        if may_be_stored {
            let all: Vec<&PendingAppend> = batch.iter().collect();
            for (outcome, found) in outcomes.iter_mut().zip(self.look_up(&all).await?) {
                *outcome = match found {
                    LookedUp {
                        is_newest: false, ..
                    } => Some(AppendOutcome::Fenced),
                    LookedUp {
                        is_stored: true, ..
                    } => Some(AppendOutcome::Stored),
                    LookedUp { .. } => None,
                };
            }
            if outcomes.contains(&Some(AppendOutcome::Stored)) {
                // A standby may lack what was looked up, until something after it is committed.
                self.confirm().await?;
            }
        }
        let open = |outcomes: &[Option<AppendOutcome>]| -> Vec<usize> {
            let indices = (0..batch.len()).filter(|index| outcomes[*index].is_none());
            indices.collect()
        };
        let sent = open(&outcomes);
        if !sent.is_empty() {
            let requests: Vec<&PendingAppend> = sent.iter().map(|index| &batch[*index]).collect();
            for number in self.insert(&requests).await? {
                if let Some(index) = sent.get(number.wrapping_sub(1)) {
                    outcomes[*index] = Some(AppendOutcome::Stored);
                }
            }
        }
        let refused = open(&outcomes);
        if !refused.is_empty() {
            let requests: Vec<&PendingAppend> =
                refused.iter().map(|index| &batch[*index]).collect();
            for (index, found) in refused.iter().zip(self.look_up(&requests).await?) {
                outcomes[*index] = Some(match found {
                    LookedUp {
                        is_newest: false, ..
                    } => AppendOutcome::Fenced,
                    LookedUp { keeps: true, .. } => AppendOutcome::RolledBack,
                    LookedUp { keeps: false, .. } => AppendOutcome::Lost,
                });
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    async fn client(&mut self) -> Result<&Session, StatementError> {
        if self.client.is_none() {
            let connected = connect(self.url.clone(), None).await;
            self.client = Some(connected?);
        }
        match &self.client {
            Some(client) => Ok(client),
            None => unreachable!("it was just connected"),
        }
    }

    /// Carries out a statement without preparing it.
    async fn query(
        &mut self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let path = self.path.clone();
        let rows = self.client().await?.query_typed(sql, arguments).await;
        rows.map_err(|error| statement_error(&path, "write", &error))
    }

    /// Inserts the events of requests. Returns the numbers of those that were accepted.
    async fn insert(&mut self, batch: &[&PendingAppend]) -> Result<Vec<usize>, StatementError> {
        let columns = AppendColumns::of_requests(batch.iter().map(|pending| &pending.request));
        let (kind, arguments) = (columns.kind(), columns.arguments());
        let rows = if self.url.can_prepare {
            let statement = self.prepared(kind, &arguments).await?;
            let values: Vec<&(dyn ToSql + Sync)> =
                arguments.iter().map(|(value, _)| *value).collect();
            let path = self.path.clone();
            let rows = self.client().await?.query(&statement, &values).await;
            rows.map_err(|error| statement_error(&path, "write", &error))?
        } else {
            self.query(&kind.sql(), &arguments).await?
        };
        let numbers = rows.iter().map(|row| row.get::<_, i64>(0) as usize);
        Ok(numbers.collect())
    }

    /// Returns a statement, prepared on this connection.
    async fn prepared(
        &mut self,
        kind: AppendKind,
        arguments: &[Argument<'_>],
    ) -> Result<Statement, StatementError> {
        if let Some(prepared) = self.prepared.get(&kind)
            && prepared.since.elapsed() < PLAN_LIFETIME
        {
            return Ok(prepared.statement.clone());
        }
        let types: Vec<Type> = arguments.iter().map(|(_, kind)| kind.clone()).collect();
        let path = self.path.clone();
        let prepared = self
            .client()
            .await?
            .prepare_typed(&kind.sql(), &types)
            .await;
        let statement = prepared.map_err(|error| statement_error(&path, "write", &error))?;
        let prepared = PreparedAppend {
            statement: statement.clone(),
            since: Instant::now(),
        };
        self.prepared.insert(kind, prepared);
        Ok(statement)
    }

    async fn look_up(&mut self, batch: &[&PendingAppend]) -> Result<Vec<LookedUp>, StatementError> {
        let mut columns: [Vec<i64>; 6] = Default::default();
        let mut owners: Vec<&str> = Vec::new();
        for pending in batch {
            let request = &pending.request;
            let [key, sum] = key_and_sum(request.new.events.last());
            let [kept, kept_sum] = key_and_sum(request.kept);
            let AppendRight { run, epoch, .. } = request.right;
            push_row(&mut columns, [run, epoch, key, sum, kept, kept_sum]);
            owners.push(&request.right.owner);
        }
        let numbers = columns.iter().map(|column| (column as _, Type::INT8_ARRAY));
        let mut arguments: Vec<Argument<'_>> = numbers.collect();
        arguments.push((&owners, Type::TEXT_ARRAY));
        let rows = self.query(LOOK_UP, &arguments).await?;
        let found = rows.iter().map(|row| LookedUp {
            is_newest: row.get(0),
            is_stored: row.get(1),
            keeps: row.get(2),
        });
        Ok(found.collect())
    }

    /// Commits something, and waits until it is safe.
    async fn confirm(&mut self) -> Result<(), StatementError> {
        let sql = "UPDATE strata.meta SET version = version";
        self.query(sql, &[]).await.map(drop)
    }
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
struct LookedUp {
    /// Whether its lease is the newest.
    is_newest: bool,
    /// Whether its last event is stored.
    is_stored: bool,
    /// Whether the last event is stored that the server had to keep.
    keeps: bool,
}

/// Answers the requests that have waited for too long: if too much waits (`is_full`), for the usual time. Returns the
/// others.
fn fail_overdue(
    batch: Vec<PendingAppend>,
    is_full: bool,
    path: &Path,
    error: &StoreError,
) -> Vec<PendingAppend> {
    let mut rest = Vec::new();
    for pending in batch {
        let patience = if is_full {
            pending.request.right.patience.min(DEFAULT_PATIENCE)
        } else {
            pending.request.right.patience
        };
        if pending.since.elapsed() < patience {
            rest.push(pending);
            continue;
        }
        let what = match error {
            StoreError::Unreachable { what, .. } => what.clone(),
            other => other.to_string(),
        };
        let path = path.into();
        pending.fail(StoreError::Unreachable { path, what });
    }
    rest
}

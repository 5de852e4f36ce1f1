//! A session with a server. All statements are carried out here, so that each says its isolation, and
//! what the server asks to repeat is repeated.
//!
//! Statements read what was committed before them, whatever the default of the database or of the user
//! is: each of them checks what it depends on, or locks it. So the server asks for a repetition only
//! where a pooler hands on sessions of others, and after deadlocks.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

/// A statement's argument, with its type.
pub(super) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// Begins a transaction.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Begins a transaction in which all reads see the same state.
pub(super) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Sets the isolation of statements outside of transactions, if the database has another default.
const SET_ISOLATION: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false) \
                             WHERE current_setting('default_transaction_isolation') <> 'read committed'";
/// How often something is repeated at most. Each conflict means that another process has made progress,
/// so this is more than the number of processes that change the same at once.
pub(super) const MAX_REPETITIONS: u32 = 100;

/// A session with a server.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    /// Whether a transaction is open. All of it has to be repeated then, which its owner does.
    is_in_transaction: AtomicBool,
}

impl Session {
    /// Returns a session over a connection. `is_own` says whether nobody else uses the connection, which
    /// is not so behind a pooler.
    pub(super) async fn new(client: Client, is_own: bool) -> Result<Self, Error> {
        if is_own {
            client.batch_execute(SET_ISOLATION).await?;
        }
        Ok(Self {
            client,
            is_in_transaction: AtomicBool::new(false),
        })
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Begins a transaction with these statements.
    pub(super) async fn begin(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await?;
        self.is_in_transaction.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a transaction with `COMMIT` or `ROLLBACK`.
    pub(super) async fn end(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await?;
        self.is_in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Carries out statements without arguments.
    pub(super) async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.repeat(|| self.client.batch_execute(sql)).await
    }

    /// Carries out a statement, and returns how many rows it changed.
    pub(super) async fn execute_typed(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<u64, Error> {
        self.repeat(|| self.client.execute_typed(sql, arguments))
            .await
    }

    /// Returns the rows that a statement yields.
    pub(super) async fn query_typed(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.repeat(|| self.client.query_typed(sql, arguments))
            .await
    }

    /// Returns the only row that a statement yields, or `None` if there is none.
    pub(super) async fn query_typed_opt(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Option<Row>, Error> {
        self.repeat(|| self.client.query_typed_opt(sql, arguments))
            .await
    }

    /// Prepares a statement.
    pub(super) async fn prepare_typed(
        &self,
        sql: &str,
        types: &[Type],
    ) -> Result<Statement, Error> {
        self.client.prepare_typed(sql, types).await
    }

    /// Returns the rows that a prepared statement yields.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.repeat(|| self.client.query(statement, values)).await
    }

    /// Carries out a statement, again if the server asks for it: it has changed nothing then.
    async fn repeat<T, F: Future<Output = Result<T, Error>>>(
        &self,
        statement: impl Fn() -> F,
    ) -> Result<T, Error> {
        let mut repetitions = 0;
        loop {
            match statement().await {
                Err(error)
                    if is_conflict(&error)
                        && !self.is_in_transaction.load(Ordering::Relaxed)
                        && repetitions < MAX_REPETITIONS =>
                {
                    repetitions += 1;
                    tracing::debug!("a statement is repeated: {error}");
                }
                done => return done,
            }
        }
    }
}

/// Returns whether the server asks to repeat what failed, because of what others did at the same time.
pub(super) fn is_conflict(error: &Error) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

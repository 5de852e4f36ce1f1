//! The connection over which this process learns of requests to the runs that it owns, and of runs that are
//! due: it is notified, and looks now and then in case it was not, because poolers pass no notifications on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;
use tokio::sync::{Notify, watch};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Notification};

use super::connect::{OnNotification, background, connect};
use super::connection::Connection;
use super::session::Session;

/// The channel on which owners of runs are notified of requests. The payload is the key of the run.
const MAIL_CHANNEL: &str = "strata_mail";
/// The channel on which workers are notified of runs that are due.
const WORK_CHANNEL: &str = "strata_work";
/// How often it is looked for requests without being notified, and how soon a connection is replaced.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Notifies the owner of a run of a request.
pub(super) fn notify_owner(connection: &Connection, run: i64) -> Result<(), StoreError> {
    let sql = "SELECT pg_notify($1, $2::bigint::text)";
    let arguments = [(&MAIL_CHANNEL as _, Type::TEXT), (&run as _, Type::INT8)];
    connection.query(sql, &arguments)?;
    Ok(())
}

/// Notifies workers of a run that is due.
pub(super) fn notify_workers(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.execute_all(&format!("NOTIFY {WORK_CHANNEL}"))?)
}

/// What somebody is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Runs may have become due.
    Work,
    /// There may be requests to the owner of the run with this key.
    Mail(i64),
}

/// Notifies `notify` of a subject until it is dropped.
pub(super) struct Subscription {
    number: u64,
    listener: Arc<Listener>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listener
            .subscribers
            .lock()
            .entries
            .remove(&self.number);
    }
}

impl Subscription {
    pub(super) fn begin(listener: Arc<Listener>, subject: Subject, notify: Arc<Notify>) -> Self {
        let mut subscribers = listener.subscribers.lock();
        let number = subscribers.next;
        subscribers.next += 1;
        subscribers
            .entries
            .insert(number, Subscriber { subject, notify });
        drop(subscribers);
        Self { number, listener }
    }

    /// Returns the connection that notifies, for short statements. Waits until there is one.
    pub(super) async fn client(&self) -> Arc<Session> {
        let mut client = self.listener.client.clone();
        loop {
            if let Some(client) = &*client.borrow_and_update() {
                return Arc::clone(client);
            }
            if client.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Listens for everybody in this process.
pub(super) struct Listener {
    subscribers: Subscribers,
    /// `None` while there is no connection.
    client: watch::Receiver<Option<Arc<Session>>>,
    _listening: AbortOnDrop<()>,
}

impl Listener {
    /// Starts to listen to a database.
    pub(super) fn start(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let background = background(&url.to_path())?;
        let subscribers = Subscribers::default();
        let (connected, client) = watch::channel(None);
        let listening = background.spawn(listen(url.clone(), subscribers.clone(), connected));
        Ok(Self {
            _listening: AbortOnDrop::new(listening),
            subscribers,
            client,
        })
    }
}

struct Subscriber {
    subject: Subject,
    notify: Arc<Notify>,
}

#[derive(Default)]
struct SubscriberList {
    next: u64,
    entries: BTreeMap<u64, Subscriber>,
}

#[derive(Clone, Default)]
struct Subscribers(Arc<Mutex<SubscriberList>>);

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, SubscriberList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies those of whom `concerns` says that it concerns them.
    fn notify(&self, concerns: impl Fn(Subject) -> bool) {
        for subscriber in self.lock().entries.values() {
            if concerns(subscriber.subject) {
                subscriber.notify.notify_one();
            }
        }
    }

    /// Returns the keys of the runs for whose requests somebody waits.
    fn runs(&self) -> Vec<i64> {
        let mut runs = Vec::new();
        for subscriber in self.lock().entries.values() {
            if let Subject::Mail(run) = subscriber.subject {
                runs.push(run);
            }
        }
        runs
    }

    fn on_notification(&self) -> OnNotification {
        let subscribers = self.clone();
        Arc::new(
            move |notification: &Notification| match notification.channel() {
                WORK_CHANNEL => subscribers.notify(|subject| subject == Subject::Work),
                MAIL_CHANNEL => {
                    if let Ok(run) = notification.payload().parse() {
                        subscribers.notify(|subject| subject == Subject::Mail(run));
                    }
                }
                _ => {}
            },
        )
    }
}

/// Notifies subscribers, and provides them with the connection.
async fn listen(
    url: DatabaseUrl,
    subscribers: Subscribers,
    connected: watch::Sender<Option<Arc<Session>>>,
) {
    loop {
        match connect(url.clone(), Some(subscribers.on_notification())).await {
            Ok(client) => {
                // Without notifications, what is there is found by looking for it. A pooler would keep the
                // connection that listens for others.
                if url.can_prepare {
                    let listen = format!("LISTEN {MAIL_CHANNEL}; LISTEN {WORK_CHANNEL}");
                    let _ = client.batch_execute(&listen).await;
                }
                let client = Arc::new(client);
                connected.send_replace(Some(Arc::clone(&client)));
                // Notifications may have been missed.
                subscribers.notify(|_| true);
                while let Ok(()) = look_for_requests(&client, &subscribers).await {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                connected.send_replace(None);
            }
            Err(error) => tracing::debug!("requests of other processes are not read: {error}"),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Notifies the owners of runs for which there are requests. Fails if the connection is broken.
async fn look_for_requests(client: &Session, subscribers: &Subscribers) -> Result<(), Error> {
    let runs = subscribers.runs();
    if runs.is_empty() && !client.is_closed() {
        return Ok(());
    }
    let sql = "SELECT DISTINCT run FROM strata.mail WHERE run = ANY($1) AND reply IS NULL";
    let rows = client
        .query_typed(sql, &[(&runs, Type::INT8_ARRAY)])
        .await?;
    let found: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    subscribers.notify(|subject| matches!(subject, Subject::Mail(run) if found.contains(&run)));
    Ok(())
}

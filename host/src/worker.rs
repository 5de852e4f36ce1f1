//! A worker: takes submitted runs from databases and runs them, any number of workers at a time on any
//! number of machines.
//!
//! Which runs a worker takes, and what happens to those of a dead one, is decided in `storage`; what a
//! submitted team may use, in `manifest::submission`. Here, runs are started, each on a thread of its
//! own, and given up when they end.

mod attempt;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use strata_base::clock;
use strata_core::record::event::Status;
use strata_driver::StopSignal;
use strata_manifest::Overrides;
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::submission::{SubmissionGrants, allows_secret};
use strata_services::models::StreamObserverFactory;
use strata_storage::{
    ClaimedRun, DEFAULT_TENANT, HolderMailbox, RunDatabase, RunRelease, StorageLocation,
    StoreError, WorkerProfile, WorkerRegistration, require_distinct,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

use crate::launch::carry_out_for_others;
use crate::operate::{ProcessMetrics, RefusalReason};
use attempt::RunAttempt;

/// How often a worker looks for runs and for dead workers without being notified.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often it looks for runs whose secrets no worker has, which somebody has to refuse.
const REFUSE_INTERVAL: Duration = Duration::from_secs(5);

/// How long runs may take to stop if nothing that they do can be recorded.
const STOP_TIME_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// How long the runs of a worker keep the answers that they have while their database is away, unless it is told
/// otherwise. What was paid for is stored when the database returns.
pub const WORKER_PATIENCE: Duration = Duration::from_secs(600);

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The databases from which it takes runs.
    pub databases: Vec<RunDatabase>,
    /// How many runs it runs at the same time.
    pub room: usize,
    /// How long its runs may take to end by themselves after it was told to stop.
    pub drain: Duration,
    /// How long its runs keep what they have while their database is away; see [`WORKER_PATIENCE`].
    pub patience: Duration,
    /// What it says about itself.
    pub profile: WorkerProfile,
    /// The directory in which each run has a workspace while it runs.
    pub workspaces: PathBuf,
    /// What the operator changes in teams.
    pub overrides: Overrides,
    /// What submitted teams may use.
    pub grants: SubmissionGrants,
    /// What is changed and allowed instead for the teams of some tenants.
    pub tenants: BTreeMap<String, TenantPolicy>,
    /// Observes what runs do.
    pub observer: RunObserver,
}

/// What the teams of a tenant may use.
#[derive(Clone, Debug)]
pub struct TenantPolicy {
    /// The policies that bind them.
    pub operators: Vec<OperatorPolicy>,
    /// What they may use.
    pub grants: SubmissionGrants,
}

/// Observes the runs of a worker; nobody does by default.
#[derive(Clone, Default)]
pub struct RunObserver(Option<ObserveRun>);

/// Returns what observes the calls of a run, which is told by where it is kept.
type ObserveRun = Arc<dyn Fn(&StorageLocation) -> StreamObserverFactory + Send + Sync>;

impl RunObserver {
    /// Returns one that has `observe` return what observes the calls of a run.
    pub fn new(
        observe: impl Fn(&StorageLocation) -> StreamObserverFactory + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(observe)))
    }
}

impl fmt::Debug for RunObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunObserver")
            .field(&self.0.is_some())
            .finish()
    }
}

impl WorkerSettings {
    /// Returns what is changed in the team of a run, and what it may use.
    fn terms_of(&self, run: &str) -> (Overrides, SubmissionGrants) {
        let tenant = run
            .split_once('/')
            .map_or(DEFAULT_TENANT, |(tenant, _)| tenant);
        match self.tenants.get(tenant) {
            Some(policy) => (
                Overrides {
                    operators: policy.operators.clone(),
                    ..self.overrides.clone()
                },
                policy.grants,
            ),
            None => (self.overrides.clone(), self.grants),
        }
    }
}

/// What a worker reports.
#[derive(Debug)]
pub enum WorkerReport<'a> {
    /// It has this id in a database from now on.
    Registered(&'a RunDatabase, &'a str),
    /// It takes runs from a database from now on.
    Attached(&'a RunDatabase),
    /// It took a run.
    Taken(&'a StorageLocation),
    /// A run ended or rests, with this status.
    Ended(&'a StorageLocation, Status),
    /// A run could not be run.
    Refused(&'a StorageLocation, &'a str),
    /// A run was taken over by another worker, or its storage cannot be used.
    Lost(&'a StorageLocation, &'a StoreError),
    /// Other processes were dead, so their runs are available.
    TookOver(usize),
    /// Others took this worker for dead. It goes on as a new one.
    TakenForDead(&'a RunDatabase),
    /// It takes nothing more, and waits for so many runs to end.
    Draining(usize),
    /// So many runs were deleted that had ended and are kept no longer.
    Deleted(&'a RunDatabase, u64),
    /// A database cannot be used at the moment.
    Unavailable(&'a RunDatabase, &'a StoreError),
    /// A message for the operator about a run.
    Notice(&'a StorageLocation, String),
}

/// Receives what a worker reports, on any thread.
pub type ReportWork = Arc<dyn Fn(WorkerReport<'_>) + Send + Sync>;

/// Takes runs and runs them until it is told to stop. Then it takes nothing more, lets its runs end by
/// themselves for a while, and stops the others in an orderly way, so that other workers continue them.
///
/// Waits for databases on the polling thread. Poll it on a thread of its own, within a runtime with
/// several threads.
///
/// # Errors
/// Fails if a database refuses the worker. While one cannot be reached, the worker waits for it. Fails
/// with `StoreError::Restored` if one was restored in the meantime, and with `StoreError::WriteFailed` if it is not known
/// any more what the disk has of a file: its runs are continued by the process that opens it again.
pub async fn work(
    settings: WorkerSettings,
    stop: StopSignal,
    report: ReportWork,
) -> Result<(), StoreError> {
    let metrics = Arc::new(worker_metrics(&settings));
    work_with_metrics(settings, stop, report, metrics).await
}

/// Returns the metrics of a worker with these settings.
pub fn worker_metrics(settings: &WorkerSettings) -> ProcessMetrics {
    let places = settings.databases.iter().map(RunDatabase::all_runs);
    ProcessMetrics::new(&places.collect::<Vec<_>>(), settings.room)
}

/// Takes runs and runs them as `work` does, and counts what happens in `metrics`.
///
/// # Errors
/// Fails as `work` does.
pub async fn work_with_metrics(
    settings: WorkerSettings,
    mut stop: StopSignal,
    report: ReportWork,
    metrics: Arc<ProcessMetrics>,
) -> Result<(), StoreError> {
    let notified = Arc::new(Notify::new());
    let mut worker = Worker {
        attached: Vec::new(),
        runs: JoinSet::new(),
        running: Vec::new(),
        postponed: Vec::new(),
        stop_runs: watch::Sender::new(false),
        is_draining: false,
        settings: Arc::new(settings),
        report,
        metrics,
    };
    if !worker.attach(&mut stop, &notified).await? {
        return Ok(());
    }
    let ended = worker.work_until_stopped(&mut stop, &notified).await;
    match &ended {
        // Nothing that runs do now can be recorded.
        Err(StoreError::WriteFailed { .. }) => {
            let stopped = worker.drain(Duration::ZERO);
            let _ = tokio::time::timeout(STOP_TIME_AFTER_FAILURE, stopped).await;
        }
        _ => worker.drain(worker.settings.drain).await,
    }
    for attached in &mut worker.attached {
        if let Some(mailbox) = attached.mailbox.take() {
            mailbox.close().await;
        }
    }
    ended
}

/// Returns the name of this machine.
pub fn machine_name() -> String {
    strata_base::process::machine::name()
}

struct Worker {
    /// In the order of the settings.
    attached: Vec<AttachedDatabase>,
    runs: JoinSet<EndedClaim>,
    /// The runs that have threads.
    running: Vec<StorageLocation>,
    /// Runs that were taken again before their threads of before have ended: others took this worker for dead, or the
    /// database went back to an earlier state. Both threads would use the same workspace.
    postponed: Vec<Claim>,
    stop_runs: watch::Sender<bool>,
    /// Whether an operator told it in a database to take no more runs and to end.
    is_draining: bool,
    settings: Arc<WorkerSettings>,
    report: ReportWork,
    metrics: Arc<ProcessMetrics>,
}

struct AttachedDatabase {
    registration: WorkerRegistration,
    /// Answers other processes that cannot open a file meanwhile.
    mailbox: Option<HolderMailbox>,
    /// Whether it could be used the last time.
    is_available: bool,
    /// When it last looked for runs to refuse.
    last_refusal: Option<Instant>,
}

/// A run that was taken.
struct Claim {
    /// The number of its database.
    database: usize,
    run: ClaimedRun,
    location: StorageLocation,
}

/// A run that has ended, and how it is to be given up. `None` if its thread panicked.
struct EndedClaim {
    claim: Claim,
    release: Option<RunRelease>,
}

impl Worker {
    /// Registers this process in all databases, and waits for those that cannot be reached. Returns whether it was not
    /// told to stop meanwhile.
    async fn attach(
        &mut self,
        stop: &mut StopSignal,
        notified: &Arc<Notify>,
    ) -> Result<bool, StoreError> {
        for (n, database) in self.settings.databases.iter().enumerate() {
            let mut is_reported = false;
            let registration = loop {
                match database.register(&self.settings.profile, notified) {
                    Err(error @ StoreError::Unreachable { .. }) => {
                        if !std::mem::replace(&mut is_reported, true) {
                            (self.report)(WorkerReport::Unavailable(database, &error));
                        }
                    }
                    registered => break registered?,
                }
                tokio::select! {
                    Ok(_) = stop.wait_for(|stop| *stop) => return Ok(false),
                    () = tokio::time::sleep(LOOK_INTERVAL) => {}
                }
            };
            self.metrics.set_registration(n, registration.health());
            (self.report)(WorkerReport::Registered(database, registration.id()));
            (self.report)(WorkerReport::Attached(database));
            let mailbox = match registration.receive_requests(Arc::new(carry_out_for_others)) {
                Ok(mailbox) => mailbox,
                Err(error) => {
                    tracing::warn!(
                        "other processes cannot change the runs of `{database}` meanwhile: {error}"
                    );
                    None
                }
            };
            self.attached.push(AttachedDatabase {
                registration,
                mailbox,
                is_available: true,
                last_refusal: None,
            });
        }
        let attached = self.attached.iter();
        let settings = attached.map(|attached| attached.registration.settings().clone());
        let named: Vec<_> = self.settings.databases.iter().zip(settings).collect();
        require_distinct(&named)?;
        Ok(true)
    }

    /// Takes runs and runs them. Fails if a database was restored in the meantime, or cannot be written any more.
    async fn work_until_stopped(
        &mut self,
        stop: &mut StopSignal,
        notified: &Arc<Notify>,
    ) -> Result<(), StoreError> {
        loop {
            for n in 0..self.attached.len() {
                self.look(n, notified)?;
            }
            if self.is_draining {
                return Ok(());
            }
            tokio::select! {
                biased;
                Ok(_) = stop.wait_for(|stop| *stop) => return Ok(()),
                Some(Ok(ended)) = self.runs.join_next() => self.give_up(ended),
                () = notified.notified() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// Waits until all runs have ended, and stops those that have not after a time.
    async fn drain(&mut self, time: Duration) {
        for attached in &mut self.attached {
            // If it is not told, it waits for this worker until the end of this process.
            let _ = attached.registration.stop_claiming();
        }
        self.metrics.set_draining();
        if !time.is_zero() && !self.runs.is_empty() {
            (self.report)(WorkerReport::Draining(self.runs.len()));
        }
        let time_over = tokio::time::sleep(time);
        tokio::pin!(time_over);
        let mut is_stopped = false;
        loop {
            tokio::select! {
                ended = self.runs.join_next() => match ended {
                    Some(Ok(ended)) => self.give_up(ended),
                    Some(Err(_)) => {}
                    None => return,
                },
                () = &mut time_over, if !is_stopped => {
                    self.stop_runs.send_replace(true);
                    is_stopped = true;
                }
            }
        }
    }

    /// Looks for runs in a database and starts them.
    fn look(&mut self, n: usize, notified: &Arc<Notify>) -> Result<(), StoreError> {
        match self.take(n, notified) {
            Ok(runs) => {
                self.attached[n].is_available = true;
                for run in runs {
                    let location = self.settings.databases[n].location(&run.name);
                    self.metrics.add_claim();
                    (self.report)(WorkerReport::Taken(&location));
                    self.start(Claim {
                        database: n,
                        run,
                        location,
                    });
                }
            }
            Err(error @ (StoreError::Restored { .. } | StoreError::WriteFailed { .. })) => {
                return Err(error);
            }
            Err(error) if self.attached[n].is_available => {
                let database = &self.settings.databases[n];
                (self.report)(WorkerReport::Unavailable(database, &error));
                self.attached[n].is_available = false;
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn take(&mut self, n: usize, notified: &Arc<Notify>) -> Result<Vec<ClaimedRun>, StoreError> {
        let database = &self.settings.databases[n];
        let attached = &mut self.attached[n];
        if attached.registration.is_lost() {
            // The runs of before are refused at their next change.
            let before = attached.registration.settings().incarnation.clone();
            attached.registration = database.register(&self.settings.profile, notified)?;
            if attached.registration.settings().incarnation != before {
                return Err(StoreError::Restored {
                    path: database.to_string().into(),
                });
            }
            self.metrics
                .set_registration(n, attached.registration.health());
            let id = attached.registration.id();
            (self.report)(WorkerReport::Registered(database, id));
            (self.report)(WorkerReport::TakenForDead(database));
        }
        let tended = attached.registration.tend()?;
        if tended.is_draining {
            self.is_draining = true;
            return Ok(Vec::new());
        }
        // Nothing depends on what old runs leave behind.
        match attached.registration.sweep() {
            Ok(0) => {}
            Ok(deleted) => {
                self.metrics.add_deleted(deleted);
                (self.report)(WorkerReport::Deleted(database, deleted));
            }
            Err(error) => tracing::debug!("old runs are not deleted: {error}"),
        }
        if tended.dead > 0 {
            self.metrics.add_takeovers(tended.dead);
            (self.report)(WorkerReport::TookOver(tended.dead));
        }
        match self
            .settings
            .room
            .saturating_sub(self.runs.len() + self.postponed.len())
        {
            0 => Ok(Vec::new()),
            _ if !tended.may_claim => Ok(Vec::new()),
            room => {
                let mut claimed = attached.registration.claim(room)?;
                let operators = &self.settings.overrides.operators;
                let is_forbidden =
                    |name: &str| !allows_secret(operators, self.settings.grants, name);
                // Those that were claimed are run, even if the database cannot be used just now.
                let left = room.saturating_sub(claimed.len());
                let is_early = |last: Instant| last.elapsed() < REFUSE_INTERVAL;
                if left > 0 && !attached.last_refusal.is_some_and(is_early) {
                    attached.last_refusal = Some(clock::stopwatch());
                    let refused = attached.registration.claim_forbidden(left, &is_forbidden);
                    claimed.extend(refused.unwrap_or_default());
                }
                // Several databases share the caps of the first one.
                let caps = &self.attached[0].registration;
                let with_caps = claimed.into_iter().map(|run| run.with_caps(caps.caps()));
                Ok(with_caps.collect())
            }
        }
    }

    /// Starts a run on a thread of its own, once the one of before has ended.
    fn start(&mut self, claim: Claim) {
        if self.running.contains(&claim.location) {
            self.postponed.push(claim);
            return;
        }
        self.running.push(claim.location.clone());
        self.metrics.set_runs(self.running.len());
        let (tell, told) = oneshot::channel();
        let attempt = RunAttempt {
            settings: Arc::clone(&self.settings),
            database: claim.database,
            run: claim.run.clone(),
            worker: self.attached[claim.database].registration.id().to_owned(),
            location: claim.location.clone(),
            report: Arc::clone(&self.report),
            metrics: Arc::clone(&self.metrics),
            stop: self.stop_runs.subscribe(),
            runtime: Handle::current(),
        };
        // If there is no thread for it, `tell` is dropped.
        let _ = thread::Builder::new()
            .name("strata team".into())
            .spawn(move || tell.send(attempt.run_to_end()));
        self.runs.spawn(async move {
            EndedClaim {
                release: told.await.ok(),
                claim,
            }
        });
    }

    /// Gives up a run that has ended.
    fn give_up(&mut self, ended: EndedClaim) {
        let EndedClaim { claim, release } = ended;
        let release = release.unwrap_or_else(|| {
            let problem = "the thread of the run could not be started, or ended unexpectedly";
            self.metrics.add_refusal(RefusalReason::Machine);
            (self.report)(WorkerReport::Refused(&claim.location, problem));
            RunRelease::refused(problem.into())
        });
        let registration = &mut self.attached[claim.database].registration;
        if let Err(error) = registration.release(&claim.run, &release) {
            // It is available once the database can be used again.
            (self.report)(WorkerReport::Lost(&claim.location, &error));
        }
        self.running.retain(|running| *running != claim.location);
        self.metrics.set_runs(self.running.len());
        let again = |next: &Claim| next.location == claim.location;
        if let Some(next) = self.postponed.iter().position(again) {
            let next = self.postponed.swap_remove(next);
            self.start(next);
        }
    }
}

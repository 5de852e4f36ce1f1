//! What all requests share: the runs, the tokens, what is under way, and who listens.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::id::Digest;
use strata_host::manifest::operator::OperatorPolicy;
use strata_host::manifest::submission::SubmissionGrants;
use strata_host::operate::ProcessMetrics;
use strata_host::storage::{ServedRun, ServerRecords, StoreError};
use strata_host::worker::TenantPolicy;
use tokio::sync::watch;

use crate::databases::Databases;
use crate::kept_answers::KeptAnswers;
use crate::problem::Problem;
use crate::readiness::Readiness;
use crate::request_times::RequestTimes;
use crate::run_origin::{RunOrigin, RunOrigins};
use crate::run_turns::RunTurns;
use crate::run_view::{RunView, ViewCache};
use crate::streams::hub::ChangeHub;
use crate::streams::model_text::ModelTexts;
use crate::streams::run_feed::RunFeeds;
use crate::tokens::TokenRegistry;
use crate::usage::Usage;

/// Whether a server takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// It does.
    Serving,
    /// It is about to end: it takes no new streams, and says that it is not ready.
    Draining,
}

/// What all requests share.
pub struct Server {
    /// Where the runs are.
    pub databases: Databases,
    /// What the server remembers: the records of the first database.
    pub records: Arc<dyn ServerRecords>,
    /// Recognises tokens.
    pub tokens: TokenRegistry,
    /// What is under way.
    pub usage: Arc<Usage>,
    /// Answers that are given again as long as nothing changes.
    pub answers: KeptAnswers,
    /// What is shown of runs, as long as they do not change.
    pub views: ViewCache,
    /// What runs were started with.
    pub origins: RunOrigins,
    /// When open requests were made.
    pub request_times: RequestTimes,
    /// Tells which runs change.
    pub changes: ChangeHub,
    /// Requests that change the same run.
    pub turns: RunTurns,
    /// The events of runs that somebody reads.
    pub feeds: RunFeeds,
    /// What models are writing.
    pub texts: Arc<ModelTexts>,
    /// What it does and what its runs do, counted.
    pub metrics: Arc<ProcessMetrics>,
    /// Whether anything can be recorded.
    pub readiness: Readiness,
    /// Whether it takes requests.
    pub phase: watch::Sender<ServerPhase>,
    /// What submitted teams may use.
    pub policy: TenantPolicy,
    /// What those of some tenants may use instead.
    pub tenants: BTreeMap<String, TenantPolicy>,
}

impl Server {
    /// Returns what the teams of a tenant may use.
    pub fn policy_of(&self, tenant: &str) -> (&[OperatorPolicy], SubmissionGrants) {
        let policy = self.tenants.get(tenant).unwrap_or(&self.policy);
        (&policy.operators, policy.grants)
    }

    /// Carries out work that waits for the storage, on a thread that may wait.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let server = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&server)).await;
        done.unwrap_or_else(|_| Err(Problem::internal("the request could not be carried out")))
    }

    /// Carries out work that changes a run, after that of the requests that came before.
    pub async fn changing<T: Send + 'static>(
        self: &Arc<Self>,
        run: &ServedRun,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = self.turns.take(&run.id).await?;
        self.blocking(move |server| {
            // Also if nobody waits for the answer any more.
            let _turn = turn;
            work(server)
        })
        .await
    }

    /// Whether a token still counts. If that is not known, it does.
    pub async fn is_token_valid(self: &Arc<Self>, token: String) -> bool {
        let known = self.blocking(move |server| {
            Ok(server.tokens.recognise(&token, server.records.as_ref())?)
        });
        !matches!(known.await, Ok(None))
    }

    /// Returns what is shown of a run.
    pub fn view(&self, run: &ServedRun) -> Result<RunView, Problem> {
        self.views.view(run, self.origin_of(run)?)
    }

    /// Returns what a run was started with.
    pub fn origin_of(&self, run: &ServedRun) -> Result<RunOrigin, Problem> {
        let records = self.databases.records_of(run);
        Ok(self.origins.of_run(&run.id, records.as_ref())?)
    }

    /// Returns the run as it is now; `None` if it was deleted.
    pub fn reload(&self, run: &ServedRun) -> Result<Option<ServedRun>, Problem> {
        Ok(self.databases.find_by_id(&run.id)?)
    }

    /// Returns a file that was uploaded or submitted, whichever database has it.
    pub fn read_file(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let read = |records: &dyn ServerRecords| records.read_file(digest);
        self.databases.find_in_records(read)
    }
}

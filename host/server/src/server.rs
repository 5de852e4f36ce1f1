//! What all requests share: the runs, the tokens, what is under way, and who listens.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_host::manifest::operator::OperatorPolicy;
use strata_host::manifest::submission::SubmissionGrants;
use strata_host::storage::{RunDatabase, ServedRun, ServerRecords};
use strata_host::worker::TenantPolicy;
use tokio::sync::watch;

use crate::idempotency::KeysUnderWay;
use crate::origin::ServerNames;
use crate::problem::Problem;
use crate::run_view::ViewCache;
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
    pub database: RunDatabase,
    /// What the server remembers.
    pub records: Box<dyn ServerRecords>,
    /// The names by which it is reached.
    pub names: ServerNames,
    /// Recognises tokens.
    pub tokens: TokenRegistry,
    /// What is under way.
    pub usage: Arc<Usage>,
    /// The keys of requests that are under way.
    pub keys: Arc<KeysUnderWay>,
    /// What is shown of runs, as long as they do not change.
    pub views: ViewCache,
    /// Tells which runs change.
    pub changes: ChangeHub,
    /// The events of runs that somebody reads.
    pub feeds: RunFeeds,
    /// What models are writing.
    pub texts: Arc<ModelTexts>,
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

    /// Returns the run as it is now; `None` if it was deleted.
    pub fn reload(&self, run: &ServedRun) -> Result<Option<ServedRun>, Problem> {
        Ok(self.database.find_served_by_id(&run.id)?)
    }
}

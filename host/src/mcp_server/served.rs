//! The teams of a server as tools: which there are depends on who asks.

use std::sync::Arc;

use strata_base::text::excerpt::excerpt;

use super::place::RunPlace;

/// The maximum number of characters of a problem that a client is told.
const PROBLEM_CHARS: usize = 400;

/// What a list of tools says about a team that a server offers to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamDescription {
    /// Its name.
    pub name: String,
    /// What it says about itself.
    pub desc: String,
}

/// A team of a server that a client calls.
#[derive(Clone, Debug)]
pub struct ServedTeam {
    /// Its name.
    pub name: String,
    /// Its runs, as the client sees them.
    pub runs: Arc<dyn RunPlace>,
}

/// Who makes a request to a server, as far as tools are concerned. It is found in the extensions of the request.
#[derive(Clone)]
pub struct ServedClient(pub Arc<dyn ClientTeams>);

/// The teams of a client.
pub trait ClientTeams: Send + Sync + 'static {
    /// Returns what is listed of the teams that it may call. If several have the same name as a tool, the first
    /// counts. Blocks.
    ///
    /// # Errors
    /// Fails with the reason if they cannot be read.
    fn descriptions(&self) -> Result<Vec<TeamDescription>, String>;

    /// Returns the team that is listed as this tool, if there is one. Nothing is read of other teams. Blocks.
    ///
    /// # Errors
    /// Fails with the reason if it cannot be read.
    fn find(&self, tool: &str) -> Result<Option<ServedTeam>, String>;

    /// Returns whether it may answer what teams ask people.
    fn may_answer(&self) -> bool;
}

impl ServedClient {
    /// Returns what is listed of the teams, from a thread that may wait.
    pub(super) async fn descriptions(&self) -> Result<Vec<TeamDescription>, String> {
        self.read(|client| client.descriptions()).await
    }

    /// Returns the team that is this tool, from a thread that may wait.
    pub(super) async fn find(&self, tool: &str) -> Result<Option<ServedTeam>, String> {
        let tool = tool.to_owned();
        self.read(move |client| client.find(&tool)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn ClientTeams) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let client = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || read(client.as_ref())).await;
        read.unwrap_or_else(|_| Err("the teams could not be read".into()))
            .map_err(|why| excerpt(&why, PROBLEM_CHARS))
    }
}

//! The teams of a server as tools: which there are depends on who asks.

use std::sync::Arc;

use strata_base::text::excerpt::excerpt;

use super::place::RunPlace;

/// A team that a server offers to a client.
#[derive(Clone, Debug)]
pub struct ServedTeam {
    /// Its name.
    pub name: String,
    /// What it says about itself.
    pub desc: String,
    /// Its runs, as the client sees them.
    pub runs: Arc<dyn RunPlace>,
}

/// Who makes a request to a server, as far as tools are concerned. It is found in the extensions of the request.
#[derive(Clone)]
pub struct ServedClient(pub Arc<dyn ClientTeams>);

/// The teams of a client.
pub trait ClientTeams: Send + Sync + 'static {
    /// Returns the teams that it may call. If several have the same name as a tool, the first counts. Blocks.
    ///
    /// # Errors
    /// Fails with the reason if they cannot be read.
    fn teams(&self) -> Result<Vec<ServedTeam>, String>;

    /// Returns whether it may answer what teams ask people.
    fn may_answer(&self) -> bool;
}

impl ServedClient {
    /// Returns the teams, from a thread that may wait.
    pub(super) async fn teams(&self) -> Result<Vec<ServedTeam>, String> {
        let client = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || client.teams()).await;
        read.unwrap_or_else(|_| Err("the teams could not be read".into()))
            .map_err(|why| excerpt(&why, 400))
    }
}

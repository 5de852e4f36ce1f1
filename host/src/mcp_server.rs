//! An MCP server: offers a team, the teams of a server, or components, as tools to clients of the Model Context
//! Protocol.
//!
//! What is offered ([`Offer`]) knows nothing of how clients are connected: `connection` serves one
//! client over a pair of streams, `http` any number of them over HTTP, and both tell who a client is
//! ([`Principal`]). Nor does it know where runs are kept: they are carried out by this process
//! (`local_runs`, on threads of `open_runs`), or by the workers of a server ([`RunPlace`], [`ClientTeams`]).
//! The protocol itself, in all its revisions, is that of the library `rmcp`, which is used by no other module of
//! this crate; its types are part of no public function.
//!
//! Within the protocol's limits, what a client sends decides nothing but the arguments of calls: a
//! client cannot choose a team file, a component, a directory, or an answer to a question that is
//! put to people.

mod arguments;
mod call_limit;
mod call_store;
mod client_call;
mod component_tool;
mod connection;
mod handler;
mod http;
mod idempotency;
mod local_runs;
mod open_runs;
mod place;
mod question;
mod request_state;
mod result;
mod runs;
mod served;
mod sessions;
mod team_tool;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::Tool;
use strata_driver::telemetry::TelemetryExport;
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::{Definition, Overrides};
use tokio_util::sync::CancellationToken;

use crate::launch::{LaunchError, Notice};

pub use arguments::RunName;
pub use call_store::CallStore;
pub use client_call::tool_name;
pub use connection::serve_streams;
pub use http::{HttpAccess, HttpServer, HttpService, MissingToken, serve_http};
pub use place::{Activity, Launch, RunAttempt, RunPlace, RunResult};
pub use served::{ClientTeams, ServedClient, ServedTeam, TeamDescription};

use call_store::CallFiles;
use component_tool::ComponentTool;
use local_runs::LocalRuns;
use runs::{ActiveRuns, TeamRuns};
use team_tool::{CallRecords, TeamTool, describe};

/// Who made a request. Runs, idempotency keys and states of one principal are unknown to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(String);

impl Principal {
    /// Returns the user who started this process and talks to it directly.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Returns whoever has the token with this name.
    pub fn of_token(name: &str) -> Self {
        Self(format!("token {name}"))
    }
}

/// Receives what the server reports about its preparations, on any thread.
pub type ReportNotice = Arc<dyn Fn(Notice<'_>) + Send + Sync>;

/// A team that is offered as a tool.
#[derive(Clone, Debug)]
pub struct OfferedTeam {
    /// The team file. It is read again for each run.
    pub team: PathBuf,
    /// The directory in which each run has its own storage directory.
    pub storage: PathBuf,
    /// What the operator changes in the team.
    pub overrides: Overrides,
    /// The policy that was named, for the commands in messages.
    pub policy: Option<PathBuf>,
    /// The export to which what the team says about telemetry is applied.
    pub telemetry: TelemetryExport,
}

/// What the server offers: its tools.
#[derive(Clone)]
pub struct Offer {
    tools: Arc<Tools>,
    /// The runs that calls wait for.
    runs: Arc<ActiveRuns>,
    /// Cancelled when the server ends. Every call that is carried out ends then.
    closing: CancellationToken,
}

enum Tools {
    /// A team, and what is listed of it.
    Team(Box<TeamTool>, Box<Tool>),
    Components(Vec<ComponentTool>),
    /// Those of a server. Which teams they are, each request says.
    Served(Arc<CallRecords>),
}

impl Offer {
    /// Offers a team as a tool that is named like the team.
    ///
    /// # Errors
    /// Fails if the team file is not valid, or if the directory for its runs cannot be used.
    pub fn team(offered: OfferedTeam, report: ReportNotice) -> Result<Self, LaunchError> {
        let mut definition = Definition::read(&offered.team)?;
        definition.apply_overrides(&offered.overrides)?;
        definition.check_ready()?;
        let place = offered.storage.clone();
        let local = LocalRuns::open(offered, report)?;
        let records = CallFiles::open(&place).and_then(|files| CallRecords::open(Arc::new(files)));
        let records = records.map_err(|error| {
            let place = place.display();
            LaunchError::InvalidInput(format!("the directory of the runs, `{place}`: {error}"))
        })?;
        Ok(Self::new(|active| {
            let runs = TeamRuns::new(Arc::clone(active), Arc::new(local));
            let team = &definition.team;
            let tool = TeamTool::new(&team.name, runs, Arc::new(records));
            Tools::Team(Box::new(tool), Box::new(describe(&team.name, &team.desc)))
        }))
    }

    /// Offers the teams of a server. Each request has to have the [`ServedClient`] who makes it in its extensions,
    /// and its [`Principal`].
    ///
    /// # Errors
    /// Fails if the store cannot be used.
    pub fn served(store: Arc<dyn CallStore>) -> io::Result<Self> {
        let records = Arc::new(CallRecords::open(store)?);
        Ok(Self::new(|_| Tools::Served(records)))
    }

    /// Offers components and actions as tools. Each is named like its file, without `.wasm`. Nothing
    /// is granted to them.
    ///
    /// # Errors
    /// Fails if a component cannot be loaded, or if two of them have the same name.
    pub fn components(
        components: &[String],
        operators: &[OperatorPolicy],
        report: &ReportNotice,
    ) -> Result<Self, LaunchError> {
        let tools = component_tool::load(components, operators, report)?;
        Ok(Self::new(|_| Tools::Components(tools)))
    }

    fn new(tools: impl FnOnce(&Arc<ActiveRuns>) -> Tools) -> Self {
        let closing = CancellationToken::new();
        let runs = Arc::new(ActiveRuns::new(closing.clone()));
        Self {
            tools: Arc::new(tools(&runs)),
            runs,
            closing,
        }
    }

    /// Ends all calls: runs are interrupted and saved. Returns when they have ended.
    pub async fn close(&self) {
        self.closing.cancel();
        let close_team = async {
            if let Tools::Team(team, _) = self.tools.as_ref() {
                team.close().await;
            }
        };
        tokio::join!(self.runs.ended(), close_team);
    }
}

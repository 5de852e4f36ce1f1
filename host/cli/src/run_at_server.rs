//! A run at a server, as commands that work through the server show it: where it is in its life, and how commands
//! name it. The requests to the server are in `remote`.

use serde_json::Value;
use strata_core::record::event::{CapReached, Status};
use strata_core::record::id::CheckpointId;
use strata_core::record::money::Usd;
use strata_host::clock::parse_rfc3339;
use strata_host::operate::FoundRun;
use strata_host::storage::{
    LifecycleState, QueuedRun, RunListing, RunOverview, StateSelector, StorageLocation,
};
use strata_host::view::{
    CommandArgument, Continuation, HolderState, RunRow, RunSummary, SuggestedCommand,
};

use super::missing_worker::describe_missing_at_server;

/// A run at a server, of which a copy of a state is shown.
pub(super) struct RunAtServer<'a> {
    /// The name or the id by which the server knows it.
    pub(super) name: &'a str,
    /// The address of the server.
    pub(super) server: &'a str,
    /// Which of its states is shown.
    pub(super) at: StateSelector,
    /// Where it is in its life.
    pub(super) row: RunRow,
    /// The cap above it that is used up. The document of a state does not have it.
    pub(super) cap_reached: Option<CapReached>,
    /// What is missing for a worker to take it.
    pub(super) missing: Option<String>,
}

impl<'a> RunAtServer<'a> {
    /// Creates it from the document in which the server describes it. `at` is the checkpoint or the lineage that is
    /// shown, and `None` the newest state.
    pub(super) fn new(
        name: &'a str,
        at: Option<&str>,
        server: &'a str,
        document: &Value,
    ) -> Option<Self> {
        let at = match at {
            Some(id) => StateSelector::Checkpoint(CheckpointId(id.into())),
            None => StateSelector::Head,
        };
        Some(Self {
            name,
            server,
            at,
            row: row_of(document, name)?,
            cap_reached: cap_reached(document),
            missing: describe_missing_at_server(document),
        })
    }

    /// Returns who works on the state of which a copy with this status is shown.
    pub(super) fn holder(&self, status: Status) -> HolderState {
        if self.at != StateSelector::Head {
            return HolderState::Unknown;
        }
        match (self.row.state == LifecycleState::Running.name(), status) {
            (true, _) => HolderState::HeldBy(None),
            // It waits for a worker, or one has just left it: a server does not leave a run that is cut off.
            (false, Status::Running) => HolderState::Unknown,
            (false, _) => HolderState::Free,
        }
    }

    /// Names the run in a summary, and in its commands, as the server does.
    pub(super) fn adapt_summary(&self, summary: &mut RunSummary) {
        if let Some(id) = &self.row.id {
            summary.run.clone_from(id);
        }
        summary
            .resume_commands
            .retain(|command| !changes_files(command));
        let commands = [&mut summary.message_command].into_iter();
        let commands = commands.chain(summary.fault_command.iter_mut());
        let commands = commands.chain(summary.requests.answer_command.iter_mut());
        for command in commands.chain(summary.resume_commands.iter_mut()) {
            add_server(command, self.server);
        }
    }
}

/// Returns the cap above a run that is used up, from the document in which a server describes the run.
pub(super) fn cap_reached(document: &Value) -> Option<CapReached> {
    let reached = &document["cap_reached"];
    Some(CapReached {
        scope: reached["scope"].as_str()?.to_owned(),
        cap: Usd::from_dollars(reached["cap"].as_f64()?),
    })
}

/// Returns who continues a run with this status that is kept at a server.
pub(super) fn continuation_at_server(status: Status) -> Continuation {
    match status {
        Status::Waiting | Status::Running | Status::Interrupted => Continuation::Itself,
        _ => Continuation::Workers,
    }
}

/// Lets a command work through a server.
pub(super) fn add_server(command: &mut SuggestedCommand, server: &str) {
    let option = ["--server", server].map(CommandArgument::word);
    command.arguments.extend(option);
}

/// Whether a command changes the files of a run, which a server does not do.
pub(super) fn changes_files(command: &SuggestedCommand) -> bool {
    command.arguments.iter().any(|argument| {
        matches!(
            argument,
            CommandArgument::TeamFile(_) | CommandArgument::Assignment { .. }
        )
    })
}

/// Returns the row of a run from the document in which a server describes it, and from what commands call it. A server
/// tells neither which of its workers owns a run nor the scope of its cap.
pub(super) fn row_of(document: &Value, place: &str) -> Option<RunRow> {
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    let number = |name: &str| document[name].as_u64();
    let money = |name: &str| document[name].as_f64().map(Usd::from_dollars);
    let queued = LifecycleState::Queued.name();
    let status = match document["status"].as_str() {
        Some(status) if status == queued => Some(queued),
        Some(status) => Status::from_name(status).map(Status::name),
        None => None,
    };
    let labels = document["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let needs = document["needs"].as_array().into_iter().flatten();
    let needs = needs.filter_map(|label| label.as_str().map(str::to_owned));
    Some(RunRow {
        name: text("name")?,
        id: text("id"),
        team: text("team").filter(|team| !team.is_empty()),
        state: LifecycleState::from_name(document["state"].as_str()?)?.name(),
        status,
        step: number("step"),
        spent: money("spent"),
        budget: money("budget"),
        requests: number("requests"),
        faults: number("faults"),
        owner: None,
        scope: None,
        labels: labels.collect(),
        needs: needs.collect(),
        problem: text("problem"),
        created: text("created"),
        changed: text("updated"),
        ended: text("ended"),
        place: place.into(),
    })
}

/// Returns what is listed of a run, as it would be listed in a database, from the document in which a server describes it
/// and from what commands call it.
pub(super) fn found_run(document: &Value, place: &str) -> Option<FoundRun> {
    let row = row_of(document, place)?;
    let is_queued = row.status == Some(LifecycleState::Queued.name());
    let status = match row.status {
        Some(_) if is_queued => Some(Status::Running),
        status => status.and_then(Status::from_name),
    };
    let overview = status.map(|status| RunOverview {
        // One that has not begun has none.
        run: row.id.clone().filter(|_| !is_queued).unwrap_or_default(),
        team: row.team.clone().unwrap_or_default(),
        status,
        step: row.step.unwrap_or_default(),
        spent: row.spent.unwrap_or_default(),
        budget: row.budget,
        requests: row.requests.unwrap_or_default(),
        faults: row.faults.unwrap_or_default(),
    });
    let time = |text: &Option<String>| text.as_deref().and_then(parse_rfc3339);
    let listing = RunListing {
        location: StorageLocation::new(&row.place),
        overview,
        state: LifecycleState::from_name(row.state)?,
        owner: None,
        created_ms: time(&row.created),
        changed_ms: time(&row.changed),
        ended_ms: time(&row.ended),
        queued: Some(QueuedRun {
            scope: row.scope,
            tags: row.labels,
            needs: row.needs,
            problem: row.problem,
        }),
        name: place.into(),
    };
    Some(FoundRun {
        listing,
        damage: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served(state: &str, at: Option<&str>) -> RunAtServer<'static> {
        let document = json!({ "name": "one", "state": state, "status": "running" });
        // The name is a literal, so the row outlives the document.
        RunAtServer::new("one", at, "http://server", &document).unwrap()
    }

    #[test]
    fn a_run_at_a_server_is_never_taken_for_cut_off() {
        let cases = [
            ("running", None, Status::Running, HolderState::HeldBy(None)),
            ("queued", None, Status::Running, HolderState::Unknown),
            ("resting", None, Status::Running, HolderState::Unknown),
            ("ended", None, Status::Failed, HolderState::Free),
            (
                "running",
                Some("main-0"),
                Status::Running,
                HolderState::Unknown,
            ),
        ];
        for (state, at, status, expected) in cases {
            assert_eq!(served(state, at).holder(status), expected, "{state} {at:?}");
        }
    }

    #[test]
    fn a_row_has_what_a_server_tells_of_a_run() {
        let document = json!({
            "name": "one", "id": "abc", "team": "apples", "state": "ended", "status": "out-of-budget", "step": 3,
            "spent": 0.5, "budget": 2.0, "requests": 1, "faults": 2, "labels": { "a": "b" }, "needs": ["gpu"], "problem": null,
            "updated": "2026-01-01T00:00:00Z",
        });
        let row = row_of(&document, "red/one").unwrap();
        assert_eq!(row.place.to_str(), Some("red/one"));
        assert_eq!((row.state, row.status), ("ended", Some("out-of-budget")));
        assert_eq!(row.spent, Some(Usd::from_dollars(0.5)));
        assert_eq!(
            (row.step, row.requests, row.faults),
            (Some(3), Some(1), Some(2))
        );
        assert_eq!(row.labels["a"], "b");
        assert_eq!(row.needs, ["gpu"]);
        assert_eq!(row.changed.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(
            row_of(&json!({ "name": "one", "state": "unheard-of" }), "one"),
            None
        );
    }
}

//! The teams of a tenant as tools: those of its newest runs that a token may see. Their runs are like all others: the
//! token submits them, workers carry them out, and the API lists them.

use std::collections::BTreeSet;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use strata_core::record::event::Status;
use strata_host::HumanReply;
use strata_host::driver::Halt;
use strata_host::launch::{
    EventReader, LaunchError, answer, check_answers, generated_run_name, load_saved,
    load_saved_with_provenance,
};
use strata_host::mcp_server::{
    Activity, ClientTeams, Launch, RunAttempt, RunName, RunPlace, RunResult, ServedTeam,
    TeamDescription, tool_name,
};
use strata_host::storage::{
    LifecycleState, ServedFilter, ServedRun, StateSelector, StoreError, stored_run_name,
};
use strata_host::view::{CommandArgument, Continuation, EndedRun, RunEnding, status_at_rest};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::api::control::{ResumeTerms, RunTransition, halt_run, resume};
use crate::api::runs::{NewRun, is_at_rest, start_run};
use crate::caller::{Caller, Deed, Right};
use crate::context::find_run;
use crate::problem::Problem;
use crate::server::{Server, ServerPhase};

/// How many of the newest runs are looked at for teams, and how many teams these have at most.
const MAX_RUNS: usize = 1000;
const MAX_TEAMS: usize = 100;
/// How often a run is looked at that nothing is heard of.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a run that is paused is looked at until it rests.
const MAX_LOOKS_AFTER_PAUSE: u32 = 30;

/// The teams that a token may call.
pub struct TenantTeams {
    server: Arc<Server>,
    caller: Caller,
}

impl TenantTeams {
    pub fn new(server: Arc<Server>, caller: Caller) -> Self {
        Self { server, caller }
    }

    /// Returns the newest runs that the token sees, of at most `MAX_TEAMS` teams, each with the name of its team.
    fn newest_runs(&self) -> Result<Vec<(String, ServedRun)>, Problem> {
        let Some(visible) = self.caller.visible_runs() else {
            return Ok(Vec::new());
        };
        // What the token starts belongs to this tenant, and so do the files that it starts.
        let filter = ServedFilter {
            tenant: Some(self.caller.own_tenant().into()),
            ..visible
        };
        let mut teams = BTreeSet::new();
        let mut runs = Vec::new();
        for run in self.server.databases.list(&filter, MAX_RUNS)? {
            let overview = run.listing.overview.as_ref();
            let Some(team) = overview.map(|one| one.team.clone()) else {
                continue;
            };
            if teams.len() < MAX_TEAMS || teams.contains(&team) {
                teams.insert(team.clone());
                runs.push((team, run));
            }
        }
        Ok(runs)
    }

    fn read_descriptions(&self) -> Result<Vec<TeamDescription>, Problem> {
        let mut listed: Vec<TeamDescription> = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, run) in self.newest_runs()? {
            // A run without a bundle was not started here, and no other can be started like it.
            if seen.contains(&name) || self.server.origin_of(&run)?.bundle.is_none() {
                continue;
            }
            if let Some(desc) = description_of(&run)? {
                seen.insert(name.clone());
                listed.push(TeamDescription { name, desc });
            }
        }
        Ok(listed)
    }

    fn find_team(&self, tool: &str) -> Result<Option<ServedTeam>, Problem> {
        for (name, run) in self.newest_runs()? {
            if tool_name(&name) == tool
                && let Some(bundle) = self.server.origin_of(&run)?.bundle
            {
                let runs = Arc::new(TenantRuns {
                    server: Arc::clone(&self.server),
                    caller: self.caller.clone(),
                    team: name.clone(),
                    bundle,
                });
                return Ok(Some(ServedTeam { name, runs }));
            }
        }
        Ok(None)
    }
}

/// Returns what the team of a run says about itself; `None` if the run was deleted meanwhile.
fn description_of(run: &ServedRun) -> Result<Option<String>, Problem> {
    match load_saved(&run.listing.location, &StateSelector::Head) {
        Ok(saved) => Ok(Some(saved.stepper.team().desc.clone())),
        Err(LaunchError::Store(StoreError::NoRun { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl ClientTeams for TenantTeams {
    fn descriptions(&self) -> Result<Vec<TeamDescription>, String> {
        let listed = self.read_descriptions();
        listed.map_err(|problem| problem.detail().to_owned())
    }

    fn find(&self, tool: &str) -> Result<Option<ServedTeam>, String> {
        let found = self.find_team(tool);
        found.map_err(|problem| problem.detail().to_owned())
    }

    fn may_answer(&self) -> bool {
        self.caller.has(Right::Answer)
    }
}

/// The runs of a team, as a token sees them.
struct TenantRuns {
    server: Arc<Server>,
    caller: Caller,
    team: String,
    /// The digest of the bundle with which new ones are started.
    bundle: String,
}

/// For what a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPurpose {
    /// It was begun or continued for a call, and is paused when nobody waits for it any more.
    ForCall,
    /// It went on already, for others.
    Other,
}

impl TenantRuns {
    fn find_for(&self, name: &str, deed: Deed) -> Result<ServedRun, Problem> {
        find_run(&self.server, &self.caller, name, deed)
    }

    /// Begins or continues a run.
    fn begin(&self, name: &RunName, launch: &Launch) -> Result<(ServedRun, RunPurpose), Problem> {
        if let Launch::New { idea } = launch {
            let is_there = self.server.databases.has_run(&self.key(name))?;
            if !is_there {
                let new = NewRun::of_team(&self.bundle, name.as_str(), idea);
                start_run(&self.server, &self.caller, new, None)?;
            }
            return Ok((
                self.find_for(name.as_str(), Deed::Control)?,
                RunPurpose::ForCall,
            ));
        }
        let run = self.find_for(name.as_str(), Deed::Control)?;
        let status = run.listing.overview.as_ref().map(|one| one.status);
        let purpose = match (launch, status) {
            // A call that was given up paused it.
            (Launch::Reattach, Some(Status::Paused)) | (Launch::Resume, _) => {
                match resume(&run, ResumeTerms::default(), self.caller.author())? {
                    RunTransition::Now(_) => RunPurpose::ForCall,
                    RunTransition::Already(_) => RunPurpose::Other,
                }
            }
            _ => RunPurpose::ForCall,
        };
        let unknown = || Problem::not_found("run");
        Ok((self.server.reload(&run)?.ok_or_else(unknown)?, purpose))
    }

    /// Waits until a run has ended or rests.
    fn follow(
        &self,
        mut run: ServedRun,
        purpose: RunPurpose,
        attempt: RunAttempt,
    ) -> Result<ServedRun, Problem> {
        let RunAttempt {
            mut stopped,
            activity,
            ..
        } = attempt;
        let key = self.server.databases.key_of(&run);
        let mut changed = self.server.changes.subscribe(key);
        let mut reader = ActivityReader {
            reader: None,
            activity,
        };
        let mut looks_after_pause = 0;
        loop {
            changed.borrow_and_update();
            let unknown = || Problem::not_found("run");
            run = self.server.reload(&run)?.ok_or_else(unknown)?;
            if is_at_rest(&run) || asks(&run) || looks_after_pause == MAX_LOOKS_AFTER_PAUSE {
                return Ok(run);
            }
            if looks_after_pause > 0 {
                looks_after_pause += 1;
            }
            reader.note(&run);
            let is_paused = looks_after_pause > 0;
            let is_stopped = Handle::current().block_on(async {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped), if !is_paused => true,
                    _ = changed.changed() => false,
                    () = tokio::time::sleep(LOOK_INTERVAL) => false,
                }
            });
            if is_stopped && *self.server.phase.borrow() != ServerPhase::Serving {
                let text = "the server is about to end; the run goes on when it starts again";
                return Err(Problem::unavailable(text));
            }
            if is_stopped {
                looks_after_pause = 1;
                if purpose == RunPurpose::Other {
                    return Ok(run);
                }
                // It may have ended meanwhile.
                let _ = halt_run(&run, Halt::Pause, &self.caller.author());
            }
        }
    }

    /// Returns how a run has ended, or why it rests.
    fn ending(&self, run: &ServedRun) -> RunResult {
        let queued = run.listing.queued.as_ref();
        let problem = queued.and_then(|queued| queued.problem.as_deref());
        if let (LifecycleState::Refused, Some(problem)) = (run.listing.state, problem) {
            return Err(format!("no worker can run it: {problem}"));
        }
        let saved = load_saved_with_provenance(&run.listing.location, &StateSelector::Head);
        let (saved, provenance) = saved.map_err(|error| error.to_string())?;
        let ended = EndedRun {
            stepper: &saved.stepper,
            provenance: &provenance,
            storage: Path::new(run.name()),
            policy: None,
            continuation: Continuation::Workers,
        };
        let status = status_at_rest(&saved.stepper).unwrap_or(saved.stepper.env().status);
        let mut ending = ended.ending(status);
        // An answer is all that it waits for.
        if status == Status::Waiting {
            ending.resume_commands.clear();
        }
        adapt_commands(&mut ending);
        Ok(ending)
    }
}

/// Lets the commands for people work through a server, which changes no files of a run.
fn adapt_commands(ending: &mut RunEnding) {
    ending.resume_commands.retain(|command| {
        !command.arguments.iter().any(|argument| {
            matches!(
                argument,
                CommandArgument::TeamFile(_) | CommandArgument::Assignment { .. }
            )
        })
    });
    let answer = ending.requests.answer_command.iter_mut();
    for command in answer.chain(&mut ending.resume_commands) {
        let option = [
            CommandArgument::word("--server"),
            CommandArgument::placeholder("URL"),
        ];
        command.arguments.extend(option);
    }
}

/// Returns whether a run that a worker keeps does nothing but to wait for a person: the call of an MCP server that asks
/// is lost if it is given up.
fn asks(run: &ServedRun) -> bool {
    let overview = run.listing.overview.as_ref();
    let may_ask =
        run.listing.state == LifecycleState::Running && overview.is_none_or(|one| one.requests > 0);
    let saved = may_ask.then(|| load_saved(&run.listing.location, &StateSelector::Head));
    matches!(saved, Some(Ok(saved)) if status_at_rest(&saved.stepper) == Some(Status::Waiting))
}

impl RunPlace for TenantRuns {
    fn new_name(&self) -> RunName {
        let name = generated_run_name(&self.team);
        RunName::parse(&name).expect("a name of letters, digits and hyphens can be a name")
    }

    fn key(&self, run: &RunName) -> String {
        stored_run_name(self.caller.own_tenant(), run.as_str())
    }

    fn find(&self, text: &str) -> Option<RunName> {
        let name = RunName::parse(text)?;
        let run = self.find_for(name.as_str(), Deed::Control).ok()?;
        let is_own = run.tenant == self.caller.own_tenant();
        let overview = run.listing.overview.as_ref();
        let is_of_team = overview.is_some_and(|one| one.team == self.team);
        // A run may be named by its id.
        (is_own && is_of_team).then(|| RunName::parse(run.name()))?
    }

    fn carry_out(&self, attempt: RunAttempt, launch: &Launch) -> RunResult {
        let carried_out = match launch {
            Launch::Look => self.find_for(attempt.run.as_str(), Deed::Control),
            _ => self
                .begin(&attempt.run, launch)
                .and_then(|(run, purpose)| self.follow(run, purpose, attempt)),
        };
        let run = carried_out.map_err(|problem| problem.detail().to_owned())?;
        self.ending(&run)
    }

    fn answer(&self, run: &RunName, reply: HumanReply) -> Result<(), LaunchError> {
        let found = self.find_for(run.as_str(), Deed::Answer);
        let found =
            found.map_err(|problem| LaunchError::InvalidInput(problem.detail().to_owned()))?;
        let reply = HumanReply {
            person: Some(self.caller.name.clone()),
            ..reply
        };
        let location = &found.listing.location;
        // A worker that keeps the run does not say what is wrong with an answer.
        check_answers(location, slice::from_ref(&reply))?;
        answer(location, &[reply]).map(drop)
    }
}

/// Reads what a run does.
struct ActivityReader {
    reader: Option<EventReader>,
    activity: watch::Sender<Activity>,
}

impl ActivityReader {
    /// Notes what has been recorded since the last time. What cannot be read is not reported.
    fn note(&mut self, run: &ServedRun) {
        if self.reader.is_none() {
            self.reader = EventReader::open(&run.listing.location).ok();
        }
        let Some(reader) = &mut self.reader else {
            return;
        };
        loop {
            match reader.next_lines() {
                Ok(Some(lines)) => {
                    if let Some(now) = lines.iter().rev().find_map(Activity::of_line) {
                        self.activity.send_replace(now);
                    }
                }
                Ok(None) => return,
                Err(_) => {
                    self.reader = None;
                    return;
                }
            }
        }
    }
}

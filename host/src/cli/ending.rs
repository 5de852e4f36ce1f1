//! Describes to the operator how a run ended: open requests, where it is saved, and the commands
//! that continue it.

use std::path::Path;

use strata_core::budget::Purse;
use strata_core::event::Status;
use strata_core::money::Usd;
use strata_core::stepper::{Stepper, step_of_fault};

use super::fault::{Cure, Then, section, tell, tell_kept};
use super::plain::one_line;
use super::reporter::Loudness;
use super::requests::{command, listing};
use super::terminal::{BAD, FAINT, GOOD, ODD, note, painted};
use super::{counted, joins, path_word, recover, shell_word, shown};
use crate::launch::{Doubt, Makings, Run, doubts};

/// Explain when to resume with the team file named and when without.
pub(super) const CHANGED: &str = "after changing the team file";
pub(super) const UNCHANGED: &str = "without changing the team file";

/// The end of a run.
pub(super) struct Ending<'a> {
    stepper: &'a Stepper,
    makings: &'a Makings,
    storage: &'a Path,
    /// The policy that was named for it.
    policy: Option<&'a Path>,
    /// What continues the run.
    then: Then,
}

impl<'a> Ending<'a> {
    pub(super) fn of(run: &'a Run, policy: Option<&'a Path>) -> Self {
        Self {
            stepper: run.stepper(),
            makings: run.makings(),
            storage: run.path(),
            policy,
            then: Then::Resumed,
        }
    }

    /// Creates the end of a round of `dev`, after which files are watched.
    pub(super) fn of_round(run: &'a Run, policy: Option<&'a Path>) -> Self {
        Self {
            then: Then::Watched,
            ..Self::of(run, policy)
        }
    }

    /// Writes it to stderr.
    pub(super) fn tell(&self, status: Status, loudness: Loudness) {
        let (env, stepper) = (self.stepper.env(), self.stepper);
        let failed: Vec<_> = env.failed().map(|(id, _)| id).collect();
        let cures: Vec<Cure> = failed
            .into_iter()
            .filter_map(|id| tell(stepper, id, self.makings, self.then))
            .collect();
        self.tell_open(status);
        self.tell_broke(status);
        let saved = format!("saved in `{}`", self.storage.display());
        match status {
            Status::Done if loudness == Loudness::Quiet => {}
            Status::Done => {
                let spent = if env.spent == Usd::default() {
                    String::new()
                } else {
                    format!(" for {}", env.spent)
                };
                note(format_args!(
                    "{} after {}{spent}; {saved}",
                    painted(GOOD, "done"),
                    counted(env.step, "step")
                ));
            }
            Status::Failed => self.tell_failed(&saved, &cures),
            Status::InDoubt => self.tell_in_doubt("in doubt", &saved),
            Status::Interrupted if !doubts(stepper).is_empty() => {
                self.tell_in_doubt("interrupted", &saved);
            }
            Status::Stalled => self.tell_stalled(&saved),
            Status::Interrupted
            | Status::StepLimit
            | Status::OutOfBudget
            | Status::Waiting
            | Status::Running => self.tell_stopped(status, &saved),
        }
    }

    /// Describes a run that a fault stopped.
    fn tell_failed(&self, saved: &str, cures: &[Cure]) {
        let (env, stepper) = (self.stepper.env(), self.stepper);
        tell_kept(stepper);
        let at = |(_, activation)| step_of_fault(stepper.team(), env, activation);
        let step = env.failed().map(at).min().unwrap_or(env.step);
        let what = painted(BAD, "failed");
        if self.then == Then::Watched {
            note(format_args!(
                "{what} at step {step}; {saved}; continues by itself once it is fixed"
            ));
            return;
        }
        note(format_args!(
            "{what} at step {step}; {saved}; fix it, then resume with:"
        ));
        for way in self.ways(cures) {
            note(format_args!("  {way}"));
        }
    }

    /// Describes a run with writes whose result is unknown.
    fn tell_in_doubt(&self, what: &str, saved: &str) {
        let (step, resume) = (self.stepper.env().step, self.resume());
        let what = painted(ODD, what);
        note(format_args!(
            "{what} at step {step}; {saved}; find out, then resume with one of:"
        ));
        let response = r#"'{"status":200,"body":"…"}'"#;
        note(format_args!(
            "  {resume} --in-doubt redo     # make it again"
        ));
        note(format_args!(
            "  {resume} --in-doubt skip     # continue without it"
        ));
        note(format_args!(
            "  {resume} --in-doubt {response}     # this was its response"
        ));
    }

    /// Describes a run that stopped without a fault.
    fn tell_stopped(&self, status: Status, saved: &str) {
        let (step, stepper, resume) = (self.stepper.env().step, self.stepper, self.resume());
        match status {
            Status::Interrupted => {
                let what = painted(ODD, "interrupted");
                note(format_args!(
                    "{what} at step {step}; {saved}; resume with:\n  {resume}"
                ));
            }
            Status::StepLimit => {
                let (what, steps) = (painted(ODD, "step limit reached"), counted(step, "step"));
                let limit = steps_in_all(stepper);
                note(format_args!(
                    "{what} after {steps}; {saved}; resume with:\n  {resume} {limit}"
                ));
            }
            Status::OutOfBudget => {
                let what = painted(ODD, "out of budget:");
                note(format_args!(
                    "{what} {}; {saved}; resume with:",
                    exhausted(stepper)
                ));
                note(format_args!(
                    "  {resume} {}",
                    more(stepper, self.makings.most.as_ref())
                ));
            }
            Status::Waiting => {
                let what = painted(ODD, "waiting for a person");
                note(format_args!("{what} at step {step}; {saved}; answer with:"));
                note(format_args!(
                    "  {}\nthen resume with:\n  {resume}",
                    command(stepper, self.storage)
                ));
            }
            _ => note(format_args!(
                "{}; {saved}; resume with:\n  {resume}",
                status.name()
            )),
        }
    }

    /// Lists open requests, messages that could not be handed over, and writes in doubt.
    fn tell_open(&self, status: Status) {
        let env = self.stepper.env();
        if env.requests().next().is_some() {
            note("open requests:");
            for line in listing(self.stepper) {
                note(line);
            }
            // For a waiting run, the description of the status itself contains this command.
            if status != Status::Waiting {
                note(format_args!(
                    "answer with:\n  {}",
                    command(self.stepper, self.storage)
                ));
            }
        }
        for outbound in env
            .outbox
            .iter()
            .filter(|outbound| outbound.failed.is_some())
        {
            let (id, to) = (&env.message(outbound.message).id, outbound.to.join(", "));
            let (head, why) = (
                painted(BAD, "fault:"),
                outbound.failed.as_deref().unwrap_or_default(),
            );
            let what = format!(
                "message {id} for {to} could not be handed over to `[env.external]`: {why}"
            );
            note(format_args!("{head} {}", one_line(&what)));
            let place = self.makings.external.as_ref();
            section(
                "how to fix it",
                place
                    .map(|place| format!("see `[env.external]` ({place})"))
                    .into_iter(),
                |line| note(line),
            );
        }
        for Doubt { id, what, .. } in doubts(self.stepper) {
            let head = painted(ODD, "in doubt:");
            let what = one_line(&what);
            note(format_args!(
                "{head} {id}: `{what}` was begun, and whether it took effect is not known"
            ));
        }
    }

    /// Reports exhausted budgets if the run ended for another reason: resolving that alone would
    /// not suffice to continue.
    fn tell_broke(&self, status: Status) {
        let stepper = self.stepper;
        if status != Status::OutOfBudget && stepper.purses().next().is_some() {
            let (what, more) = (
                painted(ODD, "out of budget:"),
                more(stepper, self.makings.most.as_ref()),
            );
            note(format_args!(
                "{what} {}; to continue there, resume with:\n  {more}",
                exhausted(stepper)
            ));
        }
    }

    fn resume(&self) -> String {
        format!("strata-host run {}", self.what())
    }

    fn what(&self) -> String {
        recover(self.storage, self.policy)
    }

    /// Returns the option that names the newest checkpoint, if the lineage was forked. The advised
    /// commands then continue that lineage even if another one was resumed in the meantime.
    fn checkpoint(&self) -> String {
        let env = self.stepper.env();
        match &env.checkpoint {
            Some(id) if !env.lineage.forks.is_empty() => {
                format!(" --checkpoint {}", shell_word(&id.0))
            }
            _ => String::new(),
        }
    }

    /// Returns the commands that may continue after faults.
    fn ways(&self, cures: &[Cure]) -> Vec<String> {
        let at = self.checkpoint();
        let (resume, what) = (self.resume() + &at, self.what() + &at);
        let when = |command: String, when: &str| {
            format!("{command}   {}", painted(FAINT, &format!("# {when}")))
        };
        let unsent = self
            .stepper
            .env()
            .outbox
            .iter()
            .any(|outbound| outbound.failed.is_some());
        let file = (unsent || cures.iter().any(|cure| cure.file)).then(|| {
            let file = path_word(Path::new(&shown(&self.makings.file)));
            when(format!("strata-host run {file} {what}"), CHANGED)
        });
        // One component is named as an example for all.
        let component = cures
            .iter()
            .find_map(|cure| cure.component.as_ref())
            .map(|name| {
                let given = format!("{resume} --component {}=FIXED.wasm", shell_word(name));
                when(given, "with another component")
            });
        // The command without changes comes last, where it is found first. It needs no comment if
        // it is the only one.
        let alone = file.is_none() && component.is_none();
        let plain = if alone {
            resume
        } else {
            when(resume, UNCHANGED)
        };
        file.into_iter().chain(component).chain([plain]).collect()
    }

    /// Describes what stalled joins wait for, and how to send it.
    fn tell_stalled(&self, saved: &str) {
        let after = counted(self.stepper.env().step, "step");
        note(format_args!(
            "{} after {after}; {saved}",
            painted(BAD, "stalled")
        ));
        let mut someone = None;
        for standing in
            joins::standings(self.stepper).filter(|standing| !standing.missing.is_empty())
        {
            let (id, missing) = (&standing.join.id, standing.missing_text());
            note(format_args!(
                "  join `{id}` waits for {missing}, and no role is running; it holds {}",
                standing.held()
            ));
            someone = someone.or(standing.missing.first().map(|name| shell_word(name)));
        }
        let (someone, storage) = (someone.unwrap_or_default(), path_word(self.storage));
        note("send it what is missing, then resume with:");
        note(format_args!(
            "  strata-host send {storage} --to {someone} --cause LABEL CONTENT\n  {}",
            self.resume()
        ));
    }
}

/// Describes whose budget is exhausted.
fn exhausted(stepper: &Stepper) -> String {
    let (team, env) = (stepper.team(), stepper.env());
    let of = |spent: Usd, max: Option<Usd>| max.map(|max| format!("{spent} of {max}"));
    let tokens = |used: u64, max: Option<u64>| max.map(|max| format!("{used} of {max} tokens"));
    match stepper.purses().next() {
        Some(Purse::Role(id)) => {
            let (used, caps) = (
                env.spending(|at| at.role == id),
                team.policy.purses.roles.get(&id),
            );
            let caps = caps.copied().unwrap_or_default();
            let parts = [of(used.usd, caps.usd), tokens(used.tokens, caps.tokens)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("role {} used {}", team.role(id).name, parts.join(" and "))
        }
        _ => {
            let used = env.spending(|_| true);
            let parts = [
                of(env.spent, env.budget),
                tokens(used.tokens, team.policy.purses.tokens),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("spent {}", parts.join(" and "))
        }
    }
}

/// Returns the arguments that raise the exhausted budget. `most` is the highest budget that a
/// policy permits, with the policy's path.
pub(super) fn more(stepper: &Stepper, most: Option<&(Usd, String)>) -> String {
    let (team, env) = (stepper.team(), stepper.env());
    let broke = env.budget.is_some_and(|max| env.spent >= max);
    // With a higher budget it would stop again immediately.
    let bound = most.filter(|(most, _)| env.budget.is_some_and(|max| max >= *most));
    match (stepper.purses().next(), bound) {
        (Some(Purse::Role(_)), _) => {
            "TEAM.toml   # with more `investment` or `tokens` for the role".into()
        }
        _ if !broke && team.policy.purses.tokens.is_some() => {
            "TEAM.toml   # with more `tokens` for the team".into()
        }
        (_, Some((most, policy))) => {
            format!("--investment USD   # once `{policy}` allows more than {most}")
        }
        _ => match env.budget {
            Some(budget) => format!(
                "--investment USD   # more than {}, in all",
                budget.max(env.spent)
            ),
            None => "--investment USD".into(),
        },
    }
}

/// Returns the argument that raises the step limit. Steps before a resume count, too.
pub(super) fn steps_in_all(stepper: &Stepper) -> String {
    format!("--max-steps N   # more than {}, in all", stepper.env().step)
}

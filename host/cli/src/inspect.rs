//! `inspect`: shows a saved state, for people as tables, for programs as the document that
//! `team.json` holds. The modules below show parts of it: an action, the host calls, a message.

mod action;
mod calls;
mod conversation;
mod message;
mod standing;
mod table;

use std::path::Path;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::id::CheckpointId;
use strata_core::record::money::Usd;
use strata_host::launch::{continuation, last_log, load_saved, parse_saved_state};
use strata_host::storage::{StateSelector, StorageLocation, resolve_link};
use strata_host::team_json;
use strata_host::view::{
    ActionCost, ActionView, DoubtView, HolderState, JoinView, MessageView, OpenFault, RoleActivity,
    RunSummary, SavedTeam, WorkKind, WorkState,
};
use strata_host::wording::{commented_command, shell_command};

use action::InspectedAction;
pub(super) use calls::{is_of as is_call_of, show_documents as show_calls};
use standing::{OpenObject, RunStanding, standing};
pub(super) use table::TextTable;

use super::LOST_ANSWERS;
use super::edit_notices::warn_if_edited;
use super::fault_report::shorten_message;
use super::files::describe_files;
use super::joins::describe_join;
use super::printer::DocumentText;
use super::requests::describe_requests;
use super::run_at_server::{RunAtServer, add_server, continuation_at_server};
use super::{CommandFailure, InspectArgs, Printer, pluralize, preview, shell_path, shell_word};

/// The maximum number of characters shown of a role's last output.
const OUTPUT_CHARS: usize = 40;
/// The maximum number of characters shown of a message.
const PREVIEW_CHARS: usize = 70;

/// What is inspected.
struct Inspected<'a> {
    location: &'a StorageLocation,
    at: &'a StateSelector,
    /// The run at a server, if the location has a copy of its state.
    served: Option<&'a RunAtServer<'a>>,
}

pub(super) fn inspect(args: &InspectArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let (location, at) = select_state(args)?;
    if args.calls && at != StateSelector::Head {
        return Err(CommandFailure::usage(
            "`--calls` shows the recorded calls of all that is saved; leave `@ID` away",
        ));
    }
    let inspected = Inspected {
        location: &location,
        at: &at,
        served: None,
    };
    inspected.show(args, printer)
}

/// Shows the state of a run at a server, of which there is a copy.
pub(super) fn inspect_copy(
    copy: &StorageLocation,
    run: &RunAtServer<'_>,
    args: &InspectArgs,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let inspected = Inspected {
        location: copy,
        at: &StateSelector::Head,
        served: Some(run),
    };
    inspected.show(args, printer)
}

impl Inspected<'_> {
    /// Returns what names the run in commands.
    fn place(&self) -> &Path {
        match self.served {
            Some(run) => Path::new(run.name),
            None => self.location.path(),
        }
    }

    /// Loads the state, and finds out which process works on it.
    fn load(&self) -> Result<(SavedTeam, HolderState), CommandFailure> {
        let holder = HolderState::read(self.location, self.at);
        let mut saved = load_saved(self.location, self.at)?;
        let Some(run) = self.served else {
            return Ok((saved, holder.reread(self.location)));
        };
        let mut env = saved.stepper.env().clone();
        let holder = run.holder(env.status);
        if run.at == StateSelector::Head {
            env.cap_reached.clone_from(&run.cap_reached);
            saved.stepper = saved.stepper.with_env(env);
        }
        Ok((saved, holder))
    }

    /// Returns the action that the arguments name. Returns `None` if they name none, or the action of recorded calls:
    /// these also name tools of servers that no open activation calls.
    fn named_action<'s>(
        &self,
        args: &InspectArgs,
        stepper: &'s Stepper,
    ) -> Result<Option<InspectedAction<'s>>, CommandFailure> {
        let Some(name) = &args.action else {
            return Ok(None);
        };
        if args.calls && calls::has_any_of(self.location, name)? {
            return Ok(None);
        }
        Ok(Some(InspectedAction::from_name(stepper, name)?))
    }

    /// Shows what the arguments ask for.
    fn show(&self, args: &InspectArgs, printer: &Printer) -> Result<u8, CommandFailure> {
        let (location, at, json) = (self.location, self.at, args.json);
        let (saved, holder) = self.load()?;
        warn_if_edited(location, printer);
        let stepper = &saved.stepper;
        let action = self.named_action(args, stepper)?;
        if args.team_json {
            print_team_json(&saved, DocumentText::Unchanged, printer)?;
            return Ok(0);
        }
        if let Some(role) = &args.conversation {
            conversation::require_tool_role(stepper.team(), role)?;
            if json {
                conversation::print_json(location, at, &saved, role, printer)?;
            } else {
                conversation::show(self, &saved, role, printer)?;
            }
            return Ok(0);
        }
        match (&args.message, action, args.calls) {
            (Some(id), _, _) => {
                let message = MessageView::from_id(stepper, id)
                    .map_err(|unknown| CommandFailure::usage(unknown.to_string()))?;
                if json {
                    printer.print_json_line(&message)?
                } else {
                    message::show(&message, printer)
                }
            }
            (None, _, true) if json => {
                calls::print_calls_json(location, args.action.as_deref(), printer)?
            }
            (None, _, true) => calls::show(location, args.action.as_deref(), printer)?,
            (None, Some(action), false) => {
                let view = self.view_action(&action, holder, &saved)?;
                if json {
                    action.print_json(&view, printer)
                } else {
                    action::show_action(&view, printer)
                }
            }
            (None, None, false) if json => {
                let run = standing(location, at)?;
                print_state_with_run(&saved, run.as_ref(), printer)?;
            }
            (None, None, false) => {
                let summary = self.summarize(&saved, holder);
                show_summary(&summary, self.standing()?.as_ref(), printer);
            }
        }
        Ok(0)
    }

    fn view_action(
        &self,
        action: &InspectedAction<'_>,
        holder: HolderState,
        saved: &SavedTeam,
    ) -> Result<ActionView, CommandFailure> {
        let log = match action.slot() {
            Some(slot) => last_log(self.location, self.at, saved, slot)?,
            None => None,
        };
        let mut view = action.view(holder, self.place(), log);
        if let (Some(run), Some(command)) = (self.served, &mut view.calls_command) {
            add_server(command, run.server);
        }
        Ok(view)
    }

    fn summarize(&self, saved: &SavedTeam, holder: HolderState) -> RunSummary {
        let Some(run) = self.served else {
            let continued = continuation(self.location);
            return RunSummary::from_saved(saved, self.place(), self.at, holder, continued);
        };
        let continued = continuation_at_server(saved.stepper.env().status);
        let mut summary = RunSummary::from_saved(saved, self.place(), &run.at, holder, continued);
        run.adapt_summary(&mut summary);
        summary
    }

    /// Returns where the run is in its life; `None` for an earlier state.
    fn standing(&self) -> Result<Option<RunStanding>, CommandFailure> {
        match self.served {
            Some(run) if run.at == StateSelector::Head => Ok(Some(RunStanding::of_served(
                run.row.clone(),
                run.missing.clone(),
            ))),
            Some(_) => Ok(None),
            None => standing(self.location, self.at),
        }
    }
}

/// Prints the state as the document that `team.json` contains.
fn print_team_json(
    saved: &SavedTeam,
    text: DocumentText,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let (team, env) = (saved.stepper.team(), saved.stepper.env());
    printer.print_pieces(text, |out| {
        team_json::write(team, env, &saved.definition, out)
    })
}

/// Prints the state as the document that `team.json` contains, with where the run is in its life under `run`.
fn print_state_with_run(
    saved: &SavedTeam,
    run: Option<&RunStanding>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let (team, env) = (saved.stepper.team(), saved.stepper.env());
    printer.print_pieces(DocumentText::EscapedJson, |out| {
        let Some(run) = run else {
            return team_json::write(team, env, &saved.definition, out);
        };
        let mut open = OpenObject::new(out);
        team_json::write(team, env, &saved.definition, &mut open)?;
        open.close_with("run", run)
    })
}

/// Returns where the run is kept and which of its states is shown.
fn select_state(args: &InspectArgs) -> Result<(StorageLocation, StateSelector), CommandFailure> {
    match &args.checkpoint {
        Some(id) => {
            if let (
                location,
                StateSelector::Checkpoint(CheckpointId(other)) | StateSelector::Lineage(other),
            ) = parse_saved_state(&args.path)?
            {
                let path = shell_path(location.path());
                let why = format!(
                    "two places were given, `{other}` behind `@` and `{id}` by `--checkpoint`"
                );
                return Err(CommandFailure::usage(format!(
                    "{why}; name one: `strata-host inspect {path}@{}`",
                    shell_word(id)
                )));
            }
            Ok((
                StorageLocation::new(resolve_link(Path::new(&args.path))),
                StateSelector::Checkpoint(CheckpointId(id.clone())),
            ))
        }
        None => Ok(parse_saved_state(&args.path)?),
    }
}

fn show_summary(summary: &RunSummary, standing: Option<&RunStanding>, printer: &Printer) {
    show_overview(summary, standing, printer);
    printer.print_line("");
    show_roles(summary, printer);
    section(
        "spending",
        summary.cost.actions.iter().map(describe_cost),
        printer,
    );
    show_faults(summary, printer);
    let when = if summary.is_cut_off {
        "in doubt on the next run"
    } else {
        "in doubt"
    };
    section(
        &format!(
            "{when} (resume with `--in-doubt {}`)",
            DoubtView::verdicts(&summary.in_doubt)
        ),
        summary
            .in_doubt
            .iter()
            .map(|doubt| format!("  {}: {}", doubt.id, doubt.what)),
        printer,
    );
    section("joins", summary.joins.iter().map(format_join), printer);
    let mut requests = describe_requests(&summary.requests.requests);
    if let Some(answer) = &summary.requests.answer_command {
        requests.push(format!("  answer with: {}", shell_command(answer)));
    }
    section("requests", requests.into_iter(), printer);
    section("files", describe_files(&summary.files).into_iter(), printer);
    show_mail(summary, printer);
    let commands = summary.resume_commands.iter();
    section(
        "resume with",
        commands.map(|command| format!("  {}", commented_command(command))),
        printer,
    );
}

/// Shows the lines about the run as a whole.
fn show_overview(summary: &RunSummary, standing: Option<&RunStanding>, printer: &Printer) {
    let checkpoint = summary.checkpoint.as_deref().unwrap_or("none");
    printer.print_line(&format!("run         {} ({})", summary.run, summary.team));
    printer.print_line(&format!(
        "idea        {}",
        preview(&summary.idea, PREVIEW_CHARS)
    ));
    let is_queued = standing.is_some_and(RunStanding::is_in_queue);
    let status = match standing.and_then(|standing| standing.row.status) {
        Some(status) if is_queued => status.to_owned(),
        _ => describe_status(summary),
    };
    printer.print_line(&format!("status      {status}"));
    if let Some(standing) = standing {
        standing.show(printer);
    }
    let open = if summary.is_step_open { "open" } else { "next" };
    printer.print_line(&format!(
        "step        {} ({open}), checkpoint {checkpoint} of lineage {}",
        summary.step, summary.lineage
    ));
    let cost = &summary.cost;
    let budget = match cost.budget {
        Some(budget) => budget.to_string(),
        None => "no limit".into(),
    };
    let tokens = match cost.max_tokens {
        Some(most) => format!(" and {} of {most} tokens", cost.tokens),
        None => String::new(),
    };
    printer.print_line(&format!("spent       {} of {budget}{tokens}", cost.spent));
    if cost.lost > Usd::ZERO {
        printer.print_line(&format!("lost        {} of it: {LOST_ANSWERS}", cost.lost));
    }
    let dead = pluralize(summary.dead_letters.len() as u64, "dead letter");
    printer.print_line(&format!(
        "messages    {} published, {dead}; one in full: {}",
        summary.published_messages,
        shell_command(&summary.message_command)
    ));
    if let Some(output) = &summary.output {
        printer.print_line(&format!(
            "output      {} of {}: {}",
            output.id,
            output.role,
            preview(&output.content, PREVIEW_CHARS)
        ));
    }
}

/// Describes the status of a run, and who works on it.
fn describe_status(summary: &RunSummary) -> String {
    let name = summary.status.name();
    let process = |pid: Option<u32>| match pid {
        Some(pid) => format!("process {pid}"),
        None => "a process".into(),
    };
    match (summary.holder, summary.status) {
        (HolderState::HeldBy(pid), Status::Running) if summary.is_drained => {
            format!("{name} ({}), idle", process(pid))
        }
        (HolderState::HeldBy(pid), Status::Running) => format!("{name} ({})", process(pid)),
        (HolderState::HeldBy(pid), _) => format!("{name} ({} has it open)", process(pid)),
        (HolderState::Free, Status::Running) => "cut off".into(),
        // A message was sent to it after it was done.
        (HolderState::Free, Status::Done) if !summary.is_drained => {
            format!("{name}, with new mail")
        }
        _ => name.into(),
    }
}

/// Shows a table of the roles.
fn show_roles(summary: &RunSummary, printer: &Printer) {
    let mut table = TextTable::new(
        &[
            "role",
            "mail",
            "memory",
            "spent",
            "at",
            "message",
            "last output",
        ],
        printer,
    );
    for role in &summary.roles {
        let (id, content) = match &role.last_message {
            Some(message) => (message.id.clone(), preview(&message.content, OUTPUT_CHARS)),
            None => ("-".into(), "-".into()),
        };
        table.add_row([
            role.role.clone(),
            role.mail.to_string(),
            role.memory.to_string(),
            role.spent.to_string(),
            describe_activity(role.activity.as_ref()),
            id,
            content,
        ]);
    }
    table.print(printer);
}

/// Describes what a role is doing.
fn describe_activity(activity: Option<&RoleActivity>) -> String {
    let (work, index, action, state, attempts) = match activity {
        None => return "idle".into(),
        Some(RoleActivity::Finished) => return "finished, waits for the step to commit".into(),
        Some(RoleActivity::CallingTools { turn, open }) => {
            return format!("turn {turn}: {} open", pluralize(*open as u64, "tool call"));
        }
        Some(RoleActivity::Working {
            work,
            index,
            action,
            state,
            attempts,
        }) => (work, index, action, state, attempts),
    };
    let what = match work {
        WorkKind::Choice { round } => format!("choice {round}"),
        WorkKind::Answer => "the answer to its mail".into(),
        WorkKind::Turn => "a turn of its model".into(),
        WorkKind::Summary => "a summary of its conversation".into(),
        WorkKind::Planning => format!("planning with 0 `{action}`"),
        WorkKind::Action => match index {
            Some(index) => format!("action {index} `{action}`"),
            None => format!("tool `{action}`"),
        },
    };
    let how = match state {
        WorkState::Next => "next",
        WorkState::Running => "running",
        WorkState::CutOff => "cut off",
        WorkState::BackingOff => "waits for another try",
        WorkState::Interrupted => "interrupted",
        WorkState::Failed => "FAILED",
        WorkState::Finished => "finished",
        WorkState::WaitingForPerson => "waits for a person",
    };
    format!("{what}: {how} (attempts {attempts})")
}

/// Describes what an action spent, and what the journal saved.
fn describe_cost(cost: &ActionCost) -> String {
    let (calls, tokens) = (
        pluralize(cost.calls, "call"),
        pluralize(cost.tokens, "token"),
    );
    let served = match cost.served {
        0 => String::new(),
        served => format!(
            ", {served} served from the journal, which saved {}",
            cost.saved
        ),
    };
    let flaw = |count: u64, flaw: &str| match count {
        0 => String::new(),
        count => format!(", {flaw} replies: {count}"),
    };
    let flaws = flaw(cost.truncated, "truncated") + &flaw(cost.refused, "refused or filtered");
    let lost = match cost.lost {
        Usd::ZERO => String::new(),
        lost => format!(", {lost} of it estimated for lost answers"),
    };
    format!(
        "  {:<28} {} for {tokens} in {calls}{lost}{served}{flaws}",
        cost.action, cost.spent
    )
}

fn show_faults(summary: &RunSummary, printer: &Printer) {
    let mut lines = Vec::new();
    for fault in &summary.faults {
        // Messages of faults may have several lines, such as those of compilers. No line may look
        // like another fault.
        let text = describe_fault(fault);
        let all: Vec<&str> = text.split('\n').collect();
        for (number, line) in shorten_message(&all).iter().enumerate() {
            let indent = if number == 0 { "" } else { "    " };
            lines.push(format!("{indent}{line}"));
        }
    }
    if let Some(command) = &summary.fault_command {
        lines.push(format!(
            "  stack, log and calls: {}",
            shell_command(command)
        ));
    }
    section("faults", lines.into_iter(), printer);
}

fn describe_fault(fault: &OpenFault) -> String {
    format!(
        "  {} {}: {}: {}",
        fault.role,
        describe_activity(fault.activity.as_ref()),
        fault.kind,
        fault.message
    )
}

fn format_join(join: &JoinView) -> String {
    format!(
        "  {} ({}, to `{}` by {}): {}",
        join.id,
        join.mode.name(),
        join.to,
        join.deliver.name(),
        describe_join(join)
    )
}

fn show_mail(summary: &RunSummary, printer: &Printer) {
    let mail = summary.mail.iter().map(|mail| {
        let from = match mail.from.as_str() {
            "" => "outside",
            from => from,
        };
        format!(
            "  {} <- {from} [{}] {}: {}",
            mail.to,
            mail.label,
            mail.id,
            preview(&mail.content, PREVIEW_CHARS)
        )
    });
    section("mailboxes", mail, printer);
    let dead = summary.dead_letters.iter().map(|letter| {
        format!(
            "  to `{}` {}: {}",
            letter.to,
            letter.id,
            preview(&letter.content, PREVIEW_CHARS)
        )
    });
    section("dead letters", dead, printer);
    let leaving = summary.outbox.iter().map(|outbound| {
        let failure = match &outbound.failure {
            Some(reason) => format!(" (FAILED: {reason})"),
            None => String::new(),
        };
        format!(
            "  to {} {}: {}{failure}",
            outbound.to.join(", "),
            outbound.id,
            preview(&outbound.content, PREVIEW_CHARS)
        )
    });
    section("on their way out", leaving, printer);
}

fn section(title: &str, lines: impl Iterator<Item = String>, printer: &Printer) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        printer.print_line("");
        printer.print_line(title);
        for line in lines {
            printer.print_line(&line);
        }
    }
}

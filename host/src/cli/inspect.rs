//! `inspect`: shows a saved state, for people as tables, for programs as the document that
//! `team.json` holds. The modules below show parts of it: an action, the host calls, a message.

mod action;
mod calls;
mod holder_state;
mod message;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use strata_core::activation::{Activation, Phase};
use strata_core::budget::{Spending, charged_slot};
use strata_core::environment::Environment;
use strata_core::event::Work;
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{CheckpointId, RoleId, Slot};
use strata_core::message::Message;
use strata_core::stepper::Stepper;

use action::InspectedAction;
use holder_state::HolderState;
use table::TextTable;

use super::edit_notices::warn_if_edited;
use super::files;
use super::joins::describe_join;
use super::requests::describe_requests;
use super::suggested_command::shell_command;
use super::{
    CommandFailure, InspectArgs, pluralize, preview, print_json, print_line, shell_path, shell_word,
};
use crate::launch::{CallInDoubt, SavedTeam, load_saved, parse_saved_state};
use crate::store::{StateSelector, resolve_link, team_json};
use crate::view::{JoinView, OpenRequests};

/// The maximum number of characters shown of a role's last output.
const OUTPUT_CHARS: usize = 40;
/// The maximum number of characters shown of a message.
const PREVIEW_CHARS: usize = 70;

pub(super) fn inspect(args: &InspectArgs) -> Result<u8, CommandFailure> {
    let (path, at) = match &args.checkpoint {
        Some(id) => {
            if let (
                path,
                StateSelector::Checkpoint(CheckpointId(other)) | StateSelector::Lineage(other),
            ) = parse_saved_state(&args.path)?
            {
                let path = shell_path(&path);
                let why = format!(
                    "two places were given, `{other}` behind `@` and `{id}` by `--checkpoint`"
                );
                return Err(CommandFailure::usage(format!(
                    "{why}; name one: `strata-host inspect {path}@{}`",
                    shell_word(id)
                )));
            }
            (
                resolve_link(Path::new(&args.path)),
                StateSelector::Checkpoint(CheckpointId(id.clone())),
            )
        }
        None => parse_saved_state(&args.path)?,
    };
    if args.calls && at != StateSelector::Head {
        return Err(CommandFailure::usage(
            "`--calls` shows the recorded calls of all that is saved; leave `@ID` away",
        ));
    }
    let (path, json) = (path.as_path(), args.json);
    let life = HolderState::read(path, &at);
    let saved = load_saved(path, &at)?;
    let life = life.reread(path);
    warn_if_edited(path);
    let stepper = &saved.stepper;
    let action = args
        .action
        .as_ref()
        .map(|name| InspectedAction::from_name(stepper, name))
        .transpose()?;
    match (&args.message, action, args.calls) {
        (Some(id), _, _) if json => message::print_message_json(stepper, id)?,
        (Some(id), _, _) => message::show(stepper, id)?,
        (None, _, true) if json => calls::print_calls_json(path, args.action.as_deref())?,
        (None, _, true) => calls::show(path, args.action.as_deref())?,
        (None, Some(action), false) if json => action.print_json(),
        (None, Some(action), false) => action.show(life, path),
        (None, None, false) if json => print_json(
            team_json::export(stepper.team(), stepper.env(), &saved.definition).trim_end(),
        ),
        (None, None, false) => show_state(&saved, path, &at, life),
    }
    Ok(0)
}

/// Returns the command that shows a state.
fn inspect_command(path: &Path, at: &StateSelector) -> String {
    let at = match at {
        StateSelector::Head => String::new(),
        StateSelector::Checkpoint(CheckpointId(id)) | StateSelector::Lineage(id) => {
            format!("@{id}")
        }
    };
    let path = shell_path(&PathBuf::from(format!("{}{at}", path.display())));
    format!("strata-host inspect {path}")
}

fn show_state(saved: &SavedTeam, path: &Path, at: &StateSelector, life: HolderState) {
    let stepper = &saved.stepper;
    show_overview(stepper, path, at, life);
    print_line("");
    show_roles(stepper, life);
    show_spending(stepper);
    show_faults(stepper, path, life);
    let when = if life.is_cut_off(stepper) {
        "in doubt on the next run"
    } else {
        "in doubt"
    };
    let doubts = life.writes_in_doubt(stepper);
    section(
        &format!("{when} (resume with `--in-doubt redo|skip|VALUE`)"),
        doubts.iter().map(format_doubt),
    );
    show_joins(stepper);
    show_requests(stepper, path);
    section("files", files::describe_files(stepper));
    show_mail(stepper, stepper.env());
    section(
        "resume with",
        life.resume_commands(saved, path, !doubts.is_empty())
            .into_iter(),
    );
}

/// Shows the lines about the run as a whole.
fn show_overview(stepper: &Stepper, path: &Path, at: &StateSelector, life: HolderState) {
    let (team, env) = (stepper.team(), stepper.env());
    let checkpoint = env.checkpoint.as_ref().map_or("none", |id| id.0.as_str());
    print_line(&format!("run         {} ({})", env.run, team.name));
    print_line(&format!(
        "idea        {}",
        preview(&env.idea, PREVIEW_CHARS)
    ));
    print_line(&format!("status      {}", life.describe_status(stepper)));
    let open = if env.is_step_open { "open" } else { "next" };
    print_line(&format!(
        "step        {} ({open}), checkpoint {checkpoint} of lineage {}",
        env.step, env.lineage.name
    ));
    let budget = env
        .budget
        .map_or_else(|| "no limit".into(), |budget| budget.to_string());
    let tokens = |most| format!(" and {} of {most} tokens", env.spending(|_| true).tokens);
    let tokens = team
        .policy
        .scoped_budgets
        .tokens
        .map(tokens)
        .unwrap_or_default();
    print_line(&format!("spent       {} of {budget}{tokens}", env.spent));
    let dead = pluralize(env.dead_letters.len() as u64, "dead letter");
    let in_full = format!("{} --message", inspect_command(path, at));
    print_line(&format!(
        "messages    {} published, {dead}; one in full: {in_full} ID",
        env.history.len()
    ));
    if let Some(output) = env.last_output(team) {
        let (from, id, text) = (
            &output.sent_from,
            &output.id,
            preview(&output.content, PREVIEW_CHARS),
        );
        print_line(&format!("output      {id} of {from}: {text}"));
    }
}

/// Shows a table of the roles.
fn show_roles(stepper: &Stepper, life: HolderState) {
    let (team, env) = (stepper.team(), stepper.env());
    let mut table = TextTable::new(&[
        "role",
        "mail",
        "memory",
        "spent",
        "at",
        "message",
        "last output",
    ]);
    let newest = newest_messages(stepper);
    for id in team.role_ids() {
        let (mail, memory) = (env.unfinished_mail(id).count(), env.memory(id).count());
        let (name, spent) = (
            &team.role(id).name,
            env.spending(|slot| slot.role == id).usd,
        );
        let (id_of_said, said) = match newest.get(name.as_str()) {
            Some(message) => (
                message.id.0.clone(),
                preview(&message.content, OUTPUT_CHARS),
            ),
            None => ("-".into(), "-".into()),
        };
        let (mail, memory, spent) = (mail.to_string(), memory.to_string(), spent.to_string());
        table.add_row([
            name.clone(),
            mail,
            memory,
            spent,
            describe_activity(stepper, id, life),
            id_of_said,
            said,
        ]);
    }
    table.print();
}

/// Returns the newest message of each role that has sent one. The search ends once each role has
/// one.
fn newest_messages(stepper: &Stepper) -> BTreeMap<&str, &Message> {
    let mut left: BTreeSet<&str> = stepper
        .team()
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    let mut messages = stepper.env().messages.iter().rev();
    let mut newest = BTreeMap::new();
    while !left.is_empty()
        && let Some(message) = messages.next()
    {
        if left.remove(message.sent_from.as_str()) {
            newest.insert(message.sent_from.as_str(), &**message);
        }
    }
    newest
}

/// Describes what a role is doing.
fn describe_activity(stepper: &Stepper, id: RoleId, life: HolderState) -> String {
    let role = stepper.team().role(id);
    let Some(activation) = &stepper.env().role(id).activation else {
        return "idle".into();
    };
    let what = match activation.current_work(role) {
        Some(Work::Think { round }) => format!("choice {round}"),
        Some(Work::Answer) => "the answer to its mail".into(),
        Some(Work::Plan) => format!("planning with 0 `{}`", role.actions[0].name),
        Some(Work::Act { action, .. }) => {
            format!("action {} `{}`", action.0, role.action(action).name)
        }
        None => return "finished, waits for the step to commit".into(),
    };
    let how = match &activation.phase {
        Phase::Ready | Phase::ReadyAfterFault(_) => "next",
        Phase::Running if life.is_cut_off(stepper) => "cut off",
        Phase::Running => "running",
        Phase::BackingOff => "waits for another try",
        // An interruption is not a fault of the action.
        Phase::Failed(fault) if fault.kind == FaultKind::Interrupted => "interrupted",
        Phase::Failed(_) => "FAILED",
        Phase::Complete => "finished",
        Phase::WaitingForHuman(_) => "waits for a person",
    };
    format!(
        "{what}: {how} (attempts {})",
        activation.current_call.attempts
    )
}

/// Shows what each action spent, and what the journal saved.
fn show_spending(stepper: &Stepper) {
    let line = |(slot, used): (&Slot, &Spending)| {
        let name = stepper.team().slot_name(*slot);
        let (calls, tokens) = (
            pluralize(used.calls, "call"),
            pluralize(used.tokens, "token"),
        );
        let served = match used.served {
            0 => String::new(),
            served => format!(
                ", {served} served from the journal, which saved {}",
                used.saved
            ),
        };
        let flaw = |count: u64, flaw: &str| match count {
            0 => String::new(),
            count => format!(", {flaw} replies: {count}"),
        };
        let flaws = flaw(used.truncated, "truncated") + &flaw(used.refused, "refused or filtered");
        format!(
            "  {name:<28} {} for {tokens} in {calls}{served}{flaws}",
            used.usd
        )
    };
    section("spending", stepper.env().ledger.iter().map(line));
}

fn show_faults(stepper: &Stepper, path: &Path, life: HolderState) {
    let fault = |(id, _, fault): (RoleId, &Activation, &Fault)| {
        let role = stepper.team().role(id);
        format!(
            "  {} {}: {}: {}",
            role.name,
            describe_activity(stepper, id, life),
            fault.kind,
            fault.message
        )
    };
    // An interruption is not a fault of the role that was working.
    let faults = || {
        stepper
            .env()
            .open_faults()
            .filter(|(_, _, fault)| fault.kind != FaultKind::Interrupted)
    };
    let told: Vec<String> = faults().map(fault).collect();
    // Messages of faults may have several lines, such as those of compilers. No line may look like
    // another fault.
    let lines = told.iter().flat_map(|text| {
        let mut lines = text.split('\n');
        let first = lines.next().map(str::to_owned);
        first
            .into_iter()
            .chain(lines.map(|line| format!("    {line}")))
    });
    let named = faults().find_map(|(id, activation, _)| {
        let work = activation
            .current_work(stepper.team().role(id))
            .filter(|work| *work != Work::Answer)?;
        Some(stepper.team().slot_name(charged_slot(id, work)))
    });
    let more = named.map(|name| {
        format!(
            "  stack, log and calls: strata-host inspect {} --action {}",
            shell_path(path),
            shell_word(&name)
        )
    });
    section("faults", lines.chain(more));
}

fn format_doubt(doubt: &CallInDoubt) -> String {
    format!("  {}: {}", doubt.id, doubt.what)
}

fn show_joins(stepper: &Stepper) {
    let text = |join: &JoinView| {
        format!(
            "  {} ({}, to `{}` by {}): {}",
            join.id,
            join.mode.name(),
            join.to,
            join.deliver.name(),
            describe_join(join)
        )
    };
    section("joins", JoinView::all(stepper).iter().map(text));
}

fn show_requests(stepper: &Stepper, path: &Path) {
    let open = OpenRequests::from_stepper(stepper, path);
    let mut lines = describe_requests(&open.requests);
    if let Some(answer) = &open.answer_command {
        lines.push(format!("  answer with: {}", shell_command(answer)));
    }
    section("requests", lines.into_iter());
}

fn show_mail(stepper: &Stepper, env: &Environment) {
    let mail = stepper.team().role_ids().flat_map(|id| {
        let name = stepper.team().role(id).name.clone();
        env.unfinished_mail(id).map(move |message| {
            let message = env.message(message);
            let from = if message.sent_from.is_empty() {
                "outside"
            } else {
                &message.sent_from
            };
            let (id, label) = (&message.id, &message.cause_by);
            format!(
                "  {name} <- {from} [{label}] {id}: {}",
                preview(&message.content, PREVIEW_CHARS)
            )
        })
    });
    section("mailboxes", mail);
    let dead = env.dead_letters.iter().map(|letter| {
        let message = env.message(letter.message);
        format!(
            "  to `{}` {}: {}",
            letter.to,
            message.id,
            preview(&message.content, PREVIEW_CHARS)
        )
    });
    section("dead letters", dead);
    let leaving = env.outbox.iter().map(|outbound| {
        let message = env.message(outbound.message);
        let (to, content) = (
            outbound.to.join(", "),
            preview(&message.content, PREVIEW_CHARS),
        );
        let failed = outbound
            .failed
            .as_ref()
            .map(|why| format!(" (FAILED: {why})"));
        format!(
            "  to {to} {}: {content}{}",
            message.id,
            failed.unwrap_or_default()
        )
    });
    section("on their way out", leaving);
}

fn section(title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        print_line("");
        print_line(title);
        for line in lines {
            print_line(&line);
        }
    }
}

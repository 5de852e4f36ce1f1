//! `inspect`: shows a saved state, for people as tables, for programs as the document that
//! `team.json` holds. The modules below show parts of it: an action, the host calls, a message.

mod action;
mod calls;
mod life;
mod message;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use strata_core::activation::{Activation, Phase};
use strata_core::budget::{Spending, spender};
use strata_core::environment::Environment;
use strata_core::event::Work;
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{CheckpointId, RoleId, Slot};
use strata_core::message::Message;
use strata_core::stepper::Stepper;

use action::Action;
use life::Life;
use table::Table;

use super::edits::look_for_edits;
use super::files;
use super::requests::{command, listing};
use super::{
    Failure, InspectArgs, counted, joins, path_word, preview, shell_word, show_json, show_line,
};
use crate::launch::{Doubt, SavedTeam, place, saved};
use crate::store::{At, follow_link, team_json};

/// The maximum number of characters shown of a role's last output.
const OUTPUT: usize = 40;
/// The maximum number of characters shown of a message.
const PREVIEW: usize = 70;

pub(super) fn inspect(args: &InspectArgs) -> Result<u8, Failure> {
    let (path, at) = match &args.checkpoint {
        Some(id) => {
            if let (path, At::Checkpoint(CheckpointId(other)) | At::Lineage(other)) =
                place(&args.path)?
            {
                let path = path_word(&path);
                let why = format!(
                    "two places were given, `{other}` behind `@` and `{id}` by `--checkpoint`"
                );
                return Err(Failure::usage(format!(
                    "{why}; name one: `strata-host inspect {path}@{}`",
                    shell_word(id)
                )));
            }
            (
                follow_link(Path::new(&args.path)),
                At::Checkpoint(CheckpointId(id.clone())),
            )
        }
        None => place(&args.path)?,
    };
    if args.calls && at != At::Head {
        return Err(Failure::usage(
            "`--calls` shows the recorded calls of all that is saved; leave `@ID` away",
        ));
    }
    let (path, json) = (path.as_path(), args.json);
    let life = Life::before(path, &at);
    let saved = saved(path, &at)?;
    let life = life.after(path);
    look_for_edits(path);
    let stepper = &saved.stepper;
    let action = args
        .action
        .as_ref()
        .map(|name| Action::named(stepper, name))
        .transpose()?;
    match (&args.message, action, args.calls) {
        (Some(id), _, _) if json => message::print_json(stepper, id)?,
        (Some(id), _, _) => message::show(stepper, id)?,
        (None, _, true) if json => calls::print_json(path, args.action.as_deref())?,
        (None, _, true) => calls::show(path, args.action.as_deref())?,
        (None, Some(action), false) if json => action.print_json(),
        (None, Some(action), false) => action.show(life, path),
        (None, None, false) if json => show_json(
            team_json::export(stepper.team(), stepper.env(), &saved.definition).trim_end(),
        ),
        (None, None, false) => show(&saved, path, &at, life),
    }
    Ok(0)
}

/// Returns the command that shows a state.
fn command_of(path: &Path, at: &At) -> String {
    let at = match at {
        At::Head => String::new(),
        At::Checkpoint(CheckpointId(id)) | At::Lineage(id) => format!("@{id}"),
    };
    let path = path_word(&PathBuf::from(format!("{}{at}", path.display())));
    format!("strata-host inspect {path}")
}

fn show(saved: &SavedTeam, path: &Path, at: &At, life: Life) {
    let stepper = &saved.stepper;
    show_overview(stepper, path, at, life);
    show_line("");
    show_roles(stepper, life);
    show_spending(stepper);
    show_faults(stepper, path, life);
    let when = if life.is_cut_off(stepper) {
        "in doubt on the next run"
    } else {
        "in doubt"
    };
    let doubts = life.doubts(stepper);
    section(
        &format!("{when} (resume with `--in-doubt redo|skip|VALUE`)"),
        doubts.iter().map(in_doubt),
    );
    show_joins(stepper);
    show_requests(stepper, path);
    section("files", files::listing(stepper));
    show_mail(stepper, stepper.env());
    section(
        "resume with",
        life.ways(saved, path, !doubts.is_empty()).into_iter(),
    );
}

/// Shows the lines about the run as a whole.
fn show_overview(stepper: &Stepper, path: &Path, at: &At, life: Life) {
    let (team, env) = (stepper.team(), stepper.env());
    let checkpoint = env.checkpoint.as_ref().map_or("none", |id| id.0.as_str());
    show_line(&format!("run         {} ({})", env.run, team.name));
    show_line(&format!("idea        {}", preview(&env.idea, PREVIEW)));
    show_line(&format!("status      {}", life.status(stepper)));
    let open = if env.open { "open" } else { "next" };
    show_line(&format!(
        "step        {} ({open}), checkpoint {checkpoint} of lineage {}",
        env.step, env.lineage.name
    ));
    let budget = env
        .budget
        .map_or_else(|| "no limit".into(), |budget| budget.to_string());
    let tokens = |most| format!(" and {} of {most} tokens", env.spending(|_| true).tokens);
    let tokens = team.policy.purses.tokens.map(tokens).unwrap_or_default();
    show_line(&format!("spent       {} of {budget}{tokens}", env.spent));
    let dead = counted(env.dead_letters.len() as u64, "dead letter");
    let in_full = format!("{} --message", command_of(path, at));
    show_line(&format!(
        "messages    {} published, {dead}; one in full: {in_full} ID",
        env.history.len()
    ));
    if let Some(output) = env.last_output(team) {
        let (from, id, text) = (
            &output.sent_from,
            &output.id,
            preview(&output.content, PREVIEW),
        );
        show_line(&format!("output      {id} of {from}: {text}"));
    }
}

/// Shows a table of the roles.
fn show_roles(stepper: &Stepper, life: Life) {
    let (team, env) = (stepper.team(), stepper.env());
    let mut table = Table::new(&[
        "role",
        "mail",
        "memory",
        "spent",
        "at",
        "message",
        "last output",
    ]);
    let newest = newest(stepper);
    for id in team.role_ids() {
        let (mail, memory) = (env.buffer(id).count(), env.memory(id).count());
        let (name, spent) = (
            &team.role(id).name,
            env.spending(|slot| slot.role == id).usd,
        );
        let (id_of_said, said) = match newest.get(name.as_str()) {
            Some(message) => (message.id.0.clone(), preview(&message.content, OUTPUT)),
            None => ("-".into(), "-".into()),
        };
        let (mail, memory, spent) = (mail.to_string(), memory.to_string(), spent.to_string());
        table.row([
            name.clone(),
            mail,
            memory,
            spent,
            standing(stepper, id, life),
            id_of_said,
            said,
        ]);
    }
    table.print();
}

/// Returns the newest message of each role that has sent one. The search ends once each role has
/// one.
fn newest(stepper: &Stepper) -> BTreeMap<&str, &Message> {
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
fn standing(stepper: &Stepper, id: RoleId, life: Life) -> String {
    let role = stepper.team().role(id);
    let Some(activation) = &stepper.env().role(id).activation else {
        return "idle".into();
    };
    let what = match activation.work(role) {
        Some(Work::Think { round }) => format!("choice {round}"),
        Some(Work::Answer) => "the answer to its mail".into(),
        Some(Work::Plan) => format!("planning with 0 `{}`", role.actions[0].name),
        Some(Work::Act { action, .. }) => {
            format!("action {} `{}`", action.0, role.action(action).name)
        }
        None => return "finished, waits for the step to commit".into(),
    };
    let how = match &activation.phase {
        Phase::Ready | Phase::Again(_) => "next",
        Phase::Running if life.is_cut_off(stepper) => "cut off",
        Phase::Running => "running",
        Phase::Resting => "waits for another try",
        // An interruption is not a fault of the action.
        Phase::Failed(fault) if fault.kind == FaultKind::Interrupted => "interrupted",
        Phase::Failed(_) => "FAILED",
        Phase::Complete => "finished",
        Phase::Waiting(_) => "waits for a person",
    };
    format!("{what}: {how} (attempts {})", activation.current.attempts)
}

/// Shows what each action spent, and what the journal saved.
fn show_spending(stepper: &Stepper) {
    let line = |(slot, used): (&Slot, &Spending)| {
        let name = stepper.team().slot_name(*slot);
        let (calls, tokens) = (counted(used.calls, "call"), counted(used.tokens, "token"));
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

fn show_faults(stepper: &Stepper, path: &Path, life: Life) {
    let fault = |(id, _, fault): (RoleId, &Activation, &Fault)| {
        let role = stepper.team().role(id);
        format!(
            "  {} {}: {}: {}",
            role.name,
            standing(stepper, id, life),
            fault.kind,
            fault.message
        )
    };
    // An interruption is not a fault of the role that was working.
    let faults = || {
        stepper
            .env()
            .faults()
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
            .work(stepper.team().role(id))
            .filter(|work| *work != Work::Answer)?;
        Some(stepper.team().slot_name(spender(id, work)))
    });
    let more = named.map(|name| {
        format!(
            "  stack, log and calls: strata-host inspect {} --action {}",
            path_word(path),
            shell_word(&name)
        )
    });
    section("faults", lines.chain(more));
}

fn in_doubt(doubt: &Doubt) -> String {
    format!("  {}: {}", doubt.id, doubt.what)
}

fn show_joins(stepper: &Stepper) {
    let text = |standing: joins::Standing<'_>| {
        let join = standing.join;
        format!(
            "  {} ({}, to `{}` by {}): {}",
            join.id,
            join.mode.name(),
            join.to,
            join.deliver.name(),
            standing.text()
        )
    };
    section("joins", joins::standings(stepper).map(text));
}

fn show_requests(stepper: &Stepper, path: &Path) {
    let mut lines = listing(stepper);
    if !lines.is_empty() {
        lines.push(format!("  answer with: {}", command(stepper, path)));
    }
    section("requests", lines.into_iter());
}

fn show_mail(stepper: &Stepper, env: &Environment) {
    let mail = stepper.team().role_ids().flat_map(|id| {
        let name = stepper.team().role(id).name.clone();
        env.buffer(id).map(move |message| {
            let message = env.message(message);
            let from = if message.sent_from.is_empty() {
                "outside"
            } else {
                &message.sent_from
            };
            let (id, label) = (&message.id, &message.cause_by);
            format!(
                "  {name} <- {from} [{label}] {id}: {}",
                preview(&message.content, PREVIEW)
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
            preview(&message.content, PREVIEW)
        )
    });
    section("dead letters", dead);
    let leaving = env.outbox.iter().map(|outbound| {
        let message = env.message(outbound.message);
        let (to, content) = (outbound.to.join(", "), preview(&message.content, PREVIEW));
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
        show_line("");
        show_line(title);
        for line in lines {
            show_line(&line);
        }
    }
}

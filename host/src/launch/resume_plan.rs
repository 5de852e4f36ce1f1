//! Resuming from an earlier checkpoint than the newest, which may belong to another lineage.

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::id::{CheckpointId, Slot};
use strata_core::record::money::Usd;
use strata_core::record::spending::Account;
use strata_core::team::ScopedBudgets;
use strata_driver::DriverError;
use strata_storage::{CheckpointRow, LineageRow, LoadedState, StateSelector, StoreError};

use super::LaunchError;
use super::opened_team::{OpenedTeam, ResumePlan, StateOrigin};
use super::saved::require_checkpoint;

impl OpenedTeam {
    /// Selects the checkpoint to resume from: its lineage is continued if the checkpoint is the
    /// newest there, otherwise a new lineage is begun. Nothing is written yet.
    pub(super) fn select_checkpoint(&mut self, id: &CheckpointId) -> Result<(), LaunchError> {
        let StateOrigin::Records { lease, .. } = &self.origin else {
            return require_checkpoint(self.stepper.env(), id);
        };
        let rows = lease.checkpoints()?;
        let lineage = rows
            .iter()
            .find(|row| row.id == *id)
            .map(|row| row.lineage.clone());
        let continued_lineage = lineage.filter(|lineage| is_newest(&rows, lineage, id));
        if continued_lineage.as_ref() == Some(&self.stepper.env().lineage.name) {
            return Ok(());
        }
        let lineages = lease.lineages()?;
        let account = total_account(lease.spent()?, &self.stepper, &lineages, &|at| {
            lease.load(at)
        })?;
        if let Some(lineage) = continued_lineage {
            let stepper = restore_stepper(
                &self.stepper,
                lease.load(&StateSelector::Lineage(lineage.clone()))?,
            )?;
            let (env, own_account) = (stepper.env(), account_at_stop(&stepper));
            // A finished lineage spends nothing more.
            if env.is_finished()
                || !would_forget_usage(
                    &self.definition.team.policy.scoped_budgets,
                    &account,
                    &own_account,
                )
            {
                let reserved = own_account.spent.0 - env.spent.0;
                let total_spent = Usd(account.spent.0.saturating_sub(reserved));
                self.plan = ResumePlan::SwitchLineage {
                    lineage,
                    total_spent,
                    questions: self.stepper.env().questions.clone(),
                };
                self.stepper = stepper;
                return Ok(());
            }
        }
        let name = next_lineage_name(&lineages);
        let at = restore_stepper(
            &self.stepper,
            lease.load(&StateSelector::Checkpoint(id.clone()))?,
        )?;
        let current = std::mem::replace(&mut self.stepper, at);
        let event = self.stepper.forked_event(name, Vec::new(), account);
        let event = event.map(|event| with_questions_of(&current, event));
        // There is no event only if the state is not that of a checkpoint.
        let event = event.ok_or_else(|| StoreError::NoCheckpoint {
            id: id.0.clone(),
            known: Vec::new(),
        })?;
        self.plan = ResumePlan::Fork(Box::new(event));
        Ok(())
    }
}

/// Returns whether resuming with `other` would forget usage that a limit counts and that `known`
/// contains. Only a new lineage can be given another account. The team's budget in dollars is
/// handled separately.
fn would_forget_usage(budgets: &ScopedBudgets, known: &Account, other: &Account) -> bool {
    let of_role = |slot: &Slot| budgets.roles.get(&slot.role).copied().unwrap_or_default();
    let of_action = |slot: &Slot| budgets.actions.get(slot).copied().unwrap_or_default();
    known.ledger.iter().any(|(slot, used)| {
        let counted = other.ledger.get(slot).copied().unwrap_or_default();
        let (role, action) = (of_role(slot), of_action(slot));
        let tokens = budgets.tokens.or(role.tokens).or(action.tokens);
        (tokens.is_some() && used.tokens > counted.tokens)
            || (role.usd.or(action.usd).is_some() && used.usd > counted.usd)
    })
}

/// Applies the events of `saved.tail` to `saved.base`; the team is that of `like`.
pub(super) fn restore_stepper(like: &Stepper, saved: LoadedState) -> Result<Stepper, LaunchError> {
    let mut stepper = like.with_env(saved.base);
    for record in &saved.tail {
        stepper.apply(&record.event).map_err(DriverError::from)?;
    }
    Ok(stepper)
}

/// Returns the event that begins a lineage, which also knows the questions that the current one knows.
pub(super) fn with_questions_of(current: &Stepper, mut event: Event) -> Event {
    if let Event::Forked(forked) = &mut event {
        forked.questions = current.env().questions.clone();
    }
    event
}

fn is_newest(rows: &[CheckpointRow], lineage: &str, id: &CheckpointId) -> bool {
    rows.iter()
        .rev()
        .find(|row| row.lineage == lineage)
        .is_some_and(|row| row.id == *id)
}

/// Returns the name of the next lineage. All names in a storage begin with that of the first
/// lineage, not with that of their parent, so that they stay short.
pub(super) fn next_lineage_name(lineages: &[LineageRow]) -> String {
    let first = lineages.first().map_or("", |first| first.name.as_str());
    let is_taken = |name: &String| lineages.iter().any(|row| row.name == *name);
    let mut names = (lineages.len()..).map(|n| format!("{first}.{n}"));
    names
        .find(|name| !is_taken(name))
        .expect("there are more numbers than lineages")
}

/// A function that loads a state of the same storage.
pub(super) type StateLoader<'a> = &'a dyn Fn(&StateSelector) -> Result<LoadedState, StoreError>;

/// Computes what was used up in all lineages of a storage, as if the current lineage stopped now.
/// What earlier lineages had reserved when they stopped is known only to the current one, because
/// each lineage passes it on to the next.
pub(super) fn total_account(
    spent: Usd,
    current: &Stepper,
    lineages: &[LineageRow],
    load: StateLoader<'_>,
) -> Result<Account, LaunchError> {
    let mut account = account_at_stop(current);
    account.spent = account.spent.max(spent);
    // There may be thousands of lineages. They are read only if more than the team's budget in
    // dollars is limited.
    let only_dollars_limited = current.team().policy.scoped_budgets == ScopedBudgets::default();
    let others = lineages
        .iter()
        .filter(|row| !only_dollars_limited && row.name != current.env().lineage.name);
    for row in others {
        account.merge_ledger(&account_at_stop(&restore_stepper(
            current,
            load(&StateSelector::Lineage(row.name.clone()))?,
        )?));
    }
    Ok(account)
}

pub(super) fn account_at_stop(stepper: &Stepper) -> Account {
    stepper.env().account_at_stop(stepper.team())
}

//! Going back: a saved team is gone on with from another checkpoint than its newest, perhaps on another lineage.

use std::path::Path;

use strata_core::budget::{Account, Purses};
use strata_core::environment::Environment;
use strata_core::event::Event;
use strata_core::id::{CheckpointId, Slot};
use strata_core::money::Usd;
use strata_core::stepper::Stepper;

use super::LaunchError;
use super::resume::{Opened, Origin};
use crate::driver::DriverError;
use crate::store::{At, CheckpointRow, LineageRow, Saved, Store, StoreError};

/// The way a run goes on.
pub(super) enum Way {
    /// With the current lineage.
    On,
    /// With the newest state of another one.
    Over {
        /// Its name.
        lineage: String,
        /// What was spent in all, without what is held back there: that is settled once it is gone on with.
        spent: Usd,
    },
    /// With another lineage, which this event begins.
    Aside(Box<Event>),
}

impl Way {
    /// What was spent that the state which is gone on with may not know of; the account of a new lineage says it itself.
    pub(super) fn spent(&self) -> Usd {
        if let Self::Over { spent, .. } = self {
            *spent
        } else {
            Usd::ZERO
        }
    }
}

impl Opened {
    /// Goes on from a checkpoint: with its lineage where it is the newest there, else with a new one. Nothing is
    /// changed yet.
    pub(super) fn go_back(&mut self, id: &CheckpointId) -> Result<(), LaunchError> {
        let Origin::Database { store, .. } = &self.origin else {
            return is_held(self.stepper.env(), id);
        };
        let rows = store.checkpoints()?;
        let lineage = rows
            .iter()
            .find(|row| row.id == *id)
            .map(|row| row.lineage.clone());
        let newest = lineage.filter(|lineage| is_newest(&rows, lineage, id));
        if newest.as_ref() == Some(&self.stepper.env().lineage.name) {
            return Ok(());
        }
        let lineages = store.lineages()?;
        let account = account(
            store.spent()?,
            &self.stepper,
            (&lineages, &|at| store.load(at)),
        )?;
        if let Some(lineage) = newest {
            let stepper = sum_up(&self.stepper, store.load(&At::Lineage(lineage.clone()))?)?;
            let (env, left) = (stepper.env(), account_left(&stepper));
            // Nothing more is spent by one that is finished.
            if env.is_finished()
                || !starts_over(&self.definition.team.policy.purses, &account, &left)
            {
                let held_back = left.spent.0 - env.spent.0;
                let spent = Usd(account.spent.0.saturating_sub(held_back));
                self.way = Way::Over { lineage, spent };
                self.stepper = stepper;
                return Ok(());
            }
        }
        let name = next_name(&lineages);
        self.stepper = sum_up(&self.stepper, store.load(&At::Checkpoint(id.clone()))?)?;
        let event = self.stepper.forked(name, Vec::new(), account);
        let event = event.ok_or_else(|| StoreError::NoCheckpoint {
            id: id.0.clone(),
            known: Vec::new(),
        })?;
        self.way = Way::Aside(Box::new(event));
        Ok(())
    }
}

/// Whether a cap would be held against less than was used up of it, by an account that knows less than this one. Only
/// a lineage that begins can be given another account, but for the money of the team.
fn starts_over(purses: &Purses, known: &Account, other: &Account) -> bool {
    let of_role = |slot: &Slot| purses.roles.get(&slot.role).copied().unwrap_or_default();
    let of_action = |slot: &Slot| purses.actions.get(slot).copied().unwrap_or_default();
    known.ledger.iter().any(|(slot, used)| {
        let counted = other.ledger.get(slot).copied().unwrap_or_default();
        let (role, action) = (of_role(slot), of_action(slot));
        let tokens = purses.tokens.or(role.tokens).or(action.tokens);
        (tokens.is_some() && used.tokens > counted.tokens)
            || (role.usd.or(action.usd).is_some() && used.usd > counted.usd)
    })
}

/// The state that a load stands for, of the same team as another.
pub(super) fn sum_up(like: &Stepper, saved: Saved) -> Result<Stepper, LaunchError> {
    let mut stepper = like.at(saved.base);
    for record in &saved.tail {
        stepper.apply(&record.event).map_err(DriverError::from)?;
    }
    Ok(stepper)
}

/// A `team.json` alone holds one checkpoint.
pub(super) fn is_held(env: &Environment, id: &CheckpointId) -> Result<(), LaunchError> {
    if env.checkpoint.as_ref() == Some(id) {
        return Ok(());
    }
    let known = env.checkpoint.iter().map(|id| id.0.clone()).collect();
    Err(StoreError::NoCheckpoint {
        id: id.0.clone(),
        known,
    }
    .into())
}

fn is_newest(rows: &[CheckpointRow], lineage: &str, id: &CheckpointId) -> bool {
    rows.iter()
        .rev()
        .find(|row| row.lineage == lineage)
        .is_some_and(|row| row.id == *id)
}

/// The name of the lineage that is made next. All names of a storage begin alike, however they are nested, so that
/// they stay short.
pub(super) fn next_name(lineages: &[LineageRow]) -> String {
    let first = lineages.first().map_or("", |first| first.name.as_str());
    let taken = |name: &String| lineages.iter().any(|row| row.name == *name);
    let mut names = (lineages.len()..).map(|n| format!("{first}.{n}"));
    names
        .find(|name| !taken(name))
        .expect("there are more numbers than lineages")
}

/// How a state of the same storage is loaded.
pub(super) type Load<'a> = &'a dyn Fn(&At) -> Result<Saved, StoreError>;

/// What was used up in all lineages of a storage, of which the current one is left. What was forfeited, by lineages
/// before it too, is known to that one alone: each hands it on to the next.
pub(super) fn account(
    spent: Usd,
    current: &Stepper,
    (lineages, load): (&[LineageRow], Load<'_>),
) -> Result<Account, LaunchError> {
    let mut account = account_left(current);
    account.spent = account.spent.max(spent);
    // There may be thousands: they are read only where the money of the team is not all that is capped.
    let is_all = current.team().policy.purses == Purses::default();
    let others = lineages
        .iter()
        .filter(|row| !is_all && row.name != current.env().lineage.name);
    for row in others {
        account.learn(&account_left(&sum_up(
            current,
            load(&At::Lineage(row.name.clone()))?,
        )?));
    }
    Ok(account)
}

pub(super) fn account_left(stepper: &Stepper) -> Account {
    stepper.env().account_left(stepper.team())
}

/// A path as it is hashed and shown: absolute, whatever it was given as.
pub(super) fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

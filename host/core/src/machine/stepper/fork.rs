//! The start of another lineage: at a checkpoint, with edited values in its scopes if the operator
//! wants that.

use alloc::string::String;
use alloc::vec::Vec;

use super::Stepper;
use super::checks::{ApplyResult, ensure};
use crate::record::edit::{Edit, EditedScope};
use crate::record::event::{Event, Forked};
use crate::record::spending::Account;

impl Stepper {
    /// Returns the event that starts another lineage with this state, or `None` if the state is not
    /// that of a checkpoint. `account` is that of all lineages together.
    pub fn forked_event(
        &self,
        lineage: String,
        edits: Vec<Edit>,
        account: Account,
    ) -> Option<Event> {
        let from = self.env.checkpoint.clone()?;
        let checkpoint = self
            .env
            .lineage
            .fork(&lineage, &from)
            .checkpoint_id(self.env.checkpoint_count);
        let account = Account {
            spent: account.spent.max(self.env.spent),
            ..account
        };
        Some(Event::Forked(Forked {
            lineage,
            from,
            checkpoint,
            step: self.env.step,
            edits,
            account,
        }))
    }

    pub(super) fn apply_forked(&mut self, forked: &Forked) -> ApplyResult {
        let Forked {
            lineage,
            from,
            checkpoint,
            step,
            edits,
            account,
        } = forked;
        self.ensure_started()?;
        ensure(
            self.env.checkpoint.as_ref() == Some(from) && *step == self.env.step,
            "a fork from another place",
        )?;
        ensure(
            !lineage.is_empty() && !self.env.lineage.is_self_or_ancestor(lineage),
            "a fork that is no other lineage",
        )?;
        let new_lineage = self.env.lineage.fork(lineage, from);
        ensure(
            *checkpoint == new_lineage.checkpoint_id(self.env.checkpoint_count),
            "a fork that does not count on",
        )?;
        ensure(
            account.spent >= self.env.spent,
            "a fork that gives money back",
        )?;
        account
            .ledger
            .keys()
            .try_for_each(|slot| self.ensure_slot_exists(*slot))?;
        ensure(
            edits.iter().all(|edit| self.team.has_scope(&edit.scope)),
            "an edit of a scope that does not exist",
        )?;
        for Edit { scope, key, value } in edits {
            let scope = match scope {
                EditedScope::Shared(name) => {
                    self.env.shared_scopes.entry(name.clone()).or_default()
                }
                EditedScope::Role(id) => &mut self.env.roles[id.index()].scope,
            };
            scope.insert(key.clone(), value.clone());
        }
        self.env.adopt_account(account);
        self.env.lineage = new_lineage;
        self.set_checkpoint(checkpoint.clone(), Some(from.clone()));
        Ok(())
    }
}

//! Caps: what several runs may cost together. They are kept in a database.
//!
//! No call asks the database for permission. A process takes a part of a cap ahead of time, its slice, and
//! draws from it what the next calls may cost. A call is charged with what it is expected to cost before it is
//! sent, and with what it cost when it has returned. Whatever a process draws counts as used from then on, so
//! that a cap is not exceeded even if the process is killed. What is known of one cap is in `account`.

mod account;
#[cfg(any(test, feature = "test-support"))]
mod memory;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Serialize, Serializer};
use strata_base::process::wait::wait;
use strata_core::record::event::CapReached;
use strata_core::record::money::Usd;
use tokio::sync::oneshot;

use super::StoreError;
use account::{AccountAnswer, CapAccount};
#[cfg(any(test, feature = "test-support"))]
pub use memory::MemoryCap;

/// The most dollars that a cap may have. A database stores caps as signed 64-bit integers in units of 10⁻¹² US
/// dollars, the largest of which is about 9.2 million dollars; this is rounded down.
pub const MAX_CAP_DOLLARS: f64 = 9e6;

/// The name of the scope of all runs.
const ALL: &str = "all";

/// How long a run waits for a draw. It can do nothing else meanwhile.
const DRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// What a cap applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapScope {
    /// All runs of the installation.
    All,
    /// The runs that were submitted with this name.
    Named(String),
}

impl CapScope {
    /// Parses the name of a scope; `all` is that of all runs.
    ///
    /// # Errors
    /// Fails with a description if it is no name.
    pub fn parse(name: &str) -> Result<Self, String> {
        /// Enough for the id of any tenant.
        const MAX_BYTES: usize = 100;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name == ALL {
            return Ok(Self::All);
        }
        if name.is_empty() || name.len() > MAX_BYTES || !name.chars().all(fits) {
            return Err(format!(
                "use at most {MAX_BYTES} letters, digits, `.`, `_` and `-`"
            ));
        }
        Ok(Self::Named(name.into()))
    }

    /// Parses the name of a scope to which a run can belong besides that of all runs.
    ///
    /// # Errors
    /// Fails with a description if it is no name, or that of all runs.
    pub fn parse_named(name: &str) -> Result<Self, String> {
        match Self::parse(name)? {
            Self::All => Err(format!("each run belongs to `{ALL}`; use another name")),
            named => Ok(named),
        }
    }

    /// Returns the scope with the name of a stored one.
    pub fn from_stored(name: &str) -> Self {
        match name {
            ALL => Self::All,
            name => Self::Named(name.into()),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::All => ALL,
            Self::Named(name) => name,
        }
    }
}

impl Serialize for CapScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for CapScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a cap stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapState {
    /// What it applies to.
    pub scope: CapScope,
    /// What the runs may cost together.
    pub cap: Usd,
    /// What they have cost, and what calls under way may cost.
    pub spent: Usd,
    /// What processes hold of the rest.
    pub held: Usd,
}

/// What an operator does with a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapChange {
    /// Sets it, or creates it with nothing spent. It may be at most [`MAX_CAP_DOLLARS`].
    Set(Usd),
    /// Counts what is spent from zero.
    Restart,
    /// Removes it.
    Remove,
}

/// The outcome of drawing from a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapDraw {
    /// There is no such cap.
    NoCap,
    /// This may be spent.
    Drawn {
        /// How much was drawn.
        usd: Usd,
        /// The generation of the cap: a number that no other cap has, and that changes when it is counted anew.
        generation: i64,
    },
    /// Other processes hold what is needed, or have drawn it, and may give it back.
    HeldByOthers,
    /// Less is left than is needed.
    UsedUp {
        /// The cap.
        cap: Usd,
    },
}

/// What a process gives back of a cap, besides its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapReturn {
    /// The generation of the cap from which it was drawn. Another one takes nothing back.
    pub generation: i64,
    /// What was drawn and not spent. Negative if calls cost more than was expected of them.
    pub unspent: i128,
}

/// Where caps are kept, on behalf of one process.
pub trait CapStore: Send + Sync {
    /// Draws at least `needed` from a cap.
    fn draw(
        &self,
        scope: &CapScope,
        needed: Usd,
    ) -> BoxFuture<'static, Result<CapDraw, StoreError>>;

    /// Gives back the slice of this process, and what it has drawn from it and not spent. Doing this again has no
    /// effect before the next draw.
    fn give_back(
        &self,
        scope: &CapScope,
        what: CapReturn,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Carries out what waits for the database, on no thread that drives a run.
    fn spawn(&self, work: BoxFuture<'static, ()>);
}

/// What a heartbeat says of caps, in the order of their scopes. No draw begins before it was dropped.
#[derive(Debug)]
pub struct CapReport<'a> {
    /// The scopes about which it asks.
    pub scopes: Vec<CapScope>,
    /// What was drawn of each cap and is not known to be spent. `None` if a draw is under way, which changes it.
    pub drawn: Vec<Option<i64>>,
    /// The scopes of which this process holds a slice.
    pub slices: Vec<CapScope>,
    /// `None` if a draw is under way.
    asking: Option<tokio::sync::MutexGuard<'a, ()>>,
}

/// What a process may spend of the caps in a database.
pub struct CapAccounts {
    store: Box<dyn CapStore>,
    accounts: Mutex<BTreeMap<CapScope, CapAccount>>,
    /// Held while the database is asked, so that one draw serves all runs that wait for it.
    asking: tokio::sync::Mutex<()>,
}

impl fmt::Debug for CapAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapAccounts").finish_non_exhaustive()
    }
}

impl CapAccounts {
    /// Returns those of a process that has drawn nothing.
    pub fn new(store: Box<dyn CapStore>) -> Self {
        // What is known of the cap of all runs is kept while there is no run: calls are made without asking if the
        // database cannot be reached.
        let all = BTreeMap::from([(CapScope::All, CapAccount::default())]);
        Self {
            store,
            accounts: Mutex::new(all),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CapScope, CapAccount>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the caps of a run, which `leave` ends.
    pub fn join(self: &Arc<Self>, scope: Option<CapScope>) -> RunCaps {
        let named = scope.filter(|scope| *scope != CapScope::All);
        let scopes: Vec<CapScope> = [CapScope::All].into_iter().chain(named).collect();
        let mut accounts = self.lock();
        for scope in &scopes {
            accounts.entry(scope.clone()).or_default().runs += 1;
        }
        drop(accounts);
        RunCaps {
            accounts: Some(Arc::clone(self)),
            scopes,
        }
    }

    /// Returns what the next heartbeat says.
    pub fn report(&self) -> CapReport<'_> {
        let asking = self.asking.try_lock().ok();
        let (mut scopes, mut drawn, mut slices) = (Vec::new(), Vec::new(), Vec::new());
        for (scope, account) in self.lock().iter() {
            scopes.push(scope.clone());
            drawn.push(asking.as_ref().map(|_| account.drawn()));
            if account.holds_slice() {
                slices.push(scope.clone());
            }
        }
        CapReport {
            scopes,
            drawn,
            slices,
            asking,
        }
    }

    /// Notes which of the scopes of a report have caps, of which generations. What has not been used for a while
    /// is given back, and what could not be given back before.
    pub fn note_heartbeat(
        self: &Arc<Self>,
        report: CapReport<'_>,
        generations: &BTreeMap<CapScope, i64>,
    ) {
        let mut unused = Vec::new();
        let mut accounts = self.lock();
        for scope in &report.scopes {
            if let Some(account) = accounts.get_mut(scope) {
                match report.asking {
                    Some(_) => account.note_heartbeat(generations.get(scope).copied()),
                    // The draw may know more than this heartbeat.
                    None => account.unblock(),
                }
                if account.should_give_back() {
                    unused.push(scope.clone());
                }
            }
        }
        forget_empty(&mut accounts);
        drop((accounts, report));
        for scope in unused {
            let all = Arc::clone(self);
            let giving_back = async move { all.give_back(&scope).await };
            self.store.spawn(Box::pin(giving_back));
        }
    }

    /// Gives back what is not needed of a cap. If this fails, the next heartbeat does it.
    async fn give_back(&self, scope: &CapScope) {
        let _asking = self.asking.lock().await;
        // A run may have begun to need it.
        let unused = match self.lock().get_mut(scope) {
            Some(account) if account.should_give_back() => account.close(),
            _ => None,
        };
        let Some(unused) = unused else {
            return;
        };
        match self.store.give_back(scope, unused).await {
            Ok(()) => {
                let mut accounts = self.lock();
                if let Some(account) = accounts.get_mut(scope) {
                    account.note_given_back();
                }
                forget_empty(&mut accounts);
            }
            Err(error) => tracing::debug!("nothing is given back to the cap of `{scope}`: {error}"),
        }
    }

    /// Draws from caps what a call is expected to cost. Returns the cap that is used up, if one is.
    async fn draw(&self, scopes: &[CapScope], usd: Usd) -> Option<CapReached> {
        let _asking = self.asking.lock().await;
        for scope in scopes {
            let needed = self.lock().entry(scope.clone()).or_default().needed(usd);
            let Some(needed) = needed else {
                continue;
            };
            let drawn = match self.store.draw(scope, needed).await {
                Ok(drawn) => drawn,
                Err(error) => {
                    tracing::debug!("nothing can be drawn from the cap of `{scope}`: {error}");
                    CapDraw::HeldByOthers
                }
            };
            let mut accounts = self.lock();
            let account = accounts.entry(scope.clone()).or_default();
            if let Some(cap) = account.note_draw(drawn) {
                return Some(CapReached {
                    scope: scope.name().into(),
                    cap,
                });
            }
        }
        None
    }

    /// Lets the calls that need more of these caps wait for the next heartbeat.
    fn block(&self, scopes: &[CapScope], usd: Usd) {
        let mut accounts = self.lock();
        for scope in scopes {
            let account = accounts.entry(scope.clone()).or_default();
            if account.needed(usd).is_some() {
                account.note_draw(CapDraw::HeldByOthers);
            }
        }
    }
}

/// Removes the accounts of scopes which no run has and of which nothing is left.
fn forget_empty(accounts: &mut BTreeMap<CapScope, CapAccount>) {
    accounts.retain(|scope, account| *scope == CapScope::All || !account.is_empty());
}

/// The caps that apply to a run.
#[derive(Clone, Debug, Default)]
pub struct RunCaps {
    /// `None` if there can be none.
    accounts: Option<Arc<CapAccounts>>,
    scopes: Vec<CapScope>,
}

/// Whether the caps of a run allow a call.
#[derive(Debug)]
pub enum CapAdmission {
    /// They do; it is charged with what it is expected to cost.
    Charged(CapCharge),
    /// Not before more was drawn from them.
    Short,
    /// Not while so much is held by other calls and processes. The next heartbeat may change that.
    Blocked,
}

impl RunCaps {
    /// Charges a call, before it is sent, with what it is expected to cost.
    pub fn charge(&self, usd: Usd) -> CapAdmission {
        let Some(all) = self.accounts.as_ref().filter(|_| usd != Usd::ZERO) else {
            return CapAdmission::Charged(CapCharge::default());
        };
        let mut accounts = all.lock();
        let mut charged = Vec::new();
        for scope in &self.scopes {
            match accounts.entry(scope.clone()).or_default().answer(usd) {
                AccountAnswer::NoCap => {}
                AccountAnswer::Enough { generation } => charged.push(ChargedScope {
                    scope: scope.clone(),
                    generation,
                }),
                AccountAnswer::Short => return CapAdmission::Short,
                AccountAnswer::Blocked => return CapAdmission::Blocked,
            }
        }
        for ChargedScope { scope, .. } in &charged {
            accounts.entry(scope.clone()).or_default().charge(usd);
        }
        drop(accounts);
        CapAdmission::Charged(CapCharge {
            accounts: Some(Arc::clone(all)).filter(|_| !charged.is_empty()),
            scopes: charged,
            usd,
            is_sent: false,
        })
    }

    /// Draws from the caps what a call is expected to cost. Returns the cap that is used up, if one is. What arrives
    /// too late to be waited for is there for a later call.
    pub async fn draw(&self, usd: Usd) -> Option<CapReached> {
        let all = self.accounts.as_ref()?;
        let (answer, answered) = oneshot::channel();
        let (accounts, scopes) = (Arc::clone(all), self.scopes.clone());
        all.store.spawn(Box::pin(async move {
            // Nobody may wait for it any more.
            let _ = answer.send(accounts.draw(&scopes, usd).await);
        }));
        match tokio::time::timeout(DRAW_TIMEOUT, answered).await {
            Ok(Ok(reached)) => reached,
            _ => {
                all.block(&self.scopes, usd);
                None
            }
        }
    }

    /// Ends the run's part in its caps. What no other run of this process can spend is given back.
    pub fn leave(&self) {
        let Some(all) = &self.accounts else {
            return;
        };
        let mut unused = Vec::new();
        let mut accounts = all.lock();
        for scope in &self.scopes {
            if let Some(account) = accounts.get_mut(scope) {
                account.runs = account.runs.saturating_sub(1);
                // A draw may be under way, for a run that does not wait for it any more.
                let may_hold_more = account.runs == 0 && all.asking.try_lock().is_err();
                if account.should_give_back() || may_hold_more {
                    unused.push(scope);
                }
            }
        }
        forget_empty(&mut accounts);
        drop(accounts);
        for scope in unused {
            wait(all.give_back(scope));
        }
    }
}

/// A scope in which a call is charged.
#[derive(Debug)]
struct ChargedScope {
    scope: CapScope,
    /// The generation of its cap.
    generation: i64,
}

/// What a call is charged with. If this is dropped before the call was sent, it is charged with nothing; after
/// that, its answer was lost, and it is charged in full.
#[derive(Debug, Default)]
pub struct CapCharge {
    /// `None` if no cap applies to the call.
    accounts: Option<Arc<CapAccounts>>,
    scopes: Vec<ChargedScope>,
    usd: Usd,
    is_sent: bool,
}

impl CapCharge {
    /// Notes that the call is sent.
    pub fn note_sent(&mut self) {
        self.is_sent = true;
    }

    /// Charges the call with what it cost.
    pub fn complete(mut self, cost: Usd) {
        self.charge_finally(cost);
    }

    fn charge_finally(&mut self, cost: Usd) {
        let Some(all) = self.accounts.take() else {
            return;
        };
        let mut accounts = all.lock();
        for ChargedScope { scope, generation } in &self.scopes {
            // The last run with this scope may have left.
            if let Some(account) = accounts.get_mut(scope) {
                account.complete(*generation, self.usd, cost);
            }
        }
    }
}

impl Drop for CapCharge {
    fn drop(&mut self) {
        self.charge_finally(if self.is_sent { self.usd } else { Usd::ZERO });
    }
}

#[cfg(test)]
mod tests;

//! Who makes a request, and what the token of that one may see and do. A token has rights within its tenant; what it may
//! not see does not exist for it.

use std::fmt;

use serde::{Deserialize, Serialize};
use strata_host::launch::Author;
use strata_host::storage::{DEFAULT_TENANT, ServedFilter, ServedRun};

use crate::problem::Problem;

/// A right of a token.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Start runs, and see, send to, pause, resume and cancel those that this token started.
    Submit,
    /// See all runs of the tenant.
    View,
    /// See the open requests of the tenant, and answer them.
    Answer,
    /// Send to, pause, resume, cancel, fork, prune and delete all runs of the tenant.
    Operate,
    /// Make and revoke tokens of the tenant; without a tenant, everything that concerns all of them.
    Admin,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 5] = [
        Self::Submit,
        Self::View,
        Self::Answer,
        Self::Operate,
        Self::Admin,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::View => "view",
            Self::Answer => "answer",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// Returns the right with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is done with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Its state, its events and its files are read.
    See,
    /// Its open requests are read.
    SeeRequests,
    /// Its requests are answered.
    Answer,
    /// A message is sent to it, or it is paused, resumed or cancelled.
    Control,
    /// It is forked, pruned or deleted.
    Operate,
}

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The name of the token, which is recorded as who did it.
    pub name: String,
    /// The tenant of the token; `None` for one of all tenants.
    pub tenant: Option<String>,
    /// Its rights.
    pub rights: Vec<Right>,
}

impl Caller {
    /// Returns the caller of the token that belongs to the storage itself.
    pub fn of_storage() -> Self {
        Self {
            name: "local".into(),
            tenant: None,
            rights: Right::ALL.to_vec(),
        }
    }

    /// Whether the token has a right.
    pub fn has(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// Fails unless the token has a right.
    pub fn require(&self, right: Right) -> Result<(), Problem> {
        if !self.has(right) {
            return Err(Problem::forbidden(format!("the right `{right}` is needed")));
        }
        Ok(())
    }

    /// Fails unless the token is an administrator's of all tenants.
    pub fn require_all_tenants(&self) -> Result<(), Problem> {
        self.require(Right::Admin)?;
        match self.tenant {
            None => Ok(()),
            Some(_) => Err(Problem::forbidden(
                "a token without a tenant is needed, with the right `admin`",
            )),
        }
    }

    /// Returns its name, as who did something.
    pub fn author(&self) -> Author {
        // A token's name can be recorded.
        Author::parse(&self.name).unwrap_or_else(|_| Author::of_process())
    }

    /// Returns the tenant of what the token makes.
    pub fn own_tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(DEFAULT_TENANT)
    }

    /// Whether a tenant is one of the token's.
    pub fn is_of_tenant(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// Whether this token started a run.
    fn has_started(&self, run: &ServedRun) -> bool {
        self.has(Right::Submit) && run.submitter == self.name && run.tenant == self.own_tenant()
    }

    /// Whether the token may do something with a run.
    pub fn may(&self, deed: Deed, run: &ServedRun) -> bool {
        if !self.is_of_tenant(&run.tenant) {
            return false;
        }
        match deed {
            Deed::See => self.has(Right::View) || self.has(Right::Operate) || self.has_started(run),
            Deed::SeeRequests => self.has(Right::Answer) || self.may(Deed::See, run),
            Deed::Answer => self.has(Right::Answer),
            Deed::Control => self.has(Right::Operate) || self.has_started(run),
            Deed::Operate => self.has(Right::Operate),
        }
    }

    /// Fails unless the token may do something with a run. One that it may not even see is unknown.
    pub fn authorize(&self, deed: Deed, run: &ServedRun) -> Result<(), Problem> {
        if self.may(deed, run) {
            return Ok(());
        }
        let sees = self.may(Deed::See, run)
            || (self.may(Deed::SeeRequests, run)
                && run
                    .listing
                    .overview
                    .as_ref()
                    .is_some_and(|one| one.requests > 0));
        if sees {
            Err(Problem::forbidden(match deed {
                Deed::See | Deed::SeeRequests => "the right `view` is needed",
                Deed::Answer => "the right `answer` is needed",
                Deed::Control => "the right `operate` is needed, or the token that started the run",
                Deed::Operate => "the right `operate` is needed",
            }))
        } else {
            Err(Problem::not_found("run"))
        }
    }

    /// Returns which runs the token sees; `None` if there are none.
    pub fn visible_runs(&self) -> Option<ServedFilter> {
        let tenant = self.tenant.clone();
        if self.has(Right::View) || self.has(Right::Operate) {
            return Some(ServedFilter {
                tenant,
                ..ServedFilter::default()
            });
        }
        self.has(Right::Submit).then(|| ServedFilter {
            tenant: Some(self.own_tenant().into()),
            owner: Some(self.name.clone()),
            ..ServedFilter::default()
        })
    }

    /// Returns of which runs the token sees the open requests; `None` if there are none.
    pub fn visible_requests(&self) -> Option<ServedFilter> {
        if self.has(Right::Answer) {
            Some(ServedFilter {
                tenant: self.tenant.clone(),
                ..ServedFilter::default()
            })
        } else {
            self.visible_runs()
        }
    }
}

#[cfg(test)]
mod tests {
    use strata_host::storage::{LifecycleState, RunListing, StorageLocation};

    use super::*;

    fn caller(name: &str, tenant: Option<&str>, rights: &[Right]) -> Caller {
        Caller {
            name: name.into(),
            tenant: tenant.map(str::to_owned),
            rights: rights.to_vec(),
        }
    }

    fn run(tenant: &str, submitter: &str) -> ServedRun {
        ServedRun {
            id: "1".into(),
            key: 1,
            tenant: tenant.into(),
            submitter: submitter.into(),
            listing: RunListing {
                location: StorageLocation::new("sqlite:runs.db?run=one"),
                name: "one".into(),
                overview: None,
                state: LifecycleState::Running,
                owner: None,
                queued: None,
                created_ms: None,
                changed_ms: None,
                ended_ms: None,
            },
            due_ms: None,
        }
    }

    #[test]
    fn what_a_token_may_do_follows_from_its_rights() {
        use Deed::*;
        let all = [See, SeeRequests, Answer, Control, Operate];
        let check = |rights: &[Right], own: bool, expected: &[Deed]| {
            let submitter = if own { "ann" } else { "bob" };
            let caller = caller("ann", Some("red"), rights);
            let may: Vec<Deed> = all
                .into_iter()
                .filter(|deed| caller.may(*deed, &run("red", submitter)))
                .collect();
            assert_eq!(may, expected, "{rights:?}, own: {own}");
            let elsewhere = run("blue", submitter);
            for deed in all {
                assert!(!caller.may(deed, &elsewhere));
                let problem = caller.authorize(deed, &elsewhere).unwrap_err();
                assert_eq!(problem.status.as_u16(), 404);
            }
        };
        check(&[Right::Submit], true, &[See, SeeRequests, Control]);
        check(&[Right::Submit], false, &[]);
        check(&[Right::View], false, &[See, SeeRequests]);
        check(&[Right::View], true, &[See, SeeRequests]);
        check(&[Right::Answer], false, &[SeeRequests, Answer]);
        check(
            &[Right::Operate],
            false,
            &[See, SeeRequests, Control, Operate],
        );
        check(&[Right::Admin], true, &[]);
        check(&[], true, &[]);
    }

    #[test]
    fn a_token_of_the_same_name_in_another_tenant_started_nothing_here() {
        let other = caller("ann", None, &[Right::Submit]);
        assert!(!other.may(Deed::See, &run("red", "ann")));
        assert!(other.may(Deed::See, &run(DEFAULT_TENANT, "ann")));
    }

    #[test]
    fn what_is_seen_and_not_allowed_is_forbidden_and_the_rest_unknown() {
        let check = |rights: &[Right], deed: Deed, expected: u16| {
            let caller = caller("ann", Some("red"), rights);
            let problem = caller.authorize(deed, &run("red", "bob")).unwrap_err();
            assert_eq!(problem.status.as_u16(), expected, "{rights:?} {deed:?}");
        };
        check(&[Right::View], Deed::Control, 403);
        check(&[Right::View], Deed::Answer, 403);
        check(&[Right::View], Deed::Operate, 403);
        check(&[Right::Submit], Deed::See, 404);
        check(&[Right::Submit], Deed::Control, 404);
        check(&[Right::Answer], Deed::See, 404);
        check(&[Right::Operate], Deed::Answer, 403);
    }

    #[test]
    fn nobody_sees_a_run_without_a_right_to_see_it() {
        assert_eq!(caller("a", None, &[Right::Admin]).visible_runs(), None);
        assert_eq!(caller("a", None, &[Right::Answer]).visible_runs(), None);
        let own = caller("a", Some("red"), &[Right::Submit]).visible_runs();
        let own = own.unwrap();
        assert_eq!(own.owner.as_deref(), Some("a"));
        assert_eq!(own.tenant.as_deref(), Some("red"));
        let all = caller("a", Some("red"), &[Right::View]).visible_runs();
        assert_eq!(all.unwrap().tenant.as_deref(), Some("red"));
        let every = Caller::of_storage().visible_runs().unwrap();
        assert_eq!(every, ServedFilter::default());
    }
}

//! What of an environment is compared where places in the arena of messages may differ: everything
//! by content.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::activation::Activation;
use strata_core::environment::scope::Scope;
use strata_core::environment::{Environment, MessageRef};
use strata_core::message::Message;
use strata_core::team::Deliver;

/// An environment by content.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The open or next step.
    pub step: u64,
    /// What was published.
    pub history: Vec<Arc<Message>>,
    /// The roles.
    pub roles: Vec<RoleView>,
    /// The shared scopes.
    pub shared: BTreeMap<String, Scope>,
    /// What waits in the joins, by source.
    pub joins: Vec<Vec<Vec<Arc<Message>>>>,
    /// What went to nobody.
    pub dead_letters: Vec<(Arc<Message>, String)>,
}

/// A role by content.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleView {
    /// Its mail.
    pub mailbox: Vec<(Arc<Message>, Deliver)>,
    /// What it remembers.
    pub memory: Vec<Arc<Message>>,
    /// Its own scope.
    pub scope: Scope,
    /// The newest message it took.
    pub latest: Option<Arc<Message>>,
    /// What it is at: its mail, and how many calls it finished.
    pub open: Option<(Vec<Arc<Message>>, usize)>,
}

/// Everything by content.
pub fn view(env: &Environment) -> View {
    let one = |id: &MessageRef| env.message(*id).clone();
    let open = |activation: &Activation| (env.resolve(&activation.news), activation.done.len());
    let role = |role: &strata_core::environment::RoleState| RoleView {
        mailbox: role
            .mailbox
            .iter()
            .map(|mail| (one(&mail.message), mail.deliver))
            .collect(),
        memory: env.resolve(&role.memory),
        scope: role.scope.clone(),
        latest: role.latest.as_ref().map(one),
        open: role.activation.as_ref().map(open),
    };
    View {
        step: env.step,
        history: env.resolve(&env.history),
        roles: env.roles.iter().map(role).collect(),
        shared: env.shared.clone(),
        joins: env
            .joins
            .iter()
            .map(|join| {
                join.queues
                    .iter()
                    .map(|q| q.iter().map(one).collect())
                    .collect()
            })
            .collect(),
        dead_letters: env
            .dead_letters
            .iter()
            .map(|dead| (one(&dead.message), dead.to.clone()))
            .collect(),
    }
}

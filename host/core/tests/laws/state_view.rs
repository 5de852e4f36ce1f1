//! The part of a state that is compared when references to messages may differ: everything by
//! content.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::message::Message;
use strata_core::record::shape::DeliveryMode;
use strata_core::record::work::ActivationKey;
use strata_core::state::activation::Activation;
use strata_core::state::environment::Environment;
use strata_core::state::environment::scope::Scope;
use strata_core::state::messages::MessageRef;

/// A state by content.
#[derive(Clone, Debug, PartialEq)]
pub struct StateView {
    /// The open or next step.
    pub step: u64,
    /// What was published.
    pub history: Vec<Arc<Message>>,
    /// The roles.
    pub roles: Vec<RoleView>,
    pub shared: BTreeMap<String, Scope>,
    /// What waits in the joins, by source.
    pub joins: Vec<Vec<Vec<Arc<Message>>>>,
    /// Messages to names that nobody has.
    pub dead_letters: Vec<(Arc<Message>, String)>,
}

/// The state of a role by content.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleView {
    /// Its mail.
    pub mailbox: Vec<(Arc<Message>, DeliveryMode)>,
    /// Its memory.
    pub memory: Vec<Arc<Message>>,
    /// Its private scope.
    pub scope: Scope,
    /// The newest message it took from its mailbox.
    pub latest: Option<Arc<Message>>,
    /// Its open activation: the messages it handles, and how many calls it finished.
    pub open: Option<(Vec<Arc<Message>>, usize)>,
    /// The same of the roles that it called.
    pub called: Vec<(ActivationKey, Vec<Arc<Message>>, usize)>,
}

/// Returns a state by content.
pub fn state_view(env: &Environment) -> StateView {
    let one = |id: &MessageRef| env.message(*id).clone();
    let open = |activation: &Activation| (env.resolve(&activation.news), activation.done.len());
    let called = |(key, activation): (&ActivationKey, &Activation)| {
        let (news, done) = open(activation);
        (*key, news, done)
    };
    let role = |role: &strata_core::state::environment::RoleState| RoleView {
        mailbox: role
            .mailbox
            .iter()
            .map(|mail| (one(&mail.message), mail.deliver))
            .collect(),
        memory: env.resolve(&role.memory),
        scope: role.scope.clone(),
        latest: role.latest.as_ref().map(one),
        open: role.activation.as_ref().map(open),
        called: role.called.iter().map(called).collect(),
    };
    StateView {
        step: env.step,
        history: env.resolve(&env.history),
        roles: env.roles.iter().map(role).collect(),
        shared: env.shared_scopes.clone(),
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

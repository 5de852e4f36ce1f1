//! Compares two states of a team and returns the differences as data. The states are loaded in
//! `launch`; the differences are rendered in `strata-cli`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_core::machine::stepper::Stepper;
use strata_core::record::id::RoleId;
use strata_core::record::message::Message;
use strata_core::record::work::ActivationKey;
use strata_core::state::activation::Activation;
use strata_core::state::environment::Environment;
use strata_core::state::environment::scope::Scope;
use strata_core::state::messages::MessageRef;

/// A value that differs between the two states; `None` where a state has no such value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueChange {
    /// The name of the value.
    pub name: String,
    /// The value in the first state.
    pub one: Option<Value>,
    /// The value in the second state.
    pub other: Option<Value>,
}

/// A key of a scope whose value differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeKeyChange {
    /// The scope, in the notation of `fork --set`.
    pub scope: String,
    /// The key and its values.
    #[serde(flatten)]
    pub change: ValueChange,
}

/// Messages that only one state has in a role's mailbox, in a join, or among the published
/// messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageDifference {
    /// The role or the join; empty for published messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Those that only the first state has.
    pub one: Vec<MessageSummary>,
    /// Those that only the second state has.
    pub other: Vec<MessageSummary>,
}

/// A summary of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageSummary {
    /// Its id.
    pub id: String,
    /// The sender; empty for messages from outside.
    pub from: String,
    /// The label.
    pub cause_by: String,
    /// The text.
    pub content: String,
}

/// How two states differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateDifference {
    /// Status, step, spending, budget, faults and the number of dead letters.
    pub run: Vec<ValueChange>,
    /// Keys of scopes.
    pub scopes: Vec<ScopeKeyChange>,
    /// Messages in mailboxes that only one state has.
    pub mailboxes: Vec<MessageDifference>,
    /// Messages that wait in joins in only one state.
    pub joins: Vec<MessageDifference>,
    /// Published messages that only one state has.
    pub published: Option<MessageDifference>,
    /// The open activations of roles.
    pub open: Vec<ValueChange>,
    /// The number of messages in the memories of roles.
    pub memory: Vec<ValueChange>,
    /// The digests of components, by `ROLE.ACTION`.
    pub components: Vec<ValueChange>,
}

impl StateDifference {
    /// Returns whether the states do not differ.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two states of teams with the same structure.
pub fn compare_states(one: &Stepper, other: &Stepper) -> StateDifference {
    let sides = ComparedStates { one, other };
    StateDifference {
        run: sides.run_changes(),
        scopes: sides.scope_changes(),
        mailboxes: sides.mailbox_differences(),
        joins: sides.join_differences(),
        published: sides.published_difference(),
        open: sides.role_changes(|stepper, id| {
            stepper
                .env()
                .role(id)
                .activation
                .as_ref()
                .map(|a| describe_activation(stepper, id, a).into())
        }),
        memory: sides.role_changes(|stepper, id| {
            Some(
                stepper
                    .env()
                    .memory(ActivationKey::of_mail(id))
                    .count()
                    .into(),
            )
        }),
        components: sides.component_changes(),
    }
}

#[derive(Clone, Copy)]
struct ComparedStates<'a> {
    one: &'a Stepper,
    other: &'a Stepper,
}

impl<'a> ComparedStates<'a> {
    fn changed_values(
        self,
        values: impl Fn(&'a Stepper) -> BTreeMap<String, Value>,
    ) -> Vec<ValueChange> {
        let (mut one, mut other) = (values(self.one), values(self.other));
        let names: BTreeSet<String> = one.keys().chain(other.keys()).cloned().collect();
        let change = |name: String| ValueChange {
            one: one.remove(&name),
            other: other.remove(&name),
            name,
        };
        names
            .into_iter()
            .map(change)
            .filter(|change| change.one != change.other)
            .collect()
    }

    fn run_changes(self) -> Vec<ValueChange> {
        let of = |stepper: &Stepper| {
            let env = stepper.env();
            let mut faults = Vec::new();
            for (call, open) in env.failed_calls(stepper.team()) {
                let (role, doing) = (
                    &stepper.team().role(call.role).name,
                    describe_activation(stepper, call.role, open.activation),
                );
                faults.push(Value::from(format!("{role} in {doing}")));
            }
            [
                ("status", env.status.name().into()),
                ("step", env.step.into()),
                ("spent", env.spent.to_dollars().into()),
                (
                    "budget",
                    env.budget
                        .map_or(Value::Null, |budget| budget.to_dollars().into()),
                ),
                ("faults", Value::Array(faults)),
                ("dead_letters", env.dead_letters.len().into()),
            ]
        };
        let mut changes = Vec::new();
        for ((name, one), (_, other)) in of(self.one).into_iter().zip(of(self.other)) {
            if one != other {
                changes.push(ValueChange {
                    name: name.into(),
                    one: Some(one),
                    other: Some(other),
                });
            }
        }
        changes
    }

    fn scope_changes(self) -> Vec<ScopeKeyChange> {
        let none = Scope::new();
        let mut all = Vec::new();
        let names = self
            .one
            .env()
            .shared_scopes
            .keys()
            .chain(self.other.env().shared_scopes.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let of = |stepper: &'a Stepper| {
                scope_values(stepper.env().shared_scopes.get(name).unwrap_or(&none))
            };
            all.extend(
                self.changed_values(of)
                    .into_iter()
                    .map(|change| ScopeKeyChange {
                        scope: name.clone(),
                        change,
                    }),
            );
        }
        for id in self.common_roles() {
            let scope = format!("role/{}", self.role_name(id));
            let changes =
                self.changed_values(|stepper| scope_values(&stepper.env().role(id).scope));
            all.extend(changes.into_iter().map(|change| ScopeKeyChange {
                scope: scope.clone(),
                change,
            }));
        }
        all
    }

    fn mailbox_differences(self) -> Vec<MessageDifference> {
        let of = |id: RoleId| {
            let mail = |env: &Environment| env.unfinished_mail(id).collect::<Vec<_>>();
            self.message_difference(
                self.role_name(id),
                mail(self.one.env()),
                mail(self.other.env()),
            )
        };
        self.common_roles().filter_map(of).collect()
    }

    fn join_differences(self) -> Vec<MessageDifference> {
        let waiting = |stepper: &Stepper, at: usize| {
            let queues = stepper
                .env()
                .joins
                .get(at)
                .into_iter()
                .flat_map(|join| &join.queues);
            queues.flatten().copied().collect::<Vec<_>>()
        };
        let joins = self.one.team().joins.iter().enumerate();
        joins
            .filter_map(|(at, join)| {
                self.message_difference(
                    join.id.clone(),
                    waiting(self.one, at),
                    waiting(self.other, at),
                )
            })
            .collect()
    }

    fn published_difference(self) -> Option<MessageDifference> {
        self.message_difference(
            String::new(),
            self.one.env().history.clone(),
            self.other.env().history.clone(),
        )
    }

    /// Returns the messages that only one of two lists contains. Whole messages are compared,
    /// because messages with the same id can differ.
    fn message_difference(
        self,
        name: String,
        one: Vec<MessageRef>,
        other: Vec<MessageRef>,
    ) -> Option<MessageDifference> {
        let key = |message: &Message| format!("{}\n{message:?}", message.id);
        let all = |env: &Environment, ids: &[MessageRef]| {
            ids.iter().map(|id| key(env.message(*id))).collect()
        };
        let ones: BTreeSet<String> = all(self.one.env(), &one);
        let others: BTreeSet<String> = all(self.other.env(), &other);
        let only = |env: &Environment, ids: Vec<MessageRef>, not: &BTreeSet<String>| {
            let messages = ids.into_iter().map(|id| env.message(id).clone());
            messages
                .filter(|message| !not.contains(&key(message)))
                .map(|message| summarize_message(&message))
                .collect::<Vec<_>>()
        };
        let (one, other) = (
            only(self.one.env(), one, &others),
            only(self.other.env(), other, &ones),
        );
        (!one.is_empty() || !other.is_empty()).then_some(MessageDifference { name, one, other })
    }

    fn role_changes(
        self,
        value: impl Fn(&'a Stepper, RoleId) -> Option<Value>,
    ) -> Vec<ValueChange> {
        let change = |id: RoleId| ValueChange {
            name: self.role_name(id),
            one: value(self.one, id),
            other: value(self.other, id),
        };
        self.common_roles()
            .map(change)
            .filter(|change| change.one != change.other)
            .collect()
    }

    fn component_changes(self) -> Vec<ValueChange> {
        self.changed_values(|stepper| {
            let team = stepper.team();
            stepper
                .env()
                .components
                .iter()
                .map(|(slot, digest)| (team.slot_name(*slot), digest.0.clone().into()))
                .collect()
        })
    }

    /// Returns the roles that both states have.
    fn common_roles(self) -> impl Iterator<Item = RoleId> {
        let count = self.one.env().roles.len().min(self.other.env().roles.len());
        (0..count).map(|i| RoleId(i as u16))
    }

    fn role_name(self, id: RoleId) -> String {
        self.one.team().role(id).name.clone()
    }
}

fn scope_values(scope: &Scope) -> BTreeMap<String, Value> {
    let mut values = BTreeMap::new();
    for (key, value) in scope {
        values.insert(key.clone(), value.value());
    }
    values
}

/// Describes an activation for people.
fn describe_activation(stepper: &Stepper, id: RoleId, activation: &Activation) -> String {
    use strata_core::record::work::Work;
    use strata_core::state::activation::Phase;
    let role = stepper.team().role(id);
    let what = match activation.current_work(role) {
        Some(Work::Think { round }) => format!("choice {round}"),
        Some(Work::Plan) => "plan".into(),
        Some(Work::Answer) => "a person".into(),
        Some(Work::Turn { turn }) => format!("turn {turn}"),
        Some(Work::Summary { turn }) => format!("the summary before turn {turn}"),
        Some(Work::ToolCall { tool, .. }) => format!("tool `{}`", role.tool_name(tool)),
        Some(Work::Act { action, .. }) => {
            format!("action {} `{}`", action.0, role.action(action).name)
        }
        None => "nothing more".into(),
    };
    let how = match &activation.phase {
        Phase::Ready | Phase::ReadyAfterFault(_) => "ready".into(),
        Phase::Running => "running".into(),
        Phase::BackingOff => "rests before another try".into(),
        Phase::Failed(fault) => format!("failed: {}: {}", fault.kind, fault.message),
        Phase::Complete => "complete".into(),
        Phase::WaitingForHuman(request) => format!("waits for request {}", request.id),
        Phase::CallingTools => "calls tools".into(),
        Phase::CallingRole => "calls a role".into(),
    };
    let attempts = activation.current_call.attempts;
    format!(
        "step {}, {what}, {how} (attempts {attempts})",
        activation.opened_in_step
    )
}

fn summarize_message(message: &Message) -> MessageSummary {
    MessageSummary {
        id: message.id.0.clone(),
        from: message.sent_from.clone(),
        cause_by: message.cause_by.clone(),
        content: message.content.clone(),
    }
}

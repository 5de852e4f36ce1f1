//! Compares two states of a team and returns the differences as data. The states are loaded in
//! `launch`; the differences are rendered in `cli`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use strata_core::activation::Activation;
use strata_core::environment::scope::Scope;
use strata_core::environment::{Environment, MessageRef};
use strata_core::id::RoleId;
use strata_core::message::Message;
use strata_core::stepper::Stepper;

/// A value that differs between the two states; `None` where a state has no such value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The name of the value.
    pub name: String,
    /// The value in the first state.
    pub one: Option<Value>,
    /// The value in the second state.
    pub other: Option<Value>,
}

/// A key of a scope whose value differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyChange {
    /// The scope, in the notation of `fork --set`.
    pub scope: String,
    /// The key and its values.
    #[serde(flatten)]
    pub change: Change,
}

/// Messages that only one state has in a role's mailbox, in a join, or among the published
/// messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Messages {
    /// The role or the join; empty for published messages.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Those that only the first state has.
    pub one: Vec<Brief>,
    /// Those that only the second state has.
    pub other: Vec<Brief>,
}

/// A summary of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Brief {
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Status, step, spending, budget, faults and the number of dead letters.
    pub run: Vec<Change>,
    /// Keys of scopes.
    pub scopes: Vec<KeyChange>,
    /// Messages in mailboxes that only one state has.
    pub mailboxes: Vec<Messages>,
    /// Messages that wait in joins in only one state.
    pub joins: Vec<Messages>,
    /// Published messages that only one state has.
    pub published: Option<Messages>,
    /// The open activations of roles.
    pub open: Vec<Change>,
    /// The number of messages in the memories of roles.
    pub memory: Vec<Change>,
    /// The digests of components, by `ROLE.ACTION`.
    pub components: Vec<Change>,
}

impl Difference {
    /// Returns whether the states do not differ.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two states of teams with the same structure.
pub fn compare(one: &Stepper, other: &Stepper) -> Difference {
    let sides = Sides { one, other };
    Difference {
        run: sides.run(),
        scopes: sides.scopes(),
        mailboxes: sides.mailboxes(),
        joins: sides.joins(),
        published: sides.published(),
        open: sides.by_role(|stepper, id| {
            stepper
                .env()
                .role(id)
                .activation
                .as_ref()
                .map(|a| standing(stepper, id, a).into())
        }),
        memory: sides.by_role(|stepper, id| Some(stepper.env().memory(id).count().into())),
        components: sides.components(),
    }
}

#[derive(Clone, Copy)]
struct Sides<'a> {
    one: &'a Stepper,
    other: &'a Stepper,
}

impl<'a> Sides<'a> {
    fn changes(self, values: impl Fn(&'a Stepper) -> BTreeMap<String, Value>) -> Vec<Change> {
        let (mut one, mut other) = (values(self.one), values(self.other));
        let names: BTreeSet<String> = one.keys().chain(other.keys()).cloned().collect();
        let change = |name: String| Change {
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

    fn run(self) -> Vec<Change> {
        let of = |stepper: &Stepper| {
            let env = stepper.env();
            let mut faults = Vec::new();
            for (id, activation) in env.failed() {
                let (role, doing) = (
                    &stepper.team().role(id).name,
                    standing(stepper, id, activation),
                );
                faults.push(Value::from(format!("{role} in {doing}")));
            }
            [
                ("status", env.status.name().into()),
                ("step", env.step.into()),
                ("spent", env.spent.dollars().into()),
                (
                    "budget",
                    env.budget
                        .map_or(Value::Null, |budget| budget.dollars().into()),
                ),
                ("faults", Value::Array(faults)),
                ("dead_letters", env.dead_letters.len().into()),
            ]
        };
        let mut changes = Vec::new();
        for ((name, one), (_, other)) in of(self.one).into_iter().zip(of(self.other)) {
            if one != other {
                changes.push(Change {
                    name: name.into(),
                    one: Some(one),
                    other: Some(other),
                });
            }
        }
        changes
    }

    fn scopes(self) -> Vec<KeyChange> {
        let none = Scope::new();
        let mut all = Vec::new();
        let names = self
            .one
            .env()
            .shared
            .keys()
            .chain(self.other.env().shared.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let of = |stepper: &'a Stepper| values(stepper.env().shared.get(name).unwrap_or(&none));
            all.extend(self.changes(of).into_iter().map(|change| KeyChange {
                scope: name.clone(),
                change,
            }));
        }
        for id in self.roles() {
            let scope = format!("role/{}", self.name(id));
            let changes = self.changes(|stepper| values(&stepper.env().role(id).scope));
            all.extend(changes.into_iter().map(|change| KeyChange {
                scope: scope.clone(),
                change,
            }));
        }
        all
    }

    fn mailboxes(self) -> Vec<Messages> {
        let of = |id: RoleId| {
            let mail = |env: &Environment| env.buffer(id).collect::<Vec<_>>();
            self.only(self.name(id), mail(self.one.env()), mail(self.other.env()))
        };
        self.roles().filter_map(of).collect()
    }

    fn joins(self) -> Vec<Messages> {
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
                self.only(
                    join.id.clone(),
                    waiting(self.one, at),
                    waiting(self.other, at),
                )
            })
            .collect()
    }

    fn published(self) -> Option<Messages> {
        self.only(
            String::new(),
            self.one.env().history.clone(),
            self.other.env().history.clone(),
        )
    }

    /// Returns the messages that only one of two lists contains. Whole messages are compared,
    /// because messages with the same id can differ.
    fn only(self, name: String, one: Vec<MessageRef>, other: Vec<MessageRef>) -> Option<Messages> {
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
                .map(|message| brief(&message))
                .collect::<Vec<_>>()
        };
        let (one, other) = (
            only(self.one.env(), one, &others),
            only(self.other.env(), other, &ones),
        );
        (!one.is_empty() || !other.is_empty()).then_some(Messages { name, one, other })
    }

    fn by_role(self, value: impl Fn(&'a Stepper, RoleId) -> Option<Value>) -> Vec<Change> {
        let change = |id: RoleId| Change {
            name: self.name(id),
            one: value(self.one, id),
            other: value(self.other, id),
        };
        self.roles()
            .map(change)
            .filter(|change| change.one != change.other)
            .collect()
    }

    fn components(self) -> Vec<Change> {
        self.changes(|stepper| {
            let name = |slot| stepper.team().slot_name(slot);
            stepper
                .env()
                .components
                .iter()
                .map(|(slot, digest)| (name(*slot), digest.0.clone().into()))
                .collect()
        })
    }

    /// Returns the roles that both states have.
    fn roles(self) -> impl Iterator<Item = RoleId> {
        let count = self.one.env().roles.len().min(self.other.env().roles.len());
        (0..count).map(|i| RoleId(i as u16))
    }

    fn name(self, id: RoleId) -> String {
        self.one.team().role(id).name.clone()
    }
}

fn values(scope: &Scope) -> BTreeMap<String, Value> {
    let mut values = BTreeMap::new();
    for (key, value) in scope {
        values.insert(key.clone(), value.value());
    }
    values
}

/// Describes an activation for people.
fn standing(stepper: &Stepper, id: RoleId, activation: &Activation) -> String {
    use strata_core::activation::Phase;
    use strata_core::event::Work;
    let role = stepper.team().role(id);
    let what = match activation.work(role) {
        Some(Work::Think { round }) => format!("choice {round}"),
        Some(Work::Plan) => "plan".into(),
        Some(Work::Answer) => "a person".into(),
        Some(Work::Act { action, .. }) => {
            format!("action {} `{}`", action.0, role.action(action).name)
        }
        None => "nothing more".into(),
    };
    let how = match &activation.phase {
        Phase::Ready | Phase::Again(_) => "ready".into(),
        Phase::Running => "running".into(),
        Phase::Resting => "rests before another try".into(),
        Phase::Failed(fault) => format!("failed: {}: {}", fault.kind, fault.message),
        Phase::Complete => "complete".into(),
        Phase::Waiting(request) => format!("waits for request {}", request.id),
    };
    let attempts = activation.current.attempts;
    format!(
        "step {}, {what}, {how} (attempts {attempts})",
        activation.opened
    )
}

fn brief(message: &Message) -> Brief {
    Brief {
        id: message.id.0.clone(),
        from: message.sent_from.clone(),
        cause_by: message.cause_by.clone(),
        content: message.content.clone(),
    }
}

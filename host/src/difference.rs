//! How two states of a team differ: everything an operator may want to know, as data. Where the states come from is
//! in `launch`, how it looks in `cli`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use strata_core::activation::Activation;
use strata_core::environment::scope::Scope;
use strata_core::environment::{Environment, MessageRef};
use strata_core::id::RoleId;
use strata_core::json::Json;
use strata_core::message::Message;
use strata_core::stepper::Stepper;

/// A value on both sides; none where a side has none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is the value of.
    pub name: String,
    /// On the one side.
    pub one: Option<Value>,
    /// On the other.
    pub other: Option<Value>,
}

/// A key of a scope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyChange {
    /// The scope, as `fork --set` names it.
    pub scope: String,
    /// The key and its values.
    #[serde(flatten)]
    pub change: Change,
}

/// Messages that only one side has in some place: a role's mailbox, or a join.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Messages {
    /// The role or the join; empty for what was published.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Of the one side.
    pub one: Vec<Brief>,
    /// Of the other.
    pub other: Vec<Brief>,
}

/// A message in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Brief {
    /// Its id.
    pub id: String,
    /// Who sent it; empty for what came from outside.
    pub from: String,
    /// Its label.
    pub cause_by: String,
    /// Its text.
    pub content: String,
}

/// How two states differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Status, step, what was spent and may be.
    pub run: Vec<Change>,
    /// Keys of scopes.
    pub scopes: Vec<KeyChange>,
    /// Mail that only one side has.
    pub mailboxes: Vec<Messages>,
    /// What waits in joins on one side only.
    pub joins: Vec<Messages>,
    /// What only one side has published.
    pub published: Option<Messages>,
    /// What roles are at.
    pub open: Vec<Change>,
    /// How much roles remember.
    pub memory: Vec<Change>,
    /// Components, as `ROLE.ACTION`.
    pub components: Vec<Change>,
}

impl Difference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two states of teams of the same shape.
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
            let fault = |(id, activation): (RoleId, &Activation)| {
                Value::from(format!(
                    "{} in {}",
                    stepper.team().role(id).name,
                    standing(stepper, id, activation)
                ))
            };
            let faults: Vec<Value> = env.failed().map(fault).collect();
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
        let pairs = of(self.one)
            .into_iter()
            .zip(of(self.other))
            .filter(|((_, one), (_, other))| one != other);
        let change = |((name, one), (_, other)): ((&str, Value), (&str, Value))| Change {
            name: name.into(),
            one: Some(one),
            other: Some(other),
        };
        pairs.map(change).collect()
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

    /// What only one side has of two lists of messages. Messages of the same id may differ: they are compared whole.
    fn only(self, name: String, one: Vec<MessageRef>, other: Vec<MessageRef>) -> Option<Messages> {
        let key = |message: &Message| format!("{}\n{message:?}", message.id);
        let all = |env: &Environment, ids: &[MessageRef]| {
            ids.iter().map(|id| key(env.message(*id))).collect()
        };
        let (ones, others): (BTreeSet<String>, BTreeSet<String>) =
            (all(self.one.env(), &one), all(self.other.env(), &other));
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

    /// The roles that both have.
    fn roles(self) -> impl Iterator<Item = RoleId> {
        let count = self.one.env().roles.len().min(self.other.env().roles.len());
        (0..count).map(|i| RoleId(i as u16))
    }

    fn name(self, id: RoleId) -> String {
        self.one.team().role(id).name.clone()
    }
}

fn values(scope: &Scope) -> BTreeMap<String, Value> {
    scope
        .iter()
        .map(|(key, value): (&String, &Json)| (key.clone(), value.value()))
        .collect()
}

/// What a role is at, in words.
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

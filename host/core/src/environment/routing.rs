//! Routing: who receives a message. All of it is here; nothing is delivered here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::OwnMessages;
use crate::activation::Addressed;
use crate::condition::WorkBudget;
use crate::event::Routed;
use crate::id::{JoinId, RoleId};
use crate::message::{Hop, Message, TO_ALL, TO_SELF};
use crate::team::{Outside, Route, Team};

/// A message about to be published.
pub struct Parcel<'a> {
    /// The message.
    pub message: &'a Message,
    /// The sending role; none for what comes from outside.
    pub from: Option<RoleId>,
    /// Whether its sender named recipients.
    pub addressed: Addressed,
    /// The legs that it may follow: its own, or those of the mail it answers.
    pub itinerary: Vec<Hop>,
}

/// Who watches which label, and what names stand for. Made from a team, so that not every role is asked for every
/// message and every name in it.
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    watching: BTreeMap<String, Vec<RoleId>>,
    roles: BTreeMap<String, RoleId>,
    joins: BTreeMap<String, JoinId>,
    /// The roles that joins lead to.
    joined: BTreeSet<RoleId>,
    own_messages: OwnMessages,
}

impl AddressBook {
    /// That of a team whose roles hear themselves or do not.
    pub fn of(team: &Team, own_messages: OwnMessages) -> Self {
        let mut book = Self {
            own_messages,
            ..Self::default()
        };
        for id in team.role_ids() {
            for label in &team.role(id).watch {
                book.watching.entry(label.clone()).or_default().push(id);
            }
        }
        for (name, id) in team.callings() {
            book.roles.entry(name.into()).or_insert(id);
        }
        for id in team.join_ids() {
            book.joins.entry(team.join(id).id.clone()).or_insert(id);
        }
        for id in team.join_ids() {
            match book.named(team, &team.join(id).to) {
                Some(Named::Role(role)) => drop(book.joined.insert(role)),
                Some(Named::Group(members)) => book.joined.extend(members),
                Some(Named::Join(_)) | None => {}
            }
        }
        book
    }

    /// Whether a role may be told again what it has read: by a join.
    pub(crate) fn is_joined(&self, role: RoleId) -> bool {
        self.joined.contains(&role)
    }

    fn watching(&self, label: &str) -> &[RoleId] {
        self.watching.get(label).map_or(&[], Vec::as_slice)
    }

    /// What a name stands for: role, alias, group or join, in this order; none when nobody.
    pub fn named<'a>(&self, team: &'a Team, name: &str) -> Option<Named<'a>> {
        let role = || self.roles.get(name).copied().map(Named::Role);
        let group = || team.groups.get(name).map(|members| Named::Group(members));
        let join = || self.joins.get(name).copied().map(Named::Join);
        role().or_else(group).or_else(join)
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A role, by its name or an alias.
    Role(RoleId),
    /// The members of a group.
    Group(&'a [RoleId]),
    /// A join.
    Join(JoinId),
}

/// Decides who receives a message: the recipients its sender named; else the next leg of its itinerary; else the
/// sender's routes; else everyone who watches its label. `budget` is what the conditions of these routes may still do for
/// this sender.
pub fn route(
    team: &Team,
    book: &AddressBook,
    parcel: Parcel<'_>,
    budget: &mut WorkBudget,
) -> Routed {
    let Parcel {
        message,
        from,
        addressed,
        itinerary,
    } = parcel;
    let (legs, rest) = split(book, (from, message.claimed_sender().as_deref()), itinerary);
    let mut routed = Routed {
        id: message.id.clone(),
        from,
        cause_by: message.cause_by.clone(),
        to: Vec::new(),
        joins: Vec::new(),
        dead: Vec::new(),
        dropped: None,
        rest,
        outside: Vec::new(),
    };
    let routes: Vec<&Route> = team
        .routes
        .iter()
        .filter(|route| Some(route.from) == from)
        .collect();
    if addressed == Addressed::Named {
        address((team, book), &mut routed, &message.send_to);
    } else if !legs.is_empty() {
        if legs.iter().all(|leg| leg.to.is_empty()) {
            routed.dropped = Some("its itinerary names nobody for this leg".into());
        }
        address(
            (team, book),
            &mut routed,
            legs.iter().flat_map(|leg| &leg.to),
        );
    } else if !routes.is_empty() {
        follow((team, book), &mut routed, (&routes, budget), message);
    } else {
        address((team, book), &mut routed, &[TO_ALL.into()]);
    }
    routed.to.sort_unstable();
    routed.to.dedup();
    routed.joins.sort_unstable();
    routed.joins.dedup();
    routed
}

/// The legs that begin at the sender, who may be outside and then says itself who it is, and the others; each once, or
/// those that nobody travels would double wherever copies of one message meet.
fn split(
    book: &AddressBook,
    (from, claimed): (Option<RoleId>, Option<&str>),
    itinerary: Vec<Hop>,
) -> (Vec<Hop>, Vec<Hop>) {
    let mut seen = BTreeSet::new();
    let first: Vec<bool> = itinerary
        .iter()
        .map(|leg| seen.insert((&leg.from, &leg.to)))
        .collect();
    let legs = itinerary
        .into_iter()
        .zip(first)
        .filter_map(|(leg, first)| first.then_some(leg));
    legs.partition(|leg| match from {
        Some(_) => book.roles.get(&leg.from).copied() == from,
        None => claimed == Some(leg.from.as_str()),
    })
}

/// Takes the first arm that holds of each route. A condition that cannot be judged does not hold.
fn follow(
    (team, book): (&Team, &AddressBook),
    routed: &mut Routed,
    (routes, budget): (&[&Route], &mut WorkBudget),
    message: &Message,
) {
    let mut why: Option<String> = None;
    let mut taken = Vec::new();
    for route in routes {
        for arm in &route.arms {
            let holds = match &arm.when {
                None => true,
                Some(condition) => condition.holds(message, budget).unwrap_or_else(|error| {
                    why = Some(format!(
                        "condition `{}` cannot be judged: {error}",
                        condition.source()
                    ));
                    false
                }),
            };
            if holds {
                taken.push(&arm.to);
                break;
            }
        }
    }
    if taken.is_empty() {
        routed.dropped = Some(why.unwrap_or_else(|| "no route of its sender matches it".into()));
    }
    address((team, book), routed, taken.into_iter().flatten());
}

/// Adds the roles and joins that names stand for. Others stand for somebody outside, where there is anybody, else they
/// are dead letters, as is what a join does not wait for. A guest may write very many names, and write them again.
fn address<'a>(
    (team, book): (&Team, &AddressBook),
    routed: &mut Routed,
    names: impl IntoIterator<Item = &'a String>,
) {
    let mut seen = BTreeSet::new();
    for name in names.into_iter().filter(|name| seen.insert(*name)) {
        match name.as_str() {
            TO_ALL => {
                let silent = routed
                    .from
                    .filter(|_| book.own_messages == OwnMessages::Withheld);
                let watching = book.watching(&routed.cause_by).iter().copied();
                routed
                    .to
                    .extend(watching.filter(|role| Some(*role) != silent));
            }
            TO_SELF if routed.from.is_some() => routed.to.extend(routed.from),
            name => match book.named(team, name) {
                Some(Named::Role(role)) => routed.to.push(role),
                Some(Named::Group(members)) => routed.to.extend(members),
                Some(Named::Join(join)) if takes(team, join, routed.from) => {
                    routed.joins.push(join)
                }
                other => {
                    // What comes from outside is not sent back there, or it would go round for ever.
                    let leaves = other.is_none()
                        && team.outside == Outside::Somebody
                        && routed.from.is_some();
                    let names = if leaves {
                        &mut routed.outside
                    } else {
                        &mut routed.dead
                    };
                    names.push(name.into());
                }
            },
        }
    }
}

/// Whether a join waits for the messages of a sender.
fn takes(team: &Team, join: JoinId, from: Option<RoleId>) -> bool {
    from.is_some_and(|from| team.join(join).source(from).is_some())
}

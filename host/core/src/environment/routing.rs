//! Routing: decides who receives a message. Nothing is delivered here.

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
use crate::team::{Outside, Team};

/// A message that is about to be published.
pub struct Parcel<'a> {
    /// The message.
    pub message: &'a Message,
    /// The sending role; `None` if it comes from outside.
    pub from: Option<RoleId>,
    /// Whether its sender named the recipients.
    pub addressed: Addressed,
    /// The hops that it may follow: its own, or those of the mail it answers.
    pub itinerary: Vec<Hop>,
}

/// An index of watched labels and names. It is built once for a team, so that not every role has to
/// be examined for every message and every name.
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    watching: BTreeMap<String, Vec<RoleId>>,
    roles: BTreeMap<String, RoleId>,
    joins: BTreeMap<String, JoinId>,
    /// The roles that receive messages from joins.
    joined: BTreeSet<RoleId>,
    own_messages: OwnMessages,
}

impl AddressBook {
    /// Returns the address book of a team.
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
                Some(Named::Role(role)) => {
                    book.joined.insert(role);
                }
                Some(Named::Group(members)) => book.joined.extend(members),
                Some(Named::Join(_)) | None => {}
            }
        }
        book
    }

    /// Returns whether a role may receive a message again that it has already handled, because a
    /// join leads to it.
    pub(crate) fn is_joined(&self, role: RoleId) -> bool {
        self.joined.contains(&role)
    }

    fn watching(&self, label: &str) -> &[RoleId] {
        self.watching.get(label).map_or(&[], Vec::as_slice)
    }

    /// Returns what has this name: a role, an alias, a group or a join, in this order of
    /// precedence.
    pub fn named<'a>(&self, team: &'a Team, name: &str) -> Option<Named<'a>> {
        let role = || self.roles.get(name).copied().map(Named::Role);
        let group = || team.groups.get(name).map(|members| Named::Group(members));
        let join = || self.joins.get(name).copied().map(Named::Join);
        role().or_else(group).or_else(join)
    }
}

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A role, by its name or alias.
    Role(RoleId),
    /// The members of a group.
    Group(&'a [RoleId]),
    /// A join.
    Join(JoinId),
}

/// Decides who receives a message: the recipients named by its sender; otherwise the next hop of
/// its itinerary; otherwise the routes of the sender; otherwise all roles that watch its label.
/// `budget` limits the work of the conditions of these routes.
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
    let (legs, rest) = split(book, from, message.claimed_sender().as_deref(), itinerary);
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
    let has_routes = team.routes.iter().any(|route| Some(route.from) == from);
    if addressed == Addressed::Named {
        address(team, book, &mut routed, &message.send_to);
    } else if !legs.is_empty() {
        if legs.iter().all(|leg| leg.to.is_empty()) {
            routed.dropped = Some("its itinerary names nobody for this leg".into());
        }
        let names = legs.iter().flat_map(|leg| &leg.to);
        address(team, book, &mut routed, names);
    } else if has_routes {
        follow(team, book, &mut routed, message, budget);
    } else {
        address(team, book, &mut routed, &[TO_ALL.into()]);
    }
    routed.to.sort_unstable();
    routed.to.dedup();
    routed.joins.sort_unstable();
    routed.joins.dedup();
    routed
}

/// Splits an itinerary into the hops that begin at the sender and the remaining ones, without
/// duplicates. A sender outside is matched by the name it claims. Duplicates are removed because
/// hops that nobody makes would double whenever copies of a message meet.
fn split(
    book: &AddressBook,
    from: Option<RoleId>,
    claimed: Option<&str>,
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

/// Takes the first arm that holds of each route of the sender. A condition that cannot be evaluated
/// does not hold.
fn follow(
    team: &Team,
    book: &AddressBook,
    routed: &mut Routed,
    message: &Message,
    budget: &mut WorkBudget,
) {
    let mut why: Option<String> = None;
    let mut taken = Vec::new();
    for route in &team.routes {
        if Some(route.from) != routed.from {
            continue;
        }
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
    address(team, book, routed, taken.into_iter().flatten());
}

/// Adds the roles and joins with these names. Other names belong to the external environment, if
/// there is one; otherwise they are undeliverable, like the name of a join that does not wait for
/// the sender. A guest may name very many recipients, and name them repeatedly.
fn address<'a>(
    team: &Team,
    book: &AddressBook,
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
                    // A message from outside is not sent back there, or it would circulate for
                    // ever.
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

/// Returns whether a join waits for messages of a sender.
fn takes(team: &Team, join: JoinId, from: Option<RoleId>) -> bool {
    from.is_some_and(|from| team.join(join).source(from).is_some())
}

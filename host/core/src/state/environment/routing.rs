//! Routing: decides who receives a message. Nothing is delivered here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::event::{FailedCondition, RoutingResult};
use crate::record::id::{JoinId, RoleId};
use crate::record::message::{Hop, Message, TO_ALL, TO_NOBODY, TO_SELF};
use crate::state::activation::Addressing;
use crate::team::condition::WorkBudget;
use crate::team::{ExternalEnvironment, Route, Team};

/// Whether a role that watches the label of its own messages receives them. A role that names
/// itself as recipient always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnMessages {
    /// It does, like every role that watches the label.
    #[default]
    Delivered,
    /// It does not, as in MetaGPT, where a message that a role remembers is not new to it. This
    /// applies to teams imported from MetaGPT.
    Withheld,
}

/// A message that is about to be published.
pub struct RouteInput<'a> {
    /// The message.
    pub message: &'a Message,
    /// The sending role; `None` if it comes from outside.
    pub from: Option<RoleId>,
    /// Whether its sender named the recipients.
    pub addressing: Addressing,
    /// The hops that it may follow: its own, or those of the mail it answers.
    pub itinerary: Vec<Hop>,
}

/// An index of watched labels, names, routes and the sources of joins. It is built once for a team,
/// so that not every role, route and source has to be examined for every message and every name.
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    watchers: BTreeMap<String, Vec<RoleId>>,
    roles: BTreeMap<String, RoleId>,
    joins: BTreeMap<String, JoinId>,
    /// The indices in `Team::routes` of the routes of each sender, in order.
    routes: BTreeMap<RoleId, Vec<usize>>,
    /// The index of each source among the sources of its join.
    sources: BTreeMap<(JoinId, RoleId), usize>,
    /// The roles that receive messages from joins.
    join_targets: BTreeSet<RoleId>,
    own_messages: OwnMessages,
}

impl AddressBook {
    /// Returns the address book of a team.
    pub fn new(team: &Team, own_messages: OwnMessages) -> Self {
        let mut book = Self {
            own_messages,
            ..Self::default()
        };
        for id in team.role_ids() {
            for label in &team.role(id).watch {
                book.watchers.entry(label.clone()).or_default().push(id);
            }
        }
        for (name, id) in team.names() {
            book.roles.entry(name.into()).or_insert(id);
        }
        for id in team.join_ids() {
            book.joins.entry(team.join(id).id.clone()).or_insert(id);
            for (index, source) in team.join(id).from.iter().enumerate() {
                book.sources.entry((id, *source)).or_insert(index);
            }
        }
        for (index, route) in team.routes.iter().enumerate() {
            book.routes.entry(route.from).or_default().push(index);
        }
        for id in team.join_ids() {
            match book.resolve(team, &team.join(id).to) {
                Some(Addressee::Role(role)) => {
                    book.join_targets.insert(role);
                }
                Some(Addressee::Group(members)) => book.join_targets.extend(members),
                Some(Addressee::Join(_)) | None => {}
            }
        }
        book
    }

    /// Returns whether a role may receive a message again that it has already handled, because a
    /// join leads to it.
    pub(crate) fn is_join_target(&self, role: RoleId) -> bool {
        self.join_targets.contains(&role)
    }

    fn watchers_of(&self, label: &str) -> &[RoleId] {
        self.watchers.get(label).map_or(&[], Vec::as_slice)
    }

    /// Returns the indices in `Team::routes` of a sender's routes, in order.
    fn routes_of(&self, sender: RoleId) -> &[usize] {
        self.routes.get(&sender).map_or(&[], Vec::as_slice)
    }

    /// Returns the index of a role among the sources of a join, if the join waits for it.
    pub(crate) fn source_index(&self, join: JoinId, role: RoleId) -> Option<usize> {
        self.sources.get(&(join, role)).copied()
    }

    /// Returns whether a join waits for messages of a sender.
    pub(crate) fn waits_for(&self, join: JoinId, from: Option<RoleId>) -> bool {
        from.is_some_and(|from| self.source_index(join, from).is_some())
    }

    /// Returns what has this name: a role, an alias, a group or a join, in this order of
    /// precedence.
    pub fn resolve<'a>(&self, team: &'a Team, name: &str) -> Option<Addressee<'a>> {
        let role = || self.roles.get(name).copied().map(Addressee::Role);
        let group = || {
            team.groups
                .get(name)
                .map(|members| Addressee::Group(members))
        };
        let join = || self.joins.get(name).copied().map(Addressee::Join);
        role().or_else(group).or_else(join)
    }
}

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee<'a> {
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
    input: RouteInput<'_>,
    budget: &mut WorkBudget,
) -> RoutingResult {
    let RouteInput {
        message,
        from,
        addressing: addressed,
        itinerary,
    } = input;
    let (hops, rest) = split_itinerary(book, from, message.claimed_sender().as_deref(), itinerary);
    let mut routed = RoutingResult {
        id: message.id.clone(),
        from,
        cause_by: message.cause_by.clone(),
        to: Vec::new(),
        joins: Vec::new(),
        undeliverable: Vec::new(),
        drop_reason: None,
        remaining_route: rest,
        external: Vec::new(),
        failed_conditions: Vec::new(),
    };
    let routes = from.map_or(&[][..], |from| book.routes_of(from));
    if addressed == Addressing::Explicit {
        add_recipients(team, book, &mut routed, &message.send_to);
    } else if !hops.is_empty() {
        if hops.iter().all(|leg| leg.to.is_empty()) {
            routed.drop_reason = Some("its itinerary names nobody for this leg".into());
        }
        let names = hops.iter().flat_map(|leg| &leg.to);
        add_recipients(team, book, &mut routed, names);
    } else if !routes.is_empty() {
        let routes = routes.iter().map(|index| &team.routes[*index]);
        let recipients = follow_routes(routes, &mut routed, message, budget);
        add_recipients(team, book, &mut routed, recipients.into_iter().flatten());
    } else {
        add_recipients(team, book, &mut routed, &[TO_ALL.into()]);
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
fn split_itinerary(
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

/// Returns the targets of the first arm that holds of each of these routes. A condition that cannot
/// be evaluated does not hold.
fn follow_routes<'a>(
    routes: impl Iterator<Item = &'a Route>,
    routed: &mut RoutingResult,
    message: &Message,
    budget: &mut WorkBudget,
) -> Vec<&'a [String]> {
    let mut recipients = Vec::new();
    for route in routes {
        for arm in &route.arms {
            let holds = match &arm.when {
                None => true,
                Some(condition) => condition.evaluate(message, budget).unwrap_or_else(|error| {
                    routed.failed_conditions.push(FailedCondition {
                        condition: condition.source().into(),
                        reason: error,
                    });
                    false
                }),
            };
            if holds {
                recipients.push(arm.to.as_slice());
                break;
            }
        }
    }
    if recipients.is_empty() {
        let failed = routed.failed_conditions.last().map(|failed| {
            let FailedCondition { condition, reason } = failed;
            format!("condition `{condition}` cannot be judged: {reason}")
        });
        let reason = failed.unwrap_or_else(|| "no route of its sender matches it".into());
        routed.drop_reason = Some(reason);
    }
    recipients
}

/// Adds the roles and joins with these names. Other names belong to the external environment, if
/// there is one; otherwise they are undeliverable, like the name of a join that does not wait for
/// the sender. A guest may name very many recipients, and name them repeatedly.
fn add_recipients<'a>(
    team: &Team,
    book: &AddressBook,
    routed: &mut RoutingResult,
    names: impl IntoIterator<Item = &'a String>,
) {
    let mut seen = BTreeSet::new();
    for name in names.into_iter().filter(|name| seen.insert(*name)) {
        match name.as_str() {
            TO_ALL => {
                let silent = routed
                    .from
                    .filter(|_| book.own_messages == OwnMessages::Withheld);
                let watching = book.watchers_of(&routed.cause_by).iter().copied();
                routed
                    .to
                    .extend(watching.filter(|role| Some(*role) != silent));
            }
            TO_NOBODY => {}
            TO_SELF if routed.from.is_some() => routed.to.extend(routed.from),
            name => match book.resolve(team, name) {
                Some(Addressee::Role(role)) => routed.to.push(role),
                Some(Addressee::Group(members)) => routed.to.extend(members),
                Some(Addressee::Join(join)) if book.waits_for(join, routed.from) => {
                    routed.joins.push(join)
                }
                other => {
                    // A message from outside is not sent back there, or it would circulate for
                    // ever.
                    let leaves = other.is_none()
                        && team.external == ExternalEnvironment::Present
                        && routed.from.is_some();
                    let names = if leaves {
                        &mut routed.external
                    } else {
                        &mut routed.undeliverable
                    };
                    names.push(name.into());
                }
            },
        }
    }
}

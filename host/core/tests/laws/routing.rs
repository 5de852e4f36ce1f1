//! Who receives what and when: every message of a run, compared with an independent oracle whose
//! only aim is to be simple.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::record::event::{
    AttemptEvent, CallFinished, Event, HandedOver, MessageSent, RunEnded, Status, StepStarted,
};
use strata_core::record::id::RoleId;
use strata_core::record::message::{Draft, Hop, Message};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::state::activation::Phase;
use strata_core::state::environment::{Environment, OutboxMessage};
use strata_core::state::messages::MessageRef;
use strata_core::team::condition::WorkBudget;
use strata_core::team::{ExternalEnvironment, Team};

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script, drafts};
use crate::teams::{any_team, cases};

/// An independent implementation of routing and joins.
struct RoutingOracle<'a> {
    team: &'a Team,
    /// The ids in each mailbox, and which of them are handled alone.
    boxes: Vec<Vec<(String, bool)>>,
    /// The messages in each join, in the order of arrival: sender and id.
    waiting: Vec<Vec<(RoleId, String)>>,
    /// The ids that each role took and has not finished handling.
    taken: Vec<Vec<String>>,
    /// The hops that travel with a message.
    legs: BTreeMap<String, Vec<Hop>>,
    /// The outbox: ids and names.
    leaving: Vec<(String, Vec<String>)>,
    /// The dead letters: ids and names.
    dead: Vec<(String, String)>,
    /// What actions returned, by text.
    drafts: BTreeMap<String, Draft>,
}

impl RoutingOracle<'_> {
    /// Returns the role with this name or alias.
    fn role_named(&self, name: &str) -> Option<usize> {
        let roles = &self.team.roles;
        let by_name = roles.iter().position(|role| role.name == name);
        let by_alias = roles
            .iter()
            .position(|role| role.addresses.contains(&name.to_string()));
        by_name.or(by_alias)
    }

    /// Delivers a message to all recipients with these names, once.
    fn deliver(&mut self, message: &Message, from: Option<usize>, names: &[String]) {
        let mut receivers = BTreeSet::new();
        let mut joined = BTreeSet::new();
        let mut unknown: Vec<&String> = Vec::new();
        for name in names {
            if name == "<all>" {
                let watching = |(_, role): &(usize, &strata_core::team::Role)| {
                    role.watch.contains(&message.cause_by)
                };
                receivers.extend(
                    self.team
                        .roles
                        .iter()
                        .enumerate()
                        .filter(watching)
                        .map(|(i, _)| i),
                );
            } else if name == "<nobody>" {
                continue;
            } else if name == "<self>" && from.is_some() {
                receivers.extend(from);
            } else if let Some(role) = self.role_named(name) {
                receivers.insert(role);
            } else if self.team.groups.contains_key(name) {
                receivers.extend(self.team.groups[name].iter().map(|id| id.index()));
            } else if let Some(join) = self.join_for(name, from) {
                joined.insert(join);
            } else if !unknown.contains(&name) {
                unknown.push(name);
            }
        }
        if from.is_some() && self.team.external == ExternalEnvironment::Present {
            let is_join = |name: &&String| self.team.joins.iter().any(|join| join.id == **name);
            let mut names = unknown.clone();
            names.retain(|name| !is_join(name));
            unknown.retain(|name| is_join(name));
            if !names.is_empty() {
                let names = names.into_iter().cloned().collect();
                self.leaving.push((message.id.0.clone(), names));
            }
        }
        self.dead.extend(
            unknown
                .into_iter()
                .map(|name| (message.id.0.clone(), name.clone())),
        );
        for receiver in receivers {
            self.boxes[receiver].push((message.id.0.clone(), false));
        }
        for join in joined {
            let from = RoleId(from.expect("a role sent it") as u16);
            self.waiting[join].push((from, message.id.0.clone()));
        }
    }

    /// Returns the join with this name, if it waits for this sender.
    fn join_for(&self, name: &str, from: Option<usize>) -> Option<usize> {
        let from = RoleId(from? as u16);
        let found = self.team.joins.iter().position(|join| join.id == name)?;
        self.team.joins[found].from.contains(&from).then_some(found)
    }

    /// Returns the indices of the messages that a join would release now.
    fn releasable(&self, join: usize, mode: JoinMode) -> Vec<usize> {
        let oldest = |source: &RoleId| {
            self.waiting[join]
                .iter()
                .position(|(from, _)| from == source)
        };
        let of_each: Vec<usize> = self.team.joins[join]
            .from
            .iter()
            .filter_map(oldest)
            .collect();
        match mode {
            _ if mode != self.team.joins[join].mode => Vec::new(),
            JoinMode::All if of_each.len() < self.team.joins[join].from.len() => Vec::new(),
            JoinMode::All => of_each,
            JoinMode::Active => {
                let of = |source: &RoleId| {
                    let source = *source;
                    let all = self.waiting[join].iter().enumerate();
                    all.filter(move |(_, (from, _))| *from == source)
                        .map(|(at, _)| at)
                };
                self.team.joins[join].from.iter().flat_map(of).collect()
            }
            JoinMode::Any => (0..self.waiting[join].len().min(1)).collect(),
        }
    }

    fn can_fire(&self, modes: &[JoinMode]) -> bool {
        (0..self.team.joins.len()).any(|join| {
            modes
                .iter()
                .any(|mode| !self.releasable(join, *mode).is_empty())
        })
    }

    /// Fires the first join of these modes that can fire.
    fn fire(&mut self, modes: &[JoinMode]) -> bool {
        for join in 0..self.team.joins.len() {
            let places: Vec<usize> = modes
                .iter()
                .flat_map(|mode| self.releasable(join, *mode))
                .collect();
            if places.is_empty() {
                continue;
            }
            let gone: Vec<(RoleId, String)> = places
                .iter()
                .map(|at| self.waiting[join][*at].clone())
                .collect();
            self.waiting[join].retain(|held| !gone.contains(held));
            let to = &self.team.joins[join].to;
            for (from, id) in gone {
                match (self.role_named(to), self.team.groups.get(to)) {
                    (Some(role), _) => self.pass(role, join, &id),
                    (None, Some(members)) => members
                        .iter()
                        .for_each(|member| self.pass(member.index(), join, &id)),
                    (None, None) => {
                        let next = self
                            .join_for(to, Some(from.index()))
                            .expect("joins lead somewhere");
                        if !self.waiting[next].contains(&(from, id.clone())) {
                            self.waiting[next].push((from, id));
                        }
                    }
                }
            }
            return true;
        }
        false
    }

    fn pass(&mut self, role: usize, join: usize, id: &str) {
        if !self.boxes[role].iter().any(|(unread, _)| unread == id) {
            self.boxes[role].push((
                id.into(),
                self.team.joins[join].deliver == DeliveryMode::Each,
            ));
        }
    }

    /// Returns whether no role has mail or open work, and the outbox is empty.
    fn is_quiet(&self) -> bool {
        self.boxes.iter().all(Vec::is_empty)
            && self.taken.iter().all(Vec::is_empty)
            && self.leaving.is_empty()
    }

    /// Takes the messages of one activation from a mailbox.
    fn take(&mut self, role: usize) {
        let mail = &mut self.boxes[role];
        let end = if mail[0].1 || self.team.roles[role].deliver == DeliveryMode::Each {
            1
        } else {
            mail.iter()
                .position(|(_, alone)| *alone)
                .unwrap_or(mail.len())
        };
        self.taken[role] = mail.drain(..end).map(|(id, _)| id).collect();
    }

    /// Delivers a message that a role published. `answers` are the hops of the mail it answers.
    fn publish(&mut self, message: &Message, from: usize, answers: Vec<Hop>) {
        let draft = self
            .drafts
            .get(&message.content)
            .cloned()
            .unwrap_or_default();
        let mut legs: Vec<Hop> = Vec::new();
        for leg in if draft.route.is_empty() {
            answers
        } else {
            draft.route.clone()
        } {
            if !legs.contains(&leg) {
                legs.push(leg);
            }
        }
        let own = |leg: &Hop| self.role_named(&leg.from) == Some(from);
        let mine: Vec<Hop> = legs.iter().filter(|leg| own(leg)).cloned().collect();
        let rest: Vec<Hop> = legs.iter().filter(|leg| !own(leg)).cloned().collect();
        self.legs.insert(message.id.0.clone(), rest);
        let edges: Vec<_> = self
            .team
            .routes
            .iter()
            .filter(|route| route.from.index() == from)
            .collect();
        let names: Vec<String> = if !draft.to.is_empty() {
            draft.to
        } else if !mine.is_empty() {
            mine.into_iter().flat_map(|leg| leg.to).collect()
        } else if !edges.is_empty() {
            let holds = |arm: &&strata_core::team::RouteArm| match &arm.when {
                Some(when) => when.evaluate(message, &mut WorkBudget::default()) == Ok(true),
                None => true,
            };
            edges
                .iter()
                .filter_map(|edge| edge.arms.iter().find(holds))
                .flat_map(|arm| arm.to.clone())
                .collect()
        } else {
            vec!["<all>".into()]
        };
        self.deliver(message, Some(from), &names);
        // A join fires at the message that completes it.
        while self.fire(&[JoinMode::All, JoinMode::Any]) {}
    }

    /// Updates the oracle after an event. `before` is the state in which it happened.
    fn follow(&mut self, event: &Event, before: &Environment) {
        match event {
            Event::MessageSent(MessageSent { message, .. }) => {
                self.legs
                    .insert(message.id.0.clone(), message.route.clone());
                self.deliver(message, None, &message.send_to);
            }
            Event::HandedOver(HandedOver { id }) => assert_eq!(self.leaving.remove(0).0, id.0),
            Event::StepStarted(StepStarted { roles, .. }) => {
                for id in roles
                    .iter()
                    .filter(|id| before.role(**id).activation.is_none())
                {
                    self.take(id.index());
                }
            }
            Event::JoinReleased(_) => {
                assert!(
                    self.is_quiet() && self.fire(&[JoinMode::Active]),
                    "an active join fires when all is quiet"
                );
                while self.fire(&[JoinMode::All, JoinMode::Any]) {}
            }
            Event::RunEnded(RunEnded {
                status: Status::Done | Status::Stalled,
                ..
            }) => assert!(self.is_quiet()),
            Event::Attempt(_, AttemptEvent::CallFinished(CallFinished { result, .. })) => {
                self.drafts.extend(
                    drafts(result)
                        .into_iter()
                        .map(|draft| (draft.content.clone(), draft.clone())),
                );
            }
            Event::StepCommitted(_) => {
                for (id, activation) in before
                    .mail_activations()
                    .filter(|(_, a)| a.phase == Phase::Complete)
                {
                    let taken = std::mem::take(&mut self.taken[id.index()]);
                    let emissions = activation.done.iter().flat_map(|done| &done.emissions);
                    for emission in emissions {
                        self.publish(
                            &before.message(emission.message).clone(),
                            id.index(),
                            Vec::new(),
                        );
                    }
                    if let Some(last) = activation.done.last() {
                        let answers = taken
                            .iter()
                            .filter_map(|id| self.legs.get(id))
                            .flatten()
                            .cloned()
                            .collect();
                        self.publish(
                            &before.message(last.output.message).clone(),
                            id.index(),
                            answers,
                        );
                    }
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_message_reaches_exactly_the_mailboxes_and_joins_that_routing_names_and_leaves_joins_as_they_say(
        team in any_team(), seed: u64, order: u64,
    ) {
        let faults = FaultSchedule { kills: 1, stops: 1, mail: 4, resumes: 2, change: ResumeChange::Nothing };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 15 }, faults, order);
        let mut post = RoutingOracle {
            team: &team,
            boxes: vec![Vec::new(); team.roles.len()],
            waiting: vec![Vec::new(); team.joins.len()],
            taken: vec![Vec::new(); team.roles.len()],
            legs: BTreeMap::new(),
            leaving: Vec::new(),
            dead: Vec::new(),
            drafts: BTreeMap::new(),
        };
        let idea = run.states[0].message(run.states[0].history[0]).clone();
        post.deliver(&idea, None, &["<all>".into()]);
        for (pair, event) in run.states.windows(2).zip(&run.log[1..]) {
            post.follow(event, &pair[0]);
            let id = |message: &MessageRef| pair[1].message(*message).id.0.clone();
            for (role, state) in pair[1].roles.iter().enumerate() {
                let mail = state.mailbox.iter().map(|mail| (id(&mail.message), mail.deliver == DeliveryMode::Each));
                prop_assert_eq!(&mail.collect::<Vec<_>>(), &post.boxes[role], "after {:?}", event);
                let news = state.activation.iter().flat_map(|activation| activation.news.iter().map(id));
                prop_assert_eq!(&news.collect::<Vec<_>>(), &post.taken[role], "after {:?}", event);
            }
            for (at, join) in team.joins.iter().enumerate() {
                for (source, queue) in join.from.iter().zip(&pair[1].joins[at].queues) {
                    let expected = post.waiting[at].iter().filter(|(from, _)| from == source).map(|(_, id)| id.clone());
                    prop_assert!(queue.iter().map(id).eq(expected), "after {:?}", event);
                }
            }
            if let Event::RunEnded(RunEnded { status: Status::Done | Status::Stalled, .. }) = event {
                let left = post.waiting.iter().any(|waiting| !waiting.is_empty());
                prop_assert_eq!(left, pair[1].status == Status::Stalled, "stalled is what waits in vain");
            }
            // No join that can fire is left.
            prop_assert!(!post.can_fire(&[JoinMode::All, JoinMode::Any]), "after {:?}", event);
            let ended = matches!(event, Event::RunEnded(RunEnded { status: Status::Done | Status::Stalled, .. }));
            prop_assert!(!(ended && post.can_fire(&[JoinMode::Active])), "after {:?}", event);
            let leaving = |outbound: &OutboxMessage| (id(&outbound.message), outbound.to.clone());
            prop_assert_eq!(&pair[1].outbox.iter().map(leaving).collect::<Vec<_>>(), &post.leaving);
        }
        let dead = |letter: &strata_core::state::environment::DeadLetter| {
            (run.env().message(letter.message).id.0.clone(), letter.to.clone())
        };
        prop_assert_eq!(run.env().dead_letters.iter().map(dead).collect::<Vec<_>>(), post.dead);
        for role in &run.env().roles {
            let memory: BTreeSet<MessageRef> = role.memory.iter().copied().collect();
            prop_assert_eq!(memory.len(), role.memory.len(), "nothing is remembered twice");
        }
        let ids: Vec<_> = run.env().history.iter().map(|id| &run.env().message(*id).id).collect();
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is given once");
    }
}

//! Who receives what: every message of a life, held against an oracle that is written for nothing but to be plain.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::activation::Phase;
use strata_core::environment::Environment;
use strata_core::event::Event;
use strata_core::message::{Draft, Hop, Message};
use strata_core::team::{Outside, Team};

use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script, drafts};
use crate::teams::{any_team, cases};

/// A post office of its own.
struct Post<'a> {
    team: &'a Team,
    /// The ids in each mailbox.
    boxes: Vec<Vec<String>>,
    /// The ids that each role took and has not finished with.
    taken: Vec<Vec<String>>,
    /// The legs that travel with a message.
    legs: BTreeMap<String, Vec<Hop>>,
    /// Ids and names of what is on its way out.
    leaving: Vec<(String, Vec<String>)>,
    /// Ids and names of nobody.
    dead: Vec<(String, String)>,
    /// What actions returned, by its text.
    drafts: BTreeMap<String, Draft>,
}

impl Post<'_> {
    /// The role that a name stands for by itself.
    fn role_named(&self, name: &str) -> Option<usize> {
        let roles = &self.team.roles;
        let by_name = roles.iter().position(|role| role.name == name);
        let by_alias = roles.iter().position(|role| role.addresses.contains(&name.to_string()));
        by_name.or(by_alias)
    }

    /// Delivers a message to everyone who is named, once.
    fn deliver(&mut self, message: &Message, from: Option<usize>, names: &[String]) {
        let mut receivers = BTreeSet::new();
        let mut unknown: Vec<&String> = Vec::new();
        for name in names {
            if name == "<all>" {
                let watching = |(_, role): &(usize, &strata_core::team::Role)| role.watch.contains(&message.cause_by);
                receivers.extend(self.team.roles.iter().enumerate().filter(watching).map(|(i, _)| i));
            } else if name == "<self>" && from.is_some() {
                receivers.extend(from);
            } else if let Some(role) = self.role_named(name) {
                receivers.insert(role);
            } else if self.team.groups.contains_key(name) {
                receivers.extend(self.team.groups[name].iter().map(|id| id.index()));
            } else if !unknown.contains(&name) {
                unknown.push(name);
            }
        }
        if from.is_some() && self.team.outside == Outside::Somebody {
            let names: Vec<String> = unknown.drain(..).cloned().collect();
            self.leaving.extend((!names.is_empty()).then(|| (message.id.0.clone(), names)));
        }
        self.dead.extend(unknown.into_iter().map(|name| (message.id.0.clone(), name.clone())));
        for receiver in receivers {
            self.boxes[receiver].push(message.id.0.clone());
        }
    }

    /// Delivers what a role published. `answers` are the legs of the mail it answers.
    fn publish(&mut self, message: &Message, from: usize, answers: Vec<Hop>) {
        let draft = self.drafts.get(&message.content).cloned().unwrap_or_default();
        let mut legs: Vec<Hop> = Vec::new();
        for leg in if draft.route.is_empty() { answers } else { draft.route.clone() } {
            if !legs.contains(&leg) {
                legs.push(leg);
            }
        }
        let own = |leg: &Hop| self.role_named(&leg.from) == Some(from);
        let mine: Vec<Hop> = legs.iter().filter(|leg| own(leg)).cloned().collect();
        let rest: Vec<Hop> = legs.iter().filter(|leg| !own(leg)).cloned().collect();
        self.legs.insert(message.id.0.clone(), rest);
        let edges: Vec<_> = self.team.routes.iter().filter(|route| route.from.index() == from).collect();
        let names: Vec<String> = if !draft.to.is_empty() {
            draft.to
        } else if !mine.is_empty() {
            mine.into_iter().flat_map(|leg| leg.to).collect()
        } else if !edges.is_empty() {
            let holds = |arm: &&strata_core::team::Arm| match &arm.when {
                Some(when) => when.holds(message) == Ok(true),
                None => true,
            };
            edges.iter().filter_map(|edge| edge.arms.iter().find(holds)).flat_map(|arm| arm.to.clone()).collect()
        } else {
            vec!["<all>".into()]
        };
        self.deliver(message, Some(from), &names);
    }

    /// Follows an event. `before` is the state it happened in.
    fn follow(&mut self, event: &Event, before: &Environment) {
        match event {
            Event::MessageSent { message, .. } => {
                self.legs.insert(message.id.0.clone(), message.route.clone());
                self.deliver(message, None, &message.send_to);
            }
            Event::HandedOver { id } => assert_eq!(self.leaving.remove(0).0, id.0),
            Event::StepStarted { roles, .. } => {
                for id in roles.iter().filter(|id| before.role(**id).activation.is_none()) {
                    self.taken[id.index()] = std::mem::take(&mut self.boxes[id.index()]);
                }
            }
            Event::CallFinished { result, .. } => {
                self.drafts.extend(drafts(result).into_iter().map(|draft| (draft.content.clone(), draft.clone())));
            }
            Event::StepCommitted { .. } => {
                for (id, activation) in before.activations().filter(|(_, a)| a.phase == Phase::Complete) {
                    let taken = std::mem::take(&mut self.taken[id.index()]);
                    let emissions = activation.done.iter().flat_map(|done| &done.emissions);
                    for emission in emissions {
                        self.publish(&before.message(emission.message).clone(), id.index(), Vec::new());
                    }
                    if let Some(last) = activation.done.last() {
                        let answers = taken.iter().filter_map(|id| self.legs.get(id)).flatten().cloned().collect();
                        self.publish(&before.message(last.output.message).clone(), id.index(), answers);
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
    fn a_message_reaches_exactly_the_mailboxes_that_routing_names_and_each_once(
        team in any_team(), seed: u64, order: u64,
    ) {
        let weather = Weather { kills: 1, stops: 1, mail: 4, resumes: 2, change: Change::Nothing };
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 15 }, weather, order);
        let empty = vec![Vec::new(); team.roles.len()];
        let mut post = Post {
            team: &team,
            boxes: empty.clone(),
            taken: empty,
            legs: BTreeMap::new(),
            leaving: Vec::new(),
            dead: Vec::new(),
            drafts: BTreeMap::new(),
        };
        let idea = life.states[0].message(life.states[0].history[0]).clone();
        post.deliver(&idea, None, &["<all>".into()]);
        for (pair, event) in life.states.windows(2).zip(&life.log[1..]) {
            post.follow(event, &pair[0]);
            let ids = |role: &strata_core::environment::RoleState| {
                role.mailbox.iter().map(|id| pair[1].message(*id).id.0.clone()).collect::<Vec<_>>()
            };
            prop_assert_eq!(&pair[1].roles.iter().map(ids).collect::<Vec<_>>(), &post.boxes, "after {:?}", event);
            let leaving = |outbound: &strata_core::environment::outbox::Outbound| {
                (pair[1].message(outbound.message).id.0.clone(), outbound.to.clone())
            };
            prop_assert_eq!(&pair[1].outbox.iter().map(leaving).collect::<Vec<_>>(), &post.leaving);
        }
        let dead = |letter: &strata_core::environment::DeadLetter| {
            (life.env().message(letter.message).id.0.clone(), letter.to.clone())
        };
        prop_assert_eq!(life.env().dead_letters.iter().map(dead).collect::<Vec<_>>(), post.dead);
        let ids: Vec<_> = life.env().history.iter().map(|id| &life.env().message(*id).id).collect();
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is given once");
    }
}

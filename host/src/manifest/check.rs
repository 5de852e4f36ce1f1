//! Turns a team file as it is written into a team and its plugins: resolves names, checks modes and
//! targets, compiles conditions. Joins are checked in `join`.

mod join;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use strata_core::budget::{Caps, Purses};
use strata_core::id::{ActionId, Part, RoleId, Slot};
use strata_core::json::Json;
use strata_core::message::IDEA_LABEL;
use strata_core::team::{
    self, Outside, Policy, React, Route, Team, Thinker, saved_action, saved_thinker,
};

use super::advice::{Limited, advice};
use super::authored::edge;
use super::authored::limits::Patch;
use super::authored::role::{Mode, Role};
use super::authored::{Authored, slot};
use super::condition;
use super::diagnostic::Problems;
use super::names::{self, Names};
use super::place::Place;
use super::table::At;
use crate::plugin::Plugin;
use crate::services::variables::Variables;

/// The result of checking a team file. Complete only if no problem was found.
pub(super) struct Checked {
    pub(super) team: Team,
    pub(super) plugins: BTreeMap<Slot, Plugin>,
    pub(super) places: BTreeMap<Slot, Place>,
    /// For each role, the span of its `react`, or of the role where that is absent.
    pub(super) modes: Vec<Range<usize>>,
}

/// Checks a team file, and builds the team it describes.
pub(super) fn check(authored: &Authored, problems: &Problems) -> Checked {
    let names = Names::collect(authored, problems);
    let mut checked = Checked {
        team: Team {
            outside: if authored.env.external.is_some() {
                Outside::Somebody
            } else {
                Outside::Nobody
            },
            name: team_name(authored, problems),
            desc: authored.env.desc.clone(),
            roles: Vec::new(),
            groups: groups(authored, &names, problems),
            routes: routes(authored, &names, problems),
            joins: join::joins(authored, &names, problems),
            scopes: authored.env.scopes.clone(),
            policy: Policy {
                on_fault: authored.on_fault,
                max_steps: authored.run.max_steps,
                max_parallel: authored.run.max_parallel,
                budget: authored.caps.usd,
                purses: purses(authored),
            },
        },
        plugins: BTreeMap::new(),
        places: BTreeMap::new(),
        modes: Vec::new(),
    };
    for (role, id) in authored.roles.iter().zip(0..) {
        check_role(role, problems);
        checked
            .team
            .roles
            .push(build_role(role, &authored.limits, authored.llm.is_some()));
        let mode = role.react.as_ref().map_or(&role.span, |react| &react.span);
        checked.modes.push(mode.clone());
        checked.add_slots(role, RoleId(id), &authored.limits, problems);
    }
    check_places(authored, problems);
    checked
}

/// Reports actions and thinkers whose saved names collide. The saved name of an action is
/// `ROLE/ACTION`; since roles and actions may have a `/` in their names, two of them can be equal.
fn check_places(authored: &Authored, problems: &Problems) {
    let mut taken = BTreeMap::new();
    for role in &authored.roles {
        let Some(of) = &role.name else { continue };
        let names = role
            .actions
            .iter()
            .filter_map(|action| action.name.as_ref());
        let acts = names
            .clone()
            .map(|name| (saved_action(&of.value, &name.value), &name.span, false));
        let thinks = role.think.iter().map(|think| {
            (
                saved_thinker(&of.value, names.clone().map(|name| name.value.as_str())),
                &think.span,
                true,
            )
        });
        for (place, span, thinks) in acts.chain(thinks) {
            let first = taken.insert(place.clone(), (span, &of.value));
            // Two actions of one role with the same name are reported in `check_role`.
            if let Some((first, _)) = first.filter(|(_, first_of)| thinks || *first_of != &of.value)
            {
                let message = format!("`{place}` is what something else is called, too");
                let problem = problems
                    .at(span, message)
                    .also(first.clone(), "also called so");
                problems.add(
                    problem.hint("rename one of the roles or actions: what is saved of them lies under `ROLE/ACTION`"),
                );
            }
        }
    }
}

fn purses(authored: &Authored) -> Purses {
    let mut purses = Purses {
        tokens: authored.caps.tokens,
        ..Purses::default()
    };
    for (role, id) in authored.roles.iter().zip((0..).map(RoleId)) {
        purses.roles.insert(id, role.caps);
        for (action, index) in role.actions.iter().zip(0..) {
            purses.actions.insert(
                Slot {
                    role: id,
                    part: Part::Action(ActionId(index)),
                },
                action.caps,
            );
        }
    }
    let is_cap = |caps: &mut Caps| *caps != Caps::default();
    purses.roles.retain(|_, caps| is_cap(caps));
    purses.actions.retain(|_, caps| is_cap(caps));
    purses
}

fn team_name(authored: &Authored, problems: &Problems) -> String {
    let name = authored.name.as_ref();
    name.filter(|name| names::valid(name, problems))
        .map(|name| name.value.clone())
        .unwrap_or_default()
}

impl Checked {
    fn add_slots(&mut self, role: &Role, id: RoleId, defaults: &Patch, problems: &Problems) {
        if let Some(think) = &role.think {
            let slot = Slot {
                role: id,
                part: Part::Think,
            };
            self.add_slot(slot, &think.value, defaults, problems);
        }
        for (action, index) in role.actions.iter().zip(0..) {
            let slot = Slot {
                role: id,
                part: Part::Action(ActionId(index)),
            };
            self.add_slot(slot, &action.slot, defaults, problems);
        }
    }

    fn add_slot(&mut self, at: Slot, slot: &slot::Slot, defaults: &Patch, problems: &Problems) {
        let Some(component) = &slot.component else {
            return;
        };
        let patch = slot.limits.or(defaults);
        let limited = Limited {
            part: at.part,
            entry: &slot.span,
            patch: &patch,
        };
        let plugin = Plugin {
            component: component.value.clone(),
            pin: slot.pin.as_ref().map(|pin| pin.value.clone()),
            function: slot
                .function
                .as_ref()
                .map(|function| function.value.clone()),
            config: Json::from(slot.config.clone()),
            output_schema: slot
                .output_schema
                .as_ref()
                .map(|(schema, _)| schema.clone()),
            limits: patch.limits(),
            advice: advice(&problems.source, &limited),
            grants: slot.allow.grants.clone(),
            variables: Variables::default(),
        };
        self.plugins.insert(at, plugin);
        let place = Place {
            entry: slot.span.clone(),
            component: component.span.clone(),
            skill: slot.skill.clone(),
            pin: slot.pin.as_ref().map(|pin| pin.span.clone()),
            function: slot.function.as_ref().map(|function| function.span.clone()),
            config: slot.config_span.clone(),
            output_schema: slot.output_schema.as_ref().map(|(_, file)| file.clone()),
            allow: slot.allow.span.clone(),
            limits: patch.written.into_keys().collect(),
            secrets: slot.allow.secrets.clone(),
        };
        self.places.insert(at, place);
    }
}

fn check_role(role: &Role, problems: &Problems) {
    for label in &role.watch {
        if label.value.is_empty() {
            let problem = problems.at(&label.span, "a label cannot be empty");
            problems.add(problem.hint("labels are names of actions"));
        }
        names::is_legible(label, problems);
    }
    let mut taken = BTreeMap::new();
    for name in role.actions.iter().filter_map(|a| a.name.as_ref()) {
        if !names::valid_action(name, problems) {
            continue;
        }
        if let Some(first) = taken.insert(&name.value, &name.span) {
            let message = format!("the role has two actions named `{}`", name.value);
            let problem = problems.at(&name.span, message);
            problems.add(
                problem
                    .also(first.clone(), "first used here")
                    .hint("rename one of them"),
            );
        }
    }
    match role.human {
        Some(_) => check_human(role, problems),
        None => check_agent(role, problems),
    }
}

fn check_human(role: &Role, problems: &Problems) {
    let hint = "a human role answers messages; it has neither components nor modes";
    let refuse = |span, what: &str| {
        let message = format!("a human role cannot have {what}");
        problems.add(problems.at(span, message).hint(hint));
    };
    if let Some(name) = role.name.as_ref().filter(|name| name.value == IDEA_LABEL) {
        let problem = problems.at(
            &name.span,
            format!("a human role cannot be named `{IDEA_LABEL}`"),
        );
        problems.add(problem.hint(
            "answers have the name of their role as label, and that is the label of the idea",
        ));
    }
    if let Some(action) = role.actions.first() {
        refuse(&action.slot.span, "actions");
    }
    if let Some(think) = &role.think {
        refuse(&think.span, "`think`");
    }
    if let Some(react) = &role.react {
        refuse(&react.span, "`react`");
    }
    if let Some(max) = &role.max_react_loop {
        refuse(&max.span, "`max_react_loop`");
    }
}

fn check_agent(role: &Role, problems: &Problems) {
    let react = mode(role);
    // If some keys could not be read, actions may only seem to be missing.
    let complete = problems.is_read(&["", "role.kind", "role.action"]);
    if role.actions.is_empty() && complete {
        let problem = problems.at(&role.span, "the role has no actions");
        problems.add(problem.hint("add a `[[role.action]]`, or `kind = \"human\"`"));
    }
    if react != Mode::Choose && problems.is_read(&["role.react"]) {
        // `max_react_loop = 1` is the default, so it is harmless.
        let max = role
            .max_react_loop
            .as_ref()
            .filter(|max| max.value != 1)
            .map(|max| &max.span);
        let think = role.think.as_ref().map(|think| &think.span);
        for (span, key) in [(max, "max_react_loop"), (think, "think")] {
            if let Some(span) = span {
                let message = format!("`{key}` needs `react = \"react\"`");
                let problem = problems.at(span, message);
                problems.add(problem.hint("remove it, or change the role's `react`"));
            }
        }
    }
    if react == Mode::PlanAndAct && role.actions.len() == 1 && complete {
        let span = role.react.as_ref().map_or(&role.span, |react| &react.span);
        let problem = problems.at(span, "`plan_and_act` needs at least two actions");
        problems.add(problem.hint("the first plans, the others carry out the plan"));
    }
    let planner = role.actions.first().filter(|_| react == Mode::PlanAndAct);
    if let Some(planner) = planner.filter(|planner| planner.slot.output_schema.is_some()) {
        let problem = problems.at(
            &planner.slot.span,
            "what plans has no output, and so no `output_schema`",
        );
        problems
            .add(problem.hint("remove `output_schema`: its tasks go to the role's other actions"));
    }
}

fn mode(role: &Role) -> Mode {
    role.react.as_ref().map_or(Mode::ByOrder, |r| r.value)
}

fn build_role(role: &Role, defaults: &Patch, has_model: bool) -> team::Role {
    let values = |texts: &[At<String>]| -> Vec<String> {
        texts.iter().map(|text| text.value.clone()).collect()
    };
    let react = match mode(role) {
        _ if role.human.is_some() => React::Human,
        Mode::ByOrder => React::ByOrder,
        Mode::PlanAndAct => React::PlanAndAct,
        Mode::Choose => {
            let max_loop = role.max_react_loop.as_ref().map_or(1, |max| max.value);
            let thinker = match role.think {
                Some(_) => Thinker::Component,
                // A model can decide that fewer rounds are enough, but not that the role does not
                // act at all.
                None if role.actions.len() == 1 && (max_loop <= 1 || !has_model) => {
                    Thinker::OnlyAction
                }
                None => Thinker::Model,
            };
            React::Choose { max_loop, thinker }
        }
    };
    let name = |name: &Option<At<String>>| {
        let name = name.as_ref().map(|name| name.value.clone());
        name.unwrap_or_default()
    };
    let actions = role.actions.iter().map(|action| team::Action {
        name: name(&action.name),
        retry: action.slot.limits.or(defaults).retry(),
    });
    team::Role {
        name: name(&role.name),
        profile: role.profile.clone(),
        goal: role.goal.clone(),
        constraints: role.constraints.clone(),
        desc: role.desc.clone(),
        watch: values(&role.watch).into_iter().collect(),
        addresses: values(&role.addresses),
        react,
        actions: actions.collect(),
    }
}

fn groups(
    authored: &Authored,
    names: &Names,
    problems: &Problems,
) -> BTreeMap<String, Vec<RoleId>> {
    let mut groups = BTreeMap::new();
    for (name, members) in &authored.env.groups {
        let mut seen = BTreeSet::new();
        let mut ids = Vec::new();
        for member in members {
            let Some(id) = names.role(member, problems) else {
                continue;
            };
            if !seen.insert(id) {
                let message = format!("`{}` is in the group twice", member.value);
                let problem = problems.at(&member.span, message);
                problems.add(problem.hint("an alias stands for its role"));
            }
            ids.push(id);
        }
        groups.insert(name.value.clone(), ids);
    }
    groups
}

fn routes(authored: &Authored, names: &Names, problems: &Problems) -> Vec<Route> {
    let routes = authored.routes.iter().filter_map(|route| {
        let arms = route.arms.iter().map(|arm| build_arm(arm, names, problems));
        let arms = arms.collect();
        let from = names.role(route.from.as_ref()?, problems)?;
        Some(Route {
            from,
            label: route.label.clone(),
            arms,
        })
    });
    routes.collect()
}

fn build_arm(arm: &edge::Arm, names: &Names, problems: &Problems) -> team::Arm {
    for target in &arm.to {
        names.target(target, problems);
    }
    team::Arm {
        when: arm.when.as_ref().and_then(|when| compile(when, problems)),
        to: arm.to.iter().map(|target| names.lasting(target)).collect(),
    }
}

fn compile(when: &At<String>, problems: &Problems) -> Option<strata_core::condition::Condition> {
    let refusal = match condition::compile(&when.value) {
        Ok(condition) => return Some(condition),
        Err(refusal) => refusal,
    };
    let mut span = when.span.clone();
    let text = problems.text(&span);
    // If the string is written without escapes, between single quotes, the error itself can be
    // underlined.
    let verbatim = text.get(1..text.len().saturating_sub(1)) == Some(when.value.as_str());
    if let Some(at) = refusal.at.filter(|_| verbatim) {
        let skipped: usize = when.value.chars().take(at).map(char::len_utf8).sum();
        span.start += 1 + skipped;
        span.end = (span.end - 1).max(span.start + 1);
    }
    let condition = when.value.replace('\n', " ");
    let message = format!(
        "the condition `{condition}` cannot be used: {}",
        refusal.reason
    );
    problems.add(problems.at(&span, message).hint(refusal.hint));
    None
}

//! Turns a team file as it is written into a team and its plugins: resolves names, checks modes and
//! targets, compiles conditions. Joins are checked in `join`.

mod join;
mod role_calls;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use strata_core::record::human_request::AnswerForm;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::rules::Thinker;
use strata_core::team::condition::Condition;
use strata_core::team::{
    self, BudgetLimits, DEFAULT_STATE_BYTES, ExternalEnvironment, OnFault, Policy, React, Route,
    ScopedBudgets, THINK, Team, saved_action_name, saved_part_name,
};
use strata_services::human::MAX_CHOICES;
use strata_services::models::config::DEFAULT_MODEL;
use strata_services::plugin::Plugin;
use strata_services::tools::ToolRole;
use strata_services::variables::Variables;

use self::role_calls::{RoleLinks, check_role_links};
use super::advice::{LimitContext, limit_advice};
use super::authored::limits::LimitsPatch;
use super::authored::role::{AuthoredRole, ReactMode};
use super::authored::tools::OUTPUT_SCHEMA;
use super::authored::{AuthoredTeam, DEFAULT_PARALLEL, edge, slot};
use super::component_location::ComponentLocation;
use super::condition;
use super::diagnostic::Problems;
use super::models::AuthoredModels;
use super::names::{self, TeamNames};
use super::table::Located;

/// The result of checking a team file. Complete only if no problem was found.
pub(super) struct CheckedTeam {
    pub(super) team: Team,
    pub(super) plugins: BTreeMap<Slot, Plugin>,
    pub(super) locations: BTreeMap<Slot, ComponentLocation>,
    /// The roles whose model works with tools.
    pub(super) tool_roles: BTreeMap<RoleId, ToolRole>,
    /// For each role, the span of its `react`, or of the role where that is absent.
    pub(super) react_spans: Vec<Range<usize>>,
    /// What is unusual about the skills of roles.
    pub(super) skill_warnings: Vec<String>,
}

/// Checks a team file, and builds the team it describes.
pub(super) fn check_team(authored: &AuthoredTeam, problems: &Problems) -> CheckedTeam {
    let names = TeamNames::collect(authored, problems);
    let mut checked = CheckedTeam {
        team: Team {
            external: if authored.env.external.is_some() {
                ExternalEnvironment::Present
            } else {
                ExternalEnvironment::Absent
            },
            name: team_name(authored, problems),
            desc: authored.env.desc.clone(),
            roles: Vec::new(),
            groups: build_groups(authored, &names, problems),
            routes: build_routes(authored, &names, problems),
            joins: join::build_joins(authored, &names, problems),
            scopes: authored.env.scopes.clone(),
            policy: Policy {
                on_fault: authored.header.on_fault.unwrap_or(OnFault::Stop),
                max_steps: authored.run.max_steps,
                max_parallel: authored.run.max_parallel.unwrap_or(DEFAULT_PARALLEL),
                state_bytes: authored.run.state_bytes.unwrap_or(DEFAULT_STATE_BYTES),
                lowered: Default::default(),
                budget: authored.header.budget_limits.usd,
                scoped_budgets: budget_scopes(authored),
            },
        },
        plugins: BTreeMap::new(),
        locations: BTreeMap::new(),
        tool_roles: BTreeMap::new(),
        react_spans: Vec::new(),
        skill_warnings: Vec::new(),
    };
    let mut links = Vec::with_capacity(authored.roles.len());
    for (role, id) in authored.roles.iter().zip(0..) {
        check_role(role, problems);
        tools::check_servers(role, &authored.servers, problems);
        if let Some(model) = role.model.as_ref().filter(|_| role.human.is_none()) {
            authored.models.check(model, problems);
        }
        let summariser = role.tools.memory.as_ref();
        if let Some(model) = summariser.and_then(|memory| memory.model.as_ref()) {
            authored.models.check(model, problems);
        }
        let mut built = build_role(role, &authored.limits, &authored.models);
        if role.human.is_none() && react_mode(role) == ReactMode::Tools {
            let (roles, limits) = (&authored.roles, &authored.limits);
            let tools = tools::check_tools(role, roles, &names, limits, problems);
            let choice = &tools.settings.tool_choice;
            tools::check_forced_choice(role, choice, &authored.models, problems);
            built.react = React::Tools(Box::new(tools.tool_loop));
            checked.tool_roles.insert(RoleId(id), tools.settings);
            links.push(tools.links);
        } else {
            links.push(RoleLinks::default());
        }
        checked.team.roles.push(built);
        let mode = role.react.as_ref().map_or(&role.span, |react| &react.span);
        checked.react_spans.push(mode.clone());
        checked.add_slots(role, RoleId(id), &authored.limits, problems);
    }
    let role_names: Vec<&str> = checked
        .team
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    check_role_links(links, &role_names, problems);
    check_saved_names(authored, problems);
    checked
}

/// Reports actions and thinkers whose saved names collide. The saved name of an action is
/// `ROLE/ACTION`; since roles and actions may have a `/` in their names, two of them can be equal.
fn check_saved_names(authored: &AuthoredTeam, problems: &Problems) {
    let mut taken = BTreeMap::new();
    for role in &authored.roles {
        let Some(of) = &role.name else { continue };
        let names = role
            .actions
            .iter()
            .filter_map(|action| action.name.as_ref());
        let acts = names
            .clone()
            .map(|name| (saved_action_name(&of.value, &name.value), &name.span, false));
        let thinks = role.think.iter().map(|think| {
            (
                saved_part_name(
                    &of.value,
                    THINK,
                    names.clone().map(|name| name.value.as_str()),
                ),
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

fn budget_scopes(authored: &AuthoredTeam) -> ScopedBudgets {
    let mut budgets = ScopedBudgets {
        tokens: authored.header.budget_limits.tokens,
        ..ScopedBudgets::default()
    };
    for (role, id) in authored.roles.iter().zip((0..).map(RoleId)) {
        budgets.roles.insert(id, role.budget_limits);
        for (action, index) in role.actions.iter().zip(0..) {
            budgets.actions.insert(
                Slot {
                    role: id,
                    kind: SlotKind::Action(ActionId(index)),
                },
                action.budget_limits,
            );
        }
    }
    let is_cap = |caps: &mut BudgetLimits| *caps != BudgetLimits::default();
    budgets.roles.retain(|_, caps| is_cap(caps));
    budgets.actions.retain(|_, caps| is_cap(caps));
    budgets
}

fn team_name(authored: &AuthoredTeam, problems: &Problems) -> String {
    let name = authored.header.name.as_ref();
    name.filter(|name| names::check_name(name, problems))
        .map(|name| name.value.clone())
        .unwrap_or_default()
}

impl CheckedTeam {
    fn add_slots(
        &mut self,
        role: &AuthoredRole,
        id: RoleId,
        defaults: &LimitsPatch,
        problems: &Problems,
    ) {
        if let Some(think) = &role.think {
            let slot = Slot {
                role: id,
                kind: SlotKind::Think,
            };
            self.add_slot(slot, &think.value, defaults, problems);
        }
        let skills = &role.tools.skills;
        self.skill_warnings.extend_from_slice(&skills.warnings);
        for language in &skills.languages {
            let slot = Slot {
                role: id,
                kind: SlotKind::SkillScript(*language),
            };
            let span = skills.span.as_ref().unwrap_or(&role.span);
            let base = &problems.source.base;
            let interpreter = role.tools.skill_rules.interpreter(*language, span, base);
            self.add_slot(slot, &interpreter, defaults, problems);
        }
        for (moment, guard) in &role.tools.guards {
            let slot = Slot {
                role: id,
                kind: SlotKind::Guard(*moment),
            };
            self.add_slot(slot, &guard.value, defaults, problems);
        }
        let memory = role.tools.memory.as_ref();
        if let Some(summariser) = memory.and_then(|memory| memory.component.as_ref()) {
            let slot = Slot {
                role: id,
                kind: SlotKind::Summary,
            };
            self.add_slot(slot, &summariser.value, defaults, problems);
        }
        for (action, index) in role.actions.iter().zip(0..) {
            let slot = Slot {
                role: id,
                kind: SlotKind::Action(ActionId(index)),
            };
            self.add_slot(slot, &action.slot, defaults, problems);
            // The answer of a role has to follow its schema also where an action gives it.
            if let (true, Some((schema, _))) = (action.tool.is_final, &role.tools.output_schema)
                && let Some(plugin) = self.plugins.get_mut(&slot)
            {
                plugin.answer_schema = Some(schema.clone());
            }
        }
    }

    fn add_slot(
        &mut self,
        at: Slot,
        slot: &slot::AuthoredSlot,
        defaults: &LimitsPatch,
        problems: &Problems,
    ) {
        let Some(component) = &slot.component else {
            return;
        };
        let patch = slot.limits.completed_with(defaults);
        let limited = LimitContext::new(at.kind, slot, &patch, defaults);
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
            answer_schema: None,
            limits: patch.limits(),
            advice: limit_advice(&problems.source, &limited),
            grants: slot.allow.grants.clone(),
            variables: Variables::default(),
        };
        self.plugins.insert(at, plugin);
        let location = ComponentLocation {
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
        self.locations.insert(at, location);
    }
}

fn check_role(role: &AuthoredRole, problems: &Problems) {
    for label in &role.watch {
        if label.value.is_empty() {
            let problem = problems.at(&label.span, "a label cannot be empty");
            problems.add(problem.hint("labels are names of actions"));
        }
        names::check_legible(label, problems);
    }
    let mut spans_by_name = BTreeMap::new();
    for name in role.actions.iter().filter_map(|a| a.name.as_ref()) {
        if !names::check_action_name(name, problems) {
            continue;
        }
        if let Some(first) = spans_by_name.insert(&name.value, &name.span) {
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

fn check_human(role: &AuthoredRole, problems: &Problems) {
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
    if let Some(model) = &role.model {
        refuse(&model.span, "`model`");
    }
    for key in &role.tools.keys {
        if key.name != OUTPUT_SCHEMA {
            refuse(&key.span, &format!("`{}`", key.name));
        }
    }
    check_answer_form(role, problems);
}

/// Checks that somebody could answer a human role.
fn check_answer_form(role: &AuthoredRole, problems: &Problems) {
    if let Some(choice) = role.choices.get(MAX_CHOICES) {
        let message = format!("a human role can have at most {MAX_CHOICES} choices");
        let problem = problems.at(&choice.span, message);
        problems.add(problem.hint("remove some, or describe the answer with `output_schema`"));
    }
    let Some((schema, _)) = &role.tools.output_schema else {
        return;
    };
    let fits = |choice: &Located<String>| schema.check(&choice.value.as_str().into()).is_ok();
    let unfit = role.choices.iter().find(|choice| !fits(choice));
    let schema_key = role.tools.keys.iter().find(|key| key.name == OUTPUT_SCHEMA);
    if let Some(choice) = unfit {
        let message = format!(
            "the choice `{}` does not follow `output_schema`",
            choice.value
        );
        let problem = problems.at(&choice.span, message);
        problems.add(problem.hint("a choice is a text; remove it, or change the schema"));
    } else if let Some(key) = schema_key.filter(|_| schema.is_impossible()) {
        let problem = problems.at(
            &key.span,
            "nobody could answer: no value follows this schema",
        );
        problems.add(problem.hint("change the schema"));
    }
}

fn check_agent(role: &AuthoredRole, problems: &Problems) {
    let react = react_mode(role);
    if let Some(choice) = role.choices.first() {
        let problem = problems.at(&choice.span, "`choices` needs `kind = \"human\"`");
        problems
            .add(problem.hint("remove it; what a model answers is described by `output_schema`"));
    }
    // If some keys could not be read, actions may only seem to be missing.
    let complete = problems.are_read(&["", "role.kind", "role.action"]);
    if role.actions.is_empty() && complete && react != ReactMode::Tools {
        let problem = problems.at(&role.span, "the role has no actions");
        problems.add(problem.hint("add a `[[role.action]]`, or `kind = \"human\"`"));
    }
    if react != ReactMode::Choose && problems.are_read(&["role.react"]) {
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
    if react != ReactMode::Tools && problems.are_read(&["role.react"]) {
        tools::reject_tool_keys(role, problems);
    }
    if react == ReactMode::PlanAndAct && role.actions.len() == 1 && complete {
        let span = role.react.as_ref().map_or(&role.span, |react| &react.span);
        let problem = problems.at(span, "`plan_and_act` needs at least two actions");
        problems.add(problem.hint("the first plans, the others carry out the plan"));
    }
    let planner = role
        .actions
        .first()
        .filter(|_| react == ReactMode::PlanAndAct);
    if let Some(planner) = planner.filter(|planner| planner.slot.output_schema.is_some()) {
        let problem = problems.at(
            &planner.slot.span,
            "what plans has no output, and so no `output_schema`",
        );
        problems
            .add(problem.hint("remove `output_schema`: its tasks go to the role's other actions"));
    }
}

fn react_mode(role: &AuthoredRole) -> ReactMode {
    role.react.as_ref().map_or(ReactMode::ByOrder, |r| r.value)
}

fn build_role(role: &AuthoredRole, defaults: &LimitsPatch, models: &AuthoredModels) -> team::Role {
    let model = role.model.as_ref().map(|model| model.value.clone());
    let has_model = model.is_some() || models.has(DEFAULT_MODEL);
    let values = |texts: &[Located<String>]| -> Vec<String> {
        texts.iter().map(|text| text.value.clone()).collect()
    };
    let react = match react_mode(role) {
        _ if role.human.is_some() => React::Human,
        ReactMode::ByOrder => React::ByOrder,
        ReactMode::PlanAndAct => React::PlanAndAct,
        // The caller replaces it.
        ReactMode::Tools => React::ByOrder,
        ReactMode::Choose => {
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
    let name = |name: &Option<Located<String>>| {
        let name = name.as_ref().map(|name| name.value.clone());
        name.unwrap_or_default()
    };
    let actions = role.actions.iter().map(|action| team::Action {
        name: name(&action.name),
        retry: action.slot.limits.completed_with(defaults).retry(),
    });
    team::Role {
        name: name(&role.name),
        profile: role.profile.clone(),
        goal: role.goal.clone(),
        constraints: role.constraints.clone(),
        desc: role.desc.clone(),
        watch: values(&role.watch).into_iter().collect(),
        addresses: values(&role.addresses),
        deliver: role.deliver.unwrap_or_default(),
        model,
        react,
        actions: actions.collect(),
        answer_form: answer_form(role),
    }
}

/// Returns what the answers of a human role must be like.
fn answer_form(role: &AuthoredRole) -> AnswerForm {
    if role.human.is_none() {
        return AnswerForm::default();
    }
    let schema = role.tools.output_schema.as_ref();
    AnswerForm {
        schema: schema.map(|(schema, _)| Json::from(schema.document().clone())),
        choices: role
            .choices
            .iter()
            .map(|choice| choice.value.clone())
            .collect(),
    }
}

fn build_groups(
    authored: &AuthoredTeam,
    names: &TeamNames,
    problems: &Problems,
) -> BTreeMap<String, Vec<RoleId>> {
    let mut groups = BTreeMap::new();
    for (name, members) in &authored.env.groups {
        let mut seen = BTreeSet::new();
        let mut ids = Vec::new();
        for member in members {
            let Some(id) = names.resolve_role(member, problems) else {
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

fn build_routes(authored: &AuthoredTeam, names: &TeamNames, problems: &Problems) -> Vec<Route> {
    let routes = authored.routes.iter().filter_map(|route| {
        let arms = route.arms.iter().map(|arm| build_arm(arm, names, problems));
        let arms = arms.collect();
        let from = names.resolve_role(route.from.as_ref()?, problems)?;
        Some(Route {
            from,
            label: route.label.clone(),
            arms,
        })
    });
    routes.collect()
}

fn build_arm(arm: &edge::AuthoredArm, names: &TeamNames, problems: &Problems) -> team::RouteArm {
    for target in &arm.to {
        names.check_target(target, problems);
    }
    team::RouteArm {
        when: arm
            .when
            .as_ref()
            .and_then(|when| compile_condition(when, problems)),
        to: arm
            .to
            .iter()
            .map(|target| names.canonical(target))
            .collect(),
    }
}

fn compile_condition(when: &Located<String>, problems: &Problems) -> Option<Condition> {
    let refusal = match condition::compile(&when.value) {
        Ok(condition) => return Some(condition),
        Err(refusal) => refusal,
    };
    let mut span = when.span.clone();
    let text = problems.text(&span);
    // If the string is written without escapes, between single quotes, the error itself can be
    // underlined.
    let verbatim = text.get(1..text.len().saturating_sub(1)) == Some(when.value.as_str());
    if let Some(at) = refusal.char_index.filter(|_| verbatim) {
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

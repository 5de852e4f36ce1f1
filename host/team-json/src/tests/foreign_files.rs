//! Files that this program did not write as they are: those of MetaGPT, and ours after arbitrary
//! edits. Also, that a file of ours is read back exactly.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use strata_base::scripted_run::{ScriptedRun, normalized, team};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::money::Usd;
use strata_core::record::work::{ActivationKey, CallKey, Work};
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;

use super::{again, read};
use crate::{
    SavedDefinition, export, import, is_finished, parse_external_message, saved_definition,
};

/// Returns a file of MetaGPT with these roles.
fn metagpt(mut roles: Value) -> Value {
    roles["E"] = json!({});
    json!({ "env": { "desc": "", "roles": roles, "history": "" }, "investment": 10.0, "idea": "write a snake game" })
}

fn message(id: &str, cause_by: &str, from: &str) -> Value {
    json!({
        "id": id, "content": format!("{cause_by} ran"), "instruct_content": null, "role": format!("{from}(Role {from})"),
        "cause_by": cause_by, "sent_from": from, "send_to": ["<all>"]
    })
}

#[test]
fn a_message_that_comes_in_names_its_recipients_as_one_that_goes_out_does() {
    let sent_to = |line: &str| {
        parse_external_message(line)
            .map(|message| message.send_to)
            .map_err(|error| error.to_string())
    };
    let check = |line: &str, names: &[&str]| assert_eq!(sent_to(line).unwrap(), names, "{line}");
    check(r#"{"content":"x","to":["Q"]}"#, &["Q"]);
    check(r#"{"content":"x","to":"Q"}"#, &["Q"]);
    check(r#"{"content":"x","to":"Q","send_to":["Q"]}"#, &["Q"]);
    check(r#"{"content":"x","to":[],"send_to":["Q"]}"#, &["Q"]);
    check(r#"{"content":"x","to":null}"#, &["<all>"]);
    let both = sent_to(r#"{"content":"x","to":["Q"],"restricted_to":["<all>"]}"#);
    assert_eq!(
        both.unwrap_err(),
        "`/to` names others than `restricted_to`; leave one of them out"
    );
    assert_eq!(
        sent_to("[1]").unwrap_err(),
        "it is a list, expected an object"
    );
}

#[test]
fn names_that_are_taken_are_passed_over_once() {
    // This takes a second. It would take an hour if each message searched through all ids that are
    // in use.
    let count = 20_000;
    let taken = (count..2 * count).map(|n| json!({ "id": format!("imported-{n}"), "content": "" }));
    let storage: Vec<Value> = taken
        .chain((0..count).map(|_| json!({ "content": "x" })))
        .collect();
    let file = metagpt(
        json!({ "A": { "rc": { "memory": { "storage": storage } } }, "B/2": {}, "C": {}, "D": {} }),
    );
    let env = import(&team(), file.to_string().as_bytes()).unwrap();
    let ids: std::collections::BTreeSet<&str> = env
        .messages
        .iter()
        .map(|message| message.id.0.as_str())
        .collect();
    assert_eq!((ids.len(), env.messages.len()), (2 * count, 2 * count));
}

#[test]
fn what_a_role_is_at_is_looked_for_once_however_much_it_is() {
    // The same.
    let (news, buffer) = (vec!["a"; 200_000], vec!["b"; 200_000]);
    let storage = [message("a", "q", "A"), message("b", "q", "A")];
    let rc =
        json!({ "state": 0, "memory": { "storage": storage }, "news": news, "msg_buffer": buffer });
    let file = metagpt(json!({ "A": {}, "B/2": { "rc": rc }, "C": {}, "D": {} }));
    let env = import(&team(), file.to_string().as_bytes()).unwrap();
    let role = env.role(RoleId(1));
    assert_eq!((role.mailbox.len(), role.memory.len()), (1, 1), "each once");
}

/// The entries of the roles of a team that stopped in the middle of an activation of `B/2`.
fn roles_of_metagpt() -> Value {
    json!({
        "Role A": {},
        "Role B/2": {
            "name": "B/2", "profile": "Role B/2", "is_human": true, "states": ["0. x", "1. y", "2. z"],
            "actions": [{"name": "x", "content": "", "prefix": "you are"}, {"name": "y"}, {"name": "z"}],
            "rc": {
                "memory": {
                    "storage": [message("0", "q", "A"), message("2", "x", "B/2")],
                    "index": {"nonsense": []}, "ignore_id": false
                },
                "state": 1, "watch": ["pkg.mod.q", "work"], "react_mode": "by_order", "max_react_loop": 1,
                "msg_buffer": "[\"{\\\"id\\\": \\\"3\\\", \\\"content\\\": \\\"unread\\\", \\\"cause_by\\\": \\\"q\\\"}\"]",
                "env": null
            },
            "recovered": true,
            "latest_observed_msg": message("1", "pkg.mod.q", "A")
        },
        "C": {"states": [], "actions": [], "rc": {"watch": [], "state": -1, "memory": {"storage": [message("1", "q", "A"), message("1", "z", "X")]}}},
        "D": {"rc": null}
    })
}

#[test]
fn a_file_of_metagpts_own_is_gone_on_from() {
    let file = metagpt(roles_of_metagpt());
    let env = read(&file).unwrap();
    assert_eq!(env, read(&file).unwrap());
    assert!(env.run.0.starts_with("imported-"));
    assert_eq!(
        (env.idea.as_str(), env.budget),
        ("write a snake game", Some(Usd::from_dollars(10.0)))
    );
    let contents = |ids: Vec<_>| {
        env.resolve(&ids)
            .iter()
            .map(|m| m.content.clone())
            .collect::<Vec<_>>()
    };
    let role = &env.roles[1];
    let activation = role.activation.as_ref().unwrap();
    assert_eq!(
        (
            activation.phase.clone(),
            activation.skipped_actions,
            activation.done.len()
        ),
        (Phase::Ready, 0, 1)
    );
    assert_eq!(contents(activation.news.clone()), ["pkg.mod.q ran"]);
    assert_eq!(env.message(activation.news[0]).cause_by, "q");
    assert_eq!(
        contents(role.mailbox.iter().map(|mail| mail.message).collect()),
        ["unread"]
    );
    assert_eq!(contents(role.memory.clone()), ["q ran"]);
    assert_eq!(
        contents(env.memory(ActivationKey::of_mail(RoleId(1))).collect()),
        ["q ran", "x ran"]
    );
    assert!([0, 2, 3].iter().all(|i| env.roles[*i].activation.is_none()));
    // One id, two messages.
    assert_eq!(contents(env.roles[2].memory.clone()), ["q ran", "z ran"]);
    let written = again(&file);
    assert_eq!(
        written.pointer("/env/roles/B~12/is_human"),
        Some(&json!(true))
    );
    assert_eq!(
        written.pointer("/env/roles/B~12/actions/0/prefix"),
        Some(&json!("you are"))
    );
    assert_eq!(again(&written), written);
    let mut run = ScriptedRun::from_state(env, &[]);
    run.stepper
        .apply(&run.stepper.run_resumed_event(None, Default::default()))
        .unwrap();
    while run.advance() {}
    let ran = run.events.iter().find_map(|event| match event {
        Event::Attempt(CallKey { role, work, .. }, AttemptEvent::CallStarted(_)) => {
            Some((*role, *work))
        }
        _ => None,
    });
    assert_eq!(
        ran,
        Some((
            RoleId(1),
            Work::Act {
                action: ActionId(1),
                task: None
            }
        ))
    );
    assert_eq!(run.stepper.env().status, Status::Done);
}

#[test]
fn a_role_of_metagpts_without_its_earlier_outputs_skips_them() {
    let at = |name: &str, state: i64, storage: Value| {
        let role = json!({"latest_observed_msg": message("1", "q", "A"), "rc": {"state": state, "memory": {"storage": storage}}});
        let mut roles = json!({"A": {}, "B/2": {}, "C": {}, "D": {}});
        roles[name] = role;
        read(&metagpt(roles))
    };
    let open = |env: Environment, role: usize| env.roles[role].activation.clone().unwrap();
    let activation = open(at("B/2", 2, json!([])).unwrap(), 1);
    assert_eq!((activation.skipped_actions, activation.done.len()), (2, 0));
    let activation = open(
        at(
            "B/2",
            2,
            json!([message("8", "x", "A"), message("9", "y", "B/2")]),
        )
        .unwrap(),
        1,
    );
    assert_eq!((activation.skipped_actions, activation.done.len()), (1, 1));
    assert_eq!(open(at("C", 1, json!([])).unwrap(), 2).choices, [1]);
    assert_eq!(
        open(at("D", 1, json!([])).unwrap(), 3).current_work(team().role(RoleId(3))),
        Some(Work::Plan)
    );
    let handled = json!([message("1", "q", "A")]);
    assert_eq!(at("B/2", -1, handled).unwrap().roles[1].activation, None);
    let activation = open(at("B/2", -1, json!([])).unwrap(), 1);
    assert_eq!(
        (activation.skipped_actions, activation.news.len()),
        (0, 1),
        "it failed before it began"
    );
    let error = at("B/2", 3, json!([])).unwrap_err().to_string();
    assert!(error.contains("`/env/roles/B~12/rc/state` is 3"), "{error}");
}

#[test]
fn new_messages_never_get_the_ids_of_old_ones() {
    let roles = json!({
        "A": {"rc": {"memory": {"storage": [message("4-1-0", "q", "B/2"), message("sent-1", "q", "B/2")]}}},
        "B/2": {"latest_observed_msg": message("0-0-1", "q", "A"), "rc": {"state": 0}}, "C": {}, "D": {}
    });
    let env = read(&metagpt(roles)).unwrap();
    assert_eq!(env.step, 5);
    let mut run = ScriptedRun::from_state(env, &[]);
    run.stepper
        .apply(&run.stepper.run_resumed_event(None, Default::default()))
        .unwrap();
    while run.advance() {}
    let mut ids: Vec<_> = run
        .stepper
        .env()
        .messages
        .iter()
        .map(|message| message.id.clone())
        .collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), count > 8), (count, true));
}

/// Collects the JSON pointers of all values of a document.
fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                pointers(item, format!("{at}/{i}"), all);
            }
        }
        Value::Object(map) => {
            for (name, item) in map {
                pointers(item, crate::located_value::child_pointer(&at, name), all);
            }
        }
        _ => {}
    }
    all.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_file_is_refused_or_can_be_gone_on_from(
        turns in vec(any::<u8>(), 60..200),
        edits in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
        ours in any::<bool>(),
    ) {
        let mut run = ScriptedRun::new(&turns);
        while run.events.len() < 60 && run.advance() {}
        let mut file: Value = serde_json::from_str(&export(&team(), run.stepper.env(), &SavedDefinition::example())).unwrap();
        if !ours {
            file.as_object_mut().unwrap().remove("strata");
        }
        for (place, value) in edits {
            let mut all = Vec::new();
            pointers(&file, String::new(), &mut all);
            // Most values belong to messages; the others matter more.
            let choosy: [fn(&String) -> bool; 3] = [
                |_| true,
                |pointer| !pointer.contains("/storage/") && !pointer.contains("/index/"),
                |pointer| pointer.starts_with("/strata/") && !pointer.starts_with("/strata/messages"),
            ];
            let choosy = choosy[all.len() % 3];
            if all.iter().any(choosy) {
                all.retain(choosy);
            }
            let values = [
                json!(null), json!(0), json!(1), json!(-1), json!(3), json!(70_000), json!(u64::MAX), json!(0.5),
                json!(true), json!(""), json!("complete"), json!("ready"), json!("plan"), json!("think/0"),
                json!("act/1"), json!("act/1/0"), json!("B/2"), json!("idea"), json!([]), json!({}), json!(["idea"]),
                json!([0, 1, -1]), json!({"id": "idea"}),
            ];
            let place: &String = place.get(&all);
            *file.pointer_mut(place).unwrap() = value.get(&values).clone();
        }
        if let Ok(env) = read(&file) {
            let written = export(&team(), &env, &SavedDefinition::example());
            let same = import(&team(), written.as_bytes()).unwrap();
            prop_assert_eq!(export(&team(), &same, &SavedDefinition::example()), written);
            let mut run = ScriptedRun::from_state(env, &turns);
            if !run.stepper.env().run.0.is_empty() {
                run.stepper.apply(&run.stepper.run_resumed_event(None, Default::default())).unwrap();
                while run.events.len() < 60 && run.advance() {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_exactly(turns in vec(any::<u8>(), 0..400), stride in 5..20usize) {
        let team = team();
        let mut run = ScriptedRun::new(&turns);
        while run.events.len() < 300 && run.advance() {
            if !run.events.len().is_multiple_of(stride) {
                continue;
            }
            let env = run.stepper.env();
            let text = export(&team, env, &SavedDefinition::example());
            let read = import(&team, text.as_bytes()).unwrap();
            prop_assert_eq!(normalized(&read), normalized(env));
            prop_assert_eq!(export(&team, &read, &SavedDefinition::example()), text.clone());
            let on = Stepper::new(team.clone(), read);
            prop_assert_eq!(on.next(), run.stepper.next());
            prop_assert_eq!(saved_definition(text.as_bytes()).unwrap(), Some(SavedDefinition::example()));
            prop_assert_eq!(is_finished(text.as_bytes()).unwrap(), env.is_finished());
        }
    }
}

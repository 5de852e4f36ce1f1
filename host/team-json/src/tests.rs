//! The fields of the file, and edits of it. What other programs write is in `foreign_files`, together with a test that a file
//! of ours is read back exactly.

mod called_roles;
mod conversations;
mod foreign_files;
mod invalid;
mod machine_parts;

use serde_json::{Value, json};

use strata_base::scripted_run::team;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{Event, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallOutcome, HostCall, HostCallKind};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::{Json, MAX_DEPTH};
use strata_core::record::message::Draft;
use strata_core::record::money::Usd;
use strata_core::record::rules::Reducer;
use strata_core::record::scope_write::ScopeChange;
use strata_core::record::shape::DeliveryMode;
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;
use strata_core::state::environment::scope::apply_changes;
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::{ImportError, SavedDefinition, export, import, is_finished};

/// A state in which `B/2` failed at its second action, on a message from `A`, while `C` has completed its activation.
fn failed() -> Environment {
    let team = team();
    let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
    let started = stepper.run_started_event("run-1".into(), "go".into(), Default::default());
    stepper.apply(&started).unwrap();
    loop {
        let event = match stepper.next() {
            Effect::Record(event) => event,
            Effect::Call(call) => stepper.call_started_event(&call),
            Effect::Wait => outcome(&stepper, &team),
            Effect::Halt(status) => {
                assert_eq!(status, Status::Failed);
                return stepper.env().clone();
            }
        };
        stepper.apply(&event).unwrap();
    }
}

fn outcome(stepper: &Stepper, team: &Team) -> Event {
    let running = |a: &strata_core::state::activation::Activation| a.phase == Phase::Running;
    let (id, activation) = stepper
        .env()
        .mail_activations()
        .find(|(_, a)| running(a))
        .unwrap();
    let work = activation.current_work(team.role(id)).unwrap();
    let result = match work {
        Work::Think { .. } => Ok(CallResult::Chosen(-1)),
        Work::Act {
            action: ActionId(1),
            ..
        } if id == RoleId(1) => Err(Fault::new(FaultKind::Trap, "unreachable")),
        Work::Act { action, .. } => {
            let content = format!("{} ok", team.role(id).action(action).name);
            let output = Draft {
                content,
                ..Draft::default()
            };
            Ok(CallResult::Returned {
                output,
                emissions: vec![],
                writes: vec![],
            })
        }
        other => unreachable!("nobody does {other:?} here"),
    };
    stepper
        .call_ended_event(CallKey::new(id, work), result)
        .unwrap()
}

pub(super) fn file() -> Value {
    serde_json::from_str(&export(&team(), &failed(), &SavedDefinition::example())).unwrap()
}

pub(super) fn read(file: &Value) -> Result<Environment, ImportError> {
    import(&team(), file.to_string().as_bytes())
}

/// Returns what is written after the file was read.
pub(super) fn again(file: &Value) -> Value {
    serde_json::from_str(&export(
        &team(),
        &read(file).unwrap(),
        &SavedDefinition::example(),
    ))
    .unwrap()
}

/// The fields of a file and their values: the JSON pointer of each, and its value as JSON.
const DOCUMENTED_FIELDS: &[(&str, &str)] = &[
    ("/env/desc", r#""a team""#),
    ("/env/roles/B~12/name", r#""B/2""#),
    ("/env/roles/B~12/profile", r#""Role B/2""#),
    ("/env/roles/B~12/is_human", "false"),
    ("/env/roles/B~12/role_id", r#""""#),
    ("/env/roles/B~12/states", r#"["0. x", "1. y", "2. z"]"#),
    (
        "/env/roles/B~12/actions",
        r#"[{"name": "x"}, {"name": "y"}, {"name": "z"}]"#,
    ),
    ("/env/roles/B~12/addresses", r#"["the-B/2"]"#),
    ("/env/roles/B~12/recovered", "true"),
    ("/env/roles/B~12/rc/state", "1"),
    ("/env/roles/B~12/rc/watch", r#"["q", "work"]"#),
    ("/env/roles/B~12/rc/react_mode", r#""by_order""#),
    ("/env/roles/B~12/rc/max_react_loop", "1"),
    ("/env/roles/B~12/rc/memory/ignore_id", "false"),
    ("/env/roles/B~12/rc/memory/index/x/0/content", r#""x ok""#),
    ("/env/roles/B~12/latest_observed_msg/content", r#""q ok""#),
    (
        "/env/roles/B~12/latest_observed_msg/send_to",
        r#"["<all>"]"#,
    ),
    (
        "/env/roles/B~12/latest_observed_msg/instruct_content",
        "null",
    ),
    ("/env/roles/B~12/latest_observed_msg/meta_info", "{}"),
    ("/env/roles/B~12/latest_observed_msg/route", "[]"),
    ("/env/roles/A/rc/state", "-1"),
    ("/env/roles/A/recovered", "false"),
    ("/env/roles/D/latest_observed_msg", "null"),
    ("/env/roles/D/is_human", "false"),
    ("/env/roles/E/is_human", "true"),
    ("/env/roles/E/rc/react_mode", r#""by_order""#),
    ("/env/roles/C/rc/react_mode", r#""react""#),
    ("/env/roles/C/rc/max_react_loop", "3"),
    ("/idea", r#""go""#),
    ("/investment", "0.5"),
    ("/strata/schema", r#""strata.state/1""#),
    ("/strata/run_id", r#""run-1""#),
    ("/strata/status", r#""failed""#),
    ("/strata/step", "1"),
    ("/strata/checkpoint", r#""main-2""#),
    ("/strata/parent", r#""main-1""#),
    (
        "/strata/buffers",
        r#"{"A": [], "B/2": ["0-0-1"], "C": ["0-0-1"], "D": [], "E": []}"#,
    ),
    ("/strata/faults/0/role", r#""B/2""#),
    ("/strata/faults/0/index", "1"),
    ("/strata/faults/0/action", r#""y""#),
    ("/strata/faults/0/kind", r#""trap""#),
    ("/strata/faults/0/attempt", "1"),
    ("/strata/faults/0/step", "1"),
    (
        "/strata/budget",
        r#"{"total": 0.0, "max": 0.5, "investment": 0.5, "by": {}}"#,
    ),
    ("/strata/state", r#"{"env": {}, "role": {}}"#),
    (
        "/strata/joins/wait~1~01",
        r#"{"sources": ["B/2", "A"], "queue": {"B/2": [], "A": []}}"#,
    ),
    (
        "/strata/joins/quiet",
        r#"{"sources": ["A", "C"], "queue": {"A": [], "C": []}}"#,
    ),
    ("/strata/open/B~12/phase", r#""failed""#),
    ("/strata/open/B~12/at", r#""act/1""#),
    ("/strata/open/B~12/attempts", "1"),
    ("/strata/open/B~12/news", r#"["0-0-1"]"#),
    ("/strata/open/C/phase", r#""complete""#),
    ("/strata/open/C/at", "null"),
    ("/strata/each", "{}"),
    ("/strata/requests", "[]"),
    ("/strata/dead_letters", "[]"),
    ("/strata/definition/name", r#""team.toml""#),
    ("/strata/messages/0-0-1/content", r#""q ok""#),
];

#[test]
fn every_documented_field_is_there() {
    let file = file();
    for (pointer, expected) in DOCUMENTED_FIELDS {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(file.pointer(pointer), Some(&expected), "{pointer}");
    }
    let contents = |pointer: &str| -> Vec<&Value> {
        file.pointer(pointer)
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|message| &message["content"])
            .collect()
    };
    assert_eq!(contents("/env/roles/B~12/rc/memory/storage"), ["x ok"]);
    assert_eq!(
        contents("/env/roles/A/rc/memory/storage"),
        ["go", "p ok", "q ok"]
    );
    assert_eq!(contents("/env/history/storage"), ["go", "q ok"]);
    assert_eq!(file.as_object().unwrap().len(), 4);
}

#[test]
fn a_choice_at_fault_has_no_index() {
    let mut env = failed();
    let team = team();
    let fault = Fault::new(FaultKind::Think, "no");
    let chooser = env.roles[2].activation.as_mut().unwrap();
    chooser.choices.clear();
    chooser.phase = Phase::Failed(fault);
    let file: Value =
        serde_json::from_str(&export(&team, &env, &SavedDefinition::example())).unwrap();
    assert_eq!(file.pointer("/env/roles/C/rc/state"), Some(&json!(-1)));
    assert_eq!(file.pointer("/strata/faults/1/index"), Some(&json!(-1)));
    assert_eq!(
        file.pointer("/strata/faults/1/action"),
        Some(&json!("think"))
    );
}

#[test]
fn missing_and_unknown_fields_are_tolerated_and_the_latter_kept() {
    let mut edited = file();
    for (above, name) in [
        ("/env/roles/B~12/rc/memory", "index"),
        ("/env/roles/B~12", "recovered"),
        ("/env/roles/A", "desc"),
        ("/env", "desc"),
        ("/strata", "shape"),
        ("/strata", "joins"),
    ] {
        edited
            .pointer_mut(above)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name)
            .unwrap();
    }
    let more = [
        ("", "from/else~where", json!(1)),
        ("/env", "x", json!({"y": [1.5, null]})),
        ("/env/history", "x", json!(1)),
        ("/env/roles/B~12", "x", json!("x")),
        ("/env/roles/B~12", "role_id", json!("id-7")),
        ("/env/roles/B~12/actions/1", "prefix", json!("p")),
        ("/env/roles/B~12/rc", "important_memory", json!([])),
        ("/env/roles/B~12/rc/memory", "x", json!(false)),
        ("/strata", "x", json!([])),
    ];
    for (above, name, value) in &more {
        edited
            .pointer_mut(above)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert((*name).into(), value.clone());
    }
    let written = again(&edited);
    for (above, name, value) in &more {
        assert_eq!(
            written.pointer(above).unwrap().get(*name),
            Some(value),
            "{above} {name}"
        );
    }
    assert_eq!(
        written.pointer("/env/roles/B~12/rc/memory/index/x/0/content"),
        Some(&json!("x ok"))
    );
    assert_eq!(again(&written), written);
}

#[test]
fn edited_messages_are_honoured() {
    let mut edited = file();
    let message = edited
        .pointer_mut("/strata/messages/0-0-1")
        .unwrap()
        .as_object_mut()
        .unwrap();
    let sender = message.remove("sent_from").unwrap();
    message.insert("tx_from".into(), sender);
    message.insert("restricted_to".into(), json!("C"));
    message.remove("send_to");
    message.insert("colour".into(), json!("red"));
    message.insert("route".into(), json!(null));
    message.insert(
        "route_".into(),
        json!([{"from": "A", "to": ["B"]}, {"from": "B", "to": "C"}]),
    );
    message.insert(
        "instruct_content".into(),
        json!({"class": "k", "mapping": {"a": "__import__('os')"}, "value": [7]}),
    );
    let written = again(&edited);
    let message = written.pointer("/strata/messages/0-0-1").unwrap();
    assert_eq!(message["sent_from"], "A");
    assert_eq!(message["send_to"], json!(["C"]));
    assert_eq!(message["meta_info"], json!({"colour": "red"}));
    assert_eq!(
        message["route"],
        json!([{"from": "A", "to": ["B"]}, {"from": "B", "to": ["C"]}])
    );
    let instruct = json!({"class": "k", "mapping": {"a": "__import__('os')"}, "value": [7]});
    assert_eq!(
        message["instruct_content"], instruct,
        "each field where it was"
    );
    assert_eq!(written.pointer("/env/history/storage/1"), Some(message));
}

#[test]
fn edited_mail_is_honoured() {
    let mut edited = file();
    // The message that B worked on is gone, and A has a new one.
    edited["strata"]["buffers"] =
        json!({"B/2": [], "C": ["0-0-1"], "A": [{"id": "new", "content": "hello"}]});
    let env = read(&edited).unwrap();
    assert!(env.roles[1].activation.is_none() && env.roles[1].mailbox.is_empty());
    assert!(env.roles[2].activation.is_some());
    assert_eq!(
        env.message(env.roles[0].mailbox[0].message).content,
        "hello"
    );
}

#[test]
fn an_edited_join_is_honoured() {
    let mut edited = file();
    edited["strata"]["joins"] =
        json!({"wait/~1": {"queue": {"A": ["0-0-1", {"id": "new", "content": "hello"}]}}});
    edited["strata"]["each"] = json!({"D": ["0-0-1"]});
    edited["strata"]["buffers"]["D"] = json!(["idea", "0-0-1", "0-0-0"]);
    let env = read(&edited).unwrap();
    let contents = |ids: &mut dyn Iterator<Item = MessageRef>| -> Vec<String> {
        ids.map(|id| env.message(id).content.clone()).collect()
    };
    let waiting: Vec<_> = env.joins[0]
        .queues
        .iter()
        .map(|queue| contents(&mut queue.iter().copied()))
        .collect();
    assert_eq!(
        waiting,
        [vec![], vec!["q ok".to_owned(), "hello".to_owned()]]
    );
    assert!(env.joins[1].is_empty());
    let alone: Vec<_> = env.roles[3]
        .mailbox
        .iter()
        .map(|mail| mail.deliver == DeliveryMode::Each)
        .collect();
    assert_eq!(alone, [false, true, false]);
    let written = again(&edited);
    assert_eq!(
        written.pointer("/strata/joins/wait~1~01/queue/A"),
        Some(&json!(["0-0-1", "new"]))
    );
    assert_eq!(
        written.pointer("/strata/messages/new/content"),
        Some(&json!("hello"))
    );
    assert_eq!(
        written.pointer("/strata/each"),
        Some(&json!({"D": ["0-0-1"]}))
    );
    assert_eq!(again(&written), written);
}

#[test]
fn a_done_team_to_whose_joins_something_was_added_is_not_finished() {
    let mut edited = file();
    edited["strata"]["status"] = json!("done");
    edited["strata"]["buffers"] = json!({});
    assert!(is_finished(edited.to_string().as_bytes()).unwrap());
    edited["strata"]["joins"]["quiet"]["queue"]["C"] = json!(["idea"]);
    assert!(!is_finished(edited.to_string().as_bytes()).unwrap());
}

#[test]
fn mail_that_a_role_is_at_may_come_to_it_again() {
    let mut edited = file();
    let mail_of_b = |edited: &Value| {
        let env = read(edited).unwrap();
        let news = &env.roles[1].activation.as_ref().unwrap().news;
        (news.len(), env.roles[1].mailbox.len())
    };
    // B works on the message, which is listed twice.
    edited["strata"]["buffers"]["B/2"] = json!(["0-0-1", "0-0-1", "0-0-1"]);
    edited["strata"]["each"] = json!({"B/2": ["0-0-1"]});
    assert_eq!(mail_of_b(&edited), (1, 0));
    // It has arrived again from a join.
    edited["strata"]["again"] = json!({"B/2": ["0-0-1"]});
    assert_eq!(mail_of_b(&edited), (1, 1));
    let written = again(&edited);
    let field = |pointer: &str| written.pointer(pointer).cloned();
    assert_eq!(
        field("/strata/buffers/B~12"),
        Some(json!(["0-0-1", "0-0-1"]))
    );
    assert_eq!(field("/strata/again"), Some(json!({"B/2": ["0-0-1"]})));
    assert_eq!(mail_of_b(&written), (1, 1));
}

#[test]
fn the_questions_that_people_were_asked_are_read_back() {
    let digest = "0123456789abcdef".repeat(2);
    let mut edited = file();
    edited["strata"]["questions"] = json!({
        "digests": { "ask-3-0-0-0": digest, "ask-3-0-0-0-r1": digest, "other": digest },
        "count": 7,
        "complete_from": 2,
    });
    let questions = read(&edited).unwrap().questions;
    assert_eq!((questions.count, questions.complete_from), (7, 2));
    assert!(questions.contains("ask-3-0-0-0-r1") && !questions.contains("other"));
    assert_eq!(read(&again(&edited)).unwrap().questions, questions);
    for digest in ["", "0g", "é", &digest[1..], &format!("{digest}00")] {
        edited["strata"]["questions"] = json!({ "digests": { "ask-3-0-0-0": digest } });
        let error = read(&edited).unwrap_err().to_string();
        let place = "`/strata/questions/digests/ask-3-0-0-0` ";
        assert!(
            error.contains(place) && error.contains("hexadecimal"),
            "{error}"
        );
    }
}

#[test]
fn a_message_stands_on_one_line_and_all_else_is_indented() {
    let env = failed();
    let text = export(&team(), &env, &SavedDefinition::example());
    let told = text
        .lines()
        .filter(|line| line.contains(r#""cause_by": "#))
        .collect::<Vec<_>>();
    assert!(told.len() > env.messages.len(), "{text}");
    for line in told {
        let message = line.trim().trim_end_matches(',');
        let message = &message[message.find('{').unwrap()..];
        assert!(
            serde_json::from_str::<Value>(message).unwrap()["id"].is_string(),
            "{line}"
        );
    }
    // Every other value has a line of its own, indented by its depth.
    let indented = |start: &str| text.lines().any(|line| line.starts_with(start));
    assert!(
        indented("  \"env\": {") && indented("    \"roles\": {") && indented("  \"idea\": \"go\""),
        "{text}"
    );
}

#[test]
fn what_the_host_wraps_round_the_deepest_value_of_a_guest_is_read_back() {
    let nested =
        |levels: usize| Json::from((0..levels).fold(json!(1), |inner, _| json!({ "in": inner })));
    let mut env = failed();
    let appended = [ScopeChange::Set(nested(MAX_DEPTH))];
    let shared = apply_changes(Some(Reducer::Append), None, &appended).unwrap();
    let scope = env
        .shared_scopes
        .keys()
        .next()
        .cloned()
        .unwrap_or("notes".into());
    env.shared_scopes
        .entry(scope.clone())
        .or_default()
        .insert("list".into(), shared.clone());
    let response = HumanAnswer::Given(nested(MAX_DEPTH)).to_record();
    let answered = HostCall {
        kind: HostCallKind::Human,
        request: "question".into(),
        response: response.clone(),
        cost: Usd::ZERO,
        outcome: CallOutcome::Answered,
        model: None,
    };
    env.roles[1]
        .activation
        .as_mut()
        .unwrap()
        .current_call
        .recorded_calls
        .push(answered);
    let read = import(
        &team(),
        export(&team(), &env, &SavedDefinition::example()).as_bytes(),
    )
    .unwrap();
    assert_eq!(read.shared_scopes[&scope]["list"], shared);
    assert_eq!(
        read.roles[1]
            .activation
            .as_ref()
            .unwrap()
            .current_call
            .recorded_calls
            .last()
            .unwrap()
            .response,
        response
    );
    // Other values may not be nested that deep.
    env.shared_scopes
        .get_mut(&scope)
        .unwrap()
        .insert("list".into(), nested(MAX_DEPTH + 2));
    assert!(
        import(
            &team(),
            export(&team(), &env, &SavedDefinition::example()).as_bytes()
        )
        .is_err()
    );
}

//! The file as it is seen and edited. That it is read back exactly is in `laws`; what others write, in `others`.

use serde_json::{Value, json};

use strata_core::activation::Phase;
use strata_core::effect::Effect;
use strata_core::environment::scope::{Change, unite};
use strata_core::environment::{Environment, MessageRef};
use strata_core::event::{Event, Finished, HostCall, HostCallKind, Outcome, Status, Work};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, RoleId};
use strata_core::json::{Json, MAX_DEPTH};
use strata_core::message::Draft;
use strata_core::money::Usd;
use strata_core::request::Answer;
use strata_core::stepper::Stepper;
use strata_core::team::{Deliver, Reducer, Team};

use super::{ImportError, export, import, is_finished};
use crate::store::script::{definition, team};

/// A state in which `B/2` failed at its second action, on mail of `A`, while `C` is done and waits.
fn failed() -> Environment {
    let team = team();
    let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
    let started = stepper.started("run-1".into(), "go".into(), Default::default());
    stepper.apply(&started).unwrap();
    loop {
        let event = match stepper.next() {
            Effect::Record(event) => event,
            Effect::Call(call) => stepper.call_started(&call),
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
    let running = |a: &strata_core::activation::Activation| a.phase == Phase::Running;
    let (id, activation) = stepper
        .env()
        .activations()
        .find(|(_, a)| running(a))
        .unwrap();
    let result = match activation.work(team.role(id)).unwrap() {
        Work::Think { .. } => Ok(Finished::Chosen(-1)),
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
            Ok(Finished::Returned {
                output,
                emissions: vec![],
                writes: vec![],
            })
        }
        Work::Plan | Work::Answer => unreachable!("nobody plans or is asked here"),
    };
    stepper.call_ended(id, result).unwrap()
}

pub(super) fn file() -> Value {
    serde_json::from_str(&export(&team(), &failed(), &definition())).unwrap()
}

pub(super) fn read(file: &Value) -> Result<Environment, ImportError> {
    import(&team(), file.to_string().as_bytes())
}

/// What is written after the file was read.
pub(super) fn again(file: &Value) -> Value {
    serde_json::from_str(&export(&team(), &read(file).unwrap(), &definition())).unwrap()
}

#[test]
fn every_documented_field_is_there() {
    let file = file();
    let check = |pointer: &str, expected: Value| {
        assert_eq!(file.pointer(pointer), Some(&expected), "{pointer}")
    };
    let contents = |pointer: &str| -> Vec<&Value> {
        file.pointer(pointer)
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|message| &message["content"])
            .collect()
    };
    let role = |rest: &str| format!("/env/roles/B~12/{rest}");
    check("/env/desc", json!("a team"));
    check(&role("name"), json!("B/2"));
    check(&role("profile"), json!("Role B/2"));
    check(&role("is_human"), json!(false));
    check(&role("role_id"), json!(""));
    check(&role("states"), json!(["0. x", "1. y", "2. z"]));
    check(
        &role("actions"),
        json!([{"name": "x"}, {"name": "y"}, {"name": "z"}]),
    );
    check(&role("addresses"), json!(["the-B/2"]));
    check(&role("recovered"), json!(true));
    check(&role("rc/state"), json!(1));
    check(&role("rc/watch"), json!(["q", "work"]));
    check(&role("rc/react_mode"), json!("by_order"));
    check(&role("rc/max_react_loop"), json!(1));
    check(&role("rc/memory/ignore_id"), json!(false));
    check(&role("rc/memory/index/x/0/content"), json!("x ok"));
    check(&role("latest_observed_msg/content"), json!("q ok"));
    check(&role("latest_observed_msg/send_to"), json!(["<all>"]));
    check(&role("latest_observed_msg/instruct_content"), json!(null));
    check(&role("latest_observed_msg/meta_info"), json!({}));
    check(&role("latest_observed_msg/route"), json!([]));
    assert_eq!(contents(&role("rc/memory/storage")), ["x ok"]);
    assert_eq!(
        contents("/env/roles/A/rc/memory/storage"),
        ["go", "p ok", "q ok"]
    );
    assert_eq!(contents("/env/history/storage"), ["go", "q ok"]);
    check("/env/roles/A/rc/state", json!(-1));
    check("/env/roles/A/recovered", json!(false));
    check("/env/roles/D/latest_observed_msg", json!(null));
    check("/env/roles/D/is_human", json!(false));
    check("/env/roles/E/is_human", json!(true));
    check("/env/roles/E/rc/react_mode", json!("by_order"));
    check("/env/roles/C/rc/react_mode", json!("react"));
    check("/env/roles/C/rc/max_react_loop", json!(3));
    check("/idea", json!("go"));
    check("/investment", json!(0.5));
    check("/strata/schema", json!("strata.state/1"));
    check("/strata/run_id", json!("run-1"));
    check("/strata/status", json!("failed"));
    check("/strata/step", json!(1));
    check("/strata/checkpoint", json!("main-2"));
    check("/strata/parent", json!("main-1"));
    check(
        "/strata/buffers",
        json!({"A": [], "B/2": ["0-0-1"], "C": ["0-0-1"], "D": [], "E": []}),
    );
    check("/strata/faults/0/role", json!("B/2"));
    check("/strata/faults/0/index", json!(1));
    check("/strata/faults/0/action", json!("y"));
    check("/strata/faults/0/kind", json!("trap"));
    check("/strata/faults/0/attempt", json!(1));
    check("/strata/faults/0/step", json!(1));
    check(
        "/strata/budget",
        json!({"total": 0.0, "max": 0.5, "investment": 0.5, "by": {}}),
    );
    check("/strata/state", json!({"env": {}, "role": {}}));
    check(
        "/strata/joins/wait~1~01",
        json!({"sources": ["B/2", "A"], "queue": {"B/2": [], "A": []}}),
    );
    check(
        "/strata/joins/quiet",
        json!({"sources": ["A", "C"], "queue": {"A": [], "C": []}}),
    );
    check("/strata/each", json!({}));
    check("/strata/requests", json!([]));
    check("/strata/dead_letters", json!([]));
    check("/strata/definition/name", json!("team.toml"));
    check("/strata/messages/0-0-1/content", json!("q ok"));
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
    let file: Value = serde_json::from_str(&export(&team, &env, &definition())).unwrap();
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
    // The mail that B was at is gone, and A has new mail.
    edited["strata"]["buffers"] =
        json!({"B/2": [], "C": ["0-0-1"], "A": [{"id": "new", "content": "hello"}]});
    let env = read(&edited).unwrap();
    assert!(env.roles[1].activation.is_none() && env.roles[1].mailbox.is_empty());
    assert!(env.roles[2].activation.is_some());
    assert_eq!(
        env.message(env.roles[0].mailbox[0].message).content,
        "hello"
    );
    // Without its fault a role simply tries again.
    let mut edited = file();
    edited["strata"]["faults"] = json!([]);
    assert_eq!(
        read(&edited).unwrap().roles[1]
            .activation
            .as_ref()
            .unwrap()
            .phase,
        Phase::Ready
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
        .map(|mail| mail.deliver == Deliver::Each)
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
    // B is at work on it, and a join has let it go.
    edited["strata"]["buffers"]["B/2"] = json!(["0-0-1", "0-0-1"]);
    edited["strata"]["each"] = json!({"B/2": ["0-0-1"]});
    let env = read(&edited).unwrap();
    assert_eq!(
        (
            env.roles[1].activation.as_ref().unwrap().news.len(),
            env.roles[1].mailbox.len()
        ),
        (1, 1)
    );
    assert_eq!(
        again(&edited).pointer("/strata/buffers/B~12"),
        Some(&json!(["0-0-1", "0-0-1"]))
    );
}

#[test]
fn another_team_is_refused_with_the_differences() {
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut edited = file();
        *edited.pointer_mut(pointer).unwrap() = value;
        match read(&edited) {
            Err(ImportError::Misfit(lines)) => {
                assert!(lines.join("\n").contains(expected), "{lines:?}")
            }
            other => panic!("{pointer}: {other:?}"),
        }
    };
    check(
        "/env/roles/A/states",
        json!(["0. p", "1. r"]),
        "actions of `A` are [`p`, `q`], saved [`p`, `r`]",
    );
    check(
        "/env/roles/A/rc/watch",
        json!(["z"]),
        "watch of `A` is [`UserRequirement`, `y`], saved [`z`]",
    );
    check(
        "/env/roles/A/rc/react_mode",
        json!("react"),
        "react of `A` is by_order, saved react",
    );
    check("/strata/shape/groups", json!({}), "group `pair` is new");
    check(
        "/strata/shape/routes",
        json!(["from `A` to [`B`]"]),
        "route from `A` to [`B`] is missing",
    );
    check("/strata/shape/joins", json!([]), "join `quiet` is new");
    check(
        "/env/roles",
        json!({"A": {"states": ["0. p", "1. q"]}}),
        "role `C` is new",
    );
    let mut edited = file();
    edited["env"]["roles"]["F"] = json!({});
    assert_eq!(
        read(&edited),
        Err(ImportError::Misfit(vec!["role `F` is missing".into()]))
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let whole = |text: &str, expected: &str| {
        let error = import(&team(), text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!is_finished(text.as_bytes()).unwrap_or_default());
    };
    whole("", "EOF");
    whole("{ not json", "line 1 column 3");
    whole(&"[".repeat(200_000), "recursion limit exceeded");
    for (document, found) in [
        ("null", "`null`"),
        ("[]", "a list"),
        ("3", "a number"),
        ("\"x\"", "a string"),
        ("true", "`true` or `false`"),
    ] {
        let expected =
            format!("holds no saved team: it is {found}, where a saved team is an object");
        whole(document, &expected);
    }
    whole("{}", "`/env` is missing");
    whole("{\"env\": {}}", "`/env/roles` is missing");
    whole(
        "{\"env\": {\"roles\": 7}, \"strata\": []}",
        "`/strata` is a list, expected an object",
    );
    whole(
        "{\"env\": {\"roles\": 7}}",
        "`/env/roles` is 7, expected an object",
    );
    whole(
        "{\"env\": 1, \"env\": 2}",
        "key `env` appears twice at line 1",
    );
    whole("{} {}", "trailing characters");
    whole("{\"env\": \"\u{0}\"}", "control character");

    let check = |pointer: &str, value: Value, expected: &str| {
        let mut edited = file();
        *edited.pointer_mut(pointer).unwrap() = value;
        let error = read(&edited).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        "/strata/schema",
        json!("strata.state/99"),
        "schema `strata.state/99` is newer than `strata.state/1`",
    );
    check(
        "/strata/schema",
        json!("other/1"),
        "`/strata/schema` is not the name of a schema",
    );
    check(
        "/strata/schema",
        json!(1),
        "`/strata/schema` is 1, expected a text",
    );
    check(
        "/strata/step",
        json!(-1),
        "`/strata/step` is -1, expected a whole number",
    );
    check(
        "/strata/step",
        json!(1.0e300),
        "`/strata/step` is 1e+300, expected a whole number",
    );
    check(
        "/strata/checkpoints",
        json!(u64::MAX),
        "`/strata/checkpoints` is 18446744073709551615",
    );
    check(
        "/strata/status",
        json!("sleeping"),
        "`/strata/status` is the text `sleeping`",
    );
    check(
        "/strata/buffers/A",
        json!(["../x"]),
        "`/strata/buffers/A/0` names message `../x`",
    );
    check(
        "/strata/each",
        json!({"A": 7}),
        "`/strata/each/A` is 7, expected a list",
    );
    check(
        "/strata/joins",
        json!([]),
        "`/strata/joins` is a list, expected an object",
    );
    check(
        "/strata/joins",
        json!({"other": {}}),
        "`/strata/joins/other` is no join of the team",
    );
    let quiet = "/strata/joins/quiet";
    check(
        quiet,
        json!({"queues": {}}),
        "`/strata/joins/quiet/queues` is nothing that a join has",
    );
    check(
        quiet,
        json!({"sources": ["C", "A"]}),
        "`/strata/joins/quiet` has other sources than the team's",
    );
    check(
        quiet,
        json!({"queue": {"D": []}}),
        "`/strata/joins/quiet/queue/D` is no source of the join",
    );
    check(
        quiet,
        json!({"queue": {"A": ["x"]}}),
        "`/strata/joins/quiet/queue/A/0` names message `x`",
    );
    check(
        "/strata/open/B~12/done/0/work",
        json!("act/9"),
        "`/strata/open/B~12/done/0/work` is the text `act/9`",
    );
    check(
        "/strata/open/C/choices",
        json!([2]),
        "`/strata/open/C/choices/0` is 2, expected a whole number from -1 to 1",
    );
    check(
        "/strata/open/C/choices",
        json!([1, 1, 1]),
        "`/strata/open/C` has more choices than work done",
    );
    check(
        "/strata/open/C/tried/attempts",
        json!(u32::MAX),
        "`/strata/open/C/tried/attempts`",
    );
    check(
        "/strata/faults/0/kind",
        json!("bad luck"),
        "`/strata/faults/0/kind`",
    );
    check(
        "/strata/budget/max",
        json!(-5),
        "`/strata/budget/max` is -5, expected an amount of money",
    );
    check(
        "/env/roles/A",
        json!([]),
        "`/env/roles/A` is a list, expected an object",
    );
    check(
        "/env/roles/A/rc/memory/storage/0/content",
        json!({}),
        "storage/0/content` is an object, expected a text",
    );
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    check(
        "/strata/messages/idea/meta_info",
        json!({ "x": deep }),
        "`/strata/messages/idea/meta_info/x` is nested deeper",
    );
    check(
        "/strata/shape",
        json!(7),
        "`/strata/shape` is not the shape of a team",
    );
}

#[test]
fn a_message_stands_on_one_line_and_all_else_is_indented() {
    let env = failed();
    let text = export(&team(), &env, &definition());
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
    // Each value that is no message has a line of its own, as deep as it lies.
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
    let appended = [Change::Set(nested(MAX_DEPTH))];
    let shared = unite(Some(Reducer::Append), None, &appended).unwrap();
    let scope = env.shared.keys().next().cloned().unwrap_or("notes".into());
    env.shared
        .entry(scope.clone())
        .or_default()
        .insert("list".into(), shared.clone());
    let response = Answer::Given(nested(MAX_DEPTH)).record();
    let answered = HostCall {
        kind: HostCallKind::Human,
        request: "question".into(),
        response: response.clone(),
        cost: Usd::ZERO,
        tokens: 0,
        outcome: Outcome::Answered,
        finish: None,
    };
    env.roles[1]
        .activation
        .as_mut()
        .unwrap()
        .current
        .journal
        .push(answered);
    let read = import(&team(), export(&team(), &env, &definition()).as_bytes()).unwrap();
    assert_eq!(read.shared[&scope]["list"], shared);
    assert_eq!(
        read.roles[1]
            .activation
            .as_ref()
            .unwrap()
            .current
            .journal
            .last()
            .unwrap()
            .response,
        response
    );
    // Nobody else wraps anything.
    env.shared
        .get_mut(&scope)
        .unwrap()
        .insert("list".into(), nested(MAX_DEPTH + 2));
    assert!(import(&team(), export(&team(), &env, &definition()).as_bytes()).is_err());
}

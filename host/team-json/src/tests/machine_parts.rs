//! Machine parts of open activations that are missing, damaged or made up. Whatever they contain, the
//! import refuses them or the team can go on from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use strata_base::codec;
use strata_base::scripted_run::{ScriptedRun, continue_with_faults, team};
use strata_core::record::human_request::HumanRequest;
use strata_core::record::id::{ActionId, Digest, RoleId};
use strata_core::record::json::Json;
use strata_core::record::nested_path::MAX_NESTED_LEVELS;
use strata_core::record::turn::{CallTarget, ToolRef};
use strata_core::record::work::{ActivationKey, Work};
use strata_core::state::activation::{Activation, NestedCall, Phase, RevertedCall, TurnCall};
use strata_core::state::environment::Environment;
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use super::called_roles::{stopped_run, team_with_calls};
use super::conversations::{state_with_open_turn, team_with_tools};
use super::{failed, file, read};
use crate::machine_part::{seal as to_text, to_bytes};
use crate::{ImportError, SavedDefinition, export, import};

/// The role whose machine part is changed.
const ROLE: RoleId = RoleId(0);
/// Its name.
const NAME: &str = "A";

/// A machine part as it is encoded.
type Content = (RoleId, Activation, BTreeMap<ActivationKey, Activation>);

fn file_of(team: &Arc<Team>, env: &Environment) -> Value {
    serde_json::from_str(&export(team, env, &SavedDefinition::example())).unwrap()
}

fn machine(file: &mut Value) -> &mut Value {
    &mut file["strata"]["open"][NAME]["machine"]
}

fn content(file: &Value) -> Content {
    let text = file["strata"]["open"][NAME]["machine"].as_str().unwrap();
    let bytes = to_bytes(text).unwrap();
    codec::decode(&codec::decompress(&bytes).unwrap()).unwrap()
}

/// Replaces the machine part by one with this content.
fn replace(file: &mut Value, content: &Content) {
    *machine(file) = to_text(&codec::encode(content, Vec::new())).into();
}

fn import_value(team: &Team, file: &Value) -> Result<Environment, ImportError> {
    import(team, file.to_string().as_bytes())
}

/// Checks that a file is refused, or that what is read from it is written as it is read, and can be
/// continued.
fn check_taken_or_refused(team: &Arc<Team>, file: &Value) {
    let Ok(env) = import_value(team, file) else {
        return;
    };
    let written = file_of(team, &env);
    let again = import_value(team, &written).unwrap();
    assert_eq!(file_of(team, &again), written);
    continue_with_faults(team, env, 60);
}

#[test]
fn a_machine_part_that_is_not_what_was_written_is_refused_by_name() {
    let check = |text: &str, expected: &str| {
        let mut edited = file();
        edited["strata"]["open"]["B/2"]["machine"] = text.into();
        let error = read(&edited).unwrap_err().to_string();
        let place = "`/strata/open/B~12/machine` ";
        assert!(
            error.starts_with(place) && error.contains(expected),
            "{text}: {error}"
        );
        let advice = "; remove it, and the role starts again at its action";
        assert!(error.ends_with(advice), "{error}");
    };
    let file = file();
    let text = |role: &str| file["strata"]["open"][role]["machine"].as_str().unwrap();
    let good = text("B/2");
    check("", "is not what this program writes");
    check("x.y.z", "is not what this program writes");
    check("1.wrong.AAAA", "is not what this program writes");
    check(&good.replacen("1.", "2.", 1), "has the format `2`");
    check(&good[..good.len() - 4], "was changed: its checksum");
    check(&format!("{good}%"), "was changed: its checksum");
    check(text("C"), "is that of another role");
    let check_bytes = |bytes: &[u8], expected: &str| check(&to_text(bytes), expected);
    let bytes = to_bytes(good).unwrap();
    check_bytes(&[], "it is empty");
    check_bytes(&[9], "its format 9 is unknown");
    check_bytes(&bytes[..bytes.len() - 1], "it cannot be decoded");
    check_bytes(&[&bytes[..], &[0]].concat(), "it goes on after its end");
}

#[test]
fn an_activation_without_its_machine_part_starts_again_at_its_action() {
    let mut edited = file();
    let open = &mut edited["strata"]["open"]["B/2"];
    open.as_object_mut().unwrap().remove("machine").unwrap();
    // What is written for people is not read.
    (open["phase"], open["at"], open["attempts"]) = ("running".into(), "act/2".into(), 9.into());
    let env = read(&edited).unwrap();
    let activation = env.roles[1].activation.as_ref().unwrap();
    let team = team();
    let work = activation.current_work(team.role(RoleId(1)));
    let action = ActionId(1);
    assert_eq!(work, Some(Work::Act { action, task: None }));
    assert_eq!(activation.phase, Phase::Ready);
    assert_eq!(activation.current_call.attempts, 0);
    let contents: Vec<&str> = activation
        .news
        .iter()
        .map(|id| env.message(*id).content.as_str())
        .collect();
    assert_eq!(contents, ["q ok"]);
    // The others go on where they were.
    assert_eq!(
        env.roles[2].activation.as_ref().unwrap().phase,
        Phase::Complete
    );
    continue_with_faults(&team, env, 20);
}

#[test]
fn what_is_written_for_people_is_not_read_back() {
    let mut edited = file();
    edited["strata"]["faults"] = json!([]);
    edited["strata"]["requests"] = json!([{ "id": 7 }]);
    let open = &mut edited["strata"]["open"]["B/2"];
    for (name, value) in [
        ("news", json!(["nothing"])),
        ("step", json!("soon")),
        ("at", json!(1)),
        ("called", json!(1)),
    ] {
        open[name] = value;
    }
    assert_eq!(read(&edited).unwrap(), read(&file()).unwrap());
}

#[test]
fn messages_may_be_edited_while_a_machine_part_refers_to_them() {
    let mut edited = file();
    let id = edited["strata"]["open"]["B/2"]["news"][0].clone();
    let id = id.as_str().unwrap();
    edited["strata"]["messages"][id]["content"] = "edited".into();
    edited["strata"]["messages"]["0-another"] = json!({ "content": "new" });
    let env = read(&edited).unwrap();
    let news = env.roles[1].activation.as_ref().unwrap().news[0];
    assert_eq!(env.message(news).content, "edited");
}

/// Applies a change to the content of a machine part, and checks whether it is refused with an error
/// that contains `expected`.
fn check_refused(change: impl FnOnce(&mut Content), expected: &str) {
    let team = team_with_calls();
    let mut file = file_of(&team, stopped_run(&team).env());
    let mut changed = content(&file);
    change(&mut changed);
    replace(&mut file, &changed);
    let error = import_value(&team, &file).unwrap_err().to_string();
    assert!(error.contains(expected), "{expected}: {error}");
    check_taken_or_refused(&team, &file);
}

fn first_call(content: &mut Content) -> TurnCall {
    content.1.turns[0].calls[0].clone()
}

/// Replaces the first call of the first turn.
fn set_call(content: &mut Content, change: impl FnOnce(&mut TurnCall)) {
    let mut turns = content.1.turns.to_vec();
    change(&mut turns[0].calls[0]);
    content.1.turns = turns.into();
}

#[test]
fn what_the_team_does_not_have_is_refused() {
    let act = |action| Work::Act {
        action: ActionId(action),
        task: None,
    };
    let reverted = |work| RevertedCall {
        work,
        position: 0,
        progress: Default::default(),
    };
    check_refused(|part| part.0 = RoleId(900), "another role");
    check_refused(|part| part.1.news[0] = MessageRef(900), "does not list");
    check_refused(|part| part.1.choices = vec![2], "actions that the team");
    check_refused(|part| part.1.choices = vec![0; 9], "actions that the team");
    let undone = reverted(act(900));
    check_refused(
        |part| part.1.reverted = vec![undone],
        "actions that the team",
    );
    let target = |tool| {
        move |part: &mut Content| {
            set_call(part, |call| call.target.as_mut().unwrap().tool = tool);
        }
    };
    let other_role = target(ToolRef::Role(RoleId(900)));
    check_refused(other_role, "actions that the team");
    let unlisted = target(ToolRef::Server { list: 0, tool: 0 });
    check_refused(unlisted, "calls of tools that it does not have");
    let nothing = |part: &mut Content| set_call(part, |call| call.target = None);
    check_refused(nothing, "calls of tools that it does not have");
    check_refused(|part| part.2.clear(), "no other role called");
    let elsewhere = |part: &mut Content| {
        let (mut key, called) = part.2.pop_first().unwrap();
        key.role = RoleId(900);
        part.2.insert(key, called);
    };
    check_refused(elsewhere, "actions that the team");
    let by_nobody = |part: &mut Content| {
        let (key, called) = part.2.pop_first().unwrap();
        part.2.insert(ActivationKey::of_mail(key.role), called);
    };
    check_refused(by_nobody, "no other role called");
}

#[test]
fn numbers_and_documents_that_no_run_has_are_refused() {
    let numbers = "numbers that no run reaches";
    check_refused(|part| part.1.opened_in_step = u64::MAX, numbers);
    check_refused(|part| part.1.message_count = u32::MAX, numbers);
    check_refused(|part| part.1.current_call.attempts = u32::MAX, numbers);
    check_refused(|part| part.1.memory.last_input_tokens = u64::MAX, numbers);
    let attempts = |part: &mut Content| set_call(part, |call| call.progress.failures = u32::MAX);
    check_refused(attempts, numbers);
    let mut deep = json!(0);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let deep = Json::from(deep);
    let request = HumanRequest {
        id: "ask-0-0-0-0".into(),
        question: "?".into(),
        schema: Some(deep.clone()),
        choices: Vec::new(),
        default: None,
        expires_ms: Some(i64::MAX),
        proposed: None,
        asked_by: None,
    };
    let asks = |part: &mut Content| {
        part.1.phase = Phase::WaitingForHuman(request);
    };
    check_refused(asks, "nested too deep");
    let edited = |part: &mut Content| {
        set_call(part, |call| {
            call.edited_arguments = Some(deep);
            call.outcome = None;
        });
    };
    check_refused(edited, "nested too deep");
}

#[test]
fn phases_that_do_not_fit_their_calls_are_put_right() {
    let team = team_with_tools();
    let file = file_of(&team, &state_with_open_turn(&team));
    let phases = [
        Phase::Ready,
        Phase::Running,
        Phase::BackingOff,
        Phase::Complete,
        Phase::CallingTools,
    ];
    for phase in &phases {
        for of_call in &phases {
            let mut file = file.clone();
            let mut part = content(&file);
            part.1.phase = phase.clone();
            part.1.memory.kept_bytes = 7;
            let mut turns = part.1.turns.to_vec();
            for call in &mut turns[0].calls {
                call.phase = of_call.clone();
            }
            part.1.turns = turns.into();
            replace(&mut file, &part);
            let env = import_value(&team, &file).unwrap();
            let activation = env.role(ROLE).activation.as_ref().unwrap();
            assert_eq!(activation.phase, Phase::CallingTools);
            assert_eq!(activation.memory.kept_bytes, 0);
            check_taken_or_refused(&team, &file);
        }
    }
}

#[test]
fn calls_that_are_nested_without_end_are_refused() {
    let team = team_with_tools();
    let mut file = file_of(&team, &state_with_open_turn(&team));
    let mut part = content(&file);
    let call = first_call(&mut part);
    let nested = |within: Vec<NestedCall>| {
        let mut call = call.clone();
        call.progress.nested = within;
        NestedCall {
            request: "digest".into(),
            arguments: Json::null(),
            made_by: 1,
            call,
        }
    };
    let levels = (0..MAX_NESTED_LEVELS).fold(Vec::new(), |within, _| vec![nested(within)]);
    set_call(&mut part, |call| call.progress.nested = levels);
    replace(&mut file, &part);
    check_taken_or_refused(&team, &file);
    import_value(&team, &file).unwrap();
    // A list of a million levels, each of one call: it is no longer possible to write them.
    let bytes = codec::encode(&vec![1_u8; 1_000_000], Vec::new());
    *machine(&mut file) = to_text(&bytes).into();
    assert!(import_value(&team, &file).is_err());
}

#[test]
fn what_would_take_far_more_memory_than_it_is_long_is_refused() {
    let (team, mut file) = (team(), file());
    let bomb = codec::compress(vec![1; 5 << 20]);
    assert!(bomb.len() < 64 << 10, "{}", bomb.len());
    file["strata"]["open"]["B/2"]["machine"] = to_text(&bomb).into();
    let error = import_value(&team, &file).unwrap_err().to_string();
    assert!(error.contains("far more memory"), "{error}");
}

#[test]
fn many_long_machine_parts_that_compress_well_are_read_back() {
    let team = team();
    let mut env = failed();
    let activation = env.roles[1].activation.clone().unwrap();
    for (role, long) in env.roles.iter_mut().zip([1, 2, 3, 1, 2]) {
        let mut activation = activation.clone();
        activation.tasks = vec![strata_core::record::work::Task {
            text: "x".repeat(long << 20),
            action: None,
        }];
        activation.done.clear();
        role.activation = Some(activation);
    }
    let written = file_of(&team, &env);
    let read = import_value(&team, &written).unwrap();
    let lengths = |env: &Environment| -> Vec<usize> {
        let open = env.roles.iter().filter_map(|role| role.activation.as_ref());
        open.map(|open| open.tasks[0].text.len()).collect()
    };
    assert_eq!(lengths(&read), lengths(&env));
    assert_eq!(lengths(&read).len(), 5);
    // If all of them were compressed, they would be taken for bombs.
    let mut packed = written;
    for open in packed["strata"]["open"]
        .as_object_mut()
        .unwrap()
        .values_mut()
    {
        let bytes = to_bytes(open["machine"].as_str().unwrap()).unwrap();
        let plain = codec::decompress(&bytes).unwrap().into_owned();
        open["machine"] = to_text(&codec::compress(plain)).into();
    }
    let error = import_value(&team, &packed).unwrap_err().to_string();
    assert!(error.contains("far more memory"), "{error}");
}

#[test]
fn files_are_named_by_their_digests() {
    use strata_core::record::file::{FileChange, PathContent};
    let change = |digest: &str| {
        let digest = Digest::from(digest);
        move |part: &mut Content| {
            part.1.current_call.files = vec![FileChange {
                path: "a/b".into(),
                before: PathContent::Absent,
                after: PathContent::File { digest, bytes: 1 },
            }];
        }
    };
    let expected = "names files by something else";
    check_refused(change("../../etc/passwd"), expected);
    check_refused(change(""), expected);
}

#[test]
fn the_tools_of_a_call_are_those_of_the_team_that_reads_it() {
    // The file is that of the same team, whose role has lost a tool in its team file.
    let team = team_with_tools();
    let file = file_of(&team, &state_with_open_turn(&team));
    let mut other = Team::clone(&team);
    if let strata_core::team::React::Tools(tools) = &mut other.roles[0].react {
        tools.tools[0].target = CallTarget {
            tool: ToolRef::Action(ActionId(1)),
            ..tools.tools[0].target
        };
    }
    let check = |team: &Team, file: &Value| {
        let error = import_value(team, file).unwrap_err().to_string();
        assert!(
            error.contains("calls of tools that `A` does not have"),
            "{error}"
        );
    };
    check(&other, &file);
    let mut changed = content(&file);
    set_call(&mut changed, |call| {
        call.target.as_mut().unwrap().tool = ToolRef::Handoff(RoleId(1));
    });
    let mut file = file;
    replace(&mut file, &changed);
    check(&team, &file);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_with_a_matching_checksum_are_refused_or_can_be_gone_on_from(
        kind in 0..3_u8,
        turns in vec(any::<u8>(), 60..200),
        edits in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..4),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let (team, env) = match kind {
            0 => {
                let mut run = ScriptedRun::new(&turns);
                while run.events.len() < 60 && run.advance() {}
                (team(), run.stepper.env().clone())
            }
            1 => {
                let team = team_with_tools();
                let env = state_with_open_turn(&team);
                (team, env)
            }
            _ => {
                let team = team_with_calls();
                let env = stopped_run(&team).env().clone();
                (team, env)
            }
        };
        let mut file = file_of(&team, &env);
        let open = file["strata"]["open"].as_object().unwrap().clone();
        prop_assume!(!open.is_empty());
        let roles: Vec<String> = open.keys().cloned().collect();
        let text = open[from.get(&roles)]["machine"].as_str().unwrap();
        let mut bytes = codec::decompress(&to_bytes(text).unwrap()).unwrap().into_owned();
        for (place, byte, how) in edits {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        // It may be given to another role, too.
        let role: &String = to.get(&roles);
        file["strata"]["open"][role]["machine"] = to_text(&bytes).into();
        check_taken_or_refused(&team, &file);
    }
}

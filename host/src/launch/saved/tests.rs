//! Files that MetaGPT wrote, and the states that are imported from them.

use std::path::Path;

use serde_json::{Value, json};

use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::money::Usd;
use strata_core::record::work::Work;
use strata_core::state::environment::Environment;
use strata_core::state::environment::routing::OwnMessages;
use strata_core::team::Team;
use strata_storage::SavedDefinition;
use strata_team_json::{described_team, export, import, import_with_warnings, is_foreign};

use strata_manifest::Definition;

macro_rules! saved {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../tests/fixtures/metagpt/",
            $name,
            ".json"
        ))
    };
}

const EARLIER: &str = saved!("earlier-outputs");
const INSTRUCT: &str = saved!("instruct-back");
const OWN_WATCH: &str = saved!("own-watch");
const ONE_ACTION: &str = saved!("react-one-action");
const THINK: &str = saved!("think");
const PLAN: &str = saved!("plan-tasks");
const UNREAD: &str = saved!("unread-mail");

/// Returns a team with these roles: the name of each, the rest of its entry, and its actions.
fn team(roles: &[(&str, &str, &[&str])]) -> Team {
    let mut text = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n".to_owned();
    for (name, rest, actions) in roles {
        text.push_str(&format!("[[role]]\nname = \"{name}\"\n{rest}\n"));
        for action in *actions {
            text.push_str(&format!(
                "[[role.action]]\nname = \"{action}\"\ncomponent = \"x.wasm\"\n"
            ));
        }
    }
    Definition::parse_without_files(&text, "team.toml", Path::new("/"))
        .unwrap()
        .team
}

fn max_and_gus() -> Team {
    team(&[
        ("Max", "watch = [\"UserRequirement\"]", &["Knead", "Bake"]),
        ("Gus", "watch = [\"Bake\"]", &["Eat"]),
    ])
}

fn import_text(team: &Team, text: &str) -> Environment {
    import(team, text.as_bytes()).unwrap()
}

/// Returns the contents of the messages that a role works on, and of the outputs of its completed
/// calls.
fn activation_contents(env: &Environment, role: u16) -> (Vec<String>, Vec<String>) {
    let activation = env.role(RoleId(role)).activation.as_ref().unwrap();
    let contents = |ids: Vec<_>| {
        env.resolve(&ids)
            .iter()
            .map(|message| message.content.clone())
            .collect()
    };
    (
        contents(activation.news.clone()),
        contents(
            activation
                .done
                .iter()
                .map(|done| done.output.message)
                .collect(),
        ),
    )
}

fn mailbox_contents(env: &Environment, role: u16) -> Vec<String> {
    let ids: Vec<_> = env
        .role(RoleId(role))
        .mailbox
        .iter()
        .map(|mail| mail.message)
        .collect();
    env.resolve(&ids)
        .iter()
        .map(|message| message.content.clone())
        .collect()
}

fn edited(text: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut file: Value = serde_json::from_str(text).unwrap();
    edit(&mut file);
    file.to_string()
}

#[test]
fn what_earlier_actions_returned_is_known_by_the_class_of_its_role() {
    let env = import_text(&max_and_gus(), EARLIER);
    assert_eq!(
        activation_contents(&env, 0),
        (vec!["an idea".into()], vec!["Knead(an idea)".into()])
    );
    let work = env
        .role(RoleId(0))
        .activation
        .as_ref()
        .unwrap()
        .current_work(&max_and_gus().roles[0]);
    assert_eq!(
        work,
        Some(Work::Act {
            action: ActionId(1),
            task: None
        })
    );
    let message = env
        .messages
        .iter()
        .find(|message| message.content == "Knead(an idea)")
        .unwrap();
    assert_eq!(
        (message.sent_from.as_str(), message.cause_by.as_str()),
        ("Max", "Knead")
    );
}

#[test]
fn roles_and_actions_have_the_names_of_their_classes_too() {
    let by_class = team(&[
        ("Maker", "watch = [\"UserRequirement\"]", &["Knead", "Bake"]),
        ("Guest", "watch = [\"Bake\"]", &["Eat"]),
    ]);
    assert_eq!(
        activation_contents(&import_text(&by_class, EARLIER), 0).1,
        ["Knead(an idea)"]
    );
    let by_profile = team(&[
        (
            "A",
            "profile = \"Profile of Max\"\nwatch = [\"UserRequirement\"]",
            &["Knead", "Bake"],
        ),
        (
            "B",
            "profile = \"Profile of Gus\"\nwatch = [\"Bake\"]",
            &["Eat"],
        ),
    ]);
    assert_eq!(
        activation_contents(&import_text(&by_profile, EARLIER), 0).1,
        ["Knead(an idea)"]
    );
    let speaker = edited(EARLIER, |file| {
        let storage = file
            .pointer_mut("/env/roles/Profile of Max/rc/memory/storage/0")
            .unwrap();
        storage["sent_from"] = json!("Max(Profile of Max)");
    });
    assert_eq!(
        activation_contents(&import_text(&max_and_gus(), &speaker), 0).1,
        ["Knead(an idea)"]
    );
    let renamed = edited(EARLIER, |file| {
        for action in file
            .pointer_mut("/env/roles/Profile of Max/actions")
            .unwrap()
            .as_array_mut()
            .unwrap()
        {
            action["name"] = json!(format!("My{}", action["name"].as_str().unwrap()));
        }
    });
    let by_action = team(&[
        (
            "Max",
            "watch = [\"UserRequirement\"]",
            &["MyKnead", "MyBake"],
        ),
        ("Gus", "watch = [\"Bake\"]", &["Eat"]),
    ]);
    let misfit = import(&by_action, renamed.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        misfit.contains("watch of `Gus`"),
        "the label is called as the action: {misfit}"
    );
}

#[test]
fn the_name_of_an_entry_counts_more_than_its_key() {
    let swapped = edited(EARLIER, |file| {
        let roles = file["env"]["roles"].as_object_mut().unwrap();
        let (max, gus) = (
            roles.remove("Profile of Max").unwrap(),
            roles.remove("Profile of Gus").unwrap(),
        );
        roles.insert("Gus".into(), max);
        roles.insert("Max".into(), gus);
    });
    assert_eq!(
        activation_contents(&import_text(&max_and_gus(), &swapped), 0).0,
        ["an idea"]
    );
}

#[test]
fn a_role_with_one_action_fits_every_mode() {
    for rest in [
        "",
        "react = \"react\"",
        "react = \"react\"\nmax_react_loop = 3",
    ] {
        let ann = format!("watch = [\"UserRequirement\"]\n{rest}");
        let team = team(&[
            ("Ann", &ann, &["Write"]),
            ("Bob", "watch = [\"Write\"]", &["Read"]),
        ]);
        let env = import_text(&team, ONE_ACTION);
        let work = env
            .role(RoleId(0))
            .activation
            .as_ref()
            .unwrap()
            .current_work(&team.roles[0]);
        assert_eq!(
            work,
            Some(Work::Act {
                action: ActionId(0),
                task: None
            }),
            "{rest}"
        );
    }
    let planner = team(&[
        (
            "Ann",
            "watch = [\"UserRequirement\"]\nreact = \"plan_and_act\"",
            &["Plan", "Write"],
        ),
        ("Bob", "watch = [\"Write\"]", &["Read"]),
    ]);
    let planned = ONE_ACTION.replace(
        "\"react_mode\": \"react\"",
        "\"react_mode\": \"plan_and_act\"",
    );
    assert_eq!(
        activation_contents(&import_text(&planner, &planned), 0).0,
        ["an idea"]
    );
    let by_order = team(&[
        ("Ann", "watch = [\"UserRequirement\"]", &["Write"]),
        ("Bob", "watch = [\"Write\"]", &["Read"]),
    ]);
    assert_eq!(
        activation_contents(&import_text(&by_order, &planned), 0).0,
        ["an idea"]
    );
    let two = team(&[
        (
            "Max",
            "watch = [\"UserRequirement\"]\nreact = \"plan_and_act\"",
            &["Knead", "Bake"],
        ),
        ("Gus", "watch = [\"Bake\"]", &["Eat"]),
    ]);
    assert!(
        import(&two, EARLIER.as_bytes()).is_err(),
        "with two actions the mode counts"
    );
}

#[test]
fn a_role_that_a_person_plays_fits_one_of_that_kind() {
    let human = team(&[
        (
            "Ann",
            "kind = \"human\"\nwatch = [\"UserRequirement\"]",
            &[],
        ),
        ("Bob", "watch = [\"Write\"]", &["Read"]),
    ]);
    let played = edited(ONE_ACTION, |file| {
        file["env"]["roles"]["Profile of Ann"]["is_human"] = json!(true)
    });
    let activation = import_text(&human, &played)
        .role(RoleId(0))
        .activation
        .clone()
        .unwrap();
    assert_eq!(activation.current_work(&human.roles[0]), Some(Work::Answer));
    assert!(import(&human, ONE_ACTION.as_bytes()).is_err());
}

#[test]
fn what_a_role_was_thinking_about_is_news() {
    let cy = team(&[(
        "Cy",
        "watch = [\"UserRequirement\"]\nreact = \"react\"\nmax_react_loop = 2\nthink = { component = \"t.wasm\" }",
        &["X", "Y"],
    )]);
    let env = import_text(&cy, THINK);
    assert_eq!(activation_contents(&env, 0).0, ["an idea"]);
    assert_eq!(
        env.role(RoleId(0))
            .activation
            .as_ref()
            .unwrap()
            .current_work(&cy.roles[0]),
        Some(Work::Think { round: 0 })
    );
    let handled = edited(THINK, |file| {
        let role = &mut file["env"]["roles"]["Profile of Cy"];
        role["rc"]["memory"]["storage"] = json!([role["latest_observed_msg"].clone()]);
    });
    assert_eq!(
        import_text(&cy, &handled).role(RoleId(0)).activation,
        None,
        "what it remembers it has handled"
    );
    let forgetful = edited(THINK, |file| {
        file["env"]["roles"]["Profile of Cy"]["enable_memory"] = json!(false)
    });
    let imported = import_with_warnings(&cy, forgetful.as_bytes()).unwrap();
    assert_eq!(
        (
            imported.env.role(RoleId(0)).activation.is_some(),
            imported.warnings.len()
        ),
        (false, 1)
    );
}

#[test]
fn tasks_that_are_finished_are_not_repeated() {
    let pia = team(&[(
        "Pia",
        "watch = [\"UserRequirement\"]\nreact = \"plan_and_act\"",
        &["Plan", "Work"],
    )]);
    let env = import_text(&pia, PLAN);
    assert_eq!(
        activation_contents(&env, 0),
        (
            vec!["an idea".into()],
            vec!["t1\nt2\nt3".into(), "did t1".into()]
        )
    );
    let work = |env: &Environment| {
        env.role(RoleId(0))
            .activation
            .as_ref()
            .unwrap()
            .current_work(&pia.roles[0])
    };
    assert_eq!(
        work(&env),
        Some(Work::Act {
            action: ActionId(1),
            task: Some(1)
        })
    );
    let unplanned = edited(PLAN, |file| {
        file["env"]["roles"]["Pia"]["planner"]["plan"]["tasks"] = json!([])
    });
    assert_eq!(work(&import_text(&pia, &unplanned)), Some(Work::Plan));
    let later = edited(PLAN, |file| {
        let tasks = &mut file["env"]["roles"]["Pia"]["planner"]["plan"]["tasks"];
        (tasks[0]["is_finished"], tasks[2]["is_finished"]) = (json!(false), json!(true));
    });
    let activation = import_text(&pia, &later)
        .role(RoleId(0))
        .activation
        .clone()
        .unwrap();
    let texts: Vec<&str> = activation
        .tasks
        .iter()
        .map(|task| task.text.as_str())
        .collect();
    assert_eq!((texts, activation.done.len()), (vec!["t3", "t1", "t2"], 2));
}

#[test]
fn mail_that_nobody_has_read_is_delivered() {
    let watch = |label: &str| format!("watch = [\"{label}\"]");
    let (writes, idea) = (watch("Write"), watch("UserRequirement"));
    let three = team(&[
        ("Bob", &writes, &["Read"]),
        ("Ann", &idea, &["Write"]),
        ("Sam", &idea, &["Ponder"]),
    ]);
    let env = import_text(&three, UNREAD);
    assert_eq!(
        [0, 1, 2].map(|role| mailbox_contents(&env, role)),
        [vec!["Write(an idea)".to_owned()], vec![], vec![]]
    );
    // Version 0.8.2 writes the history as a string.
    let history = "\nuser: an idea\nassistant: Write(an idea)";
    let in_words = edited(UNREAD, |file| file["env"]["history"] = json!(history));
    assert_eq!(
        mailbox_contents(&import_text(&three, &in_words), 0),
        ["Write(an idea)"]
    );
    let to_bob = edited(UNREAD, |file| {
        file["env"]["history"]["storage"][1]["send_to"] = json!(["mgcases.Reader"]);
        file["env"]["history"]["storage"][1]["cause_by"] = json!("mgcases.Other");
        file["env"]["roles"]["Ann"]["rc"]["memory"]["storage"]
            .as_array_mut()
            .unwrap()
            .pop();
    });
    assert_eq!(
        mailbox_contents(&import_text(&three, &to_bob), 0),
        ["Write(an idea)"],
        "by the class of its recipient"
    );
    let read = edited(UNREAD, |file| {
        let message = file["env"]["history"]["storage"][1].clone();
        file["env"]["roles"]["Bob"]["rc"]["memory"]["storage"] = json!([message]);
    });
    assert!(mailbox_contents(&import_text(&three, &read), 0).is_empty());
}

#[test]
fn structured_content_is_written_back_as_it_was() {
    let two = team(&[
        (
            "Ann",
            "watch = [\"UserRequirement\"]\nreact = \"react\"",
            &["Write"],
        ),
        ("Bob", "watch = [\"Write\"]", &["Read", "Judge"]),
    ]);
    let written: Value = serde_json::from_str(&export(
        &two,
        &import_text(&two, INSTRUCT),
        &SavedDefinition::example(),
    ))
    .unwrap();
    let message = written
        .pointer("/env/roles/Ann/rc/memory/storage/1")
        .unwrap();
    let expected = json!({
        "class": "pass", "mapping": {"result": "(<class 'str'>, Ellipsis)"}, "value": {"result": "pass result"}
    });
    assert_eq!(
        (&message["instruct_content"], &message["meta_info"]),
        (&expected, &json!({}))
    );
}

#[test]
fn what_was_spent_counts_and_numbers_of_python_are_read() {
    let spent = |costs: &str| {
        let file = EARLIER.replace(
            "\\\"total_cost\\\": 0.0",
            &format!("\\\"total_cost\\\": {costs}"),
        );
        import_text(&max_and_gus(), &file).spent
    };
    assert_eq!(spent("0.25"), Usd::from_dollars(0.25));
    assert_eq!(spent("NaN"), Usd::ZERO);
    for number in ["NaN", "Infinity", "-Infinity"] {
        let file = EARLIER.replace("\"investment\": 10.0", &format!("\"investment\": {number}"));
        assert_eq!(
            import_text(&max_and_gus(), &file).budget,
            None,
            "{number} is no limit"
        );
    }
}

#[test]
fn a_role_of_an_imported_team_does_not_hear_itself() {
    let ann = team(&[(
        "Ann",
        "watch = [\"UserRequirement\", \"Write\"]",
        &["Write"],
    )]);
    let env = import_text(&ann, OWN_WATCH);
    assert_eq!(env.own_messages, OwnMessages::Withheld);
    let written = export(&ann, &env, &SavedDefinition::example());
    assert_eq!(
        import_text(&ann, &written).own_messages,
        OwnMessages::Withheld
    );
}

#[test]
fn a_plan_of_a_role_without_actions_is_shown_as_it_is() {
    let plan = r#""planner": {"plan": {"tasks": [{"task_id": "1", "instruction": "t", "is_finished": true}]}}"#;
    let news = r#"{"id": "m", "content": "go", "role": "", "cause_by": "UserRequirement", "sent_from": "", "send_to": ["<all>"]}"#;
    let rc = format!(
        r#"{{"state": -1, "react_mode": "plan_and_act", "news": [{news}], "latest_observed_msg": {news}}}"#
    );
    let role = format!(r#"{{"name": "A", "profile": "P", "actions": [], {plan}, "rc": {rc}}}"#);
    let text =
        format!(r#"{{"env": {{"roles": {{"P": {role}}}}}, "investment": 1.0, "idea": "go"}}"#);
    let team = described_team(text.as_bytes()).unwrap();
    assert!(import(&team, text.as_bytes()).is_ok());
}

#[test]
fn a_file_is_shown_without_a_team_file() {
    for text in [
        EARLIER, INSTRUCT, OWN_WATCH, ONE_ACTION, THINK, PLAN, UNREAD,
    ] {
        assert!(is_foreign(text.as_bytes()));
        let team = described_team(text.as_bytes()).unwrap();
        let env = import_text(&team, text);
        assert!(env.activations().next().is_some());
        let written = export(&team, &env, &SavedDefinition::example());
        assert!(!is_foreign(written.as_bytes()));
    }
}

//! The team that ships with the product and in which a model writes a script that calls tools.

use std::fs;

use serde_json::json;

use crate::probe::project;
use crate::stream;
use crate::workspace::Workspace;

const DIR: &str = "plugins/teams/orders";
const FILES: [&str; 5] = [
    "team.toml",
    "replies.toml",
    "orders.py",
    "rate.py",
    "table/orders.csv",
];

#[test]
fn a_script_adds_up_a_table_page_by_page_with_nothing_but_two_tools() {
    let workspace = Workspace::empty();
    for file in FILES {
        let path = workspace.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(project().join(DIR).join(file), path).unwrap();
    }
    // The interpreter is set up and compiled, which takes longer than a run is waited for.
    let checked = workspace.command(&["check", "team.toml"]).output().unwrap();
    assert!(checked.status.success());
    let ended = workspace
        .host(&["run", "team.toml", "--storage", "store", "--events", "-"])
        .expect(0);
    let events = ended.events();
    let finished = stream::of_kind(&events, "action-finished");
    let numbers = |action: &str| -> Vec<_> {
        let of_action = finished.iter().filter(|event| event["action"] == action);
        of_action.map(|event| event["nested"].clone()).collect()
    };
    assert_eq!(numbers("orders"), [json!(0), json!(1), json!(2), json!(3)]);
    assert_eq!(numbers("rate").len(), 3);
    let code = finished.iter().find(|event| event["action"] == "run_code");
    let data = &code.expect("the script ends")["output"]["data"];
    assert_eq!(*data, json!({ "orders": 24, "euros": 8399.0 }));
    workspace.host(&["replay", "store", "--verify"]).expect(0);
}

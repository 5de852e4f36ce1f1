//! Tests the action with the in-memory host.

use strata_action::testing::{Call, Host};
use {{module}}::{Answer, Respond};

#[test]
fn it_answers_and_counts_its_words() {
    let mut host = Host::new().reply("Blue and deep.");
    let call = Call::new().news("the sea").config(serde_json::json!({ "instruction": "Describe:" }));
    let output = host.run::<Respond>(call).expect("an output");
    assert_eq!(output.content, "Blue and deep.");
    assert_eq!(output.data, Some(Answer { words: 3 }));
    assert_eq!(host.prompts(), ["Describe:\n\nthe sea"]);
}

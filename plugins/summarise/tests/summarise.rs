//! Tests what the model is asked, and that a long text is summarised in pieces.

use serde_json::json;
use strata_action::testing::{Call, Host};
use summarise::Summarise;

#[test]
fn a_text_is_summarised_in_one_request() {
    let mut host = Host::new().reply(" short ");
    let call = Call::new()
        .news("a long text")
        .config(json!({ "instructions": "Keep the numbers." }));
    let output = host.run::<Summarise>(call).expect("a summary");
    assert_eq!(output.content, "short");
    let request = &host.requests()[0];
    assert_eq!(request.max_tokens, Some(2000));
    let system = request.messages[0].text();
    assert!(system.contains("Summarise the text") && system.ends_with("Keep the numbers."));
    assert_eq!(request.messages[1].text(), "a long text");
}

#[test]
fn a_long_text_is_summarised_in_pieces() {
    let text = "0123456789\n".repeat(150);
    let mut host = Host::new().reply("first").reply("second");
    let call = Call::new()
        .news(text.as_str())
        .config(json!({ "piece_bytes": 1000 }));
    let output = host.run::<Summarise>(call).expect("a summary");
    assert_eq!(output.content, "second");
    let asked: Vec<String> = host
        .requests()
        .iter()
        .map(|request| request.messages[1].text())
        .collect();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].len() <= 1000 && asked[0].ends_with('\n'));
    assert!(asked[1].contains("first") && asked[1].contains("0123456789"));
}

#[test]
fn an_empty_reply_is_a_failure() {
    let mut host = Host::new().reply("  ");
    assert!(host.run::<Summarise>(Call::new().news("text")).is_err());
}

//! Responses that are compressed, or whose text is not UTF-8.

use super::*;

#[tokio::test]
async fn a_compressed_answer_is_named_and_not_requested_again() {
    let play = |status, headers| ServerBehavior::Respond(status, headers, "\u{1f}x".to_owned());
    let gzip = "content-encoding: gzip\r\n";
    let named = "compressed as `gzip`, although `identity`";
    check(&[play("200 OK", gzip)], 3, Err(named), 1).await;
    let twice = "content-encoding: identity\r\nContent-Encoding: deflate, br\r\n";
    let named = "compressed as `deflate, br`";
    check(&[play("200 OK", twice)], 3, Err(named), 1).await;
    // The status says what to do.
    let busy = "503 Service Unavailable: `compressed as gzip` (after 1 retry)";
    check(&[play("503 Service Unavailable", gzip)], 1, Err(busy), 2).await;
    let plain = ServerBehavior::Respond(
        "200 OK",
        "content-encoding: identity\r\n",
        r#"{"choices":[{"message":{"content":"hello"}}]}"#.to_owned(),
    );
    check(&[plain], 0, Ok("hello"), 1).await;
}

#[tokio::test]
async fn the_content_type_of_a_response_names_its_encoding() {
    // The body of the server is UTF-8, which is read as what it is called.
    let body = "{\"choices\":[{\"message\":{\"content\":\"\u{e4}\"}}]}".to_owned();
    let latin = "content-type: application/json; charset=ISO-8859-1\r\n";
    let plays = [ServerBehavior::Respond("200 OK", latin, body.clone())];
    check(&plays, 0, Ok("\u{c3}\u{a4}"), 1).await;
    let unicode = "content-type: application/json; charset=\"utf-8\"\r\n";
    let plays = [ServerBehavior::Respond("200 OK", unicode, body)];
    check(&plays, 0, Ok("\u{e4}"), 1).await;
    let error = ServerBehavior::Respond("400 Bad Request", latin, "\u{e4}".to_owned());
    check(&[error], 0, Err("`\u{c3}\u{a4}`"), 1).await;
}

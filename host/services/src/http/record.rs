//! The format of a recorded exchange: a digest of the request, and the response as readable JSON. A
//! body that is not UTF-8 is encoded in base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use strata_base::files::sha256::Sha256;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;

use super::{Header, HttpRequest, HttpResponse};

impl HttpRequest {
    /// Returns the digest that identifies this request in the journal. It covers the placeholders
    /// of secrets but not their values, and not the timeout. `own` is the prefix of the idempotency
    /// keys of this lineage, and `first` that of the first lineage. Requests that differ only in
    /// this prefix have the same digest, so that a request made before lineages diverged is
    /// recognized in each.
    pub fn digest(&self, own: &str, first: &str) -> String {
        let Self {
            method,
            url,
            headers,
            body,
            secrets,
            key,
            timeout_ms: _,
        } = self;
        let same = |text| with_prefix_of_first_lineage(text, own, first);
        let headers: Vec<_> = headers
            .iter()
            .map(|header| (&header.name, same(&header.value)))
            .collect();
        let body = body.as_deref().map(|body| match std::str::from_utf8(body) {
            Ok(text) => match same(text) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            Err(_) => Cow::Borrowed(body),
        });
        let key = key.as_deref().map(same);
        let length = body.as_ref().map(|body| body.len());
        let head = (method, same(url.as_str()), headers, secrets, key, length);
        let digest = Sha256::new()
            .with(serde_json::to_string(&head).unwrap_or_default())
            .with(body.as_deref().unwrap_or_default());
        to_hex(&digest.finish())
    }
}

impl HttpResponse {
    /// Returns the record of the response.
    pub fn to_json(&self) -> Json {
        let Self {
            status,
            headers,
            body,
        } = self;
        let headers: Vec<_> = headers
            .iter()
            .map(|header| json!([header.name, header.value]))
            .collect();
        let mut record = json!({ "status": status, "headers": headers });
        match std::str::from_utf8(body) {
            Ok(text) => record["body"] = text.into(),
            Err(_) => record["base64"] = STANDARD.encode(body).into(),
        }
        Json::from(record)
    }

    /// Parses a record. The error describes what is wrong.
    pub fn from_json(record: &Json) -> Result<Self, String> {
        let record = record.value();
        let status = match record.get("status") {
            None => 200,
            Some(status) => {
                let known = status
                    .as_u64()
                    .and_then(|status| u16::try_from(status).ok());
                known
                    .filter(|status| *status <= 999)
                    .ok_or_else(|| format!("`{status}` is no status"))?
            }
        };
        let headers = record
            .get("headers")
            .map_or(Ok(Vec::new()), parse_headers)?;
        let body = match (record.get("body"), record.get("base64")) {
            (Some(Value::String(text)), None) => text.clone().into_bytes(),
            (Some(other), None) => other.to_string().into_bytes(),
            (None, Some(Value::String(text))) => {
                STANDARD.decode(text).map_err(|error| error.to_string())?
            }
            (None, None) => Vec::new(),
            _ => return Err("a response has a `body`, or a text as `base64`".into()),
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }
}

/// Returns a text in which keys with the prefix `own` have the prefix `first`.
fn with_prefix_of_first_lineage<'a>(text: &'a str, own: &str, first: &str) -> Cow<'a, str> {
    if own == first {
        return Cow::Borrowed(text);
    }
    let (own, first) = (format!("{own}/"), format!("{first}/"));
    // In an address, these characters are percent-encoded.
    let escaped = |text: &str| text.replace('@', "%40").replace('/', "%2F");
    let text = text.replace(&own, &first);
    Cow::Owned(text.replace(&escaped(&own), &escaped(&first)))
}

/// Parses headers, which are a list of pairs or an object.
fn parse_headers(headers: &Value) -> Result<Vec<Header>, String> {
    let header = |name: &Value, value: &Value| match (name.as_str(), value.as_str()) {
        (Some(name), Some(value)) => Ok(Header {
            name: name.to_ascii_lowercase(),
            value: value.to_owned(),
        }),
        _ => Err("a header is a pair of texts".to_owned()),
    };
    match headers {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| header(&Value::String(name.clone()), value))
            .collect(),
        Value::Array(pairs) => {
            let pair = |pair: &Value| header(&pair[0], &pair[1]);
            pairs.iter().map(pair).collect()
        }
        _ => Err("`headers` is an object or a list of pairs".into()),
    }
}

/// Returns the response that an operator provides in place of a lost one. An object with only the
/// fields `status`, `headers`, `body` and `base64` is the response. Any other value is the body of
/// a response with status 200. Fails if an object could be either, because the decision is final.
pub fn parse_operator_response(value: &Value) -> Result<HttpResponse, String> {
    const FIELDS: [&str; 4] = ["status", "headers", "body", "base64"];
    let body = || HttpResponse::from_json(&Json::from(json!({ "body": value })));
    let Some(fields) = value.as_object() else {
        return body();
    };
    match fields
        .keys()
        .find(|field| !FIELDS.contains(&field.as_str()))
    {
        None if !fields.is_empty() => HttpResponse::from_json(&Json::from(value.clone())),
        Some(other) if fields.contains_key("body") || value["status"].is_number() => Err(format!(
            "a response has no `{other}`; if all of it is the body, write `{{\"body\":…}}`"
        )),
        _ => body(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> HttpResponse {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).into(),
            value: (*value).into(),
        };
        HttpResponse {
            status,
            headers: headers.iter().map(header).collect(),
            body: body.to_vec(),
        }
    }

    #[test]
    fn a_response_is_read_back_as_it_was_recorded() {
        let cases = [
            response(
                200,
                &[
                    ("content-type", "text/plain"),
                    ("set-cookie", "a"),
                    ("set-cookie", "b"),
                ],
                b"hello",
            ),
            response(0, &[], b""),
            response(500, &[], &[0, 159, 146, 150]),
        ];
        for case in cases {
            assert_eq!(HttpResponse::from_json(&case.to_json()), Ok(case));
        }
    }

    #[test]
    fn an_operator_gives_a_whole_response_or_its_body_alone() {
        let check = |value: Value, expected: Result<HttpResponse, &str>| {
            let read = parse_operator_response(&value);
            assert_eq!(
                read.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e),
                "{value}"
            );
        };
        check(
            json!({ "status": 201, "body": "made" }),
            Ok(response(201, &[], b"made")),
        );
        check(
            json!({ "status": 201, "boddy": "made" }),
            Err("a response has no `boddy`; if all of it is the body, write `{\"body\":…}`"),
        );
        check(
            json!({ "status": "made", "id": 7 }),
            Ok(response(200, &[], br#"{"id":7,"status":"made"}"#)),
        );
        check(json!({ "status": 204 }), Ok(response(204, &[], b"")));
        check(
            json!({ "body": { "id": 7 } }),
            Ok(response(200, &[], br#"{"id":7}"#)),
        );
        check(
            json!({ "headers": { "ETag": "1" } }),
            Ok(response(200, &[("etag", "1")], b"")),
        );
        check(json!("made"), Ok(response(200, &[], b"made")));
        check(json!({ "id": 7 }), Ok(response(200, &[], br#"{"id":7}"#)));
        check(json!({}), Ok(response(200, &[], b"{}")));
        check(json!({ "status": "ok" }), Err("`\"ok\"` is no status"));
        check(
            json!({ "status": 200, "headers": [["a"]] }),
            Err("a header is a pair of texts"),
        );
    }

    fn request() -> HttpRequest {
        HttpRequest {
            method: "POST".into(),
            url: reqwest::Url::parse("http://a/x").expect("an address"),
            headers: vec![Header {
                name: "a".into(),
                value: "b".into(),
            }],
            body: Some(b"c".to_vec()),
            secrets: vec!["TOKEN".into()],
            key: None,
            timeout_ms: None,
        }
    }

    #[test]
    fn a_digest_changes_with_all_that_is_asked_and_with_nothing_else() {
        let request = request();
        let patient = HttpRequest {
            timeout_ms: Some(1),
            ..request.clone()
        };
        let digest = |request: &HttpRequest| request.digest("run-1", "run-1");
        // Journals of earlier builds have this one.
        let expected = "c9a654d5cb9f2128324421b38eda9dcf1c169493fae9a261660a67be5f5e527a";
        assert_eq!([digest(&request), digest(&patient)], [expected; 2]);
        let others = [
            HttpRequest {
                method: "PUT".into(),
                ..request.clone()
            },
            HttpRequest {
                url: reqwest::Url::parse("http://a/y").expect("an address"),
                ..request.clone()
            },
            HttpRequest {
                headers: Vec::new(),
                ..request.clone()
            },
            HttpRequest {
                body: None,
                ..request.clone()
            },
            HttpRequest {
                body: Some(Vec::new()),
                ..request.clone()
            },
            HttpRequest {
                secrets: Vec::new(),
                ..request.clone()
            },
            HttpRequest {
                key: Some("k".into()),
                ..request.clone()
            },
        ];
        let digests: std::collections::BTreeSet<_> =
            others.iter().chain([&request]).map(digest).collect();
        assert_eq!(digests.len(), others.len() + 1);
    }

    #[test]
    fn a_digest_is_the_same_in_every_lineage() {
        let request_of = |run: &str| HttpRequest {
            url: reqwest::Url::parse(&format!(
                "http://a/{run}/0/A/1?key={}%2F0",
                run.replace('@', "%40")
            ))
            .expect("one"),
            headers: vec![Header {
                name: "a".into(),
                value: format!("x {run}/0/A/1"),
            }],
            body: Some(format!("{{\"key\": \"{run}/0/A/1\"}}").into()),
            key: Some(format!("{run}/0/A/1-0")),
            ..request()
        };
        assert_eq!(
            request_of("run-1@main.1").digest("run-1@main.1", "run-1"),
            request_of("run-1").digest("run-1", "run-1")
        );
        assert_ne!(
            request_of("run-1@main.2").digest("run-1@main.1", "run-1"),
            request_of("run-1").digest("run-1", "run-1")
        );
    }
}

//! Requests to people: validates requests and answers. The core's `stepper::human_requests` handles how a
//! call waits for its answer, and the command line how a request is displayed.

use serde_json::Value;
use strata_core::record::id::RequestId;
use strata_core::record::json::Json;
use strata_core::record::request::{HumanRequest, ProposedCall};

use crate::plugin::CompiledSchema;

/// The maximum size of a request in bytes, including its schema, choices and default. More would
/// not be read, and every attempt's record contains it.
const MAX_QUESTION_BYTES: usize = 64 << 10;
/// The maximum number of choices.
pub const MAX_CHOICES: usize = 100;
/// The maximum size of an answer in bytes. It is recorded, and served to every further attempt.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The maximum number of characters of an invalid answer that are quoted.
const MAX_QUOTED_CHARS: usize = 60;

/// A question that an action asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanQuestion {
    /// The question.
    pub text: String,
    /// The JSON Schema that the answer has to follow.
    pub schema: Option<String>,
    /// The allowed answers. If empty, any text is allowed.
    pub choices: Vec<String>,
    /// How long an answer is waited for, in seconds.
    pub expires_s: Option<u32>,
    /// The answer that is used after that time.
    pub default: Option<String>,
}

/// The reason why a question or an answer is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidQuestionOrAnswer {
    message: String,
    pointer: String,
}

impl InvalidQuestionOrAnswer {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            pointer: String::new(),
        }
    }

    fn at(self, pointer: String) -> Self {
        Self { pointer, ..self }
    }

    /// Returns the JSON pointer of the part of the answer that is not valid; empty if it is the whole answer.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }
}

impl HumanQuestion {
    /// Fails if nobody could answer the question.
    pub fn check(&self) -> Result<(), InvalidQuestionOrAnswer> {
        let parts = [&self.schema, &self.default]
            .into_iter()
            .flatten()
            .chain(&self.choices)
            .chain([&self.text]);
        let bytes: usize = parts.map(String::len).sum();
        if bytes > MAX_QUESTION_BYTES {
            return fail(format!(
                "the question has {bytes} bytes in all; at most {MAX_QUESTION_BYTES} are asked"
            ));
        }
        if self.choices.len() > MAX_CHOICES {
            let count = self.choices.len();
            return fail(format!(
                "the question has {count} choices; at most {MAX_CHOICES} are shown"
            ));
        }
        // The time and the id do not matter for this check.
        let request = self.to_request(RequestId::from(""), 0)?;
        let schema = compile_schema(&request)?;
        if let Some(schema) = &schema {
            if schema.is_impossible() {
                return fail("nobody could answer it: no value follows its schema");
            }
            let fits = |choice: &String| schema.check(&choice.as_str().into()).is_ok();
            if !self.choices.is_empty() && !self.choices.iter().any(fits) {
                return fail("nobody could answer it: none of its choices follows its schema");
            }
        }
        match &request.default {
            Some(default) => check_answer(&request, schema.as_ref(), default).map_err(|why| {
                InvalidQuestionOrAnswer::new(format!("the default is not a valid answer: {why}"))
            }),
            None => Ok(()),
        }
    }

    /// Creates the request for a question that was checked. `now_ms` is in milliseconds since 1970.
    pub fn to_request(
        &self,
        id: RequestId,
        now_ms: i64,
    ) -> Result<HumanRequest, InvalidQuestionOrAnswer> {
        let json = |what: &str, text: &Option<String>| match text {
            Some(text) => Json::parse(text)
                .map(Some)
                .map_err(|error| InvalidQuestionOrAnswer::new(format!("the {what} is {error}"))),
            None => Ok(None),
        };
        Ok(HumanRequest {
            id,
            question: self.text.clone(),
            schema: json("schema", &self.schema)?,
            choices: self.choices.clone(),
            default: json("default", &self.default)?,
            expires_ms: self
                .expires_s
                .map(|time| now_ms.saturating_add(i64::from(time) * 1000)),
            proposed: None,
            asked_by: None,
        })
    }

    /// Returns the digest that identifies the question among the host calls of an attempt. It does
    /// not depend on the default and on when the question is asked. It is empty if the question was
    /// not checked and cannot be asked.
    pub fn digest(&self) -> String {
        let request = self.to_request(RequestId::from(""), 0);
        request.map_or_else(|_| String::new(), |request| request.call_digest())
    }
}

/// Parses an answer: a JSON document, or bare text if the question accepts a string.
pub fn parse_answer(request: &HumanRequest, text: &str) -> Result<Json, InvalidQuestionOrAnswer> {
    if text.len() > MAX_ANSWER_BYTES {
        return fail(format!(
            "the answer has {} bytes; at most {MAX_ANSWER_BYTES} are taken",
            text.len()
        ));
    }
    if text.trim().is_empty() {
        return fail("the answer is empty; an empty text is `\"\"`");
    }
    let schema = request.schema.as_ref().map(compile_recorded).transpose()?;
    let check = |value: &Json| check_answer(request, schema.as_ref(), value);
    let as_text = || Json::from(Value::from(text.trim()));
    match Json::parse_decision(text) {
        Ok(value) => check(&value).map(|()| value).or_else(|why| {
            // A number or a literal such as `true` may be meant as a string.
            let bare = !looks_like_json(text);
            if bare && check(&as_text()).is_ok() {
                Ok(as_text())
            } else {
                Err(why)
            }
        }),
        Err(error) if looks_like_json(text) => fail(format!("`{}` is {error}", quote_start(text))),
        Err(_) => check(&as_text()).map(|()| as_text()),
    }
}

/// Returns whether a text begins like a JSON object, array or string, and so cannot be a bare word.
pub fn looks_like_json(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' '])
        .trim_start()
        .starts_with(['{', '[', '"'])
}

/// Checks whether a value answers a request.
fn check_answer(
    request: &HumanRequest,
    schema: Option<&CompiledSchema>,
    value: &Json,
) -> Result<(), InvalidQuestionOrAnswer> {
    let mut value = value.value();
    if request.asked_by.is_some() {
        if value.is_null() {
            // It declines.
            return Ok(());
        }
        let schema = request.schema.as_ref().map(Json::value);
        fill_in_defaults(&mut value, &schema.unwrap_or_default());
    }
    if !request.choices.is_empty()
        && !value
            .as_str()
            .is_some_and(|text| request.choices.iter().any(|c| c == text))
    {
        let choices: Vec<String> = request
            .choices
            .iter()
            .map(|choice| format!("`{}`", quote_start(choice)))
            .collect();
        return fail(format!(
            "`{}` is none of the choices {}",
            quote_start(&value.to_string()),
            choices.join(", ")
        ));
    }
    if let Some(schema) = schema {
        schema.check(&value).map_err(|why| {
            InvalidQuestionOrAnswer::new(format!("it does not follow the schema: {why}"))
                .at(schema.first_violation(&value))
        })?;
    }
    match (&request.proposed, value.get("arguments")) {
        (Some(call), Some(arguments)) => check_changed_arguments(call, arguments),
        _ => Ok(()),
    }
}

/// Adds the fields that an answer omits and for which its schema has defaults.
pub(crate) fn fill_in_defaults(answer: &mut Value, schema: &Value) {
    let (Value::Object(fields), Some(Value::Object(properties))) =
        (answer, schema.get("properties"))
    else {
        return;
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default") {
            fields
                .entry(name.clone())
                .or_insert_with(|| default.clone());
        }
    }
}

/// Checks whether a tool can be called with arguments that a person sets: with the tool's own schema,
/// as it is.
fn check_changed_arguments(
    call: &ProposedCall,
    arguments: &Value,
) -> Result<(), InvalidQuestionOrAnswer> {
    let Some(schema) = &call.input_schema else {
        return Ok(());
    };
    let schema = compile_recorded(schema)?;
    schema.check(arguments).map_err(|why| {
        InvalidQuestionOrAnswer::new(format!(
            "the arguments do not follow the schema of `{}`: {why}",
            call.tool
        ))
        .at(format!("/arguments{}", schema.first_violation(arguments)))
    })
}

fn compile_schema(
    request: &HumanRequest,
) -> Result<Option<CompiledSchema>, InvalidQuestionOrAnswer> {
    let schema = request
        .schema
        .as_ref()
        .map(|schema| CompiledSchema::compile_bounded(&schema.value()))
        .transpose();
    schema.map_err(|why| InvalidQuestionOrAnswer::new(format!("its schema cannot be used: {why}")))
}

/// Compiles the schema of a request that was opened. That of a guest is within the bounds, as was
/// checked before; that of an operator may be beyond them.
fn compile_recorded(schema: &Json) -> Result<CompiledSchema, InvalidQuestionOrAnswer> {
    let schema = schema.value();
    CompiledSchema::compile_bounded(&schema)
        .or_else(|_| CompiledSchema::compile(&schema))
        .map_err(|why| InvalidQuestionOrAnswer::new(format!("its schema cannot be used: {why}")))
}

/// Returns the beginning of a text, for display.
fn quote_start(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

fn fail<T>(why: impl Into<String>) -> Result<T, InvalidQuestionOrAnswer> {
    Err(InvalidQuestionOrAnswer::new(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMPOSSIBLE: [&str; 27] = [
        "false",
        r#"{"not":{}}"#,
        r#"{"not":true}"#,
        r#"{"not":{"description":"anything"}}"#,
        r#"{"not":{"not":false}}"#,
        r#"{"not":{"anyOf":[{"type":"null"},true]}}"#,
        r#"{"type":"string","not":{"type":["string","null"]}}"#,
        r#"{"allOf":[{"type":"string"},false]}"#,
        r#"{"allOf":[{"type":"string"},{"type":"integer"}]}"#,
        r#"{"anyOf":[false,{"not":{}}]}"#,
        r#"{"oneOf":[false,{"enum":[]}]}"#,
        r##"{"$ref":"#/$defs/x","$defs":{"x":false}}"##,
        r##"{"$ref":"#/$defs/x","$defs":{"x":{"$ref":"#/$defs/y"},"y":{"not":true}}}"##,
        r#"{"enum":[]}"#,
        r#"{"enum":["a"],"type":"integer"}"#,
        r#"{"const":"a","enum":["b"]}"#,
        r#"{"enum":["a","bb"],"minLength":3}"#,
        r#"{"allOf":[{"enum":["a"]},{"enum":["b"]}]}"#,
        r#"{"type":"boolean","not":{"enum":[true,false]}}"#,
        r#"{"type":"string","minLength":5,"maxLength":2}"#,
        r#"{"type":"number","minimum":5,"exclusiveMaximum":5}"#,
        r#"{"type":"integer","minimum":1.2,"maximum":1.8}"#,
        r#"{"allOf":[{"type":"integer","minimum":5},{"maximum":4}]}"#,
        r#"{"type":"array","minItems":3,"maxItems":2}"#,
        r#"{"type":"array","minItems":1,"items":false}"#,
        r#"{"type":"object","required":["a"],"properties":{"a":false}}"#,
        r#"{"type":"object","required":["a","b"],"maxProperties":1}"#,
    ];

    #[test]
    fn what_somebody_could_answer_is_asked() {
        let possible = [
            "true",
            "{}",
            r#"{"minLength":5,"maxLength":2}"#,
            r#"{"not":{"type":"string"}}"#,
            r#"{"not":{"minLength":1}}"#,
            r#"{"anyOf":[false,{"type":"null"}]}"#,
            r#"{"enum":["a",1],"type":"integer"}"#,
            r#"{"type":["string","null"],"minLength":5,"maxLength":2}"#,
            r#"{"type":"number","minimum":1.2,"maximum":1.8}"#,
            r#"{"type":"array","items":false}"#,
            r#"{"type":"object","properties":{"a":false}}"#,
            r#"{"type":"boolean"}"#,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/x","type":"integer","definitions":{"x":{"type":"string"}}}"##,
        ];
        for schema in possible {
            let asked = asked(&HumanQuestion {
                schema: Some(schema.into()),
                ..question()
            });
            assert!(asked.is_ok(), "{schema}: {asked:?}");
        }
    }

    fn question() -> HumanQuestion {
        HumanQuestion {
            text: "how many?".into(),
            schema: None,
            choices: Vec::new(),
            expires_s: None,
            default: None,
        }
    }

    fn asked(question: &HumanQuestion) -> Result<HumanRequest, String> {
        let request = question
            .check()
            .and_then(|()| question.to_request(RequestId::from("ask-0-0-0-0"), 1_000));
        request.map_err(|why| why.to_string())
    }

    fn of(schema: &str, choices: &[&str]) -> HumanRequest {
        let schema = (!schema.is_empty()).then(|| schema.into());
        asked(&HumanQuestion {
            schema,
            choices: choices.iter().map(|c| (*c).into()).collect(),
            ..question()
        })
        .unwrap()
    }

    #[test]
    fn the_part_of_an_answer_that_is_not_valid_is_named() {
        let check = |text: &str, expected: &str| {
            let schema = r#"{"type":"object","properties":{"a/b":{"items":{"maximum":9}},"n":{"type":"integer"}}}"#;
            let why = parse_answer(&of(schema, &[]), text).unwrap_err();
            assert_eq!(why.pointer(), expected, "{text}: {why}");
        };
        check("[]", "");
        check("{broken", "");
        check(r#"{"n":"many"}"#, "/n");
        check(r#"{"a/b":[1,10]}"#, "/a~1b/1");
    }

    #[test]
    fn an_answer_is_json_or_a_text_where_a_text_fits() {
        let check =
            |schema: &str, choices: &[&str], text: &str, expected: Result<&str, &str>| match (
                parse_answer(&of(schema, choices), text),
                expected,
            ) {
                (Ok(value), Ok(expected)) => assert_eq!(value.as_str(), expected, "{text}"),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            };
        let (integer, text) = (r#"{"type":"integer"}"#, r#"{"type":"string"}"#);
        check(integer, &[], "42", Ok("42"));
        check(integer, &[], " 42\n", Ok("42"));
        check(integer, &[], "\"many\"", Err("does not follow the schema"));
        check(integer, &[], "many", Err("does not follow the schema"));
        check(
            integer,
            &[],
            "{broken",
            Err("`{broken` is not a JSON document"),
        );
        check(text, &[], "\"yes\"", Ok("\"yes\""));
        check(text, &[], "yes, do it", Ok("\"yes, do it\""));
        check(text, &[], "42", Ok("\"42\""));
        check(text, &[], "\"open", Err("not a JSON document"));
        check("", &[], "yes, do it", Ok("\"yes, do it\""));
        check("", &[], "true", Ok("true"));
        check("", &[], "{broken", Err("not a JSON document"));
        check("", &[], "  ", Err("empty"));
        check("", &["yes", "1"], "yes", Ok("\"yes\""));
        check("", &["yes", "1"], "\"yes\"", Ok("\"yes\""));
        check("", &["yes", "1"], "1", Ok("\"1\""));
        check(
            "",
            &["yes", "1"],
            "maybe",
            Err("none of the choices `yes`, `1`"),
        );
        check(
            r#"{"type":"object","required":["approved"]}"#,
            &[],
            r#"{"approved": true}"#,
            Ok(r#"{"approved":true}"#),
        );
        check(
            r#"{"type":"object","required":["approved"]}"#,
            &[],
            "{}",
            Err("required"),
        );
        check("", &[], &"x".repeat(MAX_ANSWER_BYTES + 1), Err("at most"));
    }

    fn check_refused(question: HumanQuestion, part: &str) {
        let why = asked(&question).unwrap_err();
        assert!(why.contains(part), "{why}");
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn what_is_no_question_is_not_asked() {
        check_refused(
            HumanQuestion {
                text: "x".repeat(MAX_QUESTION_BYTES + 1),
                ..question()
            },
            "at most 65536 are asked",
        );
        check_refused(
            HumanQuestion {
                choices: vec!["x".into(); MAX_CHOICES + 1],
                ..question()
            },
            "at most 100 are shown",
        );
        check_refused(
            HumanQuestion {
                schema: some("{"),
                ..question()
            },
            "the schema is not a JSON document",
        );
        check_refused(
            HumanQuestion {
                schema: some(r#"{"type":"sand"}"#),
                ..question()
            },
            "its schema cannot be used",
        );
        check_refused(
            HumanQuestion {
                default: some("nine"),
                ..question()
            },
            "the default is not a JSON document",
        );
        let (schema, default) = (some(r#"{"type":"integer"}"#), some("\"nine\""));
        check_refused(
            HumanQuestion {
                schema,
                default,
                ..question()
            },
            "the default is not a valid answer",
        );
    }

    #[test]
    fn what_nobody_could_answer_is_not_asked() {
        for schema in IMPOSSIBLE {
            check_refused(
                HumanQuestion {
                    schema: some(schema),
                    ..question()
                },
                "no value follows its schema",
            );
        }
        let (choices, schema) = (vec!["a".into(), "b".into()], some(r#"{"type":"integer"}"#));
        check_refused(
            HumanQuestion {
                choices,
                schema,
                ..question()
            },
            "none of its choices follows its schema",
        );
        let many: Vec<String> = (0..500)
            .map(|n| format!(r#"{{"pattern":"\\p{{L}}{{150}}{n}"}}"#))
            .collect();
        let schema = Some(format!(r#"{{"anyOf":[{}]}}"#, many.join(",")));
        check_refused(
            HumanQuestion {
                schema,
                ..question()
            },
            "its schema cannot be used: it has more than 64 patterns",
        );
        let back = some(r#"{"items":{"pattern":"^(?=(a|a)*$)(a|a)*(?!c)b$"}}"#);
        check_refused(
            HumanQuestion {
                schema: back,
                default: some("[\"aaaa\"]"),
                ..question()
            },
            "looks around or back",
        );
        check_refused(
            HumanQuestion {
                choices: vec!["a".into()],
                default: some("\"b\""),
                ..question()
            },
            "the default is not a valid answer",
        );
    }

    #[test]
    fn the_time_for_an_answer_counts_from_the_asking_and_the_digest_does_not() {
        let timed = HumanQuestion {
            expires_s: Some(u32::MAX),
            default: Some(" 9".into()),
            ..question()
        };
        let request = asked(&timed).unwrap();
        assert_eq!(request.expires_ms, Some(1_000 + i64::from(u32::MAX) * 1000));
        assert!(!request.is_expired(1_000) && request.is_expired(i64::MAX));
        assert_eq!(
            timed
                .to_request(request.id.clone(), 5_000)
                .unwrap()
                .call_digest(),
            request.call_digest()
        );
        assert_eq!(question().digest(), timed.digest());
    }

    #[test]
    fn an_answer_that_says_two_things_is_refused() {
        let open = of("", &[]);
        let why = parse_answer(&open, r#"{"approve":false,"approve":true}"#).unwrap_err();
        let expected = "ambiguous: it gives the key `approve` twice";
        assert!(why.to_string().ends_with(expected), "{why}");
    }

    #[test]
    fn arguments_that_a_person_changes_follow_the_schema_of_the_tool_itself() {
        let check = |schema: &str, arguments: &str, expected: &str| {
            let request = HumanRequest {
                proposed: Some(ProposedCall {
                    tool: "refund".into(),
                    arguments: Json::null(),
                    input_schema: Json::parse(schema).ok(),
                }),
                ..of("", &[])
            };
            let answer = format!(r#"{{"approve":true,"arguments":{arguments}}}"#);
            let why = parse_answer(&request, &answer)
                .map_or_else(|why| why.to_string(), |_| String::new());
            assert!(
                why.contains(expected) && why.is_empty() == expected.is_empty(),
                "{schema} {arguments}: {why}"
            );
        };
        let named = r##"{"$id":"https://example.com/refund.json","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}"##;
        let anchored = r##"{"properties":{"a":{"$ref":"#n"}},"$defs":{"n":{"$anchor":"n","type":"integer"}}}"##;
        let recursive = r##"{"properties":{"a":{"type":"integer"},"next":{"$ref":"#"}}}"##;
        let constant = r##"{"properties":{"a":{"type":"integer"},"b":{"const":{"$ref":"#/x"}}}}"##;
        for schema in [named, anchored, recursive, constant] {
            check(schema, r#"{"a":2}"#, "");
            check(
                schema,
                r#"{"a":"two"}"#,
                "do not follow the schema of `refund`: \"two\" is not of type",
            );
        }
        check(recursive, r#"{"next":{"a":"two"}}"#, "/next/a");
        check(constant, r##"{"b":{"$ref":"#/x"}}"##, "");
        check(
            r#"{"properties":{"a":{"pattern":"^(?=x)"}}}"#,
            r#"{"a":"x"}"#,
            "",
        );
    }
}

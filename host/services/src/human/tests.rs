//! Tests of questions and answers.

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
    let check = |schema: &str, choices: &[&str], text: &str, expected: Result<&str, &str>| match (
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
        let why =
            parse_answer(&request, &answer).map_or_else(|why| why.to_string(), |_| String::new());
        assert!(
            why.contains(expected) && why.is_empty() == expected.is_empty(),
            "{schema} {arguments}: {why}"
        );
    };
    let named = r##"{"$id":"https://example.com/refund.json","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}"##;
    let anchored =
        r##"{"properties":{"a":{"$ref":"#n"}},"$defs":{"n":{"$anchor":"n","type":"integer"}}}"##;
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

//! Tests of conditions: what they accept, what they cost, and how they fail.

mod conformance;

use strata_core::record::id::MessageId;
use strata_core::record::json::Json;
use strata_core::record::message::Instruct;

use super::*;

fn message(data: &str) -> Message {
    let instruct = (data != "absent").then(|| Instruct::untyped(Json::parse(data).unwrap()));
    Message {
        id: MessageId::from("m1"),
        content: "Yes, sir".into(),
        instruct,
        parts: Vec::new(),
        role: "A(tester)".into(),
        cause_by: "Polish".into(),
        sent_from: "A".into(),
        send_to: Vec::new(),
        meta: [("k".to_owned(), Json::parse("[1,2]").unwrap())].into(),
        route: Vec::new(),
    }
}

#[test]
fn a_condition_judges_what_is_there() {
    let check = |source: &str, data: &str, expected: bool| {
        let condition = compile(source).unwrap();
        let found = condition.evaluate(&message(data), &mut WorkBudget::default());
        assert_eq!(found, Ok(expected), "{source} on {data}");
    };
    check("data.approved == true", r#"{"approved":true}"#, true);
    check("data.approved == true", r#"{"approved":false}"#, false);
    check("cause_by == 'Polish' && sent_from != \"B\"", "absent", true);
    check("data.n == 1", r#"{"n":1.0}"#, true);
    check("data.n * 2 >= 6", r#"{"n":3}"#, true);
    check("data.n < 1.5", r#"{"n":1}"#, true);
    check("data.n < 0", r#"{"n":-1}"#, true);
    check(
        "data.n > 9223372036854775807u",
        r#"{"n":18446744073709551615}"#,
        true,
    );
    check("'a' in data.l", r#"{"l":["a"]}"#, true);
    check("data.l.exists(x, x == 'b')", r#"{"l":["a"]}"#, false);
    check("content.startsWith('Yes') || false", "absent", true);
    check("content.matches('(?i)yes')", "absent", true);
    check("size(content) == 8", "absent", true);
    check("2 in meta_info.k", "absent", true);
    check("string(data) == 'x' || data == null", "absent", true);
    check("data == 'x'", r#""x""#, true);
    check(".content == 'Yes, sir'", "absent", true);
    check(
        "[1, 2].all(x, [1, 2].exists(y, x + y == 3))",
        "absent",
        true,
    );
    check(
        "[2].all(data, data == 2 && .data.n == 1)",
        r#"{"n":1}"#,
        true,
    );
    check("data.exists(k, data[k] == 3)", r#"{"a":2,"b":3}"#, true);
}

#[test]
fn what_is_missing_is_an_error_unless_it_does_not_matter() {
    let check = |source: &str, data: &str, expected: bool| {
        let condition = compile(source).unwrap();
        let found = condition.evaluate(&message(data), &mut WorkBudget::default());
        assert_eq!(found, Ok(expected), "{source} on {data}");
    };
    let fails = |source: &str, data: &str| {
        let condition = compile(source).unwrap();
        let found = condition.evaluate(&message(data), &mut WorkBudget::default());
        let reason = found.unwrap_err();
        assert!(
            reason.contains("does not have"),
            "{source} on {data}: {reason}"
        );
    };
    for data in ["absent", "null", "{}", "3", r#"{"x":null}"#, r#"{"x":3}"#] {
        fails("data.x.y == 1", data);
        fails("!(data.x.y == 1)", data);
        check("data.x.y == 1 || true", data, true);
        fails("data.l[5] == 1", data);
    }
    fails("data.n > 3", r#"{"n":null}"#);
    check("has(data.x)", "absent", false);
    check("!has(data.x)", "absent", true);
    check("data == null", "absent", true);
    check("data == null", "{}", false);
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let check = |source: &str, data: &str| {
        let condition = compile(source).unwrap();
        let found = condition.evaluate(&message(data), &mut WorkBudget::default());
        assert!(found.is_err(), "{source} on {data}: {found:?}");
    };
    check("data.n > 3", r#"{"n":"x"}"#);
    check("data.n / 0 == 1", r#"{"n":1}"#);
    check("data.n * 9223372036854775807 > 1", r#"{"n":3}"#);
    check("int(content) == 3", "absent");
    check("data.n", r#"{"n":1}"#);
}

#[test]
fn a_bad_condition_is_refused_with_its_reason() {
    let check = |source: &str, reason: &str| {
        let refusal = compile(source).unwrap_err();
        assert!(refusal.reason.contains(reason), "{source}: {refusal:?}");
    };
    check("", "ends too early");
    check("data.x ===", "`=` is unexpected");
    check("content == 'x", "is unexpected");
    check("contents == 'x'", "there is no `contents`");
    check("lower(content) == 'x'", "there is no function `lower`");
    check("content", "a string");
    check("size(content) + 1", "an int");
    check("Foo{x: 1} == 1", "makes a `Foo`");
    check("contains(content, 'x')", "`contains` is not called");
    check("content.contains()", "`contains` is not called");
    check("content.startsWith('a', 'b')", "`startsWith` is not called");
    check("content.string() == 'x'", "`string` is not called");
    check("int(1, 2) == 1", "`int` is not called");
    check("content.size(1) == 1", "`size` is not called");
    check("'x' in content", "content is a text");
    check("'x' in 'xy'", "is a text");
    check("content.matches('(')", "pattern is wrong");
    check("content.matches(cause_by)", "needs a pattern");
    check("content == b'x'", "contains bytes");
    check("x == 1 && [1].all(x, x == 1)", "there is no `x`");
    check(&"(".repeat(300), "nested too deeply");
    check(
        &format!("content == '{}'", "x".repeat(1000)),
        "more than 1000",
    );
}

#[test]
fn what_other_languages_write_is_told_as_it_is_written_here() {
    let check = |source: &str, hint: &str| {
        let refusal = compile(source).unwrap_err();
        assert!(refusal.hint.contains(hint), "{source}: {refusal:?}");
    };
    check("cause_by = 'x'", "`==`");
    check("cause_by is 'x'", "`==`");
    check("content == 'a' and cause_by == 'b'", "`&&`");
    check("content == 'a' or cause_by == 'b'", "`||`");
    check("not true", "`!`");
    check("len(content) > 3", "`size(…)`");
    check("content.length() > 3", "`size(…)`");
    check("message.content == 'a'", "named by itself");
    check("content == 'x", "for example");
}

#[test]
fn long_chains_and_the_deepest_brackets_fit_on_the_stack_of_a_thread() {
    let deep = format!("{}content == 'a'{}", "(".repeat(16), ")".repeat(16));
    let chain = vec!["content != 'a'"; 55].join(" && ");
    let either = vec!["content == 'a'"; 55].join(" || ");
    let sum = format!("{}1 > 0", "1 + ".repeat(240));
    let not = format!("{}(content == 'a')", "!".repeat(900));
    let minus = format!("0 < {}1", "-".repeat(900));
    let choice = format!("{}true", "content == 'a' ? true : ".repeat(40));
    for source in [deep, chain, either, sum, not, minus, choice] {
        // Refused or not: it must come back.
        let _ = compile(&source);
    }
}

#[test]
fn a_macro_that_looks_at_much_for_each_of_many_items_is_not_evaluated() {
    let check = |source: &str, items: usize, content: usize, expected: bool| {
        let items = vec!["1"; items].join(",");
        let message = Message {
            content: "x".repeat(content),
            ..message(&format!("{{\"l\":[{items}]}}"))
        };
        let judged = compile(source)
            .unwrap()
            .evaluate(&message, &mut WorkBudget::default());
        assert_eq!(judged.is_ok(), expected, "{source}: {judged:?}");
    };
    let (much, many) = (1 << 22, 1 << 12);
    check(
        "data.l.exists(x, content.contains('zz'))",
        many,
        much,
        false,
    );
    check(
        "size(data.l.map(x, content + content)) > 0",
        many,
        much,
        false,
    );
    // Each comparison costs as much as the lists are long.
    check("data.l.exists(x, data.l != data.l)", 1 << 12, 0, false);
    check("data.l.all(x, data.l.all(y, x == y))", 1 << 12, 0, false);
    // So does each comparison of keys, although the condition fails for each item.
    check(
        "data.l.all(x, {content: 1, content: 2} == {})",
        many,
        much,
        false,
    );
    // Lists of different lengths are not compared.
    check("data.l.exists(x, data.l == [x])", 1 << 15, 0, true);
    // Each item by itself costs as much as the list is long.
    check(
        "data.l.exists(x, x == 2) && content.startsWith('x')",
        many,
        much,
        true,
    );
    check("data.l.all(x, data.l[0] == x)", many, much, true);
    check("data.l.exists(x, content.startsWith('x'))", 10, much, true);
    check(
        "['z', 'y'].exists(word, content.contains(word))",
        many,
        much,
        true,
    );
}

#[test]
fn comparing_the_keys_of_a_map_counts_as_well() {
    let items = vec!["1"; 1 << 12].join(",");
    let message = Message {
        content: "x".repeat(1 << 22),
        ..message(&format!("{{\"l\":[{items}]}}"))
    };
    for source in [
        "data.l.all(x, {content: 1, content: 2} == {})",
        "data.l.all(x, content in {content: 1})",
    ] {
        let judged = compile(source)
            .unwrap()
            .evaluate(&message, &mut WorkBudget::default());
        let reason = judged.unwrap_err();
        assert!(reason.contains("takes too long"), "{source}: {reason}");
    }
}

#[test]
fn a_pattern_in_a_macro_is_compiled_once_and_long_lists_are_refused() {
    let check = |source: &str, tags: usize, expected: Result<bool, &str>| {
        let tags = vec!["\"tag\""; tags].join(",");
        let begin = std::time::Instant::now();
        let judged = compile(source).unwrap().evaluate(
            &message(&format!("{{\"tags\":[{tags}]}}")),
            &mut WorkBudget::default(),
        );
        match (&judged, expected) {
            (Ok(holds), Ok(expected)) => assert_eq!(*holds, expected, "{source}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{source}: {why}"),
            _ => panic!("{source}: {judged:?}"),
        }
        assert!(
            begin.elapsed().as_secs() < 20,
            "{source}: {:?}",
            begin.elapsed()
        );
    };
    for pattern in ["[a-z0-9-]{1,64}", "\\\\w{1,64}"] {
        check(
            &format!("data.tags.all(t, t.matches('^{pattern}$'))"),
            2_000,
            Ok(true),
        );
        check(
            &format!("data.tags.all(t, t.matches('^{pattern}$'))"),
            1_000_000,
            Err("takes too long"),
        );
        check(
            &format!("data.tags.exists(t, matches(t, '^{pattern}$'))"),
            2_000,
            Ok(true),
        );
    }
    check(
        "data.tags.exists(t, t == 'no')",
        1_000_000,
        Err("takes too long"),
    );
    check("data.tags.exists(t, t == 'no')", 10_000, Ok(false));
}

/// A budget of which little is left, so that a test has little to do.
fn nearly_spent() -> WorkBudget {
    let mut budget = WorkBudget::default();
    budget.spend(WorkBudget::PER_SENDER / 16 * 15).unwrap();
    budget
}

#[test]
fn all_that_a_sender_publishes_shares_one_budget() {
    let condition = compile(r"data.tags.all(t, t.matches('^\\w{1,64}$'))").unwrap();
    let message = message(&format!(
        "{{\"tags\":[{}]}}",
        vec!["\"tag\""; 2_000].join(",")
    ));
    let mut budget = nearly_spent();
    let judged: Vec<_> = (0..1_000)
        .map(|_| condition.evaluate(&message, &mut budget))
        .collect();
    assert_eq!(judged[..5], vec![Ok(true); 5]);
    for judged in &judged[20..] {
        assert!(
            judged
                .as_ref()
                .is_err_and(|why| why.contains("takes too long beside")),
            "{judged:?}"
        );
    }
    // The next sender, or step, has a budget of its own.
    assert_eq!(
        condition.evaluate(&message, &mut WorkBudget::default()),
        Ok(true)
    );
}

#[test]
fn what_is_read_and_looked_at_without_a_macro_counts_as_well() {
    let check = |source: &str, message: &Message, most: usize| {
        let condition = compile(source).unwrap();
        let mut budget = nearly_spent();
        let judged = (0..=most)
            .take_while(|_| condition.evaluate(message, &mut budget).is_ok())
            .count();
        assert!((1..=most).contains(&judged), "{source}: {judged}");
    };
    let long = Message {
        content: "x".repeat(4 << 20),
        ..message("null")
    };
    check("content.contains('zz')", &long, 16);
    check("content.contains('z') || content.contains('y')", &long, 8);
    check(
        "cause_by == data",
        &message(&format!("\"{}\"", "0".repeat(1 << 20))),
        4,
    );
    // An object or an array takes as long as many bytes, however few it has.
    for container in ["{}", "[]"] {
        let containers = format!("[{}]", vec![container; 1 << 16].join(","));
        check("cause_by == data", &message(&containers), 1);
    }
    check("cause_by == 'x'", &long, 1 << 12);
}

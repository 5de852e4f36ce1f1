//! Property tests: no text makes the parser of team files or conditions panic.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use strata_core::record::json::Json;
use strata_core::record::message::{Instruct, Message};
use strata_core::team::condition::WorkBudget;
use strata_manifest::Definition;

use crate::folder;

/// Fragments of team files, to be inserted in wrong places.
const BITS: &[&str] = &[
    "",
    "\n",
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[role]]",
    "[[role.action]]",
    "[env.groups]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "-1",
    "nan",
    "0xffffffffffffffff",
    "1979-05-27",
    "true",
    "é",
    "\u{feff}",
    "\0",
    "\u{1b}[31m",
    "\u{202e}",
    "when = \"",
    "case = [",
    "name = \"A\"\n",
    "<all>",
    "to",
    "from = ",
    "react = \"react\"\n",
    "64MiB",
    "((((",
];

/// Tokens of conditions.
const WORDS: &[&str] = &[
    "data",
    "data.x",
    "data.x[3].y",
    "content",
    "cause_by",
    "meta_info",
    ".x",
    "[0]",
    "[-1]",
    "== 1",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "in",
    "?",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "'a'",
    "b'a'",
    "r'\\'",
    "1",
    "-1",
    "2u",
    "1.5",
    "1e999",
    "9223372036854775807",
    "0x10",
    "null",
    "true",
    "+",
    "-",
    "*",
    "/ 0",
    "% 0",
    "size(data)",
    "int(content)",
    "has(data.x)",
    ".matches('a*')",
    ".contains('a')",
    ".exists(i, i == 1)",
    ".map(i, i)",
    ".all(i, true)",
    "@in",
];

fn message(data: &str) -> Message {
    Message {
        id: "m".into(),
        content: "text".into(),
        instruct: Some(Instruct::untyped(Json::parse(data).unwrap())),
        parts: Vec::new(),
        role: String::new(),
        cause_by: "p".into(),
        sent_from: "A".into(),
        send_to: Vec::new(),
        meta: BTreeMap::new(),
        route: Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_the_reader_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, prop::sample::select(BITS)), 1..6),
        file in prop::sample::select(&["good/whole.toml", "bad/joins.toml"][..]),
    ) {
        let mut text: Vec<char> = fs::read_to_string(folder(file)).unwrap().chars().collect();
        for (at, cut, bit) in edits {
            let at = at.index(text.len() + 1);
            let end = text.len().min(at + cut);
            text.splice(at..end, bit.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = Definition::parse(&text, "team.toml", &folder("good")) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_condition_makes_the_host_panic(words in prop::collection::vec(prop::sample::select(WORDS), 1..12)) {
        let text = fs::read_to_string(folder("good/smallest.toml")).unwrap();
        let condition = words.join(" ");
        let route = format!("[[route]]\nfrom = \"A\"\nto = [\"A\"]\nwhen = \"\"\"{condition}\"\"\"\n");
        let Ok(definition) = Definition::parse(&(text + &route), "team.toml", &folder("good")) else {
            return Ok(());
        };
        let condition = definition.team.routes[0].arms[0].when.as_ref().unwrap();
        for data in ["null", "{}", r#"{"x":[1,"a",null,{"y":2.5}]}"#, "-1", "[[]]"] {
            // The result may be anything, but evaluating must not panic.
            let _ = condition.evaluate(&message(data), &mut WorkBudget::default());
        }
    }
}

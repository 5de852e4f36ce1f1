//! Conditions on messages (`when`), written in CEL. They are parsed and checked once, and evaluated
//! for each message.
//!
//! The work of conditions is bounded, because the host does not go on before they are evaluated. All of it
//! (parsing message data, each step of the evaluator, the bytes that it reads and builds, matching patterns)
//! is charged to one budget, which covers everything that a sender publishes in one commit. Patterns are
//! compiled once. The parser is a library's; the evaluator is our own, because the bound has to be inside it.

mod check;
mod evaluator;
mod pattern;
mod tree;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::Program;
use strata_core::record::json::Json;
use strata_core::record::message::Message;
use strata_core::team::condition::{Condition, WorkBudget};

use self::evaluator::EvaluationError;
use self::tree::{Tree, Variable};
use self::value::Value;

/// The longest condition, in characters. What needs a longer one belongs into an action.
const MAX_CHARS: usize = 1000;

/// The fixed cost of an evaluation.
const EVALUATION_COST: u64 = 4096;
/// The cost of parsing a byte of `data` or `meta_info`.
const PARSED_BYTE_COST: u64 = 4;
/// The cost of an object or an array in `data` or `meta_info`. Creating one takes more time than its bytes pay for.
const CONTAINER_COST: u64 = 128;

/// The size of the stack on which conditions are parsed, in bytes. The parser recurses, and for the longest
/// condition deeper than the stack of a thread allows in a build without optimisation; an overflow of the
/// stack cannot be caught. Only the pages that are used are mapped.
const STACK_BYTES: usize = 64 << 20;

/// The end of each message that says that the budget is exhausted.
const BUDGET_EXHAUSTED: &str = "takes too long beside what its sender has published in this step";

/// Why a condition cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConditionError {
    /// The reason, as the end of a sentence about the condition.
    pub(super) reason: String,
    /// How to correct it.
    pub(super) hint: String,
    /// The index of the character at which parsing fails.
    pub(super) char_index: Option<usize>,
}

impl ConditionError {
    fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: hint.into(),
            char_index: None,
        }
    }
}

/// Compiles a condition.
pub(super) fn compile(source: &str) -> Result<Condition, ConditionError> {
    if source.chars().count() > MAX_CHARS {
        let reason = format!("it has more than {MAX_CHARS} characters");
        return Err(ConditionError::new(reason, "decide in an action instead"));
    }
    let tree = catch_panic(|| match Program::compile(source) {
        Ok(program) => check::check_expression(program.expression()),
        Err(errors) => Err(check::explain_parse_error(&errors, source)),
    })??;
    // Evaluating the condition on an empty message finds some type errors before the run.
    let outcome = evaluate(
        &tree,
        &MessageVariables::default(),
        &mut WorkBudget::default(),
    );
    if let Ok(Judgement::NotBoolean(found)) = outcome {
        let hint = "compare it with something: `== …`";
        return Err(ConditionError::new(not_boolean_message(found), hint));
    }
    let judge =
        move |message: &Message, budget: &mut WorkBudget| evaluate_message(&tree, message, budget);
    Ok(Condition::new(source.to_owned(), Box::new(judge)))
}

/// Returns the message for a condition whose value is not a boolean.
fn not_boolean_message(found: &str) -> String {
    let article = if found.starts_with(['a', 'e', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("it gives {article} {found}, not true or false")
}

/// The values of the variables. Those that a condition does not read are empty.
#[derive(Default)]
struct MessageVariables<'a> {
    content: &'a str,
    data: serde_json::Value,
    cause_by: &'a str,
    sent_from: &'a str,
    meta_info: serde_json::Value,
}

/// Evaluates a condition on a message. Fails if it refers to something that the message does not have,
/// or compares values that cannot be compared.
fn evaluate_message(
    tree: &Tree,
    message: &Message,
    budget: &mut WorkBudget,
) -> Result<bool, String> {
    let mut variables = read_variables(tree, message, budget)?;
    let mut outcome = evaluate(tree, &variables, budget);
    if matches!(outcome, Err(EvaluationError::Missing(_))) && variables.data.is_null() {
        // Absent data has no fields, so `!has(data.x)` holds. `data == null` does not come here,
        // because it does not fail.
        variables.data = serde_json::json!({});
        outcome = evaluate(tree, &variables, budget);
    }
    match outcome {
        Ok(Judgement::Holds(holds)) => Ok(holds),
        Ok(Judgement::NotBoolean(found)) => Err(not_boolean_message(found)),
        Err(EvaluationError::Missing(what)) => Err(format!(
            "it refers to something that the message does not have: {what}"
        )),
        Err(EvaluationError::Invalid(reason)) => Err(reason),
        Err(EvaluationError::Exhausted) => Err(format!("evaluating it {BUDGET_EXHAUSTED}")),
    }
}

/// The value of a condition.
enum Judgement {
    Holds(bool),
    /// It is not a boolean. Contains the name of its type.
    NotBoolean(&'static str),
}

fn evaluate(
    tree: &Tree,
    variables: &MessageVariables<'_>,
    budget: &mut WorkBudget,
) -> Result<Judgement, EvaluationError> {
    budget
        .spend(EVALUATION_COST)
        .ok_or(EvaluationError::Exhausted)?;
    Ok(match evaluator::evaluate(tree, variables, budget)? {
        Value::Bool(holds) => Judgement::Holds(holds),
        other => Judgement::NotBoolean(other.type_name()),
    })
}

/// Reads the parts of a message that a condition refers to. Data is parsed only after the budget
/// has been charged for it.
fn read_variables<'a>(
    tree: &Tree,
    message: &'a Message,
    budget: &mut WorkBudget,
) -> Result<MessageVariables<'a>, String> {
    let uses = |variable| tree.variables.contains(&variable);
    let data = message
        .instruct
        .as_ref()
        .map(|data| &data.value)
        .filter(|_| uses(Variable::Data));
    let meta = message.meta.iter().filter(|_| uses(Variable::MetaInfo));
    let keys: usize = meta.clone().map(|(key, _)| key.len()).sum();
    let documents = data.into_iter().chain(meta.clone().map(|(_, value)| value));
    let (mut bytes, mut containers) = (keys, 0);
    for document in documents {
        let text = document.as_str();
        bytes += text.len();
        // A bracket in a text counts as well: to tell the two apart takes parsing.
        let opening = text.bytes().filter(|byte| matches!(byte, b'{' | b'['));
        containers += opening.count();
    }
    let cost = PARSED_BYTE_COST
        .saturating_mul(bytes as u64)
        .saturating_add(CONTAINER_COST.saturating_mul(containers as u64));
    budget.spend(cost).ok_or_else(|| {
        format!(
            "reading {bytes} bytes of `data` and `meta_info`, with {containers} objects and arrays, {BUDGET_EXHAUSTED}"
        )
    })?;
    Ok(MessageVariables {
        content: &message.content,
        data: data.map(Json::value).unwrap_or_default(),
        cause_by: &message.cause_by,
        sent_from: &message.sent_from,
        meta_info: meta
            .map(|(key, value)| (key.clone(), value.value()))
            .collect(),
    })
}

/// Runs `parse` on a large stack and catches panics. A condition is untrusted data, and a panic in
/// the parser must not end the host.
fn catch_panic<T>(parse: impl FnOnce() -> T) -> Result<T, ConditionError> {
    catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK_BYTES, parse)))
        .map_err(|_| ConditionError::new("it cannot be parsed", "write it differently"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;

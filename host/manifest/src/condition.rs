//! Conditions on messages (`when`), written in CEL. They are parsed and checked once, and evaluated
//! for each message.
//!
//! The cost of conditions is bounded, because the host does not go on before they are evaluated.
//! The only loops of CEL are macros over lists, which may not be nested here, and the length of the
//! text is limited. All work (parsing message data, the steps of macros and the data that they
//! read, matching patterns) is charged to one budget, which covers everything that a sender
//! publishes in one commit. Patterns are compiled once.

mod check;
mod pattern;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use cel::extractors::This;
use cel::objects::Key;
use cel::{Context, Env, ExecutionError, Program, Value};
use strata_core::record::json::Json;
use strata_core::record::message::Message;
use strata_core::team::condition::{Condition, WorkBudget};

use check::ConditionReferences;
use pattern::PatternMatcher;

/// The longest condition, in characters. What needs a longer one belongs into an action.
const MAX_CHARS: usize = 1000;

/// The fixed cost of an evaluation.
const EVALUATION_COST: u64 = 4096;
/// The cost of parsing a byte of `data` or `meta_info`.
const PARSED_BYTE_COST: u64 = 4;
/// The cost of a table (a JSON object) in `data` or `meta_info`. Creating one takes nearly a microsecond, however few bytes
/// it has.
const TABLE_COST: u64 = 128;
/// The cost of evaluating one part of a condition for one item of a macro's list, about 0.1 µs.
const STEP_COST: u64 = 64;
/// How many bytes can be read or copied at a cost of 1.
const BYTES_PER_COST: u64 = 4;

/// The size of the stack on which conditions are parsed and evaluated, in bytes. Both recurse, and
/// for the longest condition deeper than the stack of a thread allows in a build without
/// optimisation; an overflow of the stack cannot be caught. Only the pages that are used are
/// mapped.
const STACK_BYTES: usize = 64 << 20;

/// The end of each message that says that the budget is exhausted.
const BUDGET_EXHAUSTED: &str =
    "which takes too long beside what its sender has published in this step";

/// The variables of a condition: the parts of a message that it can read.
const VARIABLES: [&str; 5] = ["content", "data", "cause_by", "sent_from", "meta_info"];

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
    let program = catch_panic(|| Program::compile(source))
        .map_err(|reason| ConditionError::new(reason, "write it differently"))?
        .map_err(|errors| check::explain_parse_error(&errors, source))?;
    let parts = catch_panic(|| check::check_expression(program.expression()))
        .map_err(|reason| ConditionError::new(reason, "write it differently"))??;
    let checked = CheckedProgram { program, parts };
    // Evaluating the condition on an empty message finds some type errors before the run.
    if let Ok(value) = evaluate(
        &checked,
        &MessageVariables::default(),
        &mut WorkBudget::default(),
    ) && !matches!(value, Value::Bool(_))
    {
        let reason = not_boolean_message(value.type_of());
        return Err(ConditionError::new(
            reason,
            "compare it with something: `== …`",
        ));
    }
    let judge = move |message: &Message, budget: &mut WorkBudget| {
        evaluate_message(&checked, message, budget)
    };
    Ok(Condition::new(source.to_owned(), Box::new(judge)))
}

/// A parsed condition, and what its evaluation depends on.
struct CheckedProgram {
    program: Program,
    parts: ConditionReferences,
}

/// Returns the message for a condition whose value is not a boolean.
fn not_boolean_message(found: impl std::fmt::Display) -> String {
    let found = found.to_string();
    let article = if found.starts_with(['a', 'e', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("it gives {article} {found}, not true or false")
}

/// The values of the variables.
#[derive(Default)]
struct MessageVariables {
    content: String,
    data: serde_json::Value,
    cause_by: String,
    sent_from: String,
    meta_info: serde_json::Value,
}

/// Evaluates a condition on a message. Fails if it refers to something that the message does not have,
/// or compares values that cannot be compared.
fn evaluate_message(
    checked: &CheckedProgram,
    message: &Message,
    budget: &mut WorkBudget,
) -> Result<bool, String> {
    let parts = &checked.parts;
    let mut subject = read_variables(parts, message, budget)?;
    charge(parts, &subject, budget)?;
    let mut outcome = evaluate(checked, &subject, budget);
    if outcome.as_ref().is_err_and(is_missing) && subject.data.is_null() {
        // Absent data has no fields, so `!has(data.x)` holds. `data == null` does not come here,
        // because it does not fail.
        subject.data = serde_json::json!({});
        charge(parts, &subject, budget)?;
        outcome = evaluate(checked, &subject, budget);
    }
    match outcome {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(not_boolean_message(other.type_of())),
        Err(error) if is_missing(&error) => Err(format!(
            "it refers to something that the message does not have: {error}"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the parts of a message that a condition refers to. Data is parsed only after the budget
/// has been charged for it.
fn read_variables(
    parts: &ConditionReferences,
    message: &Message,
    budget: &mut WorkBudget,
) -> Result<MessageVariables, String> {
    let uses = |name: &str| parts.named.contains_key(name);
    let data = message
        .instruct
        .as_ref()
        .map(|data| &data.value)
        .filter(|_| uses("data"));
    let meta = message.meta.iter().filter(|_| uses("meta_info"));
    let keys: usize = meta.clone().map(|(key, _)| key.len()).sum();
    let documents = data.into_iter().chain(meta.clone().map(|(_, value)| value));
    let (mut bytes, mut tables) = (keys, 0);
    for document in documents {
        let text = document.as_str();
        bytes += text.len();
        // A brace in a text counts as well: to tell the two apart takes parsing.
        tables += text.bytes().filter(|byte| *byte == b'{').count();
    }
    let cost = PARSED_BYTE_COST
        .saturating_mul(bytes as u64)
        .saturating_add(TABLE_COST.saturating_mul(tables as u64));
    let too_much = || {
        format!(
            "it reads {bytes} bytes of `data` and `meta_info`, with {tables} tables, {BUDGET_EXHAUSTED}"
        )
    };
    budget.spend(cost).ok_or_else(too_much)?;
    let text = |name: &str, text: &String| {
        if uses(name) {
            text.clone()
        } else {
            String::new()
        }
    };
    Ok(MessageVariables {
        content: text("content", &message.content),
        data: data.map(Json::value).unwrap_or_default(),
        cause_by: text("cause_by", &message.cause_by),
        sent_from: text("sent_from", &message.sent_from),
        meta_info: meta
            .map(|(key, value)| (key.clone(), value.value()))
            .collect(),
    })
}

/// Charges the budget for an evaluation, except for its patterns. Fails if the budget does not
/// suffice.
fn charge(
    parts: &ConditionReferences,
    subject: &MessageVariables,
    budget: &mut WorkBudget,
) -> Result<(), String> {
    let (data, meta) = (
        JsonExtent::measure(&subject.data),
        JsonExtent::measure(&subject.meta_info),
    );
    let bytes_of = |name: &str| match name {
        "content" => subject.content.len(),
        "data" => data.bytes,
        "meta_info" => meta.bytes,
        "cause_by" => subject.cause_by.len(),
        _ => subject.sent_from.len(),
    };
    let bytes = |names: &BTreeMap<&str, usize>| -> usize {
        names
            .iter()
            .map(|(name, times)| bytes_of(name).saturating_mul(*times))
            .sum()
    };
    let (once, each) = (bytes(&parts.named), bytes(&parts.named_per_item));
    budget
        .spend(EVALUATION_COST + once as u64 / BYTES_PER_COST)
        .ok_or_else(|| format!("it looks at {once} bytes, {BUDGET_EXHAUSTED}"))?;
    if parts.nodes_per_item == 0 {
        return Ok(());
    }
    let (items, looped) = (data.max_items.max(meta.max_items), parts.nodes_per_item);
    let steps = (items as u64)
        .saturating_mul(looped as u64)
        .saturating_mul(STEP_COST);
    budget.spend(steps).ok_or_else(|| {
        format!("it may take {looped} steps for each of {items} items, {BUDGET_EXHAUSTED}")
    })?;
    budget
        .spend((items as u64).saturating_mul(each as u64) / BYTES_PER_COST)
        .ok_or_else(|| {
            format!("it may go through {items} items and look at {each} bytes for each, {BUDGET_EXHAUSTED}")
        })
}

/// The size of a JSON value.
#[derive(Default)]
struct JsonExtent {
    /// The approximate size of everything in it, in bytes.
    bytes: usize,
    /// The length of its longest array or object.
    max_items: usize,
}

impl JsonExtent {
    fn measure(json: &serde_json::Value) -> Self {
        let mut extent = Self::default();
        let mut open = vec![json];
        while let Some(next) = open.pop() {
            extent.bytes += size_of::<Value>();
            match next {
                serde_json::Value::String(text) => extent.bytes += text.len(),
                serde_json::Value::Array(items) => {
                    extent.max_items = extent.max_items.max(items.len());
                    open.extend(items);
                }
                serde_json::Value::Object(entries) => {
                    extent.max_items = extent.max_items.max(entries.len());
                    extent.bytes += entries.keys().map(String::len).sum::<usize>();
                    open.extend(entries.values());
                }
                _ => {}
            }
        }
        extent
    }
}

/// Returns whether an evaluation failed because something is missing.
fn is_missing(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_) => true,
        // A field of a value without fields, or `null` where another value was expected.
        ExecutionError::NoSuchOverload(error) => {
            let types = error.argument_types();
            error.function() == "_._" || types.iter().any(|name| name == "null_type")
        }
        _ => false,
    }
}

fn evaluate(
    checked: &CheckedProgram,
    subject: &MessageVariables,
    budget: &mut WorkBudget,
) -> Result<Value, ExecutionError> {
    let CheckedProgram { program, parts } = checked;
    static LIBRARY: OnceLock<Arc<Env>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| Arc::new(Env::stdlib()));
    let mut context = Context::with_env(Arc::clone(library));
    let matching = Arc::new(PatternMatcher::with_budget(
        budget.remaining(),
        &parts.patterns,
    ));
    if !parts.patterns.is_empty() {
        let matching = Arc::clone(&matching);
        let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            matching.matches(&text, &pattern)
        };
        // Fails only if the library already has a function of this name.
        context
            .add_function("matches", matches)
            .map_err(|error| ExecutionError::InternalError(error.to_string()))?;
    }
    let used = program.references();
    let mut bind = |name: &str, value: &dyn Fn() -> Value| {
        let absolute = format!(".{name}");
        if used.has_variable(name) || used.has_variable(absolute) {
            context.add_variable_from_value(name, value());
        }
    };
    bind("content", &|| Value::from(subject.content.as_str()));
    bind("data", &|| to_cel(&subject.data));
    bind("cause_by", &|| Value::from(subject.cause_by.as_str()));
    bind("sent_from", &|| Value::from(subject.sent_from.as_str()));
    bind("meta_info", &|| to_cel(&subject.meta_info));
    let outcome = catch_panic(|| program.execute(&context));
    // The matcher never spends more than is left, so this cannot fail.
    let _ = budget.spend(matching.spent());
    outcome.unwrap_or_else(|reason| Err(ExecutionError::InternalError(reason)))
}

/// Runs `work` on a large stack and catches panics. A condition is untrusted data, and a panic in
/// the CEL library must not end the host.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK_BYTES, work)))
        .map_err(|_| "the condition cannot be evaluated".to_owned())
}

/// Converts JSON to CEL. Integers are signed if they fit, like the literals of CEL, so that the two
/// can be used in one expression.
fn to_cel(json: &serde_json::Value) -> Value {
    use serde_json::Value as J;
    match json {
        J::Null => Value::Null,
        J::Bool(flag) => Value::Bool(*flag),
        J::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(signed), _) => Value::Int(signed),
            (None, Some(unsigned)) => Value::UInt(unsigned),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        J::String(text) => Value::from(text.as_str()),
        J::Array(items) => Value::List(Arc::new(items.iter().map(to_cel).collect())),
        J::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(k, v)| (Key::from(k.as_str()), to_cel(v)));
            Value::from(entries.collect::<HashMap<_, _>>())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;

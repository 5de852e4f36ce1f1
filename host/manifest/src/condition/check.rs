//! Checks what a parsed condition refers to, determines what its evaluation costs, and explains
//! parse errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::ParseErrors;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use strata_base::text::suggest::suggest;

use super::pattern::Pattern;
use super::{ConditionError, VARIABLES};

/// A function that a condition may call.
struct ConditionFunction {
    name: &'static str,
    /// How many values it takes, including the one that it is called on.
    operands: usize,
    form: CallForm,
    /// How it is called.
    example: &'static str,
}

/// How a function is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallForm {
    /// On a value, as in `content.contains('x')`.
    Method,
    /// By itself, as in `int(data.n)`.
    Free,
    /// Either way.
    Any,
}

/// The functions that a condition may call; all others are rejected. Operators are always allowed.
const FUNCTIONS: [ConditionFunction; 10] = [
    function("size", 1, CallForm::Any, "size(data.items)"),
    function("contains", 2, CallForm::Method, "content.contains('x')"),
    function("startsWith", 2, CallForm::Method, "content.startsWith('x')"),
    function("endsWith", 2, CallForm::Method, "content.endsWith('x')"),
    function("matches", 2, CallForm::Any, "content.matches('x|y')"),
    function("int", 1, CallForm::Free, "int(data.n)"),
    function("uint", 1, CallForm::Free, "uint(data.n)"),
    function("double", 1, CallForm::Free, "double(data.n)"),
    function("string", 1, CallForm::Free, "string(data.n)"),
    function("bool", 1, CallForm::Free, "bool(content)"),
];

const fn function(
    name: &'static str,
    operands: usize,
    form: CallForm,
    example: &'static str,
) -> ConditionFunction {
    ConditionFunction {
        name,
        operands,
        form,
        example,
    }
}

/// The variables that are always texts.
const TEXTS: [&str; 3] = ["content", "cause_by", "sent_from"];

/// Words of other languages, with what to write instead.
const OTHER_LANGUAGES: [(&[&str], &str); 6] = [
    (&["=", "is"], "two values are compared with `==`"),
    (&["and"], "both hold: `&&`"),
    (&["or"], "one of them holds: `||`"),
    (&["not"], "the opposite: `!`"),
    (&["len", "length"], "lengths are `size(…)`"),
    (
        &["message", "msg"],
        "what a message has is named by itself: `content`, `data`, `cause_by`, `sent_from`, `meta_info`",
    ),
];

/// What a condition refers to, as far as it determines the cost of its evaluation.
#[derive(Default)]
pub(super) struct ConditionReferences {
    /// How often it names each variable.
    pub(super) named: BTreeMap<&'static str, usize>,
    /// How often it names each variable within a macro over a list of the message, where it is read
    /// once for each item.
    pub(super) named_per_item: BTreeMap<&'static str, usize>,
    /// How many nodes of the expression are evaluated for each item of such a list.
    pub(super) nodes_per_item: usize,
    /// The patterns that it matches, compiled, by their text.
    pub(super) patterns: Arc<BTreeMap<String, Pattern>>,
}

/// Checks what an expression refers to.
pub(super) fn check_expression(expr: &IdedExpr) -> Result<ConditionReferences, ConditionError> {
    let mut walk = ExpressionVisitor::default();
    walk.visit(expr)?;
    Ok(ConditionReferences {
        named: walk.named,
        named_per_item: walk.named_per_item,
        nodes_per_item: walk.nodes_per_item,
        patterns: Arc::new(walk.patterns),
    })
}

/// The state of a traversal of an expression.
#[derive(Default)]
struct ExpressionVisitor {
    /// The variables that the enclosing macro binds.
    bound: Vec<String>,
    named: BTreeMap<&'static str, usize>,
    named_per_item: BTreeMap<&'static str, usize>,
    nodes_per_item: usize,
    patterns: BTreeMap<String, Pattern>,
    /// Whether the enclosing macro iterates over a list of the message.
    loops_over_message: bool,
}

impl ExpressionVisitor {
    fn visit(&mut self, expr: &IdedExpr) -> Result<(), ConditionError> {
        if !self.bound.is_empty() && self.loops_over_message {
            self.nodes_per_item += 1;
        }
        match &expr.expr {
            Expr::Unspecified => Err(ConditionError::new(
                "it is incomplete",
                "write a comparison",
            )),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.visit_variable(name),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::List(list) => self.visit_all(&list.elements),
            Expr::Struct(object) => {
                let reason = format!("it makes a `{}`", object.type_name);
                Err(ConditionError::new(reason, "a condition only compares"))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            self.visit(&entry.key)?;
                            self.visit(&entry.value)?;
                        }
                        EntryExpr::StructField(field) => self.visit(&field.value)?,
                    }
                }
                Ok(())
            }
            Expr::Call(call) => {
                check_call(call)?;
                if call.func_name == "matches" {
                    let (text, pattern) = compile_pattern(call.args.last())?;
                    self.patterns.insert(text, pattern);
                }
                if let Some(target) = &call.target {
                    self.visit(target)?;
                }
                self.visit_all(&call.args)
            }
            Expr::Comprehension(list) => {
                self.visit(&list.iter_range)?;
                if !self.bound.is_empty() {
                    let hint = "decide in an action instead";
                    return Err(ConditionError::new("it nests macros over lists", hint));
                }
                // A list that is written in the condition has few items.
                self.loops_over_message = !matches!(list.iter_range.expr, Expr::List(_));
                self.bound.push(list.iter_var.clone());
                self.bound.extend(list.iter_var2.clone());
                self.bound.push(list.accu_var.clone());
                let parts = [
                    &list.accu_init,
                    &list.loop_cond,
                    &list.loop_step,
                    &list.result,
                ];
                let result = parts.into_iter().try_for_each(|part| self.visit(part));
                self.bound.clear();
                result
            }
        }
    }

    fn visit_all(&mut self, exprs: &[IdedExpr]) -> Result<(), ConditionError> {
        exprs.iter().try_for_each(|expr| self.visit(expr))
    }

    fn visit_variable(&mut self, name: &str) -> Result<(), ConditionError> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let variable = VARIABLES.into_iter().find(|variable| *variable == name);
        if let Some(variable) = variable {
            *self.named.entry(variable).or_default() += 1;
            if !self.bound.is_empty() && self.loops_over_message {
                *self.named_per_item.entry(variable).or_default() += 1;
            }
        }
        if variable.is_some() || self.bound.iter().any(|bound| bound == name) {
            return Ok(());
        }
        let hint = other_language_hint(name)
            .or_else(|| suggest(name, &VARIABLES))
            .unwrap_or_default();
        Err(ConditionError::new(format!("there is no `{name}`"), hint))
    }
}

/// Checks that a function exists and is called as it has to be.
fn check_call(call: &CallExpr) -> Result<(), ConditionError> {
    let name = call.func_name.as_str();
    if name == operators::IN {
        return check_membership(call.args.last());
    }
    // The internal names of operators do not begin with a letter, so they cannot be written in a
    // condition.
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(());
    }
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        let names = FUNCTIONS.map(|function| function.name);
        let hint = other_language_hint(name)
            .or_else(|| suggest(name, &names))
            .unwrap_or_default();
        let reason = format!("there is no function `{name}`");
        return Err(ConditionError::new(reason, hint));
    };
    let form = match call.target {
        Some(_) => CallForm::Method,
        None => CallForm::Free,
    };
    let operands = call.args.len() + usize::from(call.target.is_some());
    if operands == function.operands && (function.form == form || function.form == CallForm::Any) {
        return Ok(());
    }
    let hint = format!("write it as in `{}`", function.example);
    Err(ConditionError::new(
        format!("`{name}` is not called like this"),
        hint,
    ))
}

/// Checks what `in` searches.
fn check_membership(searched: Option<&IdedExpr>) -> Result<(), ConditionError> {
    let text = match searched.map(|searched| &searched.expr) {
        Some(Expr::Ident(name)) if TEXTS.contains(&name.as_str()) => name.as_str(),
        Some(Expr::Literal(LiteralValue::String(_))) => "what follows it",
        _ => return Ok(()),
    };
    Err(ConditionError::new(
        format!("`in` searches a list, and {text} is a text"),
        "a text is searched with `content.contains('x')`",
    ))
}

fn other_language_hint(word: &str) -> Option<String> {
    OTHER_LANGUAGES
        .iter()
        .find(|(theirs, _)| theirs.contains(&word))
        .map(|(_, ours)| (*ours).to_owned())
}

/// Compiles the argument of `matches`. It must be a literal, so that an invalid pattern is found
/// before the run.
fn compile_pattern(argument: Option<&IdedExpr>) -> Result<(String, Pattern), ConditionError> {
    let Some(Expr::Literal(LiteralValue::String(pattern))) = argument.map(|arg| &arg.expr) else {
        let hint = "write it as a string: `content.matches('yes|no')`";
        return Err(ConditionError::new("`matches` needs a pattern", hint));
    };
    match Pattern::compile(pattern.inner()) {
        Ok(compiled) => Ok((pattern.inner().to_owned(), compiled)),
        Err(reason) => {
            let reason = reason.lines().last().unwrap_or("invalid").to_owned();
            let hint = "it must be a regular expression";
            Err(ConditionError::new(
                format!("its pattern is wrong: {reason}"),
                hint,
            ))
        }
    }
}

/// Explains the first error of a condition that does not parse.
pub(super) fn explain_parse_error(errors: &ParseErrors, source: &str) -> ConditionError {
    let example = "for example `data.approved == true && cause_by != 'Draft'`";
    let Some(error) = errors.errors.first() else {
        return ConditionError::new("it does not parse", example);
    };
    if error.msg.contains("ecursion limit") {
        return ConditionError::new("it is nested too deeply", "decide in an action instead");
    }
    // Lines and columns count from 1.
    let (line, column) = error.pos;
    let lines = source.lines().take(usize::try_from(line - 1).unwrap_or(0));
    let before: usize = lines.map(|line| line.chars().count() + 1).sum();
    let at = before + usize::try_from(column - 1).unwrap_or(0);
    let found = unexpected_token(&error.msg).map(str::trim);
    let text = match found {
        Some("<EOF>") => "it ends too early".to_owned(),
        Some(token) => format!("`{token}` is unexpected"),
        None => "it does not parse".to_owned(),
    };
    // The parser fails at the foreign word itself, or at the token after it if it took the word for
    // a name.
    let read: String = source.chars().take(at).collect();
    let last = read.split_whitespace().next_back();
    let hint = [found, last]
        .into_iter()
        .flatten()
        .find_map(other_language_hint);
    ConditionError {
        char_index: Some(at),
        ..ConditionError::new(text, hint.unwrap_or_else(|| example.to_owned()))
    }
}

/// Returns the unexpected token. The parser's message quotes it, before the list of what was
/// expected.
fn unexpected_token(message: &str) -> Option<&str> {
    let message = message.split(" expecting ").next()?;
    let (_, rest) = message.split_once('\'')?;
    rest.strip_suffix('\'')
}

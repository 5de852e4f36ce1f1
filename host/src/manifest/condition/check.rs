//! Checks what a parsed condition refers to, determines what its evaluation costs, and explains
//! parse errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::ParseErrors;
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::pattern::Pattern;
use super::{Refusal, VARIABLES};
use crate::suggest::suggest;

/// The functions that a condition may call; all others are rejected. Operators are always allowed.
const FUNCTIONS: [&str; 10] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bool",
];

/// Words of other languages, with what to write instead.
const ELSEWHERE: [(&[&str], &str); 6] = [
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
pub(super) struct Parts {
    /// How often it names each variable.
    pub(super) named: BTreeMap<&'static str, usize>,
    /// How often it names each variable within a macro over a list of the message, where it is read
    /// once for each item.
    pub(super) each: BTreeMap<&'static str, usize>,
    /// How many nodes of the expression are evaluated for each item of such a list.
    pub(super) looped: usize,
    /// The patterns that it matches, compiled, by their text.
    pub(super) patterns: Arc<BTreeMap<String, Pattern>>,
}

/// Checks what an expression refers to.
pub(super) fn check(expr: &IdedExpr) -> Result<Parts, Refusal> {
    let mut walk = Walk::default();
    walk.visit(expr)?;
    Ok(Parts {
        named: walk.named,
        each: walk.each,
        looped: walk.looped,
        patterns: Arc::new(walk.patterns),
    })
}

/// The state of a traversal of an expression.
#[derive(Default)]
struct Walk {
    /// The variables that the enclosing macro binds.
    bound: Vec<String>,
    named: BTreeMap<&'static str, usize>,
    each: BTreeMap<&'static str, usize>,
    looped: usize,
    patterns: BTreeMap<String, Pattern>,
    /// Whether the enclosing macro iterates over a list of the message.
    goes_far: bool,
}

impl Walk {
    fn visit(&mut self, expr: &IdedExpr) -> Result<(), Refusal> {
        if !self.bound.is_empty() && self.goes_far {
            self.looped += 1;
        }
        match &expr.expr {
            Expr::Unspecified => Err(Refusal::new("it is incomplete", "write a comparison")),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::List(list) => self.visit_all(&list.elements),
            Expr::Struct(object) => {
                let reason = format!("it makes a `{}`", object.type_name);
                Err(Refusal::new(reason, "a condition only compares"))
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
                function(&call.func_name)?;
                if call.func_name == "matches" {
                    let (text, pattern) = pattern(call.args.last())?;
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
                    return Err(Refusal::new("it nests macros over lists", hint));
                }
                // A list that is written in the condition has few items.
                self.goes_far = !matches!(list.iter_range.expr, Expr::List(_));
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

    fn visit_all(&mut self, exprs: &[IdedExpr]) -> Result<(), Refusal> {
        exprs.iter().try_for_each(|expr| self.visit(expr))
    }

    fn variable(&mut self, name: &str) -> Result<(), Refusal> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let variable = VARIABLES.into_iter().find(|variable| *variable == name);
        if let Some(variable) = variable {
            *self.named.entry(variable).or_default() += 1;
            if !self.bound.is_empty() && self.goes_far {
                *self.each.entry(variable).or_default() += 1;
            }
        }
        if variable.is_some() || self.bound.iter().any(|bound| bound == name) {
            return Ok(());
        }
        let hint = elsewhere(name)
            .or_else(|| suggest(name, &VARIABLES))
            .unwrap_or_default();
        Err(Refusal::new(format!("there is no `{name}`"), hint))
    }
}

fn function(name: &str) -> Result<(), Refusal> {
    // The internal names of operators do not begin with a letter, so they cannot be written in a
    // condition.
    let operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
    if operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    let hint = elsewhere(name)
        .or_else(|| suggest(name, &FUNCTIONS))
        .unwrap_or_default();
    Err(Refusal::new(format!("there is no function `{name}`"), hint))
}

fn elsewhere(word: &str) -> Option<String> {
    ELSEWHERE
        .iter()
        .find(|(theirs, _)| theirs.contains(&word))
        .map(|(_, ours)| (*ours).to_owned())
}

/// Compiles the argument of `matches`. It must be a literal, so that an invalid pattern is found
/// before the run.
fn pattern(argument: Option<&IdedExpr>) -> Result<(String, Pattern), Refusal> {
    let Some(Expr::Literal(LiteralValue::String(pattern))) = argument.map(|arg| &arg.expr) else {
        let hint = "write it as a string: `content.matches('yes|no')`";
        return Err(Refusal::new("`matches` needs a pattern", hint));
    };
    match Pattern::compile(pattern.inner()) {
        Ok(compiled) => Ok((pattern.inner().to_owned(), compiled)),
        Err(reason) => {
            let reason = reason.lines().last().unwrap_or("invalid").to_owned();
            let hint = "it must be a regular expression";
            Err(Refusal::new(
                format!("its pattern is wrong: {reason}"),
                hint,
            ))
        }
    }
}

/// Explains the first error of a condition that does not parse.
pub(super) fn explain(errors: &ParseErrors, source: &str) -> Refusal {
    let example = "for example `data.approved == true && cause_by != 'Draft'`";
    let Some(error) = errors.errors.first() else {
        return Refusal::new("it does not parse", example);
    };
    if error.msg.contains("ecursion limit") {
        return Refusal::new("it is nested too deeply", "decide in an action instead");
    }
    // Lines and columns count from 1.
    let (line, column) = error.pos;
    let lines = source.lines().take(usize::try_from(line - 1).unwrap_or(0));
    let before: usize = lines.map(|line| line.chars().count() + 1).sum();
    let at = before + usize::try_from(column - 1).unwrap_or(0);
    let found = unexpected(&error.msg).map(str::trim);
    let text = match found {
        Some("<EOF>") => "it ends too early".to_owned(),
        Some(token) => format!("`{token}` is unexpected"),
        None => "it does not parse".to_owned(),
    };
    // The parser fails at the foreign word itself, or at the token after it if it took the word for
    // a name.
    let read: String = source.chars().take(at).collect();
    let last = read.split_whitespace().next_back();
    let hint = [found, last].into_iter().flatten().find_map(elsewhere);
    Refusal {
        at: Some(at),
        ..Refusal::new(text, hint.unwrap_or_else(|| example.to_owned()))
    }
}

/// Returns the unexpected token. The parser's message quotes it, before the list of what was
/// expected.
fn unexpected(message: &str) -> Option<&str> {
    let message = message.split(" expecting ").next()?;
    let (_, rest) = message.split_once('\'')?;
    rest.strip_suffix('\'')
}

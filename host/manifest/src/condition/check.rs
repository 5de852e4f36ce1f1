//! Checks a parsed condition: turns the parser's expression into a [`Tree`], which contains only what can be
//! evaluated. Explains parse errors.

use cel::ParseErrors;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, operators,
};
use strata_base::text::suggest::suggest;

use super::ConditionError;
use super::pattern::Pattern;
use super::tree::{BinaryOperator, Function, Literal, Loop, Node, Tree, Variable};

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

/// A function that a condition may call.
struct ConditionFunction {
    function: Function,
    /// How many values it takes, including the one that it is called on.
    operands: usize,
    form: CallForm,
    /// How it is called.
    example: &'static str,
}

/// The functions that a condition may call, beside [`MATCHES`]; all others are rejected.
const FUNCTIONS: [ConditionFunction; 9] = [
    function(Function::Size, 1, CallForm::Any, "size(data.items)"),
    function(
        Function::Contains,
        2,
        CallForm::Method,
        "content.contains('x')",
    ),
    function(
        Function::StartsWith,
        2,
        CallForm::Method,
        "content.startsWith('x')",
    ),
    function(
        Function::EndsWith,
        2,
        CallForm::Method,
        "content.endsWith('x')",
    ),
    function(Function::Int, 1, CallForm::Free, "int(data.n)"),
    function(Function::UInt, 1, CallForm::Free, "uint(data.n)"),
    function(Function::Double, 1, CallForm::Free, "double(data.n)"),
    function(Function::String, 1, CallForm::Free, "string(data.n)"),
    function(Function::Bool, 1, CallForm::Free, "bool(content)"),
];

const fn function(
    function: Function,
    operands: usize,
    form: CallForm,
    example: &'static str,
) -> ConditionFunction {
    ConditionFunction {
        function,
        operands,
        form,
        example,
    }
}

/// The function that matches a pattern, which has to be a literal.
const MATCHES: &str = "matches";

/// The operators with two operands, by their names in the parser's expressions.
const BINARY_OPERATORS: [(&str, BinaryOperator); 13] = [
    (operators::ADD, BinaryOperator::Add),
    (operators::SUBSTRACT, BinaryOperator::Subtract),
    (operators::MULTIPLY, BinaryOperator::Multiply),
    (operators::DIVIDE, BinaryOperator::Divide),
    (operators::MODULO, BinaryOperator::Modulo),
    (operators::EQUALS, BinaryOperator::Equal),
    (operators::NOT_EQUALS, BinaryOperator::NotEqual),
    (operators::LESS, BinaryOperator::Less),
    (operators::LESS_EQUALS, BinaryOperator::LessOrEqual),
    (operators::GREATER, BinaryOperator::Greater),
    (operators::GREATER_EQUALS, BinaryOperator::GreaterOrEqual),
    (operators::IN, BinaryOperator::In),
    (operators::INDEX, BinaryOperator::Index),
];

/// How deeply an expression may be nested. Evaluating it recurses, and has to fit on the stack of a thread.
const MAX_DEPTH: usize = 250;

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

/// Returns the checked form of an expression. Fails if it contains something that a condition cannot contain.
pub(super) fn check_expression(expr: &IdedExpr) -> Result<Tree, ConditionError> {
    let mut checker = Checker::default();
    let root = checker.check(expr)?;
    Ok(Tree {
        root,
        patterns: checker.patterns,
        variables: checker.variables,
    })
}

/// The state of checking an expression.
#[derive(Default)]
struct Checker {
    /// How deeply the current expression is nested.
    depth: usize,
    /// What the enclosing macros bind.
    scope: Vec<ScopeEntry>,
    patterns: Vec<Pattern>,
    variables: Vec<Variable>,
}

/// What a macro binds to a name.
struct ScopeEntry {
    name: String,
    is_accumulated: bool,
}

impl Checker {
    fn check(&mut self, expr: &IdedExpr) -> Result<Node, ConditionError> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep());
        }
        self.depth += 1;
        let node = self.check_node(&expr.expr);
        self.depth -= 1;
        node
    }

    fn check_boxed(&mut self, expr: &IdedExpr) -> Result<Box<Node>, ConditionError> {
        self.check(expr).map(Box::new)
    }

    fn check_all(&mut self, exprs: &[IdedExpr]) -> Result<Vec<Node>, ConditionError> {
        exprs.iter().map(|expr| self.check(expr)).collect()
    }

    fn check_node(&mut self, expr: &Expr) -> Result<Node, ConditionError> {
        match expr {
            Expr::Unspecified => Err(ConditionError::new(
                "it is incomplete",
                "write a comparison",
            )),
            Expr::Literal(literal) => check_literal(literal).map(Node::Literal),
            Expr::Ident(name) => self.check_name(name),
            Expr::Select(select) => {
                let operand = self.check_boxed(&select.operand)?;
                let name = select.field.clone();
                Ok(if select.test {
                    Node::HasField { operand, name }
                } else {
                    Node::Field { operand, name }
                })
            }
            Expr::List(list) => {
                if !list.optional_indices.is_empty() {
                    return Err(no_optional_values());
                }
                self.check_all(&list.elements).map(Node::List)
            }
            Expr::Struct(object) => {
                let reason = format!("it makes a `{}`", object.type_name);
                Err(ConditionError::new(reason, "a condition only compares"))
            }
            Expr::Map(map) => self.check_map(map),
            Expr::Call(call) => self.check_call(call),
            Expr::Comprehension(comprehension) => self.check_loop(comprehension),
        }
    }

    fn check_map(&mut self, map: &MapExpr) -> Result<Node, ConditionError> {
        let mut entries = Vec::new();
        for entry in &map.entries {
            match &entry.expr {
                EntryExpr::MapEntry(entry) if !entry.optional => {
                    entries.push([self.check(&entry.key)?, self.check(&entry.value)?]);
                }
                EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => {
                    return Err(no_optional_values());
                }
            }
        }
        Ok(Node::Map(entries))
    }

    fn check_name(&mut self, written: &str) -> Result<Node, ConditionError> {
        // A leading dot names a part of the message even where a macro binds the same name.
        let absolute = written.strip_prefix('.');
        let name = absolute.unwrap_or(written);
        let bound = self.scope.iter().rposition(|entry| entry.name == name);
        if let (None, Some(place)) = (absolute, bound) {
            return Ok(if self.scope[place].is_accumulated {
                Node::Accumulated(place)
            } else {
                Node::Bound(place)
            });
        }
        if let Some(variable) = variable_named(name) {
            if !self.variables.contains(&variable) {
                self.variables.push(variable);
            }
            return Ok(Node::Variable(variable));
        }
        let hint = other_language_hint(name)
            .or_else(|| suggest(name, &Variable::ALL.map(Variable::name)))
            .unwrap_or_default();
        Err(ConditionError::new(format!("there is no `{name}`"), hint))
    }

    fn check_call(&mut self, call: &CallExpr) -> Result<Node, ConditionError> {
        let name = call.func_name.as_str();
        if name == operators::IN {
            check_membership(call.args.last())?;
        }
        if let Some(node) = self.check_operator(name, &call.args)? {
            return Ok(node);
        }
        if name == operators::OPT_SELECT || name == operators::OPT_INDEX {
            return Err(no_optional_values());
        }
        let arguments: Vec<&IdedExpr> = call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect();
        let form = match call.target {
            Some(_) => CallForm::Method,
            None => CallForm::Free,
        };
        if name == MATCHES {
            return self.check_matches(&arguments);
        }
        let called = FUNCTIONS
            .iter()
            .find(|called| called.function.name() == name)
            .ok_or_else(|| no_function(name))?;
        if arguments.len() != called.operands
            || (called.form != form && called.form != CallForm::Any)
        {
            return Err(wrong_call(name, called.example));
        }
        let mut checked = Vec::new();
        for argument in arguments {
            checked.push(self.check(argument)?);
        }
        Ok(Node::Call(called.function, checked))
    }

    /// Returns the node of an operator, or `None` if `name` is not that of one with as many operands.
    fn check_operator(
        &mut self,
        name: &str,
        operands: &[IdedExpr],
    ) -> Result<Option<Node>, ConditionError> {
        Ok(Some(match (name, operands) {
            (operators::LOGICAL_NOT, [operand]) => Node::Not(self.check_boxed(operand)?),
            (operators::NEGATE, [operand]) => Node::Negate(self.check_boxed(operand)?),
            (operators::NOT_STRICTLY_FALSE, [operand]) => {
                Node::NotStrictlyFalse(self.check_boxed(operand)?)
            }
            (operators::LOGICAL_AND, [left, right]) => {
                Node::And(Box::new([self.check(left)?, self.check(right)?]))
            }
            (operators::LOGICAL_OR, [left, right]) => {
                Node::Or(Box::new([self.check(left)?, self.check(right)?]))
            }
            (operators::CONDITIONAL, [condition, yes, no]) => Node::Choice(Box::new([
                self.check(condition)?,
                self.check(yes)?,
                self.check(no)?,
            ])),
            (_, [left, right]) => {
                let mut known = BINARY_OPERATORS.into_iter();
                let Some((_, operator)) = known.find(|(other, _)| *other == name) else {
                    return Ok(None);
                };
                Node::Binary(operator, Box::new([self.check(left)?, self.check(right)?]))
            }
            _ => return Ok(None),
        }))
    }

    fn check_matches(&mut self, arguments: &[&IdedExpr]) -> Result<Node, ConditionError> {
        let &[text, pattern] = arguments else {
            return Err(wrong_call(MATCHES, "content.matches('x|y')"));
        };
        let pattern = compile_pattern(pattern)?;
        let text = self.check_boxed(text)?;
        self.patterns.push(pattern);
        Ok(Node::Matches(text, self.patterns.len() - 1))
    }

    fn check_loop(&mut self, iteration: &ComprehensionExpr) -> Result<Node, ConditionError> {
        if iteration.iter_var2.is_some() {
            let hint = "bind one variable: `data.items.all(x, x > 0)`";
            return Err(ConditionError::new("a macro binds two variables", hint));
        }
        let range = self.check(&iteration.iter_range)?;
        let initial = self.check(&iteration.accu_init)?;
        let base = self.scope.len();
        for (name, is_accumulated) in [(&iteration.iter_var, false), (&iteration.accu_var, true)] {
            self.scope.push(ScopeEntry {
                name: name.clone(),
                is_accumulated,
            });
        }
        let checked = Loop {
            range,
            initial,
            condition: self.check(&iteration.loop_cond)?,
            step: self.check(&iteration.loop_step)?,
            result: self.check(&iteration.result)?,
        };
        self.scope.truncate(base);
        Ok(Node::Loop(Box::new(checked)))
    }
}

fn check_literal(literal: &LiteralValue) -> Result<Literal, ConditionError> {
    Ok(match literal {
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::UInt(value) => Literal::UInt(*value.inner()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::String(value) => Literal::Text(value.inner().to_owned()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::Bytes(_) => {
            let hint = "write it as a string: `'x'`";
            return Err(ConditionError::new("it contains bytes", hint));
        }
    })
}

fn variable_named(name: &str) -> Option<Variable> {
    let mut known = Variable::ALL.into_iter();
    known.find(|variable| variable.name() == name)
}

fn no_function(name: &str) -> ConditionError {
    let mut names = FUNCTIONS.map(|function| function.function.name()).to_vec();
    names.push(MATCHES);
    let hint = other_language_hint(name)
        .or_else(|| suggest(name, &names))
        .unwrap_or_default();
    ConditionError::new(format!("there is no function `{name}`"), hint)
}

fn wrong_call(name: &str, example: &str) -> ConditionError {
    ConditionError::new(
        format!("`{name}` is not called like this"),
        format!("write it as in `{example}`"),
    )
}

fn no_optional_values() -> ConditionError {
    ConditionError::new(
        "it contains an optional value",
        "whether a field exists is `has(data.x)`",
    )
}

fn too_deep() -> ConditionError {
    ConditionError::new("it is nested too deeply", "decide in an action instead")
}

/// Checks what `in` searches.
fn check_membership(searched: Option<&IdedExpr>) -> Result<(), ConditionError> {
    let text = match searched.map(|searched| &searched.expr) {
        Some(Expr::Ident(name)) if variable_named(name).is_some_and(Variable::is_text) => {
            name.as_str()
        }
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
fn compile_pattern(argument: &IdedExpr) -> Result<Pattern, ConditionError> {
    let Expr::Literal(LiteralValue::String(pattern)) = &argument.expr else {
        let hint = "write it as a string: `content.matches('yes|no')`";
        return Err(ConditionError::new("`matches` needs a pattern", hint));
    };
    Pattern::compile(pattern.inner()).map_err(|reason| {
        let reason = reason.lines().last().unwrap_or("invalid");
        ConditionError::new(
            format!("its pattern is wrong: {reason}"),
            "it must be a regular expression",
        )
    })
}

/// Explains the first error of a condition that does not parse.
pub(super) fn explain_parse_error(errors: &ParseErrors, source: &str) -> ConditionError {
    let example = "for example `data.approved == true && cause_by != 'Draft'`";
    let Some(error) = errors.errors.first() else {
        return ConditionError::new("it does not parse", example);
    };
    if error.msg.contains("ecursion limit") {
        return too_deep();
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

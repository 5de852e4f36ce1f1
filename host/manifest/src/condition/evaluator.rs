//! Evaluates a condition on a message. Everything that it does is charged to a budget, so an evaluation
//! ends, and takes no more memory than the budget pays for.
//!
//! The semantics are those of CEL (<https://github.com/google/cel-spec/blob/master/doc/langdef.md>).

mod arithmetic;
mod conversion;

use std::cmp::Ordering;
use std::mem;
use std::rc::Rc;

use regex_automata::hybrid::dfa::Cache;
use strata_core::team::condition::WorkBudget;

use super::MessageVariables;
use super::tree::{BinaryOperator, Function, Literal, Loop, Node, Tree, Variable};
use super::value::{List, Map, Text, Value};

/// The cost of evaluating a node, about 0.1 µs.
const NODE_COST: u64 = 64;
/// How many bytes can be read at a cost of 1.
const BYTES_PER_COST: u64 = 4;
/// The cost of a byte of a text that is built. The whole budget pays for 16 MiB.
const BUILT_BYTE_COST: u64 = 16;
/// The cost of an item of a list that is built, beside that of evaluating it. The whole budget pays for
/// half a million.
const BUILT_ITEM_COST: u64 = 512;

/// Why a condition has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvaluationError {
    /// It refers to something that the message does not have.
    Missing(String),
    /// An operation cannot be carried out with these values.
    Invalid(String),
    /// The budget does not suffice.
    Exhausted,
}

impl EvaluationError {
    /// Returns the error of an operation for whose operands there is no rule. Where one is null, a value is
    /// missing.
    fn no_overload(operation: &str, operands: &[&Value<'_>]) -> Self {
        let types: Vec<&str> = operands.iter().map(|value| value.type_name()).collect();
        let message = format!("`{operation}` cannot take {}", types.join(" and "));
        if operands.iter().any(|value| matches!(value, Value::Null)) {
            Self::Missing(message)
        } else {
            Self::Invalid(message)
        }
    }
}

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Evaluates a condition.
pub(super) fn evaluate<'a>(
    tree: &'a Tree,
    variables: &'a MessageVariables<'a>,
    budget: &mut WorkBudget,
) -> Outcome<'a> {
    let mut evaluator = Evaluator {
        tree,
        variables,
        caches: Vec::new(),
        scope: Vec::new(),
        budget,
    };
    evaluator.evaluate(&tree.root)
}

struct Evaluator<'a, 'b> {
    tree: &'a Tree,
    variables: &'a MessageVariables<'a>,
    /// The caches of patterns that have been matched, by their index.
    caches: Vec<Option<Cache>>,
    /// The variables of the loops that are running. An accumulated value may be an error, which a later item
    /// can make irrelevant.
    scope: Vec<Outcome<'a>>,
    budget: &'b mut WorkBudget,
}

impl<'a> Evaluator<'a, '_> {
    fn evaluate(&mut self, node: &'a Node) -> Outcome<'a> {
        self.spend(NODE_COST)?;
        match node {
            Node::Literal(literal) => Ok(literal_value(literal)),
            Node::Variable(variable) => Ok(self.variable(*variable)),
            Node::Bound(place) | Node::Accumulated(place) => self.scope[*place].clone(),
            Node::Field { operand, name } => {
                let operand = self.evaluate(operand)?;
                find_field(&operand, name)?.ok_or_else(|| no_field(name))
            }
            Node::HasField { operand, name } => {
                let operand = self.evaluate(operand)?;
                Ok(Value::Bool(find_field(&operand, name)?.is_some()))
            }
            Node::List(items) => self.build_list(items),
            Node::Map(entries) => self.build_map(entries),
            Node::And(sides) => self.evaluate_logical(sides, false),
            Node::Or(sides) => self.evaluate_logical(sides, true),
            Node::Not(operand) => Ok(Value::Bool(!self.evaluate_bool("!", operand)?)),
            Node::Negate(operand) => arithmetic::negate(&self.evaluate(operand)?),
            Node::NotStrictlyFalse(operand) => match self.evaluate(operand) {
                Err(EvaluationError::Exhausted) => Err(EvaluationError::Exhausted),
                outcome => Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false))))),
            },
            Node::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                let holds = self.evaluate_bool("?:", condition)?;
                self.evaluate(if holds { yes } else { no })
            }
            Node::Binary(operator, sides) => self.evaluate_binary(*operator, sides),
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Matches(text, pattern) => self.match_pattern(text, *pattern),
            Node::Loop(iteration) => self.run_loop(iteration),
        }
    }

    fn spend(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.budget.spend(cost).ok_or(EvaluationError::Exhausted)
    }

    /// Charges for reading as many bytes.
    fn read(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.spend(bytes as u64 / BYTES_PER_COST)
    }

    fn variable(&self, variable: Variable) -> Value<'a> {
        let variables = self.variables;
        match variable {
            Variable::Content => Value::text(variables.content),
            Variable::Data => Value::from_json(&variables.data),
            Variable::CauseBy => Value::text(variables.cause_by),
            Variable::SentFrom => Value::text(variables.sent_from),
            Variable::MetaInfo => Value::from_json(&variables.meta_info),
        }
    }

    fn evaluate_bool(&mut self, operation: &str, node: &'a Node) -> Result<bool, EvaluationError> {
        match self.evaluate(node)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(EvaluationError::no_overload(operation, &[&other])),
        }
    }

    /// Evaluates `&&` or `||`. A side with the value `deciding` makes the other one irrelevant, also if that
    /// one fails.
    fn evaluate_logical(&mut self, sides: &'a [Node; 2], deciding: bool) -> Outcome<'a> {
        let symbol = if deciding { "||" } else { "&&" };
        let left = self.evaluate_bool(symbol, &sides[0]);
        if left == Ok(deciding) || left == Err(EvaluationError::Exhausted) {
            return left.map(Value::Bool);
        }
        let right = self.evaluate_bool(symbol, &sides[1]);
        if right == Ok(deciding) || right == Err(EvaluationError::Exhausted) {
            return right.map(Value::Bool);
        }
        left.and(right).map(Value::Bool)
    }

    fn build_list(&mut self, items: &'a [Node]) -> Outcome<'a> {
        let mut built = Vec::new();
        for item in items {
            self.spend(BUILT_ITEM_COST)?;
            built.push(self.evaluate(item)?);
        }
        Ok(Value::List(List::Built(Rc::new(built))))
    }

    fn build_map(&mut self, entries: &'a [[Node; 2]]) -> Outcome<'a> {
        let mut built: Vec<[Value<'a>; 2]> = Vec::new();
        for [key, value] in entries {
            self.spend(BUILT_ITEM_COST)?;
            let key = self.evaluate(key)?;
            if matches!(
                key,
                Value::Null | Value::Double(_) | Value::List(_) | Value::Map(_)
            ) {
                return Err(EvaluationError::no_overload("{}", &[&key]));
            }
            for [other, _] in &built {
                if self.equal(other, &key)? {
                    let message = "a key is repeated in a map".to_owned();
                    return Err(EvaluationError::Invalid(message));
                }
            }
            built.push([key, self.evaluate(value)?]);
        }
        Ok(Value::Map(Map::Built(Rc::new(built))))
    }

    fn evaluate_binary(&mut self, operator: BinaryOperator, sides: &'a [Node; 2]) -> Outcome<'a> {
        if let (BinaryOperator::Add, Node::Accumulated(place)) = (operator, &sides[0]) {
            // The accumulated list is taken out of the scope, so that it is extended in its place. The loop puts
            // the result back.
            let accumulated = mem::replace(&mut self.scope[*place], Ok(Value::Null))?;
            let added = self.evaluate(&sides[1])?;
            return self.add(accumulated, added);
        }
        let left = self.evaluate(&sides[0])?;
        let right = self.evaluate(&sides[1])?;
        match operator {
            BinaryOperator::Add => self.add(left, right),
            BinaryOperator::Equal => self.equal(&left, &right).map(Value::Bool),
            BinaryOperator::NotEqual => Ok(Value::Bool(!self.equal(&left, &right)?)),
            BinaryOperator::Less
            | BinaryOperator::LessOrEqual
            | BinaryOperator::Greater
            | BinaryOperator::GreaterOrEqual => self.compare(operator, &left, &right),
            BinaryOperator::In => self.contains_item(&left, &right),
            BinaryOperator::Index => self.index(&left, &right),
            _ => arithmetic::compute(operator, &left, &right),
        }
    }

    fn add(&mut self, left: Value<'a>, right: Value<'a>) -> Outcome<'a> {
        match (left, right) {
            (Value::Text(left), Value::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                self.spend((left.len() + right.len()) as u64 * BUILT_BYTE_COST)?;
                let built = [left, right].concat();
                Ok(Value::Text(Text::Built(built.into())))
            }
            (Value::List(left), Value::List(right)) => self.concatenate(left, &right),
            (left, right) => arithmetic::compute(BinaryOperator::Add, &left, &right),
        }
    }

    fn concatenate(&mut self, left: List<'a>, right: &List<'a>) -> Outcome<'a> {
        self.spend(right.len() as u64 * BUILT_ITEM_COST)?;
        let mut items = match left {
            List::Built(items) if Rc::strong_count(&items) == 1 => items,
            left => {
                self.spend(left.len() as u64 * BUILT_ITEM_COST)?;
                Rc::new(
                    (0..left.len())
                        .filter_map(|index| left.get(index))
                        .collect(),
                )
            }
        };
        let added = (0..right.len()).filter_map(|index| right.get(index));
        Rc::make_mut(&mut items).extend(added);
        Ok(Value::List(List::Built(items)))
    }

    /// Returns whether two values are equal. Values of different types are not, except for numbers.
    fn equal(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<bool, EvaluationError> {
        self.spend(NODE_COST)?;
        match (left, right) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Text(left), Value::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                if left.len() != right.len() {
                    return Ok(false);
                }
                self.read(left.len())?;
                Ok(left == right)
            }
            (Value::List(left), Value::List(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                let pairs = (0..left.len()).filter_map(|i| left.get(i).zip(right.get(i)));
                for (left, right) in pairs {
                    if !self.equal(&left, &right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Map(left), Value::Map(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                self.spend(left.len() as u64 * BUILT_ITEM_COST)?;
                for [key, value] in left.entries() {
                    let Some(other) = self.look_up(right, &key)? else {
                        return Ok(false);
                    };
                    if !self.equal(&value, &other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(left.compare(right) == Ok(Some(Ordering::Equal))),
        }
    }

    fn compare(
        &mut self,
        operator: BinaryOperator,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Outcome<'a> {
        if let (Value::Text(left), Value::Text(right)) = (left, right) {
            self.read(left.as_str().len().min(right.as_str().len()))?;
        }
        let order = left
            .compare(right)
            .map_err(|()| EvaluationError::no_overload(operator.symbol(), &[left, right]))?;
        let holds = order.is_some_and(|order| match operator {
            BinaryOperator::Less => order.is_lt(),
            BinaryOperator::LessOrEqual => order.is_le(),
            BinaryOperator::Greater => order.is_gt(),
            _ => order.is_ge(),
        });
        Ok(Value::Bool(holds))
    }

    fn contains_item(&mut self, item: &Value<'a>, container: &Value<'a>) -> Outcome<'a> {
        match container {
            Value::List(items) => {
                for index in 0..items.len() {
                    if let Some(other) = items.get(index)
                        && self.equal(item, &other)?
                    {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Value::Map(map) => Ok(Value::Bool(self.look_up(map, item)?.is_some())),
            _ => Err(EvaluationError::no_overload("in", &[item, container])),
        }
    }

    /// Returns the value of a key.
    fn look_up(
        &mut self,
        map: &Map<'a>,
        key: &Value<'a>,
    ) -> Result<Option<Value<'a>>, EvaluationError> {
        if let Map::Built(entries) = map {
            for [other, value] in entries.iter() {
                if self.equal(other, key)? {
                    return Ok(Some(value.clone()));
                }
            }
            return Ok(None);
        }
        if let Value::Text(text) = key {
            self.read(text.as_str().len())?;
        }
        Ok(map.get(key))
    }

    fn index(&mut self, operand: &Value<'a>, index: &Value<'a>) -> Outcome<'a> {
        match operand {
            Value::List(items) => {
                let position = match index {
                    Value::Int(position) => usize::try_from(*position).ok(),
                    Value::UInt(position) => usize::try_from(*position).ok(),
                    Value::Double(position) if position.fract() == 0.0 && *position >= 0.0 => {
                        Some(*position as usize)
                    }
                    _ => return Err(EvaluationError::no_overload("[]", &[operand, index])),
                };
                position
                    .and_then(|position| items.get(position))
                    .ok_or_else(|| {
                        let message = format!("an item of a list with {} items", items.len());
                        EvaluationError::Missing(message)
                    })
            }
            Value::Map(map) => self
                .look_up(map, index)?
                .ok_or_else(|| EvaluationError::Missing("a key of a map".to_owned())),
            _ => Err(EvaluationError::no_overload("[]", &[operand, index])),
        }
    }

    fn call(&mut self, function: Function, arguments: &'a [Node]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.evaluate(argument)?);
        }
        for value in &values {
            if let Value::Text(text) = value {
                self.read(text.as_str().len())?;
            }
        }
        match (function, values.as_slice()) {
            (Function::Size, [Value::Text(text)]) => {
                Ok(int_from_len(text.as_str().chars().count()))
            }
            (Function::Size, [Value::List(items)]) => Ok(int_from_len(items.len())),
            (Function::Size, [Value::Map(entries)]) => Ok(int_from_len(entries.len())),
            (Function::Contains, [Value::Text(text), Value::Text(part)]) => {
                Ok(Value::Bool(text.as_str().contains(part.as_str())))
            }
            (Function::StartsWith, [Value::Text(text), Value::Text(part)]) => {
                Ok(Value::Bool(text.as_str().starts_with(part.as_str())))
            }
            (Function::EndsWith, [Value::Text(text), Value::Text(part)]) => {
                Ok(Value::Bool(text.as_str().ends_with(part.as_str())))
            }
            (_, [value]) => conversion::convert(function, value),
            (_, values) => {
                let operands: Vec<&Value<'_>> = values.iter().collect();
                Err(EvaluationError::no_overload(function.name(), &operands))
            }
        }
    }

    fn match_pattern(&mut self, text: &'a Node, index: usize) -> Outcome<'a> {
        let text = match self.evaluate(text)? {
            Value::Text(text) => text,
            other => return Err(EvaluationError::no_overload("matches", &[&other])),
        };
        if self.caches.len() <= index {
            self.caches.resize_with(index + 1, || None);
        }
        let pattern = &self.tree.patterns[index];
        let cache = &mut self.caches[index];
        pattern
            .occurs_in(text.as_str(), cache, self.budget)
            .map(Value::Bool)
            .ok_or(EvaluationError::Exhausted)
    }

    fn run_loop(&mut self, iteration: &'a Loop) -> Outcome<'a> {
        let items = match self.evaluate(&iteration.range)? {
            Value::List(items) => items,
            Value::Map(map) => {
                self.spend(map.len() as u64 * BUILT_ITEM_COST)?;
                List::Built(Rc::new(map.keys()))
            }
            other => return Err(EvaluationError::no_overload("a macro", &[&other])),
        };
        let initial = self.evaluate(&iteration.initial)?;
        let base = self.scope.len();
        self.scope.extend([Ok(Value::Null), Ok(initial)]);
        let outcome = self
            .run_items(iteration, &items, base)
            .and_then(|()| self.evaluate(&iteration.result));
        self.scope.truncate(base);
        outcome
    }

    /// Runs a loop over these items. Its variables begin at `base` in the scope.
    fn run_items(
        &mut self,
        iteration: &'a Loop,
        items: &List<'a>,
        base: usize,
    ) -> Result<(), EvaluationError> {
        for index in 0..items.len() {
            self.scope[base] = Ok(items.get(index).unwrap_or(Value::Null));
            if !self.evaluate_bool("a macro", &iteration.condition)? {
                break;
            }
            let next = self.evaluate(&iteration.step);
            if matches!(next, Err(EvaluationError::Exhausted)) {
                return Err(EvaluationError::Exhausted);
            }
            self.scope[base + 1] = next;
        }
        Ok(())
    }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::UInt(value) => Value::UInt(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::Text(text) => Value::text(text),
    }
}

/// Returns a field of a map. Fails if the operand is none.
fn find_field<'a>(operand: &Value<'a>, name: &str) -> Result<Option<Value<'a>>, EvaluationError> {
    match operand {
        Value::Map(map) => Ok(map.get(&Value::text(name))),
        other => {
            let message = format!(
                "the field `{name}` of a value of type {}",
                other.type_name()
            );
            Err(EvaluationError::Missing(message))
        }
    }
}

fn no_field(name: &str) -> EvaluationError {
    EvaluationError::Missing(format!("the field `{name}`"))
}

fn int_from_len(length: usize) -> Value<'static> {
    Value::Int(i64::try_from(length).unwrap_or(i64::MAX))
}

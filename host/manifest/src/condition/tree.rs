//! The expression of a condition after it has been checked. It contains nothing that cannot be evaluated, and
//! all names are resolved.

use super::pattern::Pattern;

/// A checked condition.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    /// The patterns that it matches.
    pub(super) patterns: Vec<Pattern>,
    /// The parts of a message that it reads.
    pub(super) variables: Vec<Variable>,
}

/// A part of a message that a condition can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Content,
    Data,
    CauseBy,
    SentFrom,
    MetaInfo,
}

impl Variable {
    pub(super) const ALL: [Self; 5] = [
        Self::Content,
        Self::Data,
        Self::CauseBy,
        Self::SentFrom,
        Self::MetaInfo,
    ];

    /// Returns its name in a condition.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Data => "data",
            Self::CauseBy => "cause_by",
            Self::SentFrom => "sent_from",
            Self::MetaInfo => "meta_info",
        }
    }

    /// Returns whether it is always a text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Content | Self::CauseBy | Self::SentFrom)
    }
}

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    Variable(Variable),
    /// A variable that a loop binds, by its place in the scope.
    Bound(usize),
    /// What a loop has computed so far, by its place in the scope.
    Accumulated(usize),
    Field {
        operand: Box<Node>,
        name: String,
    },
    /// Whether a map has a field.
    HasField {
        operand: Box<Node>,
        name: String,
    },
    List(Vec<Node>),
    Map(Vec<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// True unless the operand is false. Loops use it to go on after an error.
    NotStrictlyFalse(Box<Node>),
    /// A condition, the value if it holds, and the value otherwise.
    Choice(Box<[Node; 3]>),
    Binary(BinaryOperator, Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    /// Whether the pattern with this index occurs in a text.
    Matches(Box<Node>, usize),
    Loop(Box<Loop>),
}

/// A value that is written in a condition.
#[derive(Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(String),
}

/// An operator with two operands, both of which are always evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Index,
}

impl BinaryOperator {
    /// Returns how it is written.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Index => "[]",
        }
    }
}

/// A function. What it is called on, if anything, is its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Int,
    UInt,
    Double,
    String,
    Bool,
}

impl Function {
    /// Returns its name in a condition.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Int => "int",
            Self::UInt => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bool => "bool",
        }
    }
}

/// A macro over the items of a list or the keys of a map. While it runs, the scope has, at its end, the item and
/// what is accumulated.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) range: Node,
    pub(super) initial: Node,
    /// Whether to go on with the next item.
    pub(super) condition: Node,
    /// The next accumulated value.
    pub(super) step: Node,
    pub(super) result: Node,
}

//! The operations of the API: one table (`table`), from which both the routes and the OpenAPI document are made.

mod records;
mod schema;
mod server;
mod table;

use std::future::Future;
use std::pin::Pin;

use axum::http::Method;
use axum::response::Response;
use schemars::Schema;
use schemars::generate::SchemaGenerator;

use crate::context::Context;
use crate::problem::Problem;

pub use table::operations;

/// The answer to a request.
pub type Answer = Result<Response, Problem>;
/// Carries out a request.
pub type Handler =
    Box<dyn Fn(Context) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;
/// Returns the schema of a body.
type BodySchema = fn(&mut SchemaGenerator) -> Schema;

/// What a request or an answer has for a body.
#[derive(Clone, Copy)]
pub enum Content {
    /// None.
    Empty,
    /// JSON with this schema.
    Json(BodySchema),
    /// Something else, with this media type.
    Other(&'static str),
}

/// A parameter of a query, or a header.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What its value is.
    pub value: ParameterValue,
    /// Whether it may be repeated.
    pub is_repeated: bool,
    /// Whether the operation fails without it.
    pub is_required: bool,
}

impl Parameter {
    fn new(name: &'static str, value: ParameterValue, about: &'static str) -> Self {
        Self {
            name,
            about,
            value,
            is_repeated: false,
            is_required: false,
        }
    }
}

/// What the value of a parameter is.
#[derive(Clone, Debug)]
pub enum ParameterValue {
    /// Any text.
    Text,
    /// A whole number that is not negative.
    Number,
    /// How many entries of a list are asked for.
    Limit,
    /// A time, as in RFC 3339.
    Time,
    /// One of these words.
    OneOf(Vec<&'static str>),
    /// A text with this form, a regular expression.
    Form(&'static str),
}

/// An answer of an operation that is no error.
#[derive(Clone, Copy)]
pub struct Success {
    /// Its status.
    pub status: u16,
    /// What it contains.
    pub content: Content,
}

/// An operation of the API.
pub struct Operation {
    /// Its method.
    pub method: Method,
    /// Its path, with the variable parts in braces.
    pub path: &'static str,
    /// Its id.
    pub id: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The parameters of its query.
    pub query: Vec<Parameter>,
    /// The headers of the request that say what is asked for, besides those that follow from the rest.
    pub headers: Vec<Parameter>,
    /// What is sent.
    pub body: Content,
    /// Whether it fails without a body, if it takes one.
    pub needs_body: bool,
    /// Its answers that are no errors.
    pub successes: Vec<Success>,
    /// The statuses of its errors besides those that every operation can have.
    pub errors: Vec<u16>,
    /// Whether it needs a token.
    pub needs_token: bool,
    /// Whether it makes something, so that it takes an `Idempotency-Key`.
    pub is_keyed: bool,
    /// Whether its answer says in `Location` where what it made is.
    pub is_located: bool,
    /// Whether its answer follows from who asks, its path, its query and the database alone, so that it is kept for as long
    /// as the database does not change. Whether a client has it already (`If-None-Match`) is looked at afterwards.
    pub is_kept: bool,
    /// Carries it out.
    pub handler: Handler,
}

impl Operation {
    pub(super) fn new<F>(
        method: Method,
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self {
            method,
            path,
            id,
            about,
            query: Vec::new(),
            headers: Vec::new(),
            body: Content::Empty,
            needs_body: false,
            successes: Vec::new(),
            errors: Vec::new(),
            needs_token: true,
            is_keyed: false,
            is_located: false,
            is_kept: false,
            handler: Box::new(move |context| Box::pin(handler(context))),
        }
    }

    pub(super) fn open(mut self) -> Self {
        self.needs_token = false;
        self
    }

    pub(super) fn keyed(mut self) -> Self {
        self.is_keyed = true;
        self
    }

    pub(super) fn located(mut self) -> Self {
        self.is_located = true;
        self
    }

    pub(super) fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }

    pub(super) fn takes(mut self, body: Content) -> Self {
        self.body = body;
        self.needs_body = true;
        self
    }

    /// It also works without a body.
    pub(super) fn may_take(mut self, body: Content) -> Self {
        self.body = body;
        self
    }

    pub(super) fn gives(mut self, status: u16, content: Content) -> Self {
        self.successes.push(Success { status, content });
        self
    }

    pub(super) fn fails(mut self, statuses: &[u16]) -> Self {
        self.errors.extend_from_slice(statuses);
        self
    }

    pub(super) fn with(self, name: &'static str, about: &'static str) -> Self {
        self.with_value(name, ParameterValue::Text, about)
    }

    pub(super) fn with_value(
        mut self,
        name: &'static str,
        value: ParameterValue,
        about: &'static str,
    ) -> Self {
        self.query.push(Parameter::new(name, value, about));
        self
    }

    pub(super) fn with_header(
        mut self,
        name: &'static str,
        value: ParameterValue,
        about: &'static str,
    ) -> Self {
        self.headers.push(Parameter::new(name, value, about));
        self
    }

    /// The parameter that was named last may be repeated.
    pub(super) fn repeated(mut self) -> Self {
        if let Some(last) = self.query.last_mut() {
            last.is_repeated = true;
        }
        self
    }

    /// The parameter that was named last has to be there.
    pub(super) fn required(mut self) -> Self {
        if let Some(last) = self.query.last_mut() {
            last.is_required = true;
        }
        self
    }

    pub(super) fn limited(self) -> Self {
        self.with_value(
            "limit",
            ParameterValue::Limit,
            "how many entries, 1 to 500; 50 by default",
        )
    }

    pub(super) fn paged(self) -> Self {
        self.limited()
            .with("after", "the position after which the list continues")
    }

    /// Returns the names of the parameters of its query.
    pub fn parameter_names(&self) -> Vec<&'static str> {
        self.query.iter().map(|parameter| parameter.name).collect()
    }

    /// Whether its answers have a tag, by which a client asks whether what it has is still so.
    pub fn is_tagged(&self) -> bool {
        self.successes.iter().any(|success| success.status == 304)
    }

    /// Returns the names of the variable parts of its path.
    pub fn path_parameters(&self) -> Vec<&'static str> {
        let parts = self.path.split('{').skip(1);
        parts
            .filter_map(|part| part.split('}').next())
            .map(|name| name.trim_start_matches('*'))
            .collect()
    }
}

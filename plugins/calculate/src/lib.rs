//! `calculate`: computes the value of an arithmetic expression, for models that work with tools.
//!
//! As a tool it takes the expression as an argument, otherwise as the text of its news.

pub mod expression;

use serde::Deserialize;
use strata_action::schema::{self, JsonSchema};
use strata_action::{Action, Context, Failure, Output, action};

/// The arguments of a tool call.
#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "strata_action::schema::schemars")]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The expression, with the operators + - * / ^ and parentheses: "2 * (3 + 4.5)".
    pub expression: String,
}

/// The action.
pub struct Calculate;

impl Action for Calculate {
    type Config = ();
    type Data = f64;

    fn input_schema() -> Option<String> {
        schema::of::<Arguments>()
    }

    fn run(cx: &Context<()>) -> Result<Output<f64>, Failure> {
        let text = match cx.raw_arguments {
            Some(_) => cx.arguments::<Arguments>()?.expression,
            None => cx.text(),
        };
        let value = expression::evaluate(&text)?;
        Ok(Output::new(value.to_string()).data(value))
    }
}

action!(Calculate);

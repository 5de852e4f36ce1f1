//! JSON Schemas derived from types, with the feature `schema`.
//!
//! ```
//! use strata_action::schema::{self, JsonSchema};
//! use strata_action::{Action, Context, Failure, Output};
//!
//! /// What to add.
//! #[derive(serde::Deserialize, JsonSchema)]
//! #[schemars(crate = "strata_action::schema::schemars")]
//! struct Numbers {
//!     /// The numbers.
//!     numbers: Vec<f64>,
//! }
//!
//! struct Add;
//!
//! impl Action for Add {
//!     type Config = ();
//!     type Data = f64;
//!     fn input_schema() -> Option<String> {
//!         schema::of::<Numbers>()
//!     }
//!     fn run(cx: &Context<()>) -> Result<Output<f64>, Failure> {
//!         let sum: f64 = cx.arguments::<Numbers>()?.numbers.iter().sum();
//!         Ok(Output::new(sum.to_string()).data(sum))
//!     }
//! }
//! # let schema = Add::input_schema().unwrap();
//! # assert!(schema.contains("The numbers.") && schema.contains("\"required\":[\"numbers\"]"), "{schema}");
//! ```

pub use schemars::{self, JsonSchema};

/// Returns the JSON Schema of a type, for the functions of [`Action`](crate::Action) that return
/// schemas. Descriptions are taken from the doc comments.
pub fn of<T: JsonSchema>() -> Option<String> {
    serde_json::to_string(&schemars::schema_for!(T)).ok()
}

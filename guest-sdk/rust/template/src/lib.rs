//! `{{name}}`: lets a language model answer the incoming messages as its `instruction` says.

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, llm};

/// The `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What the model should do with the messages.
    instruction: String,
}

/// The structured content of the output.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The number of words.
    pub words: usize,
}

/// The action.
pub struct Respond;

impl Action for Respond {
    type Config = Config;
    type Data = Answer;

    /// The JSON Schema of `Config`, with which `strata-host check` checks the team file.
    const CONFIG_SCHEMA: Option<&'static str> = Some(
        r#"{
            "type": "object",
            "properties": { "instruction": { "type": "string" } },
            "required": ["instruction"],
            "additionalProperties": false
        }"#,
    );
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Answer>, Failure> {
        let prompt = format!("{}\n\n{}", cx.config.instruction, cx.text());
        let reply = llm::Request::new(prompt).system(cx.persona()).send()?;
        let words = reply.text.split_whitespace().count();
        Ok(Output::new(reply.text).data(Answer { words }))
    }
}

action!(Respond);

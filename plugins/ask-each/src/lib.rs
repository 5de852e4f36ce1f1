//! `ask-each`: asks a language model several questions, one after the other, and returns the
//! answers as one text.

use serde::Deserialize;
use strata_action::{Action, Context, Failure, Output, action, llm};

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The questions.
    pub questions: Vec<String>,
}

/// The action.
pub struct AskEach;

impl Action for AskEach {
    type Config = Config;
    type Data = Vec<String>;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Vec<String>>, Failure> {
        let ask = |question: &String| Ok(llm::ask(question)?.text.trim().to_owned());
        let answers: Vec<String> = cx
            .config
            .questions
            .iter()
            .map(ask)
            .collect::<Result<_, Failure>>()?;
        Ok(Output::new(answers.join("\n\n")).data(answers))
    }
}

action!(AskEach);

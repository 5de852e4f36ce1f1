//! `write-code`: asks a language model for one source file and extracts the code from its reply.
//!
//! The code becomes the text of the message and, with the name of its file, its data. `save-file`
//! saves it, so that a failure there does not repeat the request to the model.

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, llm};

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The language, e.g. `html`.
    pub language: String,
    /// The name of the file, e.g. `snake.html`.
    pub file: String,
    /// Further instructions for the model.
    #[serde(default)]
    pub instructions: String,
    /// The model to ask; the team's model if it is `None`.
    pub model: Option<String>,
}

/// One source file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SourceFile {
    /// Its name.
    pub file: String,
    /// Its language.
    pub language: String,
    /// Its contents.
    pub code: String,
}

/// The action.
pub struct WriteCode;

impl Action for WriteCode {
    type Config = Config;
    type Data = SourceFile;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<SourceFile>, Failure> {
        let mut request = llm::Request::new(prompt(cx)).system(cx.persona());
        request.model.clone_from(&cx.config.model);
        let code = extract_code(&request.send()?, &cx.config.file)?;
        let Config { file, language, .. } = &cx.config;
        let source = SourceFile {
            file: file.clone(),
            language: language.clone(),
            code,
        };
        Ok(Output::new(&source.code).data(source))
    }
}

action!(WriteCode);

fn prompt(cx: &Context<Config>) -> String {
    let Config {
        language,
        file,
        instructions,
        ..
    } = &cx.config;
    let mut prompt = format!(
        "Write the code of `{file}`, in {language}. Reply with the whole file in one fenced code block."
    );
    if !instructions.is_empty() {
        prompt.push_str(&format!(" {instructions}"));
    }
    format!(
        "{prompt}\n\nThis is what you have to go by:\n\n{}",
        cx.briefing()
    )
}

/// Returns the code in a reply. Failures are retryable, because another reply may contain code.
fn extract_code(reply: &llm::Reply, file: &str) -> Result<String, Failure> {
    let refuse =
        |why: &str| Failure::retryable(format!("writing `{file}`: the model's reply {why}"));
    match reply.code() {
        _ if reply.is_truncated() => Err(refuse("was cut off at the limit of tokens")),
        None if reply.text.trim().is_empty() => Err(refuse("is empty")),
        None => Err(refuse("holds no code block")),
        Some(block) if !block.closed => Err(refuse("was cut off in its code block")),
        Some(block) if block.code.trim().is_empty() => Err(refuse("holds an empty code block")),
        Some(block) => Ok(block.code),
    }
}

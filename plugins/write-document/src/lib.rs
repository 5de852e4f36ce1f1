//! `write-document`: asks a language model for a document with given sections.
//!
//! It is for prose such as requirements, a design or a report. The document becomes the text of the
//! message; its title and sections become the data, so that later actions need not parse the text.

mod markdown;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, llm};

pub use markdown::Section;

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What kind of document it is, e.g. `requirements`.
    pub document: String,
    /// Further instructions for the model.
    #[serde(default)]
    pub instructions: String,
    /// The headings it must have, in this order.
    #[serde(default)]
    pub sections: Vec<String>,
    /// The model to ask; the team's model if it is `None`.
    pub model: Option<String>,
}

/// The parsed document.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Document {
    /// The first heading.
    pub title: String,
    /// The parts below the other headings.
    pub sections: Vec<Section>,
}

/// The action.
pub struct WriteDocument;

impl Action for WriteDocument {
    type Config = Config;
    type Data = Document;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Document>, Failure> {
        let mut request = llm::Request::new(prompt(cx)).system(cx.persona());
        request.model.clone_from(&cx.config.model);
        let text = request.send()?.text.trim().to_owned();
        let document = parse_document(&text, &cx.config)?;
        Ok(Output::new(text).data(document))
    }
}

action!(WriteDocument);

fn prompt(cx: &Context<Config>) -> String {
    let Config {
        document,
        instructions,
        sections,
        ..
    } = &cx.config;
    let mut prompt = format!("Write the {document} in Markdown, below a title of level 1.");
    if !sections.is_empty() {
        prompt.push_str(" Give it these sections, in this order, as headings of level 2: ");
        prompt.push_str(&sections.join("; "));
        prompt.push('.');
    }
    if !instructions.is_empty() {
        prompt.push_str(&format!(" {instructions}"));
    }
    format!(
        "{prompt}\n\nThis is what you have to go by:\n\n{}",
        cx.briefing()
    )
}

/// Parses the reply. The failure is retryable, because another reply may have the missing sections.
fn parse_document(text: &str, config: &Config) -> Result<Document, Failure> {
    let kind = &config.document;
    if text.is_empty() {
        return Err(Failure::retryable(format!(
            "writing the {kind}: the model replied nothing"
        )));
    }
    let (title, sections) = markdown::split_sections(text);
    for wanted in &config.sections {
        if !sections
            .iter()
            .any(|section| section.heading.eq_ignore_ascii_case(wanted))
        {
            return Err(Failure::retryable(format!(
                "writing the {kind}: the model's reply has no section `{wanted}`"
            )));
        }
    }
    Ok(Document {
        title: title.unwrap_or_else(|| kind.clone()),
        sections,
    })
}

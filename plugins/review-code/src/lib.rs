//! `review-code`: asks a language model to review a source file and returns its verdict and
//! remarks.
//!
//! The code is in the data of the newest message, either directly as `code`, or in the file at
//! `path`.

mod verdict;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files, llm};

pub use verdict::Verdict;

/// The review's `config` in the team file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the reviewer should check.
    pub criteria: Vec<String>,
    /// The model to ask; the team's model if it is `None`.
    pub model: Option<String>,
}

/// What is to be reviewed: the data of the newest message.
#[derive(Debug, Deserialize)]
struct Submission {
    path: Option<String>,
    code: Option<String>,
    #[serde(default)]
    language: String,
}

/// The parsed review.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Whether the code may stay as it is.
    pub verdict: Verdict,
    /// The single remarks.
    pub remarks: Vec<String>,
}

/// The action.
pub struct ReviewCode;

impl Action for ReviewCode {
    type Config = Config;
    type Data = Review;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Review>, Failure> {
        let submission: Submission = cx.data()?;
        let code = match (submission.code, &submission.path) {
            (Some(code), _) => code,
            (None, Some(path)) => files::read_text(path)?,
            (None, None) => {
                return Err(Failure::error(
                    "reviewing: the data has neither a `code` nor a `path`",
                ));
            }
        };
        let prompt = prompt(&cx.config.criteria, &submission.language, &code);
        let mut request = llm::Request::new(prompt).system(cx.persona());
        request.model.clone_from(&cx.config.model);
        let text = request.send()?.text.trim().to_owned();
        let (verdict, remarks) = verdict::parse_review(&text).ok_or_else(|| {
            Failure::retryable("reviewing: the model's reply does not open with a verdict")
        })?;
        Ok(Output::new(text).data(Review { verdict, remarks }))
    }
}

action!(ReviewCode);

fn prompt(criteria: &[String], language: &str, code: &str) -> String {
    let mut prompt = format!(
        "Review the code below. Open your reply with a line that says either {} or {}, then give your remarks as \
         a list with one remark an item.",
        Verdict::Approved.line(),
        Verdict::ChangesRequested.line()
    );
    if !criteria.is_empty() {
        prompt.push_str(&format!(" Look at these points: {}.", criteria.join("; ")));
    }
    // The fence must be longer than any in the code itself.
    let mut fence = "```".to_owned();
    while code.contains(&fence) {
        fence.push('`');
    }
    format!(
        "{prompt}\n\n{fence}{language}\n{}\n{fence}",
        code.trim_end()
    )
}

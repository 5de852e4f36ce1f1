//! `deal-files`: lists the files of a granted directory and deals them to workers.
//!
//! All shares are in one message, which the team file's routes bring to the workers; each takes its own. What is in the
//! files is the workers' business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// More files make messages that no one can read.
const MAX_FILES: usize = 10_000;
/// A deeper tree is a loop of links.
const MAX_DEPTH: usize = 16;

/// What the team file says of the work.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory, by its guest path.
    pub directory: String,
    /// Who gets the files: roles by name.
    pub workers: Vec<String>,
}

/// What was dealt.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Dealt {
    /// The files of each worker, by their guest paths; none for one that there was no file for.
    pub shares: BTreeMap<String, Vec<String>>,
}

/// The action.
pub struct DealFiles;

impl Action for DealFiles {
    type Config = Config;
    type Data = Dealt;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<Dealt>, Failure> {
        let Config { directory, workers } = &cx.config;
        if workers.is_empty() {
            return Err(Failure::error(
                "dealing files: the config names no `workers`",
            ));
        }
        let mut found = Vec::new();
        list(directory.trim_end_matches('/'), 0, &mut found)?;
        let share = |(i, worker): (usize, &String)| {
            // In turns, so that neighbours, which are often alike, do not end in one hand.
            (
                worker.clone(),
                found
                    .iter()
                    .skip(i)
                    .step_by(workers.len())
                    .cloned()
                    .collect(),
            )
        };
        let dealt = Dealt {
            shares: workers.iter().enumerate().map(share).collect(),
        };
        Ok(Output::new(format!(
            "dealt {} files to {} workers",
            found.len(),
            workers.len()
        ))
        .data(dealt))
    }
}

action!(DealFiles);

/// Finds the files below a directory, in the order of their names.
fn list(directory: &str, depth: usize, found: &mut Vec<String>) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::error(format!("listing `{directory}`: {why}")));
    if depth == MAX_DEPTH {
        return refuse(format!("it lies more than {MAX_DEPTH} directories deep"));
    }
    for name in files::list(directory)? {
        let path = format!("{directory}/{name}");
        match path.strip_suffix('/') {
            Some(inner) => list(inner, depth + 1, found)?,
            None if found.len() == MAX_FILES => {
                return refuse(format!("there are more than {MAX_FILES} files"));
            }
            None => found.push(path),
        }
    }
    Ok(())
}

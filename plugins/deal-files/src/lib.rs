//! `deal-files`: lists the files of a granted directory and distributes them to workers.
//!
//! All shares are in one message, which the team file's routes send to the workers; each worker
//! takes its own share. The files are not read here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// The largest number of files, so that the message stays manageable.
const MAX_FILES: usize = 10_000;
/// The largest depth. A deeper tree is most likely a cycle of links.
const MAX_DEPTH: usize = 16;

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory, by its guest path.
    pub directory: String,
    /// The names of the roles that get the files.
    pub workers: Vec<String>,
}

/// The distributed files.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FileShares {
    /// The files of each worker, by their guest paths. The list is empty for a worker if there are
    /// not enough files.
    pub shares: BTreeMap<String, Vec<String>>,
}

/// The action.
pub struct DealFiles;

impl Action for DealFiles {
    type Config = Config;
    type Data = FileShares;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<FileShares>, Failure> {
        let Config { directory, workers } = &cx.config;
        if workers.is_empty() {
            return Err(Failure::error(
                "dealing files: the config names no `workers`",
            ));
        }
        let mut found = Vec::new();
        list_files(directory.trim_end_matches('/'), 0, &mut found)?;
        let mut dealt = FileShares {
            shares: BTreeMap::new(),
        };
        for (i, worker) in workers.iter().enumerate() {
            // The files are dealt in turn, so that neighbouring files, which are often similar, go
            // to different workers.
            let share = found.iter().skip(i).step_by(workers.len()).cloned();
            dealt.shares.insert(worker.clone(), share.collect());
        }
        Ok(Output::new(format!(
            "dealt {} files to {} workers",
            found.len(),
            workers.len()
        ))
        .data(dealt))
    }
}

action!(DealFiles);

/// Lists the files below a directory, sorted by name.
fn list_files(directory: &str, depth: usize, found: &mut Vec<String>) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::error(format!("listing `{directory}`: {why}")));
    if depth == MAX_DEPTH {
        return refuse(format!("it lies more than {MAX_DEPTH} directories deep"));
    }
    for name in files::list(directory)? {
        let path = format!("{directory}/{name}");
        match path.strip_suffix('/') {
            Some(inner) => list_files(inner, depth + 1, found)?,
            None if found.len() == MAX_FILES => {
                return refuse(format!("there are more than {MAX_FILES} files"));
            }
            None => found.push(path),
        }
    }
    Ok(())
}

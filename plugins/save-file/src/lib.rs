//! `save-file`: saves the file that an earlier action produced in a directory that the team grants.
//!
//! It handles the output of `write-code`, or any data with a `file` and its `code`. It calls no
//! model, so it can be retried without cost.

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory, by its guest path, e.g. `/out`.
    pub directory: String,
}

/// The file to be saved: the data of the newest message.
#[derive(Debug, Deserialize)]
struct SourceFile {
    file: String,
    #[serde(default)]
    language: String,
    code: String,
}

/// The saved file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The guest path.
    pub path: String,
    /// The language; empty if it is unknown.
    pub language: String,
    /// How many bytes were written.
    pub bytes: usize,
}

/// The action.
pub struct SaveFile;

impl Action for SaveFile {
    type Config = Config;
    type Data = Saved;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<Saved>, Failure> {
        let SourceFile {
            file,
            language,
            code,
        } = cx.data()?;
        let path = file_path(&cx.config.directory, &file)?;
        files::write(&path, &code)?;
        let saved = Saved {
            path,
            language,
            bytes: code.len(),
        };
        Ok(Output::new(format!("saved `{}` ({} bytes)", saved.path, saved.bytes)).data(saved))
    }
}

action!(SaveFile);

/// Returns the path of the file. Its name comes from a message and is checked: it must be a name
/// below the directory. The host prevents access outside of the directory anyway, but a name such
/// as `a/../b` could refer to another file in it.
fn file_path(directory: &str, file: &str) -> Result<String, Failure> {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    if !file.split('/').all(is_name) {
        return Err(Failure::error(format!(
            "saving `{file}`: that is no name of a file below `{directory}`"
        )));
    }
    Ok(format!("{}/{file}", directory.trim_end_matches('/')))
}

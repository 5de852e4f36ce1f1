//! `save-file`: saves the file that an earlier action made into a directory that the team grants.
//!
//! It takes what `write-code` returns, or any data with a `file` and its `code`. It asks nobody anything, so it can
//! be tried again at no cost.

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// What the team file says of the place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The directory, by its guest path, e.g. `/out`.
    pub directory: String,
}

/// What is to be saved: the data of the newest message.
#[derive(Debug, Deserialize)]
struct SourceFile {
    file: String,
    #[serde(default)]
    language: String,
    code: String,
}

/// What was saved.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The guest path.
    pub path: String,
    /// The language; empty where it is not known.
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
        let path = path(&cx.config.directory, &file)?;
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

/// The file's place. Its name comes from a message, so it is trusted to name a file and nothing else; the host
/// would refuse a way out of the directory, but not another file in it.
fn path(directory: &str, file: &str) -> Result<String, Failure> {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    if !file.split('/').all(is_name) {
        return Err(Failure::error(format!(
            "saving `{file}`: that is no name of a file below `{directory}`"
        )));
    }
    Ok(format!("{}/{file}", directory.trim_end_matches('/')))
}

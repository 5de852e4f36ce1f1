//! `merge-counts`: adds up the counts of several workers and writes a table of them.
//!
//! It handles what a join releases: one message of each worker, with the output of `count-words`.
//! The result does not depend on which worker counted which files.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The guest path to which the table is written.
    pub path: String,
    /// How many of the most frequent words it shows.
    #[serde(default = "default_top")]
    pub top: usize,
}

/// The number of words that fit on a screen.
fn default_top() -> usize {
    20
}

/// The counts of one worker.
#[derive(Debug, Deserialize)]
struct Counts {
    files: BTreeMap<String, u64>,
    #[serde(default)]
    skipped: Vec<String>,
    words: BTreeMap<String, u64>,
}

/// The totals of all workers.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// The number of files that contain text.
    pub files: usize,
    /// The number of words in them.
    pub words: u64,
    /// The number of different words.
    pub different: usize,
    /// The guest path of the table.
    pub path: String,
}

/// The action.
pub struct MergeCounts;

impl Action for MergeCounts {
    type Config = Config;
    type Data = Totals;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<Totals>, Failure> {
        let mut all = Counts {
            files: BTreeMap::new(),
            skipped: Vec::new(),
            words: BTreeMap::new(),
        };
        for message in &cx.news {
            let counts: Counts = message.parse()?;
            all.skipped.extend(counts.skipped);
            for (file, count) in counts.files {
                *all.files.entry(file).or_default() += count;
            }
            for (word, count) in counts.words {
                *all.words.entry(word).or_default() += count;
            }
        }
        all.skipped.sort();
        let Config { path, top } = &cx.config;
        files::write(path, render_table(&all, *top))?;
        let words = all.files.values().sum();
        let sum = Totals {
            files: all.files.len(),
            words,
            different: all.words.len(),
            path: path.clone(),
        };
        let text = format!(
            "{words} words in {} files, {} of them different: `{path}`",
            sum.files, sum.different
        );
        Ok(Output::new(text).data(sum))
    }
}

action!(MergeCounts);

/// Renders the table in Markdown.
fn render_table(all: &Counts, top: usize) -> String {
    let mut text = "# Words\n\n| file | words |\n|---|---:|\n".to_owned();
    for (file, count) in &all.files {
        text.push_str(&format!("| {} | {count} |\n", escape_cell(file)));
    }
    for file in &all.skipped {
        text.push_str(&format!("| {} | no text |\n", escape_cell(file)));
    }
    text.push_str("\n| word | times |\n|---|---:|\n");
    let mut words: Vec<(&String, &u64)> = all.words.iter().collect();
    words.sort_by_key(|(word, count)| (Reverse(**count), *word));
    for (word, count) in words.into_iter().take(top) {
        text.push_str(&format!("| {word} | {count} |\n"));
    }
    text
}

/// Escapes a file name for a cell of a Markdown table.
fn escape_cell(name: &str) -> String {
    name.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace(char::is_control, " ")
}

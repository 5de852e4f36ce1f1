//! `count-words`: counts the words of the files that are assigned to it.
//!
//! It takes its share of the files that `deal-files` distributes. `merge-counts` adds up the counts
//! of several workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files};

/// The largest number of different words, so that they fit in a message. It is that of a large
/// dictionary.
const MAX_WORDS: usize = 50_000;
/// The longest word, in characters. Longer ones are counted, but not listed.
const MAX_WORD_CHARS: usize = 64;

/// The files to be counted: the data of the newest message.
#[derive(Debug, Deserialize)]
struct FileShares {
    shares: BTreeMap<String, Vec<String>>,
}

/// The result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// How many words each file has.
    pub files: BTreeMap<String, u32>,
    /// The files that do not contain text.
    pub skipped: Vec<String>,
    /// How often each word occurs, in lower case.
    pub words: BTreeMap<String, u32>,
}

/// The action.
pub struct CountWords;

impl Action for CountWords {
    type Config = ();
    type Data = Counts;

    const OUTPUT_SCHEMA: Option<&'static str> = Some(include_str!("../output.schema.json"));
    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<()>) -> Result<Output<Counts>, Failure> {
        let mut dealt: FileShares = cx.data()?;
        let name = &cx.role.name;
        let share = dealt.shares.remove(name);
        let share = share.ok_or_else(|| {
            Failure::error(format!("counting words: there is no share for `{name}`"))
        })?;
        let mut counts = Counts {
            files: BTreeMap::new(),
            skipped: Vec::new(),
            words: BTreeMap::new(),
        };
        for path in share {
            match String::from_utf8(files::read(&path)?) {
                Ok(text) if !text.contains('\0') => {
                    let count = count_words(&text, &mut counts.words)?;
                    counts.files.insert(path, count);
                }
                _ => counts.skipped.push(path),
            }
        }
        let sum: u32 = counts
            .files
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count));
        let text = format!(
            "{sum} words in {} files, {} of them different",
            counts.files.len(),
            counts.words.len()
        );
        Ok(Output::new(text).data(counts))
    }
}

action!(CountWords);

/// Counts the words of a text. A word consists of letters, digits, and apostrophes between them.
fn count_words(text: &str, words: &mut BTreeMap<String, u32>) -> Result<u32, Failure> {
    let mut sum: u32 = 0;
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’') {
        let word = word.trim_matches(['\'', '’']);
        if word.is_empty() {
            continue;
        }
        sum = sum.saturating_add(1);
        if word.chars().count() > MAX_WORD_CHARS {
            continue;
        }
        let count = words.entry(word.to_lowercase()).or_default();
        *count = count.saturating_add(1);
        if words.len() > MAX_WORDS {
            return Err(Failure::error(format!(
                "counting words: there are more than {MAX_WORDS} different ones"
            )));
        }
    }
    Ok(sum)
}

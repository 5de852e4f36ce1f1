//! `read`: reads the measurements of a weather station from a file with one line per day. They are
//! evaluated by other actions.

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Output, action, files, log};

/// The action's `config` in the team file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, by its guest path.
    pub file: String,
}

/// The measurements in one line.
#[derive(Debug, PartialEq, Serialize)]
pub struct Reading {
    /// The day.
    pub day: String,
    /// The temperature in degrees Celsius.
    pub temperature: f64,
    /// The wind speed in kilometres per hour.
    pub wind: f64,
}

/// The contents of the file.
#[derive(Debug, PartialEq, Serialize)]
pub struct Readings {
    /// The readings, one per day, in the order of the file.
    pub readings: Vec<Reading>,
    /// The numbers of the lines that are not readings.
    pub skipped: Vec<usize>,
}

/// The action.
pub struct Read;

impl Action for Read {
    type Config = Config;
    type Data = Readings;

    const NEEDS: &'static [&'static str] = &["files"];

    fn run(cx: &Context<Config>) -> Result<Output<Readings>, Failure> {
        let file = &cx.config.file;
        let text = files::read_text(file)?;
        let mut found = Readings {
            readings: Vec::new(),
            skipped: Vec::new(),
        };
        for (line, number) in text.lines().zip(1..).skip(1) {
            match parse_reading(line) {
                Some(reading) => found.readings.push(reading),
                None => {
                    log::warn(&format!(
                        "line {number} of `{file}` is no reading: `{line}`"
                    ));
                    found.skipped.push(number);
                }
            }
        }
        if found.readings.len() < 2 {
            return Err(Failure::error(format!(
                "reading `{file}`: it has no two readings; a line is `day,°C,km/h`"
            )));
        }
        let Readings { readings, skipped } = &found;
        Ok(Output::new(format!(
            "{} readings, {} lines skipped",
            readings.len(),
            skipped.len()
        ))
        .data(found))
    }
}

action!(Read);

fn parse_reading(line: &str) -> Option<Reading> {
    let mut fields = line.split(',').map(str::trim);
    let day = fields.next().filter(|day| !day.is_empty())?.to_owned();
    let (temperature, wind) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some(Reading {
        day,
        temperature,
        wind,
    })
}

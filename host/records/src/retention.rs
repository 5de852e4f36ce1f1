//! For how long runs are kept that have ended.

use std::collections::BTreeMap;
use std::fmt;

use strata_base::text::suggest::did_you_mean;
use strata_core::record::event::Status;

use super::overview::has_ended;

/// The units of a span of time, the largest first, in milliseconds.
const UNITS: [(char, i64); 4] = [
    ('d', 86_400_000),
    ('h', 3_600_000),
    ('m', 60_000),
    ('s', 1000),
];

/// What was deleted of runs that are kept no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// How many runs disappeared.
    pub runs: u64,
    /// Whether something may be left to do.
    pub has_more: bool,
}

/// For how long runs are kept that have ended, by their status. Others are kept for ever.
///
/// ```
/// use strata_records::Retention;
///
/// let retention = Retention::parse("done=30d,failed=90d").unwrap();
/// assert_eq!(retention.to_string(), "done=30d,failed=90d");
/// assert!(Retention::parse("running=1d").is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(BTreeMap<&'static str, i64>);

impl Retention {
    /// Parses `STATUS=TIME,…`. An empty text means that all runs are kept.
    ///
    /// # Errors
    /// Fails with a text that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut kept = BTreeMap::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, span) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not STATUS=TIME, as in `done=30d`"))?;
            let status = ended_status(name.trim())?;
            let span = parse_span(span.trim()).ok_or_else(|| {
                format!("`{span}` is no span of time: `90s`, `15m`, `24h` or `30d`")
            })?;
            if kept.insert(status.name(), span).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        Ok(Self(kept))
    }

    /// Whether all runs are kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns for how many milliseconds runs are kept, by the name of their status.
    pub fn spans(&self) -> &BTreeMap<&'static str, i64> {
        &self.0
    }
}

/// Shows it in the form in which it is parsed.
impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (status, span)) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "," };
            write!(f, "{separator}{status}={}", SpanText(*span))?;
        }
        Ok(())
    }
}

/// A span of time in milliseconds, as it is written.
pub struct SpanText(pub i64);

impl fmt::Display for SpanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = UNITS.iter().find(|(_, ms)| self.0 > 0 && self.0 % ms == 0);
        match fitting {
            Some((unit, ms)) => write!(f, "{}{unit}", self.0 / ms),
            None => write!(f, "{}s", self.0 / 1000),
        }
    }
}

/// Returns the status of this name, if a run with it has ended.
fn ended_status(name: &str) -> Result<Status, String> {
    let ended: Vec<Status> = Status::ALL
        .into_iter()
        .filter(|status| has_ended(*status))
        .collect();
    let names: Vec<&str> = ended.iter().map(|status| status.name()).collect();
    match ended.iter().find(|status| status.name() == name) {
        Some(status) => Ok(*status),
        None => {
            let hint = did_you_mean(name, names.iter().copied());
            Err(format!(
                "`{name}` is no status of a run that has ended; these are: {}{hint}",
                names.join(", ")
            ))
        }
    }
}

/// Parses a span of time, and returns it in milliseconds.
fn parse_span(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    i64::from(number).checked_mul(*ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_how_long_is_read_and_shown_in_the_same_form() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let parsed = Retention::parse(text).map(|retention| retention.to_string());
            match (parsed, expected) {
                (Ok(shown), Ok(expected)) => assert_eq!(shown, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        };
        check("failed=90d, done=30d", Ok("done=30d,failed=90d"));
        check("done=0s", Ok("done=0s"));
        check("done=90m", Ok("done=90m"));
        check("", Ok(""));
        check("running=1d", Err("no status of a run that has ended"));
        check("waiting=1d", Err("no status of a run that has ended"));
        check("done", Err("is not STATUS=TIME"));
        check("done=1", Err("no span of time"));
        check("done=-1d", Err("no span of time"));
        check("done=1d,done=2d", Err("given twice"));
        check("done=99999999999d", Err("no span of time"));
    }
}

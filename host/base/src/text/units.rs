//! Parses and formats sizes and durations as people write them. Which keys accept them is decided
//! by the code that reads these keys.

use std::ops::RangeInclusive;
use std::time::Duration;

use strata_core::record::money::Usd;

/// The amounts in USD that are valid as a budget or a price.
pub const AMOUNTS: RangeInclusive<f64> = 0.0..=Usd::MAX_DOLLARS;

/// The longest duration. It keeps every duration within 32 bits of milliseconds.
const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

const SIZES: [(&str, u64); 9] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

const TOKEN_COUNTS: [(&str, u64); 5] = [
    ("k", 1_000),
    ("K", 1_000),
    ("m", 1_000_000),
    ("M", 1_000_000),
    ("", 1),
];

const DURATIONS: [(&str, u64); 4] = [
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// Words that people write for units of time, in the singular.
const DURATION_WORDS: [(&str, &str); 13] = [
    ("ms", "ms"),
    ("msec", "ms"),
    ("milli", "ms"),
    ("millisecond", "ms"),
    ("s", "s"),
    ("sec", "s"),
    ("second", "s"),
    ("m", "m"),
    ("min", "m"),
    ("minute", "m"),
    ("h", "h"),
    ("hr", "h"),
    ("hour", "h"),
];

/// Returns a question whether `number` with `unit` was meant, followed by a space; empty if there
/// is no unit.
fn unit_suggestion(number: &str, unit: Option<&str>) -> String {
    let unit = unit.filter(|_| !number.is_empty());
    unit.map(|unit| format!("did you mean `{number}{unit}`? "))
        .unwrap_or_default()
}

/// Parses a size, such as `64MiB`, `1.5 GB` or `4096`, into bytes. Fails with a hint.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let Some((_, factor)) = SIZES.iter().find(|(name, _)| *name == unit) else {
        let meant = SIZES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(name, _)| *name);
        let what = "a size is a number with B, KB, MB, GB, KiB, MiB or GiB: `64MiB`";
        return Err(unit_suggestion(number, meant) + what);
    };
    parse_scaled(number, *factor)
        .ok_or_else(|| "expected a number that fits 64 bits: `64MiB`".into())
}

/// Parses a number of tokens, such as `100k`, `1.5M` or `4096`. Fails with a hint.
pub fn parse_token_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = TOKEN_COUNTS.iter().find(|(name, _)| *name == unit);
    let count = factor.and_then(|(_, factor)| parse_scaled(number, *factor));
    count.ok_or_else(|| "a number of tokens is a number, or one with k or M: `100k`".into())
}

/// Parses a duration, such as `500ms`, `1.5s`, `2m` or `1h`. Fails with a hint.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let Some((_, factor)) = DURATIONS.iter().find(|(name, _)| *name == unit) else {
        let unit = unit.to_ascii_lowercase();
        let meant = DURATION_WORDS
            .iter()
            .find(|(word, _)| *word == unit || format!("{word}s") == unit);
        let what = "a duration is a number with ms, s, m or h: `1.5s`";
        return Err(unit_suggestion(number, meant.map(|(_, name)| *name)) + what);
    };
    let nanos = parse_scaled(number, *factor)
        .ok_or("expected a number that comes to at most `720h`: `1.5s`")?;
    let duration = Duration::from_nanos(nanos);
    if duration > MAX_DURATION {
        return Err("the longest duration is `720h`".into());
    }
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("the shortest unit is one millisecond: `1ms`".into());
    }
    Ok(duration)
}

/// Returns a regular expression that matches sizes.
pub fn size_pattern() -> String {
    quantity_pattern(&SIZES.map(|(unit, _)| unit))
}

/// Returns a regular expression that matches numbers of tokens.
pub fn token_count_pattern() -> String {
    quantity_pattern(&TOKEN_COUNTS.map(|(unit, _)| unit))
}

/// Returns a regular expression that matches durations.
pub fn duration_pattern() -> String {
    quantity_pattern(&DURATIONS.map(|(unit, _)| unit))
}

fn quantity_pattern(units: &[&str]) -> String {
    format!(
        r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:{})\s*",
        units.join("|")
    )
}

/// Splits a quantity into its number and its unit.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// Multiplies a decimal number by a factor. Returns `None` if it is not a number or the product
/// does not fit.
fn parse_scaled(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let product = number.parse::<f64>().ok()? * factor as f64;
    // 2^63 is above every meaningful size. Above 2^53 an `f64` holds no fractions anyway.
    (product < 9.2e18).then(|| product.round() as u64)
}

/// Formats a size in the largest unit that represents it exactly.
pub fn format_size(bytes: u64) -> String {
    let unit = SIZES
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{} {name}", bytes / factor),
        None => "0 B".into(),
    }
}

/// Formats a duration in the largest unit that represents it exactly.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units
        .iter()
        .find(|(_, f)| ms >= *f && ms.is_multiple_of(*f))
    {
        Some((name, factor)) => format!("{} {name}", ms / factor),
        None => format!("{ms} ms"),
    }
}

/// Formats a size for people: `64 MiB`, `33.1 MiB`. It is rounded up, so that a size over a limit
/// also looks like it.
pub fn format_bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (name, size) in UNITS {
        if count >= size && count.is_multiple_of(size) {
            return format!("{} {name}", count / size);
        }
        if count >= size {
            let tenths = count.saturating_mul(10).div_ceil(size);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_decimal_and_binary_units() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        };
        check("64MiB", Some(64 << 20));
        check("64 MiB", Some(64 << 20));
        check("1.5KiB", Some(1536));
        check("1kB", Some(1000));
        check("1KB", Some(1000));
        check("2GB", Some(2_000_000_000));
        check("7B", Some(7));
        check("7", Some(7));
        check("0", Some(0));
        check("", None);
        check("64 bananas", None);
        check("MiB", None);
        check("1.2.3MB", None);
        check("-1MB", None);
        check("64mib", None);
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551615GiB", None);
        check("99999999999999999999", None);
        check(".", None);
    }

    #[test]
    fn units_that_are_nearly_right_are_asked_about() {
        let of_size = |text: &str| parse_size(text).unwrap_err();
        let of_duration = |text: &str| parse_duration(text).unwrap_err();
        assert!(
            of_size("64mib").starts_with("did you mean `64MiB`? a size is"),
            "{}",
            of_size("64mib")
        );
        assert!(
            of_size("64 gb").starts_with("did you mean `64GB`?"),
            "{}",
            of_size("64 gb")
        );
        assert!(
            of_size("64 bananas").starts_with("a size is"),
            "{}",
            of_size("64 bananas")
        );
        for (text, meant) in [
            ("10sec", "10s"),
            ("5 minutes", "5m"),
            ("1 Hour", "1h"),
            ("20MS", "20ms"),
        ] {
            assert!(
                of_duration(text).starts_with(&format!("did you mean `{meant}`?")),
                "{}",
                of_duration(text)
            );
        }
        assert!(
            of_duration("fast").starts_with("a duration is"),
            "{}",
            of_duration("fast")
        );
    }

    #[test]
    fn durations_are_read_down_to_a_millisecond() {
        let check = |text: &str, expected: Option<u64>| {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        };
        check("500ms", Some(500));
        check("1.5s", Some(1500));
        check("0.001s", Some(1));
        check("2m", Some(120_000));
        check("1h", Some(3_600_000));
        check("0s", Some(0));
        check("720h", Some(2_592_000_000));
        check("721h", None);
        check("0.1ms", None);
        check("fast", None);
        check("10", None);
        check("s", None);
        check("-1s", None);
        check("1e3s", None);
        check("infs", None);
    }

    #[test]
    fn units_are_shown_exactly_and_read_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 64 << 20, 64_000_000, 4 << 30, 12345] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        for ms in [0, 1, 999, 1000, 1500, 60_000, 90_000, 3_600_000] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        assert_eq!(format_size(32 << 20), "32 MiB");
        assert_eq!(format_duration(Duration::from_secs(120)), "2 m");
    }
}

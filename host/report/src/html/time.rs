//! Formats times, durations, amounts of money and numbers for people.

use maud::{Markup, html};
use strata_core::record::money::Usd;

use strata_base::clock::rfc3339;

/// How many characters are shown of a time of day: `23:03:14`, or `23:03:14.120`.
const CLOCK_CHARS: usize = 8;
const FINE_CLOCK_CHARS: usize = 12;
/// The ends of shorter spans are shown with milliseconds.
const MAX_FINE_SPAN_MS: i64 = 10_000;

/// Formats a time as an HTML `time` element.
pub(super) fn format_time(time_ms: i64) -> Markup {
    format_time_with(time_ms, false)
}

/// Formats a time without its date, which is shown when it is pointed at.
pub(super) fn format_clock(time_ms: i64) -> Markup {
    let full = rfc3339(time_ms);
    let (_, rest) = full.split_once('T').unwrap_or(("", &full));
    let clock = rest.get(..CLOCK_CHARS).unwrap_or(rest);
    html! { time datetime=(full) title=(full) { (clock) } }
}

fn format_time_with(time_ms: i64, fine: bool) -> Markup {
    let full = rfc3339(time_ms);
    let (date, rest) = full.split_once('T').unwrap_or((&full, ""));
    let clock = rest
        .get(..if fine { FINE_CLOCK_CHARS } else { CLOCK_CHARS })
        .unwrap_or(rest);
    html! { time datetime=(full) title=(full) { (date) " " (clock) } }
}

/// Formats the ends of a span of time, with milliseconds if the two could look equal otherwise.
pub(super) fn format_span(from_ms: i64, to_ms: i64) -> (Markup, Markup) {
    let fine = to_ms.saturating_sub(from_ms) < MAX_FINE_SPAN_MS;
    (
        format_time_with(from_ms, fine),
        format_time_with(to_ms, fine),
    )
}

/// Formats a duration.
pub(super) fn format_duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{:.1} s", ms as f64 / 1000.0),
        10_000..120_000 => format!("{} s", ms / 1000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

/// Formats an amount of money; zero is a dash.
pub(super) fn format_money(usd: Usd) -> String {
    if usd == Usd::ZERO {
        "–".into()
    } else {
        usd.to_string()
    }
}

/// Formats a number with its digits in groups of three.
pub(super) fn format_number(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun in the singular or plural.
pub(super) fn pluralize(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        format_number(number),
        if number == 1 { one } else { many }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_span_is_shown_to_the_millisecond() {
        let ends = |from, to| {
            let (from, to) = format_span(from, to);
            (
                from.0.contains(" 00:00:01</time>"),
                to.0.contains(".480</time>"),
            )
        };
        assert_eq!(ends(1_000, 1_480), (false, true));
        assert_eq!(ends(1_000, 11_480), (true, false));
    }

    #[test]
    fn durations_and_numbers_are_short() {
        let check = |ms: i64, expected: &str| assert_eq!(format_duration(ms), expected);
        check(-5, "0 ms");
        check(999, "999 ms");
        check(1_500, "1.5 s");
        check(61_000, "61 s");
        check(600_000, "10 min");
        check(86_400_000, "24 h");
        check(864_000_000, "10 days");
        let check = |number: u64, expected: &str| assert_eq!(format_number(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
    }
}

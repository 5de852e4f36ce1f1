//! Compares an output with the one in a page: `[..]` matches anything within a line, and `...` any
//! number of lines. Times, digests and names of runs are ignored, and so is the order of the
//! actions of a step.

use std::sync::LazyLock;

use regex::Regex;

/// Parts that differ between runs, and their replacements.
static UNSTEADY: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\b[0-9a-f]{12}\b", "RUN"),
        (r"\bmain\.[0-9a-f]{8}\b", "main.FORK"),
        (r"\+0x[0-9a-f]+", "+OFFSET"),
        (r"(?m)^ +\d+\.\ds ", "ELAPSED "),
        // Only shown on a slow machine.
        (r"(?m)^still .*\(\d+m?\d*s\)\n", ""),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
});

fn without_times_and_digests(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    for (pattern, name) in UNSTEADY.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    in_order(&text)
}

/// Returns the text with the lines about actions of one step sorted by name.
fn in_order(text: &str) -> String {
    let step = |line: &&str| {
        line.strip_prefix("ELAPSED")?
            .split_whitespace()
            .nth(1)
            .map(str::to_owned)
    };
    let mut lines: Vec<&str> = text.lines().collect();
    for same in lines.chunk_by_mut(|one, next| step(one).is_some() && step(one) == step(next)) {
        same.sort_unstable();
    }
    lines.join("\n")
}

/// Returns whether `actual` matches `shown`.
pub fn fits(shown: &str, actual: &str) -> bool {
    let (shown, actual) = (
        without_times_and_digests(shown),
        without_times_and_digests(actual),
    );
    let shown: Vec<_> = shown.lines().collect();
    let actual: Vec<_> = actual.lines().collect();
    lines_fit(&shown, &actual)
}

fn lines_fit(shown: &[&str], actual: &[&str]) -> bool {
    match shown.split_first() {
        None => actual.is_empty(),
        Some((&"...", rest)) => {
            (0..=actual.len()).any(|skipped| lines_fit(rest, &actual[skipped..]))
        }
        Some((line, rest)) => actual
            .split_first()
            .is_some_and(|(first, more)| line_fits(line, first) && lines_fit(rest, more)),
    }
}

fn line_fits(shown: &str, actual: &str) -> bool {
    match shown.trim_end().split_once("[..]") {
        None => shown.trim_end() == actual.trim_end(),
        Some((start, rest)) => actual.strip_prefix(start).is_some_and(|after| {
            after
                .char_indices()
                .map(|(at, _)| at)
                .chain([after.len()])
                .any(|at| line_fits(rest, &after[at..]))
        }),
    }
}

#[test]
fn outputs_match_what_a_page_shows() {
    let check = |shown: &str, actual: &str, expected: bool| {
        assert_eq!(fits(shown, actual), expected, "{shown}")
    };
    check("a\nb\n", "a\nb", true);
    check("a\n", "a\nb", false);
    check("a\n...\n", "a\nb\nc", true);
    check("...\nc", "a\nb\nc", true);
    check("...\nd", "a\nb\nc", false);
    check(
        "  0.1s  step 1   A.a  ok\n  0.1s  step 1   B.b  ok",
        "  0.2s  step 1   B.b  ok\n  0.3s  step 1   A.a  ok",
        true,
    );
    check(
        "  0.1s  step 1   A.a  ok\n  0.1s  step 2   B.b  ok",
        "  0.2s  step 2   B.b  ok\n  0.3s  step 1   A.a  ok",
        false,
    );
    check("a [..] c", "a b c", true);
    check("a [..] c", "a b d", false);
    check("[..]s done", "0.1s done", true);
    check(
        "run 0123456789ab at 2026-01-01T00:00:00.000Z",
        "run ba9876543210 at 2027-02-02T11:22:33.444Z",
        true,
    );
    check("   12.5s  step 0", "    0.1s  step 0", true);
    check("    0.1s  step 0", "    0.1s  step 1", false);
}

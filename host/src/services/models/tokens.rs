//! Token usage of requests, as the endpoint reports it or as it is estimated.

use serde_json::Value;

use super::ModelRequest;

/// The approximate number of characters per token in English text.
const CHARS_PER_TOKEN: usize = 4;

/// The number of tokens of a typical reply.
const TYPICAL_REPLY_TOKENS: u32 = 1024;

/// The maximum number of tokens that is assumed for a reply, whatever the request allows. No model
/// writes more in one reply.
const MAX_REPLY_TOKENS: u32 = 1 << 18;

/// The tokens of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// The tokens of the request, including cached ones.
    pub input: u32,
    /// The tokens of the reply.
    pub output: u32,
    /// The part of `input` that the provider read from its cache.
    pub cached: u32,
}

impl TokenCounts {
    /// Returns counts without cached tokens.
    pub fn new(input: u32, output: u32) -> Self {
        Self {
            input,
            output,
            cached: 0,
        }
    }

    /// Returns the sum of input and output tokens.
    pub fn total(self) -> u64 {
        u64::from(self.input) + u64::from(self.output)
    }

    /// Returns the sum of two counts.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
        }
    }
}

/// Returns the approximate number of tokens in these texts.
pub(super) fn estimate_tokens<'a>(texts: impl IntoIterator<Item = &'a str>) -> u32 {
    let chars: usize = texts.into_iter().map(|t| t.chars().count()).sum();
    u32::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u32::MAX)
}

/// Returns the number of tokens in a request, and the expected maximum of its reply.
pub(super) fn expected_tokens(request: &ModelRequest) -> TokenCounts {
    TokenCounts::new(
        estimate_tokens(request.texts()),
        request
            .max_tokens
            .unwrap_or(TYPICAL_REPLY_TOKENS)
            .min(MAX_REPLY_TOKENS),
    )
}

/// The usage that an endpoint reports. A field is `None` if it is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedUsage {
    pub(super) input: Option<u32>,
    pub(super) output: Option<u32>,
    /// The sum of input and output tokens.
    pub(super) total: Option<u32>,
    /// The part of `input` that came from a cache.
    pub(super) cached: Option<u32>,
}

impl ReportedUsage {
    /// Returns whether the report determines both the input and the output tokens.
    pub(super) fn is_complete(self) -> bool {
        let known = [self.input, self.output, self.total]
            .into_iter()
            .flatten()
            .count();
        known >= 2
    }

    /// Returns whether the endpoint reported anything.
    pub(super) fn is_known(self) -> bool {
        [self.input, self.output, self.total]
            .into_iter()
            .any(|count| count.is_some())
    }

    /// Returns the tokens of a request, with `guess` in place of what is not reported. Their sum is
    /// never less than the reported total, so that token limits hold.
    pub(super) fn or_estimate(self, guess: TokenCounts) -> TokenCounts {
        let (input, output) = match (self.input, self.output, self.total) {
            (Some(input), Some(output), _) => (input, output),
            (Some(input), None, Some(total)) => (input, total.saturating_sub(input)),
            (None, Some(output), Some(total)) => (total.saturating_sub(output), output),
            (None, None, Some(total)) => {
                let input = guess.input.min(total);
                (input, total - input)
            }
            (input, output, None) => (input.unwrap_or(guess.input), output.unwrap_or(guess.output)),
        };
        TokenCounts {
            input,
            output,
            cached: self.cached.unwrap_or_default().min(input),
        }
    }
}

/// Parses a number of tokens, which some endpoints write as a string or with a fraction. Returns
/// `None` for values that cannot be a count, such as negative numbers.
pub(super) fn parse_token_count(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // `as` saturates. A fraction of a token counts as one.
    (number.is_finite() && number >= 0.0).then(|| number.ceil() as u32)
}

/// The usage of a request without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageWithoutReply {
    /// Nothing, as far as is known.
    Nothing,
    /// The reported number of tokens.
    Tokens(TokenCounts),
    /// Unknown, because the endpoint may still be working, or the reply broke off. The reserved
    /// amount is assumed.
    Unknown,
}

impl UsageWithoutReply {
    /// Returns the tokens of the request and its reply.
    pub(super) fn tokens(self, request: &ModelRequest) -> TokenCounts {
        match self {
            Self::Nothing => TokenCounts::default(),
            Self::Tokens(tokens) => tokens,
            Self::Unknown => expected_tokens(request),
        }
    }

    /// Returns the sum of two usages.
    pub(super) fn plus(self, other: Self, request: &ModelRequest) -> Self {
        match (self, other) {
            (Self::Nothing, used) | (used, Self::Nothing) => used,
            _ => Self::Tokens(self.tokens(request).plus(other.tokens(request))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_tokens_are_read_in_all_forms() {
        let check = |value: Value, expected: Option<u32>| {
            assert_eq!(parse_token_count(&value), expected, "{value}")
        };
        check(json!(7), Some(7));
        check(json!(0), Some(0));
        check(json!("12"), Some(12));
        check(json!(" 12.2 "), Some(13));
        check(json!(6.5), Some(7));
        check(json!(5_000_000_000_u64), Some(u32::MAX));
        check(json!(1e300), Some(u32::MAX));
        check(json!("1e300"), Some(u32::MAX));
        for nothing in [
            json!(-1),
            json!("-1"),
            json!("NaN"),
            json!("inf"),
            json!("many"),
            json!(""),
            json!(null),
        ] {
            check(nothing, None);
        }
        check(json!([1]), None);
    }

    #[test]
    fn what_an_endpoint_says_is_completed_so_that_its_total_holds() {
        let check = |(input, output, total), expected: (u32, u32)| {
            let usage = ReportedUsage {
                input,
                output,
                total,
                cached: None,
            };
            let tokens = usage.or_estimate(TokenCounts::new(10, 4));
            assert_eq!((tokens.input, tokens.output), expected, "{usage:?}");
        };
        check((Some(3), Some(5), Some(99)), (3, 5));
        check((Some(3), None, Some(99)), (3, 96));
        check((None, Some(5), Some(99)), (94, 5));
        check((None, None, Some(99)), (10, 89));
        check((None, None, Some(6)), (6, 0));
        check((Some(7), None, Some(6)), (7, 0));
        check((Some(3), None, None), (3, 4));
        check((None, Some(5), None), (10, 5));
        check((None, None, None), (10, 4));
    }

    #[test]
    fn no_more_is_cached_than_was_sent() {
        let usage = ReportedUsage {
            input: Some(3),
            output: Some(1),
            total: None,
            cached: Some(9),
        };
        assert_eq!(
            usage.or_estimate(TokenCounts::default()),
            TokenCounts {
                input: 3,
                output: 1,
                cached: 3
            }
        );
    }
}

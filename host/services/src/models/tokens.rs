//! Token usage of requests, as the endpoint reports it or as it is estimated.

use serde_json::Value;
use strata_core::record::conversation::{
    AssistantPart, Media, MediaSource, ModelMessage, Part, TokenUsage, ToolCall,
};

use super::ModelRequest;

/// The approximate number of characters per token in English text.
const CHARS_PER_TOKEN: u64 = 4;

/// The approximate number of tokens of an image. Providers charge for its size in pixels.
const IMAGE_TOKENS: u64 = 1600;

/// The approximate number of bytes of a file, such as a PDF document, per token.
const FILE_BYTES_PER_TOKEN: u64 = 16;

/// The number of tokens of a typical reply.
const TYPICAL_REPLY_TOKENS: u32 = 1024;

/// The maximum number of tokens that is assumed for a reply, whatever the request allows. No model
/// writes more in one reply.
const MAX_REPLY_TOKENS: u32 = 1 << 18;

/// Returns the sum of two usages.
pub(super) fn add_usage(one: TokenUsage, other: TokenUsage) -> TokenUsage {
    TokenUsage {
        input: one.input.saturating_add(other.input),
        output: one.output.saturating_add(other.output),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
        reasoning: one.reasoning.saturating_add(other.reasoning),
    }
}

/// Returns the approximate number of tokens in these texts.
pub(super) fn estimate_tokens<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    tokens_of_chars(texts.into_iter().map(chars).sum())
}

/// Returns the approximate number of tokens in a request.
pub(super) fn estimate_input(request: &ModelRequest) -> u64 {
    let tools = request
        .tools
        .iter()
        .flat_map(|tool| [&tool.name, &tool.description, &tool.parameters]);
    let texts = tools.chain(&request.output_schema).chain([&request.system]);
    let mut size = ContentSize {
        chars: texts.map(|text| chars(text)).sum(),
        media_tokens: 0,
    };
    for message in &request.messages {
        size.add_message(message);
    }
    tokens_of_chars(size.chars).saturating_add(size.media_tokens)
}

/// Returns the approximate number of tokens in a reply, with its reasoning.
pub(super) fn estimate_output(parts: &[AssistantPart], reasoning_chars: usize) -> u64 {
    let mut size = ContentSize::default();
    for part in parts {
        match part {
            AssistantPart::Text(text) => size.chars += chars(text),
            AssistantPart::ToolCall(call) => size.chars += chars(&call.arguments),
            AssistantPart::Media(media) => size.add_media(media),
            AssistantPart::Opaque(_) => {}
        }
    }
    tokens_of_chars(size.chars + reasoning_chars as u64).saturating_add(size.media_tokens)
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

fn tokens_of_chars(chars: u64) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN)
}

/// The size of what a model receives or writes.
#[derive(Default)]
struct ContentSize {
    chars: u64,
    media_tokens: u64,
}

impl ContentSize {
    fn add_message(&mut self, message: &ModelMessage) {
        match message {
            ModelMessage::System(text) => self.chars += chars(text),
            ModelMessage::User(parts) => self.add_parts(parts),
            ModelMessage::Assistant(parts) => {
                for part in parts {
                    match part {
                        AssistantPart::Text(text) => self.chars += chars(text),
                        AssistantPart::ToolCall(ToolCall {
                            name, arguments, ..
                        }) => self.chars += chars(name) + chars(arguments),
                        AssistantPart::Media(media) => self.add_media(media),
                        AssistantPart::Opaque(part) => self.chars += chars(part.data.as_str()),
                    }
                }
            }
            ModelMessage::ToolResults(results) => {
                for result in results {
                    self.add_parts(&result.content);
                }
            }
        }
    }

    fn add_parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text(text) => self.chars += chars(text),
                Part::Image(_) => self.media_tokens += IMAGE_TOKENS,
                Part::File(media) => self.add_media(media),
            }
        }
    }

    fn add_media(&mut self, media: &Media) {
        let tokens = match &media.source {
            MediaSource::Blob { size, .. } => size / FILE_BYTES_PER_TOKEN,
            MediaSource::Url(_) => 0,
        };
        self.media_tokens = self.media_tokens.saturating_add(tokens.max(IMAGE_TOKENS));
    }
}

/// Returns the number of tokens in a request, and the expected maximum of its reply. `max_tokens` is
/// the limit that is sent if the request has none.
pub(super) fn expected_usage(request: &ModelRequest, max_tokens: Option<u32>) -> TokenUsage {
    let output = request.max_tokens.or(max_tokens);
    TokenUsage {
        input: estimate_input(request),
        output: output
            .unwrap_or(TYPICAL_REPLY_TOKENS)
            .min(MAX_REPLY_TOKENS)
            .into(),
        ..TokenUsage::default()
    }
}

/// The usage that an endpoint reports. A field is `None` if it is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedUsage {
    /// The tokens of the request, including cached ones.
    pub(super) input: Option<u64>,
    /// The tokens of the reply, including those of reasoning.
    pub(super) output: Option<u64>,
    /// The sum of input and output tokens.
    pub(super) total: Option<u64>,
    /// The part of `input` that came from a cache.
    pub(super) cache_read: Option<u64>,
    /// The part of `input` that was written to a cache.
    pub(super) cache_write: Option<u64>,
    /// The part of `output` that was reasoning.
    pub(super) reasoning: Option<u64>,
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
            .any(|count| count.is_some_and(|count| count > 0))
    }

    /// Returns the report without counts of 0 that cannot be meant: each request has tokens, and so
    /// does a reply if some are estimated. Endpoints that do not count write 0, too.
    pub(super) fn without_zeros(self, guess: TokenUsage) -> Self {
        Self {
            input: self.input.filter(|count| *count > 0),
            output: self.output.filter(|count| *count > 0 || guess.output == 0),
            total: self.total.filter(|count| *count > 0),
            ..self
        }
    }

    /// Returns the tokens of a request, with `guess` in place of what is not reported.
    ///
    /// Some endpoints count reasoning or cached tokens beside the others, as the total shows, or more
    /// reasoning than output. They are added then. What else a total has in addition is reasoning
    /// that is not reported, and counts as output. The sum is thus never less than the reported
    /// total, so that token limits hold, and a part never more than what it is a part of.
    pub(super) fn or_estimate(self, guess: TokenUsage) -> TokenUsage {
        let cache_read = self.cache_read.unwrap_or_default();
        let cache_write = self.cache_write.unwrap_or_default();
        let cached = cache_read.saturating_add(cache_write);
        let reasoning = self.reasoning.unwrap_or_default();
        let known_output = self.output.map(|output| match output {
            output if reasoning > output => output.saturating_add(reasoning),
            output => output,
        });
        let (input, output) = match (self.input, known_output, self.total) {
            (Some(input), Some(output), Some(total)) => {
                let excess = total.saturating_sub(input.saturating_add(output));
                if excess == cached && excess != reasoning {
                    (input + excess, output)
                } else if excess == cached.saturating_add(reasoning) {
                    (input + cached, output + reasoning)
                } else {
                    (input, output + excess)
                }
            }
            (Some(input), None, Some(total)) if total > input => (input, total - input),
            (None, Some(output), Some(total)) if total > output => (total - output, output),
            (None, None, Some(total)) => {
                let input = guess.input.min(total);
                (input, total - input)
            }
            (input, output, _) => (input.unwrap_or(guess.input), output.unwrap_or(guess.output)),
        };
        let cache_read = cache_read.min(input);
        TokenUsage {
            input,
            output,
            cache_read,
            cache_write: cache_write.min(input - cache_read),
            reasoning: reasoning.min(output),
        }
    }
}

/// Returns the first number of tokens that a report has under one of these JSON pointers, other than
/// 0 if there is one. The pointers name fields of objects, without escapes.
pub(super) fn first_count(usage: &Value, pointers: &[&str]) -> Option<u64> {
    // `Value::pointer` copies each name, because it may contain escapes.
    let find = |pointer: &str| {
        let mut names = pointer.split('/').skip(1);
        names.try_fold(usage, |value, name| value.get(name))
    };
    let counts = pointers
        .iter()
        .filter_map(|pointer| parse_token_count(find(pointer)?));
    counts.reduce(|first, next| if first > 0 { first } else { next })
}

/// Parses a number of tokens, which some endpoints write as a string or with a fraction. Returns
/// `None` for values that cannot be a count, such as negative numbers.
pub(super) fn parse_token_count(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // `as` saturates. A fraction of a token counts as one. No request has more tokens than a `u32`
    // holds, and sums of such numbers cannot overflow.
    let count = number.ceil().min(f64::from(u32::MAX)) as u64;
    (number.is_finite() && number >= 0.0).then_some(count)
}

/// The usage of a request without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageWithoutReply {
    /// Nothing, as far as is known.
    Nothing,
    /// The reported number of tokens.
    Tokens(TokenUsage),
    /// Unknown, because the endpoint may still be working, or the reply broke off. The reserved
    /// amount is assumed.
    Unknown,
}

impl UsageWithoutReply {
    /// Returns the tokens of the request and its reply, where `expected` is the reserved amount.
    pub(super) fn tokens(self, expected: TokenUsage) -> TokenUsage {
        match self {
            Self::Nothing => TokenUsage::default(),
            Self::Tokens(tokens) => tokens,
            Self::Unknown => expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_tokens_are_read_in_all_forms() {
        let check = |value: Value, expected: Option<u64>| {
            assert_eq!(parse_token_count(&value), expected, "{value}")
        };
        check(json!(7), Some(7));
        check(json!(0), Some(0));
        check(json!("12"), Some(12));
        check(json!(" 12.2 "), Some(13));
        check(json!(6.5), Some(7));
        check(json!(5_000_000_000_u64), Some(u64::from(u32::MAX)));
        check(json!(1e300), Some(u64::from(u32::MAX)));
        check(json!("1e300"), Some(u64::from(u32::MAX)));
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
        let check = |(input, output, total), expected: (u64, u64)| {
            let usage = ReportedUsage {
                input,
                output,
                total,
                ..ReportedUsage::default()
            };
            let tokens = usage.or_estimate(TokenUsage {
                input: 10,
                output: 4,
                ..TokenUsage::default()
            });
            assert_eq!((tokens.input, tokens.output), expected, "{usage:?}");
        };
        check((Some(3), Some(5), Some(8)), (3, 5));
        check((Some(3), Some(5), Some(6)), (3, 5));
        check((Some(3), Some(5), Some(99)), (3, 96));
        check((Some(3), None, Some(99)), (3, 96));
        check((None, Some(5), Some(99)), (94, 5));
        check((None, None, Some(99)), (10, 89));
        check((None, None, Some(6)), (6, 0));
        check((Some(7), None, Some(6)), (7, 4));
        check((Some(7), None, Some(7)), (7, 4));
        check((None, Some(7), Some(7)), (10, 7));
        check((Some(3), None, None), (3, 4));
        check((None, Some(5), None), (10, 5));
        check((None, None, None), (10, 4));
    }

    #[test]
    fn what_is_counted_beside_other_tokens_is_added_to_them() {
        let check = |(input, output, total), (cache_read, cache_write, reasoning), expected| {
            let usage = ReportedUsage {
                input,
                output,
                total,
                cache_read,
                cache_write,
                reasoning,
            };
            let tokens = usage.or_estimate(TokenUsage::default());
            let found = [
                tokens.input,
                tokens.output,
                tokens.cache_read,
                tokens.cache_write,
                tokens.reasoning,
            ];
            assert_eq!(found, expected, "{usage:?}");
        };
        // Parts of the other tokens.
        let total = Some(40);
        let parts = (Some(20), None, Some(9));
        check((Some(30), Some(10), total), parts, [30, 10, 20, 0, 9]);
        check((Some(30), Some(10), None), parts, [30, 10, 20, 0, 9]);
        // The total shows what is counted beside them.
        check((Some(30), Some(10), Some(49)), parts, [30, 19, 20, 0, 9]);
        check((Some(30), Some(10), Some(60)), parts, [50, 10, 20, 0, 9]);
        check((Some(30), Some(10), Some(69)), parts, [50, 19, 20, 0, 9]);
        check((Some(30), Some(10), Some(45)), parts, [30, 15, 20, 0, 9]);
        // More than what it would be a part of.
        let parts = (Some(2), Some(9), Some(9));
        check((Some(3), Some(1), None), parts, [3, 10, 2, 1, 9]);
        check((Some(3), Some(1), Some(24)), parts, [14, 10, 2, 9, 9]);
        // What cannot be a part.
        check((None, None, Some(5)), parts, [0, 5, 0, 0, 5]);
    }

    #[test]
    fn a_count_of_zero_says_nothing_unless_it_can_be_meant() {
        let usage = json!({ "prompt_tokens": 0, "input_tokens": 7, "details": { "cached": 0 } });
        assert_eq!(
            first_count(&usage, &["/prompt_tokens", "/input_tokens"]),
            Some(7)
        );
        assert_eq!(first_count(&usage, &["/details/cached", "/other"]), Some(0));
        let zero = ReportedUsage {
            input: Some(0),
            output: Some(0),
            total: Some(0),
            ..ReportedUsage::default()
        };
        assert!(!zero.is_known());
        let guess = |output| TokenUsage {
            output,
            ..TokenUsage::default()
        };
        assert_eq!(zero.without_zeros(guess(3)), ReportedUsage::default());
        assert_eq!(zero.without_zeros(guess(0)).output, Some(0));
    }
}

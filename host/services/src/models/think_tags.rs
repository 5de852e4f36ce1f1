//! Removes the thinking that models write before their answer: `<think>…</think>`. It is not part
//! of the answer. Its tokens count, but its text is discarded.

const OPEN_TAG: &str = "<think>";
const CLOSE_TAG: &str = "</think>";
/// The maximum number of bytes of white space before a block, which is scanned again with each
/// chunk. With more white space, the text is treated as the answer.
const MAX_BLANK_BYTES: usize = 4 << 10;

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnding {
    /// Normally: the text ends with an answer.
    Answer,
    /// It was truncated or ends in tool calls, so it may contain no answer.
    Open,
}

/// Returns the answer in the text of a reply.
///
/// A block that is never closed is regarded as thinking only if the reply is open. Otherwise the
/// whole text is the answer. A closing tag without an opening one, which some chat templates cause,
/// counts only if it stands alone on a line. Elsewhere, it may be part of the answer.
pub(super) fn strip_thinking(text: &str, ending: ReplyEnding) -> &str {
    let mut rest = text;
    while let Some(thought) = rest.trim_start().strip_prefix(OPEN_TAG) {
        match thought.split_once(CLOSE_TAG) {
            Some((_, behind)) => rest = behind.trim_start(),
            None if ending == ReplyEnding::Open => return "",
            None => return rest,
        }
    }
    if rest.contains(OPEN_TAG) {
        rest
    } else {
        strip_until_lone_tag(rest)
    }
}

fn strip_until_lone_tag(text: &str) -> &str {
    let Some((before, behind)) = text.split_once(CLOSE_TAG) else {
        return text;
    };
    let starts_line = before.is_empty() || before.ends_with('\n');
    let ends_line = behind.is_empty() || behind.starts_with('\n') || behind.starts_with("\r\n");
    if starts_line && ends_line && !behind.contains(CLOSE_TAG) {
        behind.trim_start()
    } else {
        text
    }
}

/// Extracts the answer from a reply that is being written, without the thinking before it.
#[derive(Debug, Default)]
pub(super) struct AnswerFilter {
    stage: FilterStage,
    /// Text that may be the beginning of a tag.
    withheld: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum FilterStage {
    /// Only white space has arrived.
    #[default]
    Beginning,
    /// Within a thinking block.
    Thinking,
    /// A block has ended, and the answer has not begun.
    Between,
    /// Everything that follows is the answer.
    Answer,
}

impl AnswerFilter {
    /// Adds text of the reply and returns what it adds to the answer.
    pub(super) fn feed(&mut self, text: &str) -> String {
        if self.stage == FilterStage::Answer {
            return text.to_owned();
        }
        self.withheld += text;
        // How much of `held` has been processed. It is removed once, at the end, because one chunk
        // may contain many blocks.
        let mut seen = 0;
        loop {
            let rest = &self.withheld[seen..];
            if self.stage == FilterStage::Thinking {
                let Some(end) = rest.find(CLOSE_TAG) else {
                    let kept = (0..CLOSE_TAG.len())
                        .rev()
                        .find(|length| rest.ends_with(&CLOSE_TAG[..*length]));
                    seen = self.withheld.len() - kept.unwrap_or_default();
                    break;
                };
                seen += end + CLOSE_TAG.len();
                self.stage = FilterStage::Between;
                continue;
            }
            let trimmed = rest.trim_start();
            if let Some(thought) = trimmed.strip_prefix(OPEN_TAG) {
                seen = self.withheld.len() - thought.len();
                self.stage = FilterStage::Thinking;
            } else if OPEN_TAG.starts_with(trimmed) && rest.len() <= MAX_BLANK_BYTES {
                break;
            } else {
                let answer = if self.stage == FilterStage::Between {
                    trimmed.to_owned()
                } else {
                    rest.to_owned()
                };
                self.withheld = String::new();
                self.stage = FilterStage::Answer;
                return answer;
            }
        }
        self.withheld.drain(..seen);
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_thinks_is_no_part_of_its_answer() {
        let check = |text: &str, expected: &str| {
            assert_eq!(
                strip_thinking(text, ReplyEnding::Answer),
                expected,
                "{text}"
            )
        };
        check("hello", "hello");
        check("<think>hm</think>hello", "hello");
        check("\n<think>\nhm\n</think>\n\n hello ", "hello ");
        check("<think>a</think>\n<think>b</think>c", "c");
        check("<think></think>", "");
        check("hm, so\n</think>\n\nhello", "hello");
        check("</think>\nhello", "hello");
        for whole in [
            "write `<think>x</think>` before it",
            "the tag `</think>` ends it",
            "as in\n<think>\n</think>\nshown",
            "one\n</think>\ntwo\n</think>\nthree",
            "<think>never closed",
            "<thinking>x</thinking>",
            " hello",
        ] {
            check(whole, whole);
        }
    }

    #[test]
    fn thinking_that_was_truncated_is_no_answer() {
        assert_eq!(strip_thinking("<think>half a tho", ReplyEnding::Open), "");
        assert_eq!(
            strip_thinking("<think>a</think>half an ans", ReplyEnding::Open),
            "half an ans"
        );
    }

    #[test]
    fn an_answer_is_heard_without_what_was_thought_in_whatever_pieces_it_comes() {
        let check = |text: &str, expected: &str| {
            for size in 1..=text.len() {
                let mut filter = AnswerFilter::default();
                let letters: Vec<char> = text.chars().collect();
                let pieces = letters
                    .chunks(size)
                    .map(|piece| piece.iter().collect::<String>());
                let heard: String = pieces.map(|piece| filter.feed(&piece)).collect();
                assert_eq!(heard, expected, "{text} in pieces of {size}");
            }
        };
        check("hellö", "hellö");
        check(" hello", " hello");
        check("<b>hello", "<b>hello");
        check(
            "<think>hm <b> ö</thin </think>\n\n hello </think>",
            "hello </think>",
        );
        check("<think>a</think><think>b</think>c", "c");
        check("<think>never closed", "");
        check(
            "<think></think><think></think> <think></think>c <think>",
            "c <think>",
        );
    }
}

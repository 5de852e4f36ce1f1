//! Finds fenced code blocks in Markdown.

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The language after the opening fence, e.g. `html`; empty if there is none.
    pub language: String,
    /// The lines between the fences.
    pub code: String,
    /// Whether there is a closing fence. Without one, the reply was probably truncated.
    pub closed: bool,
}

impl CodeBlock {
    /// Returns the first block of a text. A block without a closing fence extends to the end.
    pub fn first(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (indent, (fence, language)) = lines
            .by_ref()
            .find_map(|line| Some((indent_of(line), opening(line)?)))?;
        let mut block = Self {
            language: language.to_owned(),
            code: String::new(),
            closed: false,
        };
        for line in lines {
            if closes(line, fence) {
                block.closed = true;
                break;
            }
            // A block in a list is indented like its fence.
            block.code.push_str(&line[indent_of(line).min(indent)..]);
            block.code.push('\n');
        }
        Some(block)
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns the opening fence in a line and the language after it. A fence has at least three
/// backticks or tildes, and is closed by at least as many.
fn opening(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == first).count();
    let (fence, language) = line.split_at(length);
    (length >= 3 && !language.contains(first)).then_some((fence, language.trim()))
}

fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len()
        && fence
            .chars()
            .next()
            .is_some_and(|first| line.chars().all(|c| c == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Language, code, closed.
    type Expected<'a> = Option<(&'a str, &'a str, bool)>;

    #[test]
    fn the_first_block_is_found() {
        let cases: [(&str, Expected<'_>); 8] = [
            ("no code", None),
            ("a `b` c", None),
            ("```inline```", None),
            (
                "so:\n```html\n<p>\n```\nand\n```js\n1\n```",
                Some(("html", "<p>\n", true)),
            ),
            ("~~~\n```\n~~~", Some(("", "```\n", true))),
            (
                "````md\n```\nx\n```\n````",
                Some(("md", "```\nx\n```\n", true)),
            ),
            (
                "1. so:\n   ```py\n   if x:\n     y\n z\n   ```",
                Some(("py", "if x:\n  y\nz\n", true)),
            ),
            ("```c\ncut off", Some(("c", "cut off\n", false))),
        ];
        for (text, expected) in cases {
            let found = CodeBlock::first(text);
            let found = found
                .as_ref()
                .map(|b| (b.language.as_str(), b.code.as_str(), b.closed));
            assert_eq!(found, expected, "in {text:?}");
        }
    }
}

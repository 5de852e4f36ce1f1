//! Finds fenced code blocks in the Markdown that models answer with.

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// What follows the opening fence, e.g. `html`; empty where nothing does.
    pub language: String,
    /// The lines between the fences.
    pub code: String,
}

impl CodeBlock {
    /// The first block of a text. One that is never closed reaches to the end, as Markdown has it: a reply that
    /// was cut off is thereby seen whole.
    pub fn first(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (fence, language) = lines.by_ref().find_map(opening)?;
        let mut code = String::new();
        for line in lines.take_while(|line| !closes(line, fence)) {
            code.push_str(line);
            code.push('\n');
        }
        Some(Self {
            language: language.to_owned(),
            code,
        })
    }
}

/// A fence is at least three backticks or tildes; it is closed by at least as many of them.
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

    #[test]
    fn the_first_block_is_found() {
        let cases: [(&str, Option<(&str, &str)>); 7] = [
            ("no code", None),
            ("a `b` c", None),
            ("```inline```", None),
            (
                "so:\n```html\n<p>\n```\nand\n```js\n1\n```",
                Some(("html", "<p>\n")),
            ),
            ("~~~\n```\n~~~", Some(("", "```\n"))),
            ("````md\n```\nx\n```\n````", Some(("md", "```\nx\n```\n"))),
            ("```c\ncut off", Some(("c", "cut off\n"))),
        ];
        for (text, expected) in cases {
            let found = CodeBlock::first(text);
            let found = found
                .as_ref()
                .map(|b| (b.language.as_str(), b.code.as_str()));
            assert_eq!(found, expected, "in {text:?}");
        }
    }
}

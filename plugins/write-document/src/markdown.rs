//! Splits a Markdown text at its headings.

use serde::Serialize;

/// A heading and the text below it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The heading's text.
    pub heading: String,
    /// Everything up to the next heading.
    pub text: String,
}

/// Returns the title (the first heading, if its level is 1) and the sections. Lines in code blocks
/// are not headings.
pub fn split_sections(text: &str) -> (Option<String>, Vec<Section>) {
    let mut title = None;
    let mut sections: Vec<Section> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        match parse_heading(line).filter(|_| !in_code) {
            Some((1, text)) if title.is_none() && sections.is_empty() => {
                title = Some(text.to_owned())
            }
            Some((_, text)) => {
                sections.push(Section {
                    heading: text.to_owned(),
                    text: String::new(),
                });
            }
            None => {
                if let Some(section) = sections.last_mut() {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
            }
        }
    }
    for section in &mut sections {
        section.text = section.text.trim().to_owned();
    }
    (title, sections)
}

fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line[level..].strip_prefix(' ')?.trim();
    (level > 0 && !text.is_empty()).then_some((level, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heading, text.
    type Expected<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn headings_part_a_text() {
        let cases: [(&str, Option<&str>, Expected<'_>); 4] = [
            ("plain", None, &[]),
            (
                "# T\nx\n## A\na\n\nb\n## B\n",
                Some("T"),
                &[("A", "a\n\nb"), ("B", "")],
            ),
            ("## A\n#hash\n# B\nb", None, &[("A", "#hash"), ("B", "b")]),
            (
                "# T\n## A\n```\n# no heading\n```",
                Some("T"),
                &[("A", "```\n# no heading\n```")],
            ),
        ];
        for (text, title, sections) in cases {
            let (found, parts) = split_sections(text);
            let parts: Vec<_> = parts
                .iter()
                .map(|s| (s.heading.as_str(), s.text.as_str()))
                .collect();
            assert_eq!(
                (found.as_deref(), &parts[..]),
                (title, sections),
                "{text:?}"
            );
        }
    }
}

//! Renders the Markdown of guests as HTML. Everything in it becomes text, structure or a link: raw
//! HTML is shown as text, images become links, and links are kept only if their scheme is known to
//! be harmless.

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

/// The schemes that links may have.
const SAFE_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Renders a text.
pub(super) fn render(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut filter = Filter::default();
    let events = Parser::new_ext(text, options).filter_map(|event| filter.filter_event(event));
    let mut rendered = String::with_capacity(text.len() * 2);
    html::push_html(&mut rendered, events);
    rendered
}

/// Replaces what could be harmful.
#[derive(Default)]
struct Filter {
    /// For each link and image that is open, whether it is rendered as a link.
    links: Vec<bool>,
}

impl Filter {
    fn filter_event<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        Some(match event {
            Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
            // Texts that are not Markdown depend on their line breaks.
            Event::SoftBreak => Event::HardBreak,
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::Start(Tag::CodeBlock(_)) => {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let (id, classes, attrs) = Default::default();
                Event::Start(Tag::Heading {
                    level: section_level(level),
                    id,
                    classes,
                    attrs,
                })
            }
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(section_level(level))),
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => {
                let shown = is_safe(&dest_url);
                self.links.push(shown);
                let (title, id) = (CowStr::from(""), CowStr::from(""));
                return shown.then_some(Event::Start(Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                }));
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.links.push(false);
                Event::Text(CowStr::from(format!("[image {dest_url}: ")))
            }
            Event::End(TagEnd::Image) => {
                self.links.pop();
                Event::Text(CowStr::from("]"))
            }
            Event::End(TagEnd::Link) => {
                return self.links.pop()?.then_some(Event::End(TagEnd::Link));
            }
            event => event,
        })
    }
}

/// Returns the level that a heading gets within a section of the page. The title of the section has
/// the second level.
fn section_level(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

fn is_safe(url: &str) -> bool {
    SAFE_SCHEMES.iter().any(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn structure_is_shown_as_structure() {
        let check =
            |text: &str, expected: &str| assert_eq!(render(text).trim_end(), expected, "{text}");
        check("", "");
        check("one\ntwo", "<p>one<br />\ntwo</p>");
        check("# Title\n\ntext", "<h3>Title</h3>\n<p>text</p>");
        check(
            "- *a*\n- **b**",
            "<ul>\n<li><em>a</em></li>\n<li><strong>b</strong></li>\n</ul>",
        );
        check(
            "```rust evil\nlet a = 1 < 2;\n```",
            "<pre><code>let a = 1 &lt; 2;\n</code></pre>",
        );
        check(
            "[a](https://a.example/?b=\"c)",
            "<p><a href=\"https://a.example/?b=%22c\">a</a></p>",
        );
        assert!(render("|a|\n|-|\n|1|").contains("<td>1</td>"));
    }

    #[test]
    fn nothing_in_it_is_markup_of_its_own_or_reaches_anywhere() {
        let check =
            |text: &str, expected: &str| assert_eq!(render(text).trim_end(), expected, "{text}");
        check(
            "<script>alert(1)</script>",
            "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
        );
        check(
            "a <img src=x onerror=y> b",
            "<p>a &lt;img src=x onerror=y&gt; b</p>",
        );
        check("[a](javascript:alert(1))", "<p>a</p>");
        check("[a](JaVaScRiPt:alert)", "<p>a</p>");
        check("[a](data:text/html,b)", "<p>a</p>");
        check("[a](//a.example/b)", "<p>a</p>");
        check(
            "[a](HTTPS://a.example)",
            "<p><a href=\"HTTPS://a.example\">a</a></p>",
        );
        check("<javascript:alert(1)>", "<p>javascript:alert(1)</p>");
        check(
            "![a](https://a.example/b.png)",
            "<p>[image https://a.example/b.png: a]</p>",
        );
        check(
            "![a [b](https://c.example) d](x)",
            "<p>[image x: a <a href=\"https://c.example\">b</a> d]</p>",
        );
        check(
            "[a](https://a.example/\u{202e}b)",
            "<p><a href=\"https://a.example/%E2%80%AEb\">a</a></p>",
        );
        check(
            "# a {#summary .trouble onclick=b}",
            "<h3>a {#summary .trouble onclick=b}</h3>",
        );
    }
}

//! Markdown as a tree of a closed set of elements, so that nobody who shows it parses markup. Long texts are cut.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};
use url::Url;

/// How many bytes of a text are shown where it is one of many.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// How deep a tree may be, and how many elements it may have.
const MAX_DEPTH: usize = 32;
const MAX_ELEMENTS: usize = 50_000;
/// Where links may lead.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];
/// The fields whose texts are Markdown, and those of their trees.
const MARKDOWN_FIELDS: [(&str, &str); 3] = [
    ("content", "tree"),
    ("text", "tree"),
    ("output", "output_tree"),
];

/// Cuts a text if it is long, and returns whether it was.
pub fn cut_text(text: &mut String) -> bool {
    let is_long = text.len() > MAX_TEXT_BYTES;
    if is_long {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    }
    is_long
}

/// Cuts the long texts in a value, and notes where that was done.
pub fn cut_texts(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(fields) => {
            let mut is_cut = false;
            for field in fields.values_mut() {
                match field {
                    Value::String(text) => is_cut |= cut_text(text),
                    other => cut_texts(other),
                }
            }
            if is_cut {
                fields.insert("truncated".into(), json!(true));
            }
        }
        _ => {}
    }
}

/// Adds a tree beside each text in a value that is Markdown.
pub fn as_tree(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(as_tree),
        Value::Object(fields) => {
            fields.values_mut().for_each(as_tree);
            for (name, tree_name) in MARKDOWN_FIELDS {
                let text = fields.get(name).and_then(Value::as_str);
                if let Some(tree) = text.map(markdown_tree) {
                    fields.insert(tree_name.into(), tree);
                }
            }
        }
        _ => {}
    }
}

/// Returns a text of Markdown as a tree.
pub fn markdown_tree(text: &str) -> Value {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut tree = TreeBuilder::default();
    for event in Parser::new_ext(text, options) {
        if tree.elements >= MAX_ELEMENTS {
            break;
        }
        tree.add(event);
    }
    tree.finish()
}

/// An element whose end has not come.
struct OpenElement {
    fields: Map<String, Value>,
    children: Vec<Value>,
}

#[derive(Default)]
struct TreeBuilder {
    open: Vec<OpenElement>,
    top: Vec<Value>,
    elements: usize,
    /// How many elements are open that are too deep, or not shown.
    ignored: usize,
}

impl TreeBuilder {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(&tag),
            Event::End(end) => self.end(end),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.push(json!({ "type": "inline-code", "text": &*code })),
            // Markup is shown as the text that it is.
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => self.push(json!({ "type": "break" })),
            Event::Rule => self.push(json!({ "type": "rule" })),
            Event::FootnoteReference(name) => self.text(&name),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn begin(&mut self, tag: &Tag<'_>) {
        if self.ignored > 0 || self.open.len() >= MAX_DEPTH {
            self.ignored += 1;
            return;
        }
        let fields = fields_of(tag);
        self.open.push(OpenElement {
            fields,
            children: Vec::new(),
        });
    }

    fn end(&mut self, _: TagEnd) {
        if self.ignored > 0 {
            self.ignored -= 1;
            return;
        }
        let Some(OpenElement {
            mut fields,
            children,
        }) = self.open.pop()
        else {
            return;
        };
        match fields.get("type").and_then(Value::as_str) {
            // The text of code is one.
            Some("code") => {
                let text: String = children
                    .iter()
                    .filter_map(|child| child["text"].as_str())
                    .collect();
                fields.insert("text".into(), json!(text));
            }
            _ => {
                fields.insert("children".into(), Value::Array(children));
            }
        }
        self.push(Value::Object(fields));
    }

    fn text(&mut self, text: &str) {
        self.push(json!({ "type": "text", "text": text }));
    }

    fn push(&mut self, element: Value) {
        self.elements += 1;
        let children = match self.open.last_mut() {
            Some(open) => &mut open.children,
            None => &mut self.top,
        };
        // Consecutive texts are one.
        if let (Some("text"), Some(last)) = (element["type"].as_str(), children.last_mut())
            && last["type"] == "text"
            && let (Some(before), Some(more)) = (last["text"].as_str(), element["text"].as_str())
        {
            let text = format!("{before}{more}");
            last["text"] = json!(text);
            return;
        }
        children.push(element);
    }

    fn finish(mut self) -> Value {
        while !self.open.is_empty() {
            self.ignored = 0;
            self.end(TagEnd::Paragraph);
        }
        Value::Array(self.top)
    }
}

/// Returns the kind of an element, and what else is known of it.
fn fields_of(tag: &Tag<'_>) -> Map<String, Value> {
    let value = match tag {
        Tag::Paragraph => json!({ "type": "paragraph" }),
        Tag::Heading { level, .. } => json!({ "type": "heading", "level": level_of(*level) }),
        Tag::BlockQuote(_) => json!({ "type": "quote" }),
        Tag::CodeBlock(CodeBlockKind::Fenced(language)) if !language.is_empty() => {
            json!({ "type": "code", "language": &**language })
        }
        Tag::CodeBlock(_) => json!({ "type": "code" }),
        Tag::List(start) => json!({ "type": "list", "ordered": start.is_some(), "start": start }),
        Tag::Item => json!({ "type": "item" }),
        Tag::Table(_) => json!({ "type": "table" }),
        Tag::TableHead => json!({ "type": "row", "head": true }),
        Tag::TableRow => json!({ "type": "row" }),
        Tag::TableCell => json!({ "type": "cell" }),
        Tag::Emphasis => json!({ "type": "emphasis" }),
        Tag::Strong => json!({ "type": "strong" }),
        Tag::Strikethrough => json!({ "type": "strike" }),
        // An image is not loaded: it would tell its server who reads this.
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => match safe_link(dest_url) {
            Some(href) => json!({ "type": "link", "href": href }),
            None => json!({ "type": "link" }),
        },
        _ => json!({ "type": "paragraph" }),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn level_of(level: HeadingLevel) -> usize {
    level as usize
}

/// Returns an address to which a link may lead.
fn safe_link(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    SCHEMES.contains(&url.scheme()).then(|| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_a_tree_of_elements() {
        let check = |text: &str, expected: Value| {
            assert_eq!(markdown_tree(text), expected, "{text}");
        };
        let text = |text: &str| json!({ "type": "text", "text": text });
        check(
            "# A",
            json!([{ "type": "heading", "level": 1, "children": [text("A")] }]),
        );
        check(
            "a **b**",
            json!([{ "type": "paragraph", "children": [
                text("a "), { "type": "strong", "children": [text("b")] },
            ] }]),
        );
        check(
            "```rust\nfn\n```",
            json!([{ "type": "code", "language": "rust", "text": "fn\n" }]),
        );
        check(
            "[x](https://a.test/)",
            json!([{ "type": "paragraph", "children": [
                { "type": "link", "href": "https://a.test/", "children": [text("x")] },
            ] }]),
        );
    }

    #[test]
    fn markup_is_text_and_a_link_leads_nowhere_else() {
        let tree = markdown_tree(
            "<script>alert(1)</script>\n\n[x](javascript:alert(1)) ![y](file:///etc/passwd)",
        );
        let text = tree.to_string();
        assert!(!text.contains("href"), "{text}");
        assert!(text.contains("<script>"), "{text}");
        assert_eq!(tree[0]["children"][0]["type"], "text");
    }

    #[test]
    fn a_deep_or_a_long_text_has_a_tree_of_limited_size() {
        let deep = "> ".repeat(10_000) + "x";
        let mut depth = 0;
        let mut at = &markdown_tree(&deep);
        while let Some(child) = at.get(0).or_else(|| at["children"].get(0)) {
            depth += 1;
            at = child;
        }
        assert!(depth <= MAX_DEPTH + 1, "{depth}");
        let mut long = json!({ "content": "é".repeat(MAX_TEXT_BYTES), "other": ["x"] });
        cut_texts(&mut long);
        assert_eq!(long["truncated"], true);
        assert!(long["content"].as_str().unwrap().len() <= MAX_TEXT_BYTES);
    }
}

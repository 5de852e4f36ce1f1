//! The page about the interfaces, which is generated from `wit/`. It has one section per interface,
//! with its comment as text and its declarations as code. With `BLESS=1`, the page is written.

use std::fs;

use crate::probe::project;

/// The files, in the order of the page.
const FILES: [&str; 9] = [
    "handler", "types", "host", "llm", "http", "human", "tools", "mcp", "world",
];

/// The text above the sections.
const HEAD: &str = "# The interfaces\n\n\
    The exports and imports of actions: the package `strata:action@0.2.0`, which `strata-host sdk wit` contains. The \
    SDKs offer these functions in the style of their languages. A language without an SDK can use [the interfaces \
    themselves](any-language.md). Functions that are not granted return `denied`. JSON is passed as text. The tests \
    generate this page from the files in `wit/`.\n";

/// An interface or a world.
#[derive(Default)]
struct Section {
    title: String,
    about: Vec<String>,
    body: String,
}

/// Returns the interfaces and worlds that a file declares, in order.
fn sections(wit: &str) -> Vec<Section> {
    let mut found = Vec::new();
    let mut next = Section::default();
    for line in wit.lines() {
        match line.strip_prefix("///") {
            Some(comment) => next.about.push(comment.trim().to_owned()),
            None if line.starts_with("interface ") || line.starts_with("world ") => {
                next.title = line.trim_end_matches('{').trim().to_owned();
                next.body.push_str(&format!("{line}\n"));
            }
            None if next.title.is_empty() => {}
            None => next.body.push_str(&format!("{line}\n")),
        }
        if line == "}" || (line.ends_with('}') && !line.starts_with(' ')) {
            found.push(std::mem::take(&mut next));
        }
    }
    found
}

/// Returns the page.
fn page() -> String {
    let mut text = HEAD.to_owned();
    for file in FILES {
        let wit =
            fs::read_to_string(project().join("wit").join(file).with_extension("wit")).unwrap();
        for Section { title, about, body } in sections(&wit) {
            let (kind, name) = title.split_once(' ').expect("a kind and a name");
            let title = if kind == "world" {
                format!("World `{name}`")
            } else {
                format!("`{name}`")
            };
            text.push_str(&format!(
                "\n## {title}\n\n{}\n\n```wit\n{body}```\n",
                about.join("\n")
            ));
        }
    }
    text
}

#[test]
fn the_page_about_the_interfaces_is_generated_from_the_wit() {
    let file = super::pages().join("wit.md");
    let written = page();
    if super::bless() {
        super::replace_page(&file, &written);
    }
    let there = fs::read_to_string(&file).unwrap();
    assert!(
        there == written,
        "wit.md is not what `wit/` says: run this test with BLESS=1"
    );
}

#[test]
fn every_file_of_the_interfaces_is_on_the_page() {
    let entries = fs::read_dir(project().join("wit"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut there: Vec<String> = entries
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let mut listed = FILES.to_vec();
    listed.sort_unstable();
    assert_eq!(there, listed);
}

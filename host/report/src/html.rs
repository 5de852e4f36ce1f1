//! Writes a report as one self-contained HTML page.
//!
//! Whatever a guest, a model or a human wrote is untrusted. `maud` escapes every text; markup that is
//! not escaped comes only from `graph::svg` and `markdown`, which escape what they are given. Nothing
//! of it is part of a script, since scripts receive no data. The page's content security policy
//! allows only its own script and styles, identified by their digests. Each section of the page has a
//! file of its own.

mod activity;
mod attention;
mod costs;
mod faults;
mod json;
mod markdown;
mod overview;
mod result;
mod states;
mod status;
mod text;
mod time;
mod timeline;
mod visible;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use strata_base::files::sha256::sha256;

use super::{MessagePart, Report};

/// What a report begins with. A file that begins with it may be replaced by another report.
pub const BEGINNING: &str = "<!doctype html>\n<!-- strata-host report -->\n";

/// The styles: those that the page of a server shares, which lie where that page is made from, and the
/// report's own.
const CSS: &str = concat!(
    include_str!("../../server/page/shared.css"),
    include_str!("html/style.css")
);
const SCRIPT: &str = include_str!("html/script.js");

/// Renders the page.
pub fn page(report: &Report) -> String {
    let page = html! {
        (PreEscaped(BEGINNING))
        html lang="en" {
            (head(report))
            body {
                (overview::header(report))
                main {
                    (attention::section(report))
                    (result::section(report))
                    (overview::figures(report))
                    (timeline::section(report))
                    (overview::picture(report))
                    (activity::section(report))
                    (costs::section(report))
                    (states::section(report))
                    (states::lineages(report))
                }
                (overview::footer(report))
                script { (PreEscaped(SCRIPT)) }
            }
        }
        "\n"
    };
    visible::with_visible_characters(page.into_string())
}

fn head(report: &Report) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(security_policy(report));
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            title {
                (report.overview.team) " – " (status::Appearance::of_run(report).word) " – strata-host report"
            }
            style { (PreEscaped(CSS)) }
        }
    }
}

/// Returns the content security policy, which allows only the page's own script and styles, and the
/// images that it contains.
fn security_policy(report: &Report) -> String {
    let of = |text: &str| format!("'sha256-{}'", STANDARD.encode(sha256(text)));
    let picture = report
        .picture
        .as_deref()
        .ok()
        .and_then(embedded_style)
        .map(|style| format!(" {}", of(style)));
    let parts = report.messages.iter().flat_map(|message| &message.parts);
    let is_image = |part: &MessagePart| matches!(part, MessagePart::Media { image: Some(_), .. });
    let has_images = parts.into_iter().any(is_image);
    let images = if has_images { "; img-src data:" } else { "" };
    format!(
        "default-src 'none'; script-src {}; style-src {}{}{images}; base-uri 'none'; form-action 'none'",
        of(SCRIPT),
        of(CSS),
        picture.unwrap_or_default()
    )
}

/// Returns the styles of a picture.
fn embedded_style(svg: &str) -> Option<&str> {
    let (_, rest) = svg.split_once("<style>")?;
    rest.split_once("</style>").map(|(style, _)| style)
}

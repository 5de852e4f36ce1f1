//! What a node or a label looks like: its lines of text and its size. Coordinates are relative to its centre.
//!
//! Which font a viewer has is not known, so widths are estimated by the widest of the usual ones.

use unicode_width::UnicodeWidthChar;

use super::layout::Point;
use crate::graph::text::wrap;
use crate::graph::{Edge, Node, NodeKind};

/// Where the centre of the person lies in the card of a human, from the left.
pub const PERSON_X: f64 = 26.0;
/// The room that the person takes.
const PERSON: f64 = 28.0;
/// How far the corners of a join stick out.
const HEXAGON: f64 = 16.0;
/// The largest radius of a round end.
const MAX_RADIUS: f64 = 28.0;
/// The corners that stand for a round end when a line is cut off at it.
const ROUND_STEPS: usize = 6;
/// More actions than this are counted instead of named.
const MAX_ACTIONS: usize = 8;

/// How a line of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The title of the picture.
    Title,
    /// The name of a node.
    Name,
    /// What is said of a node.
    Note,
    /// An action of a role.
    Action,
    /// What is written at an edge.
    Label,
}

/// A line of text.
#[derive(Clone, Debug)]
pub struct Line {
    /// The text.
    pub text: String,
    /// How it looks.
    pub style: Style,
    /// Its middle.
    pub x: f64,
    /// Its baseline.
    pub y: f64,
}

/// A node or a label, measured.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is; labels have the kind of labels.
    pub kind: NodeKind,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// Its text.
    pub lines: Vec<Line>,
    /// Where a line divides it.
    pub rule: Option<f64>,
}

impl Style {
    /// The class of its texts.
    pub fn class(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Name => "name",
            Self::Note => "note",
            Self::Action => "action",
            Self::Label => "label",
        }
    }

    /// The size of its font; as in `style.css`.
    fn size(self) -> f64 {
        match self {
            Self::Title => 18.0,
            Self::Name => 15.0,
            Self::Note | Self::Action | Self::Label => 12.0,
        }
    }

    /// From one line to the next.
    fn height(self) -> f64 {
        self.size() + 5.0
    }

    /// The longest line, and the most of them.
    fn most(self) -> (usize, usize) {
        match self {
            Self::Title | Self::Name => (28, 8),
            Self::Note | Self::Action => (34, 3),
            Self::Label => (34, 6),
        }
    }

    fn wrap(self, text: &str) -> Vec<String> {
        let (columns, lines) = self.most();
        wrap(text, columns, lines)
    }
}

impl Card {
    /// The card of a node.
    pub fn of_node(node: &Node) -> Self {
        let mut above: Vec<(Style, String)> = Vec::new();
        let name = if node.kind == NodeKind::Label {
            Style::Label
        } else {
            Style::Name
        };
        above.extend(name.wrap(&node.name).into_iter().map(|line| (name, line)));
        if !node.note.is_empty() {
            above.extend(
                Style::Note
                    .wrap(&node.note)
                    .into_iter()
                    .map(|line| (Style::Note, line)),
            );
        }
        let mut below: Vec<(Style, String)> = Vec::new();
        for action in node.actions.iter().take(MAX_ACTIONS) {
            below.extend(
                Style::Action
                    .wrap(action)
                    .into_iter()
                    .map(|line| (Style::Action, line)),
            );
        }
        if node.actions.len() > MAX_ACTIONS {
            below.push((
                Style::Note,
                format!("and {} more", node.actions.len() - MAX_ACTIONS),
            ));
        }
        let (left, right, vertical) = match node.kind {
            NodeKind::Human => (PERSON + 18.0, 22.0, 12.0),
            NodeKind::Join => (HEXAGON + 10.0, HEXAGON + 10.0, 10.0),
            NodeKind::Start => (24.0, 24.0, 12.0),
            NodeKind::Label => (6.0, 6.0, 4.0),
            NodeKind::Role | NodeKind::Group | NodeKind::Outside => (18.0, 18.0, 10.0),
        };
        Self::stack(node.kind, &[above, below], [left, right, vertical])
    }

    /// The card of what is written at an edge; an empty one where that is nothing.
    pub fn of_edge(edge: &Edge) -> Self {
        let (_, most) = Style::Label.most();
        let mut lines: Vec<String> = edge
            .label
            .iter()
            .flat_map(|line| Style::Label.wrap(line))
            .collect();
        if lines.len() > most {
            lines.truncate(most - 1);
            lines.push("…".into());
        }
        let lines: Vec<(Style, String)> =
            lines.into_iter().map(|line| (Style::Label, line)).collect();
        if lines.is_empty() {
            return Self {
                kind: NodeKind::Label,
                width: 0.0,
                height: 0.0,
                lines: Vec::new(),
                rule: None,
            };
        }
        Self::stack(NodeKind::Label, &[lines], [5.0, 5.0, 2.0])
    }

    /// Stacks lines of text, with a rule between one part and the next.
    fn stack(
        kind: NodeKind,
        parts: &[Vec<(Style, String)>],
        [left, right, vertical]: [f64; 3],
    ) -> Self {
        const RULE: f64 = 12.0;
        let all = || parts.iter().flatten();
        let text_width = all()
            .map(|(style, text)| width(text, *style))
            .fold(0.0, f64::max);
        let parts_shown = parts.iter().filter(|part| !part.is_empty()).count();
        let gaps = RULE * (parts_shown.max(1) - 1) as f64;
        let height = all().map(|(style, _)| style.height()).sum::<f64>() + gaps + 2.0 * vertical;
        let mut card = Self {
            kind,
            width: text_width + left + right,
            height,
            lines: Vec::new(),
            rule: None,
        };
        let x = (left - right) / 2.0;
        let mut y = vertical - height / 2.0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            if !card.lines.is_empty() {
                card.rule = Some(y + RULE / 2.0);
                y += RULE;
            }
            for (style, text) in part {
                y += style.height();
                // A baseline lies about a quarter of the letters' size above the line's end.
                let baseline = y - 2.5 - style.size() * 0.22;
                card.lines.push(Line {
                    text: text.clone(),
                    style: *style,
                    x,
                    y: baseline,
                });
            }
        }
        card
    }
}

/// The radius of the round ends of a card that has such.
pub fn pill_radius(card: &Card) -> f64 {
    (card.height / 2.0).min(MAX_RADIUS)
}

/// How much shorter than the card its upper and lower sides are, at each end.
pub fn inset(card: &Card) -> f64 {
    match card.kind {
        NodeKind::Join => HEXAGON,
        NodeKind::Start | NodeKind::Human => (pill_radius(card) - 10.0).max(0.0),
        NodeKind::Role | NodeKind::Group | NodeKind::Label | NodeKind::Outside => 0.0,
    }
}

/// The corners of a card, clockwise.
pub fn outline(card: &Card) -> Vec<Point> {
    let (x, y) = (card.width / 2.0, card.height / 2.0);
    let point = |x: f64, y: f64| Point { x, y };
    match card.kind {
        NodeKind::Join => {
            let flat = x - HEXAGON;
            vec![
                point(-flat, -y),
                point(flat, -y),
                point(x, 0.0),
                point(flat, y),
                point(-flat, y),
                point(-x, 0.0),
            ]
        }
        NodeKind::Start | NodeKind::Human => {
            let radius = pill_radius(card);
            let centres = [(1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)];
            let mut corners = Vec::new();
            for (quarter, (sx, sy)) in centres.into_iter().enumerate() {
                for step in 0..=ROUND_STEPS {
                    let turn = quarter as f64 - 1.0 + step as f64 / ROUND_STEPS as f64;
                    let angle = turn * std::f64::consts::FRAC_PI_2;
                    let (sin, cos) = angle.sin_cos();
                    corners.push(point(
                        sx * (x - radius) + radius * cos,
                        sy * (y - radius) + radius * sin,
                    ));
                }
            }
            corners
        }
        _ => vec![point(-x, -y), point(x, -y), point(x, y), point(-x, y)],
    }
}

/// About how wide a text is.
pub fn width(text: &str, style: Style) -> f64 {
    let em: f64 = text.chars().map(em).sum();
    let bold = if matches!(style, Style::Title | Style::Name) {
        1.07
    } else {
        1.0
    };
    em * style.size() * bold
}

/// About how wide a character is, in parts of its size.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '|' | '!' | '.' | ',' | ':' | ';' | '\'' => 0.31,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '{' | '}' | '/' | '\\' | '-' | '"' | '`'
        | ' ' => 0.38,
        'm' | 'M' | 'W' | '@' | '%' => 0.95,
        'w' => 0.78,
        'A'..='Z' => 0.74,
        c if c.is_ascii() => 0.6,
        c => match c.width() {
            Some(0) => 0.0,
            Some(1) => 0.66,
            _ => 1.06,
        },
    }
}

//! The size and the lines of text of a node or a label. Coordinates are relative to its centre.
//!
//! The font of the viewer is unknown, so widths are estimated for the widest of the common ones.

use unicode_width::UnicodeWidthChar;

use super::geometry::Point;
use crate::graph::text::wrap;
use crate::graph::{GraphEdge, GraphNode, NodeKind};

/// The distance of the centre of the person symbol from the left edge of a human role's card.
pub const PERSON_X: f64 = 26.0;
/// The width of the person symbol, including its margin.
const PERSON_WIDTH: f64 = 28.0;
/// How far the left and right corners of a join's hexagon protrude.
const HEXAGON_INSET: f64 = 16.0;
/// The largest radius of a round end.
const MAX_RADIUS: f64 = 28.0;
/// How many segments approximate a quarter of a round end when a line is clipped at it.
const ROUND_STEPS: usize = 6;
/// The width of the lock before an action, including its margin.
const LOCK_WIDTH: f64 = 14.0;
/// How many actions are listed. Further ones are only counted.
const MAX_ACTIONS: usize = 8;

/// The style of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    /// The title of the picture.
    Title,
    /// The name of a node.
    Name,
    /// The remark about a node.
    Note,
    /// What a role spent.
    Cost,
    /// An action of a role.
    Action,
    /// How often an edge was taken.
    Count,
    /// The label of an edge.
    Label,
}

/// A line of text.
#[derive(Clone, Debug)]
pub struct TextLine {
    /// The text.
    pub text: String,
    /// The style.
    pub style: TextStyle,
    /// The horizontal centre.
    pub x: f64,
    /// The vertical position of the baseline.
    pub y: f64,
    /// The left edge of the lock before it, if it has one.
    pub lock_x: Option<f64>,
}

/// A line of text that has no position yet.
struct UnplacedLine {
    style: TextStyle,
    text: String,
    has_lock: bool,
}

/// The size and the text of a node or a label.
#[derive(Clone, Debug)]
pub struct Card {
    /// The kind of the node; `Label` for labels of edges.
    pub kind: NodeKind,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// Its text.
    pub lines: Vec<TextLine>,
    /// The vertical position of the line that divides it, if there is one.
    pub rule: Option<f64>,
}

/// The space between the text of a card and its edges.
struct Padding {
    left: f64,
    right: f64,
    /// The space above and below the text.
    vertical: f64,
}

impl TextStyle {
    /// Returns the CSS class.
    pub fn css_class(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Name => "name",
            Self::Note => "note",
            Self::Cost => "cost",
            Self::Action => "action",
            Self::Count => "count",
            Self::Label => "label",
        }
    }

    /// Returns the font size. It must be the same as in `style.css`.
    fn font_size(self) -> f64 {
        match self {
            Self::Title => 18.0,
            Self::Name => 15.0,
            Self::Note | Self::Cost | Self::Action | Self::Count | Self::Label => 12.0,
        }
    }

    /// Returns the distance from one line to the next.
    fn line_height(self) -> f64 {
        self.font_size() + 5.0
    }

    /// Returns the largest number of columns and of lines.
    fn max_columns_and_lines(self) -> (usize, usize) {
        match self {
            Self::Title | Self::Name => (28, 8),
            Self::Note | Self::Cost | Self::Action => (34, 3),
            Self::Count | Self::Label => (34, 6),
        }
    }

    /// Returns a text as lines of this style; none if it is empty.
    fn lines(self, text: &str) -> impl Iterator<Item = UnplacedLine> {
        let (columns, lines) = self.max_columns_and_lines();
        let wrapped = wrap(text, columns, lines).into_iter();
        wrapped
            .filter(|line| !line.is_empty())
            .map(move |text| UnplacedLine {
                style: self,
                text,
                has_lock: false,
            })
    }
}

impl Card {
    /// Creates the card of a node.
    pub fn for_node(node: &GraphNode) -> Self {
        let name = if node.kind == NodeKind::Label {
            TextStyle::Label
        } else {
            TextStyle::Name
        };
        let mut above: Vec<UnplacedLine> = name.lines(&node.name).collect();
        above.extend(TextStyle::Note.lines(&node.note));
        above.extend(TextStyle::Cost.lines(&node.cost));
        let mut below: Vec<UnplacedLine> = Vec::new();
        for action in node.actions.iter().take(MAX_ACTIONS) {
            let first = below.len();
            below.extend(TextStyle::Action.lines(&action.name));
            if let Some(line) = below.get_mut(first) {
                line.has_lock = action.needs_approval;
            }
        }
        if node.actions.len() > MAX_ACTIONS {
            let more = format!("and {} more", node.actions.len() - MAX_ACTIONS);
            below.extend(TextStyle::Note.lines(&more));
        }
        let (left, right, vertical) = match node.kind {
            NodeKind::Human => (PERSON_WIDTH + 18.0, 22.0, 12.0),
            NodeKind::Join => (HEXAGON_INSET + 10.0, HEXAGON_INSET + 10.0, 10.0),
            NodeKind::Start => (24.0, 24.0, 12.0),
            NodeKind::Label => (6.0, 6.0, 4.0),
            NodeKind::Role | NodeKind::Group | NodeKind::Outside => (18.0, 18.0, 10.0),
        };
        let padding = Padding {
            left,
            right,
            vertical,
        };
        Self::from_parts(node.kind, &[above, below], padding)
    }

    /// Creates the card of an edge's label. It is empty if there is no label.
    pub fn for_edge_label(edge: &GraphEdge) -> Self {
        let (_, most) = TextStyle::Label.max_columns_and_lines();
        let mut lines: Vec<UnplacedLine> = Vec::new();
        if let Some(count) = edge.count_line() {
            lines.extend(TextStyle::Count.lines(&count));
        }
        for line in &edge.label {
            lines.extend(TextStyle::Label.lines(line));
        }
        if lines.len() > most {
            lines.truncate(most - 1);
            lines.extend(TextStyle::Label.lines("…"));
        }
        if lines.is_empty() {
            return Self {
                kind: NodeKind::Label,
                width: 0.0,
                height: 0.0,
                lines: Vec::new(),
                rule: None,
            };
        }
        let padding = Padding {
            left: 5.0,
            right: 5.0,
            vertical: 2.0,
        };
        Self::from_parts(NodeKind::Label, &[lines], padding)
    }

    /// Creates a card from parts that consist of lines of text, with a rule between two parts.
    fn from_parts(kind: NodeKind, parts: &[Vec<UnplacedLine>], padding: Padding) -> Self {
        const RULE: f64 = 12.0;
        let Padding {
            left,
            right,
            vertical,
        } = padding;
        let all = || parts.iter().flatten();
        let text_width = all().map(UnplacedLine::width).fold(0.0, f64::max);
        let parts_shown = parts.iter().filter(|part| !part.is_empty()).count();
        let gaps = RULE * (parts_shown.max(1) - 1) as f64;
        let height =
            all().map(|line| line.style.line_height()).sum::<f64>() + gaps + 2.0 * vertical;
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
            for line in part {
                let style = line.style;
                y += style.line_height();
                // The baseline is about a quarter of the font size above the bottom of the line.
                let baseline = y - 2.5 - style.font_size() * 0.22;
                let lock = if line.has_lock { LOCK_WIDTH } else { 0.0 };
                card.lines.push(TextLine {
                    text: line.text.clone(),
                    style,
                    x: x + lock / 2.0,
                    y: baseline,
                    lock_x: line.has_lock.then(|| x - line.width() / 2.0),
                });
            }
        }
        card
    }
}

impl UnplacedLine {
    fn width(&self) -> f64 {
        let lock = if self.has_lock { LOCK_WIDTH } else { 0.0 };
        estimate_width(&self.text, self.style) + lock
    }
}

/// Returns the radius of the round ends of a card with such ends.
pub fn pill_radius(card: &Card) -> f64 {
    (card.height / 2.0).min(MAX_RADIUS)
}

/// Returns by how much the top and bottom sides of a card are shorter at each end than the card is
/// wide.
pub fn side_inset(card: &Card) -> f64 {
    match card.kind {
        NodeKind::Join => HEXAGON_INSET,
        NodeKind::Start | NodeKind::Human => (pill_radius(card) - 10.0).max(0.0),
        NodeKind::Role | NodeKind::Group | NodeKind::Label | NodeKind::Outside => 0.0,
    }
}

/// The minimum distance between the end of a line and a corner of its card.
const MIN_CORNER_DISTANCE: f64 = 10.0;

/// Returns how far from the middle of a side lines may meet a card: of its left and right sides if
/// they are horizontal, of its top and bottom otherwise.
pub fn side_reach(card: &Card, is_horizontal: bool) -> f64 {
    let half = if is_horizontal {
        card.height / 2.0
    } else {
        card.width / 2.0 - side_inset(card)
    };
    (half - MIN_CORNER_DISTANCE).max(0.0)
}

/// Returns the corners of a card's outline, clockwise.
pub fn outline_corners(card: &Card) -> Vec<Point> {
    let (x, y) = (card.width / 2.0, card.height / 2.0);
    let point = |x: f64, y: f64| Point { x, y };
    match card.kind {
        NodeKind::Join => {
            let flat = x - HEXAGON_INSET;
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

/// Estimates the width of a text.
pub fn estimate_width(text: &str, style: TextStyle) -> f64 {
    let em: f64 = text.chars().map(char_width_em).sum();
    let bold = if matches!(
        style,
        TextStyle::Title | TextStyle::Name | TextStyle::Cost | TextStyle::Count
    ) {
        1.07
    } else {
        1.0
    };
    em * style.font_size() * bold
}

/// Estimates the width of a character, relative to the font size.
fn char_width_em(c: char) -> f64 {
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

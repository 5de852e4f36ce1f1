//! The line of an edge: a smooth curve along the points of its way, from the outline of one card to that of another.

use super::card::{self, Card};
use super::layout::{Point, Way};
use crate::graph::Edge;

/// How far from other cards a line keeps at its ends.
const CLEAR: f64 = 4.0;
/// How far from a corner of its card a line ends at least.
const CORNER: f64 = 10.0;

/// The path of an edge along the points of its way; `at` says where the cards lie.
pub fn path(way: &Way, edge: &Edge, cards: &[Card], at: &[Point]) -> String {
    let mut points = way.points.clone();
    let [from, to] = [edge.from, edge.to].map(|id| (&cards[id.0], at[id.0]));
    let last = points.len().saturating_sub(1);
    if last < 2 {
        return format!("M{} L{}", show(cut(to.1, from)), show(cut(from.1, to)));
    }
    for (end, next, card, id) in [(0, 1, from, edge.from), (last, last - 1, to, edge.to)] {
        let next = points[next];
        points[end] = cut(next, card);
        let others = cards
            .iter()
            .zip(at)
            .enumerate()
            .filter(|(other, _)| *other != id.0);
        if others
            .into_iter()
            .any(|(_, (other, centre))| crosses(points[end], next, other, *centre))
        {
            points[end] = aside(next, card);
        }
    }
    if let Some(label) = way.label {
        // A curve goes close by a point that is given twice: so what is written at the line lies on it.
        let far = |point: &Point| (point.x - label.x).powi(2) + (point.y - label.y).powi(2);
        let nearest = (1..last).min_by(|a, b| far(&points[*a]).total_cmp(&far(&points[*b])));
        nearest
            .into_iter()
            .for_each(|at| points.insert(at, points[at]));
    }
    smooth(&points)
}

/// A uniform cubic B-spline with straight ends, so that arrows point where the line goes.
fn smooth(points: &[Point]) -> String {
    let mut path = format!("M{}", show(points[0]));
    path.push_str(&format!(
        " L{}",
        show(blend(points[0], points[1], 5.0, 1.0))
    ));
    for three in points.windows(3) {
        let [a, b, c] = [three[0], three[1], three[2]];
        let end = Point {
            x: (a.x + 4.0 * b.x + c.x) / 6.0,
            y: (a.y + 4.0 * b.y + c.y) / 6.0,
        };
        let (one, two) = (blend(a, b, 2.0, 1.0), blend(a, b, 1.0, 2.0));
        path.push_str(&format!(" C{} {} {}", show(one), show(two), show(end)));
    }
    let [a, b] = [points[points.len() - 2], points[points.len() - 1]];
    let (one, two, end) = (
        blend(a, b, 2.0, 1.0),
        blend(a, b, 1.0, 2.0),
        blend(a, b, 1.0, 5.0),
    );
    path.push_str(&format!(
        " C{} {} {} L{}",
        show(one),
        show(two),
        show(end),
        show(b)
    ));
    path
}

fn blend(a: Point, b: Point, of_a: f64, of_b: f64) -> Point {
    let sum = of_a + of_b;
    Point {
        x: (a.x * of_a + b.x * of_b) / sum,
        y: (a.y * of_a + b.y * of_b) / sum,
    }
}

fn show(point: Point) -> String {
    format!("{:.1} {:.1}", point.x, point.y)
}

/// Where the line from a point to a card's centre meets the card's outline; the centre if it does not.
fn cut(outer: Point, (card, centre): (&Card, Point)) -> Point {
    let corners = card::outline(card);
    let ray = Point {
        x: outer.x - centre.x,
        y: outer.y - centre.y,
    };
    let sides = corners.iter().zip(corners.iter().cycle().skip(1));
    let met = sides.filter_map(|(a, b)| {
        let side = Point {
            x: b.x - a.x,
            y: b.y - a.y,
        };
        let cross = ray.x * side.y - ray.y * side.x;
        let along_ray = (a.x * side.y - a.y * side.x) / cross;
        let along_side = (a.x * ray.y - a.y * ray.x) / cross;
        let hits = cross != 0.0 && along_ray > 0.0 && (-1e-6..=1.0 + 1e-6).contains(&along_side);
        hits.then_some(along_ray)
    });
    let part = met.fold(0.0, f64::max);
    Point {
        x: centre.x + ray.x * part,
        y: centre.y + ray.y * part,
    }
}

/// Where a line leaves a card that would run over another if it left by the side: above or below, near the corner.
fn aside(outer: Point, (card, centre): (&Card, Point)) -> Point {
    let reach = (card.width / 2.0 - card::inset(card) - CORNER).max(0.0);
    let x = outer.x.clamp(centre.x - reach, centre.x + reach);
    let half = card.height / 2.0;
    Point {
        x,
        y: if outer.y > centre.y {
            centre.y + half
        } else {
            centre.y - half
        },
    }
}

/// Whether a straight line runs over a card or too close by it.
fn crosses(a: Point, b: Point, card: &Card, centre: Point) -> bool {
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    let sides = [
        (a.x, b.x, centre.x, card.width),
        (a.y, b.y, centre.y, card.height),
    ];
    for (from, to, middle, size) in sides {
        let half = size / 2.0 + CLEAR;
        let (low, high, way) = (middle - half, middle + half, to - from);
        if way == 0.0 {
            if from <= low || from >= high {
                return false;
            }
            continue;
        }
        let (one, two) = ((low - from) / way, (high - from) / way);
        enters = enters.max(one.min(two));
        leaves = leaves.min(one.max(two));
    }
    enters < leaves
}

//! Computes the line of an edge: a smooth curve along the points of its path, from the outline of
//! one card to that of another.

use super::card::{self, Card};
use super::geometry::{EdgePath, Point};
use crate::graph::GraphEdge;

/// The minimum distance between the ends of a line and other cards.
const MIN_CARD_DISTANCE: f64 = 4.0;
/// How long a line is perpendicular to the side that it meets, if others meet it, too.
const STUB: f64 = 24.0;

/// Returns the SVG path data of an edge. `at` contains the centres of the cards.
pub fn edge_path(way: &EdgePath, edge: &GraphEdge, cards: &[Card], at: &[Point]) -> String {
    let mut points = way.points.clone();
    let last = points.len().saturating_sub(1);
    if last < 2 {
        let (from, to) = (edge.from.0, edge.to.0);
        let start = clip_to_outline(at[to], &cards[from], at[from]);
        let end = clip_to_outline(at[from], &cards[to], at[to]);
        return format!("M{} L{}", format_point(start), format_point(end));
    }
    let mut stubs = [None; 2];
    for (end, next, id, place) in [
        (0, 1, edge.from, way.ends[0]),
        (last, last - 1, edge.to, way.ends[1]),
    ] {
        let next = points[next];
        let (card, centre) = (&cards[id.0], at[id.0]);
        if let Some(place) = place {
            points[end] = leave_at(place.offset, next, (card, centre), place.is_left_or_right);
            if place.is_perpendicular {
                stubs[usize::from(end > 0)] = Some(stub(points[end], next, way.is_horizontal));
            }
            continue;
        }
        points[end] = clip_to_outline(next, card, centre);
        let mut others = (0..cards.len()).filter(|other| *other != id.0);
        if others.any(|other| crosses_card(points[end], next, &cards[other], at[other])) {
            let across = if way.is_horizontal {
                next.y - centre.y
            } else {
                next.x - centre.x
            };
            points[end] = leave_at(across, next, (card, centre), way.is_horizontal);
        }
    }
    if let Some(before_end) = stubs[1] {
        points.insert(last, before_end);
    }
    if let Some(after_start) = stubs[0] {
        points.insert(1, after_start);
    }
    let last = points.len() - 1;
    if let Some(label) = way.label {
        // The curve passes close to a point that occurs twice, so that the label lies on the line.
        let far = |point: &Point| (point.x - label.x).powi(2) + (point.y - label.y).powi(2);
        let nearest = (1..last).min_by(|a, b| far(&points[*a]).total_cmp(&far(&points[*b])));
        if let Some(index) = nearest {
            points.insert(index, points[index]);
        }
    }
    smooth(&points)
}

/// Returns a uniform cubic B-spline with straight ends, so that arrows point in the direction of
/// the line.
fn smooth(points: &[Point]) -> String {
    let mut path = format!("M{}", format_point(points[0]));
    path.push_str(&format!(
        " L{}",
        format_point(weighted_mean(points[0], points[1], 5.0, 1.0))
    ));
    for three in points.windows(3) {
        let [a, b, c] = [three[0], three[1], three[2]];
        let end = Point {
            x: (a.x + 4.0 * b.x + c.x) / 6.0,
            y: (a.y + 4.0 * b.y + c.y) / 6.0,
        };
        let (one, two) = (weighted_mean(a, b, 2.0, 1.0), weighted_mean(a, b, 1.0, 2.0));
        path.push_str(&format!(
            " C{} {} {}",
            format_point(one),
            format_point(two),
            format_point(end)
        ));
    }
    let [a, b] = [points[points.len() - 2], points[points.len() - 1]];
    let (one, two, end) = (
        weighted_mean(a, b, 2.0, 1.0),
        weighted_mean(a, b, 1.0, 2.0),
        weighted_mean(a, b, 1.0, 5.0),
    );
    path.push_str(&format!(
        " C{} {} {} L{}",
        format_point(one),
        format_point(two),
        format_point(end),
        format_point(b)
    ));
    path
}

fn weighted_mean(a: Point, b: Point, of_a: f64, of_b: f64) -> Point {
    let sum = of_a + of_b;
    Point {
        x: (a.x * of_a + b.x * of_b) / sum,
        y: (a.y * of_a + b.y * of_b) / sum,
    }
}

fn format_point(point: Point) -> String {
    format!("{:.1} {:.1}", point.x, point.y)
}

/// Returns where the line from a point to a card's centre crosses the card's outline, or the centre
/// if it does not.
fn clip_to_outline(outer: Point, card: &Card, centre: Point) -> Point {
    clip_ray(centre, outer, card, centre)
}

/// Returns where the line from a point inside a card to one outside crosses the card's outline, or
/// the former if it does not.
fn clip_ray(inside: Point, outside: Point, card: &Card, centre: Point) -> Point {
    let mut corners = card::outline_corners(card);
    for corner in &mut corners {
        corner.x += centre.x - inside.x;
        corner.y += centre.y - inside.y;
    }
    let ray = Point {
        x: outside.x - inside.x,
        y: outside.y - inside.y,
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
        x: inside.x + ray.x * part,
        y: inside.y + ray.y * part,
    }
}

/// Returns where a line to `outer` leaves a card at its top or bottom, or at its left or right if it is
/// horizontal: `offset` from the middle of that side, but not too close to a corner.
fn leave_at(
    offset: f64,
    outer: Point,
    (card, centre): (&Card, Point),
    is_horizontal: bool,
) -> Point {
    let reach = card::side_reach(card, is_horizontal);
    let offset = offset.clamp(-reach, reach);
    let (inside, outside) = if is_horizontal {
        let y = centre.y + offset;
        let x = centre.x + card.width.copysign(outer.x - centre.x);
        (Point { x: centre.x, y }, Point { x, y })
    } else {
        let x = centre.x + offset;
        let y = centre.y + card.height.copysign(outer.y - centre.y);
        (Point { x, y: centre.y }, Point { x, y })
    };
    clip_ray(inside, outside, card, centre)
}

/// Returns a point before the end of a line, perpendicular to the side that it meets.
fn stub(end: Point, next: Point, is_horizontal: bool) -> Point {
    let short = |distance: f64| STUB.min(distance.abs() * 0.6).copysign(distance);
    if is_horizontal {
        Point {
            x: end.x + short(next.x - end.x),
            y: end.y,
        }
    } else {
        Point {
            x: end.x,
            y: end.y + short(next.y - end.y),
        }
    }
}

/// Returns whether a straight line crosses a card or passes too close to it.
fn crosses_card(a: Point, b: Point, card: &Card, centre: Point) -> bool {
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    let sides = [
        (a.x, b.x, centre.x, card.width),
        (a.y, b.y, centre.y, card.height),
    ];
    for (from, to, middle, size) in sides {
        let half = size / 2.0 + MIN_CARD_DISTANCE;
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

//! The line of an edge: a smooth curve along the points of its way, from the outline of one card to that of another.

use super::card::{Card, outline};
use super::layout::{Point, Way};

/// The path of a line along the points of a way.
pub fn path(way: &Way, from: (&Card, Point), to: (&Card, Point)) -> String {
    let mut points = way.points.clone();
    let last = points.len().saturating_sub(1);
    if last < 2 {
        points = vec![cut(to.1, from), cut(from.1, to)];
        return format!("M{} L{}", show(points[0]), show(points[1]));
    }
    points[0] = cut(points[1], from);
    points[last] = cut(points[last - 1], to);
    if let Some(label) = way.label {
        // A curve goes close by a point that is given twice: so what is written at the line lies on it.
        let far = |point: &Point| (point.x - label.x).powi(2) + (point.y - label.y).powi(2);
        let nearest = (1..last).min_by(|a, b| far(&points[*a]).total_cmp(&far(&points[*b])));
        nearest.into_iter().for_each(|at| points.insert(at, points[at]));
    }
    smooth(&points)
}

/// A uniform cubic B-spline with straight ends, so that arrows point where the line goes.
fn smooth(points: &[Point]) -> String {
    let mut path = format!("M{}", show(points[0]));
    path.push_str(&format!(" L{}", show(blend(points[0], points[1], 5.0, 1.0))));
    for three in points.windows(3) {
        let [a, b, c] = [three[0], three[1], three[2]];
        let end = Point { x: (a.x + 4.0 * b.x + c.x) / 6.0, y: (a.y + 4.0 * b.y + c.y) / 6.0 };
        let (one, two) = (blend(a, b, 2.0, 1.0), blend(a, b, 1.0, 2.0));
        path.push_str(&format!(" C{} {} {}", show(one), show(two), show(end)));
    }
    let [a, b] = [points[points.len() - 2], points[points.len() - 1]];
    let (one, two, end) = (blend(a, b, 2.0, 1.0), blend(a, b, 1.0, 2.0), blend(a, b, 1.0, 5.0));
    path.push_str(&format!(" C{} {} {} L{}", show(one), show(two), show(end), show(b)));
    path
}

fn blend(a: Point, b: Point, of_a: f64, of_b: f64) -> Point {
    let sum = of_a + of_b;
    Point { x: (a.x * of_a + b.x * of_b) / sum, y: (a.y * of_a + b.y * of_b) / sum }
}

fn show(point: Point) -> String {
    format!("{:.1} {:.1}", point.x, point.y)
}

/// Where the line from a point to a card's centre meets the card's outline; the centre if it does not.
fn cut(outer: Point, (card, centre): (&Card, Point)) -> Point {
    let corners = outline(card);
    let ray = Point { x: outer.x - centre.x, y: outer.y - centre.y };
    let sides = corners.iter().zip(corners.iter().cycle().skip(1));
    let met = sides.filter_map(|(a, b)| {
        let side = Point { x: b.x - a.x, y: b.y - a.y };
        let cross = ray.x * side.y - ray.y * side.x;
        let along_ray = (a.x * side.y - a.y * side.x) / cross;
        let along_side = (a.x * ray.y - a.y * ray.x) / cross;
        let hits = cross != 0.0 && along_ray > 0.0 && (-1e-6..=1.0 + 1e-6).contains(&along_side);
        hits.then_some(along_ray)
    });
    let part = met.fold(0.0, f64::max);
    Point { x: centre.x + ray.x * part, y: centre.y + ray.y * part }
}

//! Which lane each bar of the timeline is in. A role has a lane, and each of its tools has one of its
//! own; what happens at the same time is in further lanes, so that no bars overlap.

use std::collections::BTreeMap;

use super::Appearance;

/// A bar of the timeline.
pub(super) struct Bar<'a> {
    /// The role's index in the team.
    pub(super) role: usize,
    /// The tool, if it belongs to a tool call.
    pub(super) tool: Option<&'a str>,
    /// The events at which it begins and ends.
    pub(super) events: (u64, u64),
    /// When it begins and ends, in milliseconds since the epoch.
    pub(super) span_ms: (i64, i64),
    /// Its colour and symbol.
    pub(super) look: Appearance,
    /// Whether what it shows has ended within the report, so that it has a duration.
    pub(super) has_ended: bool,
    /// Its label.
    pub(super) name: String,
    /// Whose bar it is.
    pub(super) who: String,
    /// The address of the entry that it links to.
    pub(super) target: String,
    /// The position of its lane.
    pub(super) lane: usize,
}

/// A lane.
pub(super) struct Lane<'a> {
    /// The role's index in the team.
    pub(super) role: usize,
    /// The tool; `None` for the lane of the role itself.
    pub(super) tool: Option<&'a str>,
    /// Whether it is below another lane of the role.
    pub(super) is_further: bool,
}

/// Sets the lane of each bar, and returns the lanes in the order of the roles.
pub(super) fn arrange<'a>(bars: &mut [Bar<'a>]) -> Vec<Lane<'a>> {
    // The tools of a role are in the order of their first bars.
    let mut groups: BTreeMap<(usize, Option<u64>), Vec<usize>> = BTreeMap::new();
    let mut first_events: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    bars.sort_by_key(|bar| bar.events);
    for (place, bar) in bars.iter().enumerate() {
        let order = bar
            .tool
            .map(|tool| *first_events.entry((bar.role, tool)).or_insert(place as u64));
        groups.entry((bar.role, order)).or_default().push(place);
    }
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for ((role, _), places) in groups {
        let base = lanes.len();
        // The event at which each lane of the group becomes free.
        let mut free_from: Vec<u64> = Vec::new();
        for place in places {
            let bar = &mut bars[place];
            let lane = free_from.iter().position(|free| *free <= bar.events.0);
            let lane = lane.unwrap_or(free_from.len());
            if lane == free_from.len() {
                free_from.push(0);
                lanes.push(Lane {
                    role,
                    tool: bar.tool,
                    is_further: lanes.last().is_some_and(|above| above.role == role),
                });
            }
            free_from[lane] = bar.events.1;
            bar.lane = base + lane;
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes_of(bars: &[(usize, Option<&'static str>, (u64, u64))]) -> (Vec<usize>, Vec<String>) {
        let look = Appearance {
            class: "ok",
            glyph: "",
            word: "",
        };
        let bar = |(role, tool, events): &(usize, Option<&'static str>, (u64, u64))| Bar {
            role: *role,
            tool: *tool,
            events: *events,
            span_ms: (0, 0),
            look,
            has_ended: true,
            name: String::new(),
            who: String::new(),
            target: String::new(),
            lane: 0,
        };
        let mut bars: Vec<Bar<'_>> = bars.iter().map(bar).collect();
        let lanes = arrange(&mut bars);
        let names = lanes
            .iter()
            .map(|lane| format!("{} {}", lane.role, lane.tool.unwrap_or("-")));
        let names = names.collect();
        (bars.iter().map(|bar| bar.lane).collect(), names)
    }

    #[test]
    fn what_happens_at_the_same_time_is_in_lanes_of_its_own() {
        let (places, lanes) = lanes_of(&[
            (1, None, (1, 2)),
            (1, Some("b"), (3, 8)),
            (1, Some("a"), (4, 6)),
            (1, Some("a"), (5, 7)),
            (1, Some("a"), (6, 9)),
            (1, None, (9, 10)),
            (0, None, (11, 12)),
            (0, None, (12, 13)),
        ]);
        assert_eq!(lanes, ["0 -", "1 -", "1 b", "1 a", "1 a"]);
        assert_eq!(places, [1, 2, 3, 4, 3, 1, 0, 0]);
    }
}

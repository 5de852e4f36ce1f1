//! How many tool calls an activation has made, of each tool and in all.

use alloc::collections::BTreeMap;

use super::{Turn, TurnCall};
use crate::record::turn::ToolRef;

/// The number of calls of each tool. A rejected call is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeCalls {
    by_tool: BTreeMap<ToolRef, usize>,
}

impl MadeCalls {
    /// Adds a call of this tool.
    pub(crate) fn add(&mut self, tool: ToolRef) {
        *self.by_tool.entry(tool.definition()).or_default() += 1;
    }

    /// Returns the number of calls of all tools.
    pub(crate) fn total(&self) -> usize {
        self.by_tool.values().sum()
    }

    /// Returns the number of calls of those tools for which `counts` holds.
    pub(crate) fn total_of(&self, counts: impl Fn(ToolRef) -> bool) -> usize {
        let all = self.by_tool.iter();
        all.filter(|(tool, _)| counts(**tool))
            .map(|(_, number)| number)
            .sum()
    }

    /// Adds the calls of a turn, and those that were made within them.
    pub(super) fn add_turn(&mut self, turn: &Turn) {
        for tool in called_tools(turn) {
            self.add(tool);
        }
    }

    /// Takes back `add_turn`.
    pub(super) fn remove_turn(&mut self, turn: &Turn) {
        for tool in called_tools(turn) {
            if let Some(number) = self.by_tool.get_mut(&tool.definition()) {
                *number = number.saturating_sub(1);
            }
        }
    }
}

/// Returns the tools that the calls of a turn were made of, at all levels.
fn called_tools(turn: &Turn) -> impl Iterator<Item = ToolRef> {
    let calls = turn.calls.iter().flat_map(TurnCall::with_nested);
    calls.filter_map(|(_, call)| Some(call.target?.tool))
}

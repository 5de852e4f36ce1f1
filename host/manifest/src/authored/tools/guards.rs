//! Reads `before` and `after`: the components that are asked about the tool calls of a role.

use strata_core::record::id::GuardMoment;

use super::ToolKeyReader;
use crate::authored::limits::ComponentKind;
use crate::authored::slot::{self, AuthoredSlot};
use crate::table::{Located, TomlTable};

/// Reads the components that are asked about tool calls.
pub(super) fn read_guards(
    reader: &mut ToolKeyReader<'_, '_>,
) -> Vec<(GuardMoment, Located<AuthoredSlot>)> {
    let mut guards = Vec::new();
    for moment in GuardMoment::ALL {
        let about = match moment {
            GuardMoment::Before => {
                "A component that is asked before each tool call. It receives `{ tool, arguments }` as arguments, and \
                 answers `allow`, `deny: REASON` or `ask`, which asks a person."
            }
            GuardMoment::After => {
                "A component that receives the result of each tool call as its message. Its answer is what the model is \
                 told."
            }
        };
        let guard = reader.value(
            moment.name(),
            about,
            |key| key.table_item(read_guard),
            |item| {
                let table = item.table(format!("`{}`", moment.name()))?;
                Some(Located {
                    value: read_guard(&table),
                    span: item.key_span.clone(),
                })
            },
        );
        guards.extend(guard.map(|guard| (moment, guard)));
    }
    guards
}

fn read_guard(table: &TomlTable<'_>) -> AuthoredSlot {
    table.define_as("guard");
    slot::read_slot(table, ComponentKind::Thinker)
}

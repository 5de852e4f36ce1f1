//! Reads `[role.limits]`: what bounds the call of the model in a turn.

use strata_core::team::RetryPolicy;

use super::{DEFAULT_TIMEOUT, ToolKeyReader, TurnLimits};
use crate::authored::limits::{DEFAULT_BACKOFF, MAX_RETRIES};
use crate::schema::kind;
use crate::table::TomlTable;

pub(super) fn read_role_limits(reader: &mut ToolKeyReader<'_, '_>) -> TurnLimits {
    let limits = reader.value(
        "limits",
        "What bounds the call of the model in a turn, for `react = \"tools\"`.",
        |key| key.table_item(read_turn_limits),
        |item| {
            item.table("`[role.limits]`")
                .map(|table| read_turn_limits(&table))
        },
    );
    reader.note_default("limits", limits == Some(TurnLimits::default()));
    limits.unwrap_or_default()
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            retry: RetryPolicy {
                retries: 0,
                backoff_ms: DEFAULT_BACKOFF.as_millis() as u32,
            },
        }
    }
}

fn read_turn_limits(table: &TomlTable<'_>) -> TurnLimits {
    table.define_as("turn-limits");
    let timeout = table
        .key("timeout", "How long the model may take to reply.")
        .default(kind::written_duration(DEFAULT_TIMEOUT))
        .value(|| kind::duration(kind::SHORTEST))
        .and_then(|item| {
            let timeout = item.duration()?;
            if timeout.is_zero() {
                item.reject(
                    "`timeout` cannot be zero",
                    "nothing could run; leave the key out for the default",
                );
            }
            Some(timeout)
        });
    let retries = table
        .key(
            "retries",
            "How often a turn is tried again when its model did not reply; the count restarts with each resume.",
        )
        .default(0)
        .integer(0..=MAX_RETRIES);
    let backoff = table
        .key(
            "backoff",
            "Wait before the first retry; it doubles each time, up to a minute or this value, whichever is longer.",
        )
        .default(kind::written_duration(DEFAULT_BACKOFF))
        .duration();
    TurnLimits {
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        retry: RetryPolicy {
            retries: retries.unwrap_or(0) as u32,
            // The longest duration in `units` fits into 32 bits of milliseconds.
            backoff_ms: backoff.unwrap_or(DEFAULT_BACKOFF).as_millis() as u32,
        },
    }
}

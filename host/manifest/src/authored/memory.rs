//! Reads `[role.memory]`: what bounds the conversations of a role whose model works with tools, and
//! what writes their summaries.

use std::ops::RangeInclusive;

use strata_core::state::memory_plan::{MemoryBounds, OldResults};

use super::limits::ComponentKind;
use super::slot::{self, AuthoredSlot};
use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlTable};

/// The default of `keep`: about fifteen turns with a call or two each.
pub(crate) const DEFAULT_KEEP: u32 = 40;
/// The default of `summarise_at`: about half of the context of common models.
pub(crate) const DEFAULT_SUMMARISE_AT: u64 = 100_000;
/// The default of `summary_tokens`: three pages of text.
pub(crate) const DEFAULT_SUMMARY_TOKENS: u32 = 2_000;
/// The most messages and tokens that can be written. No model has a larger context.
const MAX_TOKENS: u64 = 1_000_000_000;

/// The lengths of a summary that can be written.
const SUMMARY_TOKENS: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// `[role.memory]`.
pub(crate) struct AuthoredMemory {
    pub(crate) bounds: MemoryBounds,
    /// The model that writes summaries, and what it is told in addition.
    pub(crate) model: Option<Located<String>>,
    pub(crate) instructions: String,
    /// The component that writes them.
    pub(crate) component: Option<Located<AuthoredSlot>>,
}

/// `summarise`.
#[derive(Default)]
struct AuthoredSummariser {
    model: Option<Located<String>>,
    instructions: String,
    component: Option<Located<AuthoredSlot>>,
}

/// Reads the table.
pub(super) fn read_memory(table: &TomlTable<'_>) -> AuthoredMemory {
    table.define_as("memory");
    let keep = table
        .key(
            "keep",
            "How many messages of a conversation its model is sent at most. When there are more, the oldest are \
             replaced until at most half as many remain.",
        )
        .default(DEFAULT_KEEP)
        .integer(1..=u64::from(u32::MAX));
    let summarise_at = table
        .key(
            "summarise_at",
            "How many tokens a request has at most, as it is estimated. Otherwise the oldest messages are replaced \
             until at most half as many remain.",
        )
        .default("100k")
        .value(|| kind::token_count(1..=MAX_TOKENS));
    let clear_results = table
        .key(
            "clear_results",
            "Whether the results of old tool calls are cleared before anything is summarised.",
        )
        .value(|| kind::boolean(true))
        .and_then(|item| item.boolean());
    let summary_tokens = table
        .key("summary_tokens", "How many tokens a summary has at most.")
        .default(DEFAULT_SUMMARY_TOKENS)
        .value(|| kind::integer(SUMMARY_TOKENS));
    let (summarise_at, summary_tokens) =
        read_token_bounds(summarise_at.as_ref(), summary_tokens.as_ref());
    let summariser = read_summariser(table);
    AuthoredMemory {
        bounds: MemoryBounds {
            messages: keep.map_or(DEFAULT_KEEP, |keep| keep as u32),
            tokens: summarise_at,
            summary_tokens,
            results: if clear_results.unwrap_or(true) {
                OldResults::Cleared
            } else {
                OldResults::Sent
            },
        },
        model: summariser.model,
        instructions: summariser.instructions,
        component: summariser.component,
    }
}

/// Returns `summarise_at` and `summary_tokens`. Reports them if a summary takes all that they allow: none
/// would ever be short enough then.
fn read_token_bounds(
    summarise_at: Option<&TomlItem<'_>>,
    summary_tokens: Option<&TomlItem<'_>>,
) -> (u64, u64) {
    let tokens = summarise_at
        .and_then(|item| item.token_count(1..=MAX_TOKENS))
        .unwrap_or(DEFAULT_SUMMARISE_AT);
    let of_summary = summary_tokens
        .and_then(|item| item.integer(SUMMARY_TOKENS))
        .unwrap_or(u64::from(DEFAULT_SUMMARY_TOKENS));
    if let Some(item) = summarise_at.or(summary_tokens)
        && tokens <= of_summary
    {
        item.reject(
            format!(
                "no summary would fit: `summarise_at` allows {tokens} tokens, and `summary_tokens` allows {of_summary} for \
                 a summary alone"
            ),
            "raise `summarise_at`, or write a `summary_tokens` that is at most half as large",
        );
    }
    (tokens, of_summary)
}

fn read_summariser(table: &TomlTable<'_>) -> AuthoredSummariser {
    let item = table
        .key(
            "summarise",
            "What writes summaries: a `model`, which may get `instructions`, or a component. Without it, the role's \
             model.",
        )
        .table_item(read_summarise);
    let Some(item) = item else {
        return AuthoredSummariser::default();
    };
    let summarise = item.table("`summarise`");
    summarise
        .map(|summarise| read_summarise(&summarise))
        .unwrap_or_default()
}

fn read_summarise(table: &TomlTable<'_>) -> AuthoredSummariser {
    table.define_as("summarise");
    let model = table
        .key(
            "model",
            "The model that writes summaries: the NAME of a `[model.NAME]`. Without it, the role's.",
        )
        .value(kind::name);
    let instructions = table
        .key(
            "instructions",
            "What the model is told about summaries, in addition to what it is always told.",
        )
        .value(kind::text);
    let component = slot::read_slot(table, ComponentKind::Summariser);
    let component = Some(component).filter(|slot| slot.component.is_some());
    if component.is_some() {
        for item in [&model, &instructions].into_iter().flatten() {
            item.reject(
                format!(
                    "`{}` is for a model, and a component writes the summaries",
                    item.key_name().value
                ),
                "remove one of them; a component has its own `config`",
            );
        }
    }
    AuthoredSummariser {
        model: model.and_then(|item| item.legible_text()),
        instructions: instructions
            .and_then(|item| item.text())
            .map(|text| text.value)
            .unwrap_or_default(),
        component: component.map(|value| Located {
            span: value.span.clone(),
            value,
        }),
    }
}

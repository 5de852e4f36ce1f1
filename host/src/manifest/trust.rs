//! `[trust]`: whose components may be loaded. How signatures are looked at is `trust::signature`'s.

use super::table::Table;
use crate::trust::signature::{Key, Keys};

/// Reads the table.
pub(super) fn read(table: &Table<'_>) -> Keys {
    let Some(item) = table.required("keys") else {
        return Keys::default();
    };
    if item.is_empty_list() {
        item.refuse(
            "the list of trusted keys is empty",
            "name a key, or leave `[trust]` out and trust everybody",
        );
        return Keys::default();
    }
    let mut keys = Vec::new();
    for text in item.texts() {
        match Key::parse(&text.value) {
            Ok(key) => keys.push(key),
            Err(why) => {
                let problem = table
                    .problems
                    .at(&text.span, format!("`{}` is not a key: {why}", text.value));
                table.problems.add(
                    problem.hint("a key is the second line of a `.pub` file of minisign's: `RW…`"),
                );
            }
        }
    }
    Keys(keys)
}

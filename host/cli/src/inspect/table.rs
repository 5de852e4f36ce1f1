//! Tables for people: as wide as the terminal, or as wide as their content if stdout is not a
//! terminal.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, presets};

use crate::sanitize::sanitize_line;
use crate::{print_line, terminal};

/// A table without borders.
pub(super) struct TextTable(comfy_table::Table);

impl TextTable {
    pub(super) fn new(head: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING).set_header(head);
        if std::io::stdout().is_terminal() {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(terminal::columns());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    pub(super) fn add_row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells.map(|cell| sanitize_line(&cell)));
    }

    /// Returns whether the table has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.0.row_count() == 0
    }

    /// Prints the table to stdout.
    pub(super) fn print(&self) {
        for line in self.0.lines() {
            print_line(line.trim_end());
        }
    }
}

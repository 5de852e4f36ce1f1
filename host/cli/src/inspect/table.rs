//! Tables for people: as wide as the terminal, or as wide as their content if stdout is not a
//! terminal.

use comfy_table::{ContentArrangement, presets};

use crate::Printer;
use crate::sanitize::sanitize_line;

/// A table without borders.
pub(crate) struct TextTable(comfy_table::Table);

impl TextTable {
    pub(crate) fn new(head: &[&str], printer: &Printer) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING).set_header(head);
        if let Some(width) = printer.table_width() {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    pub(crate) fn add_row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells.map(|cell| sanitize_line(&cell)));
    }

    /// Returns whether the table has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.row_count() == 0
    }

    /// Prints the table to stdout.
    pub(crate) fn print(&self, printer: &Printer) {
        for line in self.0.lines() {
            printer.print_line(line.trim_end());
        }
    }
}

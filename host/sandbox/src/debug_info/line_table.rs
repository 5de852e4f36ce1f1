//! The line table of one unit of debug information.

use gimli::{Format, LineProgramHeader, Reader, Section};

use super::unit::DebugUnit;
use super::{DebugSlice, FileLine, ReadBudget};

/// The maximum size of the header with the names of files and directories, which are in memory
/// while lines are looked up.
const MAX_HEADER_BYTES: usize = 256 << 10;
/// The maximum size of the line program, which may define more files.
const MAX_PROGRAM_BYTES: usize = 2 << 20;

/// The lines at some addresses of a unit.
pub(super) struct LineTable<'a> {
    header: LineProgramHeader<DebugSlice<'a>>,
    /// The file and line of each address, if known.
    pub rows: Vec<Option<FileLine>>,
}

impl<'a> LineTable<'a> {
    pub(super) fn read(
        unit: &DebugUnit<'a>,
        addresses: &[u64],
        budget: &mut ReadBudget,
    ) -> Option<Self> {
        let at = unit.lines?;
        let debug_line = &unit.dwarf.debug_line;
        let mut program = *debug_line.reader();
        program.skip(at.0).ok()?;
        let names = header_length(program)?;
        if names > MAX_HEADER_BYTES {
            return None;
        }
        budget.take(names)?;
        let program = debug_line
            .program(at, unit.inner.header.address_size(), None, None)
            .ok()?;
        let length = program.header().raw_program_buf().len();
        if length > MAX_PROGRAM_BYTES {
            return None;
        }
        budget.take(length)?;
        let (mut found, mut rows) = (vec![None; addresses.len()], program.rows());
        let (mut last, mut start) = (None, 0);
        while let Ok(Some((_, row))) = rows.next_row() {
            let next = row.address();
            match last {
                None => start = next,
                Some((begin, place)) => {
                    for (found, _) in found
                        .iter_mut()
                        .zip(addresses)
                        .filter(|(_, at)| (begin..next).contains(at))
                    {
                        // If several sequences match, those that start at zero belong to functions
                        // that the linker dropped.
                        if found.is_none_or(|(other, _)| other <= start) {
                            *found = Some((start, place));
                        }
                    }
                }
            }
            let line = FileLine {
                file: row.file_index(),
                line: row.line().map_or(0, |line| line.get()),
            };
            last = if row.end_sequence() {
                None
            } else {
                Some((next, line))
            };
        }
        let header = rows.header().clone();
        Some(Self {
            header,
            rows: found
                .into_iter()
                .map(|found| found.map(|(_, place)| place))
                .collect(),
        })
    }

    /// Formats a location as `file:line`. The path is one on the compiler's machine, with its
    /// directory.
    pub(super) fn format_location(
        &self,
        unit: &DebugUnit<'a>,
        location: FileLine,
        budget: &mut ReadBudget,
    ) -> Option<String> {
        let FileLine { file, line } = location;
        let file = self.header.file(file)?;
        let mut path = unit.read_text(file.path_name(), budget)?;
        let dir = if file.directory_index() == 0 {
            None
        } else {
            file.directory(&self.header)
        };
        for dir in [dir, unit.dir].into_iter().flatten() {
            if !is_absolute(&path) {
                path = format!(
                    "{}/{path}",
                    unit.read_text(dir, budget)?.trim_end_matches('/')
                );
            }
        }
        Some(if line == 0 {
            path
        } else {
            format!("{path}:{line}")
        })
    }
}

/// Returns whether a path is absolute on the compiler's machine.
fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\")
}

/// Returns the length of the header of a line program. `gimli` holds all names of the header in
/// memory.
fn header_length(mut program: DebugSlice<'_>) -> Option<usize> {
    let format: Format = program.read_initial_length().ok()?.1;
    if program.read_u16().ok()? >= 5 {
        // Skips the sizes of addresses and segments.
        program.skip(2).ok()?;
    }
    program.read_length(format).ok()
}

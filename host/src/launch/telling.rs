//! What was recorded, told again from the beginning, a piece at a time.

use std::path::{Path, PathBuf};

use super::compare::parted;
use super::{LaunchError, holder, reader};
use crate::public_event::{EventLine, EventTranslator};
use crate::store::{At, Holder, PIECE, Reader, StoreError};

/// Tells the records of a saved team as public lines, also while it runs.
pub struct Telling {
    path: PathBuf,
    reader: Reader,
    translator: EventTranslator,
    /// The place of the last record that was told.
    told: u64,
}

impl Telling {
    /// Begins with the first record of what is saved at a path.
    pub fn open(path: &Path) -> Result<Self, LaunchError> {
        Self::of(path, None)
    }

    /// The same with the events that lead to the newest state of a lineage; the current one where none is named.
    pub fn of(path: &Path, lineage: Option<&str>) -> Result<Self, LaunchError> {
        let mut reader = reader(path)?;
        lineage.map_or(Ok(()), |name| reader.turn_to(name))?;
        let translator = event_translator(&reader)?;
        Ok(Self {
            path: path.to_owned(),
            reader,
            translator,
            told: 0,
        })
    }

    /// The same for what is given as `PATH` or `PATH@LINEAGE`.
    pub fn at(text: &str) -> Result<Self, LaunchError> {
        let (path, lineage) = parted(text);
        Self::of(path, lineage)
    }

    /// The names of all lineages that are saved there, in the order in which they began.
    pub fn lineages(&self) -> Result<Vec<String>, StoreError> {
        Ok(self
            .reader
            .lineages()?
            .into_iter()
            .map(|row| row.name)
            .collect())
    }

    /// How many of the events were pruned, and of how many.
    pub fn dropped(&self) -> Result<(u64, u64), StoreError> {
        self.reader.dropped()
    }

    /// Which process records more, if any.
    pub fn holder(&self) -> Result<Holder, LaunchError> {
        holder(&self.path)
    }

    /// The next lines; none when there are no more by now.
    pub fn more(&mut self) -> Result<Option<Vec<EventLine>>, StoreError> {
        let (records, last) = self.reader.after(self.told, PIECE)?;
        self.told = last;
        let tell = |record: &crate::store::Record| {
            self.translator
                .translate(&record.event, record.line, record.time_ms)
        };
        let lines = records.iter().flat_map(tell).collect();
        Ok((!records.is_empty()).then_some(lines))
    }
}

/// Returns a translator for all records, from the first that was not pruned.
pub(super) fn event_translator(reader: &Reader) -> Result<EventTranslator, StoreError> {
    let beginning = reader.beginning()?;
    // What is left before the newest gap begins where the run does.
    let step = if beginning.from == beginning.dropped {
        beginning.env.step
    } else {
        0
    };
    Ok(EventTranslator::new(
        reader.load(&At::Head)?.base.shape,
        step,
    ))
}

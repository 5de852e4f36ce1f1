//! Reads the recorded events as public event lines, from the beginning, in
//! pieces; and the recorded host calls.

use strata_core::record::event::{AttemptEvent, Event, HostCalled};
use strata_driver::public_event::{EventLine, EventTranslator};
use strata_storage::{
    LockHolder, RECORDS_PER_BATCH, Reader, StateSelector, StorageLocation, StoreError,
};

use super::LaunchError;
use super::compare::split_at_sign;
use strata_view::RecordedCallView;

/// Converts the records of a saved team to public event lines. The team may run at the same time.
pub struct EventReader {
    location: StorageLocation,
    /// The lineage that is read, if it is not the current one.
    lineage: Option<String>,
    reader: Box<dyn Reader>,
    translator: EventTranslator,
    /// The position of the last record that was returned.
    position: u64,
}

impl EventReader {
    /// Begins with the first record of a run.
    pub fn open(location: &StorageLocation) -> Result<Self, LaunchError> {
        Self::open_lineage(location, None)
    }

    /// Begins with the events that lead to the newest state of a lineage. `None` selects the
    /// current one.
    pub fn open_lineage(
        location: &StorageLocation,
        lineage: Option<&str>,
    ) -> Result<Self, LaunchError> {
        let mut reader = location.read()?;
        if let Some(name) = lineage {
            reader.switch_lineage(name)?;
        }
        let translator = event_translator(reader.as_ref())?;
        Ok(Self {
            location: location.clone(),
            lineage: lineage.map(str::to_owned),
            reader,
            translator,
            position: 0,
        })
    }

    /// Opens what is given as `PATH` or `PATH@LINEAGE`.
    pub fn parse_and_open(text: &str) -> Result<Self, LaunchError> {
        let (path, lineage) = split_at_sign(text);
        Self::open_lineage(&path.into(), lineage)
    }

    /// Returns the names of all lineages that are saved there, in the order in which they began.
    pub fn lineages(&self) -> Result<Vec<String>, StoreError> {
        Ok(self
            .reader
            .lineages()?
            .into_iter()
            .map(|row| row.name)
            .collect())
    }

    /// Returns the name of the lineage that the run continues by default.
    pub fn current_lineage(&self) -> Result<String, StoreError> {
        let rows = self.reader.lineages()?;
        let current = rows.into_iter().find(|row| row.current);
        Ok(current.map(|row| row.name).unwrap_or_default())
    }

    /// Returns how many events were pruned, and the total number.
    pub fn pruned_events(&self) -> Result<(u64, u64), StoreError> {
        self.reader.dropped()
    }

    /// Returns where the run is kept.
    pub fn location(&self) -> &StorageLocation {
        &self.location
    }

    /// Opens the run again, and continues where it was.
    pub fn reopen(&mut self) -> Result<(), StoreError> {
        let mut reader = self.location.read()?;
        if let Some(name) = &self.lineage {
            reader.switch_lineage(name)?;
        }
        self.reader = reader;
        Ok(())
    }

    /// Returns which process is recording more, if any.
    pub fn holder(&self) -> Result<LockHolder, StoreError> {
        self.location.holder()
    }

    /// Returns the next lines, or `None` if there are no more at present.
    pub fn next_lines(&mut self) -> Result<Option<Vec<EventLine>>, StoreError> {
        let (records, last) = self.reader.batch_after(self.position, RECORDS_PER_BATCH)?;
        self.position = last;
        let tell = |record: &strata_storage::Record| {
            self.translator
                .translate(&record.event, record.line, record.time_ms)
        };
        let lines = records.iter().flat_map(tell).collect();
        Ok((!records.is_empty()).then_some(lines))
    }
}

/// Passes the view of every recorded call of a run to `visit`, oldest first.
pub fn for_each_call(
    location: &StorageLocation,
    visit: &mut dyn FnMut(RecordedCallView),
) -> Result<(), LaunchError> {
    let reader = location.read()?;
    let mut translator = event_translator(reader.as_ref())?;
    for record in reader.records_after(0) {
        let record = record?;
        let lines = translator.translate(&record.event, record.line, record.time_ms);
        if let Event::Attempt(_, AttemptEvent::HostCalled(HostCalled { call, .. })) = &record.event
        {
            for line in lines {
                visit(RecordedCallView::new(line, call));
            }
        }
    }
    Ok(())
}

/// Returns a translator for all records from the first that was not pruned.
fn event_translator(reader: &dyn Reader) -> Result<EventTranslator, StoreError> {
    let beginning = reader.earliest_state()?;
    // Events that remain before the newest gap begin where the run does.
    let step = if beginning.position == beginning.dropped {
        beginning.env.step
    } else {
        0
    };
    Ok(EventTranslator::new(
        reader.load(&StateSelector::Head)?.base.shape,
        step,
    ))
}

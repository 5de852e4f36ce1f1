//! The target of `--events`: stdout, or a file that holds all events of a run across resumes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use strata_host::launch::{EventReader, OutputFile, TeamInputs, WriteTime};
use strata_host::open;
use strata_host::public_event::EventLine;
use strata_host::storage::StorageLocation;

use super::CommandFailure;
use super::printer::Printer;
use super::sanitize::sanitize_json;

/// How many bytes at the end of the file are read to find the last complete line. The number is
/// multiplied by four until one is found.
const END_BYTES: u64 = 64 << 10;

/// What happens to the previous content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PreviousContent {
    /// It is kept and appended to: the events of the run that is kept there continue.
    Kept(StorageLocation),
    /// It is dropped.
    Dropped,
}

/// The target of events.
pub(super) enum EventsSink {
    /// Stdout.
    Output(Printer),
    /// A file or a pipe.
    File(EventsFile),
}

/// The first bytes of every events file.
const BEGINNING: &[u8] = b"{\"n\":";

/// Fails if the file that `option` names is an input of the run, which would be overwritten, or if
/// actions of the run could read it or write into it.
pub(super) fn ensure_not_input(
    option: &str,
    output: OutputFile<'_>,
    inputs: &TeamInputs<'_>,
) -> Result<(), CommandFailure> {
    match inputs.find(&output) {
        None => Ok(()),
        Some(conflict) => Err(CommandFailure::usage(format!(
            "`{option}` names {conflict}"
        ))),
    }
}

/// Fails if `--events` names an input of the run.
pub(super) fn ensure_events_not_input(
    events: Option<&Path>,
    inputs: &TeamInputs<'_>,
) -> Result<(), CommandFailure> {
    // `-` is stdout.
    let Some(path) = events.filter(|path| *path != Path::new("-")) else {
        return Ok(());
    };
    let output = OutputFile {
        path,
        beginning: BEGINNING,
        time: WriteTime::DuringRun,
    };
    ensure_not_input("--events", output, inputs)
}

impl EventsSink {
    /// Opens the target; `-` is stdout.
    pub(super) fn open(
        path: &Path,
        previous: PreviousContent,
        printer: &Printer,
    ) -> Result<Self, CommandFailure> {
        if path == Path::new("-") {
            return Ok(Self::Output(printer.clone()));
        }
        EventsFile::open(path, previous).map(Self::File)
    }

    /// Writes the recorded events that the file lacks, for a run that has ended.
    pub(super) fn write_missing(&mut self) -> io::Result<()> {
        match self {
            Self::Output(_) => Ok(()),
            Self::File(file) => file.prepare(u64::MAX),
        }
    }

    /// Writes a line with a single write, so that readers never see part of one.
    pub(super) fn write(&mut self, line: &EventLine) -> io::Result<()> {
        match self {
            Self::Output(printer) => printer.write_output(json_line(line).as_bytes()),
            Self::File(file) => {
                file.prepare(line.n)?;
                file.write_line(line)
            }
        }
    }
}

/// An events file. Its previous content is dropped with the first line and not earlier: a run that
/// is refused, because another process holds the storage, must not empty the file that this process
/// writes.
pub(super) struct EventsFile {
    file: File,
    /// What to do with the previous content before the first line; `None` after it.
    previous: Option<PreviousContent>,
    /// Whether the file existed and was empty: its creator was killed before it wrote the first
    /// line.
    was_empty: bool,
    path: PathBuf,
}

impl EventsFile {
    fn open(path: &Path, previous: PreviousContent) -> Result<Self, CommandFailure> {
        let was_empty = path.metadata().is_ok_and(|meta| meta.len() == 0);
        // It is opened in append mode, since another process may truncate it in the meantime.
        let file = open::to_append(path).map_err(|error| {
            CommandFailure::usage(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(Self {
            file,
            previous: Some(previous),
            was_empty,
            path: path.to_owned(),
        })
    }

    /// Prepares the file for line `n`, if that is the first one.
    fn prepare(&mut self, n: u64) -> io::Result<()> {
        match self.previous.take() {
            None => Ok(()),
            Some(_) if !self.file.metadata()?.is_file() => Ok(()),
            Some(PreviousContent::Dropped) => self.file.set_len(0),
            Some(PreviousContent::Kept(saved)) => {
                let end = self.read_end()?;
                // The file may end within a line, written by a process that was killed. The line is
                // then written again completely.
                let torn = end.len()
                    - end
                        .iter()
                        .rposition(|byte| *byte == b'\n')
                        .map_or(0, |at| at + 1);
                if torn > 0 && last_line_number(&end).is_some() {
                    self.file
                        .set_len(self.file.metadata()?.len() - torn as u64)?;
                } else if torn > 0 {
                    self.file.write_all(b"\n")?;
                }
                match last_line_number(&end).or(self.was_empty.then_some(0)) {
                    Some(last) if last + 1 < n => self.write_between(&saved, last, n),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Writes the events that were recorded between lines `last` and `next`: a process that was
    /// killed may have recorded them without writing them here.
    fn write_between(
        &mut self,
        saved: &StorageLocation,
        mut last: u64,
        next: u64,
    ) -> io::Result<()> {
        let mut telling = EventReader::open(saved).map_err(io::Error::other)?;
        while let Some(lines) = telling.next_lines().map_err(io::Error::other)? {
            for line in lines.iter().filter(|line| line.n < next) {
                if line.n > last {
                    self.write_between_from_other_lineages(saved, last, line.n)?;
                    self.write_line(line)?;
                    last = line.n;
                }
            }
        }
        self.write_between_from_other_lineages(saved, last, next)
    }

    /// Writes the missing events that belong to lineages that were left since.
    fn write_between_from_other_lineages(
        &mut self,
        saved: &StorageLocation,
        last: u64,
        next: u64,
    ) -> io::Result<()> {
        if last + 1 == next {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        let lineages = EventReader::open(saved)
            .map_err(io::Error::other)?
            .lineages()
            .map_err(io::Error::other)?;
        for lineage in lineages {
            let mut telling =
                EventReader::open_lineage(saved, Some(&lineage)).map_err(io::Error::other)?;
            while let Some(lines) = telling.next_lines().map_err(io::Error::other)? {
                let missing = lines
                    .into_iter()
                    .filter(|line| line.n > last && line.n < next);
                found.extend(missing.map(|line| (line.n, line)));
            }
        }
        found.values().try_for_each(|line| self.write_line(line))
    }

    fn write_line(&mut self, line: &EventLine) -> io::Result<()> {
        self.file.write_all(json_line(line).as_bytes())
    }

    /// Returns the end of the file, which contains a complete line if the file has one.
    fn read_end(&self) -> io::Result<Vec<u8>> {
        // The file is opened again for reading. Opening it for both would not work for a pipe.
        let mut file = open::regular(&self.path)?;
        let length = file.metadata()?.len();
        let mut looked = END_BYTES;
        loop {
            let from = length.saturating_sub(looked);
            file.seek(SeekFrom::Start(from))?;
            let mut end = Vec::new();
            (&file).take(length - from).read_to_end(&mut end)?;
            if from == 0 || last_line_number(&end).is_some() {
                return Ok(end);
            }
            looked = looked.saturating_mul(4);
        }
    }
}

/// Returns an event as a line of JSON, with its line feed.
fn json_line(line: &EventLine) -> String {
    sanitize_json(&line.to_json()).into_owned() + "\n"
}

/// Returns the number of the last complete line that begins within `end`.
fn last_line_number(end: &[u8]) -> Option<u64> {
    let whole = &end[..=end.iter().rposition(|byte| *byte == b'\n')?];
    whole.split(|byte| *byte == b'\n').rev().find_map(|line| {
        let digits = line.strip_prefix(BEGINNING)?;
        let count = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        std::str::from_utf8(&digits[..count]).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_last_whole_line_is_found() {
        let check = |end: &str, expected: Option<u64>| {
            assert_eq!(last_line_number(end.as_bytes()), expected, "{end}")
        };
        check("", None);
        check("{\"n\":1}", None);
        check("{\"n\":1}\n", Some(1));
        check(
            "{\"n\":1,\"time\":2}\n{\"n\":23,\"kind\":\"x\"}\n{\"n\":24,\"ki",
            Some(23),
        );
        check("half\"}\n{\"n\":7}\n\n", Some(7));
        check("something else\n", None);
    }

    #[test]
    fn the_end_reaches_as_far_back_as_the_last_line_is_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let long = "x".repeat(3 * END_BYTES as usize);
        std::fs::write(
            &path,
            format!("{{\"n\":1}}\n{{\"n\":2,\"text\":\"{long}\"}}\n"),
        )
        .unwrap();
        let file = EventsFile::open(&path, PreviousContent::Kept(dir.path().into())).unwrap();
        assert_eq!(last_line_number(&file.read_end().unwrap()), Some(2));
    }
}

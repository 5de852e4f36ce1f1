//! Where `--events` writes: stdout, or a file that tells all of a run over its resumes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Failure;
use super::plain::json;
use super::terminal::Stream;
use crate::launch::{Inputs, OutputFile, Telling, WriteTime};
use crate::narrator::Line;
use crate::open;

/// How much of the end of a file is looked at, and four times as much again where that is within one line.
const END_BYTES: u64 = 64 << 10;

/// What becomes of what the file held before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It stays, and more comes after it: the events of the run that is saved there go on.
    Kept(PathBuf),
    /// It goes.
    Dropped,
}

/// Where events are written.
pub(super) enum EventsSink {
    /// Stdout.
    Output,
    /// A file, or a pipe.
    File(EventsFile),
}

/// How the file begins.
const BEGINNING: &[u8] = b"{\"n\":";

/// Refuses to write the file that an option names over an input of the run, or where actions of the run could read it
/// or write into it.
pub(super) fn spare(
    option: &str,
    output: OutputFile<'_>,
    inputs: &Inputs<'_>,
) -> Result<(), Failure> {
    match inputs.find(&output) {
        None => Ok(()),
        Some(conflict) => Err(Failure::usage(format!("`{option}` names {conflict}"))),
    }
}

/// The same of `--events`, which need not be given.
pub(super) fn spare_events(events: Option<&Path>, inputs: &Inputs<'_>) -> Result<(), Failure> {
    // `-` is stdout.
    let Some(path) = events.filter(|path| *path != Path::new("-")) else {
        return Ok(());
    };
    let output = OutputFile {
        path,
        beginning: BEGINNING,
        time: WriteTime::DuringRun,
    };
    spare("--events", output, inputs)
}

impl EventsSink {
    /// `-` is stdout.
    pub(super) fn open(path: &Path, held: Held) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Output);
        }
        EventsFile::open(path, held).map(Self::File)
    }

    /// Writes what was recorded and not written before, of a run in which nothing happens any more.
    pub(super) fn make_up(&mut self) -> io::Result<()> {
        match self {
            Self::Output => Ok(()),
            Self::File(file) => file.prepare(u64::MAX),
        }
    }

    /// Writes a line, in one piece, so that who follows it never sees half of one.
    pub(super) fn write(&mut self, line: &Line) -> io::Result<()> {
        match self {
            Self::Output => {
                let mut out = Stream::Output;
                out.write_all((json(&line.to_json()).into_owned() + "\n").as_bytes())?;
                out.flush()
            }
            Self::File(file) => {
                file.prepare(line.n)?;
                file.put(line)
            }
        }
    }
}

/// The file. What it held before is dropped with the first line and not earlier: a run that is refused, since another
/// one holds the storage, must not empty the file that the other one writes.
pub(super) struct EventsFile {
    file: File,
    /// What is done before the first line; none after it.
    held: Option<Held>,
    /// Whether it was there, with nothing in it: whoever made it was killed before it could tell the first line.
    was_empty: bool,
    path: PathBuf,
}

impl EventsFile {
    fn open(path: &Path, held: Held) -> Result<Self, Failure> {
        let was_empty = path.metadata().is_ok_and(|meta| meta.len() == 0);
        // At its end, wherever that is by then: somebody else may cut it off meanwhile.
        let file = open::to_append(path).map_err(|error| {
            Failure::usage(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(Self {
            file,
            held: Some(held),
            was_empty,
            path: path.to_owned(),
        })
    }

    /// Gets ready for the line `n`, if it is the first.
    fn prepare(&mut self, n: u64) -> io::Result<()> {
        match self.held.take() {
            None => Ok(()),
            Some(_) if !self.file.metadata()?.is_file() => Ok(()),
            Some(Held::Dropped) => self.file.set_len(0),
            Some(Held::Kept(saved)) => {
                let end = self.end()?;
                // It may end within a line, of a process that was killed, say: that is told again, whole.
                let torn = end.len()
                    - end
                        .iter()
                        .rposition(|byte| *byte == b'\n')
                        .map_or(0, |at| at + 1);
                if torn > 0 && last_number(&end).is_some() {
                    self.file
                        .set_len(self.file.metadata()?.len() - torn as u64)?;
                } else if torn > 0 {
                    self.file.write_all(b"\n")?;
                }
                match last_number(&end).or(self.was_empty.then_some(0)) {
                    Some(last) if last + 1 < n => self.make_up(&saved, (last, n)),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Writes what was recorded between two lines: who was killed has recorded it and told nobody.
    fn make_up(&mut self, saved: &Path, (mut last, next): (u64, u64)) -> io::Result<()> {
        let mut telling = Telling::open(saved).map_err(io::Error::other)?;
        while let Some(lines) = telling.more().map_err(io::Error::other)? {
            for line in lines.iter().filter(|line| line.n < next) {
                if line.n > last {
                    self.make_up_for_others(saved, (last, line.n))?;
                    self.put(line)?;
                    last = line.n;
                }
            }
        }
        self.make_up_for_others(saved, (last, next))
    }

    /// The same with what was recorded in lineages that were left since.
    fn make_up_for_others(&mut self, saved: &Path, (last, next): (u64, u64)) -> io::Result<()> {
        if last + 1 == next {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        let lineages = Telling::open(saved)
            .map_err(io::Error::other)?
            .lineages()
            .map_err(io::Error::other)?;
        for lineage in lineages {
            let mut telling = Telling::of(saved, Some(&lineage)).map_err(io::Error::other)?;
            while let Some(lines) = telling.more().map_err(io::Error::other)? {
                let missing = lines
                    .into_iter()
                    .filter(|line| line.n > last && line.n < next);
                found.extend(missing.map(|line| (line.n, line)));
            }
        }
        found.values().try_for_each(|line| self.put(line))
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        self.file
            .write_all((json(&line.to_json()).into_owned() + "\n").as_bytes())
    }

    /// The end of the file, with a whole line in it if there is one.
    fn end(&self) -> io::Result<Vec<u8>> {
        // It is opened once more, since a file that can be read, too, would be another thing where it is a pipe.
        let mut file = open::regular(&self.path)?;
        let length = file.metadata()?.len();
        let mut looked = END_BYTES;
        loop {
            let from = length.saturating_sub(looked);
            file.seek(SeekFrom::Start(from))?;
            let mut end = Vec::new();
            (&file).take(length - from).read_to_end(&mut end)?;
            if from == 0 || last_number(&end).is_some() {
                return Ok(end);
            }
            looked = looked.saturating_mul(4);
        }
    }
}

/// The number of the last whole line that begins here.
fn last_number(end: &[u8]) -> Option<u64> {
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
            assert_eq!(last_number(end.as_bytes()), expected, "{end}")
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
        let file = EventsFile::open(&path, Held::Kept(dir.path().to_owned())).unwrap();
        assert_eq!(last_number(&file.end().unwrap()), Some(2));
    }
}

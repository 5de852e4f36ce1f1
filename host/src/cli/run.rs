//! `run`: starts or resumes a team.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_core::event::Status;
use strata_core::id::CheckpointId;
use strata_core::message::IDEA_LABEL;
use strata_core::stepper::Stepper;
use tokio::sync::watch;

use super::edits::{tell_edited, tell_mended};
use super::ending::Ending;
use super::events_sink::{EventsSink, Held, spare, spare_events};
use super::live::Live;
use super::prompt::{Asked, Prompt};
use super::reporter::{Loudness, Reporter};
use super::requests::answer_of;
use super::result::show_result;
use super::signals::Signals;
use super::{Failure, RunArgs, exit_code, metrics, note, path_word, screen, warn};
use crate::cli::progress::Progress;
use crate::driver::{Motion, OnLine, Stop};
use crate::launch::{
    Inputs, LaunchError, Notes, Notice, OutputFile, Resume, Resumed, Run, SavedTeamFile, Start,
    WriteTime, resume, start, storage_by_name,
};
use crate::manifest::operator::{files as policy_files, in_force};
use crate::manifest::{Overrides, team_in};
use crate::public_event::EventLine;
use crate::services::llm::{Audience, RECORD_BEGINNING};
use crate::store::{Replace, follow_link, link_to_last};

/// The team file if none is named.
const DEFAULT_TEAM: &str = "team.toml";

/// The link to the last run for which no storage was named.
const LAST: &str = "workspace/storage/team";

/// The time after which an idle thread of the blocking pool ends: practically never.
const FOR_GOOD: Duration = Duration::from_secs(u32::MAX as u64);

/// Runs a team. With `verbose`, models' replies are shown while they are received.
pub(super) fn run(args: RunArgs, verbose: u8) -> Result<u8, Failure> {
    let shown = (verbose > 0 && !args.quiet && !args.json).then(screen::audience);
    to_its_end(launch_and_run(args, shown))
}

/// Runs a future that runs teams, to its end.
pub(super) fn to_its_end(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Guests yield only at epochs, so timers and signals are polled at every turn.
    let runtime = runtime
        .enable_all()
        .event_interval(1)
        .thread_keep_alive(FOR_GOOD)
        .build();
    let runtime =
        runtime.map_err(|error| Failure::internal(format!("cannot start the runtime: {error}")))?;
    // Starts one thread of the blocking pool now. If a limit prevents further threads later, it
    // does all blocking work, one item at a time.
    drop(runtime.spawn_blocking(|| ()));
    let code = runtime.block_on(work);
    // The end of the process must not wait for an action that hangs in the host.
    runtime.shutdown_background();
    code
}

async fn launch_and_run(args: RunArgs, shown: Option<Audience>) -> Result<u8, Failure> {
    let signals = Signals::heard()?;
    let loudness = if args.quiet {
        Loudness::Quiet
    } else {
        Loudness::Normal
    };
    let live = if args.quiet {
        Live::default()
    } else {
        Live::at_terminal()
    };
    let storage = args.storage()?;
    // This must precede the creation of any file.
    spare_inputs(&args, &storage)?;
    let events = args.events.as_deref().map(|path| (path, args.held()));
    let had_events = args.events.as_ref().is_some_and(|path| path.exists());
    let on_line = OnLine::Each(listener(events, Reporter::new(loudness, live.clone()))?);
    // The server is started before anything is saved, so that an address in use leaves nothing
    // behind.
    let metrics = match args.metrics {
        Some(address) => Some(metrics::serve(address, args.quiet).await?),
        None => None,
    };
    let mut run = match launch(&args, &storage, on_line)? {
        Launched::Goes(run) => run,
        Launched::Finished(stepper, path) => {
            if !args.quiet {
                note(format_args!(
                    "the team saved in `{}` is done; nothing is left to run",
                    path.display()
                ));
            }
            if let (Some(events), true) = (&args.events, had_events) {
                let made_up = EventsSink::open(events, args.held())?.make_up();
                made_up.unwrap_or_else(|e| {
                    warn(format_args!("`{}` lacks events: {e}", events.display()))
                });
            }
            show_result(&args, Status::Done, &stepper, &path);
            return Ok(0);
        }
    };
    if let Some(audience) = live.listening_with(shown) {
        run.let_hear(audience);
    }
    run.prepare(args.when_idle());
    if let Some(metrics) = metrics {
        run.count_in(metrics);
    }
    if args.keep_alive && !args.quiet {
        tokio::spawn(tell_when_idle(run.motion(), run.path().to_owned()));
    }
    live.begin(run.stepper());
    signals.begin();
    let mut stop = signals.stop.clone();
    let mut prompt = Prompt::at_terminal().filter(|_| loudness == Loudness::Normal);
    let played = play(&mut run, &mut prompt, &mut stop).await;
    live.end();
    let status = played?;
    Ending::of(&run, args.policy.as_deref()).tell(status, loudness);
    show_result(&args, status, run.stepper(), run.path());
    Ok(if status == Status::Interrupted {
        signals.code()
    } else {
        exit_code(status)
    })
}

/// Fails if an output file is an input of the run.
fn spare_inputs(args: &RunArgs, storage: &Path) -> Result<(), Failure> {
    if args.record.is_none() && args.events.is_none() {
        return Ok(());
    }
    let team = Words::parse(&args.words)?.team;
    let team = team.or_else(|| args.recover_path.is_none().then(|| DEFAULT_TEAM.into()));
    let inputs = Inputs {
        team: team.as_deref(),
        storage: Some(storage),
        components: &args.component,
        policies: policy_files(args.policy.as_deref()),
    };
    if let Some(record) = &args.record {
        let output = OutputFile {
            path: record,
            beginning: RECORD_BEGINNING,
            time: WriteTime::DuringRun,
        };
        spare("--record", output, &inputs)?;
    }
    spare_events(args.events.as_deref(), &inputs)
}

/// Runs a team until nothing is left to do without a human. If it is stopped while a human is
/// asked, its saved state remains waiting, and `Interrupted` is returned.
pub(super) async fn play(
    run: &mut Run,
    prompt: &mut Option<Prompt>,
    stop: &mut Stop,
) -> Result<Status, Failure> {
    let mut status = run.run(stop).await?;
    while let (Status::Waiting, Some(prompt)) = (status, prompt.as_mut()) {
        let asked = prompt.ask(run, stop).await?;
        if asked != Asked::Settled {
            run.dismiss().await;
        }
        match asked {
            Asked::Settled => run.go_on()?,
            Asked::Nothing => break,
            Asked::Stopped => return Ok(Status::Interrupted),
        }
        status = run.run(stop).await?;
    }
    Ok(status)
}

/// Reports each time that nothing is left to do, and how to change that.
async fn tell_when_idle(mut motion: watch::Receiver<Motion>, path: PathBuf) {
    while motion
        .wait_for(|motion| matches!(motion, Motion::Idle(_)))
        .await
        .is_ok()
    {
        let path = path_word(&path);
        note(format_args!(
            "nothing is left to do; waiting: `strata-host send {path} --cause LABEL TEXT`, `strata-host answer {path} \
             REQUEST=JSON` where somebody is asked, or Ctrl-C to end"
        ));
        if motion
            .wait_for(|motion| !matches!(motion, Motion::Idle(_)))
            .await
            .is_err()
        {
            return;
        }
    }
}

enum Launched {
    Goes(Box<Run>),
    Finished(Box<Stepper>, PathBuf),
}

fn launch(args: &RunArgs, storage: &Path, on_line: OnLine) -> Result<Launched, Failure> {
    let words = Words::parse(&args.words)?;
    let overrides = Overrides {
        max_steps: args.max_steps,
        max_parallel: args.max_parallel,
        investment: args.investment,
        record: args.record.clone(),
        operators: in_force(args.policy.as_deref())?,
        components: args.component.clone(),
        ..Overrides::default()
    };
    match &args.recover_path {
        Some(path) => {
            if words.idea.is_some() {
                warn("the idea is ignored: a resume uses the saved one");
            }
            launch_saved(args, path, words.team, overrides, on_line)
        }
        None => launch_new(args, storage, words, overrides, on_line),
    }
}

/// Resumes the team saved at `path`.
fn launch_saved(
    args: &RunArgs,
    path: &PathBuf,
    team: Option<PathBuf>,
    overrides: Overrides,
    on_line: OnLine,
) -> Result<Launched, Failure> {
    let mut progress = Progress::begin().only_warnings(args.quiet);
    let report = &mut |notice: Notice<'_>| progress.tell(notice);
    if args
        .storage
        .as_ref()
        .is_some_and(|storage| follow_link(storage) != *path)
    {
        warn("`--storage` is ignored: a resume goes on where the team is saved");
    }
    let answers = args
        .answer
        .iter()
        .map(|text| answer_of(text))
        .collect::<Result<Vec<_>, _>>()?;
    let is_given = team.is_some();
    let what = Resume {
        team,
        saved_team_file: saved_team_file(args.trust),
        answers,
        calls: args.calls.into(),
        strict: args.strict,
        checkpoint: args.checkpoint.clone().map(CheckpointId),
        in_doubt: args.in_doubt.clone(),
        when_idle: args.when_idle(),
        ..Resume::new(path, overrides)
    };
    let resumed = resume(what, report, on_line);
    // This is reported even if the resume is refused, since the line that is named may be fixed
    // already.
    if !is_given && !args.quiet && is_mendable(&resumed) {
        tell_mended(path, args.policy.as_deref());
    }
    match resumed? {
        Resumed::Goes(run, notes) => {
            tell_notes(&notes, run.path());
            Ok(Launched::Goes(run))
        }
        Resumed::Finished(stepper, notes) => {
            tell_notes(&notes, path);
            Ok(Launched::Finished(stepper, path.clone()))
        }
    }
}

/// Starts a team in `storage`.
fn launch_new(
    args: &RunArgs,
    storage: &Path,
    words: Words,
    overrides: Overrides,
    on_line: OnLine,
) -> Result<Launched, Failure> {
    let mut progress = Progress::begin().only_warnings(args.quiet);
    let report = &mut |notice: Notice<'_>| progress.tell(notice);
    let Words { team, idea } = words;
    let default = || {
        Path::new(DEFAULT_TEAM)
            .exists()
            .then(|| DEFAULT_TEAM.into())
    };
    let team: PathBuf = team
        .or_else(default)
        .ok_or_else(|| no_team(idea.as_deref()))?;
    if let Some(idea) = idea.as_deref().filter(|idea| is_file(idea)) {
        warn(not_a_team(idea));
    }
    let replace = if args.force {
        Replace::Unfinished
    } else {
        Replace::Never
    };
    let what = Start {
        idea,
        replace,
        calls: args.calls.into(),
        ..Start::new(team, storage, overrides)
    };
    let started = start(what, report, on_line)?;
    if let Some(aside) = started.moved_to {
        report(Notice::Note(&format!(
            "the team that was saved there is now in `{}`",
            aside.display()
        )));
    }
    if args.storage.is_none()
        && let Err(error) = link_to_last(storage)
    {
        warn(format_args!("`{LAST}` does not lead to this run: {error}"));
    }
    Ok(Launched::Goes(Box::new(started.run)))
}

/// Returns whether editing the team file may make a difference to a resume.
fn is_mendable(resumed: &Result<Resumed, LaunchError>) -> bool {
    !matches!(
        resumed,
        Ok(Resumed::Finished(..)) | Err(LaunchError::Unrecognized(_))
    )
}

/// Returns which saved team files are used, according to `--trust`.
pub(super) fn saved_team_file(trust: bool) -> SavedTeamFile {
    if trust {
        SavedTeamFile::Trusted
    } else {
        SavedTeamFile::OwnOrHarmless
    }
}

/// Returns the failure for a run without a team file. The hint considers that the idea was meant as
/// one.
fn no_team(idea: Option<&str>) -> Failure {
    let inside = idea.and_then(|idea| team_in(Path::new(idea)));
    let meant = inside.map(|team| format!("; did you mean `{team}`?"));
    let file = || {
        idea.filter(|idea| is_file(idea))
            .map(|idea| format!("; {}", not_a_team(idea)))
    };
    let meant = meant.or_else(file).unwrap_or_default();
    let which = "which team? give a TEAM.toml, or `--recover_path PATH` to resume a saved one";
    Failure::usage(format!("{which}{meant}"))
}

pub(super) fn tell_notes(notes: &Notes, path: &Path) {
    if notes.team_json_differs {
        tell_edited(path);
    }
    if notes.nothing_in_doubt {
        warn(format_args!("`--in-doubt` is ignored: nothing is in doubt"));
    }
    if notes.unsent_idea {
        let path = path_word(path);
        warn(format_args!(
            "the idea was never sent, and nobody has mail; send it: `strata-host send {path} --cause {IDEA_LABEL} IDEA`"
        ));
    }
    for write in &notes.writes {
        warn(write);
    }
}

/// Returns whether an idea looks like the name of a file.
fn is_file(idea: &str) -> bool {
    let kind = Path::new(idea)
        .extension()
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    !idea.contains(char::is_whitespace)
        && ((kind.starts_with('t') && kind.ends_with("ml")) || Path::new(idea).is_file())
}

/// Explains that a name without `.toml` was taken as the idea.
fn not_a_team(idea: &str) -> String {
    format!("`{idea}` does not end in `.toml`, so it was taken as the idea")
}

/// What the positional arguments of the command line name.
struct Words {
    team: Option<PathBuf>,
    idea: Option<String>,
}

impl Words {
    /// Separates the team file from the idea.
    fn parse(words: &[String]) -> Result<Self, Failure> {
        let (mut teams, mut ideas) = (Vec::new(), Vec::new());
        for word in words {
            if word.ends_with(".toml") {
                teams.push(word.clone());
            } else {
                ideas.push(word.clone());
            }
        }
        // An idea may end in the name of a file, too.
        if ideas.is_empty() && teams.len() > 1 {
            ideas.extend(teams.pop_if(|last| last.contains(char::is_whitespace)));
        }
        if teams.len() > 1 || ideas.len() > 1 {
            let what = match teams.as_slice() {
                [one, two, ..] => {
                    format!("two team files were given, `{one}` and `{two}`; a run has one")
                }
                _ => match ideas.iter().find(|idea| is_file(idea)) {
                    Some(idea) => format!("two ideas were given; {}", not_a_team(idea)),
                    None => "two ideas were given; put an idea of several words in quotes".into(),
                },
            };
            return Err(Failure::usage(what));
        }
        Ok(Self {
            team: teams.into_iter().next().map(PathBuf::from),
            idea: ideas.into_iter().next(),
        })
    }
}

/// Receives public events.
pub(super) type Listener = Box<dyn FnMut(&EventLine) + Send>;

/// Returns a listener that writes public events to `events` and reports them to the operator.
pub(super) fn listener(
    events: Option<(&Path, Held)>,
    mut reporter: Reporter,
) -> Result<Listener, Failure> {
    let mut sink = events
        .map(|(path, held)| EventsSink::open(path, held))
        .transpose()?;
    Ok(Box::new(move |line: &EventLine| {
        if let Some(out) = &mut sink
            && let Err(error) = out.write(line)
        {
            warn(format_args!("events are no longer written: {error}"));
            sink = None;
        }
        reporter.tell(line);
    }))
}

impl RunArgs {
    /// Returns the directory where the run is, or will be, saved.
    fn storage(&self) -> Result<PathBuf, Failure> {
        let team = Words::parse(&self.words)?.team;
        let by_name = || storage_by_name(team.as_deref().unwrap_or(Path::new(DEFAULT_TEAM)));
        // A resume names its own directory.
        Ok(self
            .recover_path
            .clone()
            .or_else(|| self.storage.clone())
            .unwrap_or_else(by_name))
    }

    fn held(&self) -> Held {
        self.recover_path.clone().map_or(Held::Dropped, Held::Kept)
    }
}

//! A conversation of a model with tools is killed or interrupted after each event: no turn is
//! requested twice, except one that was in flight, no finished call is made again, and every request
//! has the bytes of the undisturbed run.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::crash::in_parallel;
use crate::process::{Ended, Process, Signal};
use crate::saved::essence_of_lineage;
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// Three turns: two calls at the same time; a call that a person approves and one of another role,
/// whose model takes a turn of its own; a handoff.
const TEAM: &str = r#"
schema = "strata.team/1"

[team]
name = "office"
idea = "pay the bill"

[llm]
provider = "openai"
base_url = "http://127.0.0.1:PORT/v1/turns"
model = "m"
price = { input = 1.0, output = 1.0 }

[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
instructions = '''script: [
  [["look", { "at": "bill" }], ["look", { "at": "account" }]],
  [["pay", { "euros": 12 }], ["Auditor", { "message": "is 12 right?" }]],
  [["transfer_to_Desk", { "message": "paid" }]]
]'''
handoff = ["Desk"]

[[role.action]]
name = "look"
component = "probe.wasm"
description = "looks at something"
config = { steps = [{ now = true }, { set = "looked", value = 1, scope = "seen" }, { say = "saw {arguments}" }] }

[[role.action]]
name = "pay"
component = "probe.wasm"
description = "pays a sum"
approve = true
config = { steps = [{ get = "looked", scope = "seen" }, { say = "paid {arguments} after {reads}" }] }

[[role.tool]]
role = "Auditor"

[[role]]
name = "Auditor"
react = "tools"
instructions = '''script: [[["check", { "sum": 12 }]], "12 is right"]'''
[[role.action]]
name = "check"
component = "probe.wasm"
description = "checks a sum"
config = { steps = [{ random = 4 }, { say = "checked {arguments}" }] }

[[role]]
name = "Desk"
[[role.action]]
name = "File"
component = "probe.wasm"
config = { steps = [{ say = "filed: {inputs}" }] }

[env.scope.seen]
reducer = "add"
"#;

const ANSWER: &str = r#"ask-0-0-1-0={"approve": true}"#;
/// The maximum number of resumes until the run ends.
const RESUMES: usize = 6;

/// A conversation that nothing disturbs.
struct Undisturbed {
    events: Vec<Value>,
    /// How many events its first process prints. It ends because a person is asked.
    first: usize,
    saved: Value,
    /// The bodies of the requests.
    requests: Vec<Vec<u8>>,
}

/// A copy of the team with a model of its own.
struct Office {
    web: Web,
    workspace: Workspace,
}

impl Office {
    fn new() -> Self {
        let web = Web::new();
        let workspace = Workspace::with(&TEAM.replace("PORT", &web.port().to_string()));
        Self { web, workspace }
    }

    fn start(&self) -> Process {
        self.workspace.start_run(&[])
    }

    fn resume(&self) -> Process {
        self.workspace
            .start(&["run", "--recover_path", "store", "--events", "-"])
    }

    fn answer(&self) -> Process {
        self.workspace.start(&[
            "run",
            "--recover_path",
            "store",
            "--events",
            "-",
            "--answer",
            ANSWER,
        ])
    }

    fn keep_only_team_json(&self) {
        for entry in fs::read_dir(self.workspace.path("store")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "team.json" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    fn requests(&self) -> Vec<Vec<u8>> {
        let requests = self.web.requests();
        requests.into_iter().map(|request| request.body).collect()
    }

    /// Returns the saved state without the costs: a request in flight when the process was killed is
    /// charged, because the provider may have answered it.
    fn saved(&self) -> Value {
        essence_of_lineage(self.workspace.team_json())
    }
}

fn undisturbed() -> Undisturbed {
    let office = Office::new();
    let first = office.start().end().expect(4).events().len();
    office.answer().end().expect(0);
    Undisturbed {
        events: office.workspace.recorded(),
        first,
        saved: office.saved(),
        requests: office.requests(),
    }
}

/// How a process is stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Kill,
    Interrupt,
    /// Interrupted, and then all files except `team.json` are removed.
    KeepTeamJson,
}

impl Stop {
    /// Reads `lines` events of a process, and stops it.
    fn after(self, lines: usize, mut process: Process) -> Ended {
        for _ in 0..lines {
            if process.next().is_none() {
                break;
            }
        }
        match self {
            Self::Kill => process.kill(),
            Self::Interrupt | Self::KeepTeamJson => {
                process.signal(Signal::INT);
                process.end()
            }
        }
    }
}

/// Stops a conversation after its event `n`, and continues it to its end.
fn check(n: usize, stop: Stop, undisturbed: &Undisturbed) {
    let office = Office::new();
    let first = if n <= undisturbed.first {
        stop.after(n, office.start())
    } else {
        office.start().end().expect(4);
        stop.after(n - undisturbed.first, office.answer())
    };
    if let Stop::KeepTeamJson = stop {
        office.keep_only_team_json();
    }
    let mut ended = first;
    for _ in 0..RESUMES {
        ended = match ended.code {
            Some(0) => break,
            Some(4) => office.answer().end(),
            _ => office.resume().end(),
        };
    }
    let what = format!("{stop:?} after event {n}\n{}", ended.stderr);
    assert_eq!(ended.code, Some(0), "{what}");
    assert_eq!(office.saved(), undisturbed.saved, "{what}");

    if !matches!(stop, Stop::KeepTeamJson) {
        let events = office.workspace.recorded();
        stream::assert_numbered(&events);
        stream::assert_same_finished_actions(&events, &undisturbed.events);
        let turns = |events: &[Value]| stream::of_kind(events, "turn").len();
        assert_eq!(turns(&events), turns(&undisturbed.events), "{what}");
    }

    let requests = office.requests();
    let known: BTreeSet<&Vec<u8>> = undisturbed.requests.iter().collect();
    let sent: BTreeSet<&Vec<u8>> = requests.iter().collect();
    assert_eq!(sent, known, "other requests were sent: {what}");
    // The request that was in flight when the process was stopped may be sent again.
    assert!(
        requests.len() <= undisturbed.requests.len() + 1,
        "{} requests: {what}",
        requests.len()
    );
}

#[test]
fn a_conversation_killed_after_any_event_pays_for_no_turn_twice() {
    let undisturbed = undisturbed();
    // Three of the clerk, two of the auditor.
    assert_eq!(undisturbed.requests.len(), 5);
    assert_eq!(stream::of_kind(&undisturbed.events, "turn").len(), 5);
    in_parallel(undisturbed.events.len(), |n| {
        check(n + 1, Stop::Kill, &undisturbed);
    });
}

#[test]
fn a_conversation_interrupted_after_any_event_pays_for_no_turn_twice() {
    let undisturbed = undisturbed();
    in_parallel(undisturbed.events.len(), |n| {
        check(n + 1, Stop::Interrupt, &undisturbed);
    });
}

#[test]
fn an_interrupted_conversation_continues_from_its_team_json_alone() {
    let undisturbed = undisturbed();
    in_parallel(undisturbed.events.len(), |n| {
        check(n + 1, Stop::KeepTeamJson, &undisturbed);
    });
}

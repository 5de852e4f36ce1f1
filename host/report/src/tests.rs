//! Tests of the page: no text is interpreted as markup, and the page's size is bounded for any run.

use std::path::Path;
use std::sync::Arc;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, CallFailed, CallStarted, ComponentChanged, ConflictingWriter, Event, HostCalled,
    Status, StepConflicted, StepStarted,
};
use strata_core::record::fault::{Fault, FaultHandling, FaultKind};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, HostCall, HostCallKind, RecordedCallUse,
};
use strata_core::record::id::{ActionId, CheckpointId, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::rules::Rules;
use strata_core::record::work::{CallKey, Work};
use strata_core::state::environment::{Environment, Mail};
use strata_core::team::Team;
use strata_core::text::is_invisible;
use strata_manifest::Definition;
use strata_storage::{CheckpointOrigin, CheckpointRow, LineageRow, Record};

use super::{ReportBuilder, RunContext, StorageOverview, html};

/// A text that tries to break out of every context of the page.
const HOSTILE: &str = "</script></style></pre><script>boo()</script><img src=x onerror=boo()>\" onclick=\"boo()\u{202e}\u{2028}\0.";
/// The maximum size of a page. Browsers open it within seconds.
const MAX_PAGE_BYTES: usize = 40 << 20;

fn team(text: &str) -> Arc<Team> {
    let definition = Definition::parse(text, "team.toml", Path::new("/"))
        .unwrap_or_else(|error| panic!("{error}"));
    Arc::new(definition.team)
}

fn small() -> Arc<Team> {
    // Names must not contain invisible characters.
    let name: String = HOSTILE.chars().filter(|c| !is_invisible(*c)).collect();
    let name = serde_json::to_string(&name).unwrap();
    let team_file = format!(
        "schema = \"strata.team/1\"\n[team]\nname = {name}\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n"
    );
    team(&team_file)
}

/// A report of a small run, built from events.
struct ReportedRun {
    gathering: ReportBuilder,
}

impl ReportedRun {
    fn new(team: &Arc<Team>) -> Self {
        let env = Environment::new(team);
        let gathering = ReportBuilder::new(Stepper::new(team.clone(), env), []);
        let started =
            gathering
                .stepper()
                .run_started_event("run".into(), HOSTILE.into(), Default::default());
        let mut life = Self { gathering };
        life.apply(started);
        life
    }

    fn apply(&mut self, event: Event) {
        let record = Record {
            line: 0,
            lines: 0,
            time_ms: 1_700_000_000_000,
            event,
        };
        self.gathering
            .add_event(&record)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn page(self) -> String {
        html::page(&self.gathering.finish(RunContext::default()))
    }
}

/// The only action of the only role.
const WORK: Work = Work::Act {
    action: ActionId(0),
    task: None,
};
const ROLE: RoleId = RoleId(0);

fn begin_attempt(life: &mut ReportedRun) {
    life.apply(Event::StepStarted(StepStarted {
        step: 0,
        roles: vec![ROLE],
    }));
    let digest = Some(HOSTILE.into());
    let (attempt, journal, forgotten) = (1, RecordedCallUse::Fresh, Vec::new());
    life.apply(Event::Attempt(
        CallKey::new(ROLE, WORK),
        AttemptEvent::CallStarted(CallStarted {
            attempt,
            digest,
            call_reuse: journal,
            forgotten,
        }),
    ));
}

fn call(life: &mut ReportedRun, kind: HostCallKind, response: serde_json::Value) {
    let call = HostCall {
        kind,
        request: HOSTILE.into(),
        response: Json::from(response),
        cost: Usd(1),
        outcome: CallOutcome::Answered,
        model: None,
    };
    life.apply(Event::Attempt(
        CallKey::new(ROLE, WORK),
        AttemptEvent::HostCalled(HostCalled {
            call,
            source: AnswerSource::Live,
            summary: HOSTILE.into(),
        }),
    ));
}

#[test]
fn an_event_of_a_role_or_an_action_that_is_not_there_is_refused() {
    let (nobody, nothing) = (
        RoleId(7),
        Work::Act {
            action: ActionId(7),
            task: None,
        },
    );
    let call_of = |role, work| {
        Event::Attempt(
            CallKey::new(role, work),
            AttemptEvent::CallStarted(CallStarted {
                attempt: 1,
                digest: None,
                call_reuse: RecordedCallUse::Fresh,
                forgotten: Vec::new(),
            }),
        )
    };
    let writer = ConflictingWriter {
        call: CallKey::new(nobody, WORK),
        attempt: 1,
        digest: None,
    };
    let (scope, key) = ("team".to_owned(), "key".to_owned());
    let forged = [
        call_of(nobody, WORK),
        call_of(ROLE, nothing),
        Event::ComponentChanged(ComponentChanged {
            slot: Slot {
                role: nobody,
                kind: SlotKind::Think,
            },
            old: None,
            new: "x".into(),
        }),
        Event::StepConflicted(StepConflicted {
            step: 0,
            scope,
            key,
            writers: vec![writer],
        }),
    ];
    for event in forged {
        let mut life = ReportedRun::new(&small());
        let record = Record {
            line: 0,
            lines: 0,
            time_ms: 0,
            event,
        };
        assert!(
            life.gathering.add_event(&record).is_err(),
            "{:?}",
            record.event
        );
    }
}

#[test]
fn nothing_that_anybody_wrote_is_taken_for_markup() {
    let mut life = ReportedRun::new(&small());
    begin_attempt(&mut life);
    let reply = serde_json::json!({
        "text": HOSTILE, "data": null, "tool_calls": [], "model": HOSTILE, "input_tokens": 1, "output_tokens": 1,
    });
    call(&mut life, HostCallKind::Llm, reply);
    call(
        &mut life,
        HostCallKind::Http,
        serde_json::json!({ "status": 200, "headers": [], "body": HOSTILE }),
    );
    call(&mut life, HostCallKind::Human, HOSTILE.into());
    let lines = vec![HOSTILE.to_owned()];
    let fault = Fault {
        backtrace: lines.clone(),
        log: lines,
        ..Fault::new(FaultKind::Trap, HOSTILE)
    };
    let digest = Some(HOSTILE.into());
    life.apply(Event::Attempt(
        CallKey::new(ROLE, WORK),
        AttemptEvent::CallFailed(CallFailed {
            attempt: 1,
            digest,
            fault,
            retry_ms: None,
            handling: FaultHandling::Stops,
        }),
    ));
    let page = life.page();

    // Each place shows it as text: the message, the call, the fault, the model, the log.
    let shown = "&lt;script&gt;boo()&lt;/script&gt;&lt;img src=x onerror=boo()&gt;&quot; onclick=&quot;boo()";
    assert!(page.matches("boo()[U+202E][U+2028]").count() >= 8, "{page}");
    assert!(page.matches(shown).count() >= 10, "{page}");
    for (mark, count) in [
        ("<script", 1),
        ("</script", 1),
        ("<img", 0),
        ("boo()\"", 0),
        ("\0", 0),
        ("\u{202e}", 0),
    ] {
        assert_eq!(page.matches(mark).count(), count, "{mark}");
    }
    // The styles of the page and those of the picture.
    assert_eq!(
        (
            page.matches("<style").count(),
            page.matches("</style").count()
        ),
        (2, 2)
    );
    assert!(
        !page.contains(" style="),
        "the page forbids itself styles of single elements"
    );
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
    );
    assert!(!page.contains("https://"));
}

#[test]
fn a_hundred_thousand_messages_are_a_page_of_bounded_size_that_says_what_is_left_out() {
    let team = small();
    let mut env = Environment::new(&team);
    (env.checkpoint, env.rules) = (Some(CheckpointId("main-0".into())), Rules::from_team(&team));
    for number in 0..100_000 {
        let text = format!("message {number} {}", "<&> ".repeat(2_000));
        let id = format!("m-{number}").as_str().into();
        let message = env.add_message(Message::from_user(id, text, "Label".into()));
        env.history.push(message);
        env.roles[0].mailbox.push(Mail::batched(message));
    }
    let page =
        html::page(&ReportBuilder::new(Stepper::new(team, env), []).finish(RunContext::default()));
    assert!(page.len() < MAX_PAGE_BYTES, "{} bytes", page.len());
    assert!(page.contains("Of 100,000 messages, 95,000 are left out"));
    assert!(page.contains("shortened to keep the page small"));
    assert!(
        page.contains("message 99999 ")
            && page.contains("message 0 ")
            && !page.contains("message 50000 ")
    );
}

#[test]
fn a_team_that_is_too_large_for_a_picture_is_reported_without_one() {
    let role = |n: usize| {
        format!(
            "[[role]]\nname = \"R{n}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"A{n}\"\ncomponent = \"a.wasm\"\n"
        )
    };
    let roles: String = (0..800).map(role).collect();
    let page = ReportedRun::new(&team(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"many\"\n{roles}"
    )))
    .page();
    assert!(page.contains("cannot lay out the team `many`"));
    assert!(page.contains("740 more roles"));
    assert!(page.len() < MAX_PAGE_BYTES);
}

#[test]
fn all_attempts_are_counted_however_few_are_kept() {
    let mut life = ReportedRun::new(&small());
    begin_attempt(&mut life);
    for number in 1..=4_000 {
        let digest = Some(HOSTILE.into());
        let (fault, retry_ms) = (Fault::new(FaultKind::Error, "no"), Some(0));
        life.apply(Event::Attempt(
            CallKey::new(ROLE, WORK),
            AttemptEvent::CallFailed(CallFailed {
                attempt: number,
                digest,
                fault,
                retry_ms,
                handling: FaultHandling::Stops,
            }),
        ));
        life.apply(Event::Attempt(
            CallKey::new(ROLE, WORK),
            AttemptEvent::RetryDue,
        ));
        let (digest, journal, forgotten) =
            (Some(HOSTILE.into()), RecordedCallUse::Fresh, Vec::new());
        life.apply(Event::Attempt(
            CallKey::new(ROLE, WORK),
            AttemptEvent::CallStarted(CallStarted {
                attempt: number + 1,
                digest,
                call_reuse: journal,
                forgotten,
            }),
        ));
    }
    let page = life.page();
    assert!(page.contains(
        "<dt>Attempts</dt><dd>4,001</dd><dd class=\"note\">0 finished, 4,000 failed</dd>"
    ));
}

#[test]
fn states_that_are_left_out_are_counted_and_nothing_leads_to_them() {
    let id = |number: usize| CheckpointId(format!("main-{number}"));
    let team = small();
    let mut env = Environment::new(&team);
    (env.checkpoint, env.rules) = (Some(id(0)), Rules::from_team(&team));
    let gathering = ReportBuilder::new(Stepper::new(team, env), (0..300).map(id));
    let row = |number: usize| CheckpointRow {
        id: id(number),
        lineage: if number == 299 { "aside" } else { "main" }.into(),
        parent: number.checked_sub(1).map(id),
        step: number as u64,
        source: CheckpointOrigin::Entry,
        status: Status::Running,
        time_ms: None,
    };
    let aside = LineageRow {
        name: "aside".into(),
        events: 1,
        current: true,
    };
    let beside = StorageOverview {
        checkpoints: (0..300).map(row).collect(),
        lineages: vec![aside],
        ..StorageOverview::default()
    };
    let page = html::page(&gathering.finish(RunContext {
        storage: beside,
        ..RunContext::default()
    }));
    assert!(
        page.contains("Of 181 states, 180 are left out"),
        "of those that are gone through"
    );
    assert!(
        page.contains("at the checkpoints that are left") && page.contains(", left at main-298<")
    );
    assert!(page.contains("href=\"#s-main-0\"") && !page.contains("href=\"#s-main-298\""));
}

/// Ends the attempt that `begin_attempt` began with a fault.
fn fail_attempt(life: &mut ReportedRun, fault: Fault) {
    life.apply(Event::Attempt(
        CallKey::new(ROLE, WORK),
        AttemptEvent::CallFailed(CallFailed {
            attempt: 1,
            digest: None,
            fault,
            retry_ms: None,
            handling: FaultHandling::Stops,
        }),
    ));
}

#[test]
fn a_line_of_the_log_or_the_stack_that_is_in_the_message_is_not_shown_again() {
    let mut life = ReportedRun::new(&small());
    begin_attempt(&mut life);
    let message =
        "KeyError: 'x'\nTraceback (most recent call last):\n  File \"a.py\", line 7, in run";
    let fault = Fault {
        backtrace: vec!["File \"a.py\", line 7, in run".into()],
        log: vec!["counted 12".into(), message.to_owned()],
        ..Fault::new(FaultKind::Error, message)
    };
    fail_attempt(&mut life, fault);
    let page = life.page();
    for part in [
        "Traceback (most recent call last)",
        "line 7, in run",
        "counted 12",
    ] {
        assert_eq!(page.matches(part).count(), 1, "{part}: {page}");
    }
    assert!(!page.contains("Stack of the guest"));
}

#[test]
fn the_page_is_complete_without_its_script_and_its_filters_need_none() {
    let mut life = ReportedRun::new(&small());
    begin_attempt(&mut life);
    fail_attempt(&mut life, Fault::new(FaultKind::Error, "no"));
    let page = life.page();
    for kind in ["attempt", "message", "marker"] {
        assert!(
            page.contains(&format!("id=\"show-{kind}\" checked")),
            "{kind}"
        );
        assert!(
            page.contains(&format!(
                "#activity:has(#show-{kind}:not(:checked)) li.{kind}"
            )),
            "{kind}"
        );
        assert!(
            page.contains(&format!("<li class=\"entry {kind}")),
            "{kind}"
        );
    }
    // Only what the script works for is hidden until it runs.
    let hidden = page.matches(" hidden>").count();
    assert_eq!(hidden, page.matches("class=\"search\" hidden>").count());
}

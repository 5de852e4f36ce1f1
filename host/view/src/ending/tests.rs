//! Tests of endings: which commands continue a run, by how it ended.

use strata_core::record::fault::{Fault, FaultCause, FaultKind};

use super::*;
use crate::tests::fixture::{FixtureAttempt, RunFixture};

/// A team of one role with one component.
const ROLE: &str = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                    [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";

fn ending(run: &RunFixture, status: Status) -> RunEnding {
    ending_by(run, status, Continuation::OwnProcess)
}

fn ending_by(run: &RunFixture, status: Status, continuation: Continuation) -> RunEnding {
    let ended = EndedRun {
        stepper: &run.stepper,
        provenance: &run.provenance,
        storage: Path::new("store"),
        policy: Some(Path::new("policy.toml")),
        continuation,
    };
    ended.ending(status)
}

/// Returns the arguments of commands, without the quotes of a shell.
fn texts(commands: &[SuggestedCommand]) -> Vec<String> {
    let text = |argument: &CommandArgument| match argument {
        CommandArgument::Word(text)
        | CommandArgument::Placeholder(text)
        | CommandArgument::Template(text) => text.clone(),
        CommandArgument::Path(path) | CommandArgument::TeamFile(path) => path.display().to_string(),
        CommandArgument::Assignment { name, placeholder } => format!("{name}={placeholder}"),
    };
    let line = |command: &SuggestedCommand| {
        let words: Vec<String> = command.arguments.iter().map(text).collect();
        words.join(" ")
    };
    commands.iter().map(line).collect()
}

#[test]
fn a_team_that_is_done_has_a_result_and_nothing_to_continue() {
    let run = RunFixture::new(ROLE, |_, _| FixtureAttempt::Return("hello"));
    let ending = ending(&run, run.stepper.env().status);
    assert_eq!(ending.status, Status::Done);
    assert_eq!(
        ending.output.map(|output| (output.role, output.content)),
        Some(("A".into(), "hello".into()))
    );
    assert!(ending.resume_commands.is_empty() && ending.faults.is_empty());
}

#[test]
fn a_failed_team_continues_with_a_changed_file_another_component_or_as_it_is() {
    let run = RunFixture::new(ROLE, |_, _| {
        let fault = Fault::new(FaultKind::Error, "boom").with_cause(FaultCause::Declared);
        FixtureAttempt::Fail(fault)
    });
    let ending = ending(&run, run.stepper.env().status);
    assert_eq!(
        (ending.status, ending.fault_step),
        (Status::Failed, Some(0))
    );
    assert_eq!(ending.output, None);
    assert_eq!(
        texts(&ending.resume_commands),
        [
            "run /teams/team.toml --recover_path store --policy policy.toml",
            "run --recover_path store --policy policy.toml --component A.One=FIXED.wasm",
            "run --recover_path store --policy policy.toml",
        ]
    );
    let submitted = ending_by(&run, run.stepper.env().status, Continuation::Workers);
    assert_eq!(
        texts(&submitted.resume_commands),
        [
            "resume store /teams/team.toml",
            "resume store --component A.One=FIXED.wasm",
            "resume store",
        ]
    );
    let json = serde_json::to_value(&ending).expect("JSON");
    assert_eq!(json["status"], "failed");
    assert_eq!(json["storage"], "store");
    assert_eq!(json["faults"][0]["cause"], "declared");
}

#[test]
fn a_team_that_stopped_is_told_how_to_continue_by_its_status() {
    let run = RunFixture::new(ROLE, |_, _| FixtureAttempt::Return("hello"));
    let check = |status: Status, expected: &[&str]| {
        let ending = ending(&run, status);
        assert_eq!(
            texts(&ending.resume_commands),
            expected,
            "{}",
            status.name()
        );
    };
    let resume = "run --recover_path store --policy policy.toml";
    check(Status::Interrupted, &[resume]);
    check(Status::StepLimit, &[&format!("{resume} --max-steps N")]);
    check(
        Status::OutOfBudget,
        &[&format!("{resume} --investment USD")],
    );
    check(
        Status::InDoubt,
        &[
            &format!("{resume} --in-doubt redo"),
            &format!("{resume} --in-doubt skip"),
            &format!("{resume} --in-doubt {{\"status\":200,\"body\":\"…\"}}"),
        ],
    );
}

#[test]
fn what_decides_calls_in_doubt_depends_on_their_kind() {
    let run = RunFixture::new(ROLE, |_, _| FixtureAttempt::Return("hello"));
    let ended = EndedRun {
        stepper: &run.stepper,
        provenance: &run.provenance,
        storage: Path::new("store"),
        policy: None,
        continuation: Continuation::OwnProcess,
    };
    let doubt = |id: &str, kind, can_be_unknown| DoubtView {
        id: id.into(),
        what: "a call".into(),
        kind,
        can_be_unknown,
    };
    let request = doubt("A.One", HostCallKind::Http, false);
    let of_action = doubt("A.Two", HostCallKind::Mcp, false);
    let of_model = doubt("B.pages/order", HostCallKind::Mcp, true);
    let check = |doubts: &[&DoubtView], expected: &[&str]| {
        let doubts: Vec<DoubtView> = doubts.iter().map(|doubt| (*doubt).clone()).collect();
        let mut decisions = texts(&ended.commands_in_doubt(&doubts));
        for decision in &mut decisions {
            *decision = decision.replace("run --recover_path store --in-doubt ", "");
        }
        let all = [&["redo", "skip"], expected].concat();
        assert_eq!(decisions, all);
    };
    let response = "{\"status\":200,\"body\":\"…\"}";
    check(&[&request, &request], &[response]);
    check(&[&of_action], &["\"…\""]);
    check(&[&of_model, &of_model], &["unknown", "\"…\""]);
    check(&[&of_model, &of_action], &["\"…\""]);
    let both = format!("A.One={response} --in-doubt B.pages/order=\"…\"");
    check(&[&request, &of_model], &[&both]);
    assert_eq!(DoubtView::verdicts(&[request]), "redo|skip|VALUE");
    assert_eq!(
        DoubtView::verdicts(&[of_action, of_model]),
        "redo|skip|unknown|VALUE"
    );
}

#[test]
fn a_stalled_team_is_sent_what_its_join_waits_for() {
    let mut roles = String::new();
    for (name, label) in [("A", "UserRequirement"), ("B", "Nothing"), ("C", "Never")] {
        roles += &ROLE
            .replace("\"A\"", &format!("\"{name}\""))
            .replace("UserRequirement", label);
    }
    roles += "[[join]]\nid = \"both\"\nfrom = [\"A\", \"B\"]\nto = \"C\"\nmode = \"all\"\n\
                  [[route]]\nfrom = \"A\"\nto = [\"both\"]\n\
                  [[route]]\nfrom = \"B\"\nto = [\"both\"]\n";
    let run = RunFixture::new(&roles, |_, _| FixtureAttempt::Return("done"));
    let ending = ending(&run, run.stepper.env().status);
    assert_eq!(ending.status, Status::Stalled);
    assert_eq!(ending.waiting_joins[0].missing, ["B"]);
    let send: Vec<SuggestedCommand> = ending.send_command.into_iter().collect();
    assert_eq!(texts(&send), ["send store --to B --cause LABEL CONTENT"]);
}

//! Tool calls that code makes: those that an attempt at a tool call of a model made, and so on.
//!
//! They are part of the progress of the call that they were made in, like its recorded host calls. A
//! later attempt at that call recognises them by tool, arguments and occurrence: it is served the
//! results of those that have ended, and continues the others. The effects of those that the attempt
//! which succeeds has made take effect with its own, before these.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{CallProgress, Phase, ToolReturn, TurnCall};
use crate::record::event::NestedCallPlan;
use crate::record::fault::Fault;
use crate::record::file::FileChange;
use crate::record::host_call::ExternalWrite;
use crate::record::json::Json;
use crate::record::nested_path::NestedPath;
use crate::record::turn::CallForm;
use crate::record::work::Work;

/// A call that an attempt at another tool call made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedCall {
    /// A digest of the tool and the arguments, by which later attempts recognise the call.
    pub request: String,
    /// The arguments.
    pub arguments: Json,
    /// The last attempt at the outer call that made it; attempts count from 1.
    pub made_by: u32,
    /// The call.
    pub call: TurnCall,
}

impl NestedCall {
    /// Returns a call that an attempt makes for the first time.
    pub(crate) fn new(plan: &NestedCallPlan, made_by: u32) -> Self {
        Self {
            request: plan.request.clone(),
            arguments: plan.arguments.clone(),
            made_by,
            call: TurnCall::from_decision(&plan.tool, CallForm::Direct, &plan.decision),
        }
    }

    /// Returns the arguments: those that a human set, or else those of the code.
    pub fn arguments(&self) -> &Json {
        let edited = self.call.edited_arguments.as_ref();
        edited.unwrap_or(&self.arguments)
    }

    /// Prepares for being made by another attempt at the outer call.
    pub(crate) fn made_again(&mut self, attempt: u32) {
        self.made_by = attempt;
        let call = &mut self.call;
        if let Phase::Failed(fault) = &call.phase
            && !call.progress.leaves_writes_in_doubt()
        {
            call.phase = Phase::ReadyAfterFault(fault.clone());
        }
    }
}

impl CallProgress {
    /// Returns the nested calls that the current attempt made, with their numbers.
    fn made_now(&self) -> impl Iterator<Item = (u16, &NestedCall)> {
        let numbered = (0..).zip(&self.nested);
        numbered.filter(|(_, nested)| nested.made_by == self.attempts)
    }

    /// Returns the nested calls that the current attempt made and that have not ended, with their
    /// numbers. The attempt waits for them.
    pub fn awaited(&self) -> impl Iterator<Item = (u16, &NestedCall)> {
        self.made_now()
            .filter(|(_, nested)| nested.call.outcome.is_none())
    }

    /// Returns whether one of these waits for a human or for a role.
    pub(crate) fn waits_for_nested(&self) -> bool {
        self.awaited().any(|(_, nested)| {
            matches!(
                nested.call.phase,
                Phase::WaitingForHuman(_) | Phase::CallingRole | Phase::CallingTools
            )
        })
    }

    /// Returns the number of the call that an earlier attempt made with this request and that the current
    /// one has not made yet.
    pub fn earlier_nested(&self, request: &str) -> Option<u16> {
        self.all_earlier_nested(request).next()
    }

    /// Returns the numbers of all such calls, in order.
    pub fn all_earlier_nested(&self, request: &str) -> impl Iterator<Item = u16> {
        let numbered = (0..).zip(&self.nested);
        let earlier = numbered.filter(move |(_, nested)| {
            nested.request == request && nested.made_by != self.attempts
        });
        earlier.map(|(number, _)| number)
    }

    /// Returns the number of the `nth` call with this request that the current attempt has made, from 0.
    pub fn nth_nested(&self, request: &str, nth: usize) -> Option<u16> {
        let mut equal = self
            .made_now()
            .filter(|(_, nested)| nested.request == request);
        equal.nth(nth).map(|(number, _)| number)
    }

    /// Returns the first external write whose result is unknown and that must not simply be made
    /// again, of this call or of one within it that has not ended.
    pub(super) fn first_write_in_doubt(&self) -> Option<&ExternalWrite> {
        let mut own = self.external_writes.iter();
        own.find(|write| write.may_be_in_doubt()).or_else(|| {
            let open = self.nested.iter().map(|nested| &nested.call);
            open.filter(|call| call.outcome.is_none())
                .find_map(|call| call.progress.first_write_in_doubt())
        })
    }

    /// Returns the external writes of this call and of all that were made within it.
    pub(crate) fn all_external_writes(&self) -> Vec<&ExternalWrite> {
        let mut all: Vec<&ExternalWrite> = self.external_writes.iter().collect();
        for nested in &self.nested {
            all.extend(nested.call.progress.all_external_writes());
        }
        all
    }

    /// Visits the calls that were made within this one, at all levels.
    pub(crate) fn for_each_nested_mut(&mut self, visit: &mut dyn FnMut(&mut TurnCall)) {
        for nested in &mut self.nested {
            nested.call.progress.for_each_nested_mut(visit);
            visit(&mut nested.call);
        }
    }
}

impl TurnCall {
    /// Returns the call at a path within this one; this one if the path is empty.
    pub fn nested(&self, path: NestedPath) -> Option<&Self> {
        let mut call = self;
        for number in path.numbers() {
            call = &call.progress.nested.get(usize::from(*number))?.call;
        }
        Some(call)
    }

    /// Returns the call at a path within this one, to be changed.
    pub(super) fn nested_mut(&mut self, path: NestedPath) -> Option<&mut Self> {
        let mut call = self;
        for number in path.numbers() {
            let nested = call.progress.nested.get_mut(usize::from(*number))?;
            call = &mut nested.call;
        }
        Some(call)
    }

    /// Returns whether the current attempt waits for calls that it made.
    pub fn awaits_nested(&self) -> bool {
        self.phase == Phase::Running && self.progress.awaited().next().is_some()
    }

    /// Returns the call and all that were made within it, with their paths. A call comes before those
    /// within it.
    pub(crate) fn with_nested(&self) -> Vec<(NestedPath, &Self)> {
        let mut all = alloc::vec![(NestedPath::EMPTY, self)];
        self.add_nested(NestedPath::EMPTY, &mut all);
        all
    }

    /// Returns the call if it has not ended, and those within it that have not, as `with_nested` does.
    pub(crate) fn open_with_nested(&self) -> Vec<(NestedPath, &Self)> {
        let mut open = Vec::new();
        self.add_open(NestedPath::EMPTY, &mut open);
        open
    }

    fn add_open<'a>(&'a self, path: NestedPath, open: &mut Vec<(NestedPath, &'a Self)>) {
        if self.outcome.is_some() {
            return;
        }
        open.push((path, self));
        for (nested, number) in self.progress.nested.iter().zip(0..) {
            if let Some(path) = path.with(number) {
                nested.call.add_open(path, open);
            }
        }
    }

    fn add_nested<'a>(&'a self, path: NestedPath, all: &mut Vec<(NestedPath, &'a Self)>) {
        for (nested, number) in self.progress.nested.iter().zip(0..) {
            if let Some(path) = path.with(number) {
                all.push((path, &nested.call));
                nested.call.add_nested(path, all);
            }
        }
    }

    /// Returns what the calls returned that the current attempt made, in order.
    pub(crate) fn nested_returns(&self) -> impl Iterator<Item = &ToolReturn> {
        self.progress
            .made_now()
            .filter_map(|(_, nested)| nested.call.returned())
    }

    /// Returns the file changes of the calls within this one that take effect with it, in order. `work`
    /// is this call.
    pub(crate) fn nested_files(&self, work: Work) -> Vec<(Work, &FileChange)> {
        let mut all = Vec::new();
        for (number, nested) in self.progress.made_now() {
            let call = &nested.call;
            let returned = call.returned().is_some();
            let Some(work) = call.work_within(work, number).filter(|_| returned) else {
                continue;
            };
            all.extend(call.nested_files(work));
            all.extend(call.progress.files.iter().map(|change| (work, change)));
        }
        all
    }

    /// Returns the work that this call is, as the call with this number within `outer`.
    pub(crate) fn work_within(&self, outer: Work, number: u16) -> Option<Work> {
        let Work::ToolCall {
            turn, call, nested, ..
        } = outer
        else {
            return None;
        };
        self.work(turn, call, nested.with(number)?)
    }

    /// Takes back the results of the calls within this one, because the state that they saw is not the
    /// one that will be committed. They are continued, and served the host calls that they recorded.
    /// What other roles did is kept.
    pub(super) fn reopen_nested(&mut self, fault: &Fault) {
        self.progress.for_each_nested_mut(&mut |call| {
            if call.returned().is_some() && call.called_role().is_none() {
                call.outcome = None;
                call.progress.files.clear();
                call.progress.memory = None;
                call.progress.keeps_calls = fault.keeps_recorded_calls();
                call.phase = Phase::ReadyAfterFault(fault.clone());
            }
        });
    }

    /// Closes the calls within this one that have not ended, because it has ended without them.
    pub(crate) fn close_nested(&mut self) {
        self.progress.for_each_nested_mut(&mut |call| {
            if call.outcome.is_none() {
                call.phase = Phase::Ready;
            }
        });
    }
}

/// Returns whether code made a tool call within another one, at whatever level.
pub fn is_made_in(work: Work, outer: Work) -> bool {
    match (work, outer) {
        (
            Work::ToolCall {
                turn, call, nested, ..
            },
            Work::ToolCall {
                turn: outer_turn,
                call: outer_call,
                nested: path,
                ..
            },
        ) => (turn, call) == (outer_turn, outer_call) && nested.is_within(&path),
        _ => false,
    }
}

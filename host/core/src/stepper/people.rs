//! Requests to humans: when they are opened, and what their answers do. A role that waits for a
//! human does not hold up others.
//!
//! An attempt that asks ends. Once there is an answer, another attempt is made, which is served the
//! answer like any recorded host call. A human role has no actions: it asks about its mail and
//! publishes the answer.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Stepper;
use super::awake::Stand;
use super::names::{Applied, Illegal, ensure};
use crate::activation::{Activation, Phase};
use crate::environment::Environment;
use crate::event::{Event, HostCall, HostCallKind, Outcome, Work};
use crate::id::{RequestId, RoleId};
use crate::message::Draft;
use crate::money::Usd;
use crate::request::{Answer, Request};

impl Stepper {
    /// Returns the id of the request that the current call of a role makes after `before` others.
    pub fn request_id(&self, id: RoleId, before: u32) -> Option<RequestId> {
        let activation = self.env.role(id).activation.as_ref()?;
        Some(request_id(id, activation, before))
    }

    /// Returns the event that ends the current attempt of a role because it asks a human.
    pub fn request_opened(&self, id: RoleId, request: Request) -> Option<Event> {
        let activation = self
            .env
            .role(id)
            .activation
            .as_ref()
            .filter(|a| a.phase == Phase::Running)?;
        let work = activation.work(self.team.role(id))?;
        Some(Event::RequestOpened {
            role: id,
            work,
            request,
        })
    }

    /// Returns the event with the answer to what a role waits for.
    pub fn request_answered(&self, id: RoleId, answer: Answer) -> Option<Event> {
        let activation = self.env.role(id).activation.as_ref()?;
        let Phase::Waiting(request) = &activation.phase else {
            return None;
        };
        if activation.work(self.team.role(id)) == Some(Work::Answer) {
            // A human role needs an answer from a human, so it waits until there is one.
            answer.value()?;
        }
        Some(Event::RequestAnswered {
            role: id,
            request: request.id.clone(),
            answer,
            checkpoint: self.env.next_checkpoint(),
            parent: self.env.checkpoint.clone(),
        })
    }

    /// Returns the event that opens the request of the next human role that has taken its mail.
    pub(super) fn person_asked(&self) -> Option<Event> {
        let id = self.awake.asking()?;
        let activation = self.env.role(id).activation.as_ref()?;
        let request = Request {
            id: request_id(id, activation, 0),
            question: self.question(activation),
            schema: None,
            choices: Vec::new(),
            default: None,
            expires_ms: None,
            call: String::new(),
        };
        Some(Event::RequestOpened {
            role: id,
            work: Work::Answer,
            request,
        })
    }

    /// Returns the mail as a question: the text of the message or, if there are several, each with
    /// its sender.
    fn question(&self, activation: &Activation) -> String {
        match self.env.resolve(&activation.news).as_slice() {
            [message] => message.content.clone(),
            several => {
                let line = |sender: &str, text: &str| format!("{sender}: {text}");
                let sender = |name: &str| {
                    if name.is_empty() {
                        "outside".into()
                    } else {
                        String::from(name)
                    }
                };
                let lines: Vec<_> = several
                    .iter()
                    .map(|m| line(&sender(&m.sent_from), &m.content))
                    .collect();
                lines.join("\n")
            }
        }
    }

    /// Returns whether only answers of humans can advance the open step.
    pub(super) fn waits_for_people(&self) -> bool {
        let (open, waiting) = (self.awake.open(), self.awake.count(Stand::Waiting));
        // If an idle role has mail, the step has to end so that the next one can start.
        open > 0 && open == waiting && self.awake.count(Stand::Mail) == 0
    }

    pub(super) fn open_request(&mut self, id: RoleId, work: Work, request: &Request) -> Applied {
        if work == Work::Answer {
            self.going()?;
            ensure(self.env.open, "a question outside of a step")?;
            ensure(
                self.person_asked()
                    .as_ref()
                    .is_some_and(|event| asks(event, id, request)),
                "a question of nobody's",
            )?;
        } else {
            self.running(id, work)?;
        }
        let activation = self.activation(id)?;
        ensure(
            is_of(&request.id, id, activation),
            "a request under the name of another",
        )?;
        activation.current.keep = true;
        activation.phase = Phase::Waiting(request.clone());
        Ok(())
    }

    pub(super) fn answer_request(&mut self, event: &Event) -> Applied {
        let Event::RequestAnswered {
            role: id,
            request,
            answer,
            checkpoint,
            parent,
        } = event
        else {
            return Ok(());
        };
        self.started_run()?;
        let team = self.team.clone();
        let activation = self.activation(*id)?;
        let role = team.role(*id);
        let open = match &activation.phase {
            Phase::Waiting(open) if open.id == *request => open.clone(),
            _ => return Err(Illegal("an answer to a request that is not open".into())),
        };
        ensure(
            matches!(answer, Answer::Given(_)) || *answer == open.lapse(),
            "a default that was not agreed upon",
        )?;
        match (activation.work(role), answer.value()) {
            (Some(Work::Answer), Some(value)) => {
                let output = Draft {
                    content: value.as_str().into(),
                    data: Some(value.clone()),
                    ..Draft::default()
                };
                self.keep(*id, Work::Answer, &output, &[], &[])?;
                self.activation(*id)?.proceed(role);
            }
            (Some(Work::Answer), None) => {
                return Err(Illegal("a person who has nothing to say".into()));
            }
            _ => {
                let response = answer.record();
                let call = HostCall {
                    kind: HostCallKind::Human,
                    request: open.call,
                    response,
                    cost: Usd::ZERO,
                    tokens: 0,
                    outcome: Outcome::Answered,
                    finish: None,
                };
                activation.current.journal.push(call);
                activation.current.answered = true;
                activation.phase = activation.ready();
            }
        }
        self.mark(checkpoint.clone(), parent.clone());
        Ok(())
    }
}

/// Returns whether an event opens this request for this role.
fn asks(event: &Event, who: RoleId, what: &Request) -> bool {
    matches!(event, Event::RequestOpened { role, request, .. } if *role == who && request == what)
}

/// Returns whether an id is one that the current call of a role can give to a request.
fn is_of(request: &RequestId, id: RoleId, activation: &Activation) -> bool {
    let before = request
        .0
        .rsplit_once('-')
        .and_then(|(_, before)| before.parse().ok());
    before.is_some_and(|before| request_id(id, activation, before) == *request)
}

/// Returns an id derived from the step, the role, the call in its activation, and the number of the
/// request in the call.
fn request_id(id: RoleId, activation: &Activation, before: u32) -> RequestId {
    let place = usize::from(activation.skipped) + activation.done.len() + activation.choices.len();
    RequestId(format!(
        "ask-{}-{}-{place}-{before}",
        activation.opened, id.0
    ))
}

impl Environment {
    /// Returns whether a request that is no longer open may have had this id: the id contains a
    /// step and a role that exist. To be certain, all recorded events would have to be read.
    pub fn may_have_asked(&self, id: &str) -> bool {
        let parts = id
            .strip_prefix("ask-")
            .into_iter()
            .flat_map(|parts| parts.split('-'));
        let parts: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
        matches!(parts.as_deref(), Some([step, role, _, _]) if *step <= self.step && *role < self.roles.len() as u64)
    }
}

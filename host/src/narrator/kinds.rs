//! The kinds of public events and their fields. The reference in the documentation is generated
//! from this list, and debug builds check every public event against it.

use serde_json::{Map, Value};

/// A kind of public event.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The kind's name.
    pub name: &'static str,
    /// When it occurs.
    pub about: &'static str,
    of: Of,
    own: &'static [Field],
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The team, or a part of it that is not a call.
    Team,
    /// A call of an action: the event has the fields `step`, `role`, `index` and `action`.
    Call,
}

/// A field of an event.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The meaning of its value.
    pub about: &'static str,
    /// Whether every event of the kind has it.
    pub presence: Presence,
}

/// Whether a field is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In every event of the kind.
    Always,
    /// Only if it has a value.
    Sometimes,
}

const fn field(name: &'static str, about: &'static str) -> Field {
    Field {
        name,
        about,
        presence: Presence::Always,
    }
}

const fn maybe(name: &'static str, about: &'static str) -> Field {
    Field {
        name,
        about,
        presence: Presence::Sometimes,
    }
}

const fn team(name: &'static str, about: &'static str, own: &'static [Field]) -> Kind {
    Kind {
        name,
        about,
        of: Of::Team,
        own,
    }
}

const fn call(name: &'static str, about: &'static str, own: &'static [Field]) -> Kind {
    Kind {
        name,
        about,
        of: Of::Call,
        own,
    }
}

const STEP: Field = field("step", "the step, from 0");
const ROLE: Field = field("role", "the role");
const INDEX: Field = field(
    "index",
    "the action's place among those of its role, from 0; -1 for what is no action",
);
const ACTION: Field = field(
    "action",
    "the action's name; `think` for a choice, `answer` for a person",
);
const ATTEMPT: Field = field("attempt", "which try it is, from 1, over resumes");
const DIGEST: Field = field(
    "digest",
    "the SHA-256 of the component; null where the host itself does the work",
);
const ID: Field = field("id", "the message");
const REASON: Field = field("reason", "why");
const CHECKPOINT: Field = field("checkpoint", "the checkpoint");
const PARENT: Field = field(
    "parent",
    "the checkpoint before, of the first step the one where the lineage begins; null where there is none",
);
const REQUEST: Field = field("request", "the request");
const WRITES: Field = field("writes", "the writes, as `METHOD URL`");

/// The fields of every event about a call.
const CALL: [Field; 4] = [STEP, ROLE, INDEX, ACTION];

/// All kinds, roughly in the order in which they occur in a run.
pub const KINDS: &[Kind] = &[
    team(
        "run-started",
        "A team begins.",
        &[
            field("run", "the run"),
            field("idea", "what the team is asked to do"),
        ],
    ),
    team(
        "run-resumed",
        "A saved team goes on.",
        &[
            field("checkpoint", "where from; null for no checkpoint"),
            STEP,
        ],
    ),
    team(
        "forked",
        "Another lineage begins.",
        &[
            field("lineage", "its name"),
            field("checkpoint", "its first checkpoint"),
            field("parent", "where it begins"),
        ],
    ),
    team(
        "component-changed",
        "A component is another one than before.",
        &[
            ROLE,
            ACTION,
            field(
                "old",
                "the SHA-256 of the one before; null where there was none",
            ),
            field("new", "its SHA-256"),
        ],
    ),
    team("step-started", "A step begins.", &[STEP]),
    team(
        "message-routed",
        "A message gets to its recipients.",
        &[
            ID,
            field(
                "from",
                "the role that sent it; empty for messages from outside",
            ),
            field("to", "roles, then joins"),
            field("cause_by", "its label"),
            maybe("outside", "names outside of the team that it goes to"),
        ],
    ),
    team(
        "message-dropped",
        "A message goes to nobody: no route's condition holds, or the leg of its itinerary names nobody.",
        &[ID, field("from", "the role that sent it"), REASON],
    ),
    team(
        "dead-letter",
        "A message is for a name that stands for nobody.",
        &[ID, field("to", "the name"), REASON],
    ),
    team(
        "message-handed-over",
        "A message has left for the world outside.",
        &[ID],
    ),
    team(
        "message-not-handed-over",
        "A message could not leave for the world outside.",
        &[ID, REASON],
    ),
    team(
        "join-buffered",
        "A message waits in a join.",
        &[
            field("join", "the join"),
            field("from", "the role that sent it"),
            ID,
        ],
    ),
    team(
        "join-released",
        "A join hands on what it holds.",
        &[
            field("join", "the join"),
            field("messages", "the messages"),
            field("to", "roles, then joins"),
        ],
    ),
    team(
        "plugin-instantiated",
        "A component is instantiated, for one attempt.",
        &[ROLE, INDEX, ACTION, DIGEST],
    ),
    team(
        "think",
        "A role has chosen what to do next.",
        &[ROLE, field("choice", "the index of an action; -1 to end")],
    ),
    call("action-started", "An attempt begins.", &[ATTEMPT, DIGEST]),
    call(
        "writes-forgotten",
        "An attempt starts afresh and may make writes again that are recorded.",
        &[WRITES],
    ),
    call(
        "host-call-begun",
        "A write over HTTP is about to be made.",
        &[
            field("call", "what is called: `http`"),
            field("what", "the request, in a few words"),
        ],
    ),
    call(
        "host-call",
        "A call of the host has returned.",
        &[
            field(
                "call",
                "what was called: `llm`, `http`, `human`, `clock`, `random`, …",
            ),
            field(
                "source",
                "`live`, or `recorded` where an earlier attempt's was served",
            ),
            field("cost", "in USD; 0 for what was served"),
            field("what", "what was asked, in a line"),
            maybe(
                "finish",
                "how a model's reply ended: `stop`, `length` (it was truncated), `tool-calls`, `refusal` (or filtered), \
                 `other`",
            ),
        ],
    ),
    call(
        "writes-unclaimed",
        "An attempt did not make writes again that were recorded.",
        &[WRITES],
    ),
    call(
        "doubt-settled",
        "The operator has decided about a write whose result is unknown.",
        &[
            field("what", "the request"),
            field("verdict", "`redo` or `answered`"),
        ],
    ),
    call(
        "request-opened",
        "A person is asked.",
        &[
            REQUEST,
            field("question", "what is asked"),
            maybe("schema", "the JSON Schema of the answer"),
            maybe("choices", "the answers there are"),
            maybe("default", "the answer that is taken when time is over"),
            maybe("expires", "when that is"),
        ],
    ),
    team(
        "request-answered",
        "A request has its answer.",
        &[
            ROLE,
            REQUEST,
            field(
                "by",
                "who answered: `person`, or `default` and `nobody` when time is over",
            ),
            CHECKPOINT,
            maybe("answer", "the answer"),
        ],
    ),
    call(
        "action-suspended",
        "An attempt ended to wait for money.",
        &[ATTEMPT, field("reason", "`out-of-budget`")],
    ),
    call(
        "action-finished",
        "An action has its result, durably.",
        &[
            ATTEMPT,
            DIGEST,
            field("output", "`content`, `data`, `to`; `tasks` of a plan"),
        ],
    ),
    call(
        "action-failed",
        "An attempt failed.",
        &[
            ATTEMPT,
            field("fault", "the kind of the fault"),
            field(
                "cause",
                "why it failed, as far as the host knows; `declared`: the action said so itself",
            ),
            field("message", "what was attempted, and why it failed"),
            DIGEST,
            field("backtrace", "the guest's stack, innermost first"),
            maybe("retry_ms", "after which pause it is tried again by itself"),
        ],
    ),
    call(
        "action-replayed",
        "A saved result is used instead of running the action.",
        &[],
    ),
    call(
        "files-written",
        "An action has written files, with its result.",
        &[field(
            "files",
            "each with `path`, `change` (`written`, `made`, `removed`), `bytes` and `digest`",
        )],
    ),
    team(
        "file-kept",
        "What somebody else put where an action wrote is kept beside.",
        &[
            field("path", "the file"),
            field("kept", "where the other one is"),
        ],
    ),
    team(
        "step-committed",
        "A step's results take effect.",
        &[STEP, CHECKPOINT, PARENT],
    ),
    team(
        "run-ended",
        "The run ends.",
        &[
            field("status", "how"),
            maybe("checkpoint", "the checkpoint it leaves"),
        ],
    ),
];

impl Kind {
    /// Returns the fields other than `n`, `time` and `kind`, which every event has.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        let shared: &[Field] = if self.of == Of::Call { &CALL } else { &[] };
        shared.iter().chain(self.own)
    }
}

/// Returns whether an event matches the list: its kind is listed, it has all required fields, and
/// it has no others.
pub(super) fn fits(kind: &str, fields: &Map<String, Value>) -> bool {
    let Some(kind) = KINDS.iter().find(|listed| listed.name == kind) else {
        return false;
    };
    let needed = kind
        .fields()
        .filter(|field| field.presence == Presence::Always);
    let known = |name: &String| kind.fields().any(|field| field.name == name.as_str());
    needed
        .into_iter()
        .all(|field| fields.contains_key(field.name))
        && fields.keys().all(known)
}

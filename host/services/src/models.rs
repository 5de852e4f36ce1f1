//! Language models: the types of requests and replies, and the providers that answer them.
//!
//! A team has several models by name; `registry` chooses the one that answers. Models behind HTTP
//! share `endpoint`, and what is particular to a provider is its protocol. The driver decides what a
//! call may cost, whether an action may make it, and whether it is replayed. The manifest parses
//! `[llm]` and `[model.NAME]`.

pub mod action_choice;
mod charge;
pub mod config;
mod embedding;
mod endpoint;
mod error_text;
mod media;
mod model_request;
mod outbound;
mod protocol;
mod rate_limit;
mod record;
mod registry;
mod reply_check;
mod reply_json;
mod request_size;
mod request_span;
pub mod scripted;
mod stream_observer;
mod surrogate;
mod tally;
mod think_tags;
mod tokens;

pub use charge::Charge;
pub use embedding::{EmbedCall, EmbedRequest, Embeddings};
pub use media::{NOT_AN_IMAGE, describe as describe_media, describe_named as describe_named_media};
pub use model_request::{
    IfTooLong, ModelBatch, ModelReply, ModelRequest, ToolDefinition, user_message,
};
pub use outbound::no_model_error;
pub use protocol::{ExcludedOption, allows_forced_choice, arguments_schema, check_settings};
pub use record::LINE_BEGINNING as RECORD_BEGINNING;
pub use registry::{
    CompletedCall, CompletedEmbedding, FailedCall, ModelCall, ModelCaller, Models, ReadReplies,
};
pub use reply_check::{read_answer, shorten_reason};
pub use request_size::{MAX_MEDIA_BYTES, check_media};
pub use strata_core::record::host_call::FinishReason;
pub use stream_observer::{
    DispatchState, ObservedCall, StreamEvent, StreamListener, StreamObserver, StreamObserverFactory,
};
pub use tally::{ModelTally, ProviderCounts};

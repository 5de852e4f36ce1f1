//! What is recorded about a run, and the values that records consist of. Records are encoded by
//! position, so the order of fields and variants is part of their format. Nothing here uses the
//! rest of the core.

pub mod asking_call;
pub mod conversation;
pub mod edit;
pub mod event;
pub mod fault;
pub mod file;
pub mod host_call;
pub mod human_request;
pub mod id;
pub mod json;
pub mod lineage;
pub mod memory;
pub mod message;
pub mod money;
pub mod nested_path;
pub mod questions;
pub mod role_call;
pub mod rules;
pub mod scope_write;
pub mod server_tool;
pub mod shape;
pub mod spending;
pub mod turn;
pub mod work;

//! What several examples are made of.

use strata_core::record::event::{AttemptEvent, Event};
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::work::{CallKey, Work};

pub(super) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| String::from(*text)).collect()
}

pub(super) fn of_call(work: Work, event: AttemptEvent) -> Event {
    Event::Attempt(CallKey::new(RoleId(1), work), event)
}

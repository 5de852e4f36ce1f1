//! The host functions for state. The driver answers reads; writes are kept until the attempt
//! succeeds.

use strata_core::environment::scope::{Change, ROLE_SCOPE, Write};
use strata_core::json::Json;

use super::{Ctx, Reply, invalid, name_fits, short, undescribed, unexpected};
use crate::gateway::{Answer, Ask};
use crate::sandbox::bindings::state;
use crate::sandbox::convert;

impl Ctx {
    /// Records a write if the scope exists, which is checked once per scope.
    async fn record(&mut self, function: &'static str, write: Write) -> Reply<()> {
        let fits = name_fits("scope", &write.scope).and_then(|()| name_fits("key", &write.key));
        if let Err(refusal) = self.refuse_effects().and(fits) {
            return Ok(Err(refusal));
        }
        if write.scope != ROLE_SCOPE && !self.known_scopes.contains(&write.scope) {
            // Does not request the current value, which may be large.
            let (scope, key) = (write.scope.clone(), write.key.clone());
            let question = Ask::Get {
                scope,
                key,
                seen: Some(None),
                pending: Vec::new(),
            };
            if let Err(refusal) = self.value(function, question).await? {
                return Ok(Err(refusal));
            }
            self.known_scopes.insert(write.scope.clone());
        }
        let value = match &write.change {
            Change::Set(json) => json.as_str().len() as u64,
            Change::Delete => 0,
        };
        let names = convert::item_bytes(&write.scope) + convert::item_bytes(&write.key);
        self.count_output("a write to `state`", names + value)?;
        self.places
            .entry((write.scope.clone(), write.key.clone()))
            .or_default()
            .written
            .push(self.writes.len());
        self.writes.push(write);
        Ok(Ok(()))
    }

    async fn value(&mut self, function: &'static str, ask: Ask) -> Reply<Option<Json>> {
        match self.ask(function, ask).await? {
            None => Ok(Err(undescribed(function))),
            Some(Answer::Value(value)) => Ok(value.map_err(convert::host_error)),
            Some(other) => unexpected(function, &other),
        }
    }
}

/// A key of a scope that the attempt has written.
#[derive(Default)]
pub(super) struct Place {
    /// The value that was read last, with the writes up to then applied.
    seen: Option<Option<Json>>,
    /// The indices of the writes since then among all writes of the attempt.
    written: Vec<usize>,
}

impl state::Host for Ctx {
    async fn get(&mut self, scope: String, key: String) -> Reply<Option<String>> {
        const NAME: &str = "state.get";
        self.count(NAME, 1)?;
        if let Err(refusal) = name_fits("scope", &scope).and_then(|()| name_fits("key", &key)) {
            return Ok(Err(refusal));
        }
        let at = (scope, key);
        let (seen, pending) = self.places.get(&at).map_or((None, Vec::new()), |place| {
            (
                place.seen.clone(),
                place
                    .written
                    .iter()
                    .map(|index| self.writes[*index].clone())
                    .collect(),
            )
        });
        let question = Ask::Get {
            scope: at.0.clone(),
            key: at.1.clone(),
            seen,
            pending,
        };
        let value = self.value(NAME, question).await?;
        if let (Ok(value), Some(place)) = (&value, self.places.get_mut(&at)) {
            *place = Place {
                seen: Some(value.clone()),
                written: Vec::new(),
            };
        }
        Ok(value.map(|json| json.map(|json| json.as_str().to_owned())))
    }

    async fn set(&mut self, scope: String, key: String, value: String) -> Reply<()> {
        self.count("state.set", 1)?;
        self.count_bytes("state.set", (scope.len() + key.len() + value.len()) as u64)?;
        let change = match Json::parse(&value) {
            Ok(json) => Change::Set(json),
            Err(error) => {
                return Ok(Err(invalid(format!(
                    "cannot set `{}`: the value is {error}",
                    short(&key)
                ))));
            }
        };
        self.record("state.set", Write { scope, key, change }).await
    }

    async fn delete(&mut self, scope: String, key: String) -> Reply<()> {
        self.count("state.delete", 1)?;
        self.count_bytes("state.delete", (scope.len() + key.len()) as u64)?;
        let change = Change::Delete;
        self.record("state.delete", Write { scope, key, change })
            .await
    }

    async fn keys(&mut self, scope: String) -> Reply<Vec<String>> {
        const NAME: &str = "state.keys";
        self.count(NAME, 1)?;
        if let Err(refusal) = name_fits("scope", &scope) {
            return Ok(Err(refusal));
        }
        let pending = self
            .writes
            .iter()
            .filter(|write| write.scope == scope)
            .cloned()
            .collect();
        match self.ask(NAME, Ask::Keys { scope, pending }).await? {
            None => Ok(Err(undescribed(NAME))),
            Some(Answer::Keys(keys)) => Ok(keys.map_err(convert::host_error)),
            Some(other) => unexpected(NAME, &other),
        }
    }
}

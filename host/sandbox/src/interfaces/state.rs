//! `state`: the host functions for state. It needs no grant. The driver answers reads; writes are kept
//! until the attempt succeeds.

use strata_core::record::json::Json;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_services::gateway::{EnvironmentRequest, GuestRequest, HostAnswer};

use crate::bindings::state;
use crate::convert;
use crate::ctx::{
    Ctx, HostResult, check_name, invalid, unavailable_in_describe, unexpected_answer,
};

impl state::Host for Ctx {
    async fn get(&mut self, scope: String, key: String) -> HostResult<Option<String>> {
        const NAME: &str = "state.get";
        self.count_calls(NAME, 1)?;
        if let Err(refusal) = check_name("scope", &scope).and_then(|()| check_name("key", &key)) {
            return Ok(Err(refusal));
        }
        let at = (scope, key);
        let (last_read, pending) = self.state_writes.of_key(&at);
        let question = EnvironmentRequest::Get {
            scope: at.0.clone(),
            key: at.1.clone(),
            last_read,
            pending,
        };
        let value = self.request_value(NAME, question).await?;
        if let Ok(value) = &value {
            self.state_writes.note_read(&at, value);
        }
        Ok(value.map(|json| json.map(|json| json.as_str().to_owned())))
    }

    async fn set(&mut self, scope: String, key: String, value: String) -> HostResult<()> {
        self.count_calls("state.set", 1)?;
        self.count_bytes("state.set", (scope.len() + key.len() + value.len()) as u64)?;
        let change = match Json::parse(&value) {
            Ok(json) => ScopeChange::Set(json),
            Err(error) => {
                return Ok(Err(invalid(format!(
                    "cannot set `{}`: the value is {error}",
                    truncate_name(&key)
                ))));
            }
        };
        self.record_write("state.set", Write { scope, key, change })
            .await
    }

    async fn delete(&mut self, scope: String, key: String) -> HostResult<()> {
        self.count_calls("state.delete", 1)?;
        self.count_bytes("state.delete", (scope.len() + key.len()) as u64)?;
        let change = ScopeChange::Delete;
        self.record_write("state.delete", Write { scope, key, change })
            .await
    }

    async fn keys(&mut self, scope: String) -> HostResult<Vec<String>> {
        const NAME: &str = "state.keys";
        self.count_calls(NAME, 1)?;
        if let Err(refusal) = check_name("scope", &scope) {
            return Ok(Err(refusal));
        }
        let pending = self.state_writes.of_scope(&scope);
        match self
            .request(
                NAME,
                GuestRequest::Environment(EnvironmentRequest::Keys { scope, pending }),
            )
            .await?
        {
            None => Ok(Err(unavailable_in_describe(NAME))),
            Some(HostAnswer::Keys(keys)) => Ok(keys.map_err(convert::host_error)),
            Some(other) => unexpected_answer(NAME, &other),
        }
    }
}

impl Ctx {
    /// Records a write if the scope exists, which is checked once per scope.
    async fn record_write(&mut self, function: &'static str, write: Write) -> HostResult<()> {
        let fits = check_name("scope", &write.scope).and_then(|()| check_name("key", &write.key));
        if let Err(refusal) = self.check_effects_allowed().and(fits) {
            return Ok(Err(refusal));
        }
        if !self.state_writes.is_known(&write.scope) {
            // Does not request the current value, which may be large.
            let (scope, key) = (write.scope.clone(), write.key.clone());
            let question = EnvironmentRequest::Get {
                scope,
                key,
                last_read: Some(None),
                pending: Vec::new(),
            };
            if let Err(refusal) = self.request_value(function, question).await? {
                return Ok(Err(refusal));
            }
            self.state_writes.add_known(&write.scope);
        }
        let value = match &write.change {
            ScopeChange::Set(json) => json.as_str().len() as u64,
            ScopeChange::Delete => 0,
        };
        let names = convert::item_bytes(&write.scope) + convert::item_bytes(&write.key);
        self.count_output("a write to `state`", names + value)?;
        self.state_writes.add(write);
        Ok(Ok(()))
    }

    async fn request_value(
        &mut self,
        function: &'static str,
        ask: EnvironmentRequest,
    ) -> HostResult<Option<Json>> {
        match self
            .request(function, GuestRequest::Environment(ask))
            .await?
        {
            None => Ok(Err(unavailable_in_describe(function))),
            Some(HostAnswer::Value(value)) => Ok(value.map_err(convert::host_error)),
            Some(other) => unexpected_answer(function, &other),
        }
    }
}

/// Returns the start of a name of any length.
fn truncate_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

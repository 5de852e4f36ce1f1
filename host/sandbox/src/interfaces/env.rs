//! `env`: the host function for variables of the environment, whose values a guest reads if they are
//! granted.

use std::env::VarError;

use strata_core::record::host_call::Grant;

use crate::bindings::env;
use crate::ctx::{Ctx, HostResult, check_name, invalid};

impl env::Host for Ctx {
    fn get(&mut self, name: String) -> HostResult<Option<String>> {
        self.count_calls("env.get", 1)?;
        if let Err(refusal) = check_name("name", &name) {
            return Ok(Err(refusal));
        }
        if !self.capabilities.grants().env.contains(&name) {
            let message = format!("the variable `{name}` is not granted; add it to `allow.env`");
            return Ok(Err(self.deny(Grant::Env, message)));
        }
        match self.capabilities.variables().get(&name) {
            Ok(value) => {
                self.count_bytes("env.get", value.len() as u64)?;
                Ok(Ok(Some(value)))
            }
            Err(VarError::NotPresent) => Ok(Ok(None)),
            Err(VarError::NotUnicode(_)) => Ok(Err(invalid(format!(
                "cannot read the variable `{name}`: it is not UTF-8"
            )))),
        }
    }
}

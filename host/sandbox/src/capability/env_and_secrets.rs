//! The host functions for variables, whose values a guest may read if they are granted, and for
//! secrets, whose values it never sees.

use strata_core::record::host_call::Grant;
use strata_services::http::secret::placeholder;

use super::super::bindings::{env, secrets};
use super::super::ctx::{Ctx, HostResult, check_name, invalid};

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
            Err(std::env::VarError::NotPresent) => Ok(Ok(None)),
            Err(std::env::VarError::NotUnicode(_)) => Ok(Err(invalid(format!(
                "cannot read the variable `{name}`: it is not UTF-8"
            )))),
        }
    }
}

impl secrets::Host for Ctx {
    fn placeholder(&mut self, name: String) -> HostResult<String> {
        self.count_calls("secrets.placeholder", 1)?;
        if let Err(refusal) = check_name("name", &name) {
            return Ok(Err(refusal));
        }
        let is_granted = self
            .capabilities
            .grants()
            .secrets()
            .any(|granted| *granted == name);
        if !is_granted {
            let message = format!("the secret `{name}` is not granted; add it to `allow.secrets`");
            return Ok(Err(self.deny(Grant::Secrets, message)));
        }
        Ok(Ok(placeholder(&name)))
    }
}

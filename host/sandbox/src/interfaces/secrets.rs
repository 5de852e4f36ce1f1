//! `secrets`: the host function for secrets that are granted, whose values a guest never sees.

use strata_core::record::host_call::Grant;
use strata_services::http::secrets::placeholder;

use crate::bindings::secrets;
use crate::ctx::{Ctx, HostResult, check_name};

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

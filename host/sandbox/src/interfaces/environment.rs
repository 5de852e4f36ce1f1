//! `environment`: the host function that publishes messages. It needs no grant. Messages are kept until
//! the attempt succeeds.

use crate::bindings::environment;
use crate::convert;
use crate::ctx::{Ctx, HostResult, invalid};
use crate::media::bytes_from_guest;

impl environment::Host for Ctx {
    fn emit(&mut self, emission: environment::Emission) -> HostResult<()> {
        self.count_calls("environment.emit", 1)?;
        if let Err(refusal) = self.check_effects_allowed() {
            return Ok(Err(refusal));
        }
        self.count_bytes("environment.emit", convert::emission_input_bytes(&emission))?;
        let media_bytes = bytes_from_guest(&emission.parts);
        let draft = match convert::emission(emission, &mut self.media) {
            Ok(draft) => draft,
            Err(error) => return Ok(Err(invalid(format!("cannot emit: {error}")))),
        };
        let bytes = convert::emission_bytes(&draft) + media_bytes;
        self.count_output("`environment.emit`", bytes)?;
        self.emissions.push(draft);
        Ok(Ok(()))
    }
}

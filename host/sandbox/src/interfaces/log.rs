//! `log`: the host function for lines of the log. It needs no grant.

use crate::bindings::log;
use crate::ctx::Ctx;
use crate::log::LogLevel;

impl log::Host for Ctx {
    // Not counted as a host call: the log has its own limit, and reaching that is no fault.
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        self.log().write(level, &message);
        Ok(())
    }
}
